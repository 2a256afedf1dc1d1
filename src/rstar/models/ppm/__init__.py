"""The process preference model: its inputs, the model, and scoring with it."""
