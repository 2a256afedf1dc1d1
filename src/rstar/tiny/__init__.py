"""Synthetic problems with exact answers, and the bundled model that was trained on them by ordinary recipes."""
