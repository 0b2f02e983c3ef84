"""Judge every pair of records along the dataflow: equal, noise, propagated, or a new divergence.

An input that recorded calls produced is not judged by its value if these calls are a pair: it was judged there. An
output is judged by the inputs of its own call: by the residual of the replayed call if there is one, otherwise by the
ratio of its relative error to that of the inputs. Values that cannot have noise (arguments, the first inputs of the
run, parameters before the first update, the dataflow itself) must be equal.

The rules are in `inputs` and `outputs`. This module applies them to all calls, and derives the result from the states.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

import numpy as np

from msprobe.compare.core.limits import BUILT_IN, Limits
from msprobe.compare.core.noise import DIFFERING, Constant, NoConsequence, Noise, Rounding, State
from msprobe.compare.dataflow.events import Event
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.workers.progress import shown
from msprobe.replay.recorded import NotReplayed, Replayed

from .evidence import OutputEvidence
from .flow import Flow
from .leaves import leaf_state
from .outputs import judge_call
from .pairs import ERROR, PASS, WARNING, AlignedGraphs, AlignedTensors
from .reach import DiedOut, consequences, dying_out
from .rounding import is_open, rounding_left, within_rounding
from .statistics import AlignedStatistics, StatisticsEvidence
from .upstream import carry
from .verdicts import entered, with_harmless_structure


def judge_under_noise(
    comparison: Comparison, *, limits: Limits = BUILT_IN, workers: int = 1, is_shown: bool = False
) -> Comparison:
    """Return the comparison with verdicts that allow for noise up to `limits`; unchanged if nothing differs.

    Calls with differences are replayed with torch, in `workers` processes (0: as many as cores), unless the limits are
    exact. If no tensors were saved, only statistics are used.
    """
    has_other_kernels = comparison.relation.has_other_kernels
    if not has_other_kernels and not is_open(comparison, limits):
        return with_harmless_structure(comparison)
    if comparison.mode == "tensor":
        from .kernels import ReplayEvidence  # here: only tensors need the replay of calls

        tensors = AlignedTensors(comparison)
        replays = ReplayEvidence(tensors, workers, "replaying calls" if is_shown else "", limits)
        return _judged(tensors, replays, limits, is_shown=is_shown)
    statistics = AlignedStatistics(comparison)
    if not has_other_kernels and not statistics.has_summaries:
        return with_harmless_structure(comparison)
    return _judged(statistics, StatisticsEvidence(statistics, limits), BUILT_IN, is_shown=is_shown)


def _judged(aligned: AlignedGraphs, outputs: OutputEvidence, limits: Limits, *, is_shown: bool) -> Comparison:
    """Return the comparison by the first error, not by the first bit that differs.

    A difference that is at most the rounding of one call is a divergence only if it grows into an error that nothing
    else explains, and other calls of this kind are bitwise equal. A change by calls of one side that noise hides is a
    divergence only if there is no other.
    """
    flow = _judged_flow(aligned, outputs, limits, is_shown=is_shown)
    found = _entered(flow)
    if not aligned.has_other_kernels and not limits.is_exact and (rounding := within_rounding(aligned, outputs, found)):
        is_reproducible = not outputs.unlike_others.isdisjoint(rounding)
        outputs.tolerate(rounding)
        flow = _judged_flow(aligned, outputs, limits)
        other = _entered(flow)
        is_rounding = not (other.noise is None or other.noise.diverging().any())
        if is_rounding and is_reproducible and np.isin(found.grades, (WARNING, ERROR)).any():
            return found
        found = other
    if flow.changed and found.noise is not None and not found.noise.diverging().any():
        return _entered(_judged_flow(aligned, outputs, limits, flow.changed))
    return found


def _judged_flow(
    aligned: AlignedGraphs,
    outputs: OutputEvidence,
    limits: Limits,
    begun: Collection[int] = (),
    *,
    is_shown: bool = False,
) -> Flow:
    """Return the states of all pairs of records, by one pass over all calls in execution order."""
    flow = Flow(aligned, outputs, limits, begun)
    waiting: dict[int, list[Event]] = defaultdict(list)  # by event: the gradients of parameters that it produces
    for event in shown(aligned.events, "judging calls") if is_shown else aligned.events:
        if not event.is_matched:
            carry(flow, event)
        elif event.kind == "parameters_grad" and (made := _last_maker(aligned, event)) > event.at:
            waiting[made].append(event)
        else:
            judge_call(flow, event)
        for late in waiting.pop(event.at, ()) if waiting else ():
            judge_call(flow, late)
    return flow


def _last_maker(aligned: AlignedGraphs, event: Event) -> int:
    """Return the last event that produces a value of a record of gradients of parameters; the record may be written
    earlier. -1 for none."""
    rows = (row for row in aligned.outputs(event) if aligned.are_tensors[row])
    made = {pair for row in rows for pair in aligned.pairs_of_makers(row)}
    return max((aligned.event_at[aligned.pairs.call_of.item(pair)].at for pair in made - {-1}), default=-1)


def _entered(flow: Flow) -> Comparison:
    """Return the comparison with the verdicts of the states, without differences that die out."""
    aligned, outputs, states = flow.aligned, flow.outputs, np.asarray(flow.states)
    died_out = DiedOut()
    if flow.is_noisy:
        died_out = dying_out(flow)
    elif not (aligned.has_other_kernels or flow.limits.is_exact):
        # The runs are bitwise equal, and so are the results of unrecorded code for these.
        died_out = DiedOut(dict.fromkeys(sorted(flow.unrecorded.rows_without_effect), NoConsequence.AGREES))
        states[list(died_out.harmless)] = State.HARMLESS
    if flow.is_noisy and not flow.limits.is_exact:
        _accept_within_tolerance(flow)
    diverging = flow.are(State.DIVERGENT).tolist()
    outcomes = [result for side in outputs.replays for result in side.values()]
    noise = Noise(
        states,
        flow.evidence,
        tuple(outputs.classes()),
        not flow.is_noisy,
        died_out.harmless,
        {row: places for row, places in flow.stretches.items() if diverging[row] and places},
        sum(isinstance(a, Replayed) for a in outcomes),
        Counter(a.cause.value for a in outcomes if isinstance(a, NotReplayed)),
        flow.limits,
        outputs.unseen(np.flatnonzero(flow.are(State.NOISE)).tolist()),
        died_out.unshown,
        *_of_one_side(flow),
        consequences(flow) if flow.is_noisy else {},
        rounding_left(aligned, outputs, flow.states, flow.evidence),
    )
    return entered(aligned, noise, flow.covered, flow.made_of)


def _accept_within_tolerance(flow: Flow) -> None:
    """Accept all differences as noise if all of them are within tolerance and only their size contradicts that.

    These are inputs from code that was not recorded, or from calls of one side. A judged call and a leaf that differs
    are beyond rounding at any size.
    """
    aligned, states = flow.aligned, flow.states

    def is_beyond_rounding(row: int) -> bool:
        """Return whether a difference is beyond its tolerance, or is a divergence for another reason than its size."""
        if aligned.grades[row] != PASS:
            return True
        if states[row] != State.DIVERGENT:
            return False
        is_input = aligned.is_input[row] and aligned.are_tensors[row] and aligned.direction(row) != "backward"
        return row in flow.evidence or (is_input and leaf_state(flow, row) is not None)

    differing = np.flatnonzero(flow.are(*DIFFERING)).tolist()
    if not any(map(is_beyond_rounding, differing)):
        np.asarray(states)[differing] = State.NOISE


def _of_one_side(flow: Flow) -> tuple[Mapping[int, Rounding], Mapping[int, Constant]]:
    """Return the casts and the constants of calls that only one side makes."""
    aligned = flow.aligned
    if not aligned.has_other_kernels and not aligned.one_sided:
        return {}, {}
    from .lone_leaves import differing_constants  # here: most runs of one framework make the same calls
    from .precision import one_sided_roundings

    return one_sided_roundings(flow), differing_constants(aligned, flow.states)
