"""What one side holds: a dump, or a folder with several collections, checkpoints and configurations."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from msprobe.base.digest import KINDS
from msprobe.base.errors import DumpError, MsprobeError, UsageError
from msprobe.compare.jobs.plan import Family, side
from msprobe.compare.rl.roots import is_root, roots_by_step
from msprobe.store.detect import is_checkpoint
from msprobe.store.folders import DUMP_FILES, TREES, Folder, look, of_rank, ranks_in, steps_in, trees_in
from msprobe.store.layout import DATA
from msprobe.store.reader import Head, read_head
from msprobe.store.rl_roots import NAME as CONFIGURATIONS
from msprobe.store.rl_roots import STAGES

_LEVELS = ("L0", "L1", "mix")
_FINER = {"structure": 0, "statistics": 1, "tensor": 2}


@dataclass(frozen=True)
class Collection:
    """One collection of one side; `name` is its folder below the side's, empty for the side itself.

    `steps` and `ranks` are empty where the path lies below them. `head` is of one of its dumps. `is_flow`: it is the
    root of a flow with stages.
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
        """Whether a debugger recorded calls in it, so that a configuration describes it: no kernels, no single saves,
        no flow, whose stages have switches of their own."""
        return self.family == "dump" and self.head.level != "L2" and not self.is_flow

    @property
    def _section(self) -> dict[str, object]:
        """The settings of its task."""
        section = self.head.settings.get(self.head.task)
        return section if isinstance(section, dict) else {}

    @property
    def digests(self) -> str:
        """The kind of digests that were asked for; empty for none."""
        asked = self._section.get("summary_mode")
        return asked if isinstance(asked, str) and asked in KINDS else ""

    @property
    def is_filtered(self) -> bool:
        """Whether only some of the calls were collected: by `list`, `scope` or `data_mode`."""
        section = self._section
        return bool(section.get("scope") or section.get("list") or section.get("data_mode", ["all"]) != ["all"])

    @property
    def python_level(self) -> str:
        """The level at which Python's calls are collected like this again: its own, else mix."""
        return self.head.level if self.head.level in _LEVELS else "mix"

    @property
    def fineness(self) -> tuple[int, ...]:
        """What orders collections, the coarsest first: dumps of calls by level and task, of equal ones those that are
        filtered first, then everything else."""
        level = _LEVELS.index(self.head.level) if self.head.level in _LEVELS else len(_LEVELS)
        is_of_calls = self.family == "dump"
        return not is_of_calls, level, _FINER.get(self.head.task, 0), bool(self.digests), not self.is_filtered


@dataclass(frozen=True)
class Inventory:
    """All that one side holds; `checkpoints` by their names below it."""

    path: Path
    collections: tuple[Collection, ...]
    checkpoints: dict[str, Path]
    configurations: Path | None = None


def inventory(path: Path) -> Inventory:
    """What lies at a path. DumpError or UsageError, with what is there and what to give, where there is nothing."""
    if not path.is_dir():
        return (
            Inventory(path, (), {path.name: path})
            if is_checkpoint(path)
            else Inventory(path, (_collection(path, ""),), {})
        )
    top = look(path)
    configurations = top.path / CONFIGURATIONS if CONFIGURATIONS in top.files else None
    if _is_flow(top):
        return Inventory(path, (Collection(path, is_flow=True, head=_head_below(top)),), {}, None)
    found: list[Collection] = []
    if (
        not DUMP_FILES.isdisjoint(top.files)
        or any(of_rank(look(top.path / rank), top.path.name) for rank in ranks_in(top))
        or steps_in(top)
        or trees_in(top)
    ):
        found.append(_collection(path, ""))
        if not (steps_in(top) or trees_in(top)):
            return Inventory(path, tuple(found), {}, configurations)
    checkpoints = {name: path / name for name in top.files if is_checkpoint(path / name)}
    for name in top.folders:
        if name in (*steps_in(top), *ranks_in(top), *TREES, DATA) or (found and name in STAGES):
            continue
        try:
            below = _collection(path / name, name)
        except MsprobeError:
            if is_checkpoint(path / name):
                checkpoints[name] = path / name
            continue
        if below.family != "npy":  # tables, pictures, what others left
            found.append(below)
    if not found and not checkpoints:
        found.append(_collection(path, ""))  # npy files, kernels, saves; or the error that says what is there
    return Inventory(path, tuple(found), checkpoints, configurations)


def _is_flow(top: Folder) -> bool:
    """Whether a folder is the root of a flow, and its folders are stages of one run, not several collections."""
    if roots_by_step(top.path):
        return True
    if not is_root(top.path):
        return False
    if not set(STAGES).isdisjoint(top.folders) or DATA in top.folders:
        return True
    return type(_head_below(top).run.get("stage")) is int


def _head_below(top: Folder) -> Head:
    """The header of the first dump that is found in the folders of a folder."""
    for name in top.folders:
        try:
            places = side(top.path / name).places
        except MsprobeError:
            continue
        if head := next((read_head(source.paths[0]) for source in places.values() if source.family == "dump"), None):
            return head
    return Head()


def _collection(path: Path, name: str) -> Collection:
    """DumpError where the path holds nothing that can be compared."""
    found = side(path)
    if not found.places:
        raise DumpError(f"{path}: holds no dump; give a dump.json, or a folder of ranks, steps or collections")
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
    """A collection of the target, and the golden's that it is compared with."""

    target: Collection
    golden: Collection

    @property
    def steps(self) -> tuple[int, ...]:
        """The steps that both hold; empty where one of the paths lies below them."""
        return tuple(step for step in self.target.steps if step in self.golden.steps)

    @property
    def has_common_step(self) -> bool:
        """Whether there is a step to compare, or no choice of steps."""
        return bool(self.steps) or not (self.target.steps and self.golden.steps)


def pair_collections(
    target: Inventory, golden: Inventory
) -> tuple[tuple[CollectionPair, ...], tuple[tuple[str, Collection], ...]]:
    """Which collections belong together, the coarsest first; and those of one side alone, with the side.

    By name; then what is left by level and task; then the only one of a side with the only one of the other. UsageError
    where one side is a single dump and none of the other's several is of its kind.
    """
    ours, theirs = list(target.collections), list(golden.collections)
    found: list[CollectionPair] = []
    keys: tuple[Callable[[Collection], object], ...] = (
        lambda one: one.name,
        lambda one: (one.family, one.head.level, one.head.task, one.is_flow),
    )
    for key in keys:
        for one in list(ours):
            other = [each for each in theirs if key(each) == key(one)]
            if len(other) == 1 and sum(key(each) == key(one) for each in ours) == 1:
                found.append(CollectionPair(one, other[0]))
                ours.remove(one)
                theirs.remove(other[0])
    if not found and len(ours) == len(theirs) == 1:
        found.append(CollectionPair(ours.pop(), theirs.pop()))
    if not found and ours and theirs:
        both = "; ".join(
            f"{side.path} holds {', '.join(each.name or each.path.name for each in side.collections)}"
            for side in (target, golden)
        )
        raise UsageError(f"which collections belong together is not told: {both}; call their folders alike")
    unmatched = [("target", each) for each in ours] + [("golden", each) for each in theirs]
    # By the coarser of the two.
    found.sort(key=lambda each: min(each.target.fineness, each.golden.fineness))
    return tuple(found), tuple(unmatched)
