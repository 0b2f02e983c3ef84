"""The updates of all parameters of two dumps, judged together: settings where they can be fitted, else noise."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan, nan

import numpy as np

from msprobe.compare.locate.finding import Basis, Cause, Status, UpdateDifference, UpdateJudgement, Verdict

from .fit import Floats, History
from .settings import compare_settings
from .statistics import Pattern, Step, by_gradients, by_updates, by_weights, pattern

_SAME = 0.1  # factors that are nearer are one


@dataclass(frozen=True, eq=False)
class Track:
    """One parameter of one side over consecutive steps, flat float64 arrays: weights of every step, gradients of every
    step but the last, or None where one is not known. `ulp` is the spacing of its dtype at 1."""

    weights: tuple[Floats, ...]
    gradients: tuple[Floats | None, ...] = ()
    ulp: float = 2.0**-23


@dataclass(frozen=True, eq=False)
class Parameter:
    """One parameter of both sides. `is_aligned`: element is beside element; `is_vector`: it has one axis at most."""

    name: str
    golden_name: str
    target: Track
    golden: Track
    is_aligned: bool = True
    is_vector: bool = False


@dataclass(frozen=True)
class Run:
    """What the tracks of a side have in common: the global norms of the gradients of each step but the last."""

    norms: tuple[float, ...] = field(default=())


def judge(
    parameters: Sequence[Parameter],
    at: int,
    step: int,
    *,
    target: Run = Run(),
    golden: Run = Run(),
    is_whole: bool = True,
) -> UpdateJudgement:
    """The update that led to the weights at place `at` of every track, which are those of step `step`.

    `is_whole`: the tracks begin with the first step of the runs, so that states of optimizers began at zero. Where
    `at` is 0 there is no step before, and weights are judged by how far they have drifted.
    """
    if at == 0:
        return UpdateJudgement(step, tuple(_drifts(parameters)))
    verdicts: dict[str, Verdict] = {}
    differences: list[UpdateDifference] = []
    known = [p for p in parameters if _is_known(p.target, at) and _is_known(p.golden, at)]
    if known:
        histories = [
            _history([p.name for p in known], [getattr(p, side) for p in known], run, at, is_whole)
            for side, run in (("target", target), ("golden", golden))
        ]
        compared = compare_settings(histories[0], histories[1], at if is_whole else 1)
        for parameter, is_judged, excess in zip(known, compared.is_known, compared.excess, strict=True):
            if is_judged:
                verdicts[parameter.name] = _verdict(parameter, Basis.SETTINGS, float(excess))
        differences += compared.differences
    patterns: dict[str, Pattern] = {}
    for parameter in (p for p in parameters if p.name not in verdicts):
        verdict, seen = _by_noise(parameter, at)
        verdicts[parameter.name] = verdict
        if verdict.status is Status.DIFFERS:
            patterns[parameter.name] = seen
    differences += _grouped(patterns, sum(v.status is Status.AGREES for v in verdicts.values()))
    return UpdateJudgement(step, tuple(verdicts[p.name] for p in parameters), tuple(differences))


def _is_known(track: Track, at: int) -> bool:
    """Whether the gradients up to an update are there."""
    return len(track.gradients) >= at and all(g is not None for g in track.gradients[:at]) and track.weights[0].size > 0


def _history(names: Sequence[str], tracks: Sequence[Track], run: Run, at: int, is_whole: bool) -> History:
    """Tracks side by side, as far as all of them go; of a run whose beginning is not there the last update alone."""
    steps = min(_length(track) for track in tracks)
    first, last = (0, steps) if is_whole else (at - 1, at)
    sizes = [track.weights[0].size for track in tracks]
    norms = run.norms[first:last] if len(run.norms) >= last else (nan,) * (last - first)
    return History(
        tuple(names),
        np.concatenate([[0], np.cumsum(sizes)]),
        tuple(np.concatenate([track.weights[n] for track in tracks]) for n in range(first, last + 1)),
        tuple(
            np.concatenate([g for track in tracks if (g := track.gradients[n]) is not None]) for n in range(first, last)
        ),
        np.array([track.ulp for track in tracks]),
        norms,
        is_whole,
    )


def _length(track: Track) -> int:
    """How many updates have their gradient, from the first on."""
    missing = next((n for n, g in enumerate(track.gradients) if g is None), len(track.gradients))
    return min(missing, len(track.weights) - 1)


def _by_noise(parameter: Parameter, at: int) -> tuple[Verdict, Pattern]:
    """One parameter whose settings are not known."""
    nothing = Pattern(Cause.UNKNOWN)
    if not parameter.is_aligned or parameter.target.weights[0].shape != parameter.golden.weights[0].shape:
        return _verdict(parameter, Basis.UPDATES, nan), nothing
    steps = [_step(track, at) for track in (parameter.target, parameter.golden)]
    if steps[0].gradients and steps[1].gradients:
        excess, basis = by_gradients(*steps), Basis.GRADIENTS
    else:
        excess, basis = by_updates(*steps), Basis.UPDATES
    seen = pattern(*steps)
    if seen.cause in (Cause.NOT_UPDATED, Cause.UPDATED_ALONE):
        excess = np.inf
    return _verdict(parameter, basis, excess), seen


def _step(track: Track, at: int) -> Step:
    gradients = tuple(g for g in track.gradients[:at] if g is not None)
    is_there = len(track.gradients) >= at and track.gradients[at - 1] is not None
    return Step(track.weights[at - 1], track.weights[at], gradients if is_there else (), track.ulp)


def _drifts(parameters: Sequence[Parameter]) -> Iterator[Verdict]:
    for p in parameters:
        target, golden = p.target.weights[0], p.golden.weights[0]
        is_comparable = p.is_aligned and target.shape == golden.shape and target.size > 0
        excess = by_weights(target, golden, p.golden.ulp, is_vector=p.is_vector) if is_comparable else nan
        yield _verdict(p, Basis.DRIFT, excess)


def _verdict(parameter: Parameter, basis: Basis, excess: float) -> Verdict:
    status = Status.UNSEEN if isnan(excess) else Status.DIFFERS if excess > 1 else Status.AGREES
    return Verdict(parameter.name, parameter.golden_name, status, basis, 0.0 if isnan(excess) else excess)


def _grouped(patterns: dict[str, Pattern], agreeing: int) -> Iterator[UpdateDifference]:
    """Parameters of one cause together: a single parameter shows a pattern by chance, so of several causes the one that
    most parameters show is that of all, and none where less than a third does."""
    for cause in (Cause.NOT_UPDATED, Cause.UPDATED_ALONE):
        if chosen := tuple(name for name, seen in patterns.items() if seen.cause is cause):
            yield UpdateDifference(cause, chosen, agreeing)
    left = {n: p for n, p in patterns.items() if p.cause not in (Cause.NOT_UPDATED, Cause.UPDATED_ALONE)}
    if not left:
        return
    counts = Counter(p.cause for p in left.values() if p.cause is not Cause.UNKNOWN)
    cause, count = counts.most_common(1)[0] if counts else (Cause.UNKNOWN, 0)
    if count * 3 < len(left):
        cause = Cause.UNKNOWN
    factors = [p.value for p in left.values() if p.cause is cause is Cause.LEARNING_RATE]
    middle = float(np.median(factors)) if factors else None
    is_one = middle is not None and np.median(np.abs(np.array(factors) - middle)) <= _SAME * abs(middle)
    yield UpdateDifference(cause, tuple(left), agreeing, factor=middle if is_one else None)
