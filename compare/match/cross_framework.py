"""Match a dump of MindSpore with one of PyTorch: other names, other arguments, other forms of the same computation.

Pairs of the user come first, then those of `msprobe.compare.counterparts`, which uses structure, shapes, order and
values. Then the records of each pair of calls are joined by their meaning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.core.standard import family
from msprobe.store.record import OUTPUT, TENSOR, Dump

from .call_keys import bare_stem
from .fused import fused_targets, fused_views
from .pairs import Guess, Match, MatchedBy, Notes, Pairs, Partnerless, Rows, View, in_order, pairs_of
from .user_mapping import UserPairs, with_rows

if TYPE_CHECKING:
    from msprobe.mapping.api import ApiTable


def match_frameworks(target: Dump, golden: Dump, by_user: UserPairs) -> Pairs:
    """Return every call of both dumps once (but for fused parameters), in the target's execution order."""
    from msprobe.compare.counterparts.search import find_counterparts  # here: one framework needs no table, and no yaml
    from msprobe.mapping.api import load_table

    table = load_table()
    found = find_counterparts(target, golden, fixed=_guiding(target, golden, by_user.calls))
    matches = [Match(i, j, "mapping") for i, j in by_user.calls.items()]
    taken = set(by_user.calls.values())

    def add(i: int, j: int, by: MatchedBy, guess: Guess) -> None:
        if i not in by_user.calls and j not in taken:
            matches.append(Match(i, j, by, guess))

    for pair in found.calls:
        if not have_other_result_dtypes(target, pair.target, golden, pair.golden):
            guess = Guess(pair.confidence, Reason(Why.LIKENESS, name=pair.reason))
            add(pair.target, pair.golden, _label(target, golden, pair.target, pair.golden), guess)
    for i, j in fused_targets(target, golden, found.ambiguous):
        add(i, j, "structure", Guess(1.0, Reason(Why.FUSED)))
    last = _last_gradients(target, golden, [(pair.target, pair.golden) for pair in found.calls])
    known = {match.target for match in matches}
    for i, j in last:
        if i not in known and j not in taken:
            known.add(i)
            add(i, j, "structure", Guess(1.0, Reason(Why.LAST_GRADIENTS)))
    ordered = in_order(matches, len(target.calls), len(golden.calls))
    without = _without(ordered, target, golden, table) | _earlier_gradients(ordered, target, golden, last)
    for n, match in enumerate(ordered):
        candidates = found.ambiguous.get(match.target) if match.golden < 0 else None
        if candidates:
            named = tuple(golden.columns.names[c] for c in candidates)
            ordered[n] = match._replace(guess=Guess(0.0, Reason(Why.CANDIDATES, names=named)))
    return join_by_meaning(target, golden, ordered, by_user, without)


def _guiding(target: Dump, golden: Dump, calls: Mapping[int, int]) -> dict[int, int]:
    """Return the user's pairs that guide the search: forward calls of one kind. All others are pairs too, but do not
    guide it."""
    found = {}
    for i, j in calls.items():
        mine, theirs = target.names[i], golden.names[j]
        if mine.direction == theirs.direction == "forward" and mine.kind == theirs.kind:
            found[i] = j
    return found


def _label(target: Dump, golden: Dump, i: int, j: int) -> MatchedBy:
    """Return `name` if both sides use the same name, except for `Cell` and `Module` and the number."""
    mine, theirs = target.names[i], golden.names[j]
    if bare_stem(mine) != bare_stem(theirs) or mine.direction != theirs.direction:
        return "structure"
    return "name" if max(mine.number, 0) == max(theirs.number, 0) else "renumbered"


def _last_gradients(target: Dump, golden: Dump, calls: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return target and golden call of the gradients of each pair of cells among `calls` whose gradients one side keeps
    only for the last micro-batch.

    msprobe writes them under one name for a whole step, msprobe-ms once per micro-batch: `parameters_grad`,
    `parameters_grad.1`. So the last of these is the counterpart, and the earlier ones have none.
    """
    pairs = {(target.names[i].stem, golden.names[j].stem) for i, j in calls}
    found = []
    for stems in sorted(pairs):
        lists = [dump.gradients.get(stem, []) for dump, stem in zip((target, golden), stems, strict=True)]
        few, many = sorted((0, 1), key=lambda side: len(lists[side]))
        if len(lists[few]) == 1 < len(lists[many]) and not (target, golden)[few].format_version:
            found.append((lists[0][-1], lists[1][-1]))
    return found


def _earlier_gradients(
    ordered: Sequence[Match], target: Dump, golden: Dump, last: Sequence[tuple[int, int]]
) -> dict[int, Reason]:
    """Return by place why the gradients of micro-batches before the `last` have no counterpart."""
    earlier: set[tuple[int, int]] = set()
    for side, dump in enumerate((target, golden)):
        earlier |= {(side, c) for pair in last for c in dump.gradients[dump.names[pair[side]].stem]}
    return {
        n: Reason(Why.LAST_ONLY)
        for n, match in enumerate(ordered)
        if (match.golden < 0 and (0, match.target) in earlier) or (match.target < 0 and (1, match.golden) in earlier)
    }


def _without(ordered: Sequence[Match], target: Dump, golden: Dump, table: "ApiTable") -> dict[int, Reason]:
    """Return by place why an unmatched call has no counterpart in the other framework."""
    known = {pair.pt for pairs in table.entries.values() for pair in pairs}
    found: dict[int, Reason] = {}
    for place, (i, j, _, _) in enumerate(ordered):
        if i >= 0 <= j:
            continue
        dump, call = (target, i) if i >= 0 else (golden, j)
        name = dump.names[call]
        if name.kind != "api":
            continue
        if dump.framework == "mindspore":
            if text := table.reason_without(name.stem):
                found[place] = Reason(Why.NO_COUNTERPART, name=text.rstrip("."))
        elif name.stem not in known:
            found[place] = Reason(Why.NO_COUNTERPART, name="the table lists none in MindSpore")
    return found


NO_REASONS: Mapping[int, Reason] = {}


def join_by_meaning(
    target: Dump, golden: Dump, calls: Sequence[Match], by_user: UserPairs, without: Mapping[int, Reason] = NO_REASONS
) -> Pairs:
    """Return the pairs of records of all calls, by the table of functions and the rules of the user."""
    from msprobe.mapping.api import load_table

    from .records import Records

    records = Records(target, golden, load_table(), {i: j for i, j, _, _ in calls if i >= 0 <= j})
    views: dict[int, View] = {}
    partnerless: dict[int, Partnerless] = {}
    translated: dict[int, object] = {}

    def join(match: Match, at: int) -> tuple[Rows, Rows]:
        one = records.join(match.target, match.golden, by_user.rules.get(match.target))
        views.update((at + n, view) for n, view in one.views.items())
        partnerless.update((at + n, text) for n, text in one.partnerless.items())
        translated.update((at + n, value) for n, value in one.translated.items())
        return [t for t, _ in one.rows], [g for _, g in one.rows]

    pairs = pairs_of(target, golden, calls, join)
    views = fused_views(pairs) | views
    guesses = {n: match.guess for n, match in enumerate(calls) if match.guess is not None}
    translates_target = target.framework == "mindspore"
    notes = Notes(views, partnerless, translated, guesses, without, translates_target=translates_target)
    return with_rows(replace(pairs, notes=notes), by_user)


_KINDS = frozenset(["bool", "int", "float", "complex"])


def have_other_result_dtypes(target: Dump, i: int, golden: Dump, j: int) -> bool:
    """Return whether target call `i` and golden call `j` are forward calls of functions whose first results, both
    tensors, are of two families of dtypes.

    One side may create its mask as booleans, the other as floats that it casts later: `ones(n, n, dtype=bool)` and
    `ones((n, n)).astype(bool)`. Of the two, only the results computed from them can be compared.
    """
    for dump, call in ((target, i), (golden, j)):
        name = dump.names[call]
        if name.kind != "api" or name.direction != "forward":
            return False
    kinds = {_first_result(target, i), _first_result(golden, j)}
    return len(kinds) > 1 and kinds <= _KINDS


def _first_result(dump: Dump, call: int) -> str:
    """Return the family of the dtype of a call's first result; empty if it is not a tensor."""
    columns = dump.columns
    first = next((row for row in columns.rows(call) if columns.part[row] == OUTPUT), None)
    return "" if first is None or columns.kind[first] != TENSOR else family(columns.dtype(first))
