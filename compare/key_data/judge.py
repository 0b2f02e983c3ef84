"""One pair of files becomes one row: opened, cut to what both have, measured, judged. No failure leaves this file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.compare.judge.standard import family, standard_of
from msprobe.compare.judge.verdict import PASS, Cause, Verdict, judge_measures, unjudged
from msprobe.compare.measure.tensors import measure as measure_for_judging
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
    problems: list[str] = []
    target, golden = (_opened(path, problems) for path in (pair.target, pair.golden))
    shapes = _shape(target), _shape(golden)
    if pair.target is None or pair.golden is None:
        side = "target (first folder)" if pair.target else "golden (second folder)"
        problems.insert(0, f"Only on the {side} side: {pair.target or pair.golden}.")
    if target is None or golden is None:
        cause = Cause.UNREADABLE if pair.target and pair.golden else Cause.UNMATCHED
        return Row(pair.key, *shapes, None, unjudged(" ".join(problems), cause))
    try:
        found, verdict = _compared(target, golden)
    except Exception as err:  # one pair that fails, for whatever reason, is one row; the others go on
        why = str(err) or type(err).__name__
        reason = f"Not compared: {why}; {pair.target}, {pair.golden}."
        return Row(pair.key, *shapes, None, unjudged(reason, Cause.FAILED))
    return Row(pair.key, *shapes, found, verdict)


def lost(pair: Pair, how: str) -> Row:
    """The row of a pair whose worker processes died over it; `how` is a sentence."""
    reason = f"Not compared: the process died over it; {pair.target}, {pair.golden}. {how}"
    return Row(pair.key, None, None, None, unjudged(reason, Cause.FAILED))


def size_of(pair: Pair) -> int:
    """Bytes to be read for a pair, as far as the disk tells."""
    total = 0
    for path in (pair.target, pair.golden):
        try:
            total += path.stat().st_size if path else 0
        except OSError:  # judging says why
            continue
    return total


def _opened(path: Path | None, problems: list[str]) -> Tensor | None:
    try:
        return open_npy(tensor_file(path.parent, path.name, "")) if path else None
    except (DumpError, OSError) as err:
        problems.append(f"Not readable: {err}.")
        return None


def _shape(tensor: Tensor | None) -> tuple[int, ...] | None:
    return None if tensor is None else tensor.shape


def _compared(target: Tensor, golden: Tensor) -> tuple[Found | None, Verdict]:
    remarks: list[str] = []
    dtypes, shapes = (target.dtype, golden.dtype), (target.shape, golden.shape)
    is_error = shapes[0] != shapes[1]
    if is_error:
        target, golden = _common(_mapped(target), _mapped(golden))
        how = "" if len(shapes[0]) == len(shapes[1]) else " of the flattened two"
        remarks.append(
            f"Shapes differ: {list(shapes[0])}, golden {list(shapes[1])}; compared in {list(target.shape)}{how}."
        )
        if target.size == 0:
            return None, Verdict("error", f"{remarks[0]} No element is in both.")
    if dtypes[0] != dtypes[1]:
        remarks.append(f"Dtypes differ: {dtypes[0]}, golden {dtypes[1]}.")
        is_error = is_error or family(str(dtypes[0])) != family(str(dtypes[1]))
    found = measure(target, golden)
    verdict = PASS if found.same == found.size else _judged(target, golden)
    if verdict.reason:
        remarks.append(verdict.reason)
    return found, Verdict("error" if is_error else verdict.grade, " ".join(remarks))


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
