"""Reading tensors of PyTorch: of distributed tensors the elements of this rank."""

import sys

import numpy as np
import torch

from msprobe.base.framework import AnyTensor, elements_of
from msprobe.base.statistic import Array

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Tensors that have their elements themselves; other subclasses may consist of further tensors."""

_DISTRIBUTED = ("torch.distributed.tensor", "torch.distributed._tensor")
"""The module of `DTensor`, from 2.5 on and before."""


def is_distributed(tensor: AnyTensor) -> bool:
    """Return whether a tensor is a `DTensor`, of which each rank holds a shard."""
    for name in _DISTRIBUTED:
        kind = getattr(sys.modules.get(name), "DTensor", None)
        if isinstance(kind, type):
            return isinstance(tensor, kind)
    return False


def local_part(tensor: AnyTensor) -> AnyTensor:
    """Return the elements that this rank holds of a distributed tensor, and any other tensor itself.

    Nothing is communicated, and no node is added to the autograd graph. The result of a collective that still runs is
    waited for, as by any other use.
    """
    if is_distributed(tensor):
        tensor = tensor._local_tensor
    return tensor.trigger_wait() if type(tensor).__name__ == "AsyncCollectiveTensor" else tensor


def array_of(tensor: torch.Tensor) -> Array:
    """Return the elements of a tensor, possibly in shared memory: read them immediately, and do not change them.

    The dtype is that of the tensor if NumPy supports it, else float32 or complex64. Of a distributed tensor the
    elements of this rank are returned.
    """
    tensor = (tensor if type(tensor) in PLAIN else local_part(tensor)).detach()
    if tensor.dtype.is_floating_point and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
        tensor = tensor.float()
    elif tensor.dtype is torch.complex32:
        tensor = tensor.to(torch.complex64)
    is_readable = tensor.is_cpu and tensor.layout is torch.strided and not tensor._is_zerotensor()
    if is_readable and type(tensor) is torch.Tensor:
        # Not with `tensor.numpy()`, after which the storage can no longer be resized.
        to_dlpack = torch.utils.dlpack.to_dlpack  # type: ignore[attr-defined]  # public, but not in its `__all__`
        is_bool = tensor.dtype is torch.bool  # not supported by NumPy 1.24
        tensor = tensor.view(torch.uint8) if is_bool else tensor.resolve_conj().resolve_neg()
        array = elements_of(to_dlpack(tensor))
        return array.view(np.bool_) if is_bool else array
    return np.asarray(tensor.numpy(force=True))
