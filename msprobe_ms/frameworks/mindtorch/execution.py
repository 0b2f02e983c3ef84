"""Executing calls again with PyTorch's API on MindSpore: the same as with MindSpore."""

from msprobe.frameworks.mindspore.execution import CAPABILITY

__all__ = ["CAPABILITY"]
