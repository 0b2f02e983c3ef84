"""A tensor's elements as a numpy array, without copying where that can be.

`asnumpy` shares the memory of a contiguous tensor, but has the framework copy a view (a transpose, a slice), which
costs fifty times what reading it costs. DLPack gives such a view with its strides.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor

from msprobe.base.framework import elements_of

HAS_ADDRESSES = tuple(map(int, ms.__version__.split(".")[:2])) >= (2, 8)
"""Whether a contiguous tensor's address is where its elements lie; MindSpore 2.7 leaves a view's offset out."""

if HAS_ADDRESSES:
    from mindspore.utils import to_dlpack
else:
    to_dlpack = None  # views are copied by the framework; the function of 2.7.1 refuses tensors of a CPU

DRAINS = hasattr(Tensor, "_grad_node")
"""Whether any look at a tensor waits for all that is queued: MindSpore 2.7.1 and later."""

_SHARED = frozenset((ms.float16, ms.float32, ms.float64, ms.int8, ms.int16, ms.int32, ms.int64, ms.uint8))
"""What the framework's DLPack knows; bool, complex and bfloat16 are not among it."""


def array_of(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The elements, in memory that may be the tensor's own: to be read at once, and neither kept nor changed."""
    if to_dlpack is None or tensor.is_contiguous() or tensor.dtype not in _SHARED or tensor.device != "CPU":
        return tensor.asnumpy()  # type: ignore[no-any-return]  # the framework has no types
    return elements_of(to_dlpack(tensor))


def settle(tensors: Sequence[tuple[str, Tensor]]) -> None:
    """Wait until the tensors are computed, and let the training's own errors out.

    In the asynchronous pipeline the framework raises what went wrong at the first look at a result, once. Where that
    look is ours, the error must still reach the training: so this stands outside everything that keeps our own errors
    from it. `wait_pipeline` of a tensor that no operation has touched yet waits for nothing, but to read it waits for
    everything that is queued, and would raise there.
    """
    if not DRAINS:
        for _, tensor in tensors:
            if isinstance(tensor, Tensor):  # one of another framework is computed
                tensor.wait_pipeline()
    elif tensors:
        drain()


def drain() -> None:
    """Wait for everything that is queued, and let the training's own errors out."""
    _bystander().data_ptr()


@cache
def _bystander() -> Tensor:
    """A tensor of nobody: asking for its address raises no error but the training's."""
    return Tensor(0.0)
