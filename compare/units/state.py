"""The state of a unit: the result for each call, by the verdicts and measures of the comparison."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.core.noise import Evidence, State
from msprobe.compare.core.reason import CAUSES, Cause, Reason, Why
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.overflow import OF_ALL_VALUES, levels
from msprobe.compare.judge.verdict import GRADES
from msprobe.report.document import State as UnitState
from msprobe.store.record import TENSOR

from .calls import Side, UnitCalls
from .links import links_of, links_of_both

Floats = NDArray[np.float64]

SEVERITY = ".phunwe"
"""Letters of `document.VERDICTS`, from the least to the most severe."""

_DIGITS = 3


def state_of(comparison: Comparison, calls: UnitCalls) -> UnitState:
    """Return the result of a comparison for each of its calls."""
    numbers = Distances(comparison)
    return UnitState(
        "".join(verdicts(comparison)),
        _column(_by_call(comparison, numbers.excess)),
        _column(_by_call(comparison, np.where(comparison.is_input, math.nan, numbers.error))),
        _column(_by_call(comparison, np.where(comparison.is_input, math.nan, numbers.noise))),
        overflow_of(calls.target),
        links_of_both(calls),
        "" if calls.golden is None else overflow_of(calls.golden),
    )


def state_of_dump(calls: UnitCalls) -> UnitState:
    """Return the state of a single dump, which is not judged."""
    return UnitState("." * len(calls), overflow=overflow_of(calls.target), links=links_of(calls.target))


def overflow_of(side: Side) -> str:
    """Return the letters of one side's calls by number; empty if there are none."""
    found = levels(side.dump.columns, OF_ALL_VALUES)
    if not any(found):
        return ""
    return "".join((found[at] if at >= 0 else "")[:1] or "." for at in side.calls.tolist())


def letters(comparison: Comparison) -> NDArray[np.uint8]:
    """Return by pair of records the position of its verdict's letter in `SEVERITY`."""
    place = {grade: SEVERITY.index(letter) for grade, letter in (("pass", "p"), ("warning", "w"), ("error", "e"))}
    found = np.array([place.get(grade, SEVERITY.index("u")) for grade in GRADES], np.uint8)[comparison.grades]
    is_open = comparison.grades == GRADES.index("unjudged")
    pairs = comparison.pairs
    found[is_open & ((pairs.target_rows < 0) | (pairs.golden_rows < 0))] = SEVERITY.index("n")
    found[is_open & (comparison.causes == CAUSES.index(Cause.HARMLESS))] = SEVERITY.index("h")
    return found


def verdicts(comparison: Comparison) -> Sequence[str]:
    """Return by call the letter of the worst of its records; for a call of one side, that it is unmatched."""
    pairs = comparison.pairs
    worst = np.zeros(len(pairs), np.uint8)
    np.maximum.at(worst, pairs.call_of, letters(comparison))
    is_alone = (pairs.target_calls < 0) | (pairs.golden_calls < 0)
    worst[is_alone] = np.maximum(worst[is_alone], SEVERITY.index("n"))
    return [SEVERITY[at] for at in worst.tolist()]


class Distances:
    """Distances of each pair of records, as they were judged; NaN without measures.

    | | |
    |---|---|
    | `excess` | difference in units of the allowed one: that of noise if it decided, otherwise that of the standard |
    | `error` | relative error: norm of the difference over the golden's; by statistics that of the norms |
    | `noise` | part of the error that noise explains |
    """

    def __init__(self, comparison: Comparison) -> None:
        size = len(comparison.grades)
        self.excess: Floats = np.where(comparison.which >= 0, comparison.excess, math.nan)
        self.error: Floats = np.full(size, math.nan)
        self.noise: Floats = np.full(size, math.nan)
        self._by_statistics(comparison)
        self._by_elements(comparison)
        for row, reasons in comparison.reasons.items():
            self._by_reasons(row, reasons)
        if comparison.noise is not None:
            states = comparison.noise.states
            for row, evidence in comparison.noise.evidence.items():
                self._by_evidence(row, evidence, State(states[row]))

    def _by_statistics(self, comparison: Comparison) -> None:
        if comparison.mode != "statistics":
            return
        pairs = comparison.pairs
        t, g = pairs.target_rows, pairs.golden_rows
        both = np.flatnonzero((t >= 0) & (g >= 0))
        sides = [(comparison.target.columns, t[both]), (comparison.golden.columns, g[both])]
        if not len(both):
            return
        ours, theirs = (columns.column("norm")[rows] for columns, rows in sides)
        are_tensors = np.all([np.frombuffer(c.kind, np.uint8)[rows] == TENSOR for c, rows in sides], axis=0)
        with np.errstate(all="ignore"):
            found = np.where(ours == theirs, 0.0, np.abs(ours - theirs) / np.abs(theirs))
        self.error[both] = np.where(are_tensors, found, math.nan)

    def _by_elements(self, comparison: Comparison) -> None:
        columns, rows = comparison.golden.columns, comparison.pairs.golden_rows
        for row, found in comparison.measures.items():
            if comparison.relation.is_one_framework:  # between two frameworks, values relative to the scale decide
                self.excess[row] = math.inf if found.mismatched else found.excess
            norm = columns.norm[at] if (at := int(rows[row])) >= 0 else math.nan
            self.error[row] = 0.0 if found.euclid == 0 else found.euclid / norm if norm else math.inf
            if found.mismatched:
                self.error[row] = math.inf

    def _by_reasons(self, row: int, reasons: Iterable[Reason]) -> None:
        """Enter values that only the reasons have: relative to the scale between two frameworks, an excess of unusual
        statistics."""
        for reason in reasons:
            if reason.why is Why.SCALE and isinstance(reason.allowed, float) and reason.allowed:
                self.excess[row] = reason.amount / reason.allowed
            elif reason.why is Why.STATISTIC and math.isnan(self.excess[row]):
                self.excess[row] = reason.excess

    def _by_evidence(self, row: int, evidence: Evidence, state: State) -> None:
        """Enter the excess of noise, and of divergences within the standard, over their bounds; the standard applies to
        others."""
        found = math.nan
        if math.isfinite(evidence.residual) and evidence.bound > 0:
            found = evidence.residual / evidence.bound
        elif evidence.explained > 0:
            found = evidence.apart / evidence.explained
        if state is State.NOISE or (state is State.DIVERGENT and not self.excess[row] > 1):
            self.excess[row] = found
        if not math.isnan(evidence.apart):
            self.error[row] = evidence.apart
        if math.isfinite(evidence.explained):
            self.noise[row] = evidence.explained


def _by_call(comparison: Comparison, values: Floats) -> Floats:
    """Return the greatest value of each call's records; NaN if none has one."""
    found = np.full(len(comparison.pairs), -math.inf)
    known = ~np.isnan(values)
    np.maximum.at(found, comparison.pairs.call_of[known], values[known])
    return np.where(found == -math.inf, math.nan, found)


def _column(values: Floats) -> tuple[float | str | None, ...]:
    """Return the values with few digits; None for NaN, and nothing at all if all are."""
    if np.isnan(values).all():
        return ()
    return tuple(None if v != v else 0 if v == 0 else float(f"{v:.{_DIGITS}g}") for v in values.tolist())
