"""`save` and `save_grad` in compiled code: the operators that save tensors, and the checks of arguments.

The operator is chosen while the graph is compiled, by the device and by whether the shape of the tensor is known.
"""

from typing import Any, NoReturn, Protocol

import numpy as np
from mindspore import Tensor, ops
from mindspore.common.dtype import Type
from mindspore.ops import functional as F

from msprobe.base.errors import UsageError
from msprobe.base.log import log_once
from msprobe.base.statistic import Array
from msprobe.frameworks.mindspore.at_compile import AtCompile

from .operators import (
    ConstantTable,
    GradientTap,
    has_tensor_dump,
    no_result,
    number,
    operator,
    rank,
    to_sendable,
    widen_bfloat16,
    zeros,
)
from .transport.tensordump import GradientDump, dump
from .tree import save_task, tree


def validate_arguments(function: str, save_dir: object, name: object) -> None:
    """Raise TypeError if `save_dir` or `name` is not a non-empty string, SettingsError if the save task is invalid."""
    save_task()
    for what, value in (("save_dir", save_dir), ("name", name)):
        if not isinstance(value, str) or not value:
            raise TypeError(f"{function}(): {what} is {value!r}; pass a string")


def refuse_data(name: str, kind: str) -> NoReturn:
    """Raise TypeError for a value that is neither a tensor nor a container of tensors."""
    raise TypeError(f"save(): {name} is {kind}; pass a Tensor, or lists, tuples and dicts of Tensors")


def refuse_gradient(name: str) -> NoReturn:
    """Raise TypeError for a value whose gradient cannot be saved."""
    raise TypeError(
        f"save_grad(): {name} is not a Tensor; pass a Tensor, and use the return value of save_grad in its place"
    )


# ---- sinks ---------------------------------------------------------------------------------------------------------


class Sink(Protocol):
    """A receiver of saved tensors. `destination` is the string that `insert_save` received."""

    def folder(self, destination: str) -> str:
        """Return the path above `step{n}`, for a device that writes the files itself."""

    def write(self, destination: str, name: str, array: Array, dtype: str) -> None:
        """Save an array from a running graph. Its memory belongs to the framework: read it before returning."""

    def note_unknown_shape(self, name: str) -> bool:
        """Log, at compile time, that the shape of a tensor is unknown; return whether Python saves it at run time."""

    def refuse(self, name: str) -> None:
        """Report, at compile time, that a value is neither a tensor nor a container."""


class _SaveTreeSink:
    """The sink of `save`: its tree of files; `destination` is the `save_dir`."""

    def folder(self, destination: str) -> str:
        return destination

    def write(self, destination: str, name: str, array: Array, dtype: str) -> None:
        tree.save(destination, name, array, dtype, tree.next_count(destination, name), rank())

    def note_unknown_shape(self, name: str) -> bool:
        what = f"save(): the shape of {name} is unknown when the graph is compiled"
        log_once(
            what,
            f"{what}; it is saved from Python while the graph runs, which the framework does not support in a "
            "graph with gradients or saves of fixed shapes: if it fails, use inputs of fixed shapes, or run this "
            "part in PyNative",
        )
        return True

    def refuse(self, name: str) -> None:
        refuse_data(name, "neither a tensor nor a container")


SINKS: dict[str, Sink] = {"save": _SaveTreeSink()}
"""Sinks by name: compiled code can pass on only strings."""


# ---- constants of the graph ----------------------------------------------------------------------------------------

_constants: ConstantTable[tuple[Any, ...]] = ConstantTable()


def _folder(sink: str, destination: str) -> str:
    return SINKS[sink].folder(destination).rstrip("/") + "/{step}/{rank}/"


def _validate_in_graph(function: str, save_dir: object, name: object) -> None:
    validate_arguments(function, save_dir, name)
    tree.mark_pending()


def _is_saved_at_run_time(sink: str, name: str) -> bool:
    return SINKS[sink].note_unknown_shape(name)


def _refuse(sink: str, name: str) -> None:
    SINKS[sink].refuse(name)


def _log_unknown_shape(name: str) -> None:
    what = f"save_grad(): the shape of {name} is unknown when the graph is compiled, so its gradient is not saved"
    log_once(what, f"{what}; use inputs of fixed shapes, or run this part in PyNative mode")


def _refuse_in_graph(function: str) -> None:
    raise UsageError(
        f"{function}() was called inside a graph; call it between two steps, outside of construct() and @jit"
    )


validate_in_graph = AtCompile(_validate_in_graph)
refuse_in_graph = AtCompile(_refuse_in_graph)
_constant = AtCompile(_constants.number)
_dump_folder = AtCompile(_folder)
_dumps = AtCompile(has_tensor_dump)
_refuse_data = AtCompile(_refuse)
_refuse_gradient = AtCompile(refuse_gradient)
_saves_at_run_time = AtCompile(_is_saved_at_run_time)
_warn_of_unknown_shape = AtCompile(_log_unknown_shape)


# ---- operators at run time -----------------------------------------------------------------------------------------


def _array(array: Array | None, dtype: Type, shape: tuple[int, ...]) -> Array:
    return zeros(dtype, shape) if array is None else np.reshape(array, shape)


def _save(place: Array, array: Array | None) -> Array:
    sink, destination, name, dtype, shape = _constants[place]
    SINKS[sink].write(destination, name, _array(array, dtype, shape), str(dtype))
    return no_result()


def _save_empty(place: Array) -> Array:
    return _save(place, None)


def _save_at_run_time(sink: str, destination: str, name: str, tensor: Tensor) -> int:
    """Save a tensor whose shape is known only when the graph runs; called by the framework's Python fallback."""
    SINKS[sink].write(destination, name, tensor.asnumpy(), str(tensor.dtype))
    return 0


# The compiler reads functions of this package, but leaves functions of built-in modules to Python.
_save_at_run_time.__module__ = "builtins"


def _count(place: Array) -> Array:
    return np.array([tree.next_count(*_constants[place][:2])], np.int32)


def _save_gradient(place: Array, token: Array, array: Array | None) -> Array:
    save_dir, name, dtype, shape = _constants[place]
    tree.save(save_dir, name, _array(array, dtype, shape), str(dtype), number(token), rank())
    return no_result()


def _save_empty_gradient(place: Array, token: Array) -> Array:
    return _save_gradient(place, token, None)


_save_operator = operator(_save)
_save_empty_operator = operator(_save_empty)
_count_operator = operator(_count)
_save_gradient_operator = operator(_save_gradient)
_save_empty_gradient_operator = operator(_save_empty_gradient)


# ---- compiled code -------------------------------------------------------------------------------------------------


def insert_save(sink, destination, name, data):  # type: ignore[no-untyped-def]  # compiled code
    """Insert operators that save the tensors in `data`."""
    if isinstance(data, Tensor):
        _insert_tensor_save(sink, destination, name, data)
    elif isinstance(data, (list, tuple)):
        for place in range(len(data)):
            insert_save(sink, destination, name + "." + str(place), data[place])
    elif isinstance(data, dict):
        for key in data:
            insert_save(sink, destination, name + "." + str(key), data[key])
    elif data is not None:
        _refuse_data(sink, name)


def _insert_tensor_save(sink, destination, name, tensor):  # type: ignore[no-untyped-def]  # compiled code
    if _dumps():
        dump(_dump_folder(sink, destination) + name, widen_bfloat16(tensor))
    elif not F.isconstant(F.shape(tensor)):
        if _saves_at_run_time(sink, name):
            _save_at_run_time(sink, destination, name, tensor)
    elif 0 in tensor.shape:
        _save_empty_operator(_constant(sink, destination, name, tensor.dtype, tensor.shape))
    else:
        _save_operator(_constant(sink, destination, name, tensor.dtype, tensor.shape), to_sendable(tensor))


def insert_save_gradient(save_dir, name, data):  # type: ignore[no-untyped-def]  # compiled code
    """Return the tensor with an operator that saves its gradient in the backward pass."""
    if not isinstance(data, Tensor):
        _refuse_gradient(name)
    if _dumps():
        return GradientDump(_dump_folder("save", save_dir) + name + "_grad")(data)
    if not F.isconstant(F.shape(data)):
        _warn_of_unknown_shape(name)
        return data
    place = _constant(save_dir, name + "_grad", data.dtype, data.shape)
    return _tap(data, ops.stop_gradient(_count_operator(place)), place)


def _report(gradient, token, place):  # type: ignore[no-untyped-def]  # compiled code
    if 0 in gradient.shape:
        return _save_empty_gradient_operator(place, token)
    return _save_gradient_operator(place, token, to_sendable(gradient))


_tap = GradientTap(_report)
