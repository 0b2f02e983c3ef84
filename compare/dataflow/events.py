"""The calls of a comparison in execution order, each with its inputs, their origin, and its outputs.

Where a given came from: a recorded call, a parameter, nothing recorded, or not known.

Our own dumps say it (`from`, docs/format.md page 2.3). For the other tool's dumps, and where nothing tracks it, a value
tells: a given whose digest, or shape, dtype and statistics, equal those of an earlier result of the same dump came from
there.
"""

import re
from bisect import bisect, bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from msprobe.base import names
from msprobe.compare.core.standard import canonical
from msprobe.compare.judge.judged import Comparison, Judged, JudgedCall
from msprobe.store.record import PARTS, TENSOR, Calls, Dump, Part, Record

Origin = Literal["call", "parameter", "leaf", "code", "unknown"]

_CALL = re.compile(r"^call (?P<call>.+)\.(?P<part>input|output)(?P<path>(?:\.[^.]+)*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """Where one record came from. `call` and `path` name the result, `text` a parameter."""

    origin: Origin
    call: str = ""
    part: str = ""
    path: tuple[str, ...] = ()
    text: str = ""


UNKNOWN = Source("unknown")
_PARAMETERS = PARTS.index("parameters")


def told(source: str) -> Source:
    """What the dump itself says of a given that is no parameter of its call."""
    if not source:
        return UNKNOWN
    if source in ("leaf", "code"):
        return Source(source)  # type: ignore[arg-type]  # the two words above
    if source.startswith("parameter "):
        return Source("parameter", text=source.removeprefix("parameter "))
    if m := _CALL.match(source):
        return Source("call", m["call"], m["part"], tuple(m["path"].split(".")[1:]))
    return UNKNOWN


def fingerprint(record: Record) -> tuple[object, ...] | None:
    """What two records have in common that hold the same tensor; None where a record has nothing to recognise it by."""
    if record.kind != "tensor":
        return None
    looks = (record.shape, canonical(record.dtype))
    if record.digest:
        return (*looks, record.digest)
    s = record.statistics
    if s is None or s.max is None or s.max != s.max:
        return None
    return (*looks, s.max, s.min, s.mean, s.norm)


class Sources:
    """Finds the sources of one dump's records by what the dump says, else by value; looks values up once asked."""

    def __init__(self, dump: Dump) -> None:
        self._columns = dump.columns

    @cached_property
    def _order(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self._columns.names)}

    @cached_property
    def _results(self) -> dict[tuple[object, ...], list[int]]:
        """Fingerprint and direction -> the rows of such results, rising."""
        columns, found = self._columns, dict[tuple[object, ...], list[int]]()
        for row, mark in self._marked("output"):
            key = (*mark, names.parse(columns.names[self._call(row)]).direction)
            found.setdefault(key, []).append(row)
        return found

    @cached_property
    def _parameters(self) -> dict[tuple[object, ...], list[tuple[str, str]]]:
        """Fingerprint -> the calls that have such a parameter, with its name."""
        columns, found = self._columns, dict[tuple[object, ...], list[tuple[str, str]]]()
        for row, mark in self._marked("parameters"):
            owner = columns.names[self._call(row)]
            text = ".".join(filter(None, (names.parse(owner).path, *columns.paths[columns.path[row]])))
            found.setdefault(mark, []).append((owner, text))
        return found

    def _marked(self, part: Part) -> Iterator[tuple[int, tuple[object, ...]]]:
        """The rows of a part with their fingerprints."""
        wanted = PARTS.index(part)
        for row, code in enumerate(self._columns.part):
            if code == wanted and (mark := self.mark(row)) is not None:
                yield row, mark

    @cached_property
    def _looks(self) -> list[tuple[object, ...]]:
        return [(shape, canonical(dtype)) for _, dtype, shape in self._columns.looks]

    def mark(self, row: int) -> tuple[object, ...] | None:
        """`fingerprint` of a row, without its record where that is like most."""
        columns = self._columns
        if columns.kind[row] != TENSOR:
            return None
        if columns.digest[row] or row in columns.odd:
            return fingerprint(columns.record(row, self._call(row)))
        if (highest := columns.max[row]) != highest:
            return None
        return (*self._looks[columns.look[row]], highest, columns.min[row], columns.mean[row], columns.norm[row])

    def _call(self, row: int) -> int:
        return bisect_right(self._columns.starts, row) - 1

    def of(self, row: int, call: str, parents: tuple[str, ...]) -> Source:
        """The source of a given of `call`, by its row; the call stands inside `parents`."""
        columns = self._columns
        if columns.part[row] == _PARAMETERS:
            path = columns.paths[columns.path[row]]
            return Source("parameter", text=".".join(filter(None, (names.parse(call).path, *path))))
        said = told(columns.source[row])
        if said.origin != "unknown" or (mark := self.mark(row)) is None:
            return said
        given = self._parameters.get(mark, [])
        for owner, text in given:
            if owner in parents:
                return Source("parameter", text=text)
        if earlier := self._earlier(mark, call):
            return earlier
        return Source("parameter", text=given[0][1]) if given else UNKNOWN

    def _earlier(self, mark: tuple[object, ...], call: str) -> Source | None:
        """The latest result of the same direction that looks the same and was there before the call."""
        found = self._results.get((*mark, names.parse(call).direction), [])
        place = bisect_left(found, self._columns.starts[self._order.get(call, 0)])
        if place == 0:
            return None
        row = found[place - 1]
        path = self._columns.paths[self._columns.path[row]]
        return Source("call", self._columns.names[self._call(row)], "output", path)


@dataclass(slots=True, eq=False)  # not frozen: one is made for every call, and freezing costs more than all else
class Event:
    """One pair of calls, or a call that stands on one side only.

    `givens` of a backward call are its incoming gradients (`own`), and its forward's givens and results.
    The gradients of a cell's parameters are results of that cell's backward: `name` is then the backward call's, and
    `owners` are the calls whose incoming gradients they come from. `place` is the pair's place in the comparison.
    `key` is the name, told apart from a target's call of the same name where the call is the golden's alone; `keys` are
    those of the cells around it, innermost first, and `parents` their names. `forwards` are the places of the forward
    calls of a backward call; `forward` is the first of those as an event.
    """

    at: int
    place: int
    name: str
    key: str
    direction: names.Direction
    kind: names.Kind
    comparison: Comparison
    owners: tuple[int, ...]
    forwards: tuple[int, ...]
    forward: int | None
    parents: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def call(self) -> JudgedCall:
        """The pair of calls, made anew each time."""
        return self.comparison.calls[self.place]

    @property
    def called(self) -> str:
        """The name of the call itself: that of the gradients where `name` is their owner's."""
        return self.comparison.pairs.name(self.place)

    @property
    def rows(self) -> range:
        """The pairs of its records, by their rows in the comparison."""
        starts = self.comparison.pairs.starts
        return range(int(starts[self.place]), int(starts[self.place + 1]))

    def owns(self, row: int) -> bool:
        """Whether a given is its own, and not inherited from the forward call."""
        starts = self.comparison.pairs.starts
        return any(starts[place] <= row < starts[place + 1] for place in self.owners or (self.place,))

    @property
    def own(self) -> tuple[Judged, ...]:
        """Its own givens; those of the backward calls that gradients of parameters come from."""
        places = self.owners or (self.place,)
        is_given = self.comparison.is_given
        return tuple(j for place in places for j in self.comparison.calls[place].judged if is_given[j.row])

    @property
    def is_matched(self) -> bool:
        """Whether both sides made this call."""
        pairs = self.comparison.pairs
        return bool(pairs.target_calls[self.place] >= 0 and pairs.golden_calls[self.place] >= 0)

    @property
    def side(self) -> str:
        """The side on which a call stands alone."""
        return "target" if self.comparison.pairs.golden_calls[self.place] < 0 else "golden"


def events(comparison: Comparison) -> list[Event]:
    """All calls in execution order (of completion: children before the cell around them)."""
    pairs = comparison.pairs
    called = [pairs.name(place) for place in range(len(pairs))]
    keys = _Keys(comparison)
    around = _Around(comparison)
    found: list[Event] = []
    forwards: dict[str, Event] = {}
    owners = _owners(called)
    for place, owner in _in_execution_order(called, owners):
        name = names.parse(called[place])
        is_backward = name.direction == "backward"
        same = owners[place] if owner else [place]
        before = [
            f
            for p in (same if is_backward else ())
            if (f := forwards.get(keys.of(p, names.counterpart(called[p], "forward"))))
        ]
        parents = around.owner(place, owner) if owner else around.call(place)
        event = Event(
            at=len(found),
            place=place,
            name=owner or called[place],
            key=keys.of(place, owner or called[place]),
            direction=name.direction,
            kind=name.kind,
            comparison=comparison,
            owners=tuple(same) if owner else (),
            forwards=tuple(f.place for f in before),
            forward=before[0].at if before else None,
            parents=parents,
            keys=tuple(keys.of(place, parent) for parent in parents),
        )
        found.append(event)
        if name.direction == "forward":
            forwards[event.key] = event
    return found


class _Keys:
    """One name for one pair of calls: the target's, since numbers may have shifted between the sides."""

    def __init__(self, comparison: Comparison) -> None:
        pairs = comparison.pairs
        self._targets = pairs.target_calls
        theirs, ours = comparison.golden.columns.names, comparison.target.columns.names
        both = ((pairs.target_calls >= 0) & (pairs.golden_calls >= 0)).nonzero()[0].tolist()
        self._of_golden: dict[str, str] = {}
        if len(both) < len(pairs):  # else no call of the golden alone will ask
            self._of_golden = {theirs[pairs.golden_calls[at]]: ours[pairs.target_calls[at]] for at in both}

    def of(self, place: int, name: str) -> str:
        """The key of `name` as the side of the pair of calls at `place` uses it."""
        return name if self._targets[place] >= 0 else self._of_golden.get(name, f"golden {name}")


def _owners(called: Sequence[str]) -> dict[int, list[int]]:
    """Place of the gradients of a cell's parameters -> the places of the backward calls that they come from.

    Where gradients are computed several times in a step, each has the calls of its own time. A time of a cell ends
    where the cell is called forward after backward calls and gradients; calls that no gradients follow in a time of
    their own belong to those before, whose place was reserved for what comes last.
    """
    times: dict[str, list[_Time]] = {}
    for place, text in enumerate(called):
        name = names.parse(text)
        if name.kind not in ("cell", "parameters_grad"):
            continue
        known = times.setdefault(name.stem, [_Time([], [])])
        if name.kind == "parameters_grad":
            known[-1].gradients.append(place)
        elif name.direction == "backward":
            known[-1].calls.append(place)
        elif known[-1].gradients and known[-1].calls:
            known.append(_Time([], []))
    found: dict[int, list[int]] = {}
    for known in times.values():
        if len(known) > 1 and not known[-1].gradients:
            last = known.pop()
            known[-1].calls.extend(last.calls)
        for time in known:
            found.update(_shared_out(time))
    return found


class _Time(NamedTuple):
    """The gradients of a cell's parameters and its backward calls, by their places, between two calls forward."""

    gradients: list[int]
    calls: list[int]


def _shared_out(time: _Time) -> Iterator[tuple[int, list[int]]]:
    """The backward calls of each of the gradients of one time; all of them, where there is but one.

    They stand just before their last backward call or behind it, as the last ones do. Two of one call have it both.
    """
    gradients, calls = time
    is_before = bool(calls and gradients) and gradients[-1] < calls[-1]
    begin = 0
    for place in gradients:
        end = len(calls) if place == gradients[-1] else bisect(calls, place) + is_before
        if owners := calls[begin:end] or calls[:end][-1:]:
            yield place, owners
        begin = end


def _in_execution_order(called: Sequence[str], owners: dict[int, list[int]]) -> list[tuple[int, str]]:
    """Every call, and for the gradients of a cell's parameters the backward call that they belong to.

    The other tool reserves their place when the cell's forward ends, before any backward call. They arrive when the
    backward of the cell is about to end, so they stand before the last backward call of their cell.
    """
    ordered: list[tuple[int, str]] = []
    waiting: dict[str, list[tuple[int, str]]] = {}
    is_backward = False
    for place, text in enumerate(called):
        name = names.parse(text)
        if name.kind != "parameters_grad":
            is_backward = is_backward or name.direction == "backward"
            ordered += waiting.pop(text, [])
            ordered.append((place, ""))
            continue
        owner = called[owners[place][-1]] if place in owners else ""
        if is_backward:
            ordered.append((place, owner))
        else:
            waiting.setdefault(owner, []).append((place, owner))
    return ordered + waiting.pop("", [])


class _Around:
    """The cells around the calls of a comparison, innermost first, on the side whose name a call has."""

    def __init__(self, comparison: Comparison) -> None:
        self._pairs = comparison.pairs
        self._known: dict[tuple[bool, str], tuple[str, ...]] = {}

    def call(self, place: int) -> tuple[str, ...]:
        """Around the call at a place."""
        is_golden = self._pairs.target_calls[place] < 0
        dump = self._pairs.golden if is_golden else self._pairs.target
        parent = parent_of(dump, int((self._pairs.golden_calls if is_golden else self._pairs.target_calls)[place]))
        return self._upwards(is_golden, parent)

    def owner(self, place: int, owner: str) -> tuple[str, ...]:
        """Around the backward call `owner` of the cell whose parameters' gradients stand at a place."""
        is_golden = self._pairs.target_calls[place] < 0
        dump = self._pairs.golden if is_golden else self._pairs.target
        return self._upwards(is_golden, dump.construct.get(owner))

    def _upwards(self, is_golden: bool, parent: str | None) -> tuple[str, ...]:
        if not parent:
            return ()
        known = self._known.get((is_golden, parent))
        if known is None:
            dump = self._pairs.golden if is_golden else self._pairs.target
            known = self._known[is_golden, parent] = upwards(parent, dump.construct)
        return known


def parent_of(dump: Dump, call: int) -> str | None:
    """The cell around a call, without the call's records where they are not made yet."""
    calls = dump.calls
    told = calls.parent(call) if isinstance(calls, Calls) else calls[call].parent
    return told or dump.construct.get(dump.columns.names[call])


def missing_of(dump: Dump, call: int) -> tuple[str, ...]:
    """What of a call could not be collected, without its records where they are not made yet."""
    calls = dump.calls
    return calls.missing(call) if isinstance(calls, Calls) else calls[call].missing


def upwards(parent: str | None, construct: Mapping[str, str | None]) -> tuple[str, ...]:
    """A cell's call and those of the cells around it, innermost first."""
    found: dict[str, None] = {}
    while parent and parent not in found:
        found[parent] = None
        parent = construct.get(parent)
    return tuple(found)


def cell_path(parents: tuple[str, ...]) -> str:
    """Where a call stands: the dotted path of the cell around it."""
    for parent in parents[:1]:
        return names.parse(parent).path or parent
    return "the root"
