"""What stands around a cell's `construct` in a compiled graph: operators that report a call's begin, values and end.

The compiler reads these functions; strings, shapes and dtypes are constants in there.
"""

from collections.abc import Callable
from typing import Any

from mindspore import Tensor, ops
from mindspore import dtype as mstype
from mindspore.ops import functional as F

from .calls import Owners
from .operators import Tap, in_graph, sendable
from .transport.callback import (
    beginning,
    beginning_run,
    ending,
    ending_run,
    listening,
    taking,
    taking_empty,
    taking_empty_gradient,
    taking_gradient,
    taking_parameter_gradient,
)
from .transport.native import (
    native_begin_run,
    native_end_run,
    native_enter,
    native_gradient,
    native_gradients,
    native_leave,
    native_values,
)
from .transport.reports import (
    call_at,
    end_at,
    gradient_at,
    has_gradient,
    is_native,
    names_at,
    own,
    received_at,
    values_at,
)
from .transport.tensordump import dump_begin, dump_end, dump_gradient, dump_value, dumps


def planted(
    original: Callable[..., Any], stem: str, parameters: tuple[tuple[str, Any], ...], values: bool, gradients: bool
) -> Callable[..., Any]:
    """A `construct` that reports inputs and outputs of `original`, and with `gradients` the gradients of both."""
    names = tuple(name for name, _ in parameters)
    owned = tuple(parameter for _, parameter in parameters)

    def construct(self, *args, **kwargs):  # type: ignore[no-untyped-def]  # compiled code
        if not in_graph():
            return original(*args, **kwargs)
        given = _nothing_found
        if values:
            given = _found_in_call(names, owned, args, kwargs)
        token = _enter(stem, _structure(args), _structure(kwargs), given)
        if gradients:
            args = _watch_all(args, "input", True, token)
            kwargs = _watch_named(kwargs, len(args), token)
        result = original(*args, **kwargs)
        made = _nothing_found
        if values:
            made = _found_in_result(result)
        _leave(token, _structure(result), made)
        if not gradients:
            return result
        if isinstance(result, tuple):
            return _watch_all(result, "output", False, token)
        return _watch(result, "output", "0", "0", True, token)

    return construct


def planted_root(original: Callable[..., Any], model: int) -> Callable[..., Any]:
    """A `construct` of a model that reports when it begins and ends; its cells report the rest."""
    number_of_model = Tensor(model, mstype.int32)

    def construct(self, *args, **kwargs):  # type: ignore[no-untyped-def]  # compiled code
        if not in_graph() or dumps():
            return original(*args, **kwargs)
        if is_native():
            token = ops.stop_gradient(native_begin_run(number_of_model))
            result = original(*args, **kwargs)
            native_end_run(token)
            return result
        token = ops.stop_gradient(beginning_run(number_of_model))
        result = original(*args, **kwargs)
        ending_run(token)
        return result

    return construct


# What was found in a call: its tensors; where they stand, each `part:path`; their dtypes, and shapes.
_nothing_found = ((), (), (), ())


def _joined(one, two):  # type: ignore[no-untyped-def]  # compiled code
    return (one[0] + two[0], one[1] + two[1], one[2] + two[2], one[3] + two[3])


def _found(value, where):  # type: ignore[no-untyped-def]  # compiled code
    if isinstance(value, Tensor):
        if F.isconstant(F.shape(value)):
            return ((value,), (where,), (value.dtype,), (value.shape,))
        return _nothing_found
    if isinstance(value, (tuple, list)):
        found = _nothing_found
        for inner in range(len(value)):
            found = _joined(found, _found(value[inner], where + "." + str(inner)))
        return found
    if isinstance(value, dict):
        found = _nothing_found
        names = _names(value)
        place = 0
        for key in value:
            found = _joined(found, _found(value[key], where + "." + names[place]))
            place = place + 1
        return found
    return _nothing_found


def _found_in_call(names, parameters, args, kwargs):  # type: ignore[no-untyped-def]  # compiled code
    found = _nothing_found
    for place in range(len(names)):
        found = _joined(found, _found(parameters[place], "parameters:" + names[place]))
    for place in range(len(args)):
        found = _joined(found, _found(args[place], "input:" + str(place)))
    for key in kwargs:
        found = _joined(found, _found(kwargs[key], "kwargs:" + key))
    return found


def _found_in_result(result):  # type: ignore[no-untyped-def]  # compiled code
    if not isinstance(result, tuple):
        return _found(result, "output:0")
    found = _nothing_found
    for place in range(len(result)):
        found = _joined(found, _found(result[place], "output:" + str(place)))
    return found


def _enter(stem, inputs, keywords, found):  # type: ignore[no-untyped-def]  # compiled code
    """Gives what the values of the call name it by: a token, or in the names of files its stem."""
    tensors, wheres, dtypes, shapes = found
    if dumps():
        dump_begin(stem, inputs, keywords)
        for place in range(len(tensors)):
            dump_value(stem, wheres[place], tensors[place])
        return stem
    if is_native():  # the token must not depend on tensors: their gradients would be added up in another order
        token = ops.stop_gradient(native_enter(call_at(stem, inputs, keywords)))
        if len(tensors) > 0:
            native_values(values_at(wheres, dtypes, shapes), token, *tensors)
        return token
    token = ops.stop_gradient(beginning(call_at(stem, inputs, keywords)))
    for place in range(len(tensors)):
        _take(values_at((wheres[place],), (dtypes[place],), (shapes[place],)), token, tensors[place])
    return token


def _leave(token, outputs, found):  # type: ignore[no-untyped-def]  # compiled code
    tensors, wheres, dtypes, shapes = found
    if dumps():
        for place in range(len(tensors)):
            dump_value(token, wheres[place], tensors[place])
        dump_end(token, outputs)
    elif is_native():
        native_leave(end_at(outputs, wheres, dtypes, shapes), token, *tensors)
    else:
        for place in range(len(tensors)):
            _take(values_at((wheres[place],), (dtypes[place],), (shapes[place],)), token, tensors[place])
        ending(end_at(outputs, (), (), ()), token)


def _take(where, token, tensor):  # type: ignore[no-untyped-def]  # compiled code
    if 0 in tensor.shape:
        taking_empty(where, token)
    else:
        taking(where, token, sendable(tensor))


def planted_optimizer(original: Callable[..., Any], owners: tuple[Owners, ...]) -> Callable[..., Any]:
    """A `construct` of an optimizer that reports the gradients that it receives, one for each of its parameters."""
    optimizer = own(owners)
    owned = tuple(bool(each) for each in owners)

    def construct(self, gradients):  # type: ignore[no-untyped-def]  # compiled code
        if not in_graph() or dumps():
            return original(gradients)
        tensors, places, dtypes, shapes = _nothing_found
        for place in range(len(owned)):
            if owned[place] and isinstance(gradients[place], Tensor) and F.isconstant(F.shape(gradients[place])):
                tensors += (gradients[place],)
                places += (place,)
                dtypes += (gradients[place].dtype,)
                shapes += (gradients[place].shape,)
        _report_received(optimizer, tensors, places, dtypes, shapes)
        return original(gradients)

    return construct


def _report_received(optimizer, tensors, places, dtypes, shapes):  # type: ignore[no-untyped-def]  # compiled code
    if is_native():
        native_gradients(received_at(optimizer, places, dtypes, shapes), *tensors)
        return
    token = listening(received_at(optimizer, (), (), ()))
    for each in range(len(tensors)):
        where = received_at(optimizer, (places[each],), (dtypes[each],), (shapes[each],))
        taking_parameter_gradient(where, token, sendable(tensors[each]))


def _watch_all(members, part, single, token):  # type: ignore[no-untyped-def]  # compiled code
    made = ()
    for place in range(len(members)):
        made += (_watch(members[place], part, str(place), str(place), single, token),)
    return made


def _watch_named(named, first, token):  # type: ignore[no-untyped-def]  # compiled code
    """The keyword arguments. To set a dict's items one by one would make variables of constants."""
    keys = ()
    made = ()
    place = first
    for key in named:
        keys += (key,)
        made += (_watch(named[key], "kwargs", key, str(place), True, token),)
        place = place + 1
    return F.make_dict(keys, made)


def _watch(value, part, path, place, single, token):  # type: ignore[no-untyped-def]  # compiled code
    """Returns the value, which the code that follows must use: gradients are reported of what is returned."""
    if isinstance(value, Tensor):
        if F.isconstant(F.shape(value)) and has_gradient(value.dtype):
            if dumps():
                return dump_gradient(token, part, path, place, single, value)
            where = gradient_at(part, path, place, single, value.dtype, value.shape)
            return _tap(value, token, where)
        return value
    if isinstance(value, tuple):
        made = ()
        for inner in range(len(value)):
            made += (_inside(value, inner, str(inner), part, path, place, token),)
        return made
    if isinstance(value, list) and len(value) > 0:  # the compiler makes no empty one
        listed = ()
        for inner in range(len(value)):
            listed += (_inside(value, inner, str(inner), part, path, place, token),)
        return list(listed)
    if isinstance(value, dict):
        names = _names(value)
        keys = ()
        named = ()
        for key in value:
            named += (_inside(value, key, names[len(keys)], part, path, place, token),)
            keys += (key,)
        return F.make_dict(keys, named)
    return value


def _inside(value, key, name, part, path, place, token):  # type: ignore[no-untyped-def]  # compiled code
    within = "." + name
    return _watch(value[key], part, path + within, place + within, False, token)


def _names(value):  # type: ignore[no-untyped-def]  # compiled code
    """The texts by which the members of a dict are recorded."""
    keys = ()
    contain = ()
    for key in value:
        keys += (key,)
        contain += (isinstance(value[key], (tuple, list, dict)),)
    return names_at(keys, contain)


def _report_gradient(gradient, token, where):  # type: ignore[no-untyped-def]  # compiled code
    if is_native():
        return native_gradient(where, token, gradient)
    if 0 in gradient.shape:
        return taking_empty_gradient(where, token)
    return taking_gradient(where, token, sendable(gradient))


def _structure(value):  # type: ignore[no-untyped-def]  # compiled code
    """What a value is made of, as a flat tuple of constants, for the compiler allows few tuples inside each other:
    what stands between a container and its end is inside it. `structure_of` puts it back."""
    if value is None:
        return (("none",),)
    if isinstance(value, Tensor):
        if F.isconstant(F.shape(value)):
            return (("tensor", value.dtype),)
        return (("unshaped", value.dtype),)
    if isinstance(value, (tuple, list)):
        made = ()
        for inner in range(len(value)):
            made += _structure(value[inner])
        if isinstance(value, tuple):
            return (("tuple",),) + made + (("end",),)  # noqa: RUF005  # what the compiler reads
        return (("list",),) + made + (("end",),)  # noqa: RUF005
    if isinstance(value, dict):
        members = ()
        for key in value:
            members += _structure(value[key])
        return (("dict", _names(value)),) + members + (("end",),)  # noqa: RUF005
    if F.isconstant(value):
        return (("constant", value),)
    return (("unknown",),)


_tap = Tap(_report_gradient)
