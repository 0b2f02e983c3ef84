"""Differences that are at most the rounding of one call: which divergences that are, and what they may hide."""

import math
from collections.abc import Mapping

import numpy as np

from msprobe.compare.core.limits import Limits
from msprobe.compare.core.noise import DIFFERING, WIDEST, Evidence, RoundingLeft, Sign, State, median
from msprobe.compare.core.reason import DRIFT
from msprobe.compare.judge.judged import DIFFERENT, Comparison
from msprobe.replay.operations import Kind

from .evidence import OutputEvidence
from .operation import operation_of
from .pairs import AlignedGraphs


def is_open(comparison: Comparison, limits: Limits) -> bool:
    """Return whether noise may explain differences within one framework: digests require bitwise equality."""
    is_held_to_bits = comparison.mode == "digest" or (comparison.mode == "statistics" and limits.is_exact)
    # Whether parts are equal to their whole is known only after their statistics are combined.
    has_parts = comparison.mode == "statistics" and bool(comparison.pairs.notes.views)
    return not is_held_to_bits and (has_parts or bool((comparison.equal == DIFFERENT).any()))


def within_rounding(aligned: AlignedGraphs, outputs: OutputEvidence, judged: Comparison) -> set[int]:
    """Return the pairs of records that diverge only by their bits, and by at most the rounding of one call."""
    if judged.noise is None:
        return set()
    evidence, found = judged.noise.evidence, set[int]()
    diverging = np.flatnonzero(judged.noise.diverging()).tolist()
    if judged.noise.is_exact and not all(map(aligned.is_computed, diverging)):
        return set()  # no call rounds a parameter, a constant or an argument
    for row in diverging:
        one = evidence.get(row)
        by_bits = (one is not None and one.sign is Sign.BITS) or (one is None and judged.noise.is_exact)
        by_bits = by_bits or (judged.noise.is_exact and one is not None and one.sign is Sign.AMPLIFIED)
        is_rounded = aligned.are_tensors[row] and aligned.is_floating(row) and not aligned.has_other_form(row)
        is_rounded = is_rounded and not moves_data(aligned, row)
        calls = outputs.calls_unrecorded if aligned.is_input[row] else 1.0  # an unrecorded operation produced an input
        if by_bits and is_rounded and aligned.distance(row) <= calls * outputs.rounding(row):
            found.add(row)
    return found


def moves_data(aligned: AlignedGraphs, row: int) -> bool:
    """Return whether the call that returned an output only moves or selects elements, which does not round."""
    known = None if aligned.is_input[row] else operation_of(aligned.name(row))
    return known is not None and known.kind is Kind.MOVES


def rounding_left(
    aligned: AlignedGraphs, outputs: OutputEvidence, states: "memoryview[int]", evidence: Mapping[int, Evidence]
) -> RoundingLeft | None:
    """Return the differences that remain although nothing differs by more than rounding, and the bounds that decided
    that; None if all is equal."""
    every = np.asarray(states)
    if np.isin(every, DIFFERING).any():
        return None
    rows = [row for row in np.flatnonzero(every == State.NOISE).tolist() if aligned.are_tensors[row]]
    if not rows:
        return None
    judged, reasons = [row for row in rows if row in evidence], aligned.comparison.reasons
    largest = max(judged or rows, key=lambda row: _finite(aligned.share(row)))
    hidden = [found for row in judged if (found := _hidden(outputs.hidden(row, evidence[row]), evidence[row]))]
    return RoundingLeft(
        _finite(aligned.share(largest)),
        aligned.pairs.pair(largest).record.name,
        median(hidden) if hidden else math.nan,
        max(hidden, default=math.nan),
        len(hidden),
        outputs.unseen([]) is not None,
        max((reason.amount for row in rows for reason in reasons.get(row, ()) if reason.why in DRIFT), default=0.0),
    )


def _hidden(bound: float, evidence: Evidence) -> float:
    """Return the error up to which an output was judged to be rounding: differences above `WIDEST` have no verdict."""
    from .bounds import rests_on_inputs  # here: if there is no noise, there are no bounds

    return _finite(min(bound, WIDEST) if rests_on_inputs(evidence) else bound)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
