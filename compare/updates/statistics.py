"""Updates judged by noise, and updates of which only statistics are known.

Whether noise explains how far two updates of one parameter are apart, where settings could not be fitted.

All functions take flat float64 arrays of one parameter, element beside element, and return an excess: a difference in
units of what is allowed, more than 1 differs; NaN where nothing can be said. Medians over elements, because Adam turns
tiny gradients into whole steps of either sign, and noise decides the sign of what is smaller than itself.

Updates of which only statistics are known: whether a parameter moved at all, and how far its statistics did.

What maximum, minimum, mean and norm do not show: which elements moved where. So of the settings only a learning rate
and a parameter that is not updated can be named. That another setting differs (weight decay, moments, eps) is seen
where the updates of most parameters are further apart than the noise of their gradients: with e the element error of
the gradients (`noise/summary.py`) and U the size of an update, mean and mean square of n elements differ by about
e U / sqrt(n), and the extremes by e U.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from typing import NamedTuple

import numpy as np

from msprobe.compare.locate.finding import Basis, Cause, Status, UpdateDifference, UpdateJudgement, Verdict
from msprobe.store.record import Statistics

from .fit import Floats

LIMIT = 1.5
"""An update may be so many times as far apart as gradients and rounding explain. Clean pairs of six optimizers, order
of sums and bfloat16 inputs of products, MindSpore and PyTorch, six steps: at most 1.03. Of wrong settings, after one
update: weight decay of 0.01 for 0.1 reaches 21, learning rates 34 (1.2 times) and 173 (twice)."""

NOISY = 3.0
"""Elements whose gradient is smaller than so many times the median noise of gradients are left out."""

ENOUGH = 0.1
"""The share of elements that must be left."""

DRIFT = 5e-4
"""How far weights may be apart (median, of their root mean square) where no step before is known. Clean pairs as above,
six steps: weights and gains at most 2.5e-4."""

DRIFT_OF_SMALL = 2e-2
"""The same for vectors around zero, biases for instance: those that began at zero are nothing but updates, and as far
apart as gradients are. Clean pairs: at most 5e-3."""

NEAR = 0.02
"""Without gradients, updates that are nearer (relative) agree; bfloat16 inputs of products make up to 0.007."""

_FAR = 0.05
_CLEAR = 4.0


@dataclass(frozen=True, eq=False)
class Step:
    """One parameter of one side before and after an update; `gradients` of the last steps, the newest last, may be
    empty. `ulp` is the spacing of its dtype at 1."""

    before: Floats
    now: Floats
    gradients: tuple[Floats, ...] = ()
    ulp: float = 2.0**-23

    @property
    def update(self) -> Floats:
        """w_N - w_(N-1)."""
        return self.now - self.before


def by_gradients(target: Step, golden: Step) -> float:
    """median |U_t - U_g| / (LIMIT * (median |g_t - g_g| / median |g_g| * median |U_g| + rounding)).

    Of several steps the greatest relative difference of gradients counts, because momentum remembers it.
    """
    noise = float(np.median(np.abs(target.gradients[-1] - golden.gradients[-1])))
    clear = np.abs(golden.gradients[-1]) >= NOISY * noise
    if clear.sum() < max(1.0, ENOUGH * clear.size):
        return nan
    relative = max(
        _median(t - g) / max(_median(g), float(np.finfo(np.float64).tiny))
        for t, g in zip(target.gradients, golden.gradients, strict=True)
    )
    apart = float(np.median(np.abs(target.update - golden.update)[clear]))
    size = float(np.median(np.abs(golden.update[clear])))
    return _excess(apart, LIMIT * (relative * size + 2 * _rounding(golden)))


def by_updates(target: Step, golden: Step) -> float:
    """Without gradients: at most 1 where updates are within `NEAR`, more where one factor or weight decay explains most
    of what is between them, NaN elsewhere."""
    apart, size = _median(target.update - golden.update), _median(golden.update)
    allowed = NEAR * size + 2 * _rounding(golden)
    is_known = apart <= allowed or pattern(target, golden).cause is not Cause.UNKNOWN
    return _excess(apart, allowed) if is_known else nan


def by_weights(target: Floats, golden: Floats, ulp: float, *, is_vector: bool) -> float:
    """Without the step before: median |w_t - w_g| in units of the allowed drift."""
    size = float(np.sqrt(np.mean(golden**2)))
    is_around_zero = is_vector and abs(float(np.mean(golden))) < 0.9 * size  # and not the gain of a normalisation
    return _excess(_median(target - golden), ((DRIFT_OF_SMALL if is_around_zero else DRIFT) + ulp) * size)


def _excess(apart: float, allowed: float) -> float:
    return apart / allowed if allowed else nan if apart else 0.0


@dataclass(frozen=True, slots=True)
class Pattern:
    """What two updates have to do with each other: `value` is the factor of a learning rate, or by how much learning
    rate times weight decay is greater."""

    cause: Cause
    value: float = 0.0


def pattern(target: Step, golden: Step) -> Pattern:
    """What explains most of the difference of two updates, if anything simple does."""
    ours, theirs, before = target.update, golden.update, golden.before
    rounding = 2 * _rounding(golden)
    if not ours.any() and _median(theirs) > rounding:
        return Pattern(Cause.NOT_UPDATED)
    if not theirs.any() and _median(ours) > rounding:
        return Pattern(Cause.UPDATED_ALONE)
    apart = _median(ours - theirs)
    clear = np.abs(theirs) > max(_median(theirs), rounding)
    if clear.any():
        factor = float(np.median(ours[clear] / theirs[clear]))
        left = _median((ours - factor * theirs)[clear])
        if abs(factor - 1) > _FAR and left * _CLEAR <= float(np.median(np.abs(ours - theirs)[clear])):
            return Pattern(Cause.LEARNING_RATE, factor)
    size = float(np.dot(before, before))
    if size and np.ptp(before) > 0:
        decay = float(np.dot(before, theirs - ours)) / size
        if _median(ours - theirs + decay * before) * _CLEAR <= apart:
            return Pattern(Cause.WEIGHT_DECAY, decay)
    return Pattern(Cause.UNKNOWN)


def _median(values: Floats) -> float:
    return float(np.median(np.abs(values)))


def _rounding(step: Step) -> float:
    """Half a spacing at the median weight, as of `History.rounding`."""
    scale = max(_median(step.now), float(np.finfo(np.float32).tiny))
    return float(0.5 * step.ulp * 2.0 ** np.floor(np.log2(scale)))


MOVED = 20.0
"""A mean that moved by less than so many of its roundings says nothing."""

NEAR_BY_STATISTICS = 0.1
"""Moves of a mean that are nearer (relative) agree: those of clean pairs, bfloat16 inputs of products against float32,
are mostly within 0.02, but some cancel."""

MOMENTS, ENDS = 3.0, 2.0
"""So many times what the gradients explain the median parameter's mean or square, or its extremes, may be apart. Clean
runs of six nets (another order of sums, or products in bfloat16, float16 and TF32): up to 1.6 and 0.7."""

GROUP = 10.0
"""A quarter of the parameters beyond this is a group that is updated otherwise; clean runs: up to 3.6."""

ALONE = 1000.0
"""The same of a single parameter; clean runs: up to 240, as Adam takes whole steps where a gradient is all noise."""

_ROUNDINGS = 4.0
"""So many roundings of the weights a move may be off."""

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
    """One parameter of both sides by its statistics. `is_vector`: it has one axis at most. `gradients_apart` is the
    relative error of the elements of its gradient in the step before; NaN where that is not known."""

    name: str
    golden_name: str
    target: Moments
    golden: Moments
    is_vector: bool = False
    gradients_apart: float = nan


def judge_summaries(parameters: Sequence[Summary], step: int) -> UpdateJudgement:
    """What statistics show of the updates that led to the parameters of step `step`."""
    frozen = [p for p in parameters if not p.target.is_moved and p.golden.is_moved]
    alone = [p for p in parameters if p.target.is_moved and not p.golden.is_moved]
    moving = [p for p in parameters if p not in frozen and p not in alone]
    ratios = dict(_ratios(iter(moving)))
    beyond = _Beyond(moving)
    factor, excess = _factor(list(ratios.values()), beyond)
    verdicts = []
    for p in parameters:
        if p.golden.before is None or p.target.before is None:
            verdicts.append(_verdict(p, Basis.DRIFT, _drift(p)))
        elif p in frozen or p in alone:
            verdicts.append(_verdict(p, Basis.STATISTICS, np.inf))
        elif not p.target.is_moved and not p.golden.is_moved:
            verdicts.append(_verdict(p, Basis.STATISTICS, 0.0))
        elif excess > 1:
            verdicts.append(_verdict(p, Basis.STATISTICS, excess if p.name in ratios else nan))
        elif beyond.is_known:
            verdicts.append(_verdict(p, Basis.STATISTICS, beyond.excess(p)))
        else:
            apart = abs(ratios[p.name] - 1) / NEAR_BY_STATISTICS if p.name in ratios else nan
            verdicts.append(_verdict(p, Basis.STATISTICS, apart if apart <= 1 else nan))
    agreeing = sum(v.status is Status.AGREES for v in verdicts)
    found = [
        UpdateDifference(cause, tuple(p.name for p in chosen), agreeing)
        for cause, chosen in ((Cause.NOT_UPDATED, frozen), (Cause.UPDATED_ALONE, alone))
        if chosen
    ]
    if excess > 1:
        found.append(UpdateDifference(Cause.LEARNING_RATE, tuple(ratios), agreeing, factor=factor))
    elif others := tuple(v.parameter for v in verdicts if _differs_otherwise(v)):
        found.append(UpdateDifference(Cause.UNKNOWN, others, agreeing))
    return UpdateJudgement(step, tuple(verdicts), tuple(found))


def _differs_otherwise(verdict: Verdict) -> bool:
    """Whether an update differs, and not by being left out; of weights alone nothing is known of the update."""
    is_of_update = verdict.basis is Basis.STATISTICS and isfinite(verdict.excess)
    return is_of_update and verdict.status is Status.DIFFERS


class _Beyond:
    """How far updates are apart, in what the noise of the gradients explains; `is_known` where that is known."""

    def __init__(self, parameters: Sequence[Summary]) -> None:
        noise = [p.gradients_apart for p in parameters if isfinite(p.gradients_apart)]
        self.is_known = bool(noise)
        self._noise = float(np.median(noise)) if noise else nan
        self._found = {p.name: self._of(p) for p in parameters if p.golden.before and p.target.before} if noise else {}
        self.is_throughout = self._is_throughout()

    def excess(self, p: Summary) -> float:
        """More than 1 where the update is the golden's neither by itself nor with most others."""
        moments, ends = self._found[p.name]
        if self.is_throughout:
            return max(moments / MOMENTS, ends / ENDS)
        most = max(moments, ends) / ALONE
        return most if most > 1 else 0.0

    def _is_throughout(self) -> bool:
        if len(self._found) < 3:
            return any(max(moments / MOMENTS, ends / ENDS) > GROUP for moments, ends in self._found.values())
        both = np.array(list(self._found.values()))
        middle = np.median(both, axis=0)
        return bool(middle[0] > MOMENTS or middle[1] > ENDS or np.quantile(both.max(axis=1), 0.75) > GROUP)

    def _of(self, p: Summary) -> tuple[float, float]:
        """Of the mean or mean square, and of the extremes."""
        (t, g), size = (_moved(p.target), _moved(p.golden)), max(p.golden.size, 1)
        step = max(abs(g.max), abs(g.min), abs(g.mean))
        if not step:
            return (0.0, 0.0) if t == g else (inf, inf)
        noise = max(p.gradients_apart if isfinite(p.gradients_apart) else 0.0, self._noise)
        scale, greatest = p.golden.scale, max(abs(_number(p.golden.now.max)), abs(_number(p.golden.now.min)))
        square = abs(t.square - g.square) / (2 * scale * step + step * step)
        moments = max(abs(t.mean - g.mean) / step, square)
        ends = max(abs(t.max - g.max), abs(t.min - g.min)) / step
        rounding = _ROUNDINGS * p.golden.ulp / step
        explained = noise / sqrt(size) + rounding * scale / sqrt(size), noise + rounding * greatest
        return (
            moments / explained[0] if moments else 0.0,
            ends / explained[1] if ends else 0.0,
        )


class _Moved(NamedTuple):
    """By how much the statistics of a parameter moved; `square` is that of the mean square."""

    max: float
    min: float
    mean: float
    square: float


def _moved(of: Moments) -> _Moved:
    if of.before is None:
        return _Moved(nan, nan, nan, nan)
    now, before = of.now, of.before
    return _Moved(
        _number(now.max) - _number(before.max),
        _number(now.min) - _number(before.min),
        of.move,
        (_number(now.norm) - _number(before.norm)) * (_number(now.norm) + _number(before.norm)) / max(of.size, 1),
    )


def _ratios(parameters: "Iterator[Summary]") -> Iterator[tuple[str, float]]:
    for p in parameters:
        if abs(p.golden.move) > MOVED * p.golden.rounding and abs(p.target.move) > MOVED * p.target.rounding:
            yield p.name, p.target.move / p.golden.move


def _factor(ratios: Sequence[float], beyond: _Beyond) -> tuple[float, float]:
    """The factor of all updates, and how far beyond the limit it is."""
    if len(ratios) < 3:
        return 1.0, 0.0
    middle = float(np.median(ratios))
    scatter = 1.4826 * float(np.median(np.abs(np.array(ratios) - middle)))
    if scatter > abs(middle - 1) / 2 or (beyond.is_known and not beyond.is_throughout):
        return middle, 0.0
    error = 3 * scatter / sqrt(len(ratios))
    return middle, abs(middle - 1) / max(error, 1e-12 if beyond.is_known else RATE)


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
