"""The capabilities of PyTorch's API on MindSpore (MSAdapter, MindTorch).

Tensors, autograd and execution are those of `msprobe.frameworks.mindspore`; modules, their names and the functions that
users call are those of PyTorch.
"""
