"""Module paths of the tools of the training monitor in msprobe."""
