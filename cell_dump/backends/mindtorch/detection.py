"""Whether `torch` is PyTorch's API on MindSpore in this process.

Nothing is imported to find out, and no tensor is made: PyTorch itself stays unloaded where only MindSpore is used, and
a device untouched. Such a layer takes MindSpore's tensors for its own, so its class of tensors is MindSpore's or a
subclass of it; that of PyTorch never is.
"""

import sys


def torch_on_mindspore() -> bool:
    """Whether the `torch` that this process has imported is one whose tensors are MindSpore's."""
    theirs, ours = (getattr(sys.modules.get(name), "Tensor", None) for name in ("torch", "mindspore"))
    return isinstance(theirs, type) and isinstance(ours, type) and issubclass(theirs, ours)
