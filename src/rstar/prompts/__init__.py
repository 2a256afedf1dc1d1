"""Templates: how each method asks for its steps. No logic beyond text, no imports from the rest of the house."""
