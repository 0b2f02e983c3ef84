"""`SingleSave`: saves named tensors at any place of the code to a tree of files.

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

from msprobe.base.checks import nearest, output_folder, quoted, quoted_list
from msprobe.base.errors import SettingsError, UsageError, reason
from msprobe.base.files import make_root
from msprobe.base.framework import FRAMEWORKS, Framework
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once
from msprobe.base.nested import MAX_MEMBERS, is_tensor, type_name
from msprobe.frameworks import process
from msprobe.store.layout import DATA
from msprobe.store.rl_roots import write_configurations
from msprobe.store.run_folder import run_folder
from msprobe.store.saves.single_saves import Place, write
from msprobe.store.tensor_file import is_storable


class SingleSave:
    """Writer of named tensors: construct `SingleSave(path, fmk="mindspore")` once, then call `SingleSave.save({...})`.

    dump_path : output folder.
    fmk : framework whose rank is used first, "mindspore" or "pytorch".

    There is one object per process: a later construction returns it, and logs a message if its arguments differ. Raises
    SettingsError for invalid arguments, UsageError if the folder cannot be created. Later failures do not reach the
    training: a value that cannot be written is logged once per cause.
    """

    _instance: ClassVar["SingleSave | None"] = None

    def __new__(cls, dump_path: "str | PathLike[str]", fmk: str = "pytorch") -> "SingleSave":
        requested = root, chosen = _checked(dump_path, fmk)
        only = cls._instance
        if only is None:
            make_root(root, "SingleSave")
            only = super().__new__(cls)
            only._requested, only._tree = requested, shared_tree(root, chosen)
            cls._instance = only
        elif requested != only._requested:
            log_once(
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
        """Save each value under its key, in the micro step `micro_batch`, or without a micro step.

        A value is a tensor or NumPy array of any shape, or a list, tuple or dict of them (not nested). It is saved in
        its dtype, bfloat16 as float32. Other values are logged once and skipped. TypeError, and nothing of the value is
        saved, if an element of a container is not a tensor.
        """
        cls._constructed("save_ex").save_ex(data, micro_batch)

    @classmethod
    def step(cls) -> None:
        """End the step: later saves belong to the next step, and micro steps begin at 0."""
        cls._constructed("step").step()

    @classmethod
    def save_config(cls, data: Any) -> None:
        """Write `configurations.json`; values that JSON does not support are converted to strings."""
        cls._constructed("save_config").save_config(data)

    @classmethod
    def _constructed(cls, method: str) -> "SingleTree":
        if cls._instance is None:
            raise UsageError(
                f'SingleSave.{method}: construct SingleSave first, for example SingleSave("./saved", fmk="mindspore")'
            )
        return cls._instance._tree


def _checked(dump_path: object, fmk: object) -> tuple[Path, Framework]:
    if fmk not in FRAMEWORKS:
        near = nearest(fmk, FRAMEWORKS) if isinstance(fmk, str) else ""
        hint = f"did you mean {quoted(near)}? It may be" if near else "it may be"
        raise SettingsError(f"SingleSave: fmk: {quoted(fmk)} is unknown; {hint} one of {quoted_list(FRAMEWORKS)}")
    try:
        return output_folder(dump_path), fmk
    except SettingsError as err:
        raise SettingsError(f"SingleSave: dump_path: {err}") from err


_trees: "WeakValueDictionary[Path, SingleTree]" = WeakValueDictionary()


def shared_tree(root: Path, first: str = "") -> "SingleTree":
    """Return the tree of a folder, which all writers of this process share, so that they use the same counts."""
    tree = _trees.get(root)
    if tree is None:
        tree = _trees[root] = SingleTree(root, first)
    return tree


class NotATensor(TypeError):
    """Raised for an element of a container that is not a tensor; distinguishes it from other TypeErrors."""


class SingleTree:
    """Writer of named tensors, which counts the saves of each name within a step.

    `first` is the framework whose rank is used first. Failures do not reach the training: a value that cannot be
    written is logged once per cause. May be used from any thread and from signal handlers.
    """

    def __init__(self, root: Path, first: str) -> None:
        self._root, self._first, self._lock = root, first, RLock()
        self._step = 0
        self._rank: int | None = None
        self._micro_steps: dict[str, int] = {}

    def save(self, data: Any) -> None:
        """Save each value under its key, in the next micro step of this key; see `save_ex`."""
        self._save_each(data, self._next)

    def save_ex(self, data: Any, micro_batch: int | None = None) -> None:
        """Save each value under its key, in the micro step `micro_batch`, or without a micro step.

        NotATensor, and nothing of the value is saved, if an element of a container is not a tensor.
        """
        if micro_batch is not None and (
            isinstance(micro_batch, bool) or not isinstance(micro_batch, int) or micro_batch < 0
        ):
            _log_skipped("micro_batch", f"micro_batch is {micro_batch!r}; pass a non-negative integer, or omit it")
            return
        self._save_each(data, lambda _: micro_batch)

    def skip_save(self, key: str) -> None:
        """Count a save that was rejected."""
        with self._lock:
            self._next(key)

    def _next(self, key: str) -> int:
        """Return the micro step of this save, which is counted even if nothing is written."""
        micro_step = self._micro_steps.get(key, 0)
        self._micro_steps[key] = micro_step + 1
        return micro_step

    def step(self) -> None:
        """End the step: later saves belong to the next step, and micro steps begin at 0."""
        with self._lock:
            self._step += 1
            self._micro_steps.clear()

    def save_config(self, data: Any) -> None:
        """Write `configurations.json`; values that JSON does not support are converted to strings."""
        try:
            write_configurations(self._run_root(), data)
        except Exception as cause:  # a failure while collecting never stops the training
            if must_propagate(cause):
                raise
            _log_failure("configurations.json", cause)

    def _save_each(self, data: Any, micro_step_of: Callable[[str], int | None]) -> None:
        for key, value in _items(data):
            tensors = _computed_tensors(key, value)
            with self._lock:
                micro_step = micro_step_of(key)
                if tensors is not None:
                    self._write(key, value, tensors, micro_step)

    def _write(self, key: str, value: Any, tensors: dict[str, Any], micro_step: int | None) -> None:
        try:
            root = self._run_root()
            place = Place(key, self._step, self._rank or 0, micro_step)
            arrays = {member: process.array_to_save(tensor) for member, tensor in tensors.items()}
            if isinstance(value, Mapping):
                write(root, place, arrays)
            else:
                write(root, place, list(arrays.values()) if isinstance(value, list | tuple) else arrays[""])
        except Exception as cause:  # a failure while collecting never stops the training
            if must_propagate(cause):
                raise
            _log_failure(key, cause)

    def _run_root(self) -> Path:
        """Return the folder of this run, which depends on the rank and may be unknown at construction."""
        if self._rank is None:
            self._rank = process.rank(self._first)
        return run_folder(self._root, self._rank, DATA).folder


def _computed_tensors(key: str, value: Any) -> dict[str, Any] | None:
    """Return the tensors of a value, as `_tensors`, after they are computed; raises errors of the training."""
    try:
        tensors = _tensors(key, value)
    except NotATensor:
        raise
    except BaseException as cause:  # a container may run user code, or be changed by another thread
        if must_propagate(cause):
            raise
        _log_failure(key, cause)
        return None
    process.settle(list(tensors.values()) if tensors else [])
    return tensors


def _items(data: object) -> list[tuple[str, Any]]:
    """Return the keys and values to save; keys that are not strings are logged and skipped."""
    try:
        items = [(k, v) for k, v in islice(data.items(), MAX_MEMBERS)] if isinstance(data, Mapping) else None
    except BaseException as cause:  # may run user code, or be changed by another thread
        if must_propagate(cause):
            raise
        _log_failure("data", cause)
        return []
    if items is None:
        _log_skipped("data", f"the data is of type {type_name(data)}; pass a dict of tensors, {{name: tensor}}")
        return []
    for key, _ in items:
        if not issubclass(type(key), str):
            _log_skipped("key", f"the key {quoted(key)} is of type {type_name(key)}; use a string")
    return [(str.__str__(key), value) for key, value in items if issubclass(type(key), str)]


def _tensors(key: str, value: Any) -> dict[str, Any] | None:
    """Return the tensors of a value by position or key, a single tensor under ""; None, and log it, if invalid."""
    if is_savable(value):
        return {"": value}
    if isinstance(value, Mapping):
        items = list(islice(value.items(), MAX_MEMBERS + 1))
    elif isinstance(value, list | tuple):
        items = list(enumerate(islice(value, MAX_MEMBERS + 1)))
    else:
        kind = _kind(value)
        _log_skipped(kind, f"{key} is of type {kind}; pass a tensor, or a list, tuple or dict of tensors")
        return None
    tensors = {str(member): tensor for member, tensor in items}
    if len(items) > MAX_MEMBERS:
        _log_skipped("members", f"{key} has more than {MAX_MEMBERS} members; save them in several parts")
        return None
    if len(tensors) < len(items):
        _log_skipped("same text", f"{key} has two keys with the same text; give each tensor a unique key")
        return None
    for member, tensor in tensors.items():
        if not is_savable(tensor):
            raise NotATensor(
                f"SingleSave: {key}.{member} is of type {_kind(tensor)}; a list, tuple or dict may contain only "
                "tensors, one level deep; convert it to a tensor, or save it under a separate key"
            )
    return tensors


def is_savable(value: object) -> bool:
    """Return whether a value is a tensor, or an array that can be stored."""
    return is_tensor(value) or (issubclass(type(value), np.ndarray) and is_storable(value))  # type: ignore[arg-type]  # it is


def _kind(value: object) -> str:
    return f"numpy.ndarray of {value.dtype}" if isinstance(value, np.ndarray) else type_name(value)


def _log_skipped(cause: str, what: str) -> None:
    """Log an error in one call, once per cause; other values are saved."""
    log_once(f"SingleSave: {cause}", f"SingleSave: {what}; it is not saved")


def _log_failure(what: str, cause: BaseException) -> None:
    why = cause.strerror if isinstance(cause, OSError) and cause.strerror else reason(cause)
    log_once(f"SingleSave lost: {why}", f"SingleSave: {what} could not be saved: {why}; the training continues")
