"""The calls of two dumps in execution order, each with its inputs and outputs by row, and the cells around it."""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from msprobe.base import names
from msprobe.base.memo import remembered
from msprobe.compare.judge.judged import Comparison, Judged
from msprobe.compare.match.pairs import Pairs


@dataclass(slots=True, eq=False)  # not frozen: one is made for every call, and freezing costs more than all else
class Event:
    """One pair of calls, or an unmatched call; `place` is its place among the pairs.

    A backward call receives its incoming gradients (`own`), and what its forward received and returned. The gradients
    of a cell's parameters are results of that cell's backward: `name` is then the backward call's, and `owners` are the
    calls whose incoming gradients they come from. `key` is the name, told apart from a target's call of the same name
    where only the golden makes the call; `keys` are those of the cells around it, innermost first, and `parents` their
    names. `called` is the name of the call itself: that of the gradients where `name` is their owner's. `rows` are the
    pairs of its records, by their rows. `is_matched`: both sides made this call; else `side` did. `forwards` are the
    places of the forward calls of a backward call; `forward` is the first of those as an event.
    """

    at: int
    place: int
    name: str
    called: str
    key: str
    direction: names.Direction
    kind: names.Kind
    rows: range
    is_matched: bool
    side: str
    owners: tuple[int, ...]
    forwards: tuple[int, ...]
    forward: int | None
    parents: tuple[str, ...]
    keys: tuple[str, ...]

    def owns(self, row: int, pairs: Pairs) -> bool:
        """Whether an input is its own, and not that of the forward call."""
        return any(row in pairs.rows(place) for place in self.owners or (self.place,))

    def own(self, comparison: Comparison) -> tuple[Judged, ...]:
        """Its own inputs; those of the backward calls that gradients of parameters come from."""
        places, is_input = self.owners or (self.place,), comparison.is_input
        return tuple(j for place in places for j in comparison.calls[place].judged if is_input[j.row])


@remembered
def events(pairs: Pairs) -> list[Event]:
    """All calls in execution order (of completion: children before the cell around them)."""
    called = [pairs.name(place) for place in range(len(pairs))]
    starts = pairs.starts.tolist()
    matched = (np.minimum(pairs.target_calls, pairs.golden_calls) >= 0).tolist()
    sides = _Sides(pairs)
    found: list[Event] = []
    forwards: dict[str, Event] = {}
    owners = _owners(called)
    for place, owner in _in_execution_order(called, owners):
        name = names.parse(called[place])
        before = list[Event]()
        if name.direction == "backward":
            keys = [
                sides.key(p, names.counterpart(called[p], "forward")) for p in (owners[place] if owner else [place])
            ]
            before = [forwards[key] for key in keys if key in forwards]
        parents = sides.around(place, owner)
        key = sides.key(place, owner or called[place])
        event = Event(
            at=len(found),
            place=place,
            name=owner or called[place],
            called=called[place],
            key=key,
            direction=name.direction,
            kind=name.kind,
            rows=range(starts[place], starts[place + 1]),
            is_matched=matched[place],
            side="" if matched[place] else sides.name(place),
            owners=tuple(owners[place]) if owner else (),
            forwards=tuple([f.place for f in before]),
            forward=before[0].at if before else None,
            parents=parents,
            keys=sides.keys(place, parents),
        )
        found.append(event)
        if name.direction == "forward":
            forwards[key] = event
    return found


class _Sides:
    """Keys of calls and the cells around them, on the side whose name a pair of calls has."""

    def __init__(self, pairs: Pairs) -> None:
        self._dumps = {"target": pairs.target, "golden": pairs.golden}
        self._calls = pairs.target_calls.data, pairs.golden_calls.data
        self._around: dict[tuple[str, str], tuple[str, ...]] = {}
        self._of_golden: dict[str, str] = {}
        theirs, ours = pairs.golden.columns.names, pairs.target.columns.names
        both = ((pairs.target_calls >= 0) & (pairs.golden_calls >= 0)).nonzero()[0].tolist()
        if len(both) < len(pairs):  # else there is no call of the golden only
            self._of_golden = {theirs[pairs.golden_calls[at]]: ours[pairs.target_calls[at]] for at in both}

    def name(self, place: int) -> str:
        """The side whose name a pair of calls has: the target's, where that made it."""
        return "target" if self._calls[0][place] >= 0 else "golden"

    def key(self, place: int, name: str) -> str:
        """One name for one pair of calls, as numbers may have shifted between the sides: the target's.

        `name` is that of the side of the pair of calls at `place`.
        """
        return name if self._calls[0][place] >= 0 else self._of_golden.get(name, f"golden {name}")

    def keys(self, place: int, names: tuple[str, ...]) -> tuple[str, ...]:
        """`key` of each name."""
        return names if self._calls[0][place] >= 0 else tuple(self.key(place, name) for name in names)

    def around(self, place: int, owner: str) -> tuple[str, ...]:
        """The cells around the call at a place, innermost first; of gradients of parameters, around their `owner`."""
        side = self.name(place)
        dump, calls = self._dumps[side], self._calls[side == "golden"]
        parent = dump.construct.get(owner) if owner else dump.parent(calls[place])
        if not parent:
            return ()
        if (side, parent) not in self._around:
            self._around[side, parent] = dump.upwards(parent)
        return self._around[side, parent]


def _owners(called: Sequence[str]) -> dict[int, list[int]]:
    """Place of the gradients of a cell's parameters -> the places of the backward calls that they come from.

    Where gradients are computed several times in a step, each has the calls of its own time. A time of a cell ends
    where the cell is called forward after backward calls and gradients; calls that no gradients follow in a time of
    their own belong to those before, whose place was reserved for what comes last.
    """
    times: dict[str, list[tuple[list[int], list[int]]]] = {}  # by cell: the gradients and backward calls of each time
    for place, text in enumerate(called):
        name = names.parse(text)
        if name.kind not in ("cell", "parameters_grad"):
            continue
        known = times.setdefault(name.stem, [([], [])])
        gradients, calls = known[-1]
        if name.kind == "parameters_grad":
            gradients.append(place)
        elif name.direction == "backward":
            calls.append(place)
        elif gradients and calls:
            known.append(([], []))
    found: dict[int, list[int]] = {}
    for known in times.values():
        if len(known) > 1 and not known[-1][0]:
            _, last = known.pop()
            known[-1][1].extend(last)
        for gradients, calls in known:
            # Gradients stand just before their last backward call or behind it, as the last ones do; where two are of
            # one call, both have it. The only gradients of a time have all its calls.
            is_before = bool(calls and gradients) and gradients[-1] < calls[-1]
            begin = 0
            for place in gradients:
                end = len(calls) if place == gradients[-1] else bisect(calls, place) + is_before
                if own := calls[begin:end] or calls[:end][-1:]:
                    found[place] = own
                begin = end
    return found


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
