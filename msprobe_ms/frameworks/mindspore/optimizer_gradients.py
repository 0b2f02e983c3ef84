"""Optimizers of MindSpore, which are cells that are called with the gradients.

The optimizer's own `construct` is replaced by one that reports the gradients and calls it. Where Python runs they are
read immediately; while the graph of an optimizer is called from there (`nn.Adam` has one in PyNative mode), its
original `construct` is restored. In a graph operators pass the gradients on: to Python on a CPU, as files on a device
that cannot call Python (not run on one). A graph that the framework cannot compile with these operators is compiled
without them.
"""

from collections.abc import Callable
from functools import partial, wraps
from itertools import count
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.common.dtype import Type
from mindspore.ops import functional as F

from msprobe.base.errors import reason
from msprobe.base.log import log_once
from msprobe.base.patches import Patches
from msprobe.base.statistic import Array
from msprobe.frameworks.interface import GradientProbe, GradientWatch, NotAnOptimizerError
from msprobe.graph_save.operators import (
    ConstantTable,
    has_tensor_dump,
    in_graph,
    is_traced,
    no_result,
    number,
    operator,
    synchronize,
    to_sendable,
    widen_bfloat16,
    zeros,
)
from msprobe.graph_save.transport.tensordump import TensorFile, dump, dumps, files
from msprobe.store.npy import load_npy

from .at_compile import AtCompile
from .executors import GRAPHS, api, executor
from .reading import array_to_save


def report_gradients(optimizer: object, probe: GradientProbe) -> None:
    """Report the gradients with which an optimizer is called. Raises NotAnOptimizerError."""
    parameters = getattr(optimizer, "_parameters", None) or getattr(optimizer, "parameters", None)
    if not isinstance(optimizer, nn.Cell) or not isinstance(parameters, tuple | list) or not parameters:
        raise NotAnOptimizerError(
            f"monitor(): {type(optimizer).__name__} is not an optimizer: it has no parameters, or is not a Cell; "
            "pass the optimizer that is called with the gradients"
        )
    names = [str(parameter.name) for parameter in parameters]
    known = _Optimizer(optimizer, probe.watch(names), names)
    known.put()
    _compiling.install()
    probe.at_stop(known.finish)
    if has_tensor_dump():
        known.folder = probe.destination.root() / f"rank{probe.destination.rank()}" / "tensordump"


class _Optimizer:
    """One watched optimizer; graphs refer to it by its number."""

    _all: "dict[int, _Optimizer]" = {}  # noqa: RUF012  # of this process
    _numbers = count()

    def __init__(self, optimizer: nn.Cell, watch: GradientWatch, names: list[str]) -> None:
        self.number = next(self._numbers)
        self._all[self.number] = self
        self._cell, self.watch, self._names = optimizer, watch, names
        self._own = vars(optimizer).get("construct")
        self._original = optimizer.construct
        self.folder: Path | None = None
        self.dumped: dict[int, str] = {}

    def put(self) -> None:
        """Replace the optimizer's construct."""
        wanted = tuple(self.watch.wants(name) for name in self._names)
        made = _planted(self._original, self, self.number, tuple(self._names), wanted)
        vars(self._cell)["construct"] = self._construct = made.__get__(self._cell, type(self._cell))

    def call(self, gradients: Any, *others: Any) -> Any:
        """Report the gradients that Python has, and do what the optimizer does."""
        if is_traced():
            log_once("grad_probe traced", "grad_probe: gradients in a graph captured by tracing are not recorded")
            return self._original(gradients, *others)
        executor.sync()  # an error of the training that comes up here is the training's
        if self.watch.begin():
            for name, gradient in zip(self._names, gradients, strict=False):
                if not self.watch.wants(name):
                    continue
                if isinstance(gradient, Tensor):
                    self.watch.take(name, partial(array_to_save, gradient))
                elif gradient is not None:
                    _left_out(name)
            self.watch.end()
        with_ours = vars(self._cell).get("construct")
        self._restore(self._own)
        try:
            return self._original(gradients, *others)
        finally:
            self._restore(with_ours)

    def _restore(self, construct: Callable[..., Any] | None) -> None:
        if construct is None:
            vars(self._cell).pop("construct", None)
        else:
            vars(self._cell)["construct"] = construct

    def finish(self) -> None:
        """Wait for graphs, and turn files that they wrote into tables."""
        synchronize()
        if self.folder is None or not self.folder.is_dir():
            return
        arrived: dict[int, list[TensorFile]] = {place: [] for place in self.dumped}
        for each in files(self.folder):
            ours, _, place = each.stem.partition(".")
            if ours == str(self.number) and place.isdecimal() and int(place) in arrived:
                arrived[int(place)].append(each)
        for update in zip(*arrived.values(), strict=False):
            self.watch.begin()
            for name, each in zip(self.dumped.values(), update, strict=True):
                self.watch.take(name, partial(load_npy, each.path))
            self.watch.end()
            for each in update:
                each.path.unlink(missing_ok=True)


def _left_out(name: str) -> None:
    what = f"grad_probe: the gradient of {name}"
    log_once(what, f"{what} is not a tensor with a known shape (it may be sparse) and is not recorded")


# ---- compiling -----------------------------------------------------------------------------------------------------


class _Compiling:
    """Graphs are compiled with our operators, and again without where the framework refuses them."""

    def __init__(self) -> None:
        self.plants = True
        self.planted = False
        self._patches = Patches()
        for name in GRAPHS:
            self._patches.add(getattr(api, name), "compile", partial(_compile, self))

    def install(self) -> None:
        """Watch compilations from here on."""
        self._patches.install()


def _compile(state: _Compiling, original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def compile(owner: Any, *args: Any, **kwargs: Any) -> Any:
        state.planted = False
        try:
            return original(owner, *args, **kwargs)
        except Exception as cause:
            if not state.planted:
                raise
            refused = cause
        state.plants = False
        try:
            result = original(owner, *args, **kwargs)  # raises again what is the user's own
        finally:
            state.plants = True
        what = f"grad_probe: a graph could not be compiled with the probe's operators ({reason(refused)})"
        log_once(what, f"{what}; it was compiled without them and its gradients are not recorded")
        return result

    return compile


_compiling = _Compiling()


def _plants() -> bool:
    _compiling.planted |= _compiling.plants
    return _compiling.plants


def _path(optimizer: int, place: int, name: str) -> str:
    """Return the path to which a graph writes a gradient; its name contains the numbers of optimizer and parameter."""
    known = _Optimizer._all[int(optimizer)]
    known.dumped[int(place)] = name
    assert known.folder is not None
    return f"{known.folder}/{known.number}.{int(place)}"


_places: ConstantTable[tuple[int, str, Type, tuple[int, ...]]] = ConstantTable()
_is_planted = AtCompile(_plants)
_place = AtCompile(_places.number)
_file = AtCompile(_path)
_no_tensor = AtCompile(_left_out)


# ---- what an operator does when the graph runs ---------------------------------------------------------------------


def _begin(optimizer: Array) -> Array:
    is_collected = _Optimizer._all[number(optimizer)].watch.begin()
    return np.array([is_collected], np.int32)


def _take(place: Array, token: Array, array: Array | None) -> Array:
    if number(token):
        optimizer, name, dtype, shape = _places[place]
        elements = zeros(dtype, shape) if array is None else np.reshape(array, shape)
        _Optimizer._all[optimizer].watch.take(name, lambda: elements)
    return no_result()


def _take_empty(place: Array, token: Array) -> Array:
    return _take(place, token, None)


def _end(optimizer: Array, token: Array) -> Array:
    if number(token):
        _Optimizer._all[number(optimizer)].watch.end()
    return no_result()


_beginning = operator(_begin)
_taking = operator(_take)
_taking_empty = operator(_take_empty)
_ending = operator(_end)


# ---- what the compiler reads ---------------------------------------------------------------------------------------


def _planted(
    original: Callable[..., Any], optimizer: _Optimizer, ours: int, names: tuple[str, ...], wanted: tuple[bool, ...]
) -> Callable[..., Any]:
    """Return a `construct` that reports the gradients before the optimizer uses them."""
    itself = Tensor(ours, ms.int32)

    def construct(self, gradients, *others):  # type: ignore[no-untyped-def]  # compiled code
        if not in_graph():
            return optimizer.call(gradients, *others)
        if not _is_planted():
            return original(gradients, *others)
        if dumps():
            for place in range(len(names)):
                if wanted[place] and isinstance(gradients[place], Tensor):
                    dump(_file(ours, place, names[place]), widen_bfloat16(gradients[place]))
            return original(gradients, *others)
        token = ops.stop_gradient(_beginning(itself))
        for place in range(len(names)):
            if wanted[place]:
                _report(gradients[place], token, ours, names[place])
        _ending(itself, token)
        return original(gradients, *others)

    return construct


def _report(gradient, token, ours, name):  # type: ignore[no-untyped-def]  # compiled code
    if isinstance(gradient, Tensor):
        _report_tensor(gradient, token, ours, name)
    else:
        _no_tensor(name)


def _report_tensor(gradient, token, ours, name):  # type: ignore[no-untyped-def]  # compiled code
    if not F.isconstant(F.shape(gradient)):
        _no_tensor(name)
    elif 0 in gradient.shape:
        _taking_empty(_place(ours, name, gradient.dtype, gradient.shape), token)
    else:
        _taking(_place(ours, name, gradient.dtype, gradient.shape), token, to_sendable(gradient))
