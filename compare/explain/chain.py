"""The chain of one pair of calls: each record with its state, the rule that decided, the numbers of that rule, the
origin of an input, and the calls that use an output."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from msprobe.compare.dataflow.events import Event
from msprobe.compare.judge.decision import Decision, decision_of, state_of
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.verdict import GRADES, Grade, path_of
from msprobe.compare.locate.find import Located, cell_of
from msprobe.compare.locate.finding import Divergence
from msprobe.compare.noise.pairs import AlignedGraphs, AlignedTensors
from msprobe.compare.noise.statistics import AlignedStatistics
from msprobe.store.record import TENSOR

_MAX_RELATED = 5
"""Maximum number of listed records from which an input comes, and of calls that use an output."""


@dataclass(frozen=True, slots=True)
class Related:
    """A record or a call that another is related to by the dataflow.

    `state` is `partnerless` if only one side has it, and empty if it was not judged along the dataflow.
    """

    name: str
    state: str
    grade: Grade | None = None


@dataclass(frozen=True, slots=True)
class RecordChain:
    """One pair of records of a call.

    place : its place in the call, such as `input.0`.
    distance : the difference as a share of the norm; None of other values than tensors, and if it was not measured.
    origin : of an input: `call`, `parameter`, `leaf`, `code` or `unknown`, as recorded; empty for other records.
    related : the records from which an input comes, or the calls that use an output.
    omitted : the number of further related ones.
    """

    place: str
    target: str
    golden: str
    is_input: bool
    decision: Decision
    distance: float | None
    origin: str
    related: tuple[Related, ...]
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class CallChain:
    """One pair of calls; `target` or `golden` is empty if only one side made the call.

    matched_by : how the two were paired, as in the table.
    finding : where a difference begins at this call.
    forwards : the forward call of a backward call, whose records are inputs too.
    """

    name: str
    target: str
    golden: str
    cell: str
    step: int | None
    rank: int | None
    mode: str
    matched_by: str
    finding: Divergence | None
    forwards: tuple[str, ...]
    records: tuple[RecordChain, ...]


def chain_of(comparison: Comparison, located: Located, place: int) -> CallChain:
    """Return the chain of a pair of calls, by its place among the pairs."""
    aligned = (AlignedTensors if comparison.mode == "tensor" else AlignedStatistics)(comparison)
    event = aligned.event_at[place]
    pair = comparison.pairs[place]
    names = [
        graph.columns.names[calls[place]] if calls[place] >= 0 else ""
        for graph, calls in zip(aligned.graphs, aligned.calls, strict=True)
    ]
    return CallChain(
        event.name,
        names[0],
        names[1],
        cell_of(event),
        comparison.target.step,
        comparison.target.rank,
        comparison.mode,
        pair.matched_by,
        next((one for one in located.findings if one.at == event.at), None),
        tuple(aligned.pairs.name(forward) for forward in event.forwards),
        tuple(_record(aligned, event, row) for row in event.rows),
    )


def _record(aligned: AlignedGraphs, event: Event, row: int) -> RecordChain:
    pair = aligned.pairs.pair(row)
    is_input = bool(aligned.is_input[row])
    related = list(_producers(aligned, row)) if is_input else list(_users(aligned, row))
    sides = [(side, aligned.rows[side][row]) for side in (0, 1) if aligned.rows[side][row] >= 0]
    origins = (
        [aligned.graphs[side].origin(at)[0] for side, at in sides] if is_input and aligned.are_tensors[row] else []
    )
    return RecordChain(
        path_of(pair.record),
        pair.target.name if pair.target is not None else "",
        pair.golden.name if pair.golden is not None else "",
        is_input,
        decision_of(aligned.comparison, row),
        _distance(aligned, row),
        origins[0] if origins else "",
        tuple(related[:_MAX_RELATED]),
        max(0, len(related) - _MAX_RELATED),
    )


def _distance(aligned: AlignedGraphs, row: int) -> float | None:
    if not aligned.are_tensors[row] or min(rows[row] for rows in aligned.rows) < 0:
        return None
    found = aligned.share(row)
    return found if math.isfinite(found) else None


def _producers(aligned: AlignedGraphs, row: int) -> Iterator[Related]:
    """Yield the records of the target from which an input comes; those of the golden if the target does not have it."""
    side = 0 if aligned.rows[0][row] >= 0 else 1
    if aligned.graphs[side].columns.kind[aligned.rows[side][row]] != TENSOR and not aligned.are_tensors[row]:
        return
    for made in aligned.made_by(side, aligned.rows[side][row]):
        graph = aligned.graphs[side]
        name = graph.columns.row_name(made, graph.call_of[made])
        pair = aligned.pair_of[side][made]
        yield _related(aligned, name, [pair] if pair >= 0 else [])


def _users(aligned: AlignedGraphs, row: int) -> Iterator[Related]:
    """Yield the calls that use an output, with the worst state of their outputs."""
    side = 0 if aligned.rows[0][row] >= 0 else 1
    graph = aligned.graphs[side]
    calls = dict.fromkeys(graph.call_of[taken] for taken in graph.users.get(graph.alias(aligned.rows[side][row]), ()))
    for call in calls:
        place = aligned.place_of[side][call]
        outputs = aligned.outputs(aligned.event_at[place]) if place >= 0 else []
        yield _related(aligned, graph.columns.names[call], outputs)


_WORST = ("divergent", "propagated", "unknown", "", "harmless", "elsewhere", "noise", "equal")
"""States, the most informative first."""


def _related(aligned: AlignedGraphs, name: str, rows: list[int]) -> Related:
    if not rows:
        return Related(name, "partnerless")
    worst = min(rows, key=lambda row: _WORST.index(state_of(aligned.comparison, row)))
    return Related(name, state_of(aligned.comparison, worst), GRADES[aligned.comparison.grades[worst]])
