"""Reading of answers: from text to a value."""
