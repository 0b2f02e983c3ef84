"""Code around the `construct` of a cell in a compiled graph: operators that report the begin, values and end of a call.

MindSpore's compiler reads these functions; strings, shapes and dtypes are constants in them.
"""

from collections.abc import Callable
from typing import Any

from mindspore import Tensor, ops
from mindspore import dtype as mstype
from mindspore.ops import functional as F

from .calls import Owners
from .operators import GradientTap, in_graph, to_sendable
from .transport.callback import (
    begin_operator,
    begin_run_operator,
    empty_gradient_operator,
    empty_value_operator,
    end_operator,
    end_run_operator,
    gradient_operator,
    is_listening_operator,
    parameter_gradient_operator,
    value_operator,
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
    call_constant,
    end_constant,
    gradient_constant,
    is_differentiable,
    is_native,
    member_names,
    received_constant,
    register_owners,
    values_constant,
)
from .transport.tensordump import dump_begin, dump_end, dump_gradient, dump_value, dumps


def reporting_construct(
    original: Callable[..., Any], stem: str, parameters: tuple[tuple[str, Any], ...], values: bool, gradients: bool
) -> Callable[..., Any]:
    """Return a `construct` that reports the inputs and outputs of `original`.

    stem : name of the cell's calls without direction and number.
    parameters : names and values of the cell's own parameters.
    values : whether inputs, parameters and outputs are reported.
    gradients : whether the gradients of inputs and outputs are reported.
    """
    names = tuple(name for name, _ in parameters)
    owned = tuple(parameter for _, parameter in parameters)

    def construct(self, *args, **kwargs):  # type: ignore[no-untyped-def]  # compiled code
        if not in_graph():
            return original(*args, **kwargs)
        argument_tensors = _NO_TENSORS
        if values:
            argument_tensors = _tensors_in_call(names, owned, args, kwargs)
        token = _enter(stem, _structure(args), _structure(kwargs), argument_tensors)
        if gradients:
            args = _tap_all(args, "input", True, token)
            kwargs = _tap_named(kwargs, len(args), token)
        result = original(*args, **kwargs)
        made = _NO_TENSORS
        if values:
            made = _tensors_in_result(result)
        _leave(token, _structure(result), made)
        if not gradients:
            return result
        if isinstance(result, tuple):
            return _tap_all(result, "output", False, token)
        return _tap_gradients(result, "output", "0", "0", True, token)

    return construct


def reporting_root_construct(original: Callable[..., Any], model: int) -> Callable[..., Any]:
    """Return a `construct` that reports when a run of a model begins and ends; the cells in it report their calls.

    `model` is the number of the model in the order of registration.
    """
    model_number = Tensor(model, mstype.int32)

    def construct(self, *args, **kwargs):  # type: ignore[no-untyped-def]  # compiled code
        if not in_graph() or dumps():
            return original(*args, **kwargs)
        if is_native():
            token = ops.stop_gradient(native_begin_run(model_number))
            result = original(*args, **kwargs)
            native_end_run(token)
            return result
        token = ops.stop_gradient(begin_run_operator(model_number))
        result = original(*args, **kwargs)
        end_run_operator(token)
        return result

    return construct


# The tensors of a call, their locations (each `part:path`), their dtypes, and their shapes.
_NO_TENSORS = ((), (), (), ())


def _concatenated(one, two):  # type: ignore[no-untyped-def]  # compiled code
    return (one[0] + two[0], one[1] + two[1], one[2] + two[2], one[3] + two[3])


def _tensors_in(value, where):  # type: ignore[no-untyped-def]  # compiled code
    if isinstance(value, Tensor):
        if F.isconstant(F.shape(value)):
            return ((value,), (where,), (value.dtype,), (value.shape,))
        return _NO_TENSORS
    if isinstance(value, (tuple, list)):
        found = _NO_TENSORS
        for inner in range(len(value)):
            found = _concatenated(found, _tensors_in(value[inner], where + "." + str(inner)))
        return found
    if isinstance(value, dict):
        found = _NO_TENSORS
        names = _dict_names(value)
        place = 0
        for key in value:
            found = _concatenated(found, _tensors_in(value[key], where + "." + names[place]))
            place = place + 1
        return found
    return _NO_TENSORS


def _tensors_in_call(names, parameters, args, kwargs):  # type: ignore[no-untyped-def]  # compiled code
    found = _NO_TENSORS
    for place in range(len(names)):
        found = _concatenated(found, _tensors_in(parameters[place], "parameters:" + names[place]))
    for place in range(len(args)):
        found = _concatenated(found, _tensors_in(args[place], "input:" + str(place)))
    for key in kwargs:
        found = _concatenated(found, _tensors_in(kwargs[key], "kwargs:" + key))
    return found


def _tensors_in_result(result):  # type: ignore[no-untyped-def]  # compiled code
    if not isinstance(result, tuple):
        return _tensors_in(result, "output:0")
    found = _NO_TENSORS
    for place in range(len(result)):
        found = _concatenated(found, _tensors_in(result[place], "output:" + str(place)))
    return found


def _enter(stem, inputs, keywords, found):  # type: ignore[no-untyped-def]  # compiled code
    """Return the identifier of the call for reports of its values: a token, or its stem if files are written."""
    tensors, locations, dtypes, shapes = found
    if dumps():
        dump_begin(stem, inputs, keywords)
        for place in range(len(tensors)):
            dump_value(stem, locations[place], tensors[place])
        return stem
    if is_native():  # The token must not depend on tensors: their gradients would be accumulated in another order.
        token = ops.stop_gradient(native_enter(call_constant(stem, inputs, keywords)))
        if len(tensors) > 0:
            native_values(values_constant(locations, dtypes, shapes), token, *tensors)
        return token
    token = ops.stop_gradient(begin_operator(call_constant(stem, inputs, keywords)))
    for place in range(len(tensors)):
        _report_value(values_constant((locations[place],), (dtypes[place],), (shapes[place],)), token, tensors[place])
    return token


def _leave(token, outputs, found):  # type: ignore[no-untyped-def]  # compiled code
    tensors, locations, dtypes, shapes = found
    if dumps():
        for place in range(len(tensors)):
            dump_value(token, locations[place], tensors[place])
        dump_end(token, outputs)
    elif is_native():
        native_leave(end_constant(outputs, locations, dtypes, shapes), token, *tensors)
    else:
        for place in range(len(tensors)):
            _report_value(
                values_constant((locations[place],), (dtypes[place],), (shapes[place],)), token, tensors[place]
            )
        end_operator(end_constant(outputs, (), (), ()), token)


def _report_value(where, token, tensor):  # type: ignore[no-untyped-def]  # compiled code
    if 0 in tensor.shape:
        empty_value_operator(where, token)
    else:
        value_operator(where, token, to_sendable(tensor))


def reporting_optimizer_construct(original: Callable[..., Any], owners: tuple[Owners, ...]) -> Callable[..., Any]:
    """Return a `construct` that reports the gradients that an optimizer receives.

    `owners` has an item for each parameter of the optimizer; gradients of parameters without an owner are not reported.
    """
    optimizer = register_owners(owners)
    owned = tuple(bool(each) for each in owners)

    def construct(self, gradients):  # type: ignore[no-untyped-def]  # compiled code
        if not in_graph() or dumps():
            return original(gradients)
        tensors, places, dtypes, shapes = _NO_TENSORS
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
        native_gradients(received_constant(optimizer, places, dtypes, shapes), *tensors)
        return
    token = is_listening_operator(received_constant(optimizer, (), (), ()))
    for each in range(len(tensors)):
        where = received_constant(optimizer, (places[each],), (dtypes[each],), (shapes[each],))
        parameter_gradient_operator(where, token, to_sendable(tensors[each]))


def _tap_all(members, part, single, token):  # type: ignore[no-untyped-def]  # compiled code
    made = ()
    for place in range(len(members)):
        made += (_tap_gradients(members[place], part, str(place), str(place), single, token),)
    return made


def _tap_named(named, first, token):  # type: ignore[no-untyped-def]  # compiled code
    """Tap the keyword arguments. Setting the items of a dict individually would turn constants into variables."""
    keys = ()
    made = ()
    place = first
    for key in named:
        keys += (key,)
        made += (_tap_gradients(named[key], "kwargs", key, str(place), True, token),)
        place = place + 1
    return F.make_dict(keys, made)


def _tap_gradients(value, part, path, place, single, token):  # type: ignore[no-untyped-def]  # compiled code
    """Return the value with taps on its tensors; only gradients of the returned value are reported."""
    if isinstance(value, Tensor):
        if F.isconstant(F.shape(value)) and is_differentiable(value.dtype):
            if dumps():
                return dump_gradient(token, part, path, place, single, value)
            where = gradient_constant(part, path, place, single, value.dtype, value.shape)
            return _tap(value, token, where)
        return value
    if isinstance(value, tuple):
        made = ()
        for inner in range(len(value)):
            made += (_tap_member(value, inner, str(inner), part, path, place, token),)
        return made
    if isinstance(value, list) and len(value) > 0:  # The compiler cannot build an empty list.
        listed = ()
        for inner in range(len(value)):
            listed += (_tap_member(value, inner, str(inner), part, path, place, token),)
        return list(listed)
    if isinstance(value, dict):
        names = _dict_names(value)
        keys = ()
        named = ()
        for key in value:
            named += (_tap_member(value, key, names[len(keys)], part, path, place, token),)
            keys += (key,)
        return F.make_dict(keys, named)
    return value


def _tap_member(value, key, name, part, path, place, token):  # type: ignore[no-untyped-def]  # compiled code
    within = "." + name
    return _tap_gradients(value[key], part, path + within, place + within, False, token)


def _dict_names(value):  # type: ignore[no-untyped-def]  # compiled code
    """Return the names under which the members of a dict are recorded."""
    keys = ()
    contain = ()
    for key in value:
        keys += (key,)
        contain += (isinstance(value[key], (tuple, list, dict)),)
    return member_names(keys, contain)


def _report_gradient(gradient, token, where):  # type: ignore[no-untyped-def]  # compiled code
    if is_native():
        return native_gradient(where, token, gradient)
    if 0 in gradient.shape:
        return empty_gradient_operator(where, token)
    return gradient_operator(where, token, to_sendable(gradient))


def _structure(value):  # type: ignore[no-untyped-def]  # compiled code
    """Return the structure of a value as a flat tuple of constants: the compiler limits the nesting of tuples.

    The members of a container are between its item and an "end" item. `structures.structure_of` restores the nesting.
    """
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
            return (("tuple",),) + made + (("end",),)  # noqa: RUF005  # the compiler does not read unpacking
        return (("list",),) + made + (("end",),)  # noqa: RUF005
    if isinstance(value, dict):
        members = ()
        for key in value:
            members += _structure(value[key])
        return (("dict", _dict_names(value)),) + members + (("end",),)  # noqa: RUF005
    if F.isconstant(value):
        return (("constant", value),)
    return (("unknown",),)


_tap = GradientTap(_report_gradient)
