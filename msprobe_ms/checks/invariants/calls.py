"""Calls whose results have a property by definition: softmax, masks, normalisations."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.compare.core.standard import family
from msprobe.store.reader import load_tensor
from msprobe.store.record import Call, Dump, Record

from .exchanges import eps_of
from .judgement import Judgement, Run, Status, Why, of_call, unjudged
from .masks import MaskShape, classified, later_positions

Array = np.ndarray[Any, Any]

MASKED = -1e4
"""Scores at and below are taken for masked: what programs write there is -1e4, -1e9, the least number, -inf."""

MOST_MASKED = 1e-6
"""The greatest weight of a masked position."""


def _last_word(name: str) -> str:
    return name.rsplit(".", 1)[-1].lower()


def _calls(run: Run, *words: str) -> Iterator[tuple[int | None, int, Dump, int, Call]]:
    """Forward calls of functions, primitives and cells by the last word of their names, without underscores."""
    for step, rank, dump in run.every:
        for at, name in enumerate(dump.names):
            if name.direction == "forward" and _last_word(name.stem).strip("_") in words:
                yield step, rank, dump, at, dump.calls[at]


def _tensors(call: Call, part: str) -> list[Record]:
    return [record for record in call.records if record.part == part and record.kind == "tensor"]


def _load(dump: Dump, record: Record) -> Array | None:
    if not record.file:
        return None
    try:
        return load_tensor(dump, record).astype(np.float64)
    except DumpError:
        return None


def softmax_rows(run: Run) -> Iterator[Judgement]:
    """The rows of a softmax add up to 1, and nothing in them is below 0."""
    found = False
    for step, rank, dump, at, call in _calls(run, "softmax"):
        outs = _tensors(call, "output")
        if not outs or family(outs[0].dtype) != "float" or not outs[0].shape:
            continue
        found = True
        out, shape = outs[0], outs[0].shape
        limit = max(1e-5, 8 * eps_of(out.dtype))
        axes = _axes(call, len(shape))
        array = _load(dump, out)
        if array is not None:
            apart = [float(np.max(np.abs(array.sum(axis) - 1.0), initial=0.0)) for axis in axes]
            below = -float(array.min(initial=0.0))
        else:
            s = out.statistics
            if s is None or not isinstance(s.mean, float) or s.min is None:
                yield of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.NO_RECORD)
                continue
            apart, below = [abs(s.mean * shape[axis] - 1.0) for axis in axes], -float(s.min)
        value = max(min(apart), below)
        status = Status.HOLDS if value <= limit else Status.VIOLATED
        yield of_call(status, dump, at, step, rank, place=_place(out), what="row sum", value=value, limit=limit)
    if not found:
        yield unjudged(Why.NOTHING)


def _place(record: Record) -> str:
    return ".".join((record.part, *record.path))


def _axes(call: Call, rank: int) -> list[int]:
    """The axis of a softmax; all of them where it is not recorded."""
    values = {
        record.path[0]: record.value
        for record in call.records
        if record.part == "input" and len(record.path) == 1 and type(record.value) is int
    }
    named = next((values[key] for key in ("dim", "axis", "1") if key in values), None)
    return [int(named)] if isinstance(named, int) and -rank <= named < rank else list(range(rank))


def masked_weights(run: Run) -> Iterator[Judgement]:
    """Where a score is masked, its softmax is 0; and a causal mask hides what comes later, not what came before."""
    found = False
    for step, rank, dump, at, call in _calls(run, "softmax"):
        ins, outs = _tensors(call, "input"), _tensors(call, "output")
        if not ins or not outs or not ins[0].statistics or ins[0].statistics.min is None:
            continue
        if not float(ins[0].statistics.min) <= MASKED:
            continue
        found = True
        scores, weights = _load(dump, ins[0]), _load(dump, outs[0])
        if scores is None or weights is None or scores.shape != weights.shape:
            yield of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.NO_TENSORS)
            continue
        axes = _axes(call, scores.ndim)
        axis = axes[0] % scores.ndim if len(axes) == 1 else scores.ndim - 1
        scores, weights = np.moveaxis(scores, axis, -1), np.moveaxis(weights, axis, -1)
        # far below the largest of its row: a row whose scores are all that low is masked as a whole, or has no mask
        low = scores <= MASKED / 2  # a score is added to the -1e4 of a mask
        hidden = low & (scores < scores.max(-1, keepdims=True) + MASKED / 2)
        value = float(np.max(np.where(hidden, weights, 0.0), initial=0.0))
        if value > MOST_MASKED:
            yield of_call(Status.VIOLATED, dump, at, step, rank, what="masked weight", value=value, limit=MOST_MASKED)
            continue
        # Of the queries only the axis beside the keys is known to be in their order.
        shape = classified(low) if axis >= scores.ndim - 2 else MaskShape.RIGHT
        if shape is MaskShape.UNKNOWN:
            yield of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.UNKNOWN_MASK)
        elif shape is MaskShape.SHOWS_LATER:
            value = float(np.max(weights, where=later_positions(low), initial=0.0))
            yield of_call(Status.VIOLATED, dump, at, step, rank, what=shape.value, value=value, limit=0.0)
        elif shape is not MaskShape.RIGHT:
            yield of_call(Status.VIOLATED, dump, at, step, rank, what=shape.value)
        else:
            yield of_call(Status.HOLDS, dump, at, step, rank, what="masked weight", value=value, limit=MOST_MASKED)
    for step, rank, dump, at, call in _calls(run, "scaled_dot_product_attention"):
        masks = [r for r in _tensors(call, "input") if r.path[0] in ("3", "attn_mask")]
        mask = _load(dump, masks[0]) if masks else None
        if mask is None or mask.ndim < 2:
            continue
        found = True
        shape = classified(mask == 0 if family(masks[0].dtype) == "bool" else mask <= MASKED)
        if shape is MaskShape.UNKNOWN:
            yield of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.UNKNOWN_MASK)
        else:
            is_right = shape is MaskShape.RIGHT
            status = Status.HOLDS if is_right else Status.VIOLATED
            yield of_call(status, dump, at, step, rank, what="mask" if is_right else shape.value)
    if not found:
        yield unjudged(Why.NOTHING)


_NORMS = {
    "layer": ("layer_norm", "layernorm", "layer_norm_ext", "layernormext"),
    "rms": ("rms_norm", "rmsnorm", "llamarmsnorm"),
    "group": ("group_norm", "groupnorm"),
    "batch": ("batch_norm", "batchnorm", "batchnorm1d", "batchnorm2d", "batchnorm3d", "batch_norm_ext"),
}


def norm_statistics(run: Run) -> Iterator[Judgement]:
    """What a normalisation gives has, without weight and bias, mean 0 and mean square 1 over what it normalises."""
    found = False
    for kind, words in _NORMS.items():
        for step, rank, dump, at, call in _calls(run, *words):
            ins, outs = _tensors(call, "input"), _tensors(call, "output")
            if not ins or not outs or not outs[0].shape or ins[0].shape != outs[0].shape:
                continue
            found = True
            arrays = _load(dump, ins[0]), _load(dump, outs[0])
            if arrays[0] is None or arrays[1] is None:
                yield of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.NO_TENSORS)
                continue
            value = _norm_excess(kind, call, dump, arrays[0], arrays[1], eps_of(outs[0].dtype))
            if value is None:
                yield of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.UNKNOWN_OPTION)
                continue
            limit = max(2e-3, 16 * eps_of(outs[0].dtype))
            if not value <= limit and dump.names[at].kind == "cell":
                # a cell may have another function under this name; the call of the framework inside it is judged
                yield of_call(Status.UNJUDGED, dump, at, step, rank, why=Why.UNKNOWN_OPTION)
                continue
            status = Status.HOLDS if value <= limit else Status.VIOLATED
            yield of_call(
                status, dump, at, step, rank, place=_place(outs[0]), what="row statistics", value=value, limit=limit
            )
    if not found:
        yield unjudged(Why.NOTHING)


def _norm_excess(kind: str, call: Call, dump: Dump, x: Array, out: Array, eps: float) -> float | None:
    """How far mean and mean square of the normalised values are from 0 and 1; None where that cannot be said.

    The mean square may be below 1 by the epsilon, which is not always recorded: v / (v + epsilon) for a variance v.
    """
    scales = _scales(kind, call, dump, x)
    if scales is None:
        return None
    weight, bias, axes, view = scales
    with np.errstate(all="ignore"):
        y = np.where(np.abs(weight) > 1e-3, (out - bias) / weight, np.nan)
    if np.isnan(y).any() or _is_coarse(out, weight, eps):
        return None
    if view is not None:
        x, y = x.reshape(view), y.reshape(view)
    centre = np.zeros(1) if kind == "rms" else x.mean(axes, keepdims=True)
    spread = ((x - centre) ** 2).mean(axes)
    if float(np.max(np.abs(centre))) * _EPS > 1e-4 * float(np.sqrt(spread.min() + 1e-6)):
        return None  # a row of nearly one value: what is left of it is rounding
    square = (y**2).mean(axes)
    mean = 0.0 if kind == "rms" else float(np.max(np.abs(y.mean(axes)), initial=0.0))
    above = float(np.max(square - 1.0, initial=0.0))
    clear = spread > 1.0  # there an epsilon of up to 1e-3 hardly counts
    below = float(np.max(np.where(clear, 1.0 - square, 0.0), initial=0.0))
    excess = max(mean, above, below)
    if kind != "batch" or excess <= 2e-3:
        return excess
    return None  # it may have normalised by its running statistics; the operation executed again tells


_EPS = 2.0**-23


def _is_coarse(out: Array, weight: Array, eps: float) -> bool:
    """Whether the rounding of the result, without weight and bias, is larger than what is looked for."""
    with np.errstate(all="ignore"):
        return bool(np.max(np.abs(out / weight), initial=0.0) > 64.0) and eps > _EPS


_Scales = tuple[Array, Array, tuple[int, ...], list[int] | None]


def _normalized_axes(call: Call) -> int:
    """How many axes a normalisation without weight covers, by its argument `normalized_shape`; 0: unknown."""
    found = [r for r in call.records if r.part == "input" and r.path[:1] in (("1",), ("normalized_shape",))]
    numbers = [r.value for r in found if type(r.value) is int]
    listed = [r.value for r in found if isinstance(r.value, list | tuple)]
    return len(listed[0]) if listed else len(numbers)


def _scales(kind: str, call: Call, dump: Dump, x: Array) -> _Scales | None:
    """Weight and bias in a shape that fits the values, the axes that are normalised, and the shape with groups."""
    named = {
        ".".join(r.path).rpartition(".")[2]: r
        for r in call.records
        if r.kind == "tensor" and r.part in ("parameters", "input") and r.path and not r.path[0].isdigit()
    }
    weight = next((named[key] for key in ("weight", "gamma") if key in named), None)
    bias = next((named[key] for key in ("bias", "beta") if key in named), None)
    others = [r for r in _tensors(call, "input") if r.path[0].isdigit()][1:]
    if kind == "batch":
        others = [r for r in others if r.path[0] in (("3", "4") if len(others) >= 4 else ("1", "2"))]
    if weight is None and others:
        weight, bias = others[0], others[1] if len(others) > 1 else None
    arrays = [_load(dump, r) if r is not None else None for r in (weight, bias)]
    if any(r is not None and a is None for r, a in zip((weight, bias), arrays, strict=True)):
        return None
    w, b = (np.asarray(default) if a is None else a for a, default in zip(arrays, (1.0, 0.0), strict=True))
    if kind in ("layer", "rms"):
        count = w.ndim or _normalized_axes(call)
        if not 1 <= count <= x.ndim or (w.ndim and x.shape[-w.ndim :] != w.shape):
            return None
        return w, b, tuple(range(-count, 0)), None
    if x.ndim < 2 or (w.ndim and w.size != x.shape[1]):
        return None
    shape = [1, -1] + [1] * (x.ndim - 2)
    w, b = (each.reshape(shape) if each.ndim else each for each in (w, b))
    if kind == "batch":
        return w, b, (0, *range(2, x.ndim)), None
    groups = next((r.value for r in call.records if r.part == "input" and type(r.value) is int), None)
    if not isinstance(groups, int) or groups < 1 or x.shape[1] % groups:
        return None
    return w, b, (2,), [x.shape[0], groups, math.prod(x.shape[1:]) // groups]
