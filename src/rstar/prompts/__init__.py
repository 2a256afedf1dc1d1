"""Templates: how each method prompts for steps. Only text; no imports from other packages of `rstar`."""
