"""Kernel dump at level L2: the framework's own dump, configured, and switched on and off with the steps."""
