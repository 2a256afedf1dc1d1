"""Viewing runs: reads run folders, and does not know how they were made."""
