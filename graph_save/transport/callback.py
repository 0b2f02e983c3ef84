"""Calls of running graphs by Python callbacks: the operators that make them, and who receives them.

Operators of the forward run in the order of the program, those of the backward whenever their gradient is there: each
of them says which call it belongs to, by the token that the call's beginning returned.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
from mindspore import Tensor
from mindspore import dtype as mstype

from msprobe.at_compile import AtCompile
from msprobe.base.nested import key_names
from msprobe.graph_save.calls import GraphCalls, Value
from msprobe.graph_save.operators import Array, Places, nothing, number, operator, structure_of, zeros

_listener: GraphCalls | None = None


def listen(listener: GraphCalls | None) -> None:
    """From here on `listener` receives the calls; None: nothing does."""
    global _listener
    _listener = listener


# ---- constants of the graph ----------------------------------------------------------------------------------------

_calls, _ends, _values, _owned = Places(), Places(), Places(), Places()
_NO_LISTENER = 0
_tokens = count(_NO_LISTENER + 1)


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


def _token(number: int) -> Array:
    return np.array([number], np.int32)


def _begin(place: Any) -> Array:
    if _listener is None:
        return _token(_NO_LISTENER)
    token = next(_tokens)
    _listener.begin(token, *_calls[place])
    return _token(token)


def _begin_run(model: Any) -> Array:
    if _listener is None:
        return _token(_NO_LISTENER)
    token = next(_tokens)
    _listener.begin_run(token, number(model))
    return _token(token)


def _end_run(token: Any) -> Array:
    if _listener is not None:
        _listener.end_run(number(token))
    return nothing()


def _end(place: Any, token: Any) -> Array:
    if _listener is not None and (call := number(token)) != _NO_LISTENER:
        _listener.end(call, *_ends[place])
    return nothing()


def _pass(method: str, place: Any, token: Any, array: Any) -> Array:
    """Pass an array on by a method of the listener; None stands for an empty one, which does not arrive."""
    if _listener is not None and (call := number(token)) != _NO_LISTENER:
        value = Value(*_values[place])
        array = zeros(value.dtype, value.shape) if array is None else np.reshape(array, value.shape)
        getattr(_listener, method)(call, value, array)
    return nothing()


def _take(place: Any, token: Any, array: Any) -> Array:
    return _pass("value", place, token, array)


def _take_empty(place: Any, token: Any) -> Array:
    return _pass("value", place, token, None)


def _take_gradient(place: Any, token: Any, array: Any) -> Array:
    return _pass("gradient", place, token, array)


def _take_empty_gradient(place: Any, token: Any) -> Array:
    return _pass("gradient", place, token, None)


def _listen(place: Any) -> Array:
    return _token(_NO_LISTENER if _listener is None else 1)


def _take_parameter_gradient(place: Any, token: Any, array: Any) -> Array:
    if _listener is not None:
        owners, dtype, shape = _owned[place]
        _listener.parameter_gradient(owners, dtype, np.reshape(array, shape))
    return nothing()


beginning = operator(_begin)
ending = operator(_end)
beginning_run = operator(_begin_run)
ending_run = operator(_end_run)
taking = operator(_take)
taking_empty = operator(_take_empty)
taking_gradient = operator(_take_gradient)
taking_empty_gradient = operator(_take_empty_gradient)
listening = operator(_listen)
taking_parameter_gradient = operator(_take_parameter_gradient)
