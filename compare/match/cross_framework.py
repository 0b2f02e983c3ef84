"""Match a dump of MindSpore with one of PyTorch: other names, other arguments, other ways to write the same.

The gradients of a layer's parameters where one side keeps those of the last micro-batch only.

msprobe writes them under one name for a whole step, msprobe-ms once per micro-batch: `parameters_grad`,
`parameters_grad.1`. So the last of these are the counterpart, and those before them have none.

Match a dump of MindSpore with one of PyTorch: other names, other arguments, other ways to write the same.

Pairs of the user come first, then those of `msprobe.compare.counterparts`, which reads structure, shapes, order and
values. Then the records of each pair of calls (`records.py`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from msprobe.base import names
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.core.standard import family
from msprobe.store.record import PARTS, TENSOR, Dump

from .calls import MatchedBy
from .fused import fused_targets, fused_views
from .pairs import Alone, Guess, Ints, Notes, Pairs, View
from .user_mapping import Given

if TYPE_CHECKING:
    from msprobe.compare.counterparts.counterpart import Counterparts
    from msprobe.mapping.api import ApiTable


def last_gradients(target: Dump, golden: Dump, calls: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Target and golden call for each pair of cells among `calls` whose gradients are told once on msprobe's side and
    several times on the other."""
    mine, theirs = _gradients(target), _gradients(golden)
    sides = ((target, mine), (golden, theirs))
    pairs = {(names.parse(target.columns.names[i]).stem, names.parse(golden.columns.names[j]).stem) for i, j in calls}
    for ours, other in sorted(pairs):
        lists = mine.get(ours, []), theirs.get(other, [])
        few, many = sorted((0, 1), key=lambda side: len(lists[side]))
        if len(lists[few]) == 1 < len(lists[many]) and not sides[few][0].format_version:
            yield lists[0][-1], lists[1][-1]


def earlier_gradients(
    calls: Sequence[tuple[int, int]], target: Dump, golden: Dump, last: Sequence[tuple[int, int]]
) -> dict[int, Reason]:
    """By place in `calls`: why the gradients of micro-batches before the `last` stand alone."""
    found: dict[int, Reason] = {}
    for side, dump in enumerate((target, golden)):
        known = {names.parse(dump.columns.names[pair[side]]).stem for pair in last}
        lists = _gradients(dump) if known else {}
        earlier = {call for stem in known for call in lists[stem]}
        alone = [n for n, pair in enumerate(calls) if pair[side] in earlier and pair[1 - side] < 0]
        found |= dict.fromkeys(alone, Reason(Why.LAST_ONLY))
    return found


def _gradients(dump: Dump) -> dict[str, list[int]]:
    """By stem of a cell: the calls that are gradients of its parameters, in order."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for at, text in enumerate(dump.columns.names):
        name = names.parse(text)
        if name.kind == "parameters_grad":
            found[name.stem].append(at)
    return found


FRAMEWORKS = {"mindspore", "mindtorch", "pytorch"}

Said = TypeVar("Said")


NOTHING_SAID: Mapping[int, Guess] = {}
NO_REASONS: Mapping[int, Reason] = {}


def round_differently(target: Dump, golden: Dump) -> bool:
    """Whether the sides are of two frameworks, whose kernels are not the same, whatever they hold.

    PyTorch's API on MindSpore (`mindtorch`) counts as a third: it has MindSpore's kernels, and calls others of them.
    """
    return target.framework != golden.framework and {target.framework, golden.framework} <= FRAMEWORKS


def are_of_two_frameworks(target: Dump, golden: Dump) -> bool:
    """Whether one side names its calls as MindSpore does and the other as PyTorch, and there are calls to be matched by
    what they are. `mindtorch` has PyTorch's names, and is matched with it by them.
    """
    if not round_differently(target, golden) or "mindspore" not in (target.framework, golden.framework):
        return False
    return all(any(names.parse(n).direction for n in dump.columns.names) for dump in (target, golden))


def match_frameworks(target: Dump, golden: Dump, given: Given) -> Pairs:
    """Every call of both dumps once (but for fused parameters), in the target's execution order."""
    from msprobe.compare.counterparts.search import find_counterparts
    from msprobe.mapping.api import load_table

    table = load_table()
    found = find_counterparts(target, golden, given=_guiding(target, golden, given.calls))
    partners: dict[int, list[tuple[int, MatchedBy, Guess | None]]] = {
        i: [(j, "mapping", None)] for i, j in given.calls.items()
    }
    taken = set(given.calls.values())
    for pair in found.calls:
        if pair.target in given.calls or pair.golden in taken:
            continue
        if not give_other_numbers(target, pair.target, golden, pair.golden):
            by = _label(target, golden, pair.target, pair.golden)
            guess = Guess(pair.confidence, Reason(Why.LIKENESS, name=pair.reason))
            partners.setdefault(pair.target, []).append((pair.golden, by, guess))
    for i, j in fused_targets(target, golden, found.ambiguous):
        if i not in given.calls and j not in taken:
            partners.setdefault(i, []).append((j, "structure", Guess(1.0, Reason(Why.FUSED))))
    last = list(last_gradients(target, golden, ((pair.target, pair.golden) for pair in found.calls)))
    for i, j in last:
        if i not in partners and j not in taken:
            partners[i] = [(j, "structure", Guess(1.0, Reason(Why.LAST_GRADIENTS)))]
    ordered = in_order(partners, len(target.calls), len(golden.calls))
    guesses = {n: guess for n, (i, j, _, guess) in enumerate(ordered) if guess is not None and i >= 0 <= j}
    without = _without(ordered, target, golden, table)
    without |= earlier_gradients([(i, j) for i, j, _, _ in ordered], target, golden, last)
    guesses |= {n: Guess(0.0, reason) for n, reason in _undecided(ordered, found, golden)}
    return joined(target, golden, [(i, j, by) for i, j, by, _ in ordered], given, guesses, without)


def _guiding(target: Dump, golden: Dump, calls: Mapping[int, int]) -> dict[int, int]:
    """The user's pairs that guide the search: forward calls of one kind. All others count too, and guide nothing."""
    found = {}
    for i, j in calls.items():
        mine, theirs = names.parse(target.columns.names[i]), names.parse(golden.columns.names[j])
        if mine.direction == theirs.direction == "forward" and mine.kind == theirs.kind:
            found[i] = j
    return found


def _label(target: Dump, golden: Dump, i: int, j: int) -> MatchedBy:
    """`name` where both sides call it alike, but for `Cell` and `Module` and the number."""
    mine, theirs = names.parse(target.columns.names[i]), names.parse(golden.columns.names[j])
    bare = [n.stem.partition(".")[2] if n.kind in ("cell", "parameters_grad") else n.stem for n in (mine, theirs)]
    if bare[0] != bare[1] or mine.direction != theirs.direction:
        return "structure"
    return "name" if max(mine.number, 0) == max(theirs.number, 0) else "renumbered"


Ordered = list[tuple[int, int, MatchedBy, "Guess | None"]]


def in_order(
    partners: Mapping[int, Sequence[tuple[int, MatchedBy, "Guess | None"]]], targets: int, goldens: int
) -> Ordered:
    """Target call, golden call (-1 for none), what matched them; golden-only calls stand where they belong."""
    taken: dict[int, int] = {}
    for i, found in partners.items():
        for j, _, _ in found:
            taken[j] = min(i, taken.get(j, i))
    before: dict[int, list[int]] = {}
    place = targets
    for j in range(goldens - 1, -1, -1):
        if j in taken:
            place = taken[j]
        else:
            before.setdefault(place, []).append(j)
    ordered: Ordered = []
    for i in range(targets + 1):
        ordered += ((-1, j, "", None) for j in reversed(before.get(i, ())))
        if i < targets:
            ordered += ((i, j, by, guess) for j, by, guess in partners.get(i, ((-1, "", None),)))
    return ordered


def _without(ordered: Ordered, target: Dump, golden: Dump, table: "ApiTable") -> dict[int, Reason]:
    """By place: why a call that stands alone has no counterpart in the other framework."""
    known = {pair.pt for pairs in table.entries.values() for pair in pairs}
    found: dict[int, Reason] = {}
    for place, (i, j, _, _) in enumerate(ordered):
        if i >= 0 <= j:
            continue
        dump, call = (target, i) if i >= 0 else (golden, j)
        name = names.parse(dump.columns.names[call])
        if name.kind != "api":
            continue
        if dump.framework == "mindspore":
            if said := table.reason_without(name.stem):
                found[place] = Reason(Why.NO_COUNTERPART, name=said.rstrip("."))
        elif name.stem not in known:
            found[place] = Reason(Why.NO_COUNTERPART, name="the table knows none in MindSpore")
    return found


def _undecided(ordered: Ordered, found: "Counterparts", golden: Dump) -> Iterable[tuple[int, Reason]]:
    """By place: the candidates of a target call of which none was clearly meant."""
    for place, (i, j, _, _) in enumerate(ordered):
        if i >= 0 > j and (candidates := found.ambiguous.get(i)):
            yield place, Reason(Why.CANDIDATES, names=tuple(golden.columns.names[c] for c in candidates))


def joined(
    target: Dump,
    golden: Dump,
    calls: Sequence[tuple[int, int, MatchedBy]],
    given: Given,
    guesses: Mapping[int, Guess] = NOTHING_SAID,
    without: Mapping[int, Reason] = NO_REASONS,
) -> Pairs:
    """The records of all pairs of calls, and what is to be said of them."""
    from msprobe.mapping.api import load_table  # here, and below: one framework needs no table, and no yaml

    from .records import Records

    records = Records(target, golden, load_table(), {i: j for i, j, _ in calls if i >= 0 <= j})
    left, right = target.columns, golden.columns
    rows: list[tuple[int, int]] = []
    starts = [0]
    views: dict[int, View] = {}
    alone: dict[int, Alone] = {}
    meant: dict[int, object] = {}
    for i, j, _ in calls:
        at = len(rows)
        if j < 0:
            rows += ((row, -1) for row in range(left.starts[i], left.starts[i + 1]))
        elif i < 0:
            rows += ((-1, row) for row in range(right.starts[j], right.starts[j + 1]))
        else:
            one = records.join(i, j, given.rules.get(i))
            rows += ((-1 if t is None else t, -1 if g is None else g) for t, g in one.rows)
            views |= {at + n: view for n, view in one.views.items()}
            alone |= {at + n: said for n, said in one.alone.items()}
            meant |= {at + n: value for n, value in one.meant.items()}
        starts.append(len(rows))
    target_rows, golden_rows = (np.array([pair[side] for pair in rows], np.int64) for side in (0, 1))
    views = fused_views(target, golden, target_rows, golden_rows) | views
    pairs = Pairs(
        target,
        golden,
        np.array([i for i, _, _ in calls], np.int64),
        np.array([j for _, j, _ in calls], np.int64),
        [by for _, _, by in calls],
        np.array(starts, np.int64),
        target_rows,
        golden_rows,
        Notes(views, alone, meant, guesses, without),
    )
    return with_rows(pairs, given)


def with_rows(pairs: Pairs, given: Given) -> Pairs:
    """The pairs with those of single records that the user made; what they leave behind stands alone."""
    if not given.rows:
        return pairs
    made = {row: other for row, (other, _) in given.rows.items()}
    wanted = set(made.values())
    target_rows, golden_rows = pairs.target_rows.copy(), pairs.golden_rows.copy()
    where = {row: n for n, row in enumerate(target_rows.tolist()) if row >= 0}
    views = dict(pairs.notes.views)
    alone = dict(pairs.notes.alone)
    lost: list[tuple[int, int]] = []  # the pair that a golden record is taken from, and the record that moves away
    for number, row in enumerate(golden_rows.tolist()):
        partner = int(target_rows[number])
        if row >= 0 and (made.get(partner, row) != row or (row in wanted and made.get(partner) != row)):
            lost.append((number, row))
            golden_rows[number] = -1
    for row, (other, text) in given.rows.items():
        number = where[row]
        golden_rows[number] = other
        alone.pop(number, None)
        views.pop(number, None)
        if text:
            views[number] = View(text)
    still = [(number, row) for number, row in lost if row not in wanted]
    notes = Notes(views, alone, pairs.notes.meant, pairs.notes.guesses, pairs.notes.without, is_crossed=True)
    return _compact(pairs, target_rows, golden_rows, still, notes)


def _compact(
    pairs: Pairs, target_rows: Ints, golden_rows: Ints, still: Sequence[tuple[int, int]], notes: Notes
) -> Pairs:
    """Without pairs of nothing, and with the records that lost their partner behind where they stood."""
    after: dict[int, list[int]] = {}
    for number, row in still:
        after.setdefault(number, []).append(row)
    rows: list[tuple[int, int]] = []
    starts, moved = [0], dict[int, int]()
    for start, stop in zip(pairs.starts[:-1].tolist(), pairs.starts[1:].tolist(), strict=True):
        for number in range(start, stop):
            if target_rows[number] >= 0 or golden_rows[number] >= 0:
                moved[number] = len(rows)
                rows.append((int(target_rows[number]), int(golden_rows[number])))
            rows += ((-1, row) for row in after.get(number, ()))
        starts.append(len(rows))

    def at(found: Mapping[int, Said]) -> dict[int, Said]:
        return {moved[n]: value for n, value in found.items() if n in moved}

    return Pairs(
        pairs.target,
        pairs.golden,
        pairs.target_calls,
        pairs.golden_calls,
        pairs.by,
        np.array(starts, np.int64),
        np.array([t for t, _ in rows], np.int64),
        np.array([g for _, g in rows], np.int64),
        replace(notes, views=at(notes.views), alone=at(notes.alone), meant=at(notes.meant)),
    )


_KINDS = frozenset(["bool", "int", "float", "complex"])
_OUTPUT = PARTS.index("output")


def give_other_numbers(target: Dump, i: int, golden: Dump, j: int) -> bool:
    """Whether target call `i` and golden call `j` are forward calls of functions whose first results, both tensors, are
    of two families of dtypes.

    One side may make its mask of booleans from the start, the other of floats that it casts later: `ones(n, n,
    dtype=bool)` and `ones((n, n)).astype(bool)`. Nothing of the two can be compared but what comes of them.
    """
    for dump, call in ((target, i), (golden, j)):
        name = names.parse(dump.columns.names[call])
        if name.kind != "api" or name.direction != "forward":
            return False
    kinds = _first(target, i), _first(golden, j)
    return kinds[0] != kinds[1] and all(kind in _KINDS for kind in kinds)


def _first(dump: Dump, call: int) -> str:
    """The family of the dtype of a call's first result; empty where that is no tensor."""
    columns = dump.columns
    for row in range(columns.starts[call], columns.starts[call + 1]):
        if columns.part[row] == _OUTPUT:
            return family(columns.looks[columns.look[row]][1]) if columns.kind[row] == TENSOR else ""
    return ""
