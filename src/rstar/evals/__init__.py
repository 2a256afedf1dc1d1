"""Measuring: runs over problem files, metrics with intervals, comparisons at equal cost."""
