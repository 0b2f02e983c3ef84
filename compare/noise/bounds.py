"""Verdicts that would rest on a bound so wide that it shows nothing."""

import math
from collections.abc import Mapping

from msprobe.compare.core.noise import WIDEST, Evidence, Noise, State
from msprobe.compare.core.reason import Reason, Why

from .pairs import AlignedGraphs


def without_verdict(
    aligned: AlignedGraphs, noise: Noise, made_of: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[Reason]]:
    """Return by row why pairs of records that count as noise have no verdict: they differ by more than `WIDEST`.

    Only what their inputs differ by explains that, or it is an input that such an output is. `made_of` says which
    outputs an input is.
    """
    found: dict[int, tuple[Reason]] = {}
    states = noise.states.data
    for event in aligned.events:
        for row in event.rows if event.is_matched else ():
            if states[row] != State.NOISE or aligned.distance(row) <= WIDEST:
                continue
            evidence = noise.evidence.get(row)
            if evidence is None and not found.keys().isdisjoint(made_of.get(row, ())):
                found[row] = (Reason(Why.NOISE_BEFORE),)
            elif evidence is not None and rests_on_inputs(evidence) and evidence.apart > WIDEST:
                found[row] = (Reason(Why.WIDE_BOUND, amount=evidence.apart, allowed=evidence.explained),)
    return found


def rests_on_inputs(evidence: Evidence) -> bool:
    """Return whether an output is held against what its inputs explain, so that `WIDEST` limits its bound."""
    return not evidence.law and (evidence.is_by_statistics or math.isnan(evidence.bound))
