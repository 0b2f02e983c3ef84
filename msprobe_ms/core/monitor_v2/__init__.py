"""Module path of the second monitor in msprobe 26."""
