"""The contents of one side: dumps, monitors, checkpoints and packs of configurations, in any mixture."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeVar

from msprobe.base.digest import KINDS
from msprobe.base.errors import DumpError, MsprobeError
from msprobe.compare.jobs.plan import Family, side
from msprobe.compare.rl.roots import is_root, roots_by_step
from msprobe.store.detect import is_checkpoint
from msprobe.store.folders import DUMP_FILES, TREES, Folder, look, of_rank, ranks_in, steps_in, trees_in, walk
from msprobe.store.layout import DATA, RUN, TENSORS
from msprobe.store.monitor.lines import Notes
from msprobe.store.monitor.runs import find_runs
from msprobe.store.reader import Head, read_head
from msprobe.store.rl_roots import NAME as CONFIGURATIONS
from msprobe.store.rl_roots import STAGES

_LEVELS = ("L0", "L1", "mix")
_FINER = {"structure": 0, "statistics": 1, "tensor": 2}


@dataclass(frozen=True)
class Collection:
    """One collection of one side; `name` is its folder relative to the side, empty for the side itself.

    `steps` and `ranks` are empty if the path is below them. `head` is that of one of its dumps. `is_flow`: the path is
    the root of an RL flow with stages.
    """

    path: Path
    name: str = ""
    family: Family = "dump"
    steps: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    head: Head = field(default_factory=Head)
    is_flow: bool = False

    @property
    def is_of_calls(self) -> bool:
        """Return whether it has calls that a debugger recorded, so that a configuration describes it: not kernels,
        single saves or an RL flow, whose stages have separate switches."""
        return self.family == "dump" and self.head.level != "L2" and not self.is_flow

    @property
    def _section(self) -> dict[str, object]:
        """Return the settings of its task."""
        section = self.head.settings.get(self.head.task)
        return section if isinstance(section, dict) else {}

    @property
    def digests(self) -> str:
        """Return the kind of its digests; empty for none."""
        asked = self._section.get("summary_mode")
        return asked if isinstance(asked, str) and asked in KINDS else ""

    @property
    def is_filtered(self) -> bool:
        """Return whether only some of the calls were collected: by `list`, `scope` or `data_mode`."""
        section = self._section
        return bool(section.get("scope") or section.get("list") or section.get("data_mode", ["all"]) != ["all"])

    @property
    def python_level(self) -> str:
        """Return the level that collects the same Python calls again: its level, or mix."""
        return self.head.level if self.head.level in _LEVELS else "mix"

    @property
    def fineness(self) -> tuple[int, ...]:
        """Return the sort key of collections, the coarsest first: dumps of calls by level and task, filtered ones
        before complete ones, then everything else."""
        level = _LEVELS.index(self.head.level) if self.head.level in _LEVELS else len(_LEVELS)
        is_of_calls = self.family == "dump"
        return not is_of_calls, level, _FINER.get(self.head.task, 0), bool(self.digests), not self.is_filtered


class Kind(Enum):
    """Kinds of output that are paired by the names of their files and folders."""

    MONITOR = "monitor"
    CHECKPOINT = "checkpoint"
    PACK = "pack of a configuration"


@dataclass(frozen=True)
class Unused:
    """A file or folder that is not compared, and the reason. `is_dump`: it contains a dump that cannot be read."""

    name: str
    why: str
    is_dump: bool = False


@dataclass(frozen=True)
class Inventory:
    """The content of one side. `monitors`, `checkpoints` and `packs` are by their relative paths, "" for the side
    itself; `unused` is the rest."""

    path: Path
    collections: tuple[Collection, ...] = ()
    checkpoints: Mapping[str, Path] = field(default_factory=dict)
    configurations: Path | None = None
    monitors: Mapping[str, Path] = field(default_factory=dict)
    packs: Mapping[str, Path] = field(default_factory=dict)
    unused: tuple[Unused, ...] = ()

    def of(self, kind: Kind) -> Mapping[str, Path]:
        """Return the contents of one kind, by name."""
        return {Kind.MONITOR: self.monitors, Kind.CHECKPOINT: self.checkpoints, Kind.PACK: self.packs}[kind]

    @property
    def text(self) -> str:
        """Return `PATH contains the dump first, the monitor mon`."""
        held = [f"the dump {each.name}".rstrip() for each in self.collections]
        held += [f"the {kind.value} {name}".rstrip() for kind in Kind for name in self.of(kind)]
        return f"{self.path} contains {', '.join(held) or 'nothing that can be compared'}"


_MAX_DEPTH = 3
"""Folders inside each other in which collections are searched."""


@dataclass
class _Search:
    """Results of a search below a path."""

    root: Path
    collections: list[Collection] = field(default_factory=list)
    checkpoints: dict[str, Path] = field(default_factory=dict)
    monitors: dict[str, Path] = field(default_factory=dict)
    packs: dict[str, Path] = field(default_factory=dict)
    unused: list[Unused] = field(default_factory=list)

    @property
    def has_found(self) -> bool:
        return bool(self.collections or self.checkpoints or self.monitors or self.packs)

    def name(self, path: Path) -> str:
        """Return the path relative to the root, "" for the root itself."""
        return "" if path == self.root else path.relative_to(self.root).as_posix()


def inventory(path: Path) -> Inventory:
    """Return the content of a path. DumpError or UsageError, with the content and what to give, if there is nothing."""
    search = _Search(path)
    if not path.is_dir():
        if is_checkpoint(path):
            search.checkpoints[path.name] = path
        elif _is_pack(path):
            search.packs[path.name] = path
        else:
            search.collections.append(_collection(path, ""))
        return _inventory(search, None)
    top = look(path)
    configurations = top.path / CONFIGURATIONS if CONFIGURATIONS in top.files else None
    if _is_flow(top):
        search.collections.append(Collection(path, is_flow=True, head=_head_below(top)))
        for name in top.folders:
            if monitor_form(path / name):
                search.monitors[name] = path / name
        search.packs |= {name: path / name for name in top.files if _is_pack(path / name)}
        return _inventory(search, None)
    _search_folder(search, top, 0)
    if not search.has_found:
        search.collections.append(_collection(path, ""))  # npy files, kernels, saves; or the error with the content
        search.unused.clear()
    return _inventory(search, configurations)


def _inventory(search: _Search, configurations: Path | None) -> Inventory:
    return Inventory(
        search.root,
        tuple(search.collections),
        search.checkpoints,
        configurations,
        search.monitors,
        search.packs,
        tuple(search.unused),
    )


def _search_folder(search: _Search, top: Folder, depth: int) -> None:
    """Add the content of a folder that is not one collection: its steps, ranks and monitor, then everything in it."""
    path = top.path
    steps, ranks, trees = steps_in(top), ranks_in(top), trees_in(top)
    is_one_dump = not DUMP_FILES.isdisjoint(top.files)
    is_step = any(of_rank(look(path / rank), path.name) for rank in ranks)
    has_own = is_one_dump or is_step or bool(steps or trees)
    if has_own:
        search.collections.append(_collection(path, search.name(path)))
    own: set[str] = {*steps, *TREES, DATA, TENSORS} | ({*ranks} if has_own else set())
    is_process_of_monitor = False
    if monitor_form(path):
        search.monitors[search.name(path)] = path
        of_processes = {name for name in top.folders if monitor_form(path / name)}
        own |= of_processes
        is_process_of_monitor = not of_processes
    for name in top.files:
        _add_file(search, path / name, is_one_dump or is_process_of_monitor)
    for name in top.folders:
        if name in own or name.startswith(".") or (has_own and name in STAGES):
            continue
        _add_folder(search, path / name, depth + 1)


def _add_file(search: _Search, file: Path, is_of_folder: bool) -> None:
    """Add a file: a checkpoint, a pack, or a file that is not compared, unless it belongs to its folder."""
    if is_checkpoint(file):
        search.checkpoints[search.name(file)] = file
    elif _is_pack(file):
        search.packs[search.name(file)] = file
    elif not (is_of_folder or file.name.startswith(".") or file.name in (RUN, CONFIGURATIONS)):
        search.unused.append(Unused(search.name(file), "a file of an unknown type"))


def _add_folder(search: _Search, path: Path, depth: int) -> None:
    """Add a folder: a collection, a monitor or both, a folder of these, or a checkpoint."""
    name = search.name(path)
    is_monitor = bool(monitor_form(path))
    if is_monitor:
        search.monitors[name] = path
    try:
        found = _collection(path, name)
    except MsprobeError as err:
        why = " ".join(str(err).split())
    else:
        if found.family != "npy":
            search.collections.append(found)
            return
        why = "npy files; to compare them, give this folder itself"
    if is_monitor:
        return
    inner = _Search(search.root)
    if depth < _MAX_DEPTH:
        try:
            _search_folder(inner, look(path), depth)
        except MsprobeError as err:
            why = " ".join(str(err).split())
    if inner.collections or inner.monitors:
        for mine, more in ((search.checkpoints, inner.checkpoints), (search.packs, inner.packs)):
            mine.update(more)
        search.monitors |= inner.monitors
        search.collections += inner.collections
        search.unused += inner.unused
    elif is_checkpoint(path):
        search.checkpoints[name] = path
    elif inner.packs:
        search.packs |= inner.packs
        search.unused += inner.unused
    else:
        search.unused.append(Unused(name, why, _has_dump(path)))


def _is_pack(file: Path) -> bool:
    return file.suffix.lower() == ".zip"


def _has_dump(path: Path) -> bool:
    """Return whether a folder contains the files of a dump at any depth."""
    try:
        return any(not DUMP_FILES.isdisjoint(folder.files) for folder in walk(path, {TENSORS}))
    except MsprobeError:
        return False


def monitor_form(path: Path) -> str:
    """Return the form of the output of a monitor in a folder, by its name in `store.monitor.runs`; empty without
    one."""
    try:
        return find_runs(path, Notes())[0].name
    except (MsprobeError, OSError, ValueError):
        return ""


def _is_flow(top: Folder) -> bool:
    """Return whether a folder is the root of an RL flow, so that its folders are stages of one run."""
    if roots_by_step(top.path):
        return True
    if not is_root(top.path):
        return False
    if not set(STAGES).isdisjoint(top.folders) or DATA in top.folders:
        return True
    return type(_head_below(top).run.get("stage")) is int


def _head_below(top: Folder) -> Head:
    """Return the header of the first dump in the folders of a folder."""
    for name in top.folders:
        try:
            places = side(top.path / name).places
        except MsprobeError:
            continue
        if head := next((read_head(source.paths[0]) for source in places.values() if source.family == "dump"), None):
            return head
    return Head()


def _collection(path: Path, name: str) -> Collection:
    """Return the collection at a path; DumpError if it has nothing that can be compared."""
    found = side(path)
    if not found.places:
        raise DumpError(
            f"{path}: does not contain a dump; give a dump.json, or a folder of ranks, steps or collections"
        )
    places = sorted(found.places, key=lambda place: (place.what == "debug", place.step or 0, place.rank or 0))
    steps = tuple(sorted({place.step for place in places if place.step is not None}))
    ranks = tuple(sorted({place.rank for place in places if place.rank is not None}))
    head = Head()
    if found.family == "dump":
        file = found.places[places[0]].paths[0]
        if file.is_dir():
            file = next((file / name for name in sorted(DUMP_FILES) if (file / name).is_file()), file)
        head = read_head(file)
    return Collection(path, name, found.family, steps, ranks, head)


@dataclass(frozen=True)
class CollectionPair:
    """A collection of the target, and its counterpart on the golden side."""

    target: Collection
    golden: Collection

    @property
    def steps(self) -> tuple[int, ...]:
        """Return the common steps; empty if one of the paths is below them."""
        return tuple(step for step in self.target.steps if step in self.golden.steps)

    @property
    def has_common_step(self) -> bool:
        """Return whether there is a step to compare, or no choice of steps."""
        return bool(self.steps) or not (self.target.steps and self.golden.steps)


Item = TypeVar("Item")


def _pair(
    ours: Sequence[Item], theirs: Sequence[Item], keys: Sequence[Callable[[Item], object]]
) -> tuple[list[tuple[Item, Item]], list[Item], list[Item]]:
    """Pair items whose key is unique on both sides, by one key after the other; return the pairs and the other items of
    each side."""
    found: list[tuple[Item, Item]] = []
    left, right = list(ours), list(theirs)
    for key in keys:
        for one in list(left):
            other = [each for each in right if key(each) == key(one)]
            if len(other) == 1 and sum(key(each) == key(one) for each in left) == 1:
                found.append((one, other[0]))
                left.remove(one)
                right.remove(other[0])
    return found, left, right


def pair_by_name(
    kind: Kind, target: Inventory, golden: Inventory
) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """Return the names of counterparts of a kind, and the names without counterpart of each side.

    They are paired by name, monitors then by their form; if there is none, a single one with the single one of the
    other side.
    """
    ours, theirs = ([(name, path) for name, path in side.of(kind).items()] for side in (target, golden))
    keys: list[Callable[[tuple[str, Path]], object]] = [lambda one: one[0]]
    if kind is Kind.MONITOR:
        forms = {one: monitor_form(one[1]) for one in (*ours, *theirs)}
        keys.append(lambda one: forms[one])
    found, left, right = _pair(ours, theirs, keys)
    if not found and len(left) == len(right) == 1:
        found = [(left.pop(), right.pop())]
    return [(a[0], b[0]) for a, b in found], [name for name, _ in left], [name for name, _ in right]


def pair_collections(
    target: Inventory, golden: Inventory
) -> tuple[tuple[CollectionPair, ...], tuple[tuple[str, Collection], ...]]:
    """Return corresponding collections, the coarsest first; and those without counterpart, with their side.

    They are paired by name, then by level and task, then a single one with the single one of the other side.
    """
    paired, ours, theirs = _pair(
        target.collections,
        golden.collections,
        (lambda one: one.name, lambda one: (one.family, one.head.level, one.head.task, one.is_flow)),
    )
    found = [CollectionPair(one, other) for one, other in paired]
    if not found and len(ours) == len(theirs) == 1:
        found.append(CollectionPair(ours.pop(), theirs.pop()))
    unmatched = [("target", each) for each in ours] + [("golden", each) for each in theirs]
    # By the coarser of the two.
    found.sort(key=lambda each: min(each.target.fineness, each.golden.fineness))
    return tuple(found), tuple(unmatched)
