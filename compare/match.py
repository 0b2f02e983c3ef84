"""Make pairs: first the calls of two dumps, then the records inside a pair of calls. Nothing is measured here.

Calls with equal names are one pair wherever both dumps hold the same calls. Where a call stands on one side only, the
numbers behind it may have shifted; then the two execution sequences are aligned by what was called, not by its number.
Records belong together by part and path (`input`, `("1", "0")`), never by the text of their row.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from msprobe.base import names
from msprobe.store.record import Call, Dump, Record

from .align import align

MatchedBy = Literal["name", "order", ""]


@dataclass(frozen=True, slots=True)
class Pair:
    """A target record with its golden record; either may be missing, never both."""

    target: Record | None
    golden: Record | None

    @property
    def record(self) -> Record:
        """The target's record, or the golden's where the target has none."""
        record = self.target or self.golden
        assert record is not None
        return record

    @property
    def key(self) -> str:
        """The record's name, told apart from a target's of the same name where the record is the golden's alone."""
        return self.target.name if self.target is not None else f"golden {self.record.name}"


@dataclass(frozen=True, slots=True)
class CallPair:
    """A target call with its golden call, and the pairs of their records in row order."""

    target: Call | None
    golden: Call | None
    matched_by: MatchedBy
    pairs: tuple[Pair, ...]

    @property
    def call(self) -> Call:
        """The target's call, or the golden's where the target has none."""
        call = self.target or self.golden
        assert call is not None
        return call

    @property
    def name(self) -> str:
        """The name that a user knows: the target's, or the golden's where the target has no such call."""
        return self.call.name


def match(target: Dump, golden: Dump) -> list[CallPair]:
    """Every call of both dumps once, in the target's execution order, with golden-only calls where they belong."""
    left, right = target.calls, golden.calls
    found = _match_calls(left, right)
    partner = dict(found)
    joined = [_join(call, None if (j := partner.get(i)) is None else right[j]) for i, call in enumerate(left)]
    if len(found) == len(right):
        return joined
    taken = {j: i for i, j in found}
    before: dict[int, list[CallPair]] = {}
    place = len(left)
    for j in range(len(right) - 1, -1, -1):
        if j in taken:
            place = taken[j]
        else:
            before.setdefault(place, []).append(_join(None, right[j]))
    ordered: list[CallPair] = []
    for i in range(len(left) + 1):
        ordered += reversed(before.get(i, []))
        ordered += joined[i : i + 1]
    return ordered


def _match_calls(left: Sequence[Call], right: Sequence[Call]) -> list[tuple[int, int]]:
    left_names, right_names = [identity(c.name) for c in left], [identity(c.name) for c in right]
    if left_names == right_names:
        return [(i, i) for i in range(len(left))]
    where = {name: j for j, name in enumerate(right_names)}
    if where.keys() == set(left_names):
        return [(i, where[name]) for i, name in enumerate(left_names)]
    # A parameter's gradient has a name of its own, and its place in the file says little (docs/format.md, page 2).
    is_gradient = [".parameters_grad" in name for name in left_names]
    i_calls = [i for i, gradient in enumerate(is_gradient) if not gradient]
    j_calls = [j for j, name in enumerate(right_names) if ".parameters_grad" not in name]
    found = _refine(left, right, i_calls, j_calls, (_signature, _place, _stem))
    free_right = {right_names[j]: j for j in set(range(len(right))) - {j for _, j in found}}
    free_left = sorted(set(range(len(left))) - {i for i, _ in found})
    return sorted(found + [(i, free_right[left_names[i]]) for i in free_left if left_names[i] in free_right])


def _refine(
    left: Sequence[Call],
    right: Sequence[Call],
    i_calls: list[int],
    j_calls: list[int],
    keys: tuple[Callable[[Call], tuple[object, ...]], ...],
) -> list[tuple[int, int]]:
    """Align by the strictest key; what lies between its matches by the next, and so on."""
    if not i_calls or not j_calls or not keys:
        return []
    key, *weaker = keys
    found: list[tuple[int, int]] = []
    x = y = 0
    matches = align([key(left[i]) for i in i_calls], [key(right[j]) for j in j_calls])
    for a, b in [*matches, (len(i_calls), len(j_calls))]:
        found += _refine(left, right, i_calls[x:a], j_calls[y:b], tuple(weaker))
        if a < len(i_calls):
            found.append((i_calls[a], j_calls[b]))
        x, y = a + 1, b + 1
    return found


def identity(name: str) -> str:
    """The name under which a call is looked for: `X.parameters_grad` and `X.parameters_grad.0` are one."""
    return name[:-2] if name.endswith(".parameters_grad.0") else name


def _stem(call: Call) -> tuple[object, ...]:
    name = names.parse(call.name)
    return name.stem, name.direction


def _place(call: Call) -> tuple[object, ...]:
    return (*_stem(call), names.parse(call.parent).stem if call.parent else "")


def _signature(call: Call) -> tuple[object, ...]:
    return (*_place(call), *(r.shape if r.kind == "tensor" else repr(r.value) for r in call.records))


def _join(target: Call | None, golden: Call | None) -> CallPair:
    if target is None or golden is None:
        one_sided = target.records if target is not None else golden.records if golden is not None else ()
        is_target = target is not None
        pairs = tuple(Pair(r, None) if is_target else Pair(None, r) for r in one_sided)
        return CallPair(target, golden, "", pairs)
    by_name: MatchedBy = "name" if identity(target.name) == identity(golden.name) else "order"
    left, right = target.records, golden.records
    if len(left) == len(right) and all(a.path == b.path and a.part == b.part for a, b in zip(left, right, strict=True)):
        return CallPair(target, golden, by_name, tuple(map(Pair, left, right)))
    return CallPair(target, golden, by_name, tuple(_join_records(left, right)))


def _join_records(left: Iterable[Record], right: Iterable[Record]) -> list[Pair]:
    """In row order: part by part, the target's records with golden-only ones after their golden neighbour."""
    waiting = {(r.part, r.path): r for r in right}
    joined = [Pair(r, waiting.get((r.part, r.path))) for r in left]
    taken = {(p.record.part, p.record.path) for p in joined}
    for at, record in enumerate(right):
        if (record.part, record.path) not in taken:
            joined.insert(_place_of(joined, list(right)[:at], record), Pair(None, record))
    return joined


def _place_of(joined: list[Pair], earlier: list[Record], record: Record) -> int:
    """Behind the nearest earlier golden record of the same part; else before the first record of a later part."""
    for neighbour in reversed(earlier):
        if neighbour.part == record.part:
            return 1 + next(i for i, p in enumerate(joined) if p.golden is neighbour)
    order = ("input", "parameters", "output", "parameters_grad", "debug")
    rank = order.index(record.part)
    return next((i for i, p in enumerate(joined) if order.index(p.record.part) > rank), len(joined))
