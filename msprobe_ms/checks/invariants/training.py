"""Every parameter has a gradient, and moves."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod, sqrt
from statistics import median

from msprobe.compare.core.standard import canonical
from msprobe.store.record import PARAMETERS, Dump

from .judgement import Judgement, Run, Status, Why, unjudged
from .rows import fingerprint, gradients, parameters


def have_gradients(run: Run) -> Iterator[Judgement]:
    """Each parameter of a network that is trained has a gradient, in some step."""
    have: set[str] = set()
    there: dict[str, tuple[int | None, int]] = {}
    is_trained: set[str] = set()
    unheld: set[str] = set()
    for step, rank, dump in run.every:
        have.update(gradients(dump))
        held = {dump.parameter_name(row) for row, part in enumerate(dump.columns.part) if part == PARAMETERS}
        for name in parameters(dump):
            # the gradients of a parameter that no recorded cell holds, as one of the root's own, are not recorded
            if name not in held:
                unheld.add(name)
                continue
            there.setdefault(name, (step, rank))
            if name not in dump.frozen:
                is_trained.add(name)
    for name in sorted(unheld - there.keys() - have):
        yield unjudged(Why.NO_RECORD, name)
    for name in [name for name in there if name not in is_trained and name not in have]:
        yield unjudged(Why.FROZEN, name)
        del there[name]
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
    return dump.columns.numbers_of(row)[3] / sqrt(max(1, prod(dump.columns.shape(row) or ())))


def move(run: Run) -> Iterator[Judgement]:
    """A parameter with a gradient has other values in the next step, or in a later one.

    Where those of some ranks do not move at all, those of the others must not either.
    """
    pairs = list(run.following)
    if not pairs:
        yield unjudged(Why.ONE_STEP)
    found: dict[str, Judgement] = {}
    for before, after in pairs:
        stopped: list[int] = []
        has_moved = False
        for rank in run.steps[before].keys() & run.steps[after].keys():
            old, new = run.steps[before][rank], run.steps[after][rank]
            then, now, given = parameters(old), parameters(new), gradients(old)
            shared = [name for name in then if name in now and name in given]
            shared = [name for name in shared if prod(old.columns.shape(then[name]) or ())]  # not an empty shard
            sizes = {name: _size(old, given[name]) for name in shared}
            floor = _NEGLIGIBLE * median(sizes.values()) if sizes else 0.0
            judged = [
                name for name in shared if canonical(old.columns.dtype(then[name])) == "float32" and sizes[name] > floor
            ]
            still = [name for name in judged if fingerprint(old, then[name]) == fingerprint(new, now[name])]
            moved = [_Moved.of(old, then[name], new, now[name], sizes[name]) for name in judged if name not in still]
            if not judged:
                yield unjudged(Why.NO_RECORD)
            elif len(still) == len(judged):
                stopped.append(rank)
            else:
                has_moved = True
                for name in judged:
                    if name not in still:
                        found[name] = Judgement(Status.HOLDS, name, step=after, ranks=(rank,))
                    elif _may_be_rounding(old, then[name], sizes[name], moved):
                        found.setdefault(name, unjudged(Why.ROUNDING, name))
                    elif name not in found or found[name].status is Status.UNJUDGED:
                        found[name] = Judgement(Status.VIOLATED, name, step=after, ranks=(rank,), what="still")
        if stopped and has_moved:
            yield Judgement(Status.VIOLATED, step=after, ranks=tuple(stopped), what="rank still")
        else:
            yield from (unjudged(Why.ALL_STILL) for _ in stopped)
    yield from found.values()


@dataclass(frozen=True)
class _Moved:
    """By how much the extremes of a parameter moved, and the size of its gradient."""

    distance: float
    gradient: float

    @classmethod
    def of(cls, old: Dump, row: int, new: Dump, there: int, gradient: float) -> "_Moved":
        (high, low, *_), (high_after, low_after, *_) = old.columns.numbers_of(row), new.columns.numbers_of(there)
        return cls(max(abs(high_after - high), abs(low_after - low)), gradient)


_SPACINGS = 4
"""An update of so many spacings of float32 leaves no element where it was."""


def _may_be_rounding(dump: Dump, row: int, gradient: float, moved: list[_Moved]) -> bool:
    """Whether the update may be too small for the numbers of this parameter, as that of ones in a warmup is.

    By the others: they move by about the same (Adam), or in proportion to their gradients (SGD).
    """
    high, low, *_ = dump.columns.numbers_of(row)
    alike = median(one.distance for one in moved)
    in_proportion = gradient * median(one.distance / one.gradient if one.gradient else 0.0 for one in moved)
    return min(alike, in_proportion) < _SPACINGS * 2.0**-23 * max(abs(high), abs(low))
