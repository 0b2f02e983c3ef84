"""Judge the updates of all parameters of two dumps together: by settings if they can be fitted, otherwise by noise.

Arrays are flat and float64, with corresponding elements on both sides. An excess is a difference in units of the
allowed one: above 1 it differs; NaN if unknown. Noise is judged by medians over elements, because Adam turns tiny
gradients into whole steps of either sign, and noise decides the sign of a gradient that is smaller than the noise.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, nan

import numpy as np

from msprobe.compare.core.noise import DRIFT
from msprobe.compare.locate.finding import Basis, Status, UpdateCause, UpdateDifference, UpdateJudgement, UpdateVerdict

from .fit import Floats, History
from .settings import compare_settings, frozen

_LIMIT = 1.5
"""Largest ratio of the difference of an update to the difference that gradients and rounding explain. Clean pairs of
six optimizers, order of sums and bfloat16 inputs of products, MindSpore and PyTorch, six steps: at most 1.03. Wrong
settings, after one update: a weight decay of 0.01 instead of 0.1 reaches 21, learning rates 34 (1.2 times) and 173
(twice)."""

_NOISY = 3.0
"""Elements whose gradient is smaller than this multiple of the median noise of gradients are left out."""

_ENOUGH = 0.1
"""The share of elements that must remain."""

DRIFT_OF_SMALL = 2e-2
"""Limit of the drift of vectors around zero, such as biases: those that began at zero consist of updates, and differ as
much as gradients do. Clean pairs: at most 5e-3."""

_ROUNDED, _ROUNDED_TAIL = 8.0, 32.0
"""If the previous step is unknown, weights differ only by rounding if the median element differs by up to `_ROUNDED`
units in the last place of their root mean square, and 98 % of the elements by up to `_ROUNDED_TAIL`. Clean pairs in
float32, another order of sums, the third step of six nets in two sizes: 43 of 48 within; median up to 2.3, 98 % up to 7
units. Five drift further, because noise changed a discrete decision, or amplifies."""

_TAIL = 0.98

_SENSITIVE = 50.0
"""If products round to bfloat16, the gradients of a step differ by 80 to 400 times the drift that such gradients cause
(clean pairs, three steps); if only the weights differ, by 4 to 26 times (weight decay of the norms, missing
clipping)."""

_NEAR = 0.02
"""Without gradients, updates with a smaller relative difference agree; bfloat16 inputs of products cause up to
0.007."""

_IN_LINE = 10.0
"""The noise of a gradient that is only rounding error is at most this multiple of that of the median parameter: more is
a gradient that a fault changed. Key biases before a softmax, clean pairs in float32, bfloat16 and float16: at most
3."""

_OUTLYING = 10.0
"""Largest difference of the updates of an element, in units of the golden's largest update of all parameters. Noise can
at most reverse an update, which is twice its size; an overwritten element or shard is far beyond."""

_FAR = 0.05  # a factor of two updates closer to 1 is treated as 1
_CLEAR = 4.0  # residual of a pattern, as a share of the difference
_SAME = 0.1  # factors with a smaller difference are equal


@dataclass(frozen=True, eq=False)
class Track:
    """One parameter of one side over consecutive steps: weights and gradients of every step, None if a gradient is
    unknown; that of the last step may be missing. `ulp` is the spacing of its dtype at 1."""

    weights: tuple[Floats, ...]
    gradients: tuple[Floats | None, ...] = ()
    ulp: float = 2.0**-23

    @property
    def known_updates(self) -> int:
        """Return the number of updates with a known gradient, from the first on."""
        missing = next((n for n, g in enumerate(self.gradients) if g is None), len(self.gradients))
        return min(missing, len(self.weights) - 1)


@dataclass(frozen=True, eq=False)
class Parameter:
    """One parameter of both sides. `is_aligned`: the elements correspond; `is_vector`: it has at most one axis."""

    name: str
    golden_name: str
    target: Track
    golden: Track
    is_aligned: bool = True
    is_vector: bool = False

    @property
    def names(self) -> tuple[str, str]:
        """Return the names of both sides; parts of one parameter share one of them."""
        return self.name, self.golden_name

    @property
    def is_comparable(self) -> bool:
        """Return whether the elements of one side can be compared with those of the other."""
        return self.is_aligned and self.target.weights[0].shape == self.golden.weights[0].shape


def judge(
    parameters: Sequence[Parameter],
    at: int,
    step: int,
    *,
    norms: tuple[Sequence[float], Sequence[float]] = ((), ()),
    is_whole: bool = True,
) -> UpdateJudgement:
    """Judge the update that led to the weights at position `at` of every track, which are those of step `step`.

    `norms` are the global norms of the gradients of each step but the last, of target and golden. `is_whole`: the
    tracks begin with the first step of the runs, so that states of optimizers began at zero. If `at` is 0 there is no
    previous step, and weights are judged by their drift.
    """
    noises = [_gradient_noise(p, at) for p in parameters]
    are_rounding = _rounding_alone(noises)
    if at == 0:
        shares = [one.apart / one.size if one.size > 0 else nan for one in noises]
        explained = drift_of_gradients(shares)
        return UpdateJudgement(
            step,
            tuple(
                _amplified(
                    verdict_of_weights(p.name, p.golden_name, _drift(p, drift), is_rounded=_is_rounded(p)), is_rounding
                )
                for p, is_rounding, drift in zip(parameters, are_rounding, explained, strict=True)
            ),
        )
    verdicts: dict[tuple[str, str], UpdateVerdict] = {}
    differences: list[UpdateDifference] = []
    known = [
        p
        for p in parameters
        if all(track.known_updates >= at and track.weights[0].size for track in (p.target, p.golden))
    ]
    if known:
        names = tuple(p.name for p in known)
        target = _history(names, [p.target for p in known], norms[0], at, is_whole)
        golden = _history(names, [p.golden for p in known], norms[1], at, is_whole)
        compared = compare_settings(target, golden, at if is_whole else 1)
        for p, is_judged, excess in zip(known, compared.is_known, compared.excess, strict=True):
            if is_judged:
                verdicts[p.names] = verdict_of(p.name, p.golden_name, Basis.SETTINGS, excess)
        differences += compared.differences
    patterns: dict[tuple[str, str], tuple[UpdateCause, float]] = {}
    for p, is_rounding in zip(parameters, are_rounding, strict=True):
        if p.names in verdicts:
            continue
        verdicts[p.names], pattern = _by_noise(p, at)
        if pattern[0] not in (UpdateCause.NOT_UPDATED, UpdateCause.UPDATED_HERE):
            verdicts[p.names] = _amplified(verdicts[p.names], is_rounding)
        if verdicts[p.names].status is Status.DIFFERS:
            patterns[p.names] = pattern
    for p, far in zip(parameters, _outliers(parameters, at), strict=True):
        if far > 1 and verdicts[p.names].status is not Status.DIFFERS:
            verdicts[p.names] = verdict_of(p.name, p.golden_name, Basis.UPDATES, far)
            patterns[p.names] = UpdateCause.UNKNOWN, 0.0
    patterns_of = {name: pattern for (name, _), pattern in patterns.items()}
    differences += _grouped(patterns_of, sum(v.status is Status.AGREES for v in verdicts.values()))
    return UpdateJudgement(step, tuple(verdicts[p.names] for p in parameters), tuple(differences))


def verdict_of(name: str, golden_name: str, basis: Basis, excess: float) -> UpdateVerdict:
    """Return the verdict on a parameter by its excess over the limit."""
    status = Status.UNSEEN if isnan(excess) else Status.DIFFERS if excess > 1 else Status.AGREES
    return UpdateVerdict(name, golden_name, status, basis, 0.0 if isnan(excess) else float(excess))


def verdict_of_weights(name: str, golden_name: str, excess: float, *, is_rounded: bool) -> UpdateVerdict:
    """Return the verdict on a parameter whose previous step is unknown: it agrees only if its weights differ by
    rounding; `excess` is that over run-to-run drift."""
    verdict = verdict_of(name, golden_name, Basis.DRIFT, excess)
    is_open = verdict.status is Status.AGREES and not is_rounded
    return replace(verdict, status=Status.DRIFTED) if is_open else verdict


def rounding_excess(apart: float, scale: float, ulp: float) -> float:
    """Return a difference of weights in units of the allowed rounding if the previous step is unknown; `scale` is the
    root mean square of the weights."""
    return excess_of(apart, _ROUNDED * ulp * scale)


def drift_of_gradients(noises: Sequence[float]) -> list[float]:
    """Return the possible drift of the weights of each parameter, relative to their size, by the relative difference of
    its gradient in this step (NaN: unknown): by its own noise, or by that of the median parameter."""
    known = [one for one in noises if one >= 0]
    usual = float(np.median(known)) if known else 0.0
    # A gradient that is only noise is not evidence about the drift.
    return [max(each for each in (0.0, usual, one) if each * _NOISY < 1) / _SENSITIVE for one in noises]


def drift_excess(
    apart: float, mean: float, scale: float, is_vector: bool, ulp: float = 0.0, explained: float = 0.0
) -> float:
    """Return the excess of the difference of weights if the previous step is unknown; the limit is higher for a vector
    around zero, which the gain of a normalization is not. `scale` is their root mean square, `explained` the drift that
    the noise of gradients explains."""
    is_around_zero = is_vector and abs(mean) < 0.9 * scale
    return excess_of(apart, (max(DRIFT_OF_SMALL if is_around_zero else DRIFT, explained) + ulp) * scale)


def excess_of(apart: float, allowed: float) -> float:
    """Return a difference in units of the allowed one."""
    return apart / allowed if allowed else nan if apart else 0.0


def _history(
    names: tuple[str, ...], tracks: Sequence[Track], norms: Sequence[float], at: int, is_whole: bool
) -> History:
    """Return the tracks together, for the steps that all of them have; only the last update of a run whose beginning is
    missing."""
    steps = min(track.known_updates for track in tracks)
    first, last = (0, steps) if is_whole else (at - 1, at)
    gradients = [[g for g in track.gradients[first:last] if g is not None] for track in tracks]
    return History(
        names,
        np.concatenate([[0], np.cumsum([track.weights[0].size for track in tracks])]),
        tuple(np.concatenate([track.weights[n] for track in tracks]) for n in range(first, last + 1)),
        tuple(map(np.concatenate, zip(*gradients, strict=True))),
        np.array([track.ulp for track in tracks]),
        tuple(norms[first:last]) if len(norms) >= last else (nan,) * (last - first),
        is_whole,
    )


def _drift(p: Parameter, explained: float) -> float:
    """Return median |w_t - w_g| in units of the allowed drift, if the previous step is unknown."""
    target, golden = p.target.weights[0], p.golden.weights[0]
    if not p.is_comparable or not target.size:
        return nan
    scale = float(np.sqrt(np.mean(golden**2)))
    return drift_excess(_median(target - golden), float(np.mean(golden)), scale, p.is_vector, p.golden.ulp, explained)


def _is_rounded(p: Parameter) -> bool:
    """Return whether the weights of both sides differ only by rounding, if the previous step is unknown.

    An element whose gradient is not zero, but not greater than its noise, may have any update, as an optimizer that
    divides by the size of gradients makes whole updates of it.
    """
    target, golden = p.target.weights[0], p.golden.weights[0]
    if not p.is_comparable or not target.size:
        return False
    apart = np.abs(target - golden)
    gradients = (p.target.gradients or (None,))[0], (p.golden.gradients or (None,))[0]
    if gradients[0] is not None and gradients[1] is not None:
        size = np.abs(gradients[1])
        is_clear = (size == 0) | (size >= _NOISY * _median(gradients[0] - gradients[1]))
        apart = apart[is_clear] if is_clear.mean() >= _ENOUGH else apart
    scale = float(np.sqrt(np.mean(golden**2)))
    middle, tail = (float(np.quantile(apart, share)) for share in (0.5, _TAIL))
    return rounding_excess(max(middle, tail * _ROUNDED / _ROUNDED_TAIL), scale, p.golden.ulp) <= 1


def _by_noise(p: Parameter, at: int) -> tuple[UpdateVerdict, tuple[UpdateCause, float]]:
    """Return the verdict on one parameter whose settings are unknown, and the pattern of the difference."""
    if not p.is_comparable:
        return verdict_of(p.name, p.golden_name, Basis.UPDATES, nan), (UpdateCause.UNKNOWN, 0.0)
    target, golden = p.target, p.golden
    before = golden.weights[at - 1]
    ours, theirs = target.weights[at] - target.weights[at - 1], golden.weights[at] - before
    # Half a spacing at the median weight on each side, as in `History.rounding`.
    scale = max(_median(golden.weights[at]), float(np.finfo(np.float32).tiny))
    rounding = 2 * float(0.5 * golden.ulp * 2.0 ** np.floor(np.log2(scale)))
    pattern = _pattern(ours, theirs, before, rounding)
    gradients = [_gradients_until(track, at) for track in (target, golden)]
    if all(gradients):
        basis, excess = Basis.GRADIENTS, _by_gradients(ours, theirs, gradients[0], gradients[1], rounding)
    else:
        basis, apart, allowed = Basis.UPDATES, _median(ours - theirs), _NEAR * _median(theirs) + rounding
        # Beyond that, only a difference that mostly follows one factor or weight decay is certain.
        excess = excess_of(apart, allowed) if apart <= allowed or pattern[0] is not UpdateCause.UNKNOWN else nan
    if pattern[0] in (UpdateCause.NOT_UPDATED, UpdateCause.UPDATED_HERE):
        excess = inf
    return verdict_of(p.name, p.golden_name, basis, excess), pattern


@dataclass(frozen=True, slots=True)
class GradientNoise:
    """The difference of the two sides' gradients of one parameter (`apart`), and their size; NaN: unknown."""

    apart: float = nan
    size: float = nan

    @property
    def is_all(self) -> bool:
        """Return whether the gradient is too small, relative to its noise, to be judged."""
        return self.apart > 0 and self.apart * _NOISY >= self.size


def _gradient_noise(p: Parameter, at: int) -> GradientNoise:
    """Return the noise of the gradient that is clearest among the steps until `at`."""
    found = [
        GradientNoise(_median(t - g), _median(g))
        for t, g in zip(p.target.gradients[: at + 1], p.golden.gradients[: at + 1], strict=False)
        if t is not None and g is not None and p.is_comparable
    ]
    return min(found, key=lambda one: one.apart / one.size if one.size else inf, default=GradientNoise())


def _rounding_alone(noises: Sequence[GradientNoise]) -> list[bool]:
    """Return for each parameter whether its gradient is only rounding error on both sides.

    That of a key bias before a softmax is: the sum over the row is zero. An optimizer that divides by the size of
    gradients makes whole updates of it, which are arbitrary. The gradients of most parameters must be clear, and this
    one must not differ by more than theirs do.
    """
    known = [one.apart for one in noises if one.apart >= 0]
    clear = [one.apart for one in noises if one.apart >= 0 and not one.is_all]
    if len(clear) * 2 < len(known) or not clear:
        return [False] * len(noises)
    usual = float(np.median(clear))
    return [one.is_all and one.apart <= _IN_LINE * usual for one in noises]


def _amplified(verdict: UpdateVerdict, is_rounding: bool) -> UpdateVerdict:
    """Return the verdict; a parameter whose gradient is only rounding error agrees."""
    if not is_rounding or verdict.status is Status.AGREES:
        return verdict
    return replace(verdict, status=Status.AGREES, basis=Basis.ROUNDING, excess=0.0)


def _gradients_until(track: Track, at: int) -> list[Floats]:
    """Return the known gradients of the steps before a position; empty if that of the last is unknown."""
    found = track.gradients[:at]
    return [g for g in found if g is not None] if len(found) == at and found[-1] is not None else []


def _by_gradients(
    ours: Floats, theirs: Floats, target: Sequence[Floats], golden: Sequence[Floats], rounding: float
) -> float:
    """Return median |U_t - U_g| / (_LIMIT * (median |g_t - g_g| / median |g_g| * median |U_g| + rounding)).

    The greatest relative difference of gradients of all steps is used, because momentum keeps it.
    """
    clear = np.abs(golden[-1]) >= _NOISY * _median(target[-1] - golden[-1])
    if clear.sum() < max(1.0, _ENOUGH * clear.size):
        return nan
    relative = max(
        _median(t - g) / max(_median(g), float(np.finfo(np.float64).tiny)) for t, g in zip(target, golden, strict=True)
    )
    return excess_of(_median((ours - theirs)[clear]), _LIMIT * (relative * _median(theirs[clear]) + rounding))


def _outliers(parameters: Sequence[Parameter], at: int) -> list[float]:
    """Return max |U_t - U_g| / (_OUTLYING * (max |U_g| of all parameters + rounding)), which medians over elements do
    not show; NaN if elements cannot be compared."""
    known = [p for p in parameters if p.is_comparable and p.golden.weights[0].size]
    updates = [_largest(p.golden.weights[at] - p.golden.weights[at - 1]) for p in known]
    usual = max(updates, default=0.0)
    found = dict.fromkeys((p.names for p in parameters), nan)
    for p in known:
        before, after = p.golden.weights[at - 1], p.golden.weights[at]
        ours = p.target.weights[at] - p.target.weights[at - 1]
        rounding = p.golden.ulp * max(_largest(before), _largest(after))
        found[p.names] = excess_of(_largest(ours - (after - before)), _OUTLYING * (usual + rounding))
    return [found[p.names] for p in parameters]


def _largest(values: Floats) -> float:
    return float(np.max(np.abs(values)))


def _pattern(ours: Floats, theirs: Floats, before: Floats, rounding: float) -> tuple[UpdateCause, float]:
    """Return the simple cause, if any, that explains most of the difference of two updates; and the factor of a
    learning rate."""
    if not ours.any() and _median(theirs) > rounding:
        return UpdateCause.NOT_UPDATED, 0.0
    if not theirs.any() and _median(ours) > rounding:
        return UpdateCause.UPDATED_HERE, 0.0
    clear = np.abs(theirs) > max(_median(theirs), rounding)
    if clear.any():
        factor = float(np.median(ours[clear] / theirs[clear]))
        left = _median((ours - factor * theirs)[clear])
        if abs(factor - 1) > _FAR and left * _CLEAR <= _median((ours - theirs)[clear]):
            return UpdateCause.LEARNING_RATE, factor
    size = float(np.dot(before, before))
    if size and np.ptp(before) > 0:
        decay = float(np.dot(before, theirs - ours)) / size
        if _median(ours - theirs + decay * before) * _CLEAR <= _median(ours - theirs):
            return UpdateCause.WEIGHT_DECAY, 0.0
    return UpdateCause.UNKNOWN, 0.0


def _median(values: Floats) -> float:
    return float(np.median(np.abs(values)))


def _grouped(patterns: Mapping[str, tuple[UpdateCause, float]], agreeing: int) -> Iterator[UpdateDifference]:
    """Yield the parameters of one cause together.

    A single parameter shows a pattern by chance: of several causes, the one that most parameters show is that of all;
    there is none if fewer than a third show it.
    """
    one_sided = UpdateCause.NOT_UPDATED, UpdateCause.UPDATED_HERE
    of_cause = [[name for name, pattern in patterns.items() if pattern[0] is cause] for cause in one_sided]
    yield from frozen(of_cause[0], of_cause[1], agreeing)
    left = {name: pattern for name, pattern in patterns.items() if pattern[0] not in one_sided}
    if not left:
        return
    counts = Counter(cause for cause, _ in left.values() if cause is not UpdateCause.UNKNOWN)
    cause, count = counts.most_common(1)[0] if counts else (UpdateCause.UNKNOWN, 0)
    if count * 3 < len(left):
        cause = UpdateCause.UNKNOWN
    factors = [factor for one, factor in left.values() if one is cause is UpdateCause.LEARNING_RATE]
    middle = float(np.median(factors)) if factors else None
    is_one = middle is not None and np.median(np.abs(np.array(factors) - middle)) <= _SAME * abs(middle)
    yield UpdateDifference(cause, tuple(left), agreeing, factor=middle if is_one else None)
