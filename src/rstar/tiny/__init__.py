"""Synthetic problems with exact answers, and the bundled model, trained on them by ordinary recipes."""
