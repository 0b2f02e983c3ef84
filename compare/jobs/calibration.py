"""Calibration: the limits of noise by a trusted run."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from msprobe.base import names
from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.files import make_folder, writing
from msprobe.base.log import logger
from msprobe.base.memory import without_gc
from msprobe.compare.core.limits import (
    BUILT_IN,
    NOISE,
    RUNNING_STATISTICS,
    Drift,
    Kind,
    KindAmplification,
    KindResidual,
    Limits,
    LimitSource,
    write_noise,
)
from msprobe.compare.core.noise import KernelPrecision, Sign, class_of
from msprobe.compare.core.user_limits import NO_LIMITS
from msprobe.compare.judge.judged import EQUAL, Comparison
from msprobe.compare.locate.find import Located
from msprobe.compare.locate.finding import Basis, UpdateJudgement
from msprobe.compare.match.user_mapping import user_pairs
from msprobe.compare.measure.files import Effort
from msprobe.compare.noise.leaves import DRIFT_OF_RUNNING
from msprobe.compare.noise.pairs import is_running_statistic
from msprobe.compare.request import Request
from msprobe.compare.workers.run import Lost, run
from msprobe.replay.recorded import Cause, NotReplayed, Replayed
from msprobe.replay.replay import replay
from msprobe.store.record import Dump

from .outcome import Task, compared, read_both, tasks_of
from .plan import plan

_DRIFTING = (Basis.GRADIENTS, Basis.UPDATES, Basis.DRIFT)
"""The bases of updates that are affected by noise."""

_NO_LIBRARY = "torch is not installed, which executes the calls again: pip install 'msprobe-ms[torch]'"


def calibrated(comparison: Comparison, located: Located, updates: UpdateJudgement | None) -> Limits | None:
    """Return the limits by a comparison with the built-in ones whose target is the trusted run; None if the two do not
    contain tensors. Raise a UsageError without torch."""
    if comparison.mode != "tensor":
        return None
    if comparison.noise is not None and Cause.NO_LIBRARY.value in comparison.noise.not_replayed:
        raise UsageError(_NO_LIBRARY)
    residuals, amplifications = _differing(comparison)
    known = {row.kind for row in residuals}
    residuals += [row for row in _equal(comparison) if row.kind not in known]
    limits = Limits(
        LimitSource.CALIBRATED,
        residuals=tuple(residuals),
        amplifications=tuple(amplifications),
        drifts=(*_drifts(updates), *_of_running_statistics(comparison)),
        first_wrong=(located.first.name,) if located.first else (),
        sides=tuple(_made_with(dump) for dump in (comparison.target, comparison.golden)),
    )
    return limits_of([limits], [""], "")  # joins the rows of one kind


def limits_of(found: Sequence[Limits], labels: Sequence[str], file: str) -> Limits:
    """Return the limits of pairs of dumps, of several ranks and steps, together; `labels` distinguish these."""
    return replace(
        found[0],
        file=file,
        residuals=_merged((row for one in found for row in one.residuals), lambda r: (r.kind, r.precision), _worse),
        amplifications=_merged(
            (row for one in found for row in one.amplifications),
            lambda a: a.kind,
            lambda a, b: KindAmplification(a.kind, max(a.amplification, b.amplification), a.outputs + b.outputs),
        ),
        drifts=_merged(
            (row for one in found for row in one.drifts),
            lambda d: d.basis,
            lambda a, b: Drift(a.basis, max(a.excess, b.excess), a.parameters + b.parameters),
        ),
        first_wrong=tuple(
            f"{name} ({label})" if label else name
            for label, one in zip(labels, found, strict=True)
            for name in one.first_wrong
        ),
    )


Row = TypeVar("Row")


def _merged(rows: Iterable[Row], key: Callable[[Row], Any], joined: Callable[[Row, Row], Row]) -> tuple[Row, ...]:
    """Return the rows in the order of their keys, those of one key joined."""
    found: dict[Any, Row] = {}
    for row in rows:
        found[key(row)] = joined(found[key(row)], row) if key(row) in found else row
    return tuple(found[key] for key in sorted(found))


def _worse(one: KindResidual, other: KindResidual) -> KindResidual:
    signs = tuple(sorted({*one.signs, *other.signs}))
    return KindResidual(one.kind, one.precision, max(one.eta, other.eta), one.outputs + other.outputs, signs)


def _made_with(dump: Dump) -> Mapping[str, str]:
    """Return how a side was made; `framework` is its bare name, `version` the name with the version."""
    made_with = dict(dump.made_with)
    version = made_with.pop("framework", "")
    return {"framework": dump.framework, **({"version": version} if version else {}), **made_with}


def _differing(comparison: Comparison) -> tuple[list[KindResidual], list[KindAmplification]]:
    """Return a row for each output that differs: its residual if the call was replayed, otherwise its amplification."""
    residuals: list[KindResidual] = []
    amplifications: list[KindAmplification] = []
    for one in comparison.noise.evidence.values() if comparison.noise else ():
        if one.kind is None or one.is_by_statistics:
            continue
        if isfinite(one.residual) and isfinite(one.bound):
            signs = () if one.sign is Sign.NONE else (one.sign.name,)
            residuals.append(KindResidual(one.kind, class_of(one.residual).value, one.residual, 1, signs))
        elif isfinite(one.amplification):
            amplifications.append(KindAmplification(one.kind, one.amplification, 1))
    return residuals, amplifications


def _equal(comparison: Comparison) -> Iterator[KindResidual]:
    """Return the precision of functions with bitwise equal outputs, by a few golden calls."""
    pairs = comparison.pairs
    differing = set(pairs.call_of[(comparison.equal != EQUAL) & ~comparison.is_input].tolist())
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    mixed: set[tuple[str, str]] = set()
    for place in range(len(pairs)):
        if min(pairs.target_calls[place], pairs.golden_calls[place]) < 0:
            continue
        name = names.parse(pairs.name(place))
        if name.kind == "api":
            found[name.stem, name.direction].append(int(pairs.golden_calls[place]))
            if place in differing:
                mixed.add((name.stem, name.direction))
    for function, calls in found.items():
        if function in mixed:
            continue
        rows: dict[Kind, KindResidual] = {}
        for at in dict.fromkeys((calls[0], calls[-1])):  # a kind has the same precision everywhere
            result = replay(comparison.golden, at)
            if isinstance(result, NotReplayed) and result.cause is Cause.NO_LIBRARY:
                raise UsageError(_NO_LIBRARY)
            for kind, eta in _residuals(result, function[1]) if isinstance(result, Replayed) else ():
                row = KindResidual(kind, class_of(eta).value, eta, len(calls))
                rows[kind] = max(row, rows.get(kind, row), key=lambda r: r.eta)
        yield from (row for row in rows.values() if row.precision != KernelPrecision.OPAQUE.value)


def _residuals(result: Replayed, direction: str) -> Iterator[tuple[Kind, float]]:
    """Return kind and residual of each output, with the options that explain it best."""
    best: dict[tuple[str, tuple[str, ...]], float] = {}
    for candidates in result.residuals.values():
        for one in candidates:
            if one.count and isfinite(one.eta):
                best[one.part, one.path] = min(one.eta, best.get((one.part, one.path), one.eta))
    for (_, path), eta in best.items():
        yield Kind(result.operation, direction, ".".join(path[:1])), eta


def _drifts(updates: UpdateJudgement | None) -> Iterator[Drift]:
    verdicts = updates.verdicts if updates is not None else ()
    for basis in _DRIFTING:
        found = [v.excess for v in verdicts if v.basis is basis and v.excess > 0 and isfinite(v.excess)]
        if found:
            yield Drift(basis.value, max(found), len(found))


def _of_running_statistics(comparison: Comparison) -> Iterator[Drift]:
    """Return the differences of running statistics, which no optimizer updates."""
    if not comparison.target.step:
        return
    found = []
    rows = np.flatnonzero(comparison.is_input & (comparison.equal != EQUAL))
    for row in rows.tolist():
        measures, pair = comparison.measures.get(row), comparison.pairs.pair(row)
        at = int(comparison.pairs.target_rows[row])
        if measures is None or pair.golden is None or at < 0:
            continue
        if not is_running_statistic(comparison.pairs.target.columns, at):
            continue
        norm = pair.golden.statistics.norm if pair.golden.statistics else None
        if isinstance(norm, float) and norm and not measures.mismatched and isfinite(measures.euclid / norm):
            found.append(measures.euclid / norm / DRIFT_OF_RUNNING)
    if found:
        yield Drift(RUNNING_STATISTICS, max(found), len(found))


def with_limits(request: Request, clean: Path, log_level: int) -> Request:
    """Return the request with the limits of a trusted run, which are written into the output folder.

    If there are several ranks and steps, all that both the trusted run and the golden have are compared, and their
    limits are combined. Raise a UsageError if the trusted run cannot be read, or has no tensors; log a warning if it is
    wrong.
    """
    for side, other in (("target", request.target), ("golden", request.golden)):
        if clean.resolve() == other.resolve():
            raise UsageError(f"--calibrate {clean}: is the {side} itself; give another run that is trusted")
    path = request.output / NOISE
    requested = replace(request, target=clean, limits=BUILT_IN, calibrate=None, stack_file=None, user_limits=NO_LIMITS)
    try:
        made = plan(clean, request.golden, ranks=request.ranks, steps=request.steps, read_as=request.read_as)
        for missing in made.missing:
            logger.info("calibrating: %s", missing)
        tasks = tasks_of(made.jobs, requested, [path] * len(made.jobs), 1)
        results = _calibrate_all(tasks, requested)
    except MsprobeError as err:
        raise UsageError(f"--calibrate {clean}: {err}") from err
    labels = [task.job.label for task in tasks]
    found = [limits for limits in results if limits is not None]
    if len(found) < len(results):
        label = labels[results.index(None)]
        where = f" ({label})" if label else ""
        raise UsageError(
            f"--calibrate {clean}{where}: it and the golden are compared by statistics or digests, which say "
            "nothing of kernels; collect both with task `tensor`, or leave the option out"
        )
    limits = limits_of(found, labels, str(path))
    for wrong in limits.first_wrong:
        logger.warning(
            "%s: is wrong itself: its first wrong call is %s; limits of a wrong run hide faults, so calibrate with "
            "another, or find out first what is wrong with it",
            clean,
            wrong,
        )
    with writing(path):
        make_folder(request.output)
        write_noise(path, limits)
    logger.log(log_level, "the limits of noise are in %s; give it again with --noise", path)
    return replace(request, limits=limits, calibrate=None)


def _calibrate_all(tasks: Sequence[Task], request: Request) -> list[Limits | None]:
    """Return the result of each task, in order."""
    workers, scheduler = request.workers or 0, request.scheduler
    if len(tasks) == 1:
        return [calibrate_single(tasks[0])]
    results = dict(run(calibrate_single, tasks, workers=workers, scheduler=scheduler, title="calibrating"))
    found: list[Limits | None] = []
    for at, task in enumerate(tasks):
        if isinstance(result := results[at], Lost):
            raise UsageError(f"{task.job.label}: {result.reason}")
        found.append(result)
    return found


@without_gc()
def calibrate_single(task: Task) -> Limits | None:
    """Read a trusted run and the golden, compare them by the built-in limits, and return the limits."""
    target, golden = read_both(task.job.target, task.job.golden, task.request)
    if not target.calls or not golden.calls:
        raise UsageError(f"{target.where if not target.calls else golden.where} holds no calls; give another run")
    by_user = user_pairs(task.request.mapping, target, golden)
    found = compared(task, target, golden, by_user, Effort(task.workers, task.scheduler))
    return calibrated(found.comparison, found.located, found.updates)
