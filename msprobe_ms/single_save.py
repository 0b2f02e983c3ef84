"""What the user saves by name at any place in the host's code: `SingleSave`, see `docs/single-save.md`."""

from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import numpy as np

from msprobe.base import framework
from msprobe.base.checks import folder, listed, nearest, shown
from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.files import make_folder
from msprobe.base.framework import FRAMEWORKS, Framework
from msprobe.base.log import once
from msprobe.store.configurations import write_configurations
from msprobe.store.npy import is_storable
from msprobe.store.single import Place, write


class SingleSave:
    """Saves tensors by name below one folder: `SingleSave(path, fmk="mindspore")` once, then `SingleSave.save({...})`.

    The first construction of a process holds; a later one gives the same object, and a line in the log where it asked
    for something else. `fmk` says which framework is asked for the rank first. Raises SettingsError where an argument
    cannot be meant, UsageError where the folder cannot be made. After that no failure reaches the training: a value
    that cannot be written is said once per cause in the log.
    """

    _only: ClassVar["SingleSave | None"] = None

    def __new__(cls, dump_path: "str | PathLike[str]", fmk: str = "pytorch") -> "SingleSave":
        root, chosen = _checked(dump_path, fmk)
        only = cls._only
        if only is None:
            _made(root)
            only = super().__new__(cls)
            only._root, only._framework, only._lock = root, chosen, Lock()
            only._step, only._rank = 0, None
            only._micro_steps, only._begun = {}, set()
            cls._only = only
        elif (root, chosen) != (only._root, only._framework):
            once(
                f"SingleSave {root} {chosen}",
                f"SingleSave({str(root)!r}, {chosen!r}): the first construction holds, everything goes on to "
                f"{only._root} (fmk {only._framework!r}); construct it once, or start another process",
            )
        return only

    _root: Path
    _framework: Framework
    _lock: Lock
    _step: int
    _rank: int | None
    _micro_steps: dict[str, int]
    _begun: set[str]

    @classmethod
    def save(cls, data: dict[str, Any]) -> None:
        """Save each value under its key, in the next micro step of this key; see `save_ex`."""
        only = cls._constructed("save")
        for key, value in _items(data):
            with only._lock:
                micro_step = only._micro_steps.get(key, 0)
                only._save(key, value, micro_step)
                only._micro_steps[key] = micro_step + 1  # also where nothing was saved: the next number is the same

    @classmethod
    def save_ex(cls, data: dict[str, Any], micro_batch: int | None = None) -> None:
        """Save each value under its key, in the micro step `micro_batch`, or beside all micro steps without one.

        A value is a tensor or numpy array of any shape, or a list, tuple or dict of them, one level deep; in its own
        dtype, bfloat16 as float32. What is none of these is said once in the log and left out. TypeError for an element
        of a container that is no tensor: then nothing of this value is saved.
        """
        only = cls._constructed("save_ex")
        if micro_batch is not None and (
            isinstance(micro_batch, bool) or not isinstance(micro_batch, int) or micro_batch < 0
        ):
            _left_out("micro_batch", f"micro_batch is {micro_batch!r}; write a whole number from 0 on, or leave it out")
            return
        for key, value in _items(data):
            with only._lock:
                only._save(key, value, micro_batch)

    @classmethod
    def step(cls) -> None:
        """End a step: the next saves belong to the following one, and micro steps begin at 0."""
        only = cls._constructed("step")
        with only._lock:
            only._step += 1
            only._micro_steps.clear()
            only._begun.clear()

    @classmethod
    def save_config(cls, data: Any) -> None:
        """Write `configurations.json`; values that JSON cannot hold become their texts."""
        only = cls._constructed("save_config")
        try:
            write_configurations(only._root, data)
        except Exception as cause:  # a failure while collecting never stops the training
            _lost("configurations.json", cause)

    @classmethod
    def _constructed(cls, method: str) -> "SingleSave":
        if cls._only is None:
            raise UsageError(f'SingleSave.{method}: construct it first, SingleSave("./saved", fmk="mindspore")')
        return cls._only

    def _save(self, key: str, value: Any, micro_step: int | None) -> None:
        tensors = _tensors(key, value)
        if tensors is None:
            return
        framework.settle(list(tensors.values()))
        try:
            if self._rank is None:  # communication may be initialised after the construction
                self._rank = framework.rank(self._framework)
            place = Place(key, self._step, self._rank or 0, micro_step)
            self._begin(place)
            arrays = {member: _array(tensor) for member, tensor in tensors.items()}
            if isinstance(value, dict):
                write(self._root, place, arrays)
            else:
                write(self._root, place, list(arrays.values()) if isinstance(value, list | tuple) else arrays[""])
        except Exception as cause:  # a failure while collecting never stops the training
            _lost(key, cause)

    def _begin(self, place: Place) -> None:
        """At the first save of a key in a step: say if another run was there before."""
        if place.key in self._begun:
            return
        self._begun.add(place.key)
        if place.of_rank(self._root).exists():
            once(
                "SingleSave: an earlier run",
                f"SingleSave: {place.of_rank(self._root)} is there already; what an earlier run or another process "
                "saved at the same places is replaced, and the rest stays: give each run a dump_path of its own",
            )


def _checked(dump_path: object, fmk: object) -> tuple[Path, Framework]:
    if fmk not in FRAMEWORKS:
        near = nearest(fmk, FRAMEWORKS) if isinstance(fmk, str) else ""
        hint = f"did you mean {shown(near)}? It may be" if near else "it may be"
        raise SettingsError(f"SingleSave: fmk: {shown(fmk)} is not known; {hint} one of {listed(FRAMEWORKS)}")
    try:
        return folder(dump_path), fmk
    except SettingsError as err:
        raise SettingsError(f"SingleSave: dump_path: {err}") from err


def _made(root: Path) -> None:
    try:
        make_folder(root)
    except OSError as cause:
        why = cause.strerror or cause
        raise UsageError(
            f"SingleSave: {root} cannot be written: {why}; free some space, or choose another dump_path"
        ) from cause


def _items(data: object) -> list[tuple[str, Any]]:
    """The keys and values to save; what is not keyed by texts is said and left out."""
    if not isinstance(data, dict):
        _left_out("data", f"the data is of type {type(data).__name__}; write a dict of tensors, {{name: tensor}}")
        return []
    for key in data:
        if not isinstance(key, str):
            _left_out("key", f"the key {shown(key)} is of type {type(key).__name__}; write a text")
    return [(key, value) for key, value in data.items() if isinstance(key, str)]


def _tensors(key: str, value: Any) -> dict[str, Any] | None:
    """The tensors of a value by position or key, a single one under ""; None, with a line in the log, without any."""
    if _is_tensor(value):
        return {"": value}
    if isinstance(value, dict):
        tensors = {str(member): tensor for member, tensor in value.items()}
    elif isinstance(value, list | tuple):
        tensors = {str(position): tensor for position, tensor in enumerate(value)}
    else:
        kind = _kind(value)
        _left_out(kind, f"{key} is of type {kind}; pass a tensor, or a list, tuple or dict of tensors")
        return None
    if len(tensors) < len(value):
        _left_out("same text", f"{key} has two keys that are the same text; give each tensor a text of its own")
        return None
    for member, tensor in tensors.items():
        if not _is_tensor(tensor):
            raise TypeError(
                f"SingleSave: {key}.{member} is of type {_kind(tensor)}; a list, tuple or dict may hold tensors only, "
                "one level deep: make it a tensor, or save it under a key of its own"
            )
    return tensors


def _is_tensor(value: object) -> bool:
    return framework.maker(value) is not None or (isinstance(value, np.ndarray) and is_storable(value))


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    return tensor if framework.maker(tensor) is None else framework.array_of(tensor)


def _kind(value: object) -> str:
    return f"numpy.ndarray of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


def _left_out(cause: str, what: str) -> None:
    """A mistake in one call: said once per cause, and the rest is saved."""
    once(f"SingleSave: {cause}", f"SingleSave: {what}; it is not saved")


def _lost(what: str, cause: Exception) -> None:
    said = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause).strip().partition("\n")[0]
    why = said or type(cause).__name__
    once(f"SingleSave lost: {why}", f"SingleSave: {what} could not be saved: {why}; the training goes on without it")
