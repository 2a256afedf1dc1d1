"""Self-evolution: search trees with verified ends become training data (arXiv 2501.04519, section 3.4)."""
