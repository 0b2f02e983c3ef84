"""One call of a dump: records with statistics, stack, cells, neighbors, and the producers of its inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.log import join_names, shortened
from msprobe.base.names import call_of, similar_calls
from msprobe.checks.dumps import DumpFile, dumps_of
from msprobe.compare.dataflow.graph import Graph
from msprobe.store.reader import read, tensor_path, with_structure_calls
from msprobe.store.record import NO_STATISTICS, Dump, Number, Record
from msprobe.store.stacks_and_construct import user_line

_MAX_RECORDS = 200
"""Records of one call that are listed."""

_MAX_TEXT = 500
"""Characters of a text among the arguments."""

_MAX_NAMES = 8
"""Names that are listed in a message."""


@dataclass(frozen=True)
class RecordView:
    """One record of a call.

    kind : `tensor`, `value` or `null`.
    value : of a record that is not a tensor.
    nan, positive_inf, negative_inf : numbers of elements; None where the dump does not have them.
    tensor_file : an npy file or a file of torch; None if only statistics were collected.
    origin : of an input: `call`, `parameter`, `leaf` (made outside all recorded calls), `code` (made by operations that
    were not recorded), or `unknown`. None of other records.
    producers : the records that the input is, or of an incoming gradient those that it is the sum of.
    """

    name: str
    part: str
    kind: str
    type: str
    dtype: str
    shape: tuple[int, ...] | None
    max: Number
    min: Number
    mean: Number
    norm: Number
    true_count: Number
    nan: int | None
    positive_inf: int | None
    negative_inf: int | None
    value: object
    digest: str
    tensor_file: Path | None
    gradient: str
    origin: str | None
    producers: tuple[str, ...]


@dataclass(frozen=True)
class CallView:
    """One call of a dump.

    position : place in the order of execution, from 0; `calls` is the number of calls in the dump.
    cells : calls of the cells around it, the innermost first.
    file, line, code : the line of the user's code that made the call, as it was recorded.
    stack : frames, the innermost first; of a backward call those of its forward call.
    counterpart : the backward call of a forward call, or the forward call of a backward call.
    not_collected : parts of the call that could not be collected.
    omitted : number of records that are not listed.
    before, after : names of the neighbors in the order of execution.
    """

    dump: Path
    step: int | None
    rank: int | None
    framework: str
    task: str
    level: str
    name: str
    position: int
    calls: int
    cells: tuple[str, ...]
    counterpart: str | None
    file: str | None
    line: int | None
    code: str | None
    stack: tuple[str, ...]
    is_recompute: bool
    not_collected: tuple[str, ...]
    records: tuple[RecordView, ...]
    omitted: int
    before: tuple[str, ...]
    after: tuple[str, ...]


def look(path: Path, name: str, step: int | None, rank: int | None, around: int) -> CallView:
    """Return one call of a dump, or of the dump of a step and rank of a run.

    DumpError or UsageError if the dump cannot be read, several dumps are meant, or the call does not exist.
    """
    file = _file(path, step, rank)
    dump = with_structure_calls(read(file.path, structure=True))
    at = _position(dump, name)
    stack = dump.calls.stack(at) or dump.calls.stack(dump.forward(at))
    file_name, line, code = _source(stack)
    rows = dump.columns.rows(at)
    graph = Graph(dump)
    records = tuple(_record(dump, graph, at, row) for row in rows[:_MAX_RECORDS])
    names = dump.columns.names
    return CallView(
        Path(dump.where),
        file.step,
        file.rank,
        dump.framework,
        dump.task,
        dump.level,
        names[at],
        at,
        len(names),
        tuple(dump.upwards(dump.parent(at))),
        _counterpart(dump, at),
        file_name,
        line,
        code,
        stack,
        dump.calls.is_recompute(at),
        dump.calls.missing(at),
        records,
        max(0, len(rows) - _MAX_RECORDS),
        tuple(names[max(0, at - around) : at]),
        tuple(names[at + 1 : at + 1 + around]),
    )


def _file(path: Path, step: int | None, rank: int | None) -> DumpFile:
    """The dump of a step and rank; UsageError, with those that are there, unless it is one."""
    every = dumps_of(path)
    found = [one for one in every if step in (None, one.step) and rank in (None, one.rank)]
    if len(found) == 1:
        return found[0]
    steps = sorted({one.step for one in every if one.step is not None})
    ranks = sorted({one.rank for one in every})
    there = f"steps {join_names(steps, _MAX_NAMES)}; ranks {join_names(ranks, _MAX_NAMES)}"
    if found:
        raise UsageError(f"{path}: holds {len(found)} dumps of what was given; give step and rank ({there})")
    raise UsageError(f"{path}: holds no dump of step {step}, rank {rank}; there are {there}")


def _position(dump: Dump, name: str) -> int:
    """Return the place of a call by its name, or by the name of one of its records."""
    place = dump.place
    if (call := call_of(name, place)) is not None:
        return place[call]
    if not place:
        raise DumpError(f"{dump.where}: holds no calls")
    alike = similar_calls(name, place)
    hint = f"did you mean: {join_names(alike, _MAX_NAMES)}" if alike else f"there are: {join_names(place, _MAX_NAMES)}"
    raise UsageError(f"{dump.where}: there is no call {shortened(name, _MAX_TEXT)!r}; {hint}")


def _source(stack: Sequence[str]) -> tuple[str | None, int | None, str | None]:
    """The innermost line of the user's code: its file, number, and text as it was recorded."""
    for frame in stack:
        if (line := user_line((frame,))) is not None:
            return line.file, line.number, frame.partition("\n")[2].strip() or None
    return None, None, None


def _counterpart(dump: Dump, at: int) -> str | None:
    other = dump.counterpart(at, "backward" if dump.names[at].direction == "forward" else "forward")
    return dump.columns.names[other] if other >= 0 and other != at else None


def _record(dump: Dump, graph: Graph, at: int, row: int) -> RecordView:
    record = dump.columns.record(row, at)
    statistics = record.statistics or NO_STATISTICS
    counts = statistics.non_finite
    origin, producers = _origin(dump, graph, at, row, record)
    return RecordView(
        name=record.name,
        part=record.part,
        kind=record.kind,
        type=record.type,
        dtype=record.dtype,
        shape=record.shape,
        max=statistics.max,
        min=statistics.min,
        mean=statistics.mean,
        norm=statistics.norm,
        true_count=statistics.true_count,
        nan=None if counts is None else counts.nan,
        positive_inf=None if counts is None else counts.positive_inf,
        negative_inf=None if counts is None else counts.negative_inf,
        value=shortened(record.value, _MAX_TEXT) if isinstance(record.value, str) else record.value,
        digest=record.digest,
        tensor_file=_tensor_file(dump, record),
        gradient=record.gradient,
        origin=origin,
        producers=producers,
    )


def _tensor_file(dump: Dump, record: Record) -> Path | None:
    if not record.file:
        return None
    try:
        return tensor_path(dump, record)
    except DumpError:
        return None


def _origin(dump: Dump, graph: Graph, at: int, row: int, record: Record) -> tuple[str | None, tuple[str, ...]]:
    """Where an input came from, and the names of the records or of the parameter."""
    if record.part != "input" or record.kind != "tensor":
        return None, ()
    origin, made = graph.origin(row)
    if origin == "parameter":
        return origin, (graph.source(row).text,)
    rows = [made] if made >= 0 else []
    if not rows and dump.names[at].direction == "backward":
        gradients, _ = graph.contributions(row)
        # Dumps of other tools may have the gradients of a call in another order.
        rows = [one for one in gradients if dump.columns.shape(one) == record.shape]
    names = tuple(dump.columns.row_name(one, dump.columns.call_of(one)) for one in rows)
    return "call" if names else origin, names
