"""The tree of single saves below one folder: where each value goes, step by step and micro step by micro step."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from msprobe.base import framework
from msprobe.base.checks import shown
from msprobe.base.errors import reason
from msprobe.base.framework import Framework
from msprobe.base.log import once
from msprobe.base.nested import MEMBERS, PASSED, is_tensor, type_name
from msprobe.store.layout import DATA
from msprobe.store.npy import is_storable
from msprobe.store.rl_roots import write_configurations
from msprobe.store.run_folder import run_folder
from msprobe.store.saves.single_saves import Place, write

_known: "WeakValueDictionary[Path, SingleTree]" = WeakValueDictionary()


def tree_of(root: Path, first: Framework) -> "SingleTree":
    """The tree below a folder, one for all of this process who write there, so that they count together."""
    tree = _known.get(root)
    if tree is None:
        tree = _known[root] = SingleTree(root, first)
    return tree


class NotATensor(TypeError):
    """An element of a container that is no tensor. Errors of the training may be TypeErrors too."""


class SingleTree:
    """Writes what is saved by name, and counts the saves of each name within a step.

    `first` is the framework that is asked for the rank first. No failure reaches the training: a value that cannot be
    written is said once per cause in the log. Any thread may save, also a signal handler that comes in between.
    """

    def __init__(self, root: Path, first: Framework) -> None:
        self._root, self._framework, self._lock = root, first, RLock()
        self._step = 0
        self._rank: int | None = None
        self._micro_steps: dict[str, int] = {}

    def save(self, data: Any) -> None:
        """Save each value under its key, in the next micro step of this key; see `save_ex`."""
        for key, value in _items(data):
            tensors = _settled(key, value)
            with self._lock:
                self._save(key, value, tensors, self._next(key))

    def save_ex(self, data: Any, micro_batch: int | None = None) -> None:
        """Save each value under its key, in the micro step `micro_batch`, or beside all micro steps without one.

        NotATensor for an element of a container that is none: then nothing of this value is saved.
        """
        if micro_batch is not None and (
            isinstance(micro_batch, bool) or not isinstance(micro_batch, int) or micro_batch < 0
        ):
            _left_out("micro_batch", f"micro_batch is {micro_batch!r}; write a whole number from 0 on, or leave it out")
            return
        for key, value in _items(data):
            tensors = _settled(key, value)
            with self._lock:
                self._save(key, value, tensors, micro_batch)

    def leave_out(self, key: str) -> None:
        """Count a save that was refused."""
        with self._lock:
            self._next(key)

    def _next(self, key: str) -> int:
        """The micro step of this save, taken before anything is written; also where nothing is."""
        micro_step = self._micro_steps.get(key, 0)
        self._micro_steps[key] = micro_step + 1
        return micro_step

    def step(self) -> None:
        """End a step: the next saves belong to the following one, and micro steps begin at 0."""
        with self._lock:
            self._step += 1
            self._micro_steps.clear()

    def save_config(self, data: Any) -> None:
        """Write `configurations.json`; values that JSON cannot hold become their texts."""
        try:
            write_configurations(self._home(), data)
        except Exception as cause:  # a failure while collecting never stops the training
            _lost("configurations.json", cause)

    def _save(self, key: str, value: Any, tensors: dict[str, Any] | None, micro_step: int | None) -> None:
        if tensors is None:
            return
        try:
            root = self._home()
            place = Place(key, self._step, self._rank or 0, micro_step)
            arrays = {member: _array(tensor) for member, tensor in tensors.items()}
            if isinstance(value, Mapping):
                write(root, place, arrays)
            else:
                write(root, place, list(arrays.values()) if isinstance(value, list | tuple) else arrays[""])
        except Exception as cause:  # a failure while collecting never stops the training
            _lost(key, cause)

    def _home(self) -> Path:
        """The folder of this run, which communication may tell after the construction only."""
        if self._rank is None:
            self._rank = framework.rank(self._framework)
        return run_folder(self._root, self._rank, DATA).folder


def _settled(key: str, value: Any) -> dict[str, Any] | None:
    """The tensors of a value, as `_tensors` has them, computed; the training's own errors come out here."""
    try:
        tensors = _tensors(key, value)
    except (NotATensor, *PASSED):
        raise
    except BaseException as cause:  # a container is foreign code, which another thread may be changing
        _lost(key, cause)
        return None
    framework.settle(list(tensors.values()) if tensors else [])
    return tensors


def _items(data: object) -> list[tuple[str, Any]]:
    """The keys and values to save; what is not keyed by texts is said and left out."""
    try:
        items = [(k, v) for k, v in islice(data.items(), MEMBERS)] if isinstance(data, Mapping) else None
    except PASSED:
        raise
    except BaseException as cause:  # foreign code, which another thread may be changing
        _lost("data", cause)
        return []
    if items is None:
        _left_out("data", f"the data is of type {type_name(data)}; write a dict of tensors, {{name: tensor}}")
        return []
    for key, _ in items:
        if not issubclass(type(key), str):
            _left_out("key", f"the key {shown(key)} is of type {type_name(key)}; write a text")
    return [(str.__str__(key), value) for key, value in items if issubclass(type(key), str)]


def _tensors(key: str, value: Any) -> dict[str, Any] | None:
    """The tensors of a value by position or key, a single one under ""; None, with a line in the log, without any."""
    if _is_tensor(value):
        return {"": value}
    if isinstance(value, Mapping):
        items = list(islice(value.items(), MEMBERS + 1))
        tensors = {str(member): tensor for member, tensor in items}
    elif isinstance(value, list | tuple):
        items = list(enumerate(islice(value, MEMBERS + 1)))
        tensors = {str(position): tensor for position, tensor in items}
    else:
        kind = _kind(value)
        _left_out(kind, f"{key} is of type {kind}; pass a tensor, or a list, tuple or dict of tensors")
        return None
    if len(items) > MEMBERS:
        _left_out("members", f"{key} has more than {MEMBERS} members; save them in several parts")
        return None
    if len(tensors) < len(items):
        _left_out("same text", f"{key} has two keys that are the same text; give each tensor a text of its own")
        return None
    for member, tensor in tensors.items():
        if not _is_tensor(tensor):
            raise NotATensor(
                f"SingleSave: {key}.{member} is of type {_kind(tensor)}; a list, tuple or dict may hold tensors only, "
                "one level deep: make it a tensor, or save it under a key of its own"
            )
    return tensors


def _is_tensor(value: object) -> bool:
    return is_tensor(value) or (issubclass(type(value), np.ndarray) and is_storable(value))  # type: ignore[arg-type]  # it is


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    return tensor if framework.maker(tensor) is None else framework.array_of(tensor)


def _kind(value: object) -> str:
    return f"numpy.ndarray of {value.dtype}" if isinstance(value, np.ndarray) else type_name(value)


def _left_out(cause: str, what: str) -> None:
    """A mistake in one call: said once per cause, and the rest is saved."""
    once(f"SingleSave: {cause}", f"SingleSave: {what}; it is not saved")


def _lost(what: str, cause: BaseException) -> None:
    why = cause.strerror if isinstance(cause, OSError) and cause.strerror else reason(cause)
    once(f"SingleSave lost: {why}", f"SingleSave: {what} could not be saved: {why}; the training goes on without it")
