"""The place where msprobe 8.1 has its callbacks and `seed_all`."""
