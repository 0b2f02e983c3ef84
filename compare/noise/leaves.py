"""The states of inputs that no recorded call produced: parameters, constants and the first inputs of the run.

They cannot have noise, and must be equal; so their states do not depend on those of other records.
"""

from msprobe.compare.core.limits import RUNNING_STATISTICS
from msprobe.compare.core.noise import ROUNDING, State
from msprobe.compare.core.reason import DRIFT, Why
from msprobe.compare.core.standard import canonical

from .flow import Flow
from .pairs import PASS, is_running_statistic

DRIFT_OF_RUNNING = 5e-4
"""Limit for parameters after the first update, relative to their root mean square, if their update was not judged."""


def leaf_state(flow: Flow, row: int) -> State | None:
    """Return the state of a pair of inputs of a forward call that no recorded call produced on either side; None for
    any other, and if they may come from code that was not recorded."""
    aligned = flow.aligned
    origins = [graph.origin(rows[row])[0] for graph, rows in zip(aligned.graphs, aligned.rows, strict=True)]
    if "call" in origins:
        return None
    if "parameter" in origins:
        return _parameter_state(flow, row)
    if "leaf" in origins or aligned.is_constant_input(row):
        is_near = flow.is_noisy and aligned.is_floating(row) and _is_of_one_value(flow, row)
        return State.NOISE if is_near else State.DIVERGENT
    return None


def _parameter_state(flow: Flow, row: int) -> State:
    aligned = flow.aligned
    # If its update was judged, that decides, however close the weights are.
    kinds = {reason.why for reason in aligned.comparison.reasons_at(row)}
    if kinds & DRIFT:
        return State.NOISE
    if Why.UPDATE_DIFFERS in kinds:
        return State.DIVERGENT
    is_later = bool(aligned.comparison.target.step)
    # Running statistics of a normalization are not updates, and are as noisy as the statistics of the batches.
    is_running = is_running_statistic(aligned.graphs[0].columns, aligned.rows[0][row])
    drift = DRIFT_OF_RUNNING * (flow.limits.drift(RUNNING_STATISTICS) if is_running else 1.0)
    most = max(drift, flow.rounding(row)) if is_running else drift
    if is_later and flow.is_noisy and aligned.distance(row) <= most:
        return State.NOISE
    # They may come from two programs; within one framework the first parameters are bitwise equal.
    is_rounding = aligned.has_other_kernels and aligned.grades[row] == PASS and _is_of_one_value(flow, row)
    return State.NOISE if is_rounding else State.DIVERGENT


def _is_of_one_value(flow: Flow, row: int) -> bool:
    """Return whether two leaves differ by at most rounding; if their dtypes differ, to the coarser one."""
    aligned = flow.aligned
    dtypes = {canonical(aligned.dtype_and_shape(side, row)[0]) for side in (0, 1)}
    coarser = max(map(flow.outputs.unit_of, dtypes)) if len(dtypes) > 1 else 0.0
    return aligned.distance(row) <= ROUNDING + coarser
