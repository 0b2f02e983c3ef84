"""Updates of which only statistics are known: whether a parameter moved at all, and how far its mean did.

What maximum, minimum, mean and norm do not show: which elements moved where. So of the settings only a learning rate
and a parameter that is not updated can be named; weight decay, moments and eps are not seen.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan, sqrt

import numpy as np

from msprobe.store.record import Statistics

from .noise import DRIFT, DRIFT_OF_SMALL
from .verdicts import Basis, Cause, Difference, Status, UpdateJudgement, Verdict

MOVED = 20.0
"""A mean that moved by less than so many of its roundings says nothing."""

NEAR = 0.1
"""Moves of a mean that are nearer (relative) agree: those of clean pairs, bfloat16 inputs of products against float32,
are mostly within 0.02, but some cancel."""

RATE = 0.05
"""A learning rate that is nearer is not told from noise; and it must be beyond three times what the parameters' factors
scatter around their median, by its standard error."""


@dataclass(frozen=True, slots=True)
class Moments:
    """The statistics of one parameter of one side before and after an update; before is None where no step is known."""

    before: Statistics | None
    now: Statistics
    size: int
    ulp: float = 2.0**-23

    @property
    def is_moved(self) -> bool:
        """Whether any statistic changed."""
        return self.before is None or _four(self.before) != _four(self.now)

    @property
    def move(self) -> float:
        """By how much the mean moved."""
        return nan if self.before is None else _number(self.now.mean) - _number(self.before.mean)

    @property
    def scale(self) -> float:
        """The root mean square."""
        return _number(self.now.norm) / sqrt(max(self.size, 1))

    @property
    def rounding(self) -> float:
        """That of the mean, where the elements are rounded independently."""
        return self.ulp * self.scale / sqrt(max(self.size, 1))


@dataclass(frozen=True, slots=True)
class Summary:
    """One parameter of both sides by its statistics. `is_vector`: it has one axis at most."""

    name: str
    golden_name: str
    target: Moments
    golden: Moments
    is_vector: bool = False


def judge_summaries(parameters: Sequence[Summary], step: int) -> UpdateJudgement:
    """What statistics show of the updates that led to the parameters of step `step`."""
    frozen = [p for p in parameters if not p.target.is_moved and p.golden.is_moved]
    alone = [p for p in parameters if p.target.is_moved and not p.golden.is_moved]
    ratios = dict(_ratios(p for p in parameters if p not in frozen and p not in alone))
    factor, excess = _factor(list(ratios.values()))
    verdicts = []
    for p in parameters:
        if p.golden.before is None or p.target.before is None:
            verdicts.append(_verdict(p, Basis.DRIFT, _drift(p)))
        elif p in frozen or p in alone:
            verdicts.append(_verdict(p, Basis.STATISTICS, np.inf))
        elif p.name not in ratios:
            both = not p.target.is_moved and not p.golden.is_moved
            verdicts.append(_verdict(p, Basis.STATISTICS, 0.0 if both else nan))
        elif excess > 1:
            verdicts.append(_verdict(p, Basis.STATISTICS, excess))
        else:
            apart = abs(ratios[p.name] - 1) / NEAR
            verdicts.append(_verdict(p, Basis.STATISTICS, apart if apart <= 1 else nan))
    agreeing = sum(v.status is Status.AGREES for v in verdicts)
    found = [
        Difference(cause, tuple(p.name for p in chosen), agreeing)
        for cause, chosen in ((Cause.NOT_UPDATED, frozen), (Cause.UPDATED_ALONE, alone))
        if chosen
    ]
    if excess > 1:
        found.append(Difference(Cause.LEARNING_RATE, tuple(ratios), agreeing, factor=factor))
    return UpdateJudgement(step, tuple(verdicts), tuple(found))


def _ratios(parameters: "Iterator[Summary]") -> Iterator[tuple[str, float]]:
    for p in parameters:
        if abs(p.golden.move) > MOVED * p.golden.rounding and abs(p.target.move) > MOVED * p.target.rounding:
            yield p.name, p.target.move / p.golden.move


def _factor(ratios: Sequence[float]) -> tuple[float, float]:
    """The factor of all updates, and how far beyond the limit it is."""
    if len(ratios) < 3:
        return 1.0, 0.0
    middle = float(np.median(ratios))
    scatter = 1.4826 * float(np.median(np.abs(np.array(ratios) - middle)))
    if scatter > abs(middle - 1) / 2:
        return middle, 0.0
    return middle, abs(middle - 1) / max(RATE, 3 * scatter / sqrt(len(ratios)))


def _drift(p: Summary) -> float:
    golden, target = p.golden, p.target
    mean = _number(golden.now.mean)
    is_around_zero = p.is_vector and abs(mean) < 0.9 * golden.scale
    allowed = (DRIFT_OF_SMALL if is_around_zero else DRIFT) * golden.scale
    apart = max(abs(target.scale - golden.scale), abs(_number(target.now.mean) - mean))
    return apart / allowed if allowed else nan if apart else 0.0


def _verdict(p: Summary, basis: Basis, excess: float) -> Verdict:
    status = Status.UNSEEN if excess != excess else Status.DIFFERS if excess > 1 else Status.AGREES
    return Verdict(p.name, p.golden_name, status, basis, 0.0 if excess != excess else float(excess))


def _four(of: Statistics) -> tuple[object, ...]:
    return of.max, of.min, of.mean, of.norm


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else nan
