"""A training that was resumed goes on as the one that was not: two dumps of the same step."""

from collections.abc import Iterator

from msprobe.store.record import INPUT, OUTPUT, PARAMETERS, PARAMETERS_GRAD, TENSOR, Dump

from .judgement import Judgement, Run, Status, Why, of_call, unjudged
from .rows import fingerprint, parameters


def resume_continues(run: Run, other: Run | None) -> Iterator[Judgement]:
    """Parameters, the batch and every call are equal in both; the first that is not says what was not restored."""
    if other is None:
        yield unjudged(Why.NO_SECOND_DUMP)
        return
    found = False
    for step in run.steps.keys() & other.steps.keys():
        for rank in run.steps[step].keys() & other.steps[step].keys():
            found = True
            judged = list(_pair(run.steps[step][rank], other.steps[step][rank], step, rank))
            yield from judged
            if any(one.status is Status.VIOLATED for one in judged):
                return
    if not found:
        yield unjudged(Why.NO_SECOND_DUMP)


def _pair(dump: Dump, other: Dump, step: int | None, rank: int) -> Iterator[Judgement]:
    ours, theirs = parameters(dump), parameters(other)
    wrong = [name for name in ours if name in theirs and _differs(dump, ours[name], other, theirs[name])]
    for name in wrong:
        yield Judgement(Status.VIOLATED, name, step=step, ranks=(rank,), what="resumed parameter")
    if wrong:
        return
    for at, name in enumerate(dump.columns.names):
        there = other.place.get(name)
        if there is None:
            yield of_call(Status.VIOLATED, dump, at, step, rank, what="resumed call")
            return
        if differing := _differing(dump, at, other, there):
            part, place = differing
            what = "resumed input" if part == INPUT else "resumed state" if part == PARAMETERS else "resumed output"
            yield of_call(Status.VIOLATED, dump, at, step, rank, place=place, what=what)
            return
    yield Judgement(Status.HOLDS, step=step, ranks=(rank,))


def _differs(dump: Dump, row: int, other: Dump, there: int) -> bool:
    return fingerprint(dump, row) != fingerprint(other, there)


def _differing(dump: Dump, at: int, other: Dump, there: int) -> tuple[int, str] | None:
    """The first record of a call that differs: inputs, then parameters, then outputs."""
    ours, theirs = dump.columns, other.columns
    rows = {(theirs.part[row], theirs.path_of(row)): row for row in theirs.rows(there)}
    for part in (INPUT, PARAMETERS, OUTPUT, PARAMETERS_GRAD):
        for row in ours.rows(at):
            if ours.part[row] != part or ours.kind[row] != TENSOR:
                continue
            same = rows.get((part, ours.path_of(row)))
            if same is None or _differs(dump, row, other, same):
                return part, ours.row_name(row, at)
    return None
