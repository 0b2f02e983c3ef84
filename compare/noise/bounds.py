"""Pairs of records whose verdict would depend on a bound that is too wide to be evidence."""

import math
from collections.abc import Mapping

from msprobe.base import names
from msprobe.compare.core.exchanges import word_of
from msprobe.compare.core.noise import WIDEST, Evidence, Noise, State
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.dataflow.events import Event

from .operation import is_exact, operation_of
from .pairs import AlignedGraphs


def without_verdict(
    aligned: AlignedGraphs, noise: Noise, made_of: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[Reason]]:
    """Return by row why pairs of records that are noise by their bound have no verdict: they differ by more than
    `WIDEST`.

    Only the differences of their inputs explain that, or the record is an input that is the same tensor as such an
    output. `made_of` has the outputs that are the same tensor as an input. What is rounding, such as a sum that cancels
    out, is still rounding after a call that moves it, negates it, or exchanges it with other ranks.
    """
    found: dict[int, tuple[Reason]] = {}
    are_noise = noise.states == State.NOISE
    for event in aligned.events_with(are_noise):
        for row in event.rows:
            if not are_noise[row] or aligned.distance(row) <= WIDEST:
                continue
            evidence = noise.evidence.get(row)
            if evidence is None and not found.keys().isdisjoint(made_of.get(row, ())):
                found[row] = (Reason(Why.NOISE_BEFORE),)
            elif _passes_on_rounding(aligned, event, row):
                continue
            elif evidence is not None and rests_on_inputs(evidence) and evidence.apart > WIDEST:
                found[row] = (Reason(Why.WIDE_BOUND, amount=evidence.apart, allowed=evidence.explained),)
    return found


def _passes_on_rounding(aligned: AlignedGraphs, event: Event, row: int) -> bool:
    """Return whether a call passes on a tensor that consists of rounding: one that differs by more than `WIDEST`; or
    adds up tensors of several ranks that cancel out, so that their sum is rounding."""
    rows = [at for at in event.rows if aligned.is_input[at] and aligned.are_tensors[at]]
    if word_of(event.called):
        received = max(map(aligned.size, rows), default=0.0)
        return aligned.difference(row) <= WIDEST * received or any(aligned.distance(at) > WIDEST for at in rows)
    return len(rows) == 1 and is_exact(operation_of(names.parse(event.called))) and aligned.distance(rows[0]) > WIDEST


def rests_on_inputs(evidence: Evidence) -> bool:
    """Return whether an output is judged by the differences of its inputs, so that `WIDEST` limits its bound."""
    return not evidence.law and (evidence.is_by_statistics or math.isnan(evidence.bound))
