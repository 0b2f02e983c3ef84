"""The band in which two correct trainings remain, and the series that leave it at each step. This module judges the
deviations.

Two correct trainings with different rounding drift, slowly or exponentially, all targets together. A fault is a jump: a
deviation many times as large as any of the same series in the previous steps, in several targets at the same time. If
both sides were equal to the last digit, the first difference is evidence by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from .deviations import OF_UPDATES, SHARES, UPDATE, Deviations, finite_on_one_side
from .pairing import TENSOR

Array = np.ndarray[Any, Any]


class Basis(Enum):
    """Sources of a band."""

    EQUAL = "both were equal in every digit before"
    LEARNED = "the steps before"
    CALIBRATED = "a clean pair"
    FIRST_STEP = "what rounding explains in the first step"
    NOTHING = "too few steps"


@dataclass(frozen=True)
class Limits:
    """The limits, each with its reason.

    Measured on trainings of three small nets (`benchmarks/monitor_faults`): in clean pairs only series that are pure
    noise (the gradient of a bias that a softmax cancels) exceed 4 times their maximum of 24 steps.
    """

    jump: float = 4.0  # times the greatest deviation of the window
    window: int = 24  # steps: enough to show heavy tails
    learn: int = 16  # steps that are not judged: deviations grow tenfold a step as an optimizer begins
    resolutions: float = 2.0  # digits of both sides are rounded
    digits: float = 4.0  # resolutions: a difference that the files hardly show
    targets: int = 3  # that leave in a step or soon after: a bias of pure noise leaves alone
    soon: int = 2  # steps: a fault of the first layer reaches others by its moments and weights
    alone: float = 1000.0  # times the window's greatest: evidence of one target alone
    equal_steps: int = 16  # rounding becomes visible in the first steps, not after this number
    few_equal_steps: int = 3
    large: float = 1e-3  # no rounding of float32 begins so large
    first_step: float = 0.25  # bfloat16 moves the norm of no layer by that much in one step
    passing_steps: int = 3
    passing_size: float = 0.1  # of a norm: one element of a batch of 16; up to 0.07 in clean pairs of 500 steps
    passing_rest: float = 0.5  # relative to its value, and at most twice: a fault of a backward pass is permanent
    passing_wider: float = 10.0  # the band, for as many steps as it is learned from: weights follow the jump
    passing_steady: float = 0.2  # of the targets: by chance few stay
    faint: float = 2.0  # of the window's greatest: for the update before a step that leaves


LIMITS = Limits()

_STEADY = ("norm", "mean")
_EXTREMES = ("min", "max")

Series = tuple[int, str, str]
"""Rank, kind, statistic."""


@dataclass(frozen=True, eq=False)
class Bands:
    """The bands of all series."""

    basis: Basis
    first_difference: int | None
    calibrated: Mapping[Series, Deviations]
    unsteady: frozenset[Series] = frozenset()

    def limit(self, of: Deviations, first: int = 0, last: int | None = None) -> Array:
        """Return the half width of the band, targets x the columns from `first` to before `last`; nan if nothing is
        judged."""
        last = len(of.step) if last is None else last
        if self.basis is Basis.EQUAL:
            return np.zeros((len(of.names), last - first))
        floor = LIMITS.resolutions * of.resolution[:, first:last]
        if self.basis is Basis.CALIBRATED:
            return np.asarray(LIMITS.jump * np.maximum(self._of_clean(of)[:, first:last], floor))
        if (of.rank, of.kind, of.statistic) in self.unsteady:
            return np.full((len(of.names), last - first), np.nan)
        begin = max(0, first - LIMITS.window)
        past = _greatest_before(_size(of.value[:, begin:last]), LIMITS.window)[:, first - begin :]
        limit = LIMITS.jump * np.maximum(past, floor)
        limit[:, : max(0, min(LIMITS.learn - first, last - first))] = np.nan
        return np.asarray(limit)

    def _of_clean(self, of: Deviations) -> Array:
        """Return the maximum deviation of the clean pair up to a window after each step; nan if it has no values."""
        found = np.full(of.value.shape, np.nan)
        clean = self.calibrated.get((of.rank, of.kind, of.statistic))
        if clean is None:
            return found
        reached = np.maximum.accumulate(_size(clean.value), axis=1)
        ahead = np.minimum(np.arange(reached.shape[1]) + LIMITS.window, reached.shape[1] - 1)
        wide = 1 + int(max(of.micro_step.max(initial=0), clean.micro_step.max(initial=0)))
        at = np.searchsorted(clean.step * wide + clean.micro_step, of.step * wide + of.micro_step)
        inside = at < len(clean.step)
        at = np.where(inside, at, 0)
        inside &= (clean.step[at] == of.step) & (clean.micro_step[at] == of.micro_step)
        row_of = {name: row for row, name in enumerate(clean.names)}
        known = [row for row, name in enumerate(of.names) if name in row_of]
        rows = [row_of[of.names[row]] for row in known]
        if rows:
            found[np.ix_(np.array(known), np.flatnonzero(inside))] = reached[np.ix_(np.array(rows), ahead[at[inside]])]
        return found

    def leaves(self, of: Deviations, first: int = 0, last: int | None = None, factor: float = 1.0) -> Array:
        """Return the targets that leave at each column; `factor` times the band."""
        value = of.value[:, first:last]
        with np.errstate(invalid="ignore"):
            if self.basis is Basis.EQUAL:
                return np.asarray(np.abs(value) > 0)
            out = np.abs(value) > factor * self.limit(of, first, last)
            return np.asarray(out | finite_on_one_side(of, first, last))


def bands(measured: Sequence[Deviations], calibrated: Sequence[Deviations] | None) -> Bands:
    """Return the bands of the series of a pair; `calibrated`: the deviations of a clean pair."""
    of_clean = {(d.rank, d.kind, d.statistic): d for d in calibrated or ()}
    first = first_difference(measured)
    if calibrated is not None:
        return Bands(Basis.CALIBRATED, first, of_clean)
    if first is None:
        return Bands(Basis.EQUAL, None, {})
    if _is_evidence(measured, first):
        return Bands(Basis.EQUAL, first, {})
    return Bands(Basis.LEARNED, first, {}, _unsteady(measured))


def _unsteady(measured: Sequence[Deviations]) -> frozenset[Series]:
    """Return whether these are extremes or shares of elements of a kind that has more stable statistics: an extreme
    moves from one element to another with another deviation, and a share changes by whole elements, so that earlier
    steps are not informative."""
    steady = {(d.rank, d.kind) for d in measured if d.statistic in _STEADY}
    series = {(d.rank, d.kind, d.statistic) for d in measured}
    unsteady = (*_EXTREMES, *SHARES)
    return frozenset((rank, kind, name) for rank, kind, name in series if name in unsteady and (rank, kind) in steady)


def first_difference(measured: Sequence[Deviations]) -> int | None:
    """Return the first step at which anything differs."""
    steps = [int(d.step[at[0]]) for d in measured if len(at := np.flatnonzero(differs(d.value).any(axis=0)))]
    return min(steps, default=None)


def differs(value: Array) -> Array:
    """Return the values that differ; a value on one side only is not a difference."""
    return np.asarray((value != 0) & ~np.isnan(value))


def _is_evidence(measured: Sequence[Deviations], first: int) -> bool:
    """Return whether the first difference is more than rounding that becomes visible."""
    steps = len({int(step) for d in measured for step in d.step[d.step < first]})
    if steps < LIMITS.few_equal_steps:
        return False
    continuous = [d for d in measured if d.kind != UPDATE and d.statistic not in SHARES]
    at = [d.value[:, d.step == first] for d in continuous]
    of_others = (value for d, value in zip(continuous, at, strict=True) if d.kind not in OF_UPDATES)
    greatest = max((float(_size(value).max(initial=0)) for value in of_others), default=0.0)
    if greatest > LIMITS.large:
        return True
    if steps < LIMITS.equal_steps:
        return False
    # Rounding that left everything before equal would hardly make that many differ simultaneously.
    different = sum(int(differs(value).sum()) for value in at)
    compared = sum(value.size for value in at)
    before = sum(d.value[:, d.step < first].size for d in continuous)
    return different >= 5 + 3 * (3 * compared / max(before, 1))


def first_step_apart(measured: Sequence[Deviations]) -> list[Deviations]:
    """Return the kinds whose norms differ in their first step by more than rounding."""
    found = []
    for d in measured:
        if d.statistic == "norm" and d.kind in ("actv", "param_origin", "grad_unreduced", "grad_reduced"):
            size = _size(d.value[:, 0]) if len(d.step) else np.zeros(0)
            if len(size) and (size > LIMITS.first_step).mean() > 0.5:
                found.append(d)
    return found


def steps_left(measured: Sequence[Deviations], how: Bands, factor: float = 1.0) -> list[int]:
    """Return the steps at which the band, `factor` times as wide, is exceeded by one target by far, or by several
    targets in it and soon after."""
    if how.first_difference is None:
        return []
    if how.basis is Basis.EQUAL:
        return [how.first_difference]
    steps = np.unique(np.concatenate([d.step for d in measured]))
    names = {name: n for n, name in enumerate(sorted({plain(name) for d in measured for name in d.names}))}
    left = np.zeros((len(names), len(steps)), bool)
    far = np.zeros(len(steps), bool)
    for d in measured:
        rows = np.array([names[plain(name)] for name in d.names])
        # Only rows that ever leave the digits need a band.
        with np.errstate(invalid="ignore"):
            some = (np.abs(d.value) > LIMITS.jump * LIMITS.resolutions * d.resolution).any(axis=1)
        if not some.any():
            continue
        part = d if some.all() else only(d, some)
        columns = np.searchsorted(steps, part.step)
        limit = factor * how.limit(part)
        with np.errstate(invalid="ignore"):
            broken = finite_on_one_side(part)
            out = (np.abs(part.value) > limit) | broken
            if out.any():
                _mark(left, rows[some], columns, out)
                far[columns] |= ((np.abs(part.value) > LIMITS.alone / LIMITS.jump * limit) | broken).any(axis=0)
    soon = left.copy()
    for ahead in range(1, LIMITS.soon + 1):
        soon[:, :-ahead] |= left[:, ahead:]
    wanted = min(LIMITS.targets, len(names))
    hits = np.flatnonzero(left.any(axis=0) & ((soon.sum(axis=0) >= wanted) | far))
    return [int(step) for step in steps[hits]]


def is_passing(measured: Sequence[Deviations], how: Bands, step: int, factor: float = 1.0) -> bool:
    """Return whether only gradients leave at a step, by little, and by other amounts at the next step: at a kink of an
    activation function, a value may be on either side in two correct trainings."""
    if how.basis is Basis.EQUAL:
        return False
    steady: list[bool] = []
    for d in measured:
        at = int(np.searchsorted(d.step, step))
        if at == len(d.step) or d.step[at] != step or d.statistic != "norm":
            continue
        out = how.leaves(d, at, at + 1, factor)[:, 0]
        if not out.any() or d.kind in ("param_updated", *OF_UPDATES):
            continue
        now, after = d.value[out, at], d.value[out, at + 1 : at + 1 + LIMITS.passing_steps]
        is_of_gradients = d.kind in ("actv_grad", "grad_unreduced", "grad_reduced")
        if not is_of_gradients or float(_size(now).max()) > LIMITS.passing_size or not after.size:
            return False
        part = after / now[:, None]
        steady += ((part > LIMITS.passing_rest) & (part < 1 / LIMITS.passing_rest)).all(axis=1).tolist()
    return bool(steady) and float(np.mean(steady)) < LIMITS.passing_steady


def is_large(measured: Sequence[Deviations], how: Bands, step: int) -> bool:
    """Return whether a norm leaves by more than a kink explains."""
    for d in measured:
        at = int(np.searchsorted(d.step, step))
        if d.statistic == "norm" and d.kind not in OF_UPDATES and at < len(d.step) and d.step[at] == step:
            out = how.leaves(d, at, at + 1)[:, 0]
            if (_size(d.value[out, at]) > LIMITS.passing_size).any():
                return True
    return False


def _mark(left: Array, rows: Array, columns: Array, out: Array) -> None:
    """Mark values outside; several rows may be one target, several columns one step."""
    if len(set(rows.tolist())) < len(rows) or len(set(columns.tolist())) < len(columns):
        at_row, at_column = np.nonzero(out)
        left[rows[at_row], columns[at_column]] = True
    else:
        left[np.ix_(rows, columns)] |= out


def only(of: Deviations, rows: Array) -> Deviations:
    """Return some targets of a series."""
    return Deviations(
        of.rank,
        of.kind,
        of.statistic,
        tuple(name for name, is_one in zip(of.names, rows, strict=True) if is_one),
        of.step,
        of.micro_step,
        of.a[rows],
        of.b[rows],
        of.value[rows],
        of.resolution[rows],
        of.grain,
        of.decimal,
        of.lone_rows,
    )


def plain(name: str) -> str:
    """Return the name of a target for counting: the input and output of a module are one."""
    found = TENSOR.match(name)
    return found[1] if found and found[1] else name


def is_input(name: str) -> bool:
    """Return whether a target is an input of a module."""
    found = TENSOR.match(name)
    return found is not None and found[2] == "input"


def _size(value: Array) -> Array:
    """Return magnitudes, 0 if unknown."""
    size = np.abs(value)
    return np.where(np.isnan(size), 0.0, size)


def _greatest_before(size: Array, window: int) -> Array:
    """Return the maximum of the `window` columns before each column; 0 before the first."""
    found = np.zeros_like(size)
    found[:, 1:] = size[:, :-1]
    reached = 1
    while reached < window:
        shift = min(reached, window - reached)
        found[:, shift:] = np.maximum(found[:, shift:], found[:, :-shift])
        reached += shift
    return found
