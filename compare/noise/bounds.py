"""Pairs of records whose verdict would depend on a bound that is too wide to be evidence."""

import math
from collections.abc import Mapping

from msprobe.compare.core.noise import WIDEST, Evidence, Noise, State
from msprobe.compare.core.reason import Reason, Why

from .pairs import AlignedGraphs


def without_verdict(
    aligned: AlignedGraphs, noise: Noise, made_of: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[Reason]]:
    """Return by row why pairs of records that are noise by their bound have no verdict: they differ by more than
    `WIDEST`.

    Only the differences of their inputs explain that, or the record is an input that is the same tensor as such an
    output. `made_of` has the outputs that are the same tensor as an input.
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
    """Return whether an output is judged by the differences of its inputs, so that `WIDEST` limits its bound."""
    return not evidence.law and (evidence.is_by_statistics or math.isnan(evidence.bound))
