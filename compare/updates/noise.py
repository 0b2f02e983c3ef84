"""Whether noise explains how far two updates of one parameter are apart, where settings could not be fitted.

All functions take flat float64 arrays of one parameter, element beside element, and return an excess: a difference in
units of what is allowed, more than 1 differs; NaN where nothing can be said. Medians over elements, because Adam turns
tiny gradients into whole steps of either sign, and noise decides the sign of what is smaller than itself.
"""

from dataclasses import dataclass
from math import nan

import numpy as np

from .rules import Floats
from .verdicts import Cause

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
