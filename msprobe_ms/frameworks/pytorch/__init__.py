"""The capabilities of PyTorch."""
