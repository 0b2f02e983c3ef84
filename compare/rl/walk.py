"""Follow an RL flow: find the key or stage that differs first, and those that only pass on a difference.

Two items agree if they are bitwise equal, as long as all earlier items are; after that, if they are within tolerance
(see how-to/comparing/compare.md, "The first wrong call"). The order is: step, place in the flow, rank.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from msprobe.compare.locate.finding import Divergence
from msprobe.findings.catalogue import comparison as kinds

from .order import FLOW, UNKNOWN, Item, keys_made_with, names, plain

Role = Literal["begins", "received", "open", "agrees", "unjudged"]


@dataclass(frozen=True, slots=True)
class Seen:
    """An item of the flow with its role.

    `begins`: its inputs agree; `received`: an input differs, named in `through`; `open`: its inputs were not saved, so
    the role is unknown; `agreeing` are the keys that it reads and that agree.
    """

    item: Item
    role: Role
    through: tuple[str, ...] = ()
    agreeing: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Return whether it counts as different."""
        return self.role in ("begins", "received", "open")


def walk(items: Iterable[Item]) -> tuple[Seen, ...]:
    """Return every item in the order of the flow, with its role."""
    ordered = sorted(items, key=lambda item: (item.step, item.order, item.rank))
    by_place: dict[tuple[int, int], list[Seen]] = defaultdict(list)
    walked: list[Seen] = []
    differing: list[Item] = []
    for item in ordered:
        here = by_place[item.place]
        if item.is_beyond if differing else item.differs:
            seen = _differing(item, here, differing)
            differing.append(item)
        else:
            seen = Seen(item, "unjudged" if item.grade == "unjudged" else "agrees")
        here.append(seen)
        walked.append(seen)
    return tuple(walked)


def _differing(item: Item, here: Sequence[Seen], differing: Sequence[Item]) -> Seen:
    """Return the role of an item that differs, by the items of its step and rank, and all earlier differences."""
    if item.part == UNKNOWN:
        return _of_dump(item, here, differing) if item.finding else _with_unknown_inputs(item, differing, "open")
    part = FLOW[item.part]
    reads = names(part.reads)
    keys = [seen for seen in here if seen.item.kind == "key"]
    read = [seen for seen in keys if plain(seen.item.name) in reads]
    if item.kind == "key":  # a key depends on the earlier results of the same part, mainly of its stage
        read += [seen for seen in here if seen.item.part == item.part and seen.item.order < item.order]
    # computed by the same host code: returns, advantages
    for unsaved in reads - {plain(seen.item.name) for seen in keys}:
        read += [seen for seen in keys if plain(seen.item.name) in keys_made_with(unsaved)]
    bad = [seen.item.name for seen in read if seen.differs]
    kind = item.finding.kind if item.finding else None
    if kind is kinds.PARAMETERS and part.model:
        same = [seen.item for seen in here if seen.item.kind == "stage" and seen.item.model == part.model]
        bad += [other.name for other in same if other.weights_differ]
    agreeing = [seen.item for seen in read if seen.role == "agrees"]
    good = tuple(other.name for other in agreeing if other.kind == "key" and plain(other.name) in reads)
    if bad:
        return Seen(item, "received", tuple(bad), good)
    last_update = UPDATES.get(part.model)
    if last_update is not None:
        earlier = (d for d in differing if d.step < item.step and (d.part == UNKNOWN or d.part <= last_update))
        if (changed := next(earlier, None)) is not None:
            return Seen(item, "received", (f"{changed.name} of step {changed.step}",), good)
    if kind is kinds.RUN_INPUTS and differing:
        return Seen(item, "received", (), good)
    # The data of a step depend on nothing that is saved; the dump of a stage may have all of its inputs.
    return Seen(item, "begins" if agreeing or not reads or is_origin(item.finding) else "open", (), good)


def is_origin(finding: Divergence | None) -> bool:
    """Return whether a dump alone shows that a difference begins in it: all inputs of its first wrong call agree.

    Code between two calls may have inputs that no call of the stage returned, such as the inputs of a loss; so may a
    call itself.
    """
    from_outside = (kinds.RUN_INPUTS, kinds.PARAMETERS, kinds.UNKNOWN, kinds.CODE)
    return finding is not None and finding.kind not in from_outside and not finding.is_from_outside


def _of_dump(item: Item, here: Sequence[Seen], differing: Sequence[Item]) -> Seen:
    """Return the role of a stage that is not in the table of parts, by the result of its dump."""
    stages = [seen.item for seen in here if seen.item.kind == "stage" and seen.differs]
    earlier = [d for d in differing[:1] if d.step < item.step]  # the first of all is of the earliest step
    if item.finding is not None and item.finding.kind is kinds.PARAMETERS:
        alike = [other.name for other in stages if other.weights_differ]
    elif is_origin(item.finding):
        alike, earlier = [other.name for other in stages if call_of(other) == call_of(item)], []
    else:
        before = stages[-1:] if item.is_placed else []
        seen = _with_unknown_inputs(item, [*before, *(differing[:1] if item.is_placed else earlier)], "open")
        return replace(seen, role="received" if stages else seen.role)
    return Seen(item, "received", tuple(alike)) if alike else _with_unknown_inputs(item, earlier, "begins")


def _with_unknown_inputs(item: Item, differing: Sequence[Item], otherwise: Role) -> Seen:
    """Return the role of an item with unknown inputs."""
    if not differing:
        return Seen(item, otherwise)
    first = differing[0]
    where = f" of step {first.step}" if first.step != item.step else ""
    return Seen(item, "received", (f"{first.name}{where}",))


def call_of(item: Item) -> tuple[str, ...]:
    """Return what identifies the first wrong call of a stage's dump."""
    return (item.finding.name, item.finding.cell, item.finding.kind.name) if item.finding else ()


UPDATES = {part.updates: at for at, part in enumerate(FLOW) if part.updates}
"""The part that updates each model: differences up to it reach the weights in the next step."""


def first_of(seen: Sequence[Seen]) -> Seen | None:
    """Return the first item that differs."""
    return next((each for each in seen if each.differs), None)


def next_divergences(seen: Sequence[Seen]) -> list[tuple[Seen, tuple[int, ...]]]:
    """Return the items that begin a difference after the first, each part of the flow once, with the further steps in
    which it does."""

    def part_of(item: Item) -> object:
        return item.name if item.part == UNKNOWN else item.part

    first = first_of(seen)
    found: dict[object, tuple[Seen, list[int]]] = {}
    for each in seen:
        part = part_of(each.item)
        if first is None or each.role != "begins" or part == part_of(first.item):
            continue
        if part in found:
            found[part][1].append(each.item.step)
        else:
            found[part] = each, []
    return [(each, tuple(dict.fromkeys(again))) for each, again in found.values()]
