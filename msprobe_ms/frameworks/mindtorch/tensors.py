"""Tensors with PyTorch's API on MindSpore: the same as with MindSpore."""

from msprobe.frameworks.mindspore.tensors import CAPABILITY

__all__ = ["CAPABILITY"]
