"""The verdicts that follow from judging along the dataflow: noise passes, divergences are wrong, the rest is exempt."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np

from msprobe.compare.core.limits import LimitSource
from msprobe.compare.core.noise import Evidence, Noise, Sign, State
from msprobe.compare.core.reason import CAUSES, Cause, Reason, Reasons, Why
from msprobe.compare.judge.judged import NO_CAUSE, Comparison
from msprobe.compare.judge.verdict import cause_of_one_side

from .pairs import ERROR, PASS, UNJUDGED, WARNING, AlignedGraphs, AlignedTensors
from .rounding import moves_data
from .statistics import AlignedStatistics
from .structure import harmless_arguments, harmless_structure, undecided_states
from .upstream import details, one_sided, transparent


def with_harmless_structure(comparison: Comparison) -> Comparison:
    """The comparison in which calls that one side alone makes are exempt where equal bits show them to be harmless."""
    if CAUSES.index(Cause.UNMATCHED) not in comparison.causes:
        return comparison
    aligned = (AlignedTensors if comparison.mode == "tensor" else AlignedStatistics)(comparison)
    explained, rows = _harmless(aligned, undecided_states(aligned), ())
    if not rows:
        return comparison
    causes, reasons = comparison.causes.copy(), {**comparison.reasons, **rows}
    causes[list(rows)] = CAUSES.index(Cause.REWRITTEN)
    return replace(comparison, causes=causes, reasons=reasons, explained=explained)


def _harmless(
    aligned: AlignedGraphs, states: "memoryview[int]", responsible: Collection[int]
) -> tuple[dict[int, Reason], dict[int, Reasons]]:
    """What one side alone does within one framework and is no difference: calls by their places, records by rows."""
    known = aligned.comparison.explained
    found = {p: why for p, why in harmless_structure(aligned, states, responsible).items() if p not in known}
    rows: dict[int, Reasons] = {row: (why,) for row, why in harmless_arguments(aligned, states).items()}
    for place, why in found.items():
        rows |= dict.fromkeys(aligned.pairs.rows(place), (why,))
    return {**known, **found}, rows


def entered(
    aligned: AlignedGraphs, noise: Noise, covered: Collection[tuple[int, int]], made_of: Mapping[int, tuple[int, ...]]
) -> Comparison:
    """The comparison with what is noise as a pass, what diverges at least as a warning, what dies out as exempt.

    `covered` are calls as `transparent` takes them, `made_of` the outputs that an input is.
    """
    comparison, states = aligned.comparison, noise.states
    grades, causes = comparison.grades.copy(), comparison.causes.copy()
    reasons = dict(comparison.reasons)

    def exempt(rows: Iterable[int], cause: Cause, why: Why) -> None:
        for row in rows:
            grades[row], causes[row], reasons[row] = UNJUDGED, CAUSES.index(cause), (Reason(why),)

    is_wrong = np.isin(grades, (WARNING, ERROR))
    wide: Mapping[int, Reasons] = {}
    if (states == State.NOISE).any():
        from .bounds import without_verdict  # here: where nothing is noise, nothing is bounded

        wide = without_verdict(aligned, noise, made_of)
    for row, why_open in wide.items():
        grades[row], causes[row], reasons[row] = UNJUDGED, CAUSES.index(Cause.WIDE_BOUND), why_open
    for row in np.flatnonzero((states == State.NOISE) & is_wrong).tolist():
        if row not in wide:
            grades[row], causes[row], reasons[row] = PASS, NO_CAUSE, _why(noise.evidence.get(row))
    for row in np.flatnonzero(states == State.DIVERGENT).tolist():
        evidence = noise.evidence.get(row)
        if evidence is None or evidence.sign is Sign.BITS or (noise.is_exact and grades[row] == PASS):
            if grades[row] == PASS and moves_data(aligned, row):
                grades[row] = WARNING  # no tolerance: the call rounds nothing
            continue  # within tolerance, where all before is equal to the bit
        if grades[row] == PASS:
            grades[row] = WARNING
        reasons[row] = (*comparison.reasons_at(row), *_why(evidence))
    unshown = set(noise.unshown)
    for row in np.flatnonzero(states == State.HARMLESS).tolist():
        is_open = row in unshown
        grades[row], causes[row] = UNJUDGED, CAUSES.index(Cause.UNSHOWN if is_open else Cause.HARMLESS)
        reasons[row] = (Reason(Why.UNSHOWN if is_open else Why.DIES_OUT), *comparison.reasons_at(row))
    exempt(np.flatnonzero(states == State.ELSEWHERE).tolist(), Cause.NO_COUNTERPART, Why.OTHER_STEP)
    unknown = np.flatnonzero((states == State.UNKNOWN) & is_wrong).tolist()
    exempt(filter(aligned.may_be_of_inner_node, unknown), Cause.INNER_NODE, Why.INNER_NODE)
    explained = comparison.explained
    responsible = {*noise.roundings, *noise.constants, *(at for each in noise.stretches.values() for at in each)}
    if not aligned.has_other_kernels:
        explained, harmless = _harmless(aligned, states.data, responsible)
        causes[list(harmless)] = CAUSES.index(Cause.REWRITTEN)
        reasons |= harmless
    else:
        explained = transparent(aligned, covered, responsible)
        explained = {place: why for place, why in explained.items() if place not in comparison.explained}
        unmatched = {row: why for place, why in explained.items() for row in aligned.pairs.rows(place)}
        for row, why in (unmatched | one_sided(aligned, states.data)).items():
            causes[row], reasons[row] = CAUSES.index(cause_of_one_side(why)), (why,)
        for place in details(aligned, covered, explained):
            causes[list(aligned.pairs.rows(place))] = CAUSES.index(Cause.INTERNAL)
        explained |= comparison.explained
        for place, guess in aligned.pairs.notes.guesses.items():
            if place not in explained and min(calls[place] for calls in aligned.calls) < 0:
                reasons |= dict.fromkeys(aligned.pairs.rows(place), (guess.because,))
    which = comparison.which.copy()
    which[np.isin(states, (State.NOISE, State.HARMLESS, State.ELSEWHERE))] = -1
    return replace(
        comparison, grades=grades, causes=causes, reasons=reasons, which=which, explained=explained, noise=noise
    )


def _why(evidence: Evidence | None) -> Reasons:
    """What decided about a pair of records, as a reason; it names whose limit did, where that is not built in."""
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
