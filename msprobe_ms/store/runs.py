"""What the folders of ranks, of steps and of a whole run hold; told by names, no file is opened."""

import os
from pathlib import Path
from typing import Literal, TypeAlias

from . import layout
from .folders import Folder, by_number, is_file, look

Held: TypeAlias = Literal["dump", "saves", ""]
"""A dump, graph saves, or nothing that is known."""

TREES = ("graph", "pynative")
"""The two runs that a program with compiled parts leaves side by side."""

DUMP_FILES = frozenset((layout.DUMP, layout.DEBUG, layout.JOURNAL))


def holds_dump(folder: Path) -> bool:
    """Whether a dump lies in a rank's folder, finished or not."""
    return any(is_file(folder / name) and os.stat(folder / name).st_size for name in DUMP_FILES)


def of_rank(folder: Folder, above: str) -> Held:
    """What a rank's folder holds; `above` is the name of the folder that holds it."""
    if not DUMP_FILES.isdisjoint(folder.files):
        return "dump"
    if layout.SAVES in folder.files:
        return "saves"
    is_of_step = layout.step_number(above) is not None
    return "saves" if is_of_step and any(name.endswith(".npy") for name in folder.files) else ""


def of_step(folder: Folder) -> Held:
    """What the first of a step's ranks holds that holds anything."""
    name = folder.path.absolute().name
    return next((found for rank in ranks_in(folder) if (found := of_rank(look(folder.path / rank), name))), "")


def of_run(folder: Folder) -> Held:
    """What the first of a run's steps holds that holds anything."""
    return next((found for step in steps_in(folder) if (found := of_step(look(folder.path / step)))), "")


def trees_in(folder: Folder) -> list[str]:
    """The trees in a folder that hold dumps."""
    return [tree for tree in TREES if tree in folder.folders and of_run(look(folder.path / tree)) == "dump"]


def ranks_in(folder: Folder) -> list[str]:
    """The folders called like ranks, by number."""
    return sorted((name for name in folder.folders if layout.rank_number(name) is not None), key=by_number)


def steps_in(folder: Folder) -> list[str]:
    """The folders called like steps, by number."""
    return sorted((name for name in folder.folders if layout.step_number(name) is not None), key=by_number)


def further_runs(names: tuple[str, ...]) -> list[str]:
    """Those of the folders in a folder that are called like further runs, by number."""
    return sorted((name for name in names if layout.run_number(name) is not None), key=by_number)
