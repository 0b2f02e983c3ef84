"""The chain of one pair of calls: each record with its state, the rule that decided, the numbers of that rule, the
origin of an input, and the calls that use an output."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from msprobe.compare.core.noise import Evidence, State
from msprobe.compare.core.reason import CAUSES, DRIFT, Cause, Reasons, Why
from msprobe.compare.dataflow.events import Event
from msprobe.compare.judge.judged import EQUAL, NO_CAUSE, Comparison
from msprobe.compare.judge.verdict import GRADES, Grade, path_of
from msprobe.compare.locate.find import Located, cell_of
from msprobe.compare.locate.finding import Divergence
from msprobe.compare.noise.pairs import AlignedGraphs, AlignedTensors
from msprobe.compare.noise.statistics import AlignedStatistics
from msprobe.store.record import TENSOR

_MAX_RELATED = 5
"""Maximum number of listed records from which an input comes, and of calls that use an output."""

_OF_UPDATES = DRIFT | {Why.UPDATE_DIFFERS}


class Rule(Enum):
    """The rule that decided a pair of records."""

    EQUAL = "equal"
    """Bitwise equal; of statistics, all statistics are equal."""
    REPLAY = "replay"
    """The residual of the call, executed again in float64 on its own inputs."""
    INPUTS = "inputs"
    """The relative error of the output compared with that of the inputs."""
    AMPLIFICATION = "amplification"
    """The same by statistics."""
    IDENTITY = "identity"
    """A relation that holds between the statistics of the inputs and outputs of a call."""
    UPDATE = "update"
    """The update that produced a parameter, or the drift of parameters."""
    PRODUCERS = "producers"
    """The calls that produced it: it differs by no more than they explain."""
    DATAFLOW = "dataflow"
    """The calls that produced it do not explain it, or it was not produced by a call."""
    EXEMPTION = "exemption"
    """It could not show a fault, for the stated cause."""
    OPEN = "open"
    """It could not be judged, for the stated cause."""
    TOLERANCE = "tolerance"
    """The table of tolerances alone."""


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
    state : its `State` as a word; empty if it differs and was not judged along the dataflow.
    distance : the difference as a share of the norm; None of other values than tensors, and if it was not measured.
    evidence : the numbers that decided along the dataflow, if any did.
    excess : how many times the tolerance it differs by; NaN if the tolerance was not applied.
    cause : why it has no verdict.
    origin : of an input: `call`, `parameter`, `leaf`, `code` or `unknown`, as recorded; empty for other records.
    related : the records from which an input comes, or the calls that use an output.
    omitted : the number of further related ones.
    """

    place: str
    target: str
    golden: str
    is_input: bool
    grade: Grade
    state: str
    rule: Rule
    distance: float | None
    evidence: Evidence | None
    excess: float
    reasons: Reasons
    cause: Cause | None
    origin: str
    related: tuple[Related, ...]
    omitted: int = 0

    @property
    def differs_or_is_open(self) -> bool:
        """Whether it does not pass, for another reason than that it could not show a fault."""
        return self.grade != "pass" and (self.cause is None or not self.cause.is_exempt)


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
    comparison, noise = aligned.comparison, aligned.comparison.noise
    pair = aligned.pairs.pair(row)
    cause = None if comparison.causes[row] == NO_CAUSE else CAUSES[comparison.causes[row]]
    is_input = bool(aligned.is_input[row])
    related = list(_producers(aligned, row)) if is_input else list(_users(aligned, row))
    sides = [(side, aligned.rows[side][row]) for side in (0, 1) if aligned.rows[side][row] >= 0]
    origins = (
        [aligned.graphs[side].origin(at)[0] for side, at in sides] if is_input and aligned.are_tensors[row] else []
    )
    excess = float(comparison.excess[row]) if comparison.which[row] >= 0 else math.nan
    record = pair.record
    return RecordChain(
        path_of(record),
        pair.target.name if pair.target is not None else "",
        pair.golden.name if pair.golden is not None else "",
        is_input,
        GRADES[comparison.grades[row]],
        _state(aligned, row),
        rule_of(comparison, row),
        _distance(aligned, row),
        None if noise is None else noise.evidence.get(row),
        excess,
        comparison.reasons_at(row),
        cause,
        origins[0] if origins else "",
        tuple(related[:_MAX_RELATED]),
        max(0, len(related) - _MAX_RELATED),
    )


def rule_of(comparison: Comparison, row: int) -> Rule:
    """Return the rule that decided a pair of records."""
    noise, kinds = comparison.noise, {reason.why for reason in comparison.reasons_at(row)}
    if comparison.causes[row] != NO_CAUSE:
        return Rule.EXEMPTION if CAUSES[comparison.causes[row]].is_exempt else Rule.OPEN
    if comparison.equal[row] == EQUAL:
        return Rule.EQUAL
    if kinds & _OF_UPDATES:
        return Rule.UPDATE
    evidence = None if noise is None else noise.evidence.get(row)
    if evidence is not None:
        if evidence.law:
            return Rule.IDENTITY
        if evidence.is_by_statistics:
            return Rule.AMPLIFICATION
        return Rule.INPUTS if math.isnan(evidence.bound) or math.isnan(evidence.residual) else Rule.REPLAY
    state = State.EQUAL if noise is None else State(noise.states[row])
    if state in (State.NOISE, State.PROPAGATED):
        return Rule.PRODUCERS
    return Rule.DATAFLOW if state == State.DIVERGENT else Rule.TOLERANCE


def _state(aligned: AlignedGraphs, row: int) -> str:
    noise = aligned.comparison.noise
    if noise is not None and noise.states[row] != State.EQUAL:
        return State(noise.states[row]).name.lower()
    return "equal" if aligned.equal[row] == EQUAL else ""


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
    worst = min(rows, key=lambda row: _WORST.index(_state(aligned, row)))
    return Related(name, _state(aligned, worst), GRADES[aligned.comparison.grades[worst]])
