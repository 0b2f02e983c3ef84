"""One pair of files becomes one row: opened, cut to what both have, measured, judged. No failure leaves this file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.compare.judge.standard import family, standard_of
from msprobe.compare.judge.verdict import PASS, Cause, Verdict, judge_measures, unjudged
from msprobe.compare.measure.tensors import measure as measure_for_judging
from msprobe.compare.reason import Reason, Why
from msprobe.store.npy import examine, open_npy
from msprobe.store.read import tensor_file
from msprobe.store.tensor_file import open_tensor

from .key import Key
from .measure import Array, Found, Tensor, measure
from .pair import Pair


@dataclass(frozen=True, slots=True)
class Row:
    """What was found of one pair; `found` is None where nothing could be measured, a shape where there is no file."""

    key: Key
    target_shape: tuple[int, ...] | None
    golden_shape: tuple[int, ...] | None
    found: Found | None
    verdict: Verdict


def judge_all(pairs: Sequence[Pair]) -> list[Row]:
    """One row per pair, in their order; what a worker process is given to do."""
    return [judge(pair) for pair in pairs]


def judge(pair: Pair) -> Row:
    """The row of one pair, `unjudged` where a side is missing or cannot be read."""
    problems: list[Reason] = []
    target, golden = (_opened(path, problems) for path in (pair.target, pair.golden))
    shapes = _shape(target), _shape(golden)
    if pair.target is None or pair.golden is None:
        side = "target" if pair.target else "golden"
        problems.insert(0, Reason(Why.ONE_SIDE_FILE, side, str(pair.target or pair.golden)))
    if target is None or golden is None:
        cause = Cause.UNREADABLE if pair.target and pair.golden else Cause.UNMATCHED
        return Row(pair.key, *shapes, None, unjudged(cause, *problems))
    try:
        found, verdict = _compared(target, golden)
    except Exception as err:  # one pair that fails, for whatever reason, is one row; the others go on
        why = str(err) or type(err).__name__
        reason = Reason(Why.FAILED, name=why, names=(str(pair.target), str(pair.golden)))
        return Row(pair.key, *shapes, None, unjudged(Cause.FAILED, reason))
    return Row(pair.key, *shapes, found, verdict)


def lost(pair: Pair, how: str) -> Row:
    """The row of a pair whose worker processes died over it; `how` is a sentence."""
    reason = Reason(Why.PROCESS_DIED, name=how.removesuffix("."), names=(str(pair.target), str(pair.golden)))
    return Row(pair.key, None, None, None, unjudged(Cause.FAILED, reason))


def size_of(pair: Pair) -> int:
    """Bytes to be read for a pair, as far as the disk tells."""
    total = 0
    for path in (pair.target, pair.golden):
        try:
            total += path.stat().st_size if path else 0
        except OSError:  # judging says why
            continue
    return total


def _opened(path: Path | None, problems: list[Reason]) -> Tensor | None:
    try:
        return open_npy(tensor_file(path.parent, path.name, "")) if path else None
    except (DumpError, OSError) as err:
        problems.append(Reason(Why.UNREADABLE, name=str(err)))
        return None


def _shape(tensor: Tensor | None) -> tuple[int, ...] | None:
    return None if tensor is None else tensor.shape


def _compared(target: Tensor, golden: Tensor) -> tuple[Found | None, Verdict]:
    remarks: list[Reason] = []
    dtypes, shapes = (target.dtype, golden.dtype), (target.shape, golden.shape)
    is_error = shapes[0] != shapes[1]
    if is_error:
        target, golden = _common(_mapped(target), _mapped(golden))
        why = Why.SHAPES_CUT if len(shapes[0]) == len(shapes[1]) else Why.SHAPES_FLATTENED
        remarks.append(Reason(why, target=shapes[0], golden=shapes[1], at=target.shape))
        if target.size == 0:
            return None, Verdict("error", (*remarks, Reason(Why.NO_COMMON_ELEMENT)))
    if dtypes[0] != dtypes[1]:
        remarks.append(Reason(Why.DTYPES, target=str(dtypes[0]), golden=str(dtypes[1])))
        is_error = is_error or family(str(dtypes[0])) != family(str(dtypes[1]))
    found = measure(target, golden)
    verdict = PASS if found.same == found.size else _judged(target, golden)
    return found, Verdict("error" if is_error else verdict.grade, (*remarks, *verdict.reasons))


def _judged(target: Tensor, golden: Tensor) -> Verdict:
    """By the standard of the coarser dtype: nobody can ask for digits that one side never had."""
    standard = max((standard_of(str(array.dtype)) for array in (target, golden)), key=lambda s: s.relative)
    return judge_measures(measure_for_judging(target, golden, standard), standard, target.shape)


def _mapped(tensor: Tensor) -> Array:
    """A tensor of which any part can be had without the whole."""
    if isinstance(tensor, np.ndarray):
        return tensor
    with open_tensor(tensor.path) as file:
        return np.memmap(file, tensor.dtype, "r", examine(tensor.path).offset, tensor.shape).view(np.ndarray)


def _common(target: Array, golden: Array) -> tuple[Array, Array]:
    """Both cut to the common minimum of each axis; flattened first where they differ in the number of axes."""
    if target.ndim != golden.ndim:
        target, golden = target.reshape(-1), golden.reshape(-1)
    cut = tuple(slice(min(lengths)) for lengths in zip(target.shape, golden.shape, strict=True))
    return target[cut], golden[cut]
