"""Walk along an RL flow: which key or stage differs first, and which only passes on a difference.

Two items agree when they are equal to the bit, as long as everything before them is; after that, when they are within
tolerance (as in how-to/comparing/compare.md, "The first wrong call"). Order: the step, the place in the flow, the rank.
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
    """An item on the walk.

    `begins`: what it is made of agrees; `received`: something that it is made of differs, named in `through`; `open`:
    what it is made of was not saved, so it cannot be said; `agreeing` are the keys that it reads and that agree.
    """

    item: Item
    role: Role
    through: tuple[str, ...] = ()
    agreeing: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether the walk takes it for different."""
        return self.role in ("begins", "received", "open")


def walk(items: Iterable[Item]) -> tuple[Seen, ...]:
    """Every item in the flow's order, with its role."""
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
    """The role of an item that differs, by what was seen in its step and rank, and by all that differed before."""
    if item.part == UNKNOWN:
        return _of_dump(item, here, differing) if item.finding else _behind(item, differing, "open")
    part = FLOW[item.part]
    reads = names(part.reads)
    keys = [seen for seen in here if seen.item.kind == "key"]
    read = [seen for seen in keys if plain(seen.item.name) in reads]
    if item.kind == "key":  # what the same part made before is what a key is made of, its stage above all
        read += [seen for seen in here if seen.item.part == item.part and seen.item.order < item.order]
    for unsaved in reads - {plain(seen.item.name) for seen in keys}:  # made by the same host code: returns, advantages
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
    # The data of a step are made of nothing that is saved; of a stage the dump itself may have all of its inputs.
    return Seen(item, "begins" if agreeing or not reads or is_origin(item.finding) else "open", (), good)


def is_origin(finding: Divergence | None) -> bool:
    """Whether a dump alone says that a difference begins in it: all inputs of its first wrong call agree.

    Code between two calls may have inputs that no call of the stage made, such as what a loss is made of; and so may a
    call itself.
    """
    from_outside = (kinds.RUN_INPUTS, kinds.PARAMETERS, kinds.UNKNOWN, kinds.CODE)
    return finding is not None and finding.kind not in from_outside and not finding.is_from_outside


def _of_dump(item: Item, here: Sequence[Seen], differing: Sequence[Item]) -> Seen:
    """The role of a stage that the table of parts does not have, by what its dump says."""
    stages = [seen.item for seen in here if seen.item.kind == "stage" and seen.differs]
    earlier = [d for d in differing[:1] if d.step < item.step]  # the first of all is of the earliest step
    if item.finding is not None and item.finding.kind is kinds.PARAMETERS:
        alike = [other.name for other in stages if other.weights_differ]
    elif is_origin(item.finding):
        alike, earlier = [other.name for other in stages if call_of(other) == call_of(item)], []
    else:
        before = stages[-1:] if item.is_placed else []
        seen = _behind(item, [*before, *(differing[:1] if item.is_placed else earlier)], "open")
        return replace(seen, role="received" if stages else seen.role)
    return Seen(item, "received", tuple(alike)) if alike else _behind(item, earlier, "begins")


def _behind(item: Item, differing: Sequence[Item], otherwise: Role) -> Seen:
    """The role of what is made of something before it, which is not known."""
    if not differing:
        return Seen(item, otherwise)
    first = differing[0]
    where = f" of step {first.step}" if first.step != item.step else ""
    return Seen(item, "received", (f"{first.name}{where}",))


def call_of(item: Item) -> tuple[str, ...]:
    """What identifies the first wrong call of a stage's dump."""
    return (item.finding.name, item.finding.cell, item.finding.kind.name) if item.finding else ()


UPDATES = {part.updates: at for at, part in enumerate(FLOW) if part.updates}
"""Of each model the part that changes its weights: what differs up to there reaches them by the next step."""


def first_of(seen: Sequence[Seen]) -> Seen | None:
    """The first that differs."""
    return next((each for each in seen if each.differs), None)


def next_beginnings(seen: Sequence[Seen]) -> list[tuple[Seen, tuple[int, ...]]]:
    """What begins a difference after the first, each part of the flow once, with the further steps in which it does."""

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
