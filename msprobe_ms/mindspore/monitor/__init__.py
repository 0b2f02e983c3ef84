"""Module paths of the monitor in msprobe."""
