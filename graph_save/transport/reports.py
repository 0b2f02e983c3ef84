"""Reports of the operators in running graphs, and the constants by which operators refer to calls and values.

Operators of the forward run in the order of the program, those of the backward when their gradient is available: each
identifies its call by the token that `enter` returned.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any

from mindspore import Tensor
from mindspore import dtype as mstype
from mindspore.common.dtype import Type

from msprobe.base.nested import key_names
from msprobe.frameworks.mindspore.at_compile import AtCompile
from msprobe.graph_save.calls import GraphCalls, Owned, Owners, Sent, Value
from msprobe.graph_save.operators import ConstantTable
from msprobe.graph_save.structures import Flat, Structure, structure_of

try:
    from msprobe.graph_save import _operators  # type: ignore[attr-defined]  # optional, without a Python source

    library: Any = _operators
    """The operators in C; None if they were not built."""
except ImportError:  # installed without a compiler: the operators in Python are used
    library = None

_listener: GraphCalls | None = None


def listen(listener: GraphCalls | None) -> None:
    """Set the receiver of calls; None: calls are not recorded."""
    global _listener
    _listener = listener
    if library is not None:
        library.listen(listener is not None, listener is not None and listener.takes_records)


# ---- constants of the graph ----------------------------------------------------------------------------------------

_calls: ConstantTable[tuple[str, Structure, Structure]] = ConstantTable()
_ends: ConstantTable[tuple[Structure, tuple[Value, ...]]] = ConstantTable()
_values: ConstantTable[tuple[Value, ...]] = ConstantTable()
_gradients: ConstantTable[tuple[Owned, ...]] = ConstantTable()
_owners: list[tuple[Owners, ...]] = []
NO_LISTENER = 0
_tokens = count(NO_LISTENER + 1)

Locations = Sequence[str]
"""Locations of tensors in a call, each `part:path`."""


def _described_values(locations: Locations, dtypes: Sequence[Type], shapes: Sequence[Any]) -> tuple[Value, ...]:
    described = []
    for location, dtype, shape in zip(locations, dtypes, shapes, strict=True):
        part, _, path = location.partition(":")
        described.append(Value(part, path, path, True, dtype, tuple(shape)))
    return tuple(described)


def _call_constant(stem: str, inputs: Flat, keywords: Flat) -> Tensor:
    return _calls.number(stem, structure_of(inputs), structure_of(keywords))


def _end_constant(outputs: Flat, *values: Any) -> Tensor:
    return _ends.number(structure_of(outputs), _described_values(*values))


def _values_constant(*values: Any) -> Tensor:
    return _values.number(*_described_values(*values))


def _gradient_constant(*value: Any) -> Tensor:
    return _values.number(Value(*value))


def _received_constant(optimizer: int, places: Sequence[int], dtypes: Sequence[Type], shapes: Sequence[Any]) -> Tensor:
    owners = _owners[optimizer]
    return _gradients.number(
        *(Owned(owners[place], dtype, tuple(shape)) for place, dtype, shape in zip(places, dtypes, shapes, strict=True))
    )


def _is_differentiable(dtype: Type) -> bool:
    return dtype in mstype.float_type or dtype in mstype.complex_type


def _member_names(keys: Sequence[object], contain: Sequence[bool]) -> tuple[str, ...]:
    """Return the names of the members of a dict; `contain` tells which members are containers."""
    return tuple(key_names(keys, [[] if each else None for each in contain]))


def _has_native() -> bool:
    return library is not None


call_constant = AtCompile(_call_constant)
end_constant = AtCompile(_end_constant)
values_constant = AtCompile(_values_constant)
gradient_constant = AtCompile(_gradient_constant)
received_constant = AtCompile(_received_constant)
member_names = AtCompile(_member_names)
is_differentiable = AtCompile(_is_differentiable)
is_native = AtCompile(_has_native)


def register_owners(owners: tuple[Owners, ...]) -> int:
    """Return a number for the owners of the parameters of an optimizer, which compiled code can pass on."""
    _owners.append(owners)
    return len(_owners) - 1


# ---- called by operators at run time, with numbers and tensors (`calls.Sent`) -------------------------------------


def enter(place: int) -> int:
    """Begin a call, and return its token."""
    if _listener is None:
        return NO_LISTENER
    token = next(_tokens)
    _listener.begin(token, *_calls.entries[place])
    return token


def leave(place: int, token: int, *tensors: Sent) -> int:
    """End a call."""
    if _listener is not None and token != NO_LISTENER:
        _listener.end(token, *_ends.entries[place], tensors)
    return 0


def values(place: int, token: int, *tensors: Sent) -> int:
    """Report values of a call."""
    if _listener is not None and token != NO_LISTENER:
        _listener.values(token, _values.entries[place], tensors)
    return 0


def gradient(place: int, token: int, tensor: Sent) -> int:
    """Report a gradient of a call."""
    if _listener is not None and token != NO_LISTENER:
        _listener.gradient(token, _values.entries[place][0], tensor)
    return 0


def begin_run(model: int) -> int:
    """Begin a run of a model, and return its token."""
    if _listener is None:
        return NO_LISTENER
    token = next(_tokens)
    _listener.begin_run(token, model)
    return token


def end_run(token: int) -> int:
    """End a run of a model."""
    if _listener is not None:
        _listener.end_run(token)
    return 0


def parameter_gradients(place: int, *tensors: Sent) -> int:
    """Report gradients that an optimizer receives."""
    if _listener is not None:
        _listener.parameter_gradients(_gradients.entries[place], tensors)
    return 0


def is_listening() -> int:
    """Return 1 if calls are recorded, else `NO_LISTENER`; not a constant of the graph."""
    return NO_LISTENER if _listener is None else 1


if library is not None:
    library.connect(enter, values, leave, begin_run, end_run, gradient, parameter_gradients)
