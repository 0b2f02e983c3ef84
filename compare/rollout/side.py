"""One side of the comparison, in any form: its response tokens, concatenated by sample.

| form | response |
|---|---|
| a list of 1-d arrays | all of each array; with a list of masks, the selected elements |
| a matrix (samples, columns) with a mask | the selected elements, anywhere in the row |
| a matrix with `lengths`, or with `prompt_lengths` | columns [prompt, prompt + length); prompt 0, length to the end |
| packed, 1-d | `lengths` of it, sample after sample; with the prompt tokens before each if the size includes them |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from msprobe.base.errors import UsageError

HIGHEST = 1e-3
"""A log-prob that is greater is invalid: float16 rounds log(1) to within 2^-10."""


LOWEST = -1e30
"""Values up to this mean -inf, as the least float32 and the least bfloat16 (-3.4e38) do in engines."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Side:
    """Response tokens of all samples, concatenated. `values` float64 and `tokens` int64 (or None) are of one length.

    `starts` has one entry more than there are samples: sample i is `begins[i]:begins[i + 1]`.
    """

    name: str
    values: Array
    starts: Array
    tokens: Array | None

    @property
    def sizes(self) -> Array:
        """Return the number of response tokens of each sample."""
        sizes: Array = np.diff(self.starts)
        return sizes

    @property
    def count(self) -> int:
        """Return the number of samples."""
        return len(self.starts) - 1


Chosen = tuple[Array | None, Array]
"""The positions of the response: flat ones (None: everything), and the sizes of the samples."""

Shape = tuple[int, ...] | Array
"""The shape of an array; for a ragged list the sizes of its rows."""


def read_side(
    name: str,
    values: object,
    tokens: object = None,
    mask: object = None,
    lengths: object = None,
    prompt_lengths: object = None,
) -> Side:
    """Return one side in its plain form; raise a UsageError if that is not possible, or if values are not log-probs."""
    flat, shape = _flatten(name, values)
    places, sizes = _choose(
        name, shape, len(flat), mask, read_numbers("lengths", lengths), read_numbers("prompt_lengths", prompt_lengths)
    )
    if flat.dtype.kind in "OSUMmcV":
        raise UsageError(f"{name}: an array of {flat.dtype} does not contain log-probs; pass floating-point numbers")
    taken = (flat if places is None else flat[places]).astype(np.float64, copy=False)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    _no_probabilities(name, taken, starts)
    return Side(name, taken, starts, None if tokens is None else _tokens(name, tokens, shape, places))


def _no_probabilities(name: str, values: Array, starts: Array) -> None:
    """Raise a UsageError if a value is above 0 by more than rounding; NaN passes."""
    highest = float(np.fmax.reduce(values, initial=-np.inf))
    if highest > HIGHEST:
        at = int(np.flatnonzero(values == highest)[0])
        sample = int(np.searchsorted(starts, at, side="right")) - 1
        hint = (
            "; these appear to be probabilities, pass their logarithms" if ((values >= 0) & (values <= 1)).all() else ""
        )
        raise UsageError(
            f"{name}: is {values[at]:.6g} in sample {sample} at position {at - starts[sample]}; a log-prob cannot "
            f"exceed 0{hint}"
        )


def _flatten(name: str, values: object) -> tuple[Array, Shape]:
    """Return all elements concatenated, and the shape."""
    if isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1:
        values = list(values)  # numpy's form of rows of several lengths
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        rows = [_array(f"{name}[{at}]", row) for at, row in enumerate(values)]
        if not rows:
            raise UsageError(f"{name}: is empty; give the log-probs of at least one sample")
        if all(row.ndim == 0 for row in rows):  # a list of numbers is one packed array
            return np.stack(rows), (len(rows),)
        wrong = next((at for at, row in enumerate(rows) if row.ndim != 1), None)
        if wrong is not None:
            raise UsageError(
                f"{name}[{wrong}]: has shape {list(rows[wrong].shape)}; a list must have one 1-d array per sample"
            )
        return np.concatenate(rows), np.array([len(row) for row in rows], np.int64)
    array = _array(name, values)
    if array.ndim not in (1, 2):
        raise UsageError(
            f"{name}: has shape {list(array.shape)}; give a list of 1-d arrays, a matrix (samples, columns) with its "
            "mask, or a packed 1-d array with lengths"
        )
    return array.reshape(-1), array.shape


def _array(name: str, values: object) -> Array:
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as err:  # RuntimeError: a tensor of torch that requires its gradient
        raise UsageError(f"{name}: cannot be read as an array ({err}); pass numpy arrays") from err


def read_numbers(name: str, values: object) -> Array | None:
    """Return counts, one for each sample; raise a UsageError for anything else."""
    if values is None:
        return None
    array = _array(name, values)
    is_right = array.ndim == 1 and array.dtype.kind in "iuf" and np.isfinite(array).all() and (array >= 0).all()
    if not is_right or (array != np.floor(array)).any():
        raise UsageError(f"{name}: must be a 1-d array with one non-negative integer per sample")
    return array.astype(np.int64)


def _choose(name: str, shape: Shape, size: int, mask: object, lengths: Array | None, prompts: Array | None) -> Chosen:
    is_ragged = isinstance(shape, np.ndarray)
    if is_ragged or len(shape) == 2:
        if mask is not None:
            return _by_mask(name, shape, mask)
        _same_count(name, len(shape) if is_ragged else shape[0], lengths, prompts)
        return (None, np.asarray(shape)) if is_ragged else _by_lengths(name, shape[0], shape[1], lengths, prompts)
    if mask is not None:
        raise UsageError(f"{name}: is packed (1-d), so lengths assign elements to samples; omit the mask")
    if lengths is None:
        raise UsageError(
            f"{name}: is packed (1-d) and requires lengths, the number of response tokens of each sample "
            "(np.diff(cu_seqlens)); pass a single sample as a list of one array"
        )
    _same_count(name, len(lengths), None, prompts)
    if lengths.sum() == size:
        return None, lengths
    if prompts is not None and lengths.sum() + prompts.sum() == size:
        sizes = np.stack((prompts, lengths), axis=1).reshape(-1)
        return np.flatnonzero(np.repeat(np.tile([False, True], len(lengths)), sizes)), lengths
    if len(lengths) > 1 and lengths[0] == 0 and lengths[-1] == size and (np.diff(lengths) >= 0).all():
        raise UsageError(f"{name}: lengths appear to be cumulative sums; pass np.diff(cu_seqlens)")
    raise UsageError(f"{name}: has {size} elements, but lengths add up to {lengths.sum()}; these must be equal")


def _same_count(name: str, count: int, lengths: Array | None, prompts: Array | None) -> None:
    for what, numbers in (("lengths", lengths), ("prompt_lengths", prompts)):
        if numbers is not None and len(numbers) != count:
            raise UsageError(f"{name}: has {count} samples, and {what} {len(numbers)} entries; give one per sample")


def _by_mask(name: str, shape: Shape, mask: object) -> Chosen:
    of_mask = _neighbor(name, "mask")
    if isinstance(shape, np.ndarray):
        values, mask_shape = _flatten(of_mask, mask)
        if not isinstance(mask_shape, np.ndarray) or not np.array_equal(mask_shape, shape):
            raise UsageError(f"{of_mask}: must be a list of masks, each as long as its array")
    else:
        values = _array(of_mask, mask)
        if values.shape != shape:
            raise UsageError(
                f"{of_mask}: has shape {list(values.shape)}, {name} {list(shape)}; the mask must mark each "
                "element as response or not"
            )
    kept = values.astype(bool)
    if values.dtype != np.bool_ and (values.dtype.kind not in "iuf" or not np.array_equal(kept, values)):
        raise UsageError(f"{of_mask}: must contain only 0 and 1, or booleans")
    if isinstance(shape, np.ndarray):
        row = np.repeat(np.arange(len(shape)), shape)
        return np.flatnonzero(kept), np.bincount(row[kept], minlength=len(shape))
    return np.flatnonzero(kept), np.count_nonzero(kept, axis=1)


def _neighbor(name: str, what: str) -> str:
    """Return the argument of the same side: `generated (step 0)` and `mask` give `generated_mask (step 0)`."""
    argument, _, place = name.partition(" ")
    return f"{argument}_{what} {place}".rstrip()


def _by_lengths(name: str, rows: int, width: int, lengths: Array | None, prompts: Array | None) -> Chosen:
    if lengths is None and prompts is None:
        raise UsageError(
            f"{name}: is a matrix whose response elements are unknown; give {_neighbor(name, 'mask')}, or lengths"
        )
    first = np.zeros(rows, np.int64) if prompts is None else prompts
    last = np.full(rows, width) if lengths is None else first + lengths
    beyond = np.flatnonzero((last > width) | (first > last))
    if len(beyond):
        at = beyond[0]
        raise UsageError(
            f"{name}: sample {at} would use columns {first[at]} to {last[at]} of {width}; prompt_lengths apply if "
            f"a row also contains its prompt, otherwise give {_neighbor(name, 'mask')}"
        )
    column = np.arange(width)
    kept = (column >= first[:, None]) & (column < last[:, None])
    return np.flatnonzero(kept), last - first


def _tokens(name: str, tokens: object, shape: Shape, places: Array | None) -> Array:
    """Return the token ids of the response; padding may have any values."""
    flat, token_shape = _flatten(_neighbor(name, "tokens"), tokens)
    if not np.array_equal(np.asarray(token_shape), np.asarray(shape)):
        raise UsageError(f"{_neighbor(name, 'tokens')}: must have the shape of {name}: one token id per log-prob")
    taken = flat if places is None else flat[places]
    kind = taken.dtype.kind
    is_whole = kind in "iu" or (kind == "f" and bool((np.isfinite(taken) & (taken == np.floor(taken))).all()))
    if len(taken) and not is_whole:
        raise UsageError(f"{_neighbor(name, 'tokens')}: must be integers, not {flat.dtype}")
    return taken.astype(np.int64)


def joined(sides: Sequence[Side]) -> Side:
    """Return the concatenation of batches. Data that some batches lack are left out."""
    starts = np.concatenate(([0], np.cumsum(np.concatenate([side.sizes for side in sides]))))
    tokens = [side.tokens for side in sides if side.tokens is not None]
    return Side(
        sides[0].name,
        np.concatenate([side.values for side in sides]),
        starts,
        np.concatenate(tokens) if len(tokens) == len(sides) else None,
    )
