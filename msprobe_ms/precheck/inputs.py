"""Inputs drawn to recorded statistics, for calls whose tensors were not saved.

Each call has a separate random stream, from the seed and the call's name: operands of one shape differ, and a call
has the same inputs regardless of the other checked calls.
"""

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from msprobe.replay.operations import Operation
from msprobe.replay.recorded import Array, CannotReplay, Cause, Leaf, RecordedCall, leaves, mapped
from msprobe.replay.references import Given, given

from .measures import to_bfloat16

Generator = np.random.Generator

_PERMUTED = ("scatter", "index_copy", "index_put", "setitem", "put", "gather_nd")
"""Operations that write at indices, where an index that comes twice leaves open what is written."""


def stream(seed: int, name: str) -> Generator:
    """Return the random numbers of one call."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def with_inputs(call: RecordedCall, operation: Operation, seed: int, api: str) -> RecordedCall:
    """Return the call with drawn tensors for those that were not saved; CannotReplay if a range is not known.

    The inputs are equal in the forward and the backward call, because they are drawn first.
    """
    rng = stream(seed, api)
    made: dict[Leaf, Given] = {}
    has_floats = any(leaf.is_floating for leaf in leaves([call.args, call.kwargs])) or bool(call.parameters)

    def draw(value: Any) -> Any:
        if not isinstance(value, Leaf):
            return value
        if value not in made:
            made[value] = given(value, drawn(value, rng, operation, is_index=has_floats))
        return made[value]

    args, kwargs = mapped(call.args, draw), mapped(call.kwargs, draw)
    parameters = {key: draw(leaf) for key, leaf in call.parameters.items()}
    incoming = {path: draw(leaf) for path, leaf in call.incoming.items()}
    gradients = tuple((made.get(of, of), record) for of, record in call.gradients)
    return replace(call, args=args, kwargs=kwargs, parameters=parameters, incoming=incoming, gradients=gradients)


def drawn(leaf: Leaf, rng: Generator, operation: Operation, *, is_index: bool) -> Array:
    """Return a tensor of the recorded shape, dtype, maximum, minimum, mean and norm, as from `load_tensor`."""
    shape, dtype = leaf.shape, leaf.dtype
    if dtype == "bool":
        return _bools(leaf, rng)
    if dtype.startswith(("int", "uint")):
        return _integers(leaf, rng, operation, is_index=is_index)
    if "float" not in dtype or dtype.startswith(("float8", "hif")):
        raise CannotReplay(Cause.UNSUPPORTED_ARGUMENT, f"{leaf.record.name}: {dtype}")
    found = _structured(_floats(leaf, rng), operation)
    if dtype == "bfloat16":
        return to_bfloat16(found)
    with np.errstate(over="ignore"):
        return found.astype(dtype).reshape(shape)


def _bools(leaf: Leaf, rng: Generator) -> Array:
    statistics = leaf.record.statistics
    count = int(np.prod(leaf.shape))
    true = statistics.true_count if statistics is not None else None
    if true is None:
        top, bottom = (statistics.max, statistics.min) if statistics is not None else (True, False)
        share = 1.0 if bottom else 0.5 if top else 0.0
        return rng.random(leaf.shape) < share
    made = np.arange(count) < true
    return rng.permutation(made).reshape(leaf.shape)


def _integers(leaf: Leaf, rng: Generator, operation: Operation, *, is_index: bool) -> Array:
    statistics = leaf.record.statistics
    high, low = (statistics.max, statistics.min) if statistics is not None else (None, None)
    if 0 in leaf.shape:
        return np.zeros(leaf.shape, leaf.dtype)
    if high is None or low is None or not np.isfinite(high) or not np.isfinite(low):
        raise CannotReplay(Cause.MISSING_TENSOR, f"{leaf.record.name}: without a range")
    first, last = int(low), int(high)
    if is_index and last >= 0:
        first = max(first, 0)  # -100 is an index that is ignored; drawn indices are not
    if is_index and operation.name in _PERMUTED and leaf.shape:
        axis = next((i for i, n in enumerate(leaf.shape) if n > 1), 0)
        return np.argsort(rng.random(leaf.shape), axis=axis).astype(leaf.dtype)
    made = rng.integers(first, last, leaf.shape, np.int64, endpoint=True)
    return _with_extremes(made, first, last, rng).astype(leaf.dtype)


def _floats(leaf: Leaf, rng: Generator) -> Array:
    """Draw from a normal distribution of the recorded mean and norm within the recorded range; the ends occur once."""
    statistics, shape = leaf.record.statistics, leaf.shape
    count = int(np.prod(shape))
    if count == 0:
        return np.zeros(shape)
    if statistics is None or statistics.max is None or statistics.min is None:
        return rng.standard_normal(shape)
    high, low = _finite(statistics.max, 1.0), _finite(statistics.min, -1.0)
    low, high = min(low, high), max(low, high)
    mean, norm = statistics.mean, statistics.norm
    middle, spread = float("nan"), 0.0
    if mean is not None and norm is not None and np.isfinite(mean) and np.isfinite(norm):
        middle = float(mean)
        spread = float(np.sqrt(max(float(norm) ** 2 / count - middle**2, 0.0)))
    if spread > 0 and low <= middle <= high:
        made = np.clip(rng.normal(middle, spread, shape), low, high)
    else:
        made = rng.uniform(low, high, shape)
    made = _with_extremes(np.asarray(made), low, high, rng)
    return _with_non_finite(made, leaf, rng)


def _finite(value: Any, otherwise: float) -> float:
    value = float(value)
    return value if np.isfinite(value) else otherwise


def _with_extremes(made: Array, low: Any, high: Any, rng: Generator) -> Array:
    made = np.array(made)
    if made.size >= 2:
        first, second = rng.choice(made.size, 2, replace=False)
        made.flat[first], made.flat[second] = low, high
    return made


def _with_non_finite(made: Array, leaf: Leaf, rng: Generator) -> Array:
    """Return values with the recorded numbers of NaN and infinities: masks of -inf are common."""
    counts = leaf.record.statistics.non_finite if leaf.record.statistics is not None else None
    if counts is None:
        return made
    values = [np.nan] * counts.nan + [np.inf] * counts.positive_inf + [-np.inf] * counts.negative_inf
    places = rng.permutation(made.size)[: len(values)]
    kept = made[..., :1].copy() if made.ndim else made
    made.flat[places] = values[: len(places)]
    if made.ndim and counts.negative_inf:  # a row that is completely masked has no softmax
        made[..., :1] = np.where(np.isneginf(made).all(axis=-1, keepdims=True), kept, made[..., :1])
    return made


def _sorted(x: Array) -> Array:
    return np.sort(x, axis=-1) if x.ndim else x


def _positive_definite(x: Array) -> Array:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        return x
    found: Array = x @ np.swapaxes(x, -1, -2) + np.eye(x.shape[-1]) * max(float(np.abs(x).max()), 1e-3)
    return found


_STRUCTURES: dict[str, Callable[[Array], Array]] = {
    "searchsorted": _sorted,
    "bucketize": _sorted,
    "cholesky": _positive_definite,
    "cholesky_inverse": _positive_definite,
    "inverse": _positive_definite,
    "logdet": _positive_definite,
}
"""Operations whose inputs have a form that statistics do not tell."""


def _structured(made: Array, operation: Operation) -> Array:
    form = _STRUCTURES.get(operation.name)
    return form(made) if form is not None else made
