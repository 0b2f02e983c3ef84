"""The calls of two dumps in execution order, each with its inputs and outputs by row, and the cells around it."""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from msprobe.base import names
from msprobe.base.memo import cached_by_identity
from msprobe.compare.judge.judged import Comparison, Judged
from msprobe.compare.match.pairs import Pairs


# not frozen: one is created for every call, and freezing would cost more than everything else
@dataclass(slots=True, eq=False)
class Event:
    """One pair of calls, or an unmatched call; `place` is its position among the pairs.

    The inputs of a backward call are its incoming gradients (`own`), and the inputs and outputs of its forward. The
    gradients of a cell's parameters are results of that cell's backward: `name` is then the backward call's, and
    `owners` are the calls whose incoming gradients they come from. `key` is the name, distinguished from a target's
    call of the same name if only the golden makes the call; `keys` are those of the cells around it, innermost first,
    and `parents` their names. `called` is the name of the call itself: that of the gradients if `name` is their
    owner's. `rows` are the pairs of its records, by their rows. `is_matched`: both sides made this call; otherwise
    `side` did. `forwards` are the places of the forward calls of a backward call; `forward` is the first of those as an
    event.
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
        """Return whether an input is its own, and not that of the forward call."""
        return any(row in pairs.rows(place) for place in self.owners) if self.owners else row in self.rows

    def own_inputs(self, comparison: Comparison) -> list[int]:
        """Return the rows of its own inputs; those of the backward calls that gradients of parameters come from."""
        places, is_input = self.owners or (self.place,), comparison.is_input
        return [row for place in places for row in comparison.pairs.rows(place) if is_input[row]]

    def own(self, comparison: Comparison) -> tuple[Judged, ...]:
        """Return its own inputs, as `own_inputs`, with their verdicts."""
        return tuple(map(comparison.judged, self.own_inputs(comparison)))


@cached_by_identity
def events(pairs: Pairs) -> list[Event]:
    """Return all calls in execution order (of completion: children before the cell around them)."""
    sides = _Sides(pairs)
    called, starts, is_of_target = sides.names, pairs.starts.tolist(), sides.is_of_target
    matched = (np.minimum(pairs.target_calls, pairs.golden_calls) >= 0).tolist()
    found: list[Event] = []
    forwards: dict[str, Event] = {}
    owners = _owners(called)
    for place, owner in _in_execution_order(called, owners):
        name = called[place]
        before: list[Event] = []
        if name.direction == "backward":
            own = owners[place] if owner else [place]
            keys = [sides.key(p, names.counterpart(called[p].text, "forward")) for p in own]
            before = [forwards[key] for key in keys if key in forwards]
        parents, is_matched = sides.around(place, owner), matched[place]
        key = sides.key(place, owner or name.text)
        event = Event(
            len(found),
            place,
            owner or name.text,
            name.text,
            key,
            name.direction,
            name.kind,
            range(starts[place], starts[place + 1]),
            is_matched,
            "" if is_matched else "target" if is_of_target[place] else "golden",
            tuple(owners[place]) if owner else (),
            tuple([f.place for f in before]) if before else (),
            before[0].at if before else None,
            parents,
            sides.keys(place, parents),
        )
        found.append(event)
        if name.direction == "forward":
            forwards[key] = event
    return found


@cached_by_identity
def events_by_place(pairs: Pairs) -> dict[int, Event]:
    """Return the calls of `events`, in their order, by their place among the pairs."""
    return {event.place: event for event in events(pairs)}


class _Sides:
    """Keys of calls and the cells around them, on the side whose name a pair of calls has.

    By place: `names` has that name, and `is_of_target` whether it is the target's.
    """

    def __init__(self, pairs: Pairs) -> None:
        self._dumps = pairs.target, pairs.golden
        calls = self._calls = pairs.target_calls.tolist(), pairs.golden_calls.tolist()
        ours, theirs = pairs.target.names, pairs.golden.names
        self.is_of_target = [call >= 0 for call in calls[0]]
        self.names = [ours[call] if call >= 0 else theirs[other] for call, other in zip(*calls, strict=True)]
        self._around: tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]] = ({}, {})
        self._of_golden: dict[str, str] = {}
        both = ((pairs.target_calls >= 0) & (pairs.golden_calls >= 0)).nonzero()[0].tolist()
        if len(both) < len(pairs):  # otherwise there is no golden-only call
            self._of_golden = {theirs[calls[1][at]].text: ours[calls[0][at]].text for at in both}

    def key(self, place: int, name: str) -> str:
        """Return one name for a pair of calls, since numbers may differ between the sides: the target's.

        `name` is that of the side of the pair of calls at `place`.
        """
        return name if self.is_of_target[place] else self._of_golden.get(name, f"golden {name}")

    def keys(self, place: int, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return `key` of each name."""
        return names if self.is_of_target[place] else tuple(self.key(place, name) for name in names)

    def around(self, place: int, owner: str) -> tuple[str, ...]:
        """Return the cells around the call at a place, innermost first; for gradients of parameters, around their
        `owner`."""
        side = 0 if self.is_of_target[place] else 1
        dump = self._dumps[side]
        parent = dump.construct.get(owner) if owner else dump.enclosing[self._calls[side][place]]
        if not parent:
            return ()
        known = self._around[side].get(parent)
        if known is None:
            known = self._around[side][parent] = dump.upwards(parent)
        return known


def _owners(called: Sequence[names.Name]) -> dict[int, list[int]]:
    """Return by place of the gradients of a cell's parameters the places of the backward calls that they come from.

    If gradients are computed several times in a step, each has the calls of its own period. A period of a cell ends
    when the cell is called forward after backward calls and gradients; calls that are followed by no gradients in their
    period belong to earlier ones, whose place was reserved for the last ones.
    """
    times: dict[str, list[tuple[list[int], list[int]]]] = {}  # by cell: the gradients and backward calls of each period
    for place, name in enumerate(called):
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
            # Gradients are directly before their last backward call, or after it, as the last ones are; if two belong
            # to one call, both have it. The only gradients of a period have all its calls.
            is_before = bool(calls and gradients) and gradients[-1] < calls[-1]
            begin = 0
            for place in gradients:
                end = len(calls) if place == gradients[-1] else bisect(calls, place) + is_before
                if own := calls[begin:end] or calls[:end][-1:]:
                    found[place] = own
                begin = end
    return found


def _in_execution_order(called: Sequence[names.Name], owners: dict[int, list[int]]) -> list[tuple[int, str]]:
    """Return every call, and for the gradients of a cell's parameters the backward call that they belong to.

    mindstudio-probe reserves their place when the cell's forward ends, before any backward call. They arrive when the
    backward of the cell is about to end, so they come before the last backward call of their cell.
    """
    ordered: list[tuple[int, str]] = []
    waiting: dict[str, list[tuple[int, str]]] = {}
    is_backward = False
    for place, name in enumerate(called):
        if name.kind != "parameters_grad":
            is_backward = is_backward or name.direction == "backward"
            ordered += waiting.pop(name.text, [])
            ordered.append((place, ""))
            continue
        owner = called[owners[place][-1]].text if place in owners else ""
        if is_backward:
            ordered.append((place, owner))
        else:
            waiting.setdefault(owner, []).append((place, owner))
    return ordered + waiting.pop("", [])
