"""Every parameter has a gradient, and moves."""

from collections.abc import Iterator
from math import prod, sqrt
from statistics import median

from msprobe.compare.core.standard import canonical
from msprobe.store.record import Dump

from .judgement import Judgement, Run, Status, Why, fingerprint, gradients, parameters, unjudged


def have_gradients(run: Run) -> Iterator[Judgement]:
    """Each parameter of a network that is trained has a gradient, in some step."""
    have: set[str] = set()
    there: dict[str, tuple[int | None, int]] = {}
    for step, rank, dump in run.every:
        have.update(gradients(dump))
        for name in parameters(dump):
            there.setdefault(name, (step, rank))
    without = [name for name in there if name not in have]
    if not have or not there:
        yield unjudged(Why.NO_RECORD if there else Why.NOTHING)
    elif 2 * len(without) > len(there):
        yield unjudged(Why.MOSTLY_FROZEN)
    else:
        for name, (step, rank) in there.items():
            status = Status.VIOLATED if name in without else Status.HOLDS
            yield Judgement(status, name, step=step, ranks=(rank,), what="no gradient")


_NEGLIGIBLE = 1e-4
"""A gradient that is so much smaller than most may leave a float32 parameter as it is: that of the bias of an
attention's keys is 0 but for rounding."""


def _size(dump: Dump, row: int) -> float:
    """The root mean square of a tensor."""
    return dump.columns.four(row)[3] / sqrt(max(1, prod(dump.columns.shape(row) or ())))


def move(run: Run) -> Iterator[Judgement]:
    """A parameter with a gradient has other values in the next step."""
    pairs = list(run.following)
    if not pairs:
        yield unjudged(Why.ONE_STEP)
    reported: set[str] = set()
    for before, after in pairs:
        for rank in run.steps[before].keys() & run.steps[after].keys():
            old, new = run.steps[before][rank], run.steps[after][rank]
            then, now, given = parameters(old), parameters(new), gradients(old)
            shared = [name for name in then if name in now and name in given]
            sizes = {name: _size(old, given[name]) for name in shared}
            floor = _NEGLIGIBLE * median(sizes.values()) if sizes else 0.0
            judged = [
                name for name in shared if canonical(old.columns.dtype(then[name])) == "float32" and sizes[name] > floor
            ]
            still = [name for name in judged if fingerprint(old, then[name]) == fingerprint(new, now[name])]
            if not judged:
                yield unjudged(Why.NO_RECORD)
            elif len(still) == len(judged):
                yield unjudged(Why.ALL_STILL)
            else:
                for name in judged:
                    if name not in still:
                        yield Judgement(Status.HOLDS, name, step=after, ranks=(rank,))
                    elif name not in reported:
                        reported.add(name)
                        yield Judgement(Status.VIOLATED, name, step=after, ranks=(rank,), what="still")
