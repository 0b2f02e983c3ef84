"""Compare the key data of two roots: paired and judged as by `SingleComparator`, then one item per step, rank and
key."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from msprobe.base.errors import DumpError, MsprobeError
from msprobe.compare.core.reason import Cause
from msprobe.compare.judge.verdict import SEVERITY, Grade
from msprobe.compare.key_data.comparator import judge_pairs
from msprobe.compare.key_data.pairs import Pair, Row, pair
from msprobe.store.npy import load_npy
from msprobe.store.saves.graph_saves import name_and_id
from msprobe.store.saves.single_saves import SingleTree

from .order import TOKEN_STAGE, UNKNOWN, Item, part_of_key, part_of_stage, plain

_TOKENS = frozenset(map(plain, ("responses", "response_ids")))
"""Keys whose last axis counts the tokens that were generated."""


Side = Literal["target", "golden"]


@dataclass(frozen=True, slots=True)
class OneSided:
    """Key data on one side only: all of them, (step, rank)s, a key, or a key of some (step, rank)s.

    `is_part`: the other side has some tensors of the key there.
    """

    side: Side
    key: str = ""
    places: tuple[tuple[int, int], ...] = ()
    is_part: bool = False


@dataclass(frozen=True)
class KeyData:
    """Result of a comparison: rows by key, items in the order of the flow, counts of verdicts, and what one side lacks.

    `problem` is the reason why nothing could be compared, if that is so.
    """

    rows: tuple[Row, ...] = ()
    items: tuple[Item, ...] = ()
    one_sided: tuple[OneSided, ...] = ()
    problem: str = ""

    @property
    def counts(self) -> Counter[Grade]:
        """Return the number of tensors of each verdict."""
        return Counter(row.verdict.grade for row in self.rows)

    @property
    def unjudged(self) -> Counter[Cause]:
        """Return the number of tensors without a verdict, by cause."""
        return Counter(row.verdict.cause for row in self.rows if row.verdict.cause is not None)


def compare_keys(
    trees: tuple[SingleTree, SingleTree],
    ranks: Container[int] | None,
    steps: Container[int] | None,
    processes: int,
) -> KeyData:
    """Judge every tensor of the selected steps and ranks. There is a row for each difference, and for each tensor that
    one side lacks."""
    try:
        pairs = [
            each
            for each in pair(*trees)
            if (ranks is None or each.key.rank in ranks) and (steps is None or each.key.step in steps)
        ]
        judged = judge_pairs(pairs, processes)
    except MsprobeError as err:
        return KeyData(problem=" ".join(str(err).split()))
    keys = frozenset(plain(each.key.tag) for each in pairs)
    groups: dict[tuple[int, int, str], list[tuple[Pair, Row]]] = defaultdict(list)
    for each, row in zip(pairs, judged, strict=True):
        groups[each.key.step, each.key.rank, each.key.tag].append((each, row))
    items = [_item(place, group, keys) for place, group in groups.items()]
    return KeyData(tuple(judged), tuple(_placed(items)), tuple(_one_sided(pairs)))


def _item(place: tuple[int, int, str], group: Sequence[tuple[Pair, Row]], keys: frozenset[str]) -> Item:
    step, rank, tag = place
    part, among = part_of_key(tag, keys)
    differing = [
        (each, row)
        for each, row in group
        if row.verdict.grade in ("warning", "error") or (row.found is not None and row.found.same < row.found.size)
    ]
    # A difference has more information than tensors that could not be judged; the sheet has both.
    worst = max((row for _, row in differing or group), key=lambda row: SEVERITY.index(row.verdict.grade))
    token = None
    if part == part_of_stage(TOKEN_STAGE) and plain(tag) in _TOKENS:
        token = min((t for each, _ in differing if (t := _token(each)) is not None), default=None)
    return Item(
        "key",
        tag,
        step,
        rank,
        part,
        (part, 1, among, 0, tag),
        bool(differing),
        worst.verdict.grade,
        worst,
        differing[0][1] if differing else None,
        saved=min((_saved(each) for each, _ in group), default=-1),
        token=token,
    )


def _saved(each: Pair) -> int:
    """Return the number of a graph's save in its process; -1 for files without a number."""
    path, key = each.target or each.golden, each.key.tag.rpartition("/")[2]
    return -1 if path is None or path.stem == key else name_and_id(path.name)[1]


def _token(each: Pair) -> int | None:
    """Return the first token, over all samples, in which two sequences differ; None if that is unknown."""
    if each.target is None or each.golden is None:
        return None
    try:
        ours, theirs = map(load_npy, (each.target, each.golden))
        if ours.ndim != theirs.ndim or not ours.ndim:
            return None
        cut = tuple(slice(min(pair)) for pair in zip(ours.shape, theirs.shape, strict=True))
        differs = (np.asarray(ours[cut]) != np.asarray(theirs[cut])).reshape(-1, cut[-1].stop).any(axis=0)
        if differs.any():
            return int(differs.argmax())
        return cut[-1].stop if ours.shape[-1] != theirs.shape[-1] else None
    except (DumpError, MemoryError):  # it was judged by another reader, whose row has the error
        return None


def _placed(items: Sequence[Item]) -> Iterator[Item]:
    """Return the items, with unknown keys placed by the order of saving if the files are numbered by it.

    Such a key comes after the known key that was saved last before it, or before the first known one.
    """
    by_place: dict[tuple[int, int], list[Item]] = defaultdict(list)
    for item in items:
        by_place[item.place].append(item)
    for group in by_place.values():
        known = sorted((item for item in group if item.part != UNKNOWN and item.saved >= 0), key=lambda i: i.saved)
        for item in group:
            if item.part != UNKNOWN or item.saved < 0 or not known:
                yield item
                continue
            before = [other for other in known if other.saved < item.saved]
            anchor, after = (before[-1], 1 + item.saved) if before else (known[0], item.saved - known[0].saved)
            yield replace(item, order=(*anchor.order[:3], after, item.name))


def _one_sided(pairs: Sequence[Pair]) -> Iterator[OneSided]:
    """Return what is unmatched, in as few entries as possible: a step or rank, a key, a key of a step."""
    places = [(each.key.step, each.key.rank, each.key.tag) for each in pairs]
    sides: tuple[tuple[Side, list[Path | None]], ...] = (
        ("target", [each.golden for each in pairs]),
        ("golden", [each.target for each in pairs]),
    )
    for side, partners in sides:
        unmatched = {place for place, partner in zip(places, partners, strict=True) if partner is None}
        other = {place for place, partner in zip(places, partners, strict=True) if partner is not None}
        if unmatched and not other:
            yield OneSided(side)
            continue
        other_places, other_keys = {place[:2] for place in other}, {place[2] for place in other}
        if unshared := {place[:2] for place in unmatched} - other_places:
            yield OneSided(side, places=tuple(unshared))
        for key in sorted({place[2] for place in unmatched} - other_keys):
            yield OneSided(side, key)
        shared = {place for place in unmatched if place[:2] in other_places and place[2] in other_keys}
        for found in (shared - other, shared & other):
            for key in sorted({place[2] for place in found}):
                of_key = tuple(place[:2] for place in found if place[2] == key)
                yield OneSided(side, key, of_key, is_part=found <= other)
