"""The result of a comparison, in execution order of the target: as columns, and on demand as objects with reasons."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.base.schema import AT, NAMES
from msprobe.compare.core.measures import Measures
from msprobe.compare.core.noise import Noise
from msprobe.compare.core.reason import CAUSES, Cause, Reason, Reasons
from msprobe.compare.core.relation import Relation
from msprobe.compare.core.standard import standard_of
from msprobe.compare.core.user_limits import Excused
from msprobe.compare.match.pairs import CallPair, Ints, Pair, Pairs
from msprobe.findings.notebook import fragment
from msprobe.store.record import INPUT, PARAMETERS, PARTS, Dump, Record, Statistics

from .verdict import GRADES, PASS, Grade, Verdict, count, number_differing, statistic
from .wording import beyond_template, sentences, statistic_phrase

Mode = Literal["tensor", "statistics", "digest"]

EQUAL, DIFFERENT, UNKNOWN = 1, 0, -1
"""Values of `Comparison.equal`."""

NO_CAUSE = len(CAUSES)
"""Value of `Comparison.causes` for a pair with a verdict."""

_PASS = GRADES.index("pass")
_INPUTS = [INPUT, PARAMETERS]

_MANY = 20  # number of records that a notebook shows


class Judged:
    """A pair of records and its verdict; `row` is its position in the comparison."""

    __slots__ = ("_comparison", "_pair", "row")

    def __init__(self, comparison: "Comparison", row: int, pair: Pair | None = None) -> None:
        self.row = row
        self._comparison = comparison
        self._pair = pair

    @property
    def pair(self) -> Pair:
        """Return the two records."""
        if self._pair is None:
            self._pair = self._comparison.pairs.pair(self.row)
        return self._pair

    @property
    def grade(self) -> Grade:
        """Return the verdict without its reason."""
        return GRADES[int(self._comparison.grades[self.row])]

    @property
    def verdict(self) -> Verdict:
        """Return the verdict with its reasons."""
        reasons = self._comparison.reasons_at(self.row)
        cause = int(self._comparison.causes[self.row])
        return Verdict(self.grade, reasons, None if cause == NO_CAUSE else CAUSES[cause]) if reasons else PASS

    @property
    def equal(self) -> bool | None:
        """Return whether the two are bitwise equal; None if unknown.

        In tensor mode this refers to the elements, in digest mode to the digests, in statistics mode to all four
        statistics.
        """
        found = int(self._comparison.equal[self.row])
        return None if found == UNKNOWN else found == EQUAL

    @property
    def measures(self) -> Measures | None:
        """Return the measures between the elements; None if these were not measured."""
        return self._comparison.measures.get(self.row)


@dataclass(frozen=True, slots=True)
class JudgedCall:
    """A pair of calls with its judged pairs, in row order."""

    calls: CallPair
    judged: tuple[Judged, ...]

    @property
    def name(self) -> str:
        """Return the name shown to the user."""
        return self.calls.name


class Side(NamedTuple):
    """One side of a comparison: its dump, and its calls and rows by pair of calls and pair of records, or -1."""

    dump: Dump
    calls: Ints
    rows: Ints


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of comparing two dumps.

    `grades` (indices into `verdict.GRADES`), `causes` (into `reason.CAUSES`, `NO_CAUSE` where there is a verdict) and
    `equal` have one entry per pair of records, `reasons` an entry where a verdict needed measuring. `excess` and
    `which` are of verdicts by statistics (`measure.statistics.excesses`), `which` is -1 elsewhere. `explain` gives
    every other verdict except a plain pass. `described` has the statistics of tensors whose dump does not contain them.
    `by_statistics` are the rows that these decided although tensors are compared. `explained` is, by place, why a
    call rightly has no counterpart in the other framework. `noise` is what judging along the dataflow found, where
    that was done. `excused` are the pairs that the user's own limits took out, where there are such limits. `samples`
    are the relative errors of sampled elements, by row, where there are samples.
    """

    pairs: Pairs
    mode: Mode
    grades: NDArray[np.uint8]
    causes: NDArray[np.uint8]
    equal: NDArray[np.int8]
    excess: NDArray[np.float64]
    which: NDArray[np.int8]
    reasons: Mapping[int, Reasons]
    explain: Callable[[int], Verdict]
    measures: Mapping[int, Measures]
    described: Mapping[int, tuple[Statistics, Statistics]] = field(default_factory=dict)
    by_statistics: Collection[int] = ()
    explained: Mapping[int, Reason] = field(default_factory=dict)
    noise: Noise | None = None
    excused: Excused | None = None
    samples: Mapping[int, float] = field(default_factory=dict)

    @property
    def target(self) -> Dump:
        """Return the dump under suspicion."""
        return self.pairs.target

    @property
    def golden(self) -> Dump:
        """Return the trusted dump."""
        return self.pairs.golden

    @property
    def relation(self) -> Relation:
        """The relation between the frameworks of the two sides."""
        return self.pairs.relation

    @cached_property
    def sides(self) -> dict[str, Side]:
        """Return both sides by name: `target`, `golden`."""
        pairs = self.pairs
        return {
            "target": Side(pairs.target, pairs.target_calls, pairs.target_rows),
            "golden": Side(pairs.golden, pairs.golden_calls, pairs.golden_rows),
        }

    @cached_property
    def counts(self) -> Counter[Grade]:
        """Return the number of pairs of records with each grade."""
        found = np.bincount(self.grades, minlength=len(GRADES)).tolist()
        return Counter({grade: n for grade, n in zip(GRADES, found, strict=True) if n})

    @cached_property
    def is_clean(self) -> bool:
        """Return whether at least one pair was judged, every pair passes or is exempt, and no call is unmatched that
        should not be."""
        if not self.counts["pass"] or number_differing(self.counts):
            return False
        if not all(cause.is_exempt for cause in self.unjudged):
            return False
        calls = (self.pairs.target_calls < 0) | (self.pairs.golden_calls < 0)
        calls[list(self.explained)] = False
        return not calls.any()

    @property
    def noise_of_tensors(self) -> Noise | None:
        """Return the result of judging along the dataflow if calls were judged by their tensors; None otherwise."""
        return self.noise if self.noise is not None and self.noise.unseen is None else None

    @cached_property
    def unjudged(self) -> Counter[Cause]:
        """Return the number of pairs of records without a verdict, by cause."""
        found = np.bincount(self.causes, minlength=len(CAUSES))[: len(CAUSES)].tolist()
        return Counter({cause: n for cause, n in zip(CAUSES, found, strict=True) if n})

    @cached_property
    def is_exempt(self) -> NDArray[np.bool_]:
        """Return which pairs of records have no verdict and could not show a fault."""
        return np.isin(self.causes, [n for n, cause in enumerate(CAUSES) if cause.is_exempt])

    @cached_property
    def collected(self) -> "dict[str, frozenset[DigestKind]]":
        """Return which kinds of records each side contains."""
        return {name: collected(side.dump) for name, side in self.sides.items()}

    @cached_property
    def calls(self) -> "JudgedCalls":
        """Return all pairs of calls."""
        return JudgedCalls(self)

    @cached_property
    def is_input(self) -> NDArray[np.bool_]:
        """Return whether a pair of records is an argument or a parameter of its call, and not a result."""
        pairs = self.pairs
        on_target = pairs.target_rows >= 0
        part = np.empty(len(pairs.target_rows), np.uint8)
        part[on_target] = np.frombuffer(pairs.target.columns.part, np.uint8)[pairs.target_rows[on_target]]
        part[~on_target] = np.frombuffer(pairs.golden.columns.part, np.uint8)[pairs.golden_rows[~on_target]]
        return np.isin(part, _INPUTS)

    def reasons_at(self, row: int) -> Reasons:
        """Return why a pair of records has its grade; empty for a plain pass."""
        if row in self.reasons:
            return self.reasons[row]
        if self.grades[row] == _PASS:
            return ()
        if (which := int(self.which[row])) < 0:
            return self.explain(row).reasons
        target, golden = self.target.columns, self.golden.columns
        t, g = int(self.pairs.target_rows[row]), int(self.pairs.golden_rows[row])
        ours, theirs = (columns.floats(NAMES[which]) for columns in (target, golden))
        standard = standard_of(golden.looks[golden.look[g]][1])
        return (statistic(float(self.excess[row]), NAMES[which], ours[t], theirs[g], standard),)

    def reason(self, row: int) -> str:
        """Return the reasons of a pair of records as sentences."""
        return sentences(self.reasons_at(row))

    def reasons_of(self, start: int, stop: int) -> list[str]:
        """Return `reason` of the rows from `start` to `stop`, without creating an object for each."""
        target, golden = self.target.columns, self.golden.columns
        found = [""] * (stop - start)
        grades, which, excess = (column[start:stop] for column in (self.grades, self.which, self.excess))
        by_statistics = (grades != _PASS) & (which >= 0)
        at = np.flatnonzero(by_statistics)
        columns = np.array([AT[name] for name in NAMES])[which[at]]
        t, g = self.pairs.target_rows[start + at], self.pairs.golden_rows[start + at]
        numbers = excess[at], target.numbers[t, columns], golden.numbers[g, columns]
        looks = np.frombuffer(golden.look, np.int32)[g]
        standards = [standard_of(dtype) for _, dtype, _ in golden.looks]
        templates = [[beyond_template(name, standard) for standard in standards] for name in NAMES]
        with np.errstate(invalid="ignore"):
            are_finite = np.isfinite(numbers[0] + numbers[1] + numbers[2])
        every = zip(*(column.tolist() for column in (at, which[at], looks, are_finite, *numbers)), strict=True)
        for n, name, look, is_finite, amount, ours, theirs in every:
            if is_finite and (template := templates[name][look]):
                found[n] = template % (amount, ours, theirs)
            else:
                found[n] = statistic_phrase(amount, NAMES[name], ours, theirs, standards[look])
        for n in np.flatnonzero((grades != _PASS) & ~by_statistics).tolist():
            if start + n not in self.reasons:
                found[n] = self.explain(start + n).reason
        for n, row in enumerate(range(start, stop) if self.reasons else ()):
            if row in self.reasons:
                found[n] = sentences(self.reasons[row])
        return found

    def _repr_html_(self) -> str:
        """Return the counts, and the records that differ, for a notebook."""
        counts = self.counts
        differing = number_differing(counts)
        state = "differs" if differing else "clean" if self.is_clean else "unjudged"
        line = f"{self.mode} compared: {count(counts)}"
        facts = [("target", self.target.where), ("golden", self.golden.where)]
        facts += [(f"{number} unjudged", cause.value) for cause, number in self.unjudged.items()]
        wrong = np.flatnonzero(np.isin(self.grades, (GRADES.index("warning"), GRADES.index("error")))).tolist()
        rows = [(self.pairs.pair(row).record.name, GRADES[self.grades[row]], self.reason(row)) for row in wrong[:_MANY]]
        if differing > len(rows):
            facts.append(("shown", f"the first {len(rows)} of {differing}"))
        return fragment(state, line, facts, ("record", "verdict", "reason"), rows)

    def judged(self, row: int) -> Judged:
        """Return one pair of records with its verdict and reason."""
        return Judged(self, row)

    def with_verdicts(self, found: Mapping[int, Verdict], *, keep_equal: bool = False) -> "Comparison":
        """Return the comparison with these verdicts for some pairs of records.

        Whether those are equal is unknown afterwards, unless `keep_equal` is set.
        """
        grades, causes, equal, rows = self.grades.copy(), self.causes.copy(), self.equal.copy(), list(found)
        grades[rows] = [GRADES.index(verdict.grade) for verdict in found.values()]
        causes[rows] = [
            NO_CAUSE if verdict.cause is None else CAUSES.index(verdict.cause) for verdict in found.values()
        ]
        if not keep_equal:
            equal[rows] = UNKNOWN
        reasons = {**self.reasons, **{row: verdict.reasons for row, verdict in found.items()}}
        return replace(self, grades=grades, causes=causes, equal=equal, reasons=reasons)


class JudgedCalls:
    """The pairs of calls of one comparison, created on access."""

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    def __len__(self) -> int:
        return len(self._comparison.pairs)

    def __getitem__(self, at: int) -> JudgedCall:
        calls = self._comparison.pairs[at]
        start = int(self._comparison.pairs.starts[at % len(self)])
        return JudgedCall(calls, tuple(Judged(self._comparison, start + n, pair) for n, pair in enumerate(calls.pairs)))

    def __iter__(self) -> Iterator[JudgedCall]:
        return (self[at] for at in range(len(self)))


def calls_with(comparison: Comparison, rows: NDArray[np.bool_]) -> Ints:
    """Return the number of marked pairs of records in each pair of calls."""
    return np.bincount(comparison.pairs.call_of[rows], minlength=len(comparison.pairs))


DigestKind = tuple[str, bool]
"""The part of a call that a record is, and whether it is of a backward call."""


def collected(dump: Dump) -> frozenset[DigestKind]:
    """Return which kinds of records a dump contains; `data_mode` excludes whole kinds."""
    columns = dump.columns
    is_backward = np.repeat([".backward" in name for name in columns.names], np.diff(columns.starts))
    codes = np.unique(np.frombuffer(columns.part, np.uint8) * 2 + is_backward.astype(np.uint8))
    return frozenset((PARTS[code // 2], bool(code % 2)) for code in codes.tolist())


def kind_of(record: Record) -> DigestKind:
    """Return the part of a call that a record is, and whether it is of a backward call."""
    return record.part, ".backward" in record.name
