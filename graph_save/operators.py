"""Operators that pass a tensor of a running graph to Python, and the gradient that flows back to it.

With them, what compiled code of ours knows: that it is compiled, and where in a graph it stands; and what the running
framework says: the rank, the device, and when it has nothing in hand any more.

On a CPU an operator is `ops.Custom` around a Python function. Several things that the framework does not say have been
found by trying:

- `side_effect_io` keeps an operator whose result nobody uses, and all of them in the order of the program.
- The function's parameters must be named one by one; behind `*args` an operator refuses its inputs.
- A tensor without dimensions would arrive as a number of Python, or not at all (bfloat16): it is sent as one element.
- An empty tensor fails to arrive: only its place is sent.
- An operator that hangs on constants only runs once, when the graph is compiled: so gradients are sent with a token,
  the result of an operator that ran in the forward. The token also says which run of the forward a gradient belongs to.
- The array is the framework's memory: it must be read before the function returns.
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

from msprobe.at_compile import AtCompile
from msprobe.base.statistic import Array
from msprobe.executors import device_target, executor, tracer

_NOTHING = np.zeros(1, np.int32)


def operator(function: Callable[..., Array]) -> ops.Primitive:
    """An operator that runs a Python function with arrays; the function returns one int32 element."""
    made: ops.Primitive = ops.Custom(function, out_shape=[1], out_dtype=ms.int32, func_type="pyfunc")
    made.add_prim_attr("side_effect_io", True)
    return made


def nothing() -> Array:
    """The result of an operator without one."""
    return _NOTHING


def number(value: Array | int) -> int:
    """A constant of the graph, or a token, as a number."""
    return int(value if np.ndim(value) == 0 else value[0])  # type: ignore[index]  # an array then


def zeros(dtype: Type, shape: tuple[int, ...]) -> Array:
    """What stands for a tensor that does not arrive."""
    return np.zeros(shape, numpy_type(dtype))


# The public name logs, in each call, that it is deprecated; either takes tens of microseconds.
numpy_type: Callable[[Type], type] = cache(getattr(mstype, "_dtype_to_nptype", mstype.dtype_to_nptype))
"""numpy's type for one of the framework."""


def wide(tensor):  # type: ignore[no-untyped-def]  # compiled code
    """A tensor as numpy knows it."""
    if tensor.dtype == ms.bfloat16:
        return ops.cast(tensor, ms.float32)
    return tensor


def sendable(tensor):  # type: ignore[no-untyped-def]  # compiled code
    """A tensor as it arrives: one without dimensions as one element, of which a CPU has no bfloat16."""
    if len(tensor.shape) == 0:
        return ops.reshape(wide(tensor), (1,))
    return tensor


def _has_its_backward() -> bool:
    return bool(ms.get_context("mode") == ms.GRAPH_MODE)


_is_whole = AtCompile(_has_its_backward)
"""Whether forward and backward are one graph."""


class Tap(nn.Cell):
    """Returns its input, and reports the gradient that flows back to it by `report(gradient, token, place)`.

    `report` is compiled, and returns the result of its operator: in a backward an operator whose result is not used may
    be lost.

    Where Python runs the backward (`@jit` with the gradient taken outside of it), what comes back is a copy: the
    framework lets the next operator write over the result of a cell with a `bprop`, though the backward still needs it,
    and gradients would be wrong. Where the backward is in the graph there is no copy, and must be none: the framework
    reuses its memory while a view of it is in use (the weights of `nn.LSTM`).
    """

    def __init__(self, report: Callable[..., Any]) -> None:
        super().__init__(auto_prefix=False)
        self._reporting = _Reporting(report)
        self._copy = ops.Identity()

    def construct(self, value, token, place):  # type: ignore[no-untyped-def]  # compiled code
        if isinstance(value, Parameter):  # of two parameters in one cell the compiler would take the first for both
            value = ops.reshape(value, value.shape)
        reported = self._reporting(value, token, place)
        if _is_whole():
            return reported
        if reported.dtype == ms.bfloat16:  # which `Identity` does not take on a CPU
            return ops.cast(self._copy(ops.cast(reported, ms.float32)), ms.bfloat16)
        return self._copy(reported)


class _Reporting(nn.Cell):
    """Returns its input; its backward reports."""

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
"""Whether this is compiled code. The compiler drops what stands in the other branch, which it could not compile."""


Known = TypeVar("Known", bound=tuple[Any, ...])


class Places(Generic[Known]):
    """What is known of the places where a graph has an operator of ours: a number in the graph, the rest here.

    Equal places have one number, so a graph that is compiled again adds nothing.
    """

    def __init__(self) -> None:
        self.known: list[Known] = []
        """What is known, by number."""
        self._numbers: dict[tuple[Hashable, ...], int] = {}

    def number(self, *what: Hashable) -> Tensor:
        """The number of a place, as the constant tensor that an operator takes."""
        number = self._numbers.setdefault(what, len(self.known))
        if number == len(self.known):
            self.known.append(what)  # type: ignore[arg-type]  # the callers keep to `Known`
        return Tensor(number, ms.int32)

    def __getitem__(self, number: Array | int) -> Known:
        return self.known[int(number)]


# ---- the running framework -----------------------------------------------------------------------------------------

_DEVICE = "Ascend"


def has_tensor_dump() -> bool:
    """Whether a graph on this device cannot call Python, but has an operator of its own that writes tensors."""
    return device_target() == _DEVICE


def rank() -> int:
    """The rank of this process; 0 where there is none."""
    return int(get_rank() if GlobalComm.INITED else os.environ.get("RANK_ID") or 0)


def is_traced() -> bool:
    """Whether Python runs to be captured as a graph, and will not run again (`capture_mode="trace"`)."""
    return bool(getattr(tracer, "_using_trace", False))


def synchronize() -> None:
    """Wait until everything that is queued has run."""
    executor.sync()
    if device_target() != "CPU":
        ms.runtime.synchronize()
