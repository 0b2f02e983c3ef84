"""What one side of a comparison is: a dump, a folder of many, a kernel dump, saves, or npy files."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from msprobe.base.errors import UsageError
from msprobe.compare.request import ReadAs
from msprobe.store import layout
from msprobe.store.flow_roots import flow_root
from msprobe.store.folders import Folder, look
from msprobe.store.kernel_folders import kernel_dumps
from msprobe.store.kinds import kind_of
from msprobe.store.npy_trees import npy_dumps
from msprobe.store.runs import TREES, further_runs
from msprobe.store.saved_trees import saved_dumps
from msprobe.store.single_trees import single_dumps

Family = Literal["dump", "kernels", "saves", "single saves", "npy"]

_NAMED = 8  # so many names stand in a message, the others are counted


class Place(NamedTuple):
    """Where a source stands on its side; a coordinate is None where the side gives no choice of it."""

    tree: str | None = None
    step: int | None = None
    rank: int | None = None
    what: str = "dump"


@dataclass(frozen=True, slots=True)
class Source:
    """One dump on disk: of what kind, its file or folders, and the step and rank that their place says."""

    family: Family
    paths: tuple[Path, ...]
    step: int | None = None
    rank: int | None = None


@dataclass(frozen=True)
class Side:
    """What a path holds: its sources by place, the names of their rank folders, and what it is, in words.

    `skipped` says what else lies there and is left alone.
    """

    path: Path
    family: Family
    says: str
    places: dict[Place, Source] = field(default_factory=dict)
    rank_names: dict[Place, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)

    def add(self, place: Place, source: Source, rank_name: str = "") -> None:
        """Take a source up."""
        self.places[place], self.rank_names[place] = source, rank_name

    def folder_name(self, axis: str, key: object, around: Place) -> str:
        """What the folder of a coordinate is called, for a message."""
        if axis != "rank":
            return f"step{key}" if axis == "step" else str(key)
        names = (n for p, n in self.rank_names.items() if p.rank == key and around.step in (None, p.step))
        return next(names, "") or f"rank{key}"


def side(path: Path, read_as: ReadAs = "") -> Side:
    """What a path holds, which is found out; `read_as` takes a folder for kernels, where it holds some, or npy files.

    DumpError where there is nothing that can be compared, with what is there and what to give instead.
    """
    if read_as == "kernels" and path.is_dir() and (found := _kernels(path, "a kernel dump")).places:
        return found
    if read_as == "npy" and path.is_dir():
        return _npys(path, "a tree of npy files")
    kind = kind_of(path)
    if kind.word == "kernels":
        return _kernels(kind.path, kind.says)
    if kind.word == "saves":
        return _saves(kind.path, kind.says)
    if kind.word == "single saves":
        return _single_saves(kind.path, kind.says)
    if kind.word == "npy":
        return _npys(kind.path, kind.says)
    return _dumps(kind.path, kind.says, is_plain=bool(read_as))


def _kernels(path: Path, says: str) -> Side:
    made = Side(path, "kernels", says)
    for (rank, step), folders in kernel_dumps(path).items():
        made.add(Place(None, step, rank, "kernels"), Source("kernels", folders, step, rank), f"rank_{rank}")
    return made


def _saves(path: Path, says: str) -> Side:
    made = Side(path, "saves", says)
    for (step, rank), folder in saved_dumps(path).items():
        made.add(Place(None, step, rank, "saves"), Source("saves", (folder,), step, rank), folder.name)
    return made


def _single_saves(path: Path, says: str) -> Side:
    made = Side(path, "single saves", says)
    for (step, rank), folders in single_dumps(path).items():
        made.add(Place(None, step, rank, "saves"), Source("single saves", folders, step, rank), folders[0].name)
    return made


def _npys(path: Path, says: str) -> Side:
    made = Side(path, "npy", says)
    for relative, folder in npy_dumps(path).items():
        made.add(Place(what=relative), Source("npy", (folder,)))
    return made


# Dumps: dump.json and debug.json in the folders of ranks, in the folders of steps, in the folders of trees.


def _dumps(path: Path, says: str, is_plain: bool) -> Side:
    """`is_plain`: only these dumps are compared, also where they stand in the root of a flow."""
    made = Side(path, "dump", says)
    if not path.is_dir():
        made.add(Place(what="debug" if path.name == layout.DEBUG else "dump"), Source("dump", (path,)))
        return made
    inside = look(path)
    trees = {tree: steps for tree in TREES if tree in inside.folders and (steps := _steps(look(path / tree)))}
    steps = _steps(inside)
    for tree, found in trees.items():
        _add_steps(made, look(path / tree), found, tree)
    if steps:
        _add_steps(made, inside, steps, "" if trees else None, is_plain)
    elif not trees:
        _add_step(made, inside, Place())
    return made


def _add_steps(made: Side, folder: Folder, steps: Mapping[str, int], tree: str | None, is_plain: bool = True) -> None:
    _skip(made, folder, {*steps, *(TREES if tree == "" else ())}, is_plain)
    for name, number in steps.items():
        _add_step(made, look(folder.path / name), Place(tree, number))


def _add_step(made: Side, folder: Folder, place: Place) -> None:
    """The folder of a step, or of a rank itself."""
    ranks = {} if _held(folder) else _numbered(folder, layout.rank_number)
    if not ranks:
        _add_rank(made, folder, place, "")
        return
    if len({*ranks.values()}) < len(ranks):
        alike = [name for name, number in ranks.items() if list(ranks.values()).count(number) > 1]
        raise UsageError(
            f"{folder.path}: {', '.join(alike[:_NAMED])} may all be one rank; give the folder of one of them"
        )
    _skip(made, folder, ranks)
    for name, number in ranks.items():
        _add_rank(made, look(folder.path / name), place._replace(rank=number), name)


def _add_rank(made: Side, folder: Folder, place: Place, name: str) -> None:
    held = _held(folder)
    for file in held:
        what = "debug" if file == layout.DEBUG else "dump"
        # A journal alone is left to the reader, who says what is to be done with it.
        path = folder.path if file == layout.JOURNAL else folder.path / file
        made.add(place._replace(what=what), Source("dump", (path,)), name)
    if not held:
        made.skipped.append(f"{folder.path}: holds no dump and is skipped")


def _held(folder: Folder) -> list[str]:
    return [name for name in (layout.DUMP, layout.DEBUG) if name in folder.files] or [
        name for name in folder.files if name == layout.JOURNAL
    ]


def _steps(folder: Folder) -> dict[str, int]:
    return _numbered(folder, layout.step_number)


def _numbered(folder: Folder, number_of: Callable[[str], int | None]) -> dict[str, int]:
    """The folders in here whose names say a number, by it."""
    found = {name: number for name in folder.folders if (number := number_of(name)) is not None}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _skip(made: Side, folder: Folder, known: Collection[str], is_plain: bool = True) -> None:
    """Say what else lies among steps or ranks, and is left alone."""
    ours = {layout.RUN, *further_runs(folder.folders)}
    strange = [name for name in (*folder.folders, *folder.files) if name not in known and name not in ours]
    if strange and not is_plain:
        walked = _walked_beside(folder.path)
        strange = [name for name in strange if name not in walked]
    if strange:
        more = f" and {len(strange) - _NAMED} more" if len(strange) > _NAMED else ""
        listed = ", ".join(strange[:_NAMED])
        made.skipped.append(f"{folder.path}: skipped, being neither a step nor a rank: {listed}{more}")


def _walked_beside(path: Path) -> set[str]:
    """What the comparison of a flow (`flow/carry_out.py`) walks of its root beside the steps; nothing in other runs."""
    root = flow_root(path)
    stages = set(root.stages).difference(TREES)
    if not stages and not (root.data and root.configurations):
        return set()
    return {*stages, *root.hollow, *(part.name for part in (root.data, root.configurations) if part)}
