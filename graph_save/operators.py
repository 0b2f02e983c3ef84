"""Operators that pass tensors and gradients of a running graph to Python.

Also constants for compiled code (whether it is compiled, the entries of constant tables), and the state of the
framework (rank, device, synchronization).

On a CPU an operator is `ops.Custom` around a Python function. The following is not documented and was found by
experiment:

- `side_effect_io` keeps operators whose result is not used, and executes them in the order of the program.
- The parameters of the function must be named individually; with `*args` an operator rejects its inputs.
- A 0-d tensor would arrive as a Python number, or not at all (bfloat16): it is sent as a tensor of one element.
- An empty tensor does not arrive: only its constant is sent.
- An operator that depends only on constants runs once, when the graph is compiled. Gradients are therefore sent with a
  token, the result of an operator in the forward, which also identifies the run that a gradient belongs to.
- The memory of the array belongs to the framework: it must be read before the function returns.
"""

import os
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, Generic, TypeVar

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore import dtype as mstype
from mindspore.common.dtype import Type
from mindspore.communication import GlobalComm, get_rank

from msprobe.base.statistic import Array
from msprobe.frameworks.mindspore.at_compile import AtCompile
from msprobe.frameworks.mindspore.executors import device_target, executor, tracer

_NO_RESULT = np.zeros(1, np.int32)


def operator(function: Callable[..., Array]) -> ops.Primitive:
    """Return an operator that calls a Python function with NumPy arrays; the function returns one int32 element."""
    made: ops.Primitive = ops.Custom(function, out_shape=[1], out_dtype=ms.int32, func_type="pyfunc")
    made.add_prim_attr("side_effect_io", True)
    return made


def no_result() -> Array:
    """Return the result of an operator that has nothing to return."""
    return _NO_RESULT


def number(value: Array | int) -> int:
    """Convert a constant of the graph or a token to int."""
    return int(value if np.ndim(value) == 0 else value[0])  # type: ignore[index]  # an array here


def zeros(dtype: Type, shape: tuple[int, ...]) -> Array:
    """Return zeros in place of an empty tensor, which an operator does not receive."""
    return np.zeros(shape, numpy_type(dtype))


# The public function logs a deprecation warning in each call; both take tens of microseconds.
numpy_type: Callable[[Type], type] = cache(getattr(mstype, "_dtype_to_nptype", mstype.dtype_to_nptype))
"""Return the NumPy type of a MindSpore dtype."""


def widen_bfloat16(tensor):  # type: ignore[no-untyped-def]  # compiled code
    """Return the tensor in a dtype that NumPy supports: bfloat16 is cast to float32."""
    if tensor.dtype == ms.bfloat16:
        return ops.cast(tensor, ms.float32)
    return tensor


def to_sendable(tensor):  # type: ignore[no-untyped-def]  # compiled code
    """Return the tensor as an operator can receive it: 0-d tensors are reshaped to one element, without bfloat16."""
    if len(tensor.shape) == 0:
        return ops.reshape(widen_bfloat16(tensor), (1,))
    return tensor


def _is_graph_mode() -> bool:
    return bool(ms.get_context("mode") == ms.GRAPH_MODE)


_has_backward_in_graph = AtCompile(_is_graph_mode)
"""Whether forward and backward are compiled into one graph."""


class GradientTap(nn.Cell):
    """Identity in the forward; calls `report(gradient, token, place)` in the backward.

    `report` is compiled code and returns the result of its operator: in a backward, operators whose results are not
    used may be removed.

    If Python runs the backward (`@jit` with the gradient taken outside of it), the result is a copy: the framework lets
    the next operator overwrite the result of a cell with a `bprop` although the backward still needs it, and gradients
    would be wrong. If the backward is part of the graph, the result must not be a copy: the framework reuses the memory
    of the copy while a view of it is in use (the weights of `nn.LSTM`).
    """

    def __init__(self, report: Callable[..., Any]) -> None:
        super().__init__(auto_prefix=False)
        self._reporter = _GradientReporter(report)
        self._copy = ops.Identity()

    def construct(self, value, token, place):  # type: ignore[no-untyped-def]  # compiled code
        if isinstance(value, Parameter):  # The compiler would confuse two parameters of one cell.
            value = ops.reshape(value, value.shape)
        reported = self._reporter(value, token, place)
        if _has_backward_in_graph():
            return reported
        if reported.dtype == ms.bfloat16:  # not supported by `Identity` on a CPU
            return ops.cast(self._copy(ops.cast(reported, ms.float32)), ms.bfloat16)
        return self._copy(reported)


class _GradientReporter(nn.Cell):
    """Identity whose backward calls `report`."""

    def __init__(self, report: Callable[..., Any]) -> None:
        super().__init__(auto_prefix=False)
        self._report = report

    def construct(self, value, token, place):  # type: ignore[no-untyped-def]  # compiled code
        return value

    def bprop(self, value, token, place, out, gradient):  # type: ignore[no-untyped-def]  # compiled code
        reported = self._report(gradient, token, place)
        return ops.depend(gradient, reported), ops.zeros_like(token), ops.zeros_like(place)


# ---- constants of the graph ----------------------------------------------------------------------------------------


def _in_graph() -> bool:
    return True


in_graph = AtCompile(_in_graph, eager=False)
"""Whether this is compiled code. The compiler drops the other branch, which it could not compile."""


Entry = TypeVar("Entry", bound=tuple[Any, ...])


class ConstantTable(Generic[Entry]):
    """Table of Python data that operators in graphs refer to by number.

    Equal entries share a number, so a graph that is compiled again adds no entries.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """The entries by number."""
        self._numbers: dict[tuple[Hashable, ...], int] = {}

    def number(self, *entry: Hashable) -> Tensor:
        """Return the number of an entry, as the constant tensor that an operator receives."""
        number = self._numbers.setdefault(entry, len(self.entries))
        if number == len(self.entries):
            self.entries.append(entry)  # type: ignore[arg-type]  # callers pass the items of an `Entry`
        return Tensor(number, ms.int32)

    def __getitem__(self, number: Array | int) -> Entry:
        return self.entries[int(number)]


# ---- the running framework -----------------------------------------------------------------------------------------

_DEVICE = "Ascend"


def has_tensor_dump() -> bool:
    """Return whether graphs on this device cannot call Python, but have an operator that writes tensors to files."""
    return device_target() == _DEVICE


def rank() -> int:
    """Return the rank of this process; 0 without distributed training."""
    return int(get_rank() if GlobalComm.INITED else os.environ.get("RANK_ID") or 0)


def is_traced() -> bool:
    """Return whether Python code is running to be captured as a graph by tracing (`capture_mode="trace"`)."""
    return bool(getattr(tracer, "_using_trace", False))


def synchronize() -> None:
    """Wait until all queued operations have run."""
    executor.sync()
    if device_target() != "CPU":
        ms.runtime.synchronize()
