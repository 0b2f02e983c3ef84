"""Which dumps of two sides belong together: by tree, step and rank, never by order. Only folders are read here.

Each side is a map from places to sources. A place has four coordinates: the tree (`graph`, `pynative`), the step, the
rank, and what stands there (`dump`, `debug`, `kernels`, `saves`, or the relative folder of npy files). A coordinate is
None where the side that was given lies below it: the folder of a rank has no step to choose. Where both sides have a
coordinate it must be equal; where one has none, the other must leave no choice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.log import logger
from msprobe.compare.request import ReadAs

from .sides import Place, Side, Source, side

_NAMED = 8  # so many numbers stand in a message, the others are counted


@dataclass(frozen=True, slots=True)
class Job:
    """Two sources to compare, the place that they have in common, and the name of the target's rank folder."""

    target: Source
    golden: Source
    place: Place
    rank_name: str = ""

    @property
    def label(self) -> str:
        """`graph, step 0, rank 1, debug.json`; empty where nothing tells the job from another."""
        tree, step, rank, what = self.place
        said = [tree or "", "" if step is None else f"step {step}", "" if rank is None else f"rank {rank}"]
        return ", ".join(word for word in (*said, _WHAT.get(what, what)) if word)


_WHAT = {"dump": "", "debug": "debug.json", "kernels": "", "saves": ""}


@dataclass(frozen=True)
class Plan:
    """What is compared, in a stable order; in sentences, what has no partner; and of what kind the sides are."""

    jobs: tuple[Job, ...]
    missing: tuple[str, ...] = ()
    kinds: str = ""


def plan(
    target: Path,
    golden: Path,
    *,
    ranks: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    read_as: ReadAs = "",
) -> Plan:
    """What of two sides is compared with what; `ranks` and `steps` choose among those that the sides hold.

    UsageError where the sides are of two kinds, where it is not said which of several dumps is meant, and where they
    have nothing in common; DumpError where a side is nothing that can be read.
    """
    sides = side(target, read_as), side(golden, read_as)
    for each in sides:
        for told in each.skipped:
            logger.info("%s", told)
        if not each.places:
            raise UsageError(
                f"{each.path}: holds no npy files; give a folder that does, or leave `common` out for dumps"
            )
    if sides[0].family != sides[1].family:
        said = ", ".join(f"{each.path} is {each.says}" for each in sides)
        is_raw = {each.family for each in sides} == {"kernels", "dump"}
        remedy = "gather the kernel dump first: msprobe gather DIR -o OUT" if is_raw else "give two of one kind"
        raise UsageError(f"the sides are of two kinds: {said}; {remedy}")
    chosen = {axis: wanted for axis, wanted in (("rank", ranks), ("step", steps)) if wanted is not None}
    for axis, wanted in chosen.items():
        _check_choice(sides, axis, wanted)
    pairing = _Pairing(*sides, chosen)
    jobs = tuple(pairing.jobs)
    if not jobs:
        raise UsageError(_nothing(sides, pairing.missing))
    return Plan(jobs, tuple(pairing.missing), f"target: {sides[0].says}; golden: {sides[1].says}")


def _check_choice(sides: tuple[Side, Side], axis: str, wanted: Sequence[int]) -> None:
    """UsageError for a rank or step that neither side holds."""
    held = {getattr(place, axis) for each in sides for place in each.places} - {None}
    if not held:
        raise UsageError(
            f"--{axis} chooses among the {axis}s of a folder, and both sides are below that already; leave it out"
        )
    if absent := sorted(set(wanted) - held):
        raise UsageError(f"{_few(axis, absent)} on neither side; there: {_few(axis, sorted(held))}")


class _Pairing:
    """Walks down the coordinates of both sides at once; keeps the jobs, and says what has no partner."""

    def __init__(self, target: Side, golden: Side, chosen: Mapping[str, Sequence[int]]) -> None:
        self._sides = target, golden
        self._chosen = chosen
        self.jobs: list[Job] = []
        self.missing: list[str] = []
        self._descend(list(target.places), list(golden.places), Place())

    def _descend(self, left: list[Place], right: list[Place], done: Place, axis: int = 0) -> None:
        if axis == len(Place._fields):
            self._join(left[0], right[0], done)
            return
        name = Place._fields[axis]
        by_left, by_right = (self._grouped(places, axis, name) for places in (left, right))
        for key_left, key_right in self._matched(name, by_left, by_right, done):
            if key_left is _ABSENT or key_right is _ABSENT:
                key, here = (key_right, "golden") if key_left is _ABSENT else (key_left, "target")
                self.missing.append(f"{_thing(name, key)}{_of(done)} is only on the {here} side")
                continue
            known = key_right if key_left is None else key_left
            self._descend(by_left[key_left], by_right[key_right], done._replace(**{name: known}), axis + 1)

    def _grouped(self, places: list[Place], axis: int, name: str) -> dict[Any, list[Place]]:
        """The places by their coordinate on this axis, of what was chosen."""
        wanted = self._chosen.get(name)
        groups: dict[Any, list[Place]] = {}
        for place in places:
            if wanted is None or place[axis] is None or place[axis] in wanted:
                groups.setdefault(place[axis], []).append(place)
        return groups

    def _matched(
        self, name: str, left: dict[Any, list[Place]], right: dict[Any, list[Place]], done: Place
    ) -> Iterator[tuple[Any, Any]]:
        """The keys that belong together, in order; `_ABSENT` where a key has no partner."""
        if None in left or None in right:
            for which, keys in enumerate((left, right)):
                if len(keys) > 1:
                    self._say_choice(which, name, list(keys), done)
            yield from zip(left, right, strict=False)
        elif name == "rank" and len(left) == len(right) == 1:
            yield from zip(left, right, strict=True)  # a process alone, whatever its number
        elif name == "what" and self._is_file_given() and (common := [key for key in left if key in right]):
            # Who names a file means this file; what else lies beside the other's is not missing.
            yield from ((key, key) for key in common)
        else:
            for key in sorted(left.keys() | right.keys(), key=lambda key: (key == "debug", key)):
                yield (key if key in left else _ABSENT), (key if key in right else _ABSENT)

    def _is_file_given(self) -> bool:
        return any(each.path.is_file() for each in self._sides)

    def _say_choice(self, which: int, name: str, keys: list[Any], done: Place) -> None:
        this, other = self._sides[which], self._sides[1 - which]
        offered = _few("", sorted(this.folder_name(name, key, done) for key in keys))
        option = f", or choose with --{name}" if name in ("step", "rank") else ""
        raise UsageError(
            f"{this.path}: holds {len(keys)} {name}s, and {other.path} is one; give one of {offered}{option}"
        )

    def _join(self, left: Place, right: Place, done: Place) -> None:
        target, golden = self._sides
        # Where a rank was given by its folder there is no other to tell it from.
        name = target.rank_names[left] if left.rank is not None and right.rank is not None else ""
        self.jobs.append(Job(target.places[left], golden.places[right], done, name))


_ABSENT = object()


def _thing(name: str, key: object) -> str:
    if name == "what":
        return {"dump": "dump.json", "debug": "debug.json"}.get(str(key), f"folder {key or '.'}")
    if name == "tree":
        return str(key) or "what stands beside graph and pynative"
    return f"{name} {key}"


def _of(done: Place) -> str:
    said = [f" of {name} {value}" for name, value in (("rank", done.rank), ("step", done.step)) if value is not None]
    return "".join(said) + (f" of {done.tree}" if done.tree else "")


def _few(noun: str, names: Sequence[object]) -> str:
    more = len(names) - _NAMED
    listed = ", ".join(map(str, names[:_NAMED])) + (f" and {more} more" if more > 0 else "")
    if not noun:
        return listed
    return f"{noun}{'s' * (len(names) != 1)} {listed}"


def _nothing(sides: tuple[Side, Side], missing: Sequence[str]) -> str:
    target, golden = sides
    said = "; ".join(missing[:_NAMED])
    return f"{target.path} and {golden.path} have nothing in common: {said}; give the two folders that belong together"
