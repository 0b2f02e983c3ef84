"""Decide whether the outputs of a pair of calls differ because each side drew other random numbers."""

import math
import re

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.schema import NAMES
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.judged import Comparison, Judged
from msprobe.replay.operations import Kind, operation, plain_name
from msprobe.store.reader import load_tensor
from msprobe.store.record import Dump, Record

_FOLLOWS_FROM_INPUTS = frozenset({Kind.BILINEAR, Kind.ELEMENTWISE, Kind.MOVES, Kind.EXACT, Kind.CREATES})
"""Kinds of operations of which no argument makes one that draws, as `dropout_p` of an attention does."""

_SIGMAS = 6.0
"""Sums of two samples of one distribution differ by more standard deviations in fewer than one of 10^8 cases."""


def drawing(dump: Dump, at: int) -> str:
    """Return the operation by which a forward call draws random numbers; empty if its output follows from its inputs.

    A dropout that is off (`p=0`, `training=False`) draws none.
    """
    name = dump.names[at]
    if name.kind not in ("api", "cell") or name.direction != "forward":
        return ""
    own = name.stem.rpartition(".")[2]
    called = operation(plain_name(own))
    if called is not None and called.kind in _FOLLOWS_FROM_INPUTS:
        return ""
    from msprobe.mapping.api import load_table  # here: most calls need none of this
    from msprobe.replay.plan import plan_of
    from msprobe.replay.recorded import CannotReplay, Cause, call_of

    if name.kind == "api":
        try:
            plan_of(call_of(dump, at))
        except CannotReplay as err:
            if err.outcome.cause is Cause.RANDOM:
                return err.outcome.detail
        else:
            return ""
    counterparts = (pair.pt for pair in load_table().counterparts(name.stem)) if name.kind == "api" else ()
    for each in (own, *counterparts):
        for word in (plain_name(each), _in_words(plain_name(each)), each.lower()):
            if (known := operation(word)) is not None and known.kind is Kind.RANDOM:
                return known.name
    return ""


def _in_words(name: str) -> str:
    """Return `standard_normal` for `StandardNormal`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def differ_by_draws(comparison: Comparison, graphs: tuple[Graph, Graph], place: int, judged: list[Judged]) -> str:
    """Return the operation by which both calls of a pair draw random numbers that explain how their outputs differ.

    Empty if a call does not draw, or if other numbers of the same distribution do not explain the outputs: another
    probability, a factor, the same draws with other results.
    """
    sides = list(comparison.sides.values())
    calls = [int(side.calls[place]) for side in sides]
    found = [drawing(side.dump, at) for side, at in zip(sides, calls, strict=True)]
    if not all(found):
        return ""
    if sum(graph.passes_through(at) for graph, at in zip(graphs, calls, strict=True)) == 1:
        return ""  # one side's dropout is off
    is_dropout = "dropout" in found[0]
    for one in judged:
        pair = one.pair
        if pair.target is None or pair.golden is None or pair.target.kind != "tensor" or pair.golden.kind != "tensor":
            return ""
        if pair.target.shape != pair.golden.shape or not _may_be_one_distribution(pair.target, pair.golden):
            return ""
        if is_dropout and not _drop_other_elements(sides[0].dump, pair.target, sides[1].dump, pair.golden):
            return ""
    return found[0]


def _may_be_one_distribution(target: Record, golden: Record) -> bool:
    """Return whether two tensors may be samples of one distribution, by their sums of squares and their sums.

    The variance of a sum of n independent x is at most the sum of x², that of the sum of x² at most max x² times it.
    """
    t, g, size = target.statistics, golden.statistics, math.prod(target.shape or ())
    numbers = [getattr(s, key, None) for s in (t, g) for key in NAMES]
    if not all(isinstance(n, int | float) and type(n) is not bool and math.isfinite(n) for n in numbers) or not size:
        return True  # unknown: not contradicted
    high_t, low_t, mean_t, norm_t, high_g, low_g, mean_g, norm_g = (float(n) for n in numbers if n is not None)
    squares = norm_t**2, norm_g**2
    largest = max(abs(high_t), abs(low_t)), max(abs(high_g), abs(low_g))
    spread = math.sqrt(sum(m * m * s for m, s in zip(largest, squares, strict=True)))
    spread_of_sum = math.sqrt(sum(squares))
    are_alike = abs(squares[0] - squares[1]) <= _SIGMAS * spread
    return are_alike and size * abs(mean_t - mean_g) <= _SIGMAS * spread_of_sum


def _drop_other_elements(target: Dump, mine: Record, golden: Dump, theirs: Record) -> bool:
    """Return whether two outputs of dropout have zeros at other positions, and about as many; True if not recorded."""
    if not (mine.file and theirs.file):
        return True
    try:
        dropped = [load_tensor(dump, record) == 0 for dump, record in ((target, mine), (golden, theirs))]
    except DumpError:
        return True
    counts = [int(np.count_nonzero(one)) for one in dropped]
    is_same_rate = abs(counts[0] - counts[1]) <= _SIGMAS * math.sqrt(max(sum(counts), 1))
    return is_same_rate and not np.array_equal(*dropped)
