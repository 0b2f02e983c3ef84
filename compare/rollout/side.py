"""One side of the comparison: its response tokens, sample behind sample; and the thresholds of a rollout check.

The thresholds of a rollout check, each with where it comes from. Log-probs are natural logarithms, gaps in nats.

Rounding. A log-prob is a logit (5 to 30 in size) less the logarithm of a sum. float32 has a relative step of 2^-24 =
6e-8 there, so that two correct computations in other orders (other batch shapes, other kernels) are 1e-7 to 1e-5 apart.
bfloat16 has 2^-9 = 2e-3: gaps of single tokens of 1e-2 to 1e-1, with mean zero.

How much of that is accepted between a rollout engine and a training. The FAQ of verl asks that the mean difference of
the two probabilities (`rollout_probs_diff_mean`) is below 0.005, and takes more than 0.01 for a fault of the engine.
H. He and others, "Defeating Nondeterminism in LLM Inference" (2025), found a KL of about 1e-3 between a sampler and a
trainer of one model in bfloat16. Both are cited as customs of the field; nothing of ours measured them. An update of
the policy is seen above that.

One side of the comparison, in whichever form it was kept: its response tokens, sample behind sample.

| form | what counts as response |
|---|---|
| a list of 1-d arrays | all of each array; with a list of masks, what the mask has |
| a matrix (samples, columns) with a mask | what the mask has, wherever that is in the row |
| a matrix with `lengths`, or with `prompt_lengths` | columns [prompt, prompt + length); prompt 0, length to the end |
| packed, 1-d | `lengths` of it, sample behind sample; with as many prompt tokens before each where the size says so |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from msprobe.base.errors import UsageError

HIGHEST = 1e-3
"""A log-prob above 0 by more than that is none: float16 rounds log(1) to within 2^-10."""


LOWEST = -1e30
"""From there on a value stands for -inf, as the least float32 and the least bfloat16 (-3.4e38) do in engines."""


@dataclass(frozen=True)
class Rounding:
    """What counts as rounding: mean absolute gap, greatest gap, and k3, all at most that."""

    mean: float
    greatest: float
    kl: float


CLEAN = Rounding(1e-5, 1e-3, 1e-8)
"""float32 in another order: no difference at all for whoever trains."""

NUMERIC = Rounding(0.02, 1.0, 1e-3)
"""Rounding to 16 bits somewhere on the way, or another eps: a warning. The mean is ten steps of bfloat16 at 1."""

NUMERIC_16_BIT = Rounding(0.05, 2.0, 3e-3)
"""The same where a side itself is stored in 16 bits: the last rounding of a value of 8 alone is up to 2^-5."""

PROBABILITIES_APART = 0.01
"""Mean difference of probabilities that verl takes for a fault."""

LAGS = (-3, -2, -1, 1, 2, 3)
NEARER_BY = 0.5
"""At a lag of a shift the mean absolute gap is at most this part of that at lag 0. Unrelated values gain nothing."""

BEYOND, BEYOND_BY_CHANCE = 0.1, 10.0
"""Labels a place off: two probabilities of one distribution add up to more than 1 in at most this part of the places
where unrelated ones do. Of those there must be so many: one or none instead of ten is chance once in 2,000 times."""

EQUAL = 5
"""The same: places that are equal to the digit at a lag, and at least ten times as many as by chance."""

FEWEST = 8
"""Tokens below which nothing is said of the cause."""

JUMP = 5.0
"""Samples fall into two kinds where one is so many times farther apart than the next; of float32 a fault makes 1e3."""

TEMPERATURE_FROM = 0.02
"""Of abs(1/T - 1). Nobody sets less, while another eps scales logits by less than that."""

AGREES = 1e-4
"""Gap up to which a single token agrees, where both sides compute in float32."""

SCATTER = Rounding(0.1, float("inf"), 0.02)
"""Up to here gaps may be of a coarser rounding (8 bits, a great eps), if nothing in them goes one way."""

ONE_WAY, NO_WAY = 0.3, 0.25
ONE_WAY_SAMPLE, NO_WAY_SAMPLE = 0.08, 0.05
"""Correlation of two gaps of one token id, and of one sample: from the first number on they go one way, up to the
second they do not. Measured on small trained models (tests/rollout_causes, five seeds that are not those of the
tests): after one and after four updates 0.42 to 0.70 for tokens and 0.10 to 0.18 for samples; with bfloat16, float16
and another eps at most 0.20 and 0.03."""

NATS = 1.0
"""A gap of a single token that one model cannot have meant."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Side:
    """Response tokens of all samples on end. `values` float64 and `tokens` int64 (or None) are of one length.

    `begins` has one entry more than there are samples: sample i is `begins[i]:begins[i + 1]`.
    """

    name: str
    values: Array
    begins: Array
    tokens: Array | None

    @property
    def sizes(self) -> Array:
        """Response tokens of each sample."""
        sizes: Array = np.diff(self.begins)
        return sizes

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self.begins) - 1


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Where the response is in what was given: flat places in it, and the sizes of the samples."""

    places: Array | None  # None: everything
    sizes: Array


def read_side(
    name: str,
    values: object,
    tokens: object = None,
    mask: object = None,
    lengths: object = None,
    prompt_lengths: object = None,
) -> Side:
    """Bring one side into its plain form; UsageError where that cannot be done, or where values are no log-probs."""
    flat, shape = _flatten(name, values)
    chosen = _choose(
        name, shape, len(flat), mask, read_numbers("lengths", lengths), read_numbers("prompt_lengths", prompt_lengths)
    )
    if flat.dtype.kind in "OSUMmcV":
        raise UsageError(f"{name}: an array of {flat.dtype} holds no log-probs; pass floating-point numbers")
    taken = (flat if chosen.places is None else flat[chosen.places]).astype(np.float64, copy=False)
    begins = np.concatenate(([0], np.cumsum(chosen.sizes)))
    _no_probabilities(name, taken, begins)
    return Side(name, taken, begins, _tokens_of(name, tokens, shape, chosen))


def _no_probabilities(name: str, values: Array, begins: Array) -> None:
    """UsageError where a value is above 0 by more than rounding; NaN is no such value."""
    highest = float(np.fmax.reduce(values, initial=-np.inf))
    if highest > HIGHEST:
        at = int(np.flatnonzero(values == highest)[0])
        sample = int(np.searchsorted(begins, at, side="right")) - 1
        hint = "; these look like probabilities, give their logarithms" if ((values >= 0) & (values <= 1)).all() else ""
        raise UsageError(
            f"{name}: is {values[at]:.6g} in sample {sample} at position {at - begins[sample]}; a log-prob is never "
            f"above 0{hint}"
        )


def _flatten(name: str, given: object) -> tuple[Array, tuple[int, ...] | Array]:
    """All elements on end, and the shape; of a ragged list the sizes of its rows."""
    if isinstance(given, np.ndarray) and given.dtype == object and given.ndim == 1:
        given = list(given)  # how numpy holds rows of several lengths
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        rows = [_array(f"{name}[{at}]", row) for at, row in enumerate(given)]
        if not rows:
            raise UsageError(f"{name}: is empty; give the log-probs of at least one sample")
        if all(row.ndim == 0 for row in rows):  # a list of numbers is one packed array
            return np.stack(rows), (len(rows),)
        wrong = next((at for at, row in enumerate(rows) if row.ndim != 1), None)
        if wrong is not None:
            raise UsageError(
                f"{name}[{wrong}]: has shape {list(rows[wrong].shape)}; a list holds one 1-d array for each sample"
            )
        return np.concatenate(rows), np.array([len(row) for row in rows], np.int64)
    array = _array(name, given)
    if array.ndim not in (1, 2):
        raise UsageError(
            f"{name}: has shape {list(array.shape)}; give a list of 1-d arrays, a matrix (samples, columns) with its "
            "mask, or a packed 1-d array with lengths"
        )
    return array.reshape(-1), array.shape


def _array(name: str, given: object) -> Array:
    try:
        return np.asarray(given)
    except (ValueError, TypeError, RuntimeError) as err:  # RuntimeError: a tensor of torch that needs its gradient
        raise UsageError(f"{name}: cannot be read as an array ({err}); pass arrays of numpy") from err


def read_numbers(name: str, given: object) -> Array | None:
    """Counts, one for each sample; UsageError for anything else."""
    if given is None:
        return None
    array = _array(name, given)
    is_right = array.ndim == 1 and array.dtype.kind in "iuf" and np.isfinite(array).all() and (array >= 0).all()
    if not is_right or (array != np.floor(array)).any():
        raise UsageError(f"{name}: must be one whole number from 0 on for each sample, as a 1-d array")
    return array.astype(np.int64)


def _choose(
    name: str, shape: tuple[int, ...] | Array, size: int, mask: object, lengths: Array | None, prompts: Array | None
) -> _Chosen:
    if isinstance(shape, np.ndarray):
        if mask is not None:
            return _by_ragged_mask(name, shape, mask)
        _same_count(name, len(shape), lengths, prompts)
        return _Chosen(None, shape)
    if len(shape) == 2:
        if mask is not None:
            return _by_mask(name, (shape[0], shape[1]), mask)
        _same_count(name, shape[0], lengths, prompts)
        return _by_lengths(name, shape[0], shape[1], lengths, prompts)
    if mask is not None:
        raise UsageError(f"{name}: is packed (1-d), where lengths say what belongs to which sample; leave the mask out")
    if lengths is None:
        raise UsageError(
            f"{name}: is packed (1-d) and needs lengths, the number of response tokens of each sample "
            "(np.diff(cu_seqlens)); a single sample is a list of one array"
        )
    _same_count(name, len(lengths), None, prompts)
    return _packed(name, size, lengths, prompts)


def _same_count(name: str, count: int, lengths: Array | None, prompts: Array | None) -> None:
    for what, numbers in (("lengths", lengths), ("prompt_lengths", prompts)):
        if numbers is not None and len(numbers) != count:
            raise UsageError(
                f"{name}: has {count} samples, and {what} {len(numbers)} entries; give one for each sample"
            )


def _by_ragged_mask(name: str, sizes: Array, mask: object) -> _Chosen:
    of_mask = _beside(name, "mask")
    flat, mask_shape = _flatten(of_mask, mask)
    if not isinstance(mask_shape, np.ndarray) or not np.array_equal(mask_shape, sizes):
        raise UsageError(f"{of_mask}: must be a list of masks, each as long as the array that it belongs to")
    kept = _truth(of_mask, flat)
    row = np.repeat(np.arange(len(sizes)), sizes)
    return _Chosen(np.flatnonzero(kept), np.bincount(row[kept], minlength=len(sizes)))


def _by_mask(name: str, shape: tuple[int, int], mask: object) -> _Chosen:
    of_mask = _beside(name, "mask")
    given = _array(of_mask, mask)
    if given.shape != shape:
        raise UsageError(
            f"{of_mask}: has shape {list(given.shape)}, {name} {list(shape)}; the mask says of each element whether "
            "it is of a response"
        )
    kept = _truth(of_mask, given)
    sizes = np.count_nonzero(kept, axis=1)
    return _Chosen(np.flatnonzero(kept), sizes)


def _beside(name: str, what: str) -> str:
    """The argument of the same side: `generated (step 0)` and `mask` give `generated_mask (step 0)`."""
    argument, _, place = name.partition(" ")
    return f"{argument}_{what} {place}".rstrip()


def _truth(name: str, given: Array) -> Array:
    kept: Array = given.astype(bool)
    if given.dtype != np.bool_ and (given.dtype.kind not in "iuf" or not np.array_equal(kept, given)):
        raise UsageError(f"{name}: must hold only 0 and 1, or booleans")
    return kept


def _by_lengths(name: str, rows: int, width: int, lengths: Array | None, prompts: Array | None) -> _Chosen:
    if lengths is None and prompts is None:
        raise UsageError(
            f"{name}: is a matrix, and nothing says which of its elements are of a response; give "
            f"{_beside(name, 'mask')}, or lengths"
        )
    first = np.zeros(rows, np.int64) if prompts is None else prompts
    last = np.full(rows, width) if lengths is None else first + lengths
    beyond = np.flatnonzero((last > width) | (first > last))
    if len(beyond):
        at = beyond[0]
        raise UsageError(
            f"{name}: sample {at} would take columns {first[at]} to {last[at]} of {width}; prompt_lengths count where "
            f"a row holds its prompt too, otherwise give {_beside(name, 'mask')}"
        )
    column = np.arange(width)
    kept = (column >= first[:, None]) & (column < last[:, None])
    return _Chosen(np.flatnonzero(kept), last - first)


def _packed(name: str, size: int, lengths: Array, prompts: Array | None) -> _Chosen:
    if lengths.sum() == size:
        return _Chosen(None, lengths)
    if prompts is not None and lengths.sum() + prompts.sum() == size:
        sizes = np.stack((prompts, lengths), axis=1).reshape(-1)
        kept = np.repeat(np.tile([False, True], len(lengths)), sizes)
        return _Chosen(np.flatnonzero(kept), lengths)
    if len(lengths) > 1 and lengths[0] == 0 and lengths[-1] == size and (np.diff(lengths) >= 0).all():
        raise UsageError(f"{name}: lengths look like running sums; give np.diff(cu_seqlens)")
    raise UsageError(f"{name}: has {size} elements, and lengths add up to {lengths.sum()}; they must be the same")


def _tokens_of(name: str, tokens: object, shape: tuple[int, ...] | Array, chosen: _Chosen) -> Array | None:
    if tokens is None:
        return None
    flat, token_shape = _flatten(_beside(name, "tokens"), tokens)
    if not np.array_equal(np.asarray(token_shape), np.asarray(shape)):
        raise UsageError(f"{_beside(name, 'tokens')}: must have the form of {name}: one token id for each log-prob")
    taken = flat if chosen.places is None else flat[chosen.places]  # padding may hold anything
    is_float = taken.dtype.kind == "f"
    if len(taken) and (
        taken.dtype.kind not in "iuf" or (is_float and not (np.isfinite(taken) & (taken == np.floor(taken))).all())
    ):
        raise UsageError(f"{_beside(name, 'tokens')}: must be whole numbers, not {flat.dtype}")
    return taken.astype(np.int64)


def joined(sides: Sequence[Side]) -> Side:
    """Batches of one side on end. What not every batch tells, nobody tells."""
    begins = np.concatenate(([0], np.cumsum(np.concatenate([side.sizes for side in sides]))))
    tokens = [side.tokens for side in sides if side.tokens is not None]
    return Side(
        sides[0].name,
        np.concatenate([side.values for side in sides]),
        begins,
        np.concatenate(tokens) if len(tokens) == len(sides) else None,
    )
