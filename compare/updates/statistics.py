"""Judge updates of which only statistics are known: whether a parameter was updated, and by how much its statistics
changed.

Maximum, minimum, mean and norm do not show which elements changed. So only these settings can be identified: a learning
rate, an Adam without bias correction, a parameter that is not updated, and a weight decay, which changes maximum,
minimum and mean of a parameter by one share of themselves, and its mean square by twice that share. Another setting
that differs (moments, eps) is detected if the updates of most parameters differ by more than the noise of their
gradients: with e the element error of the gradients (`msprobe.compare.noise.summary`) and U the size of an update, mean
and mean square of n elements differ by about e U / sqrt(n), and the extremes by e U. An optimizer that makes whole
steps for any size of a gradient, as Adam does first, makes them in the opposite direction for a share e of the
elements, so that mean and mean square differ by 2 U sqrt(e / n).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, nan, sqrt
from typing import NamedTuple

import numpy as np

from msprobe.compare.locate.finding import (
    Basis,
    Explanation,
    Rule,
    Status,
    UpdateCause,
    UpdateDifference,
    UpdateJudgement,
)
from msprobe.store.record import Statistics

from .fit import Form, uncorrected
from .judgement import drift_excess, drift_of_gradients, rounding_excess, verdict_of, verdict_of_weights
from .settings import BETAS, by_another, frozen

_MOVED = 20.0
"""A mean that changed by fewer roundings is not evidence."""

_NEAR = 0.1
"""Changes of a mean with a smaller relative difference agree: those of clean pairs, bfloat16 inputs of products against
float32, are mostly within 0.02, but some cancel."""

_MOMENTS, _ENDS = 3.0, 2.0
"""Largest ratio of the difference of the median parameter's mean or square, and of its extremes, to the difference that
gradients explain. Clean runs of six nets (another order of sums, or products in bfloat16, float16 and TF32): up to 1.6
and 0.7."""

_GROUP = 10.0
"""A quarter of the parameters beyond this is a group with different updates; clean runs: up to 3.6."""

_ONE_SIDED = 1000.0
"""The same for a single parameter; clean runs: up to 240, as Adam makes whole steps if a gradient is only noise."""

_ROUNDINGS = 4.0
"""Error of a change, in roundings of the weights."""

_RATE = 0.05
"""A smaller relative difference of learning rates is noise; it must also exceed three times the standard error of the
median of the parameters' factors."""

_SIMPLE = 0.01
"""A factor this close to a number of one digit is probably a learning rate."""


_WHOLE = 0.02
"""Relative difference up to which extremes of most parameters change by one length: every element makes a whole
step."""

_SHARED = 0.1
"""Relative difference of the shares by which statistics of one parameter changed if the weights were decayed."""

_DECAYED = 50.0
"""Minimum of such a share, in roundings of the weights."""

_SEVERAL = 3
"""Number of parameters with one decay from which on it is reported: gains of normalizations, for instance."""


class ParameterStatistics(NamedTuple):
    """Statistics of a parameter; NaN for unknown ones."""

    max: float
    min: float
    mean: float
    norm: float

    @staticmethod
    def of(found: Statistics) -> "ParameterStatistics":
        values = [getattr(found, name) for name in ParameterStatistics._fields]
        return ParameterStatistics(*(float(value) if isinstance(value, (int, float)) else nan for value in values))


_UNKNOWN = ParameterStatistics(nan, nan, nan, nan)


@dataclass(frozen=True, slots=True)
class Moments:
    """The statistics of one parameter of one side before and after an update; `before` is None if that step is
    unknown."""

    before: ParameterStatistics | None
    now: ParameterStatistics
    size: int
    ulp: float = 2.0**-23

    @property
    def is_moved(self) -> bool:
        """Return whether any statistic changed."""
        return self.before is None or self.before != self.now

    @property
    def move(self) -> ParameterStatistics:
        """Return the change of the statistics, and for the norm that of the mean square."""
        now, before = self.now, self.before or _UNKNOWN
        square = (now.norm - before.norm) * (now.norm + before.norm) / max(self.size, 1)
        return ParameterStatistics(now.max - before.max, now.min - before.min, now.mean - before.mean, square)

    @property
    def scale(self) -> float:
        """Return the root mean square."""
        return self.now.norm / sqrt(max(self.size, 1))

    @property
    def shows_move(self) -> bool:
        """Return whether the mean changed by more than its rounding, if the elements are rounded independently."""
        return abs(self.move.mean) > _MOVED * (self.ulp * self.scale / sqrt(max(self.size, 1)))


@dataclass(frozen=True, slots=True)
class Summary:
    """One parameter of both sides by its statistics. `is_vector`: it has at most one axis. `gradients_apart` is the
    relative error of the elements of its gradient in the previous step, or, if that step is unknown, in this one; NaN
    if unknown."""

    name: str
    golden_name: str
    target: Moments
    golden: Moments
    is_vector: bool = False
    gradients_apart: float = nan

    def drift(self, explained: float) -> float:
        """Return the excess of the difference of weights if the previous step is unknown; noise of gradients explains
        `explained`."""
        golden, target = self.golden, self.target
        apart = max(abs(target.scale - golden.scale), abs(target.now.mean - golden.now.mean))
        return drift_excess(apart, golden.now.mean, golden.scale, self.is_vector, explained=explained)

    @property
    def is_rounded(self) -> bool:
        """Return whether the weights of both sides differ only by rounding, as far as statistics show."""
        target, golden = self.target, self.golden
        pairs = zip((*target.now[:3], target.scale), (*golden.now[:3], golden.scale), strict=True)
        return rounding_excess(max(abs(t - g) for t, g in pairs), golden.scale, golden.ulp) <= 1


def judge_summaries(parameters: Sequence[Summary], step: int) -> UpdateJudgement:
    """Judge the updates that led to the parameters of step `step` by statistics."""
    not_updated = [p.name for p in parameters if not p.target.is_moved and p.golden.is_moved]
    updated_here = [p.name for p in parameters if p.target.is_moved and not p.golden.is_moved]
    moving = [p for p in parameters if p.target.is_moved == p.golden.is_moved]
    visible = [p for p in moving if p.golden.shows_move and p.target.shows_move]
    beyond = _Beyond(moving)
    ratios = {p.name: p.target.move.mean / p.golden.move.mean for p in visible}
    if beyond.are_whole_steps:  # the mean is that of the signs
        ratios = {p.name: ratio for p in moving if (ratio := _ratio_of_extremes(p))}
    factor, excess_of_rate = _factor(list(ratios.values()), beyond)

    noises = [p.gradients_apart if isfinite(p.gradients_apart) else nan for p in parameters]
    explained = dict(zip((p.name for p in parameters), drift_of_gradients(noises), strict=True))

    shares = _decayed(moving)

    def judged(p: Summary) -> tuple[Basis, float]:
        if p.name in shares:
            return Basis.STATISTICS, abs(shares[p.name]) / (_DECAYED * p.golden.ulp)
        if p.golden.before is None or p.target.before is None:
            return Basis.DRIFT, p.drift(explained[p.name])
        if p.target.is_moved != p.golden.is_moved:
            return Basis.STATISTICS, inf
        if not p.target.is_moved:
            return Basis.STATISTICS, 0.0
        if excess_of_rate > 1:
            return Basis.STATISTICS, excess_of_rate if p.name in ratios else nan
        if beyond.is_known:
            return Basis.STATISTICS, beyond.excess(p)
        apart = abs(ratios[p.name] - 1) / _NEAR if p.name in ratios else nan
        return Basis.STATISTICS, apart if apart <= 1 else nan

    verdicts = tuple(
        replace(verdict_of(p.name, p.golden_name, basis, excess), hidden=beyond.hidden)
        if basis is Basis.STATISTICS
        else verdict_of_weights(p.name, p.golden_name, excess, is_rounded=p.is_rounded)
        for p, (basis, excess) in ((p, judged(p)) for p in parameters)
    )
    agreeing = sum(v.status is Status.AGREES for v in verdicts)
    found = list(frozen(not_updated, updated_here, agreeing))
    # Parameters that differ, except those that are not updated; nothing is known of the update from weights alone.
    are_updates = (v for v in verdicts if v.basis is Basis.STATISTICS and isfinite(v.excess))
    others = tuple(v.parameter for v in are_updates if v.status is Status.DIFFERS and v.parameter not in shares)
    if shares:
        found.append(UpdateDifference(UpdateCause.WEIGHT_DECAY, tuple(shares), agreeing))
    if excess_of_rate > 1:
        rate = UpdateDifference(UpdateCause.LEARNING_RATE, tuple(ratios), agreeing, factor=factor)
        found.append(_or_bias_correction(rate, factor, step))
    elif others:
        found.append(UpdateDifference(UpdateCause.UNKNOWN, others, agreeing))
    return UpdateJudgement(step, verdicts, tuple(found))


def _decayed(parameters: Sequence[Summary]) -> dict[str, float]:
    """Return by parameter the share of itself by which only one side decayed it, if several have the same share."""
    known = {p.name: share for p in parameters if (share := _share_of_weights(p))}
    if len(known) < _SEVERAL:
        return {}
    middle = float(np.median(list(known.values())))
    alike = {name: share for name, share in known.items() if abs(share - middle) <= _SHARED * abs(middle)}
    return alike if len(alike) >= max(_SEVERAL, len(known) / 2) else {}


def _share_of_weights(p: Summary) -> float:
    """Return the share of the weights that explains the difference between the two updates, by all statistics that show
    it; 0 if there is none. Weights that are small relative to the others are not evidence."""
    if p.golden.before is None or p.target.before is None or not p.golden.scale:
        return 0.0
    weights, (t, g) = p.golden.before, (p.target.move, p.golden.move)
    shares = [
        (g_move - t_move) / weight
        for t_move, g_move, weight in zip(t[:3], g[:3], weights[:3], strict=True)
        if abs(weight) > p.golden.scale / 2
    ]
    shares.append((g.norm - t.norm) / (2 * p.golden.scale**2))
    middle = float(np.median(shares))
    is_one = len(shares) > 2 and all(abs(share - middle) <= _SHARED * abs(middle) for share in shares)
    return middle if is_one and abs(middle) > _DECAYED * p.golden.ulp else 0.0


def _or_bias_correction(rate: UpdateDifference, factor: float, step: int) -> UpdateDifference:
    """Return a difference of all learning rates, or the missing bias correction of Adam that causes exactly that
    factor.

    `step` updates were made, if the runs began with step 0.
    """
    for beta1, beta2 in BETAS:
        by = uncorrected(Form(Rule.ADAM, beta1=beta1, beta2=beta2), step)
        if any(abs(factor / one - 1) < _RATE for one in (by, 1 / by)):
            is_simple = abs(factor / float(f"{factor:.0e}") - 1) < _SIMPLE
            other = Explanation(UpdateCause.BIAS_CORRECTION)
            return by_another(rate, other, is_certain=False, is_simpler=not is_simple)
    return rate


class _Beyond:
    """The difference of updates in units of the difference that the noise of the gradients explains; `is_known` if that
    is known.

    `is_throughout`: most parameters, or a group of them, are updated differently. `are_whole_steps`: the elements of
    all parameters change by one length. `hidden` is the share of themselves by which all updates may differ undetected.
    """

    def __init__(self, parameters: Sequence[Summary]) -> None:
        noise = [p.gradients_apart for p in parameters if isfinite(p.gradients_apart)]
        self.is_known, self.is_throughout, self.hidden = bool(noise), False, _NEAR
        self.are_whole_steps = _are_whole_steps(parameters)
        self._found: dict[str, tuple[float, float]] = {}
        if not noise:
            return
        usual = float(np.median(noise))
        known = [p for p in parameters if p.golden.before and p.target.before]
        self._found = {p.name: _beyond_noise(p, usual, self.are_whole_steps) for p in known}
        hidden = [share for p in known if (share := _hidden(p, usual, self.are_whole_steps)) < inf]
        self.hidden = float(np.median(hidden)) if hidden else 0.0
        if len(self._found) < 3:
            found = self._found.values()
            self.is_throughout = any(max(moments / _MOMENTS, ends / _ENDS) > _GROUP for moments, ends in found)
        else:
            both = np.array(list(self._found.values()))
            middle = np.median(both, axis=0)
            are_most = middle[0] > _MOMENTS or middle[1] > _ENDS
            self.is_throughout = bool(are_most or np.quantile(both.max(axis=1), 0.75) > _GROUP)

    def excess(self, p: Summary) -> float:
        """Return the excess: above 1 if the update differs from the golden's by itself or together with most others."""
        moments, ends = self._found[p.name]
        if self.is_throughout:
            return max(moments / _MOMENTS, ends / _ENDS)
        most = max(moments, ends) / _ONE_SIDED
        return most if most > 1 else 0.0


def _are_whole_steps(parameters: Sequence[Summary]) -> bool:
    """Return whether the extremes of most parameters change by one length on the golden side."""
    moves = [p.golden.move for p in parameters if p.golden.before and p.golden.is_moved]
    lengths = [abs(length) for move in moves for length in (move.max, move.min) if length]
    middle = float(np.median(lengths)) if lengths else 0.0
    alike = sum(abs(length - middle) <= _WHOLE * middle for length in lengths)
    return len(moves) >= _SEVERAL and 2 * alike > len(lengths)


def _ratio_of_extremes(p: Summary) -> float:
    """Return the average ratio of the change of an extreme to the golden's; 0 if neither changes, or one changes in the
    opposite direction."""
    if not (p.golden.before and p.target.before):
        return 0.0
    moves = zip(p.target.move[:2], p.golden.move[:2], strict=True)
    ratios = [t / g for t, g in moves if g and t / g > 0]
    return sum(ratios) / len(ratios) if ratios else 0.0


def _beyond_noise(p: Summary, usual: float, are_whole_steps: bool) -> tuple[float, float]:
    """Return the differences of mean or mean square, and of the extremes, in units of the differences that noise
    explains; `usual` is the noise of the median gradient."""
    (t, g), scale, step = (p.target.move, p.golden.move), p.golden.scale, _step(p)
    if not step:
        return (0.0, 0.0) if t == g else (inf, inf)
    of_moments, of_ends = _noise_of_update(p, usual, are_whole_steps)
    square = abs(t.norm - g.norm) / (2 * scale * step + step * step)
    moments = max(abs(t.mean - g.mean) / step, square)
    ends = max(abs(t.max - g.max), abs(t.min - g.min)) / step
    return moments / of_moments if moments else 0.0, ends / of_ends if ends else 0.0


def _step(p: Summary) -> float:
    """Return the size of an update on the golden side."""
    move = p.golden.move
    return max(abs(move.max), abs(move.min), abs(move.mean))


def _noise_of_update(p: Summary, usual: float, are_whole_steps: bool) -> tuple[float, float]:
    """Return the noise of mean or mean square, and of the extremes, of an update that is not 0, relative to its
    size."""
    noise = max(p.gradients_apart if isfinite(p.gradients_apart) else 0.0, usual)
    root, rounding = sqrt(max(p.golden.size, 1)), _ROUNDINGS * p.golden.ulp / _step(p)
    greatest = max(abs(p.golden.now.max), abs(p.golden.now.min))
    of_moments = (2 * sqrt(noise) if are_whole_steps else noise) + rounding * p.golden.scale
    return of_moments / root, noise + rounding * greatest


def _hidden(p: Summary, usual: float, are_whole_steps: bool) -> float:
    """Return the share of itself by which all elements of an update may differ undetected; infinity for none."""
    if not (step := _step(p)):
        return inf
    of_moments, of_ends = _noise_of_update(p, usual, are_whole_steps)
    mean = abs(p.golden.move.mean) / step
    return min(_ENDS * of_ends, _MOMENTS * of_moments / mean if mean else inf)


def _factor(ratios: Sequence[float], beyond: _Beyond) -> tuple[float, float]:
    """Return the factor of all updates, and its excess over the limit."""
    if len(ratios) < 3:
        return 1.0, 0.0
    middle = float(np.median(ratios))
    scatter = 1.4826 * float(np.median(np.abs(np.array(ratios) - middle)))
    if scatter > abs(middle - 1) / 2 or (beyond.is_known and not beyond.is_throughout):
        return middle, 0.0
    error = 3 * scatter / sqrt(len(ratios))
    return middle, abs(middle - 1) / max(error, 1e-12 if beyond.is_known else _RATE)
