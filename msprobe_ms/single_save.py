"""`SingleSave`: what the user saves by name at any place of the code, and the tree of these saves below one folder.

See `how-to/collecting/single-save.md`.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from msprobe.base import framework
from msprobe.base.checks import nearest, output_folder, quoted, quoted_list
from msprobe.base.errors import SettingsError, UsageError, reason
from msprobe.base.files import make_root
from msprobe.base.framework import FRAMEWORKS, Framework
from msprobe.base.interrupts import passes
from msprobe.base.log import once
from msprobe.base.nested import MAX_MEMBERS, is_tensor, type_name
from msprobe.store.layout import DATA
from msprobe.store.rl_roots import write_configurations
from msprobe.store.run_folder import run_folder
from msprobe.store.saves.single_saves import Place, write
from msprobe.store.tensor_file import is_storable


class SingleSave:
    """Saves tensors by name below one folder: `SingleSave(path, fmk="mindspore")` once, then `SingleSave.save({...})`.

    The first construction of a process holds; a later one gives the same object, and a line in the log where it asked
    for something else. `fmk` says which framework is asked for the rank first. Raises SettingsError where an argument
    cannot be meant, UsageError where the folder cannot be made. After that no failure reaches the training: a value
    that cannot be written is logged once per cause.
    """

    _only: ClassVar["SingleSave | None"] = None

    def __new__(cls, dump_path: "str | PathLike[str]", fmk: str = "pytorch") -> "SingleSave":
        requested = root, chosen = _checked(dump_path, fmk)
        only = cls._only
        if only is None:
            make_root(root, "SingleSave")
            only = super().__new__(cls)
            only._requested, only._tree = requested, tree_of(root, chosen)
            cls._only = only
        elif requested != only._requested:
            once(
                f"SingleSave {root} {chosen}",
                f"SingleSave({str(root)!r}, {chosen!r}): ignored: a process has one SingleSave, and data is "
                f"already saved to {only._requested[0]} (fmk {only._requested[1]!r}); construct it once, or use "
                "another process",
            )
        return only

    _requested: tuple[Path, Framework]
    _tree: "SingleTree"

    @classmethod
    def save(cls, data: dict[str, Any]) -> None:
        """Save each value under its key, in the next micro step of this key; see `save_ex`."""
        cls._constructed("save").save(data)

    @classmethod
    def save_ex(cls, data: dict[str, Any], micro_batch: int | None = None) -> None:
        """Save each value under its key, in the micro step `micro_batch`, or beside all micro steps without one.

        A value is a tensor or numpy array of any shape, or a list, tuple or dict of them, one level deep; in its own
        dtype, bfloat16 as float32. What is none of these is logged once and left out. TypeError for an element
        of a container that is no tensor: then nothing of this value is saved.
        """
        cls._constructed("save_ex").save_ex(data, micro_batch)

    @classmethod
    def step(cls) -> None:
        """End a step: the next saves belong to the following one, and micro steps begin at 0."""
        cls._constructed("step").step()

    @classmethod
    def save_config(cls, data: Any) -> None:
        """Write `configurations.json`; values that JSON cannot hold become their texts."""
        cls._constructed("save_config").save_config(data)

    @classmethod
    def _constructed(cls, method: str) -> "SingleTree":
        if cls._only is None:
            raise UsageError(
                f'SingleSave.{method}: construct SingleSave first, for example SingleSave("./saved", fmk="mindspore")'
            )
        return cls._only._tree


def _checked(dump_path: object, fmk: object) -> tuple[Path, Framework]:
    if fmk not in FRAMEWORKS:
        near = nearest(fmk, FRAMEWORKS) if isinstance(fmk, str) else ""
        hint = f"did you mean {quoted(near)}? It may be" if near else "it may be"
        raise SettingsError(f"SingleSave: fmk: {quoted(fmk)} is unknown; {hint} one of {quoted_list(FRAMEWORKS)}")
    try:
        return output_folder(dump_path), fmk
    except SettingsError as err:
        raise SettingsError(f"SingleSave: dump_path: {err}") from err


_known: "WeakValueDictionary[Path, SingleTree]" = WeakValueDictionary()


def tree_of(root: Path, first: Framework) -> "SingleTree":
    """The tree below a folder; all of this process who write there share it, so that they count together."""
    tree = _known.get(root)
    if tree is None:
        tree = _known[root] = SingleTree(root, first)
    return tree


class NotATensor(TypeError):
    """An element of a container that is no tensor. Errors of the training may be TypeErrors too."""


class SingleTree:
    """Writes what is saved by name, and counts the saves of each name within a step.

    `first` is the framework that is asked for the rank first. No failure reaches the training: a value that cannot be
    written is logged once per cause. Any thread may save, also a signal handler that comes in between.
    """

    def __init__(self, root: Path, first: Framework) -> None:
        self._root, self._framework, self._lock = root, first, RLock()
        self._step = 0
        self._rank: int | None = None
        self._micro_steps: dict[str, int] = {}

    def save(self, data: Any) -> None:
        """Save each value under its key, in the next micro step of this key; see `save_ex`."""
        self._save_each(data, self._next)

    def save_ex(self, data: Any, micro_batch: int | None = None) -> None:
        """Save each value under its key, in the micro step `micro_batch`, or beside all micro steps without one.

        NotATensor for an element of a container that is none: then nothing of this value is saved.
        """
        if micro_batch is not None and (
            isinstance(micro_batch, bool) or not isinstance(micro_batch, int) or micro_batch < 0
        ):
            _left_out("micro_batch", f"micro_batch is {micro_batch!r}; pass a non-negative integer, or omit it")
            return
        self._save_each(data, lambda _: micro_batch)

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
            write_configurations(self._run_root(), data)
        except Exception as cause:  # a failure while collecting never stops the training
            if passes(cause):
                raise
            _lost("configurations.json", cause)

    def _save_each(self, data: Any, micro_step_of: Callable[[str], int | None]) -> None:
        for key, value in _items(data):
            tensors = _settled(key, value)
            with self._lock:
                micro_step = micro_step_of(key)
                if tensors is not None:
                    self._write(key, value, tensors, micro_step)

    def _write(self, key: str, value: Any, tensors: dict[str, Any], micro_step: int | None) -> None:
        try:
            root = self._run_root()
            place = Place(key, self._step, self._rank or 0, micro_step)
            arrays = {
                member: tensor if framework.framework_of(tensor) is None else framework.array_of(tensor)
                for member, tensor in tensors.items()
            }
            if isinstance(value, Mapping):
                write(root, place, arrays)
            else:
                write(root, place, list(arrays.values()) if isinstance(value, list | tuple) else arrays[""])
        except Exception as cause:  # a failure while collecting never stops the training
            if passes(cause):
                raise
            _lost(key, cause)

    def _run_root(self) -> Path:
        """The folder of this run, which communication may tell after the construction only."""
        if self._rank is None:
            self._rank = framework.rank(self._framework)
        return run_folder(self._root, self._rank, DATA).folder


def _settled(key: str, value: Any) -> dict[str, Any] | None:
    """The tensors of a value, as `_tensors` has them, computed; the training's own errors come out here."""
    try:
        tensors = _tensors(key, value)
    except NotATensor:
        raise
    except BaseException as cause:  # a container is foreign code, which another thread may be changing
        if passes(cause):
            raise
        _lost(key, cause)
        return None
    framework.synchronize(list(tensors.values()) if tensors else [])
    return tensors


def _items(data: object) -> list[tuple[str, Any]]:
    """The keys and values to save; what is not keyed by texts is logged and left out."""
    try:
        items = [(k, v) for k, v in islice(data.items(), MAX_MEMBERS)] if isinstance(data, Mapping) else None
    except BaseException as cause:  # foreign code, which another thread may be changing
        if passes(cause):
            raise
        _lost("data", cause)
        return []
    if items is None:
        _left_out("data", f"the data is of type {type_name(data)}; pass a dict of tensors, {{name: tensor}}")
        return []
    for key, _ in items:
        if not issubclass(type(key), str):
            _left_out("key", f"the key {quoted(key)} is of type {type_name(key)}; use a string")
    return [(str.__str__(key), value) for key, value in items if issubclass(type(key), str)]


def _tensors(key: str, value: Any) -> dict[str, Any] | None:
    """The tensors of a value by position or key, a single one under ""; None, with a line in the log, without any."""
    if is_savable(value):
        return {"": value}
    if isinstance(value, Mapping):
        items = list(islice(value.items(), MAX_MEMBERS + 1))
    elif isinstance(value, list | tuple):
        items = list(enumerate(islice(value, MAX_MEMBERS + 1)))
    else:
        kind = _kind(value)
        _left_out(kind, f"{key} is of type {kind}; pass a tensor, or a list, tuple or dict of tensors")
        return None
    tensors = {str(member): tensor for member, tensor in items}
    if len(items) > MAX_MEMBERS:
        _left_out("members", f"{key} has more than {MAX_MEMBERS} members; save them in several parts")
        return None
    if len(tensors) < len(items):
        _left_out("same text", f"{key} has two keys with the same text; give each tensor a unique key")
        return None
    for member, tensor in tensors.items():
        if not is_savable(tensor):
            raise NotATensor(
                f"SingleSave: {key}.{member} is of type {_kind(tensor)}; a list, tuple or dict may contain only "
                "tensors, one level deep; convert it to a tensor, or save it under a separate key"
            )
    return tensors


def is_savable(value: object) -> bool:
    """Whether a value is a tensor, or an array that can be stored."""
    return is_tensor(value) or (issubclass(type(value), np.ndarray) and is_storable(value))  # type: ignore[arg-type]  # it is


def _kind(value: object) -> str:
    return f"numpy.ndarray of {value.dtype}" if isinstance(value, np.ndarray) else type_name(value)


def _left_out(cause: str, what: str) -> None:
    """A mistake in one call: logged once per cause, and the rest is saved."""
    once(f"SingleSave: {cause}", f"SingleSave: {what}; it is not saved")


def _lost(what: str, cause: BaseException) -> None:
    why = cause.strerror if isinstance(cause, OSError) and cause.strerror else reason(cause)
    once(f"SingleSave lost: {why}", f"SingleSave: {what} could not be saved: {why}; the training continues")
