"""Word problems and school algebra, one file for each group of families."""
