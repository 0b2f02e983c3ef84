"""Apply the limits of the user to a comparison: names to ignore, and tolerances by name.

Both only excuse pairs that do not pass; no limit makes a comparison stricter. An excused pair of records begins no
difference. The results that are computed from it are judged as before, so that a difference that spreads is found where
it spreads.
"""

from collections import Counter
from dataclasses import replace

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.compare.core.exemptions import Outcome, Scope, Stage, exemptions_of
from msprobe.compare.core.reason import CAUSES, Cause, Reason, Why
from msprobe.compare.core.standard import Standard, family
from msprobe.compare.core.user_limits import Allowance, Excused, ExcusedCounts, UserLimits, matching
from msprobe.compare.dataflow.events import events
from msprobe.compare.judge.elements import files_of, looked_at
from msprobe.compare.judge.judged import DIFFERENT, Comparison
from msprobe.compare.judge.verdict import GRADES, Verdict, excused, judge_structure
from msprobe.compare.match.pairs import Pairs
from msprobe.compare.measure.files import share_of_files
from msprobe.compare.measure.statistics import excess
from msprobe.store.record import Record

_PASS, _UNJUDGED = GRADES.index("pass"), GRADES.index("unjudged")
_HARMLESS = CAUSES.index(Cause.HARMLESS)


def with_user_limits(comparison: Comparison, limits: UserLimits) -> Comparison:
    """Return the comparison in which the pairs that the limits excuse are ignored, or pass; itself without limits."""
    if not limits:
        return comparison
    pairs = comparison.pairs
    of_calls, used = _names_of_calls(pairs, limits)
    exemptions = exemptions_of(Stage.LIMITS, comparison.relation)
    verdicts: dict[int, Verdict] = {}
    counts = Counter[Outcome]()
    rows = set[int]()
    is_open = ((comparison.grades != _PASS) & ~comparison.is_exempt) | (comparison.equal == DIFFERENT)
    for row in np.flatnonzero(is_open & (comparison.causes != _HARMLESS)).tolist():
        names = of_calls[int(pairs.call_of[row])]
        rest = [name for name in limits.names if name not in names]
        if rest:
            names = names | _matching_record(pairs, row, rest)
            used |= names
        for exemption in (each for each in exemptions if each.scope is Scope.RECORD):
            if (reason := exemption.function(comparison, limits, row, names)) is not None:
                rows.add(row)
                if exemption.outcome is not Outcome.PASS or comparison.grades[row] != _PASS:
                    verdicts[row] = excused(exemption, reason)
                    counts[exemption.outcome] += 1
                break
    explained: dict[int, Reason] = {}
    for place in np.flatnonzero((pairs.target_calls < 0) | (pairs.golden_calls < 0)).tolist():
        for exemption in (each for each in exemptions if each.scope is Scope.CALL):
            reason = exemption.function(comparison, limits, place, of_calls[place])
            if place not in comparison.explained and reason is not None:
                explained.setdefault(place, reason)
    found = Excused(
        limits,
        frozenset(rows),
        ExcusedCounts(counts[Outcome.EXEMPT], counts[Outcome.PASS], len(explained)),
        _unused(pairs, limits, used),
    )
    comparison = comparison.with_verdicts(verdicts, keep_equal=True)
    return replace(comparison, explained={**comparison.explained, **explained}, excused=found)


def ignored(comparison: Comparison, limits: UserLimits, at: int, names: set[str]) -> Reason | None:
    """Return the reason that the user ignores a record or a call that matches these names."""
    name = next((name for name in limits.ignore if name in names), "")
    return Reason(Why.IGNORED, name=name) if name else None


def tolerated(comparison: Comparison, limits: UserLimits, row: int, names: set[str]) -> Reason | None:
    """Return the reason that a pair of tensors passes by the tolerance of the user."""
    allowed = limits.allowance(names)
    if allowed is None or not _is_within(comparison, row, allowed):
        return None
    return Reason(Why.USER_TOLERANCE, names=allowed.options, amount=allowed.absolute, allowed=allowed.relative)


def _names_of_calls(pairs: Pairs, limits: UserLimits) -> tuple[list[set[str]], set[str]]:
    """Return, by place, the names that match a call or a cell around it on either side; and all that match any."""
    wanted = limits.names
    known: dict[str, set[str]] = {}
    used = set[str]()

    def of_name(name: str) -> set[str]:
        if name not in known:
            used.update(found := matching(wanted, name))
            known[name] = found
        return known[name]

    by_place: list[set[str]] = [set() for _ in range(len(pairs))]
    for side, calls in ((pairs.target, pairs.target_calls), (pairs.golden, pairs.golden_calls)):
        for place, call in enumerate(calls.tolist()):
            if call >= 0:
                by_place[place] |= of_name(side.columns.names[call])
    for event in events(pairs):
        for parent in (event.name, *event.parents):
            by_place[event.place] |= of_name(parent)
    return by_place, used


def _matching_record(pairs: Pairs, row: int, names: list[str]) -> set[str]:
    """Return which names match a pair of records, by its name on either side."""
    pair = pairs.pair(row)
    return {name for record in (pair.target, pair.golden) if record for name in matching(names, record.name)}


def _unused(pairs: Pairs, limits: UserLimits, used: set[str]) -> tuple[str, ...]:
    """Return the names that match no call and no record."""
    left = [name for name in limits.names if name not in used]
    for row in range(len(pairs.target_rows)) if left else ():
        found = _matching_record(pairs, row, left)
        left = [name for name in left if name not in found]
        if not left:
            break
    return tuple(left)


def _is_within(comparison: Comparison, row: int, allowed: Allowance) -> bool:
    """Return whether two tensors of one shape and dtype differ by no more than a tolerance of the user."""
    pair = comparison.pairs.pair(row)
    target, golden = pair.target, pair.golden
    if target is None or golden is None or not target.kind == golden.kind == "tensor":
        return False
    view = comparison.pairs.notes.views.get(row)
    seen = looked_at(target, golden, view) if view is not None else (target, golden)
    is_open = comparison.grades[row] == _UNJUDGED or family(golden.dtype) == "bool"
    if is_open or judge_structure(*seen, comparison.relation) is not None:
        return False
    if comparison.mode == "tensor" and row not in comparison.by_statistics:
        return _is_within_by_elements(comparison, row, allowed, target, golden)
    t, g = target.statistics, golden.statistics
    if t is None or g is None or comparison.mode == "digest":
        return False
    standard = Standard(allowed.relative, allowed.absolute, is_plain=True)
    size = int(np.prod(golden.shape or (), dtype=np.int64))
    return excess(t, g, size, standard)[0] <= 1


def _is_within_by_elements(
    comparison: Comparison, row: int, allowed: Allowance, target: Record, golden: Record
) -> bool:
    measures = comparison.measures.get(row)
    if measures is None or measures.mismatched:
        return False
    if measures.max_absolute <= allowed.absolute:
        return True
    if not allowed.relative:
        return False
    try:
        files = files_of(comparison.pairs, row, target, golden)
    except DumpError:
        return False
    share = share_of_files(files, allowed.absolute, allowed.relative)
    return share is not None and share <= 1
