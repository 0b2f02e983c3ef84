"""Module path of `seed_all` for PyTorch in msprobe 8.1."""
