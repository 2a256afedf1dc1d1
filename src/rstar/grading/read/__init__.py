"""What an answer says: from its text to a value."""
