"""Kernel dump at level L2: the framework's own dump, told what to write, switched on and off with the steps."""
