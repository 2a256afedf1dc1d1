"""The process preference model (PPM): inputs, model and scoring."""
