"""The place where msprobe 8.1 has `seed_all` for PyTorch."""
