"""What happens when an operator of a running graph reports, and what each of its places in a graph stands for.

Operators of the forward run in the order of the program, those of the backward whenever their gradient is there: each
of them says which call it belongs to, by the token that the call's beginning returned.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any

from mindspore import Tensor
from mindspore import dtype as mstype
from mindspore.common.dtype import Type

from msprobe.at_compile import AtCompile
from msprobe.base.nested import key_names
from msprobe.graph_save.calls import GraphCalls, Owned, Owners, Sent, Value
from msprobe.graph_save.operators import Places
from msprobe.graph_save.structures import Flat, Structure, structure_of

try:
    from msprobe.graph_save import _operators  # type: ignore[attr-defined]  # optional, without a Python source

    library: Any = _operators
    """The operators in C; None where they were not built."""
except ImportError:  # it was installed without a compiler: the operators of Python serve
    library = None

_listener: GraphCalls | None = None


def listen(listener: GraphCalls | None) -> None:
    """From here on `listener` receives the calls; None: nothing does."""
    global _listener
    _listener = listener
    if library is not None:
        library.listen(listener is not None, listener is not None and listener.takes_records)


# ---- constants of the graph ----------------------------------------------------------------------------------------

_calls: Places[tuple[str, Structure, Structure]] = Places()
_ends: Places[tuple[Structure, tuple[Value, ...]]] = Places()
_values: Places[tuple[Value, ...]] = Places()
_gradients: Places[tuple[Owned, ...]] = Places()
_owners: list[tuple[Owners, ...]] = []
NO_LISTENER = 0
_tokens = count(NO_LISTENER + 1)

Wheres = Sequence[str]
"""Places of tensors in a call, each `part:path`."""


def _values_at(wheres: Wheres, dtypes: Sequence[Type], shapes: Sequence[Any]) -> tuple[Value, ...]:
    made = []
    for where, dtype, shape in zip(wheres, dtypes, shapes, strict=True):
        part, _, path = where.partition(":")
        made.append(Value(part, path, path, True, dtype, tuple(shape)))
    return tuple(made)


def _call(stem: str, inputs: Flat, keywords: Flat) -> Tensor:
    return _calls.number(stem, structure_of(inputs), structure_of(keywords))


def _end(outputs: Flat, *values: Any) -> Tensor:
    return _ends.number(structure_of(outputs), _values_at(*values))


def _values_of(*values: Any) -> Tensor:
    return _values.number(*_values_at(*values))


def _gradient(*value: Any) -> Tensor:
    return _values.number(Value(*value))


def _received(optimizer: int, places: Sequence[int], dtypes: Sequence[Type], shapes: Sequence[Any]) -> Tensor:
    owners = _owners[optimizer]
    return _gradients.number(
        *(Owned(owners[place], dtype, tuple(shape)) for place, dtype, shape in zip(places, dtypes, shapes, strict=True))
    )


def _is_differentiable(dtype: Type) -> bool:
    return dtype in mstype.float_type or dtype in mstype.complex_type


def _names(keys: Sequence[object], contain: Sequence[bool]) -> tuple[str, ...]:
    """The names of a dict's members, of which some contain others."""
    return tuple(key_names(keys, [[] if each else None for each in contain]))


def _has_native() -> bool:
    return library is not None


call_at = AtCompile(_call)
end_at = AtCompile(_end)
values_at = AtCompile(_values_of)
gradient_at = AtCompile(_gradient)
received_at = AtCompile(_received)
names_at = AtCompile(_names)
has_gradient = AtCompile(_is_differentiable)
is_native = AtCompile(_has_native)


def own(owners: tuple[Owners, ...]) -> int:
    """A number for the owners of an optimizer's parameters, which compiled code can pass on."""
    _owners.append(owners)
    return len(_owners) - 1


# ---- what an operator does when the graph runs; it passes numbers, and tensors as `calls.Sent` says ---------------


def enter(place: int) -> int:
    """A call begins; returns its token."""
    if _listener is None:
        return NO_LISTENER
    token = next(_tokens)
    _listener.begin(token, *_calls.known[place])
    return token


def leave(place: int, token: int, *tensors: Sent) -> int:
    """A call ends."""
    if _listener is not None and token != NO_LISTENER:
        _listener.end(token, *_ends.known[place], tensors)
    return 0


def values(place: int, token: int, *tensors: Sent) -> int:
    """Values of a call."""
    if _listener is not None and token != NO_LISTENER:
        _listener.values(token, _values.known[place], tensors)
    return 0


def gradient(place: int, token: int, tensor: Sent) -> int:
    """A gradient of a call."""
    if _listener is not None and token != NO_LISTENER:
        _listener.gradient(token, _values.known[place][0], tensor)
    return 0


def begin_run(model: int) -> int:
    """A run of a model begins; returns its token."""
    if _listener is None:
        return NO_LISTENER
    token = next(_tokens)
    _listener.begin_run(token, model)
    return token


def end_run(token: int) -> int:
    """A run of a model ends."""
    if _listener is not None:
        _listener.end_run(token)
    return 0


def parameter_gradients(place: int, *tensors: Sent) -> int:
    """Gradients that an optimizer receives."""
    if _listener is not None:
        _listener.parameter_gradients(_gradients.known[place], tensors)
    return 0


def is_listening() -> int:
    """A number that is not known before the graph runs."""
    return NO_LISTENER if _listener is None else 1


if library is not None:
    library.connect(enter, values, leave, begin_run, end_run, gradient, parameter_gradients)
