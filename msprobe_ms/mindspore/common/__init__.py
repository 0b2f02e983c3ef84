"""Module path of the callbacks and `seed_all` in msprobe 8.1."""
