"""`save` and `save_grad` in compiled code: which operator stands where a tensor is saved, what it does and refuses.

The operator is chosen while the graph is compiled, by the device and by what is known of the tensor's shape.
"""

from typing import Any, NoReturn, Protocol

import numpy as np
from mindspore import Tensor, ops
from mindspore.common.dtype import Type
from mindspore.ops import functional as F

from msprobe.at_compile import AtCompile
from msprobe.base.errors import UsageError
from msprobe.base.log import once
from msprobe.base.statistic import Array

from .operators import (
    Places,
    Tap,
    has_tensor_dump,
    nothing,
    number,
    operator,
    rank,
    sendable,
    wide,
    zeros,
)
from .transport.tensordump import GradientDump, dump
from .tree import task, tree


def check(function: str, save_dir: object, name: object) -> None:
    """Refuse a folder or a name that is no text with a TypeError, and a wrong setting with a SettingsError."""
    task()
    for what, value in (("save_dir", save_dir), ("name", name)):
        if not isinstance(value, str) or not value:
            raise TypeError(f"{function}(): {what} is {value!r}; pass a string")


def refuse_data(name: str, kind: str) -> NoReturn:
    """TypeError for something that is neither a tensor nor a container of tensors."""
    raise TypeError(f"save(): {name} is {kind}; pass a Tensor, or lists, tuples and dicts of Tensors")


def refuse_gradient(name: str) -> NoReturn:
    """TypeError for something whose gradient cannot be saved."""
    raise TypeError(
        f"save_grad(): {name} is not a Tensor; pass a Tensor, and use the return value of save_grad in its place"
    )


# ---- who keeps what arrives ----------------------------------------------------------------------------------------


class Keeper(Protocol):
    """Whose files the saved tensors become. `where` is the text that `plant` received."""

    def folder(self, where: str) -> str:
        """What stands before `step{n}` in the paths, for a device that writes the files itself."""

    def keep(self, where: str, name: str, array: Array, dtype: str) -> None:
        """Save an array that a running graph passed; it is the framework's memory, and read now."""

    def note_unknown_shape(self, name: str) -> bool:
        """Say, at compile time, that the shape of a tensor is not known; whether it is saved by Python then."""

    def refuse(self, name: str) -> None:
        """Say, at compile time, that something is neither a tensor nor a container."""


class _Saves:
    """The data of `save` go to its tree; `where` is the `save_dir`."""

    def folder(self, where: str) -> str:
        return where

    def keep(self, where: str, name: str, array: Array, dtype: str) -> None:
        tree.save(where, name, array, dtype, tree.next_count(where, name), rank())

    def note_unknown_shape(self, name: str) -> bool:
        what = f"save(): the shape of {name} is unknown when the graph is compiled"
        once(
            what,
            f"{what}; it is saved from Python while the graph runs, which the framework does not support in a "
            "graph with gradients or saves of fixed shapes: if it fails, use inputs of fixed shapes, or run this "
            "part in PyNative",
        )
        return True

    def refuse(self, name: str) -> None:
        refuse_data(name, "neither a tensor nor a container")


KEEPERS: dict[str, Keeper] = {"save": _Saves()}
"""By the text that `plant` receives: compiled code can pass on texts only."""


# ---- constants of the graph ----------------------------------------------------------------------------------------

_places: Places[tuple[Any, ...]] = Places()


def _folder(keeper: str, where: str) -> str:
    return KEEPERS[keeper].folder(where).rstrip("/") + "/{step}/{rank}/"


def _admitted(function: str, save_dir: object, name: object) -> None:
    check(function, save_dir, name)
    tree.expect()


def _late(keeper: str, name: str) -> bool:
    return KEEPERS[keeper].note_unknown_shape(name)


def _refused(keeper: str, name: str) -> None:
    KEEPERS[keeper].refuse(name)


def _unknown_shape(name: str) -> None:
    what = f"save_grad(): the shape of {name} is unknown when the graph is compiled, so its gradient is not saved"
    once(what, f"{what}; use inputs of fixed shapes, or run this part in PyNative mode")


def _outside(function: str) -> None:
    raise UsageError(
        f"{function}() was called inside a graph; call it between two steps, outside of construct() and @jit"
    )


admit = AtCompile(_admitted)
refuse_in_graph = AtCompile(_outside)
_place = AtCompile(_places.number)
_dump_folder = AtCompile(_folder)
_dumps = AtCompile(has_tensor_dump)
_refuse_data = AtCompile(_refused)
_refuse_gradient = AtCompile(refuse_gradient)
_is_saved_late = AtCompile(_late)
_no_shape = AtCompile(_unknown_shape)


# ---- what an operator does when the graph runs ---------------------------------------------------------------------


def _array(array: Array | None, dtype: Type, shape: tuple[int, ...]) -> Array:
    return zeros(dtype, shape) if array is None else np.reshape(array, shape)


def _save(place: Array, array: Array | None) -> Array:
    keeper, where, name, dtype, shape = _places[place]
    KEEPERS[keeper].keep(where, name, _array(array, dtype, shape), str(dtype))
    return nothing()


def _save_empty(place: Array) -> Array:
    return _save(place, None)


def _save_late(keeper: str, where: str, name: str, tensor: Tensor) -> int:
    """Of a tensor whose shape is known only when the graph runs; its caller is the framework's Python fallback."""
    KEEPERS[keeper].keep(where, name, tensor.asnumpy(), str(tensor.dtype))
    return 0


# The compiler reads our functions; one of a builtin module it leaves to Python.
_save_late.__module__ = "builtins"


def _count(place: Array) -> Array:
    return np.array([tree.next_count(*_places[place][:2])], np.int32)


def _save_gradient(place: Array, token: Array, array: Array | None) -> Array:
    save_dir, name, dtype, shape = _places[place]
    tree.save(save_dir, name, _array(array, dtype, shape), str(dtype), number(token), rank())
    return nothing()


def _save_empty_gradient(place: Array, token: Array) -> Array:
    return _save_gradient(place, token, None)


_saving = operator(_save)
_saving_empty = operator(_save_empty)
_counting = operator(_count)
_saving_gradient = operator(_save_gradient)
_saving_empty_gradient = operator(_save_empty_gradient)


# ---- what the compiler reads ---------------------------------------------------------------------------------------


def plant(keeper, where, name, data):  # type: ignore[no-untyped-def]  # compiled code
    """Have the tensors in `data` saved here."""
    if isinstance(data, Tensor):
        _plant_tensor(keeper, where, name, data)
    elif isinstance(data, (list, tuple)):
        for place in range(len(data)):
            plant(keeper, where, name + "." + str(place), data[place])
    elif isinstance(data, dict):
        for key in data:
            plant(keeper, where, name + "." + str(key), data[key])
    elif data is not None:
        _refuse_data(keeper, name)


def _plant_tensor(keeper, where, name, tensor):  # type: ignore[no-untyped-def]  # compiled code
    if _dumps():
        dump(_dump_folder(keeper, where) + name, wide(tensor))
    elif not F.isconstant(F.shape(tensor)):
        if _is_saved_late(keeper, name):
            _save_late(keeper, where, name, tensor)
    elif 0 in tensor.shape:
        _saving_empty(_place(keeper, where, name, tensor.dtype, tensor.shape))
    else:
        _saving(_place(keeper, where, name, tensor.dtype, tensor.shape), sendable(tensor))


def plant_gradient(save_dir, name, data):  # type: ignore[no-untyped-def]  # compiled code
    """Have the gradient of a tensor saved when it flows back to here; returns the tensor."""
    if not isinstance(data, Tensor):
        _refuse_gradient(name)
    if _dumps():
        return GradientDump(_dump_folder("save", save_dir) + name + "_grad")(data)
    if not F.isconstant(F.shape(data)):
        _no_shape(name)
        return data
    place = _place(save_dir, name + "_grad", data.dtype, data.shape)
    return _tap(data, ops.stop_gradient(_counting(place)), place)


def _report(gradient, token, place):  # type: ignore[no-untyped-def]  # compiled code
    if 0 in gradient.shape:
        return _saving_empty_gradient(place, token)
    return _saving_gradient(place, token, sendable(gradient))


_tap = Tap(_report)
