"""What stands around a cell's `construct` in a compiled graph: operators that tell a call's begin, values and end.

The compiler reads these functions; strings, shapes and dtypes are constants in there. Operators of the forward run in
the order of the program, those of the backward whenever their gradient is there: each of them says which call it
belongs to, by the token that the call's beginning gave.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol, TypeAlias

import numpy as np
from mindspore import Tensor, ops
from mindspore import dtype as mstype
from mindspore.ops import functional as F

from .compiled import AtCompile, Places, in_graph
from .dumped_calls import dump_begin, dump_end, dump_gradient, dump_value, dumps
from .operators import Array, Tap, nothing, number, operator


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
        """A cell's call begins, and has its token from now on. Arguments come as structures (`_structure`)."""

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


_call = AtCompile(_calls.number)
_end_of = AtCompile(_ends.number)
_value_at = AtCompile(_values.number)
_owned_at = AtCompile(_owned.number)
_has_gradient = AtCompile(_is_differentiable)


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


_beginning = operator(_begin)
_ending = operator(_end)
_beginning_run = operator(_begin_run)
_ending_run = operator(_end_run)
_taking = operator(_take)
_taking_empty = operator(_take_empty)
_taking_gradient = operator(_take_gradient)
_taking_empty_gradient = operator(_take_empty_gradient)
_hearing = operator(_hear)
_taking_parameter_gradient = operator(_take_parameter_gradient)


# ---- what the compiler reads ---------------------------------------------------------------------------------------


def planted(
    original: Callable[..., Any], stem: str, parameters: tuple[tuple[str, Any], ...], values: bool, gradients: bool
) -> Callable[..., Any]:
    """A `construct` that tells what `original` is given and gives, and where `gradients` the gradients of both."""
    names = tuple(name for name, _ in parameters)
    owned = tuple(parameter for _, parameter in parameters)

    def construct(self, *args, **kwargs):  # type: ignore[no-untyped-def]  # compiled code
        if not in_graph():
            return original(*args, **kwargs)
        token = _enter(stem, _structure(args), _structure(kwargs))
        if values:
            for place in range(len(names)):
                _tell("parameters", names[place], "", owned[place], token)
        hear = (token, values, gradients)
        args = _watch_all(args, "input", True, hear)
        kwargs = _watch_named(kwargs, len(args), hear)
        result = original(*args, **kwargs)
        if isinstance(result, tuple):
            result = _watch_all(result, "output", False, hear)
        else:
            result = _watch(result, "output", "0", "0", True, hear)
        _leave(token, _structure(result))
        return result

    return construct


def planted_root(original: Callable[..., Any], model: int) -> Callable[..., Any]:
    """A `construct` of a model that tells when it begins and ends; its cells tell the rest."""
    number_of_model = Tensor(model, mstype.int32)

    def construct(self, *args, **kwargs):  # type: ignore[no-untyped-def]  # compiled code
        if not in_graph() or dumps():
            return original(*args, **kwargs)
        token = ops.stop_gradient(_beginning_run(number_of_model))
        result = original(*args, **kwargs)
        _ending_run(token)
        return result

    return construct


def _enter(stem, inputs, keywords):  # type: ignore[no-untyped-def]  # compiled code
    """Gives what the values of the call name it by: a token, or in the names of files its stem."""
    if dumps():
        dump_begin(stem, inputs, keywords)
        return stem
    return ops.stop_gradient(_beginning(_call(stem, inputs, keywords)))


def _leave(token, outputs):  # type: ignore[no-untyped-def]  # compiled code
    if dumps():
        dump_end(token, outputs)
    else:
        _ending(_end_of(outputs), token)


def planted_optimizer(original: Callable[..., Any], owners: tuple[Owners, ...]) -> Callable[..., Any]:
    """A `construct` of an optimizer that tells the gradients that it is given, one for each of its parameters."""

    def construct(self, gradients):  # type: ignore[no-untyped-def]  # compiled code
        if not in_graph() or dumps():
            return original(gradients)
        token = _hearing(_owned_at(()))
        for place in range(len(owners)):
            if len(owners[place]) > 0 and isinstance(gradients[place], Tensor):
                _tell_parameter(gradients[place], token, owners[place])
        return original(gradients)

    return construct


def _tell_parameter(gradient, token, owners):  # type: ignore[no-untyped-def]  # compiled code
    if F.isconstant(F.shape(gradient)):
        where = _owned_at(owners, gradient.dtype, gradient.shape)
        _taking_parameter_gradient(where, token, _sendable(gradient))


def _watch_all(given, part, alone, hear):  # type: ignore[no-untyped-def]  # compiled code
    made = ()
    for place in range(len(given)):
        made += (_watch(given[place], part, str(place), str(place), alone, hear),)
    return made


def _watch_named(given, first, hear):  # type: ignore[no-untyped-def]  # compiled code
    """What was given by keyword. To set a dict's items one by one would make variables of constants."""
    keys = ()
    made = ()
    place = first
    for key in given:
        keys += (key,)
        made += (_watch(given[key], "kwargs", key, str(place), True, hear),)
        place = place + 1
    return F.make_dict(keys, made)


def _watch(value, part, path, place, alone, hear):  # type: ignore[no-untyped-def]  # compiled code
    """Gives the value, which the code that follows must use: its gradients are told of what is given."""
    if isinstance(value, Tensor):
        if hear[1]:
            _tell(part, path, place, value, hear[0])
        if hear[2] and F.isconstant(F.shape(value)) and _has_gradient(value.dtype):
            if dumps():
                return dump_gradient(hear[0], part, path, place, alone, value)
            where = _value_at(part, path, place, alone, value.dtype, value.shape)
            return _tap(value, hear[0], where)
        return value
    if isinstance(value, tuple):
        made = ()
        for inner in range(len(value)):
            made += (_inside(value, inner, part, path, place, hear),)
        return made
    if isinstance(value, list):
        listed = ()
        for inner in range(len(value)):
            listed += (_inside(value, inner, part, path, place, hear),)
        return list(listed)
    if isinstance(value, dict):
        keys = ()
        named = ()
        for key in value:
            keys += (key,)
            named += (_inside(value, key, part, path, place, hear),)
        return F.make_dict(keys, named)
    return value


def _inside(value, key, part, path, place, hear):  # type: ignore[no-untyped-def]  # compiled code
    within = "." + str(key)
    return _watch(value[key], part, path + within, place + within, False, hear)


def _tell(part, path, place, tensor, token):  # type: ignore[no-untyped-def]  # compiled code
    if not F.isconstant(F.shape(tensor)):
        return
    if dumps():
        dump_value(token, part, path, place, True, tensor)
    else:
        where = _value_at(part, path, place, True, tensor.dtype, tensor.shape)
        if 0 in tensor.shape:
            _taking_empty(where, token)
        else:
            _taking(where, token, _sendable(tensor))


def _tell_gradient(gradient, token, where):  # type: ignore[no-untyped-def]  # compiled code
    if 0 in gradient.shape:
        return _taking_empty_gradient(where, token)
    return _taking_gradient(where, token, _sendable(gradient))


def _sendable(tensor):  # type: ignore[no-untyped-def]  # compiled code
    if len(tensor.shape) > 0:
        return tensor
    if tensor.dtype == mstype.bfloat16:
        tensor = ops.cast(tensor, mstype.float32)
    return ops.reshape(tensor, (1,))


def _structure(value):  # type: ignore[no-untyped-def]  # compiled code
    """The structure of a nested value as nested tuples of constants: a kind, and what is inside."""
    if value is None:
        return ("none",)
    if isinstance(value, Tensor):
        if F.isconstant(F.shape(value)):
            return ("tensor", value.dtype)
        return ("unshaped", value.dtype)
    if isinstance(value, (tuple, list)):
        made = ()
        for inner in range(len(value)):
            made += (_structure(value[inner]),)
        if isinstance(value, tuple):
            return ("tuple", made)
        return ("list", made)
    if isinstance(value, dict):
        keys = ()
        made = ()
        for key in value:
            keys += (str(key),)
            made += (_structure(value[key]),)
        return ("dict", keys, made)
    if F.isconstant(value):
        return ("constant", value)
    return ("unknown",)


_tap = Tap(_tell_gradient)
