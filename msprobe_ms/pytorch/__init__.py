"""What is done with PyTorch's dumps, also where PyTorch is not installed: `from msprobe.pytorch import compare`."""

from msprobe.compare.entry import compare, compare_distributed

__all__ = ["compare", "compare_distributed"]
