"""PyTorch's API on MindSpore (MSAdapter, MindTorch) behind the collector's interface, `msprobe.cell_dump.framework`.

Tensors, autograd and execution are MindSpore's, so this stands on `backends.mindspore`; modules, their names and the
functions that a user calls are those of PyTorch.
"""
