"""Events of running graphs by Python callbacks: the operators that send them, and who receives them.

Operators of the forward run in the order of the program, those of the backward whenever their gradient is there: each
of them says which call it belongs to, by the token that the call's beginning gave.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol, TypeAlias

import numpy as np
from mindspore import Tensor
from mindspore import dtype as mstype

from msprobe.at_compile import AtCompile
from msprobe.base.nested import key_names
from msprobe.graph_save.compiled import Places, structure_of
from msprobe.graph_save.operators import Array, nothing, number, operator


@dataclass(frozen=True, slots=True)
class Value:
    """Where a tensor stands in a call: `part` is `input`, `kwargs`, `parameters` or `output`, `path` its place there.

    `place` is the gradient's: keyword arguments are counted behind the positional ones. Of one that is not `alone`, but
    stands beside others in a tuple, list or dict, the framework sends zeros where nobody used it.
    """

    part: str
    path: str
    place: str
    alone: bool
    dtype: Any
    shape: tuple[int, ...]


Owners: TypeAlias = tuple[tuple[str, str], ...]
"""The cells that a parameter belongs to, by their stems, with its name in each."""


class Listener(Protocol):
    """Who hears of the calls of running graphs; nothing that it does may raise."""

    def begin_run(self, token: int, model: int) -> None:
        """A run of a model begins, and has its token from now on."""

    def end_run(self, token: int) -> None:
        """A run of a model ends."""

    def begin(self, token: int, stem: str, inputs: Any, keywords: Any) -> None:
        """A cell's call begins, and has its token from now on. Arguments come as structures (`structure_of`)."""

    def value(self, token: int, value: Value, array: Array) -> None:
        """A value of a call, to be read now."""

    def end(self, token: int, outputs: Any) -> None:
        """A call ends; its results come as a structure."""

    def gradient(self, token: int, value: Value, array: Array) -> None:
        """The gradient of a value, to be read now."""

    def parameter_gradient(self, owners: Owners, dtype: Any, array: Array) -> None:
        """The gradient of a parameter, as an optimizer is given it, to be read now."""


_listener: Listener | None = None


def listen(listener: Listener | None) -> None:
    """From here on `listener` hears of the calls; None: nobody does."""
    global _listener
    _listener = listener


# ---- constants of the graph ----------------------------------------------------------------------------------------

_calls, _ends, _values, _owned = Places(), Places(), Places(), Places()
_UNHEARD = 0
_NOBODY = np.array([_UNHEARD], np.int32)
_tokens = count(_UNHEARD + 1)


def _is_differentiable(dtype: Any) -> bool:
    return dtype in mstype.float_type or dtype in mstype.complex_type


def _names(keys: Sequence[Any], contain: Sequence[bool]) -> tuple[str, ...]:
    """The names of a dict's members, of which some contain others."""
    return tuple(key_names(keys, [[] if each else None for each in contain]))


def _call(stem: str, inputs: Any, keywords: Any) -> Tensor:
    return _calls.number(stem, structure_of(inputs), structure_of(keywords))


def _end_of(outputs: Any) -> Tensor:
    return _ends.number(structure_of(outputs))


call_at = AtCompile(_call)
end_at = AtCompile(_end_of)
value_at = AtCompile(_values.number)
owned_at = AtCompile(_owned.number)
names_at = AtCompile(_names)
has_gradient = AtCompile(_is_differentiable)


# ---- what an operator does when the graph runs ---------------------------------------------------------------------


def _begin(place: Any) -> Array:
    if _listener is None:
        return _NOBODY
    token = next(_tokens)
    _listener.begin(token, *_calls[place])
    return np.array([token], np.int32)


def _begin_run(model: Any) -> Array:
    if _listener is None:
        return _NOBODY
    token = next(_tokens)
    _listener.begin_run(token, number(model))
    return np.array([token], np.int32)


def _end_run(token: Any) -> Array:
    if _listener is not None:
        _listener.end_run(number(token))
    return nothing()


def _end(place: Any, token: Any) -> Array:
    if _listener is not None and (call := number(token)) != _UNHEARD:
        _listener.end(call, *_ends[place])
    return nothing()


def _take(place: Any, token: Any, array: Any) -> Array:
    if _listener is not None and (call := number(token)) != _UNHEARD:
        value = Value(*_values[place])
        _listener.value(call, value, np.reshape(array, value.shape))
    return nothing()


def _take_empty(place: Any, token: Any) -> Array:
    return _take(place, token, _empty(place))


def _take_gradient(place: Any, token: Any, array: Any) -> Array:
    if _listener is not None and (call := number(token)) != _UNHEARD:
        value = Value(*_values[place])
        _listener.gradient(call, value, np.reshape(array, value.shape))
    return nothing()


def _take_empty_gradient(place: Any, token: Any) -> Array:
    return _take_gradient(place, token, _empty(place))


def _hear(place: Any) -> Array:
    return np.array([_UNHEARD if _listener is None else 1], np.int32)


def _take_parameter_gradient(place: Any, token: Any, array: Any) -> Array:
    if _listener is not None:
        owners, dtype, shape = _owned[place]
        _listener.parameter_gradient(owners, dtype, np.reshape(array, shape))
    return nothing()


def _empty(place: Any) -> Array:
    value = Value(*_values[place])
    return np.zeros(value.shape, mstype.dtype_to_nptype(value.dtype))


beginning = operator(_begin)
ending = operator(_end)
beginning_run = operator(_begin_run)
ending_run = operator(_end_run)
taking = operator(_take)
taking_empty = operator(_take_empty)
taking_gradient = operator(_take_gradient)
taking_empty_gradient = operator(_take_empty_gradient)
hearing = operator(_hear)
taking_parameter_gradient = operator(_take_parameter_gradient)
