"""Comparison of two readings for equality."""
