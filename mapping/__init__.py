"""Floor 2: which name is which."""
