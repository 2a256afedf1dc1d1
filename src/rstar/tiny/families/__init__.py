"""Word problems and school algebra, one file per group of families."""
