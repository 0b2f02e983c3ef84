"""Dropout, whose outputs depend on random numbers: judged by how many elements are kept, and by their scale.

An element is dropped, and then 0, or it is its input divided by 1 - p. How many are kept is binomially distributed.
Where the record does not tell p (a primitive), the scale of the kept elements does. The gradient of an input is the
incoming gradient, dropped where the output was.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from msprobe.replay.operations import plain_name
from msprobe.replay.recorded import Array, Leaf, RecordedCall, leaves
from msprobe.replay.references import Reference

from .judge import Judgement, Reason, Status
from .measures import Measures, measures_of
from .standards import DROPOUT_LEAST, DROPOUT_ROUNDINGS, DROPOUT_SIGMAS, LIMITS, Criterion

_AXES = {"dropout": None, "native_dropout": None, "Dropout": None, "dropout1d": 2, "dropout2d": 2, "dropout3d": 2}
"""Number of leading axes that are dropped together; None: each element separately."""


@dataclass(frozen=True, slots=True)
class Chance:
    """A dropout: the probability of being dropped, None where it is not recorded; and as in `_AXES`."""

    p: float | None
    axes: int | None


def chance_of(call: RecordedCall) -> Chance | None:
    """Return the parameters of an active dropout; None for other calls."""
    if call.kind != "api":
        return None
    name = call.stem.rpartition(".")[2]
    name = name if name in _AXES else plain_name(name)
    if name not in _AXES:
        return None
    if call.stem.startswith("Primitive."):
        return Chance(None, None)
    bound = dict(zip(("input", "p", "training"), call.args, strict=False)) | dict(call.kwargs)
    p, is_on = bound.get("p", 0.5), bound.get("training", bound.get("train", True))
    if is_on is False or not isinstance(p, (int, float)) or not 0 < p < 1:
        return None
    return Chance(float(p), _AXES[name])


def outputs_of(call: RecordedCall, chance: Chance) -> Iterator[tuple[Leaf, Judgement, Measures]]:
    """Return the output, or the gradient of the input, with its verdict. CannotReplay if a tensor is missing."""
    source = next(iter(leaves([call.args, call.kwargs])), None)
    output = call.outputs.get(("0",))
    if source is None or output is None:
        return
    if not call.is_backward:
        yield output, *_judged(output, source.array, chance, None)
        return
    incoming = call.incoming.get(("0",))
    for of, record in call.gradients:
        if of is source and incoming is not None:
            dropped = None
            if output.record.file or output.record.statistics is None:
                dropped = (output.array == 0) & (source.array != 0)
            yield record, *_judged(record, incoming.array, chance, dropped)


def _judged(record: Leaf, source: Array, chance: Chance, dropped: Array | None) -> tuple[Judgement, Measures]:
    """Return an output compared with its source; `dropped`: elements that must be 0, None if that is not known."""
    y, x = np.asarray(record.array, np.float64), np.asarray(source, np.float64)
    if y.shape != x.shape:
        return Judgement(Status.ERROR, Criterion.SHAPE, Reason.SHAPE), Measures(0)
    is_zero = y == 0
    scale = _scale(y, x, is_zero) if chance.p is None else 1 / (1 - chance.p)
    golden = np.where(is_zero, 0.0, x * scale)
    found = measures_of(record.array, Reference(record, golden, np.abs(golden)), record.dtype)
    if found.non_finite:
        return Judgement(Status.ERROR, Criterion.DROPOUT, Reason.NON_FINITE, float(found.non_finite)), found
    limit = DROPOUT_ROUNDINGS * LIMITS[record.dtype].unit
    with np.errstate(all="ignore"):
        worst = float(np.max(np.abs(y - golden) / np.abs(golden), initial=0.0, where=golden != 0))
    if worst > limit:
        return Judgement(Status.ERROR, Criterion.DROPOUT, Reason.KEPT, worst, limit), found
    if dropped is not None and (wrong := int((dropped & ~is_zero).sum())):
        return Judgement(Status.ERROR, Criterion.DROPOUT, Reason.MASK, wrong / y.size), found
    return _of_rate(is_zero, x, 1 / scale, chance.axes), found


def _scale(y: Array, x: Array, is_zero: Array) -> float:
    """Return the median of the factors by which the kept elements were multiplied."""
    kept = ~is_zero & (x != 0)
    return float(np.median(y[kept] / x[kept])) if kept.any() else 1.0


def _of_rate(is_zero: Array, x: Array, rate: float, axes: int | None) -> Judgement:
    if axes is not None and is_zero.ndim > axes:
        count = prod(is_zero.shape[:axes])
        is_zero, x = (np.reshape(each, (count, -1)) for each in (is_zero, x))
        present = (x != 0).any(axis=1)
        kept = ~(is_zero | (x == 0)).all(axis=1)
    else:
        present, kept = x != 0, ~is_zero
    count = int(present.sum())
    if count < DROPOUT_LEAST:
        return Judgement(Status.PASS, Criterion.DROPOUT, Reason.WITHIN)
    share = float((kept & present).sum()) / count
    limit = DROPOUT_SIGMAS * sqrt(max(rate * (1 - rate), 1 / count) / count)
    is_met = abs(share - rate) <= limit
    return Judgement(
        Status.PASS if is_met else Status.ERROR,
        Criterion.DROPOUT,
        Reason.WITHIN if is_met else Reason.RATE,
        abs(share - rate),
        limit,
    )
