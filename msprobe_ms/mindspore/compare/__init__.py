"""Module paths of the functions for comparison in msprobe 8.1."""
