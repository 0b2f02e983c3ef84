"""Folders of ranks, steps and runs, known by their names; no file is opened."""

import logging
import os
import re
import stat
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from msprobe.base.errors import DumpError
from msprobe.base.log import log_once, logger

from . import layout
from .layout import TENSORS

MAX_DEPTH = 10
"""Folders inside each other that are walked."""

NAMED = 8
"""Names that are listed in a message."""


def folders_below(root: Path, unreadable: dict[Path, str]) -> Iterator[tuple[Path, list[str]]]:
    """Return every folder from `root` down but those of tensors, in order, with the names of its files.

    No link is followed. Folders that cannot be listed are added to `unreadable`, with the reason.
    """

    def note(err: OSError) -> None:
        unreadable[Path(os.fsdecode(err.filename))] = err.strerror or str(err)

    for folder, inner, files in os.walk(root, onerror=note):
        inner.sort()
        if TENSORS in inner:
            inner.remove(TENSORS)
        yield Path(folder), files


def ranks_without_dump(root: Path, dumps: Iterable[Path]) -> list[Path]:
    """Return the folders below `root` that are named like a rank and have no dump, next to a rank that has one."""
    known = {folder for folder in dumps if layout.rank_number(folder.name) is not None}
    found = []
    for step in sorted({folder.parent for folder in known if folder != root}):
        for name in sorted(os.listdir(step)):
            if layout.rank_number(name) is not None and step / name not in known:
                found.append(step / name)
    return found


def is_golden(path: Path) -> bool:
    """Return whether a path is a golden file, by its name; `golden.dump_of` gives the folder of its run."""
    return path.name.endswith(layout.GOLDEN) and path.is_file()


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder: the names of its folders, and of everything else in it (`files`), sorted."""

    path: Path
    folders: tuple[str, ...]
    files: tuple[str, ...]


def look(path: Path, *, follow: bool = False) -> Folder:
    """List a folder; DumpError if it cannot be read.

    A link to a folder is left out, which is logged (not for the tensors in the folder of a dump.json, which are opened
    by name). With `follow` it counts as a folder, unless it leads to a folder that holds it.
    """
    folders: list[str] = []
    files: list[str] = []
    links: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_symlink() and os.path.isdir(entry.path):
                    if entry.name != TENSORS:
                        (folders if follow and not _leads_back(Path(entry.path)) else links).append(entry.name)
                else:
                    files.append(entry.name)
    except (OSError, ValueError) as err:  # ValueError: a path that no folder can have
        raise DumpError(f"{path}: cannot be read ({err}); check the path and its permissions") from err
    if links:
        others = f", and so are {len(links) - 1} more in the same folder" if len(links) > 1 else ""
        what = "a folder that contains it" if follow else "a folder"
        message = (
            f"{path / min(links)}: is a symbolic link to {what} and is not followed{others}; give the folder itself"
        )
        log_once(f"link in {path}", message, logging.WARNING)
    return Folder(path, tuple(sorted(folders)), tuple(sorted(files)))


def _leads_back(link: Path) -> bool:
    """Return whether a link leads, perhaps through other links, to a folder that holds it: following it would never
    end."""
    target = os.path.realpath(link)
    return any(os.path.commonpath((target, os.path.realpath(above))) == target for above in link.absolute().parents)


def walk(
    root: Path,
    skip: Container[str] = (),
    *,
    until: Callable[[Path], bool] = lambda path: False,
    follow: bool = False,
    strict: bool = False,
) -> Iterator[Folder]:
    """Yield `root` and the folders below it, parents first, by name; those with a name in `skip` are left out.

    A folder for which `until` is true is not listed, and yielded as if it were empty. DumpError if `root` cannot be
    read; what cannot be read below it is logged and left out, or, if `strict`, a DumpError too. `follow` as in `look`.
    """
    waiting = [(root, 0)]
    while waiting:
        path, depth = waiting.pop()
        if until(path):
            yield Folder(path, (), ())
            continue
        try:
            found = look(path, follow=follow)
        except DumpError as err:
            if strict or path == root:
                raise
            logger.warning("%s; it is skipped", err)
            continue
        yield found
        if depth < MAX_DEPTH:
            waiting += [(path / name, depth + 1) for name in reversed(found.folders) if name not in skip]
        elif found.folders:
            log_once(f"deep in {root}", f"{path}: folders more than {MAX_DEPTH} levels below {root} are skipped")


def is_file(path: Path) -> bool:
    """Return whether a file exists, and is neither a link nor a pipe or device, which could make a reader wait for
    ever."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return False


def by_number(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts `x_2` before `x_10`."""
    return [(int(part[:18]), part) if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def printable(name: str) -> str:
    """Return a file's name as a text that can be written anywhere: bytes that are no UTF-8 become question marks."""
    return name.encode("utf-8", "replace").decode()


Held: TypeAlias = Literal["dump", "saves", ""]
"""What a folder holds: a dump, graph saves, or nothing that is known."""

TREES = ("graph", "pynative")
"""The two runs that a program with compiled parts writes side by side."""

DUMP_FILES = frozenset((*layout.DATA_FILES, layout.JOURNAL))


def holds_dump(folder: Path) -> bool:
    """Return whether a rank's folder contains a dump, finished or not."""
    try:
        found = DUMP_FILES.intersection(os.listdir(folder))  # mostly there is no such folder yet
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return False
    return any(is_file(folder / name) and os.stat(folder / name).st_size for name in found)


def of_rank(folder: Folder, above: str) -> Held:
    """Return the kind of a rank's folder; `above` is the name of its parent folder."""
    if not DUMP_FILES.isdisjoint(folder.files):
        return "dump"
    if layout.SAVES in folder.files:
        return "saves"
    is_of_step = layout.step_number(above) is not None
    return "saves" if is_of_step and any(name.endswith(".npy") for name in folder.files) else ""


def of_step(folder: Folder) -> Held:
    """Return the kind of the first of a step's ranks that is not empty."""
    name = folder.path.absolute().name
    return next((found for rank in ranks_in(folder) if (found := of_rank(look(folder.path / rank), name))), "")


def of_run(folder: Folder) -> Held:
    """Return the kind of the first of a run's steps that is not empty."""
    return next((found for step in steps_in(folder) if (found := of_step(look(folder.path / step)))), "")


def trees_in(folder: Folder) -> list[str]:
    """Return the trees in a folder that hold dumps."""
    return [tree for tree in TREES if tree in folder.folders and of_run(look(folder.path / tree)) == "dump"]


def ranks_in(folder: Folder) -> list[str]:
    """Return the folders called like ranks, by number."""
    return numbered(folder.folders, layout.rank_number)


def steps_in(folder: Folder) -> list[str]:
    """Return the folders called like steps, by number."""
    return numbered(folder.folders, layout.step_number)


def further_runs(names: tuple[str, ...]) -> list[str]:
    """Return those of the folders in a folder that are called like further runs, by number."""
    return numbered(names, layout.run_number)


def numbered(names: Iterable[str], number: Callable[[str], int | None]) -> list[str]:
    """Return those of the names for which `number` returns a number, in the order of their numbers."""
    return sorted((name for name in names if number(name) is not None), key=by_number)
