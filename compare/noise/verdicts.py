"""Derive verdicts from states along the dataflow: noise passes, divergences are wrong, other states are exempt."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.core.exemptions import Scope, Stage, exemptions_of
from msprobe.compare.core.limits import LimitSource
from msprobe.compare.core.noise import Evidence, Noise, Sign, State
from msprobe.compare.core.reason import CAUSES, Cause, Reason, Reasons, Why
from msprobe.compare.judge.judged import NO_CAUSE, Comparison

from .pairs import ERROR, PASS, UNJUDGED, WARNING, AlignedGraphs, AlignedTensors
from .rounding import moves_data
from .statistics import AlignedStatistics
from .structure import (
    details,
    harmless_arguments,
    harmless_structure,
    one_sided,
    transparent,
    undecided_states,
)

_COMPARED_LATER = frozenset({Why.PASSED_THROUGH, Why.OF_FORWARD, Why.COMPARED_LATER})


def with_harmless_structure(comparison: Comparison) -> Comparison:
    """Return the comparison in which calls that one side alone makes are exempt if equal bits show them to be
    harmless."""
    if CAUSES.index(Cause.UNMATCHED) not in comparison.causes:
        return comparison
    aligned = (AlignedTensors if comparison.mode == "tensor" else AlignedStatistics)(comparison)
    found = _Excused(DataflowFacts(aligned, undecided_states(aligned)))
    found.apply(Stage.STRUCTURE)
    return found.comparison() if found.rows else comparison


def entered(
    aligned: AlignedGraphs, noise: Noise, covered: Collection[tuple[int, int]], made_of: Mapping[int, tuple[int, ...]]
) -> Comparison:
    """Return the comparison in which divergences are at least warnings, with the exemptions of the dataflow.

    `covered` are calls as in `transparent`, `made_of` the outputs that an input consists of.
    """
    responsible = {*noise.roundings, *noise.constants, *(at for each in noise.stretches.values() for at in each)}
    found = _Excused(DataflowFacts(aligned, noise.states.data, noise, responsible, covered, made_of))
    found.enter_divergences()
    found.apply(Stage.STRUCTURE)
    found.apply(Stage.DATAFLOW)
    if aligned.has_other_kernels:
        for place, guess in aligned.pairs.notes.guesses.items():
            if place not in found.explained and min(calls[place] for calls in aligned.calls) < 0:
                found.reasons |= dict.fromkeys(aligned.pairs.rows(place), (guess.because,))
    which = aligned.comparison.which.copy()
    which[np.isin(noise.states, (State.NOISE, State.HARMLESS, State.ELSEWHERE))] = -1
    return replace(found.comparison(), which=which, noise=noise)


@dataclass
class DataflowFacts:
    """The data by which exemptions along the dataflow are decided.

    `states` are those of all pairs of records, also in `noise`, which is None if nothing differs. `responsible` are
    the places of calls of one side that lead to a tensor that diverges. `covered` are the side and number of the calls
    of one side whose results lead to a comparison, `made_of` the outputs that an input consists of.
    """

    aligned: AlignedGraphs
    states: "memoryview[int]"
    noise: Noise | None = None
    responsible: Collection[int] = ()
    covered: Collection[tuple[int, int]] = ()
    made_of: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def is_wrong(self) -> NDArray[np.bool_]:
        """Return which pairs of records are beyond tolerance."""
        return np.isin(self.aligned.comparison.grades, (WARNING, ERROR))

    @cached_property
    def wide_bounds(self) -> Mapping[int, Reasons]:
        """Return, by row, why a pair within noise has no verdict: its bound is too wide."""
        if self.noise is None or not (np.asarray(self.states) == State.NOISE).any():
            return {}
        from .bounds import without_verdict  # here: without noise there are no bounds

        return without_verdict(self.aligned, self.noise, self.made_of)

    @cached_property
    def one_sided_calls(self) -> dict[int, Reason]:
        """Return, by place, why calls that only one side makes are not a difference between two frameworks."""
        known = self.aligned.comparison.explained
        found = transparent(self.aligned, self.covered, self.responsible)
        return {place: why for place, why in found.items() if place not in known}

    @cached_property
    def one_sided_records(self) -> dict[int, Reason]:
        """Return, by row, why records of only one side of a pair of calls are not a difference between two
        frameworks."""
        return one_sided(self.aligned, self.states)

    def rows_of(self, state: State) -> Iterator[int]:
        """Yield the rows of a state."""
        yield from np.flatnonzero(np.asarray(self.states) == state).tolist()


def rewritten_calls(facts: DataflowFacts) -> dict[int, Reason]:
    """One framework: no result shows a difference."""
    known = facts.aligned.comparison.explained
    found = harmless_structure(facts.aligned, facts.states, facts.responsible)
    return {place: why for place, why in found.items() if place not in known}


def arguments_without_effect(facts: DataflowFacts) -> dict[int, Reason]:
    """One framework: the call returns the same on both sides."""
    return harmless_arguments(facts.aligned, facts.states)


def functions_without_counterpart(facts: DataflowFacts) -> dict[int, Reason]:
    """The other framework does not have the function, and need not have it."""
    found = facts.one_sided_calls
    return {place: found[place] for place in details(facts.aligned, facts.covered, found)}


def calls_compared_later(facts: DataflowFacts) -> dict[int, Reason]:
    """A call of one of two frameworks, whose results are compared later."""
    return {place: why for place, why in facts.one_sided_calls.items() if why.why in _COMPARED_LATER}


def uncompared_calls(facts: DataflowFacts) -> dict[int, Reason]:
    """A call of one of two frameworks, whose results are not compared."""
    return facts.one_sided_calls


def parts_of_sums(facts: DataflowFacts) -> dict[int, Reason]:
    """One side has the gradient of one user of a tensor, the other the sum of all: the sum is compared elsewhere."""
    rows = np.flatnonzero(facts.aligned.comparison.causes == CAUSES.index(Cause.OTHER_GRADIENT)).tolist()
    return dict.fromkeys(rows, Reason(Why.COMPARED_LATER))


def arguments_in_other_way(facts: DataflowFacts) -> dict[int, Reason]:
    """An argument that one of two frameworks has."""
    return {row: why for row, why in facts.one_sided_records.items() if why.why is Why.OTHER_WAY}


def unused_outputs(facts: DataflowFacts) -> dict[int, Reason]:
    """An output that one of two frameworks has."""
    return facts.one_sided_records


def wide_bounds(facts: DataflowFacts) -> Mapping[int, Reasons]:
    """The inputs explain differences so large that nothing can be concluded."""
    return facts.wide_bounds


def within_noise(facts: DataflowFacts) -> dict[int, Reasons]:
    """The state is noise."""
    evidence = facts.noise.evidence if facts.noise is not None else {}
    return {row: _why(evidence.get(row)) for row in facts.rows_of(State.NOISE) if facts.is_wrong[row]}


def effects_below_noise(facts: DataflowFacts) -> dict[int, Reasons]:
    """The state is harmless, but noise may hide the effect of the argument."""
    unshown = set(facts.noise.unshown) if facts.noise is not None else set()
    reasons_at = facts.aligned.comparison.reasons_at
    return {row: (Reason(Why.UNSHOWN), *reasons_at(row)) for row in facts.rows_of(State.HARMLESS) if row in unshown}


def without_consequence(facts: DataflowFacts) -> dict[int, Reasons]:
    """The state is harmless."""
    reasons_at = facts.aligned.comparison.reasons_at
    return {row: (Reason(Why.DIES_OUT), *reasons_at(row)) for row in facts.rows_of(State.HARMLESS)}


def other_steps(facts: DataflowFacts) -> dict[int, Reasons]:
    """The two inputs of a cell are at different places of its computation."""
    return dict.fromkeys(facts.rows_of(State.ELSEWHERE), (Reason(Why.OTHER_STEP),))


def of_inner_nodes(facts: DataflowFacts) -> dict[int, Reasons]:
    """The state is unknown, because one side may have recorded an inner node of autograd."""
    unknown = (row for row in facts.rows_of(State.UNKNOWN) if facts.is_wrong[row])
    return dict.fromkeys(filter(facts.aligned.may_be_of_inner_node, unknown), (Reason(Why.INNER_NODE),))


class _Excused:
    """The verdicts of a comparison while exemptions are entered; `rows` are those to which an exemption applies."""

    def __init__(self, facts: DataflowFacts) -> None:
        self._facts, self._comparison = facts, facts.aligned.comparison
        self._grades, self._causes = self._comparison.grades.copy(), self._comparison.causes.copy()
        self.reasons, self.explained = dict(self._comparison.reasons), dict(self._comparison.explained)
        self.rows = set[int]()

    def apply(self, stage: Stage) -> None:
        """Enter the exemptions of a stage; the first row of the table that applies to a pair of records decides."""
        pairs = self._comparison.pairs
        for exemption in exemptions_of(stage, self._comparison.relation):
            found: Mapping[int, Reason | Reasons] = exemption.function(self._facts)
            reasons: dict[int, Reasons] = {}
            for at, why in found.items():
                if isinstance(why, Reason) and exemption.scope is Scope.CALL:
                    self.explained.setdefault(at, why)
                    reasons |= dict.fromkeys(pairs.rows(at), (why,))
                else:
                    reasons[at] = (why,) if isinstance(why, Reason) else why
            new = [row for row in reasons if row not in self.rows]
            self._grades[new] = PASS if exemption.cause is None else UNJUDGED
            self._causes[new] = NO_CAUSE if exemption.cause is None else CAUSES.index(exemption.cause)
            self.reasons.update((row, reasons[row]) for row in new)
            self.rows.update(new)

    def enter_divergences(self) -> None:
        """Enter the divergences, with their evidence."""
        noise, grades = self._facts.noise, self._grades
        assert noise is not None
        for row in self._facts.rows_of(State.DIVERGENT):
            evidence = noise.evidence.get(row)
            if evidence is None or evidence.sign is Sign.BITS or (noise.is_exact and grades[row] == PASS):
                if grades[row] == PASS and moves_data(self._facts.aligned, row):
                    grades[row] = WARNING  # no tolerance: the call rounds nothing
                continue  # within tolerance, after values that are all bitwise equal
            if grades[row] == PASS:
                grades[row] = WARNING
            self.reasons[row] = (*self._comparison.reasons_at(row), *_why(evidence))

    def comparison(self) -> Comparison:
        """Return the comparison with the verdicts that were entered."""
        return replace(
            self._comparison,
            grades=self._grades,
            causes=self._causes,
            reasons=self.reasons,
            explained=self.explained,
        )


def _why(evidence: Evidence | None) -> Reasons:
    """Return the evidence for the state of a pair of records as a reason, with the source of a limit that is not built
    in."""
    if evidence is None:
        return (Reason(Why.NOISE_BEFORE),)
    is_noise, by = evidence.sign is Sign.NONE, evidence.source
    found = Reason(Why.NOISE, amount=evidence.residual, excess=evidence.golden_residual, allowed=evidence.bound)
    if evidence.law:
        why = Why.LAW_KEPT if is_noise else Why.LAW_BROKEN
        return (found._replace(why=why, name=evidence.law, side=evidence.statistic),)
    names = () if by is LimitSource.BUILT_IN else (by.value,)
    if not evidence.is_by_statistics and not math.isnan(evidence.bound) and not math.isnan(evidence.residual):
        why = Why.NOISE if is_noise else Why.RESIDUAL
        return (found._replace(why=why, name=evidence.sign.value, names=names),)
    if evidence.is_by_statistics:
        why = Why.NOISE_OF_STATISTICS if is_noise else Why.BEYOND_STATISTICS
    else:
        why = Why.NOISE_AMPLIFIED if is_noise else Why.BEYOND_INPUTS
    return (Reason(why, amount=evidence.apart, allowed=evidence.explained, names=names),)
