"""The jobs of a request: pairs of dumps with equal tree, step and rank, independent of their order.

Only folders are read here.

Each side is a map from places to sources. A place has four coordinates: the tree (`graph`, `pynative`), the step, the
rank, and the content (`dump`, `debug`, `kernels`, `saves`, or the relative folder of npy files). A coordinate is None
if the user's path is below it: the folder of a rank has no step to choose. If both sides have a coordinate, it must be
equal; if one side has none, the other side must have a single value.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msprobe.base.errors import UsageError
from msprobe.base.log import join_names, logger
from msprobe.base.phrase import Words, phrase
from msprobe.compare.request import ReadAs
from msprobe.store import layout
from msprobe.store.detect import Kind, kind_of
from msprobe.store.folders import TREES, Folder, further_runs, look

Family = Literal["dump", "kernels", "saves", "single saves", "npy"]

_MAX_NAMES = 8
"""Names in a message; further ones are counted."""


class Place(NamedTuple):
    """Coordinates of a source on its side; None if the side has no choice of a coordinate."""

    tree: str | None = None
    step: int | None = None
    rank: int | None = None
    what: str = "dump"


@dataclass(frozen=True, slots=True)
class SideSource:
    """One dump on disk: its type, its file or folders, step and rank by their place, and the name of the rank's
    folder."""

    family: Family
    paths: tuple[Path, ...]
    step: int | None = None
    rank: int | None = None
    rank_name: str = ""


@dataclass(frozen=True)
class Side:
    """The content of a path: its sources by place, and a description of its type.

    `skipped` lists other content, which is not compared. `empty` has the folders of steps and ranks without a dump.
    """

    path: Path
    family: Family
    text: str
    places: dict[Place, SideSource] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    empty: dict[Place, Path] = field(default_factory=dict)

    def folder_name(self, axis: str, key: object, around: Place) -> str:
        """Return the name of the folder of a coordinate, for a message."""
        if axis != "rank":
            return f"step{key}" if axis == "step" else str(key)
        sources = (s for place, s in self.places.items() if place.rank == key and around.step in (None, place.step))
        return next((source.rank_name for source in sources), "") or f"rank{key}"


def side(path: Path, read_as: ReadAs = "") -> Side:
    """Return the content of a path. Its type is detected; with `read_as`, a folder is read as kernels, if it contains
    any, or as npy files.

    DumpError if there is nothing to compare; the message has the content and what to give instead.
    """
    kind = _requested_kind(path, read_as) or kind_of(path)
    if (made := _side_of_files(kind)) is None:
        made = Side(kind.path, "dump", kind.text)
        _add_dumps(made, is_plain=bool(read_as))
    return made


def _requested_kind(path: Path, read_as: ReadAs) -> Kind | None:
    """Return the type of a folder that the user gives; None if it is to be detected."""
    if not read_as or not path.is_dir():
        return None
    if read_as == "npy":
        return Kind("npy", path, "a tree of npy files")
    from msprobe.store.kernel_dump.files import kernel_dumps  # here, as below: most comparisons are of dumps

    return Kind("kernels", path, "a kernel dump") if kernel_dumps(path) else None


def _side_of_files(kind: Kind) -> Side | None:
    """Return the side of files other than dumps; None for dumps."""
    if kind.word == "kernels":
        from msprobe.store.kernel_dump.files import kernel_dumps

        made = Side(kind.path, "kernels", kind.text)
        for (rank, step), folders in kernel_dumps(kind.path).items():
            source = SideSource("kernels", folders, step, rank, f"rank_{rank}")
            made.places[Place(None, step, rank, "kernels")] = source
    elif kind.word == "saves":
        from msprobe.store.saves.graph_saves import saved_dumps

        made = Side(kind.path, "saves", kind.text)
        for (step, rank), folder in saved_dumps(kind.path).items():
            source = SideSource("saves", (folder,), step, rank, folder.name)
            made.places[Place(None, step, rank, "saves")] = source
    elif kind.word == "single saves":
        from msprobe.store.saves.single_saves import single_dumps

        made = Side(kind.path, "single saves", kind.text)
        for (step, rank), folders in single_dumps(kind.path).items():
            source = SideSource("single saves", folders, step, rank, folders[0].name)
            made.places[Place(None, step, rank, "saves")] = source
    elif kind.word == "npy":
        from msprobe.store.saves.graph_saves import npy_dumps

        made = Side(kind.path, "npy", kind.text)
        for relative, folder in npy_dumps(kind.path).items():
            made.places[Place(what=relative)] = SideSource("npy", (folder,))
    else:
        return None
    return made


# Dumps: dump.json and debug.json in the folders of ranks, in the folders of steps, in the folders of trees.


def _add_dumps(made: Side, is_plain: bool) -> None:
    """Add the dumps of a folder. `is_plain`: only these are compared, also in the root of an RL flow."""
    path = made.path
    if not path.is_dir():
        made.places[Place(what=_what(path.name))] = SideSource("dump", (path,))
        return
    inside = look(path)
    trees = {tree: steps for tree in TREES if tree in inside.folders and (steps := _steps(look(path / tree)))}
    for tree, found in trees.items():
        _add_steps(made, look(path / tree), found, tree)
    if steps := _steps(inside):
        _add_steps(made, inside, steps, "" if trees else None, is_plain)
    elif not trees:
        _add_step(made, inside, Place())


def _add_steps(made: Side, folder: Folder, steps: Mapping[str, int], tree: str | None, is_plain: bool = True) -> None:
    _skip(made, folder, {*steps, *(TREES if tree == "" else ())}, is_plain)
    for name, number in steps.items():
        _add_step(made, look(folder.path / name), Place(tree, number))


def _add_step(made: Side, folder: Folder, place: Place) -> None:
    """Add the folder of a step, or of a single rank."""
    ranks = {} if _held(folder) else _numbered(folder, layout.rank_number)
    if not ranks:
        _add_rank(made, folder, place, "")
        return
    if len({*ranks.values()}) < len(ranks):
        alike = [name for name, number in ranks.items() if list(ranks.values()).count(number) > 1]
        raise UsageError(
            f"{folder.path}: {', '.join(alike[:_MAX_NAMES])} may be the same rank; give the folder of one of them"
        )
    _skip(made, folder, ranks)
    for name in sorted(os.listdir(folder.path)):  # a file, a link
        number = layout.rank_number(name)
        if number is not None and name not in ranks and number not in ranks.values():
            made.empty[place._replace(rank=number)] = folder.path / name
    for name, number in ranks.items():
        _add_rank(made, look(folder.path / name), place._replace(rank=number), name)


def _add_rank(made: Side, folder: Folder, place: Place, name: str) -> None:
    held = _held(folder)
    for file in held:
        what = _what(file)
        # A journal without a dump.json: the reader reports what to do.
        path = folder.path if file == layout.JOURNAL else folder.path / file
        made.places[place._replace(what=what)] = SideSource("dump", (path,), rank_name=name)
    if not held:
        made.skipped.append(f"{folder.path}: does not contain a dump and is skipped")
        made.empty[place] = folder.path


def _what(file: str) -> str:
    return "debug" if file in (layout.DEBUG, layout.DEBUG_TABLE) else "dump"


def _held(folder: Folder) -> list[str]:
    held = {_what(name): name for name in reversed(layout.DATA_FILES) if name in folder.files}
    return [held[what] for what in ("dump", "debug") if what in held] or [
        name for name in folder.files if name == layout.JOURNAL
    ]


def _steps(folder: Folder) -> dict[str, int]:
    return _numbered(folder, layout.step_number)


def _numbered(folder: Folder, number_of: Callable[[str], int | None]) -> dict[str, int]:
    """Return the folders with a number in their names, sorted by it."""
    found = {name: number for name in folder.folders if (number := number_of(name)) is not None}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _skip(made: Side, folder: Folder, known: Collection[str], is_plain: bool = True) -> None:
    """Note other files and folders next to steps or ranks, which are not compared."""
    further = further_runs(folder.folders)
    outside = [layout.registers(folder.path / name)[1].name for name in further]
    ours = {*known, layout.RUN, *further, *outside}
    others = [name for name in (*folder.folders, *folder.files) if name not in ours]
    if others and not is_plain:
        of_flow = _compared_of_flow(folder.path)
        others = [name for name in others if name not in of_flow]
    if others:
        names = join_names(others, _MAX_NAMES)
        made.skipped.append(f"{folder.path}: skipped, since these are neither steps nor ranks: {names}")


def _compared_of_flow(path: Path) -> set[str]:
    """Return what a comparison of RL flows compares in its root in addition to steps; empty for other runs."""
    from msprobe.store.rl_roots import flow_root

    root = flow_root(path)
    stages = set(root.stages).difference(TREES)
    if not stages and not (root.data and root.configurations):
        return set()
    return {*stages, *root.hollow, *(part.name for part in (root.data, root.configurations) if part)}


@dataclass(frozen=True, slots=True)
class Job:
    """Two sources to compare, the place that they have in common, and the name of the target's rank folder."""

    target: SideSource
    golden: SideSource
    place: Place
    rank_name: str = ""

    @property
    def is_of_calls(self) -> bool:
        """Return whether both are dumps of calls, not kernels or values that were saved individually."""
        return self.target.family == "dump" and self.place.what == "dump"

    @property
    def label(self) -> str:
        """Return `graph, step 0, rank 1, debug.json`; empty if there is only one job."""
        tree, step, rank, what = self.place
        parts = [tree or "", "" if step is None else f"step {step}", "" if rank is None else f"rank {rank}"]
        return ", ".join(word for word in (*parts, _WHAT.get(what, what)) if word)


_WHAT = {"dump": "", "debug": "debug.json", "kernels": "", "saves": ""}


@dataclass(frozen=True)
class Plan:
    """The jobs in a stable order; sentences about sources without a counterpart; and the types of the sides."""

    jobs: tuple[Job, ...]
    missing: tuple[Words, ...] = ()
    kinds: str = ""


def plan(
    target: Path,
    golden: Path,
    *,
    ranks: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    read_as: ReadAs = "",
    sides: tuple[Side, Side] | None = None,
) -> Plan:
    """Return the pairs of dumps of two sides; `ranks` and `steps` select some of them. `sides` are the contents of the
    paths, if they are known.

    UsageError if the sides have different types, if one of several dumps has to be chosen, and if they have nothing in
    common; DumpError if a side cannot be read.
    """
    sides = sides or (side(target, read_as), side(golden, read_as))
    for each in sides:
        for sentence in each.skipped:
            logger.info("%s", sentence)
        if not each.places:
            raise UsageError(
                f"{each.path}: does not contain npy files; give a folder that does, or omit `common` to compare dumps"
            )
    if sides[0].family != sides[1].family:
        text = ", ".join(f"{each.path} is {each.text}" for each in sides)
        is_raw = {each.family for each in sides} == {"kernels", "dump"}
        remedy = "gather the kernel dump first: msprobe gather DIR -o OUT" if is_raw else "give two of the same type"
        raise UsageError(f"the two sides have different types: {text}; {remedy}")
    chosen = {axis: wanted for axis, wanted in (("rank", ranks), ("step", steps)) if wanted is not None}
    for axis, wanted in chosen.items():
        _check_choice(sides, axis, wanted)
    pairing = _Pairing(*sides, chosen)
    if not pairing.jobs:
        reasons = "; ".join(map(str, pairing.missing[:_MAX_NAMES]))
        raise UsageError(
            f"{sides[0].path} and {sides[1].path} have nothing in common: {reasons}; "
            "give two folders with the same steps and ranks"
        )
    return Plan(tuple(pairing.jobs), tuple(pairing.missing), f"target: {sides[0].text}; golden: {sides[1].text}")


def _check_choice(sides: tuple[Side, Side], axis: str, wanted: Sequence[int]) -> None:
    """Raise UsageError for a rank or step that neither side has."""
    held = {getattr(place, axis) for each in sides for place in each.places} - {None}
    if not held:
        raise UsageError(
            f"--{axis}s selects {axis}s of a folder, and both sides are inside the folder of one {axis}; omit it"
        )
    if absent := sorted(set(wanted) - held):
        raise UsageError(f"{_plural(axis, absent)} on neither side; available: {_plural(axis, sorted(held))}")


class _Pairing:
    """Descends the coordinates of both sides together, and collects the jobs and the sources without a counterpart."""

    def __init__(self, target: Side, golden: Side, chosen: Mapping[str, Sequence[int]]) -> None:
        self._sides = target, golden
        self._chosen = chosen
        self.jobs: list[Job] = []
        self.missing: list[Words] = []
        self._descend(list(target.places), list(golden.places), Place())

    def _descend(self, left: list[Place], right: list[Place], done: Place, axis: int = 0) -> None:
        if axis == len(Place._fields):
            target, golden = self._sides[0].places[left[0]], self._sides[1].places[right[0]]
            # If a rank was given by its folder, there is only this one.
            is_ranked = left[0].rank is not None and right[0].rank is not None
            self.jobs.append(Job(target, golden, done, target.rank_name if is_ranked else ""))
            return
        name = Place._fields[axis]
        by_left, by_right = (self._grouped(places, axis, name) for places in (left, right))
        for key_left, key_right in self._matched(name, by_left, by_right, done):
            if key_left is _ABSENT or key_right is _ABSENT:
                key, here = (key_right, "golden") if key_left is _ABSENT else (key_left, "target")
                self.missing.append(
                    phrase("{what} is only on the {side} side", what=_named(name, key, done), side=here)
                )
                continue
            known = key_right if key_left is None else key_left
            self._descend(by_left[key_left], by_right[key_right], done._replace(**{name: known}), axis + 1)

    def _grouped(self, places: list[Place], axis: int, name: str) -> dict[Any, list[Place]]:
        """Return the selected places by their coordinate on this axis."""
        wanted = self._chosen.get(name)
        groups: dict[Any, list[Place]] = {}
        for place in places:
            if wanted is None or place[axis] is None or place[axis] in wanted:
                groups.setdefault(place[axis], []).append(place)
        return groups

    def _matched(
        self, name: str, left: dict[Any, list[Place]], right: dict[Any, list[Place]], done: Place
    ) -> Iterator[tuple[Any, Any]]:
        """Return the pairs of keys in order; `_ABSENT` for a key without a counterpart."""
        if None in left or None in right:
            for keys, this, other in ((left, *self._sides), (right, *self._sides[::-1])):
                if len(keys) > 1:
                    offered = join_names(sorted(this.folder_name(name, key, done) for key in keys), _MAX_NAMES)
                    option = f", or select one with --{name}s" if name in ("step", "rank") else ""
                    several = f"{this.path}: contains {len(keys)} {name}s, and {other.path} is a single one"
                    raise UsageError(f"{several}; give one of {offered}{option}")
            yield from zip(left, right, strict=False)
        elif name == "rank" and len(left) == len(right) == 1:
            yield from zip(left, right, strict=True)  # single processes, whose numbers may differ
        else:
            common = [key for key in left if key in right]
            if name == "what" and common and any(each.path.is_file() for each in self._sides):
                # If a file is given, only this file is compared; other files of the other side are not missing.
                yield from ((key, key) for key in common)
                return
            for key in sorted(left.keys() | right.keys(), key=lambda key: (key == "debug", key)):
                yield (key if key in left else _ABSENT), (key if key in right else _ABSENT)


_ABSENT = object()


def _named(name: str, key: object, done: Place) -> str:
    """Return `step 3 of rank 1`: a coordinate, and those that were matched before it."""
    text = f"{name} {key}"
    if name == "what":
        text = {"dump": "dump.json", "debug": "debug.json"}.get(str(key), f"folder {key or '.'}")
    elif name == "tree":
        text = str(key) or "the folders next to graph and pynative"
    around = (("rank ", done.rank), ("step ", done.step), ("", done.tree or None))
    return text + "".join(f" of {noun}{value}" for noun, value in around if value is not None)


def _plural(noun: str, names: Sequence[object]) -> str:
    return f"{noun}{'s' * (len(names) != 1)} {join_names(names, _MAX_NAMES)}"
