"""What judging under noise found, entered into the verdicts of a comparison."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.judge.judged import NO_CAUSE, Comparison
from msprobe.compare.judge.verdict import CAUSES, GRADES, Cause
from msprobe.compare.reason import Reason, Reasons, Why
from msprobe.replay.result import NotReplayed, Replayed

from .alone import one_sided, transparent
from .kernels import Kernels
from .limits import BUILT_IN, Limits, Source
from .paired import Paired
from .precision import Sign
from .report import Evidence, Noise, State

_PASS, _WARNING, _ERROR, _UNJUDGED = (GRADES.index(grade) for grade in ("pass", "warning", "error", "unjudged"))


@dataclass(frozen=True, eq=False)
class Found:
    """What was found of each pair of records; as in `Noise`. `covered` are calls as `alone.transparent` takes them."""

    states: NDArray[np.uint8]
    evidence: Mapping[int, Evidence]
    harmless: tuple[int, ...]
    stretches: Mapping[int, tuple[int, ...]]
    covered: Collection[tuple[int, int]]
    limits: Limits = BUILT_IN


def entered(paired: Paired, kernels: Kernels, found: Found, *, is_exact: bool) -> Comparison:
    """The comparison with what is noise as a pass, what diverges at least as a warning, what dies out as exempt."""
    comparison, states, evidence = paired.comparison, found.states, found.evidence
    grades, causes = comparison.grades.copy(), comparison.causes.copy()
    reasons = dict(comparison.reasons)
    for row in np.flatnonzero(states == State.NOISE).tolist():
        if grades[row] in (_WARNING, _ERROR):
            grades[row], causes[row] = _PASS, NO_CAUSE
            reasons[row] = _why(evidence.get(row))
    for row in np.flatnonzero(states == State.DIVERGENT).tolist():
        told = evidence.get(row)
        if told is None or told.sign is Sign.BITS or (is_exact and grades[row] == _PASS):
            continue  # within tolerance, where all before is equal to the bit
        if grades[row] == _PASS:
            grades[row] = _WARNING
        reasons[row] = (*comparison.because(row), *_why(told))
    for row in np.flatnonzero(states == State.HARMLESS).tolist():
        grades[row], causes[row] = _UNJUDGED, CAUSES.index(Cause.HARMLESS)
        reasons[row] = (Reason(Why.DIES_OUT),)
    for row in np.flatnonzero(states == State.ELSEWHERE).tolist():
        grades[row], causes[row] = _UNJUDGED, CAUSES.index(Cause.NO_COUNTERPART)
        reasons[row] = (Reason(Why.OTHER_STEP),)
    for row in np.flatnonzero((states == State.UNKNOWN) & np.isin(grades, (_WARNING, _ERROR))).tolist():
        if paired.may_be_of_inner_node(row):
            grades[row], causes[row] = _UNJUDGED, CAUSES.index(Cause.INNER_NODE)
            reasons[row] = (Reason(Why.INNER_NODE),)
    stretches = {row: places for row, places in found.stretches.items() if states[row] == State.DIVERGENT and places}
    explained = comparison.explained
    if paired.is_across:
        explained = transparent(paired, found.covered, {place for places in stretches.values() for place in places})
        alone = {row: why for place, why in explained.items() for row in paired.rows_of(place)}
        for row, why in (alone | one_sided(paired, states)).items():
            causes[row], reasons[row] = CAUSES.index(Cause.NO_COUNTERPART), (why,)
        for place, guess in paired.pairs.notes.guesses.items():
            if place not in explained and min(int(calls[place]) for calls in paired.calls) < 0:
                reasons |= dict.fromkeys(paired.rows_of(place), (guess.because,))
    which = comparison.which.copy()
    which[np.isin(states, (State.NOISE, State.HARMLESS, State.ELSEWHERE))] = -1
    answers = [answer for side in kernels.replays for answer in side.values()]
    noise = Noise(
        states,
        evidence,
        tuple(kernels.classes()),
        is_exact,
        found.harmless,
        stretches,
        sum(isinstance(a, Replayed) for a in answers),
        Counter(a.cause.value for a in answers if isinstance(a, NotReplayed)),
        found.limits,
        kernels.unseen(np.flatnonzero(states == State.NOISE).tolist()),
    )
    return replace(
        comparison, grades=grades, causes=causes, reasons=reasons, which=which, explained=explained, noise=noise
    )


def _why(evidence: Evidence | None) -> Reasons:
    """What decided about a pair of records, as a reason; it names whose limit did, where that is not built in."""
    if evidence is None:
        return (Reason(Why.NOISE_BEFORE),)
    if evidence.is_by_statistics:
        return (_of_statistics(evidence),)
    by = () if evidence.source is Source.BUILT_IN else (evidence.source.value,)
    if evidence.bound == evidence.bound and evidence.residual == evidence.residual:
        why = Why.NOISE if evidence.sign is Sign.NONE else Why.RESIDUAL
        reason = Reason(why, name=evidence.sign.value, amount=evidence.residual, allowed=evidence.bound)
        return (reason._replace(excess=evidence.golden_residual, names=by),)
    why = Why.NOISE_AMPLIFIED if evidence.sign is Sign.NONE else Why.BEYOND_INPUTS
    return (Reason(why, amount=evidence.apart, allowed=evidence.explained, names=by),)


def _of_statistics(evidence: Evidence) -> Reason:
    is_noise = evidence.sign is Sign.NONE
    if not evidence.law:
        why = Why.NOISE_OF_STATISTICS if is_noise else Why.BEYOND_STATISTICS
        return Reason(why, amount=evidence.apart, allowed=evidence.explained)
    reason = Reason(Why.LAW_KEPT if is_noise else Why.LAW_BROKEN, name=evidence.law, side=evidence.statistic)
    return reason._replace(amount=evidence.residual, excess=evidence.golden_residual, allowed=evidence.bound)
