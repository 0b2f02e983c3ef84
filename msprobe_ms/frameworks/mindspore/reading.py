"""Reading tensors of MindSpore: elements without a copy where possible, and waiting for queued operations.

`asnumpy` shares the memory of a contiguous tensor, but copies a view (a transpose, a slice, also a reshape), which
takes up to fifty times as long as reading it. DLPack returns a view with its strides.
"""

from collections.abc import Sequence
from functools import cache
from operator import methodcaller

import mindspore as ms
import numpy as np
from mindspore import Tensor

from msprobe.base.errors import UsageError
from msprobe.base.framework import elements_of
from msprobe.base.statistic import Array

HAS_ADDRESSES = tuple(map(int, ms.__version__.split(".")[:2])) >= (2, 8)
"""Whether the address of a contiguous tensor is that of its elements; MindSpore 2.7 omits the offset of a view."""

if HAS_ADDRESSES:
    from mindspore.utils import to_dlpack
else:
    to_dlpack = None  # the framework copies views; the function of 2.7.1 rejects tensors on a CPU

DRAINS = hasattr(Tensor, "_grad_node")
"""Whether reading any tensor waits for all queued operations: MindSpore 2.7.1 and later."""

DEVICES = ("Ascend", "GPU")
"""Devices for which reading a tensor waits; selected at `start`."""

_SHARED = frozenset((ms.float16, ms.float32, ms.float64, ms.int8, ms.int16, ms.int32, ms.int64, ms.uint8))
"""The dtypes that the framework's DLPack supports; bool, complex and bfloat16 are not among them."""

TensorBase = Tensor.__mro__[1]
"""The base class of `Tensor` in C, which the methods in Python call."""

address_of = getattr(TensorBase, "_data_ptr", methodcaller("data_ptr"))


def array_of(tensor: Tensor) -> Array:
    """Return the elements, possibly in memory of the tensor: read them immediately, and do not change them."""
    if to_dlpack is None or tensor.dtype not in _SHARED or tensor.device != "CPU":
        return tensor.asnumpy()
    return elements_of(to_dlpack(tensor))


def array_to_save(tensor: Tensor) -> Array:
    """Return the elements as `asnumpy` does: contiguous, and bfloat16 in the dtype that MindSpore registers with NumPy.

    Raises UsageError for a tensor that is not initialized.
    """
    if tensor.has_init:
        raise UsageError("the tensor has no data yet, only an initializer; call its init_data() first")
    return np.asarray(tensor.asnumpy())


def settle(tensors: Sequence[tuple[str, Tensor]]) -> None:
    """Wait until the tensors are computed, and raise errors of the training.

    In the asynchronous pipeline, the framework raises an error once, when a result is first read. If this tool reads
    it first, the error must still reach the training: call this outside of code that catches errors of msprobe.
    `wait_pipeline` of a tensor that no operation has used does not wait, but reading it waits for all queued
    operations, and would raise there.
    """
    if DRAINS:
        if tensors:
            address_of(_unused_tensor())  # as `drain`
        return
    for _, tensor in tensors:
        if isinstance(tensor, Tensor):  # a tensor of another framework is computed
            tensor.wait_pipeline()


def drain(_: object = None) -> None:
    """Wait for all queued operations, and raise errors of the training."""
    address_of(_unused_tensor())


@cache
def _unused_tensor() -> Tensor:
    """Return a tensor that no operation uses: reading its address raises only errors of the training."""
    return Tensor(0.0)
