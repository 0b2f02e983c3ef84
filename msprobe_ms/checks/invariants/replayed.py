"""Calls executed again on their recorded inputs, and memory that is read before it is written."""

from collections.abc import Iterator
from statistics import median

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.compare.core.standard import canonical
from msprobe.compare.core.tensor import UNKNOWN
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.pairs import UNINITIALISED, says_nothing, unwritten_inputs
from msprobe.compare.parallel.exchanges import is_internal
from msprobe.replay.recorded import NOT_APPLICABLE, Cause, NotReplayed, Replayed
from msprobe.replay.replay import replay
from msprobe.store.reader import load_tensor
from msprobe.store.record import INPUT, UNWRITTEN, Dump

from .judgement import Judgement, Run, Status, Why, of_call, unjudged

CLASSES = {"float64": 1e-9, "float32": 2e-5, "float16": 8e-3, "bfloat16": 6e-2}
"""Residuals up to here are the rounding of a kernel with inputs and outputs of that dtype (explanation/architecture.md,
Replaying a call: 6e-7 at most was measured for float32)."""

COARSE = 2e-2
"""A kernel of float32 that rounds to a half precision inside stays below; so does one of TF32."""

_OUTLIER = 50.0
"""A call so many times coarser than the median of its operation is no precision class."""

_MANY, _SHARE = 20, 0.9
"""Elements from which on a residual shows that it is systematic, and the share of its energy that has to be so."""


_WHY = {Cause.NO_LIBRARY: Why.NO_LIBRARY}


def _eta(found: Replayed) -> float:
    """The largest residual of the candidate that fits best."""
    return min(max((r.eta for r in residuals), default=0.0) for residuals in found.residuals.values())


def outputs_replay(run: Run) -> Iterator[Judgement]:
    """What a call gave is what the operation gives for its recorded inputs in float64, but for rounding."""
    if not any(dump.task == "tensor" for _, _, dump in run.every):
        yield unjudged(Why.NO_TENSORS)
        return
    found: list[tuple[int | None, int, Dump, int, Replayed]] = []
    for step, rank, dump in run.every:
        compound = set(dump.construct.values())
        for at, name in enumerate(dump.names):
            # What is inside is judged: a layer may end in an activation, and a user's class may have any name.
            if name.kind == "cell" and dump.columns.names[dump.forward(at)] in compound:
                continue
            if any(row in dump.columns.shards for row in dump.columns.rows(at)):
                # what an operation gives on a rank follows from the whole tensors
                yield of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.NO_REFERENCE)
                continue
            made = replay(dump, at)
            if isinstance(made, NotReplayed):
                if made.cause not in (Cause.UNKNOWN_CELL, Cause.NOT_A_CALL):
                    why = _WHY.get(made.cause, Why.NO_REFERENCE if made.cause in NOT_APPLICABLE else Why.NOT_REPLAYED)
                    yield of_call(Status.UNJUDGED, dump, at, step, rank, why=why, what=made.cause.value)
            else:
                found.append((step, rank, dump, at, made))
    by_operation: dict[str, list[float]] = {}
    for *_, made in found:
        by_operation.setdefault(made.operation, []).append(_eta(made))
    for step, rank, dump, at, made in found:
        value, limit = _eta(made), _limit(dump, at, made, by_operation[made.operation])
        if value > _class_of(dump, at) and _is_systematic(made):
            limit = _class_of(dump, at)
        place = _worst(made)
        if value <= limit:
            yield of_call(Status.HOLDS, dump, at, step, rank, place=place, what="replay", value=value, limit=limit)
        elif made.is_exhaustive or not value < float("inf"):
            yield of_call(Status.VIOLATED, dump, at, step, rank, place=place, what="replay", value=value, limit=limit)
        else:
            yield of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.UNKNOWN_OPTION)


def _class_of(dump: Dump, at: int) -> float:
    dtypes = {canonical(dump.columns.dtype(row)) for row in dump.columns.rows(at)}
    return max((CLASSES[dtype] for dtype in dtypes & CLASSES.keys()), default=CLASSES["float32"])


def _is_systematic(made: Replayed) -> bool:
    """Whether an output is, in each candidate, off by a multiple of itself or by a constant, as no rounding is."""
    return all(
        any(r.count >= _MANY and max(r.slope, r.bias) > _SHARE and r.eta > 0 for r in residuals)
        for residuals in made.residuals.values()
    )


def _limit(dump: Dump, at: int, made: Replayed, alike: list[float]) -> float:
    limit = _class_of(dump, at)
    if made.moves_data:
        return limit
    common = median(alike)
    return max(limit, min(COARSE, _OUTLIER * common)) if common > limit and len(alike) > 2 else limit


def _worst(made: Replayed) -> str:
    best = min(made.residuals.values(), key=lambda residuals: max((r.eta for r in residuals), default=0.0))
    worst = max(best, key=lambda residual: residual.eta, default=None)
    return ".".join((worst.part, *worst.path)) if worst else ""


def memory_is_written(run: Run) -> Iterator[Judgement]:
    """Nothing reads memory as `empty` gives it.

    The dump marks such an input, or the call that made it says so. Where neither does, its elements may: of an input
    that no recorded call made, a part is as small as integers and addresses are when they are read as floats.
    """
    found = False
    for step, rank, dump in run.every:
        columns = dump.columns
        memory = {n.text for n in dump.names if n.kind == "api" and n.stem.rsplit(".", 1)[-1] in UNINITIALISED}
        is_marked = any(kind == UNWRITTEN for kind, _, _ in columns.looks)
        found |= is_marked or bool(memory) or (dump.task == "tensor" and bool(columns.names))
        graph = Graph(dump)
        for at in range(len(columns.names) if found else 0):
            if dump.names[at].direction != "forward" or is_internal(dump.calls.stack(at)):
                continue  # the framework fills its own buffers
            for row in unwritten_inputs(columns, at):
                place = ".".join(("input", *columns.path_of(row)[:1]))
                yield of_call(Status.VIOLATED, dump, at, step, rank, place=place, what="memory")
            for row in columns.tensors(at, INPUT):
                place = ".".join(("input", *columns.path_of(row)[:1]))
                high, low, *_ = columns.numbers_of(row)
                source = graph.source(row) if memory and (columns.source[row] or high != low) else UNKNOWN
                is_memory = source.call in memory and source.part == "output"
                if not is_memory and columns.source[row] in ("leaf", "code", ""):
                    is_memory = _looks_like_addresses(dump, at, row)
                if is_memory and not says_nothing(columns, at, row):
                    yield of_call(Status.VIOLATED, dump, at, step, rank, place=place, what="memory")
    yield Judgement(Status.HOLDS) if found else unjudged(Why.NOTHING)


def _looks_like_addresses(dump: Dump, at: int, row: int) -> bool:
    """Whether at least one of a hundred elements of a float32 tensor is subnormal, and not 0."""
    columns = dump.columns
    if not columns.file[row] or canonical(columns.dtype(row)) != "float32":
        return False
    try:
        array = np.abs(load_tensor(dump, columns.record(row, at)))
    except DumpError:
        return False
    tiny = float(np.finfo(np.float32).tiny)
    subnormal = (array > 0) & (array < tiny)
    # values that fade out smoothly, as a bell curve does, have as many numbers just above
    is_smooth = 2 * np.count_nonzero((array >= tiny) & (array < 1e-30)) > np.count_nonzero(subnormal)
    return bool(array.size) and float(np.mean(subnormal)) >= 0.01 and not is_smooth
