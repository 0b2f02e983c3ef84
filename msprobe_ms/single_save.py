"""What the user saves by name at any place in the host's code: `SingleSave`, see `docs/single-save.md`."""

from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from msprobe.base.checks import folder, listed, nearest, shown
from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.files import make_root
from msprobe.base.framework import FRAMEWORKS, Framework
from msprobe.base.log import once
from msprobe.single_tree import SingleTree, tree_of


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
            make_root(root, "SingleSave")
            only = super().__new__(cls)
            only._root, only._framework, only._tree = root, chosen, tree_of(root, chosen)
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
    _tree: SingleTree

    @classmethod
    def save(cls, data: dict[str, Any]) -> None:
        """Save each value under its key, in the next micro step of this key; see `save_ex`."""
        cls._constructed("save").save(data)

    @classmethod
    def save_ex(cls, data: dict[str, Any], micro_batch: int | None = None) -> None:
        """Save each value under its key, in the micro step `micro_batch`, or beside all micro steps without one.

        A value is a tensor or numpy array of any shape, or a list, tuple or dict of them, one level deep; in its own
        dtype, bfloat16 as float32. What is none of these is said once in the log and left out. TypeError for an element
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
    def _constructed(cls, method: str) -> SingleTree:
        if cls._only is None:
            raise UsageError(f'SingleSave.{method}: construct it first, SingleSave("./saved", fmk="mindspore")')
        return cls._only._tree


def _checked(dump_path: object, fmk: object) -> tuple[Path, Framework]:
    if fmk not in FRAMEWORKS:
        near = nearest(fmk, FRAMEWORKS) if isinstance(fmk, str) else ""
        hint = f"did you mean {shown(near)}? It may be" if near else "it may be"
        raise SettingsError(f"SingleSave: fmk: {shown(fmk)} is not known; {hint} one of {listed(FRAMEWORKS)}")
    try:
        return folder(dump_path), fmk
    except SettingsError as err:
        raise SettingsError(f"SingleSave: dump_path: {err}") from err
