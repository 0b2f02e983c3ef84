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
    call_at,
    end_at,
    ending,
    ending_run,
    has_gradient,
    listening,
    names_at,
    owned_at,
    taking,
    taking_empty,
    taking_empty_gradient,
    taking_gradient,
    taking_parameter_gradient,
    value_at,
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
        token = _enter(stem, _structure(args), _structure(kwargs))
        if values:
            for place in range(len(names)):
                _report("parameters", names[place], "", owned[place], token)
        context = (token, values, gradients)
        args = _watch_all(args, "input", True, context)
        kwargs = _watch_named(kwargs, len(args), context)
        result = original(*args, **kwargs)
        if isinstance(result, tuple):
            result = _watch_all(result, "output", False, context)
        else:
            result = _watch(result, "output", "0", "0", True, context)
        _leave(token, _structure(result))
        return result

    return construct


def planted_root(original: Callable[..., Any], model: int) -> Callable[..., Any]:
    """A `construct` of a model that reports when it begins and ends; its cells report the rest."""
    number_of_model = Tensor(model, mstype.int32)

    def construct(self, *args, **kwargs):  # type: ignore[no-untyped-def]  # compiled code
        if not in_graph() or dumps():
            return original(*args, **kwargs)
        token = ops.stop_gradient(beginning_run(number_of_model))
        result = original(*args, **kwargs)
        ending_run(token)
        return result

    return construct


def _enter(stem, inputs, keywords):  # type: ignore[no-untyped-def]  # compiled code
    """Gives what the values of the call name it by: a token, or in the names of files its stem."""
    if dumps():
        dump_begin(stem, inputs, keywords)
        return stem
    return ops.stop_gradient(beginning(call_at(stem, inputs, keywords)))


def _leave(token, outputs):  # type: ignore[no-untyped-def]  # compiled code
    if dumps():
        dump_end(token, outputs)
    else:
        ending(end_at(outputs), token)


def planted_optimizer(original: Callable[..., Any], owners: tuple[Owners, ...]) -> Callable[..., Any]:
    """A `construct` of an optimizer that reports the gradients that it receives, one for each of its parameters."""

    def construct(self, gradients):  # type: ignore[no-untyped-def]  # compiled code
        if not in_graph() or dumps():
            return original(gradients)
        token = listening(owned_at(()))
        for place in range(len(owners)):
            if len(owners[place]) > 0 and isinstance(gradients[place], Tensor):
                _report_parameter(gradients[place], token, owners[place])
        return original(gradients)

    return construct


def _report_parameter(gradient, token, owners):  # type: ignore[no-untyped-def]  # compiled code
    if F.isconstant(F.shape(gradient)):
        where = owned_at(owners, gradient.dtype, gradient.shape)
        taking_parameter_gradient(where, token, sendable(gradient))


def _watch_all(members, part, single, context):  # type: ignore[no-untyped-def]  # compiled code
    made = ()
    for place in range(len(members)):
        made += (_watch(members[place], part, str(place), str(place), single, context),)
    return made


def _watch_named(named, first, context):  # type: ignore[no-untyped-def]  # compiled code
    """The keyword arguments. To set a dict's items one by one would make variables of constants."""
    keys = ()
    made = ()
    place = first
    for key in named:
        keys += (key,)
        made += (_watch(named[key], "kwargs", key, str(place), True, context),)
        place = place + 1
    return F.make_dict(keys, made)


def _watch(value, part, path, place, single, context):  # type: ignore[no-untyped-def]  # compiled code
    """Returns the value, which the code that follows must use: gradients are reported of what is returned."""
    if isinstance(value, Tensor):
        if context[1]:
            _report(part, path, place, value, context[0])
        if context[2] and F.isconstant(F.shape(value)) and has_gradient(value.dtype):
            if dumps():
                return dump_gradient(context[0], part, path, place, single, value)
            where = value_at(part, path, place, single, value.dtype, value.shape)
            return _tap(value, context[0], where)
        return value
    if isinstance(value, tuple):
        made = ()
        for inner in range(len(value)):
            made += (_inside(value, inner, str(inner), part, path, place, context),)
        return made
    if isinstance(value, list) and len(value) > 0:  # the compiler makes no empty one
        listed = ()
        for inner in range(len(value)):
            listed += (_inside(value, inner, str(inner), part, path, place, context),)
        return list(listed)
    if isinstance(value, dict):
        names = _names(value)
        keys = ()
        named = ()
        for key in value:
            named += (_inside(value, key, names[len(keys)], part, path, place, context),)
            keys += (key,)
        return F.make_dict(keys, named)
    return value


def _inside(value, key, name, part, path, place, context):  # type: ignore[no-untyped-def]  # compiled code
    within = "." + name
    return _watch(value[key], part, path + within, place + within, False, context)


def _names(value):  # type: ignore[no-untyped-def]  # compiled code
    """The texts by which the members of a dict are recorded."""
    keys = ()
    contain = ()
    for key in value:
        keys += (key,)
        contain += (isinstance(value[key], (tuple, list, dict)),)
    return names_at(keys, contain)


def _report(part, path, place, tensor, token):  # type: ignore[no-untyped-def]  # compiled code
    if not F.isconstant(F.shape(tensor)):
        return
    if dumps():
        dump_value(token, part, path, place, True, tensor)
    else:
        where = value_at(part, path, place, True, tensor.dtype, tensor.shape)
        if 0 in tensor.shape:
            taking_empty(where, token)
        else:
            taking(where, token, sendable(tensor))


def _report_gradient(gradient, token, where):  # type: ignore[no-untyped-def]  # compiled code
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
