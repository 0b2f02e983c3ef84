"""The framework's own operator that writes a tensor to a file, for devices whose graphs cannot call Python.

Written against the documented interface of `ops.TensorDump`; it has no kernel on a CPU, and was run nowhere else.
"""

import mindspore as ms
from mindspore import Tensor, ops

from .operators import wide
from .runtime import synchronize

dump = ops.TensorDump()
"""Writes `{path}_{dtype}_{number}.npy`; in the path it replaces `{step}` and `{rank}`."""

_dump_gradient = ops.TensorDump()
# In a backward the order of side effects would be a circle; there a gradient waits for its own file alone.
_dump_gradient.add_prim_attr("side_effect_io", False)
_dump_gradient.add_prim_attr("td_flag", True)

_NEXT_STEP = "<tensordump-update-step>"
"""The path at which it begins its next step."""


def next_step() -> None:
    """Have the operator count its step, when all it was given is written."""
    synchronize()
    dump(_NEXT_STEP, Tensor(0.0))
    synchronize()


@ms.jit_class
class GradientDump:
    """Gives a tensor back, and has the gradient that flows back to it written. Made anew at each place."""

    def __init__(self, path: str) -> None:
        self._insert = ops.InsertGradientOf(_writing(path))

    def __call__(self, tensor: Tensor) -> Tensor:
        return self._insert(tensor)


def _writing(path):  # type: ignore[no-untyped-def]  # compiled code
    def write(gradient):  # type: ignore[no-untyped-def]  # compiled code
        return ops.depend(gradient, _dump_gradient(path, wide(gradient)))

    return write
