"""A trusted run compared with the golden before the target is: the limits of noise that it gives, written down."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from msprobe.base.collector import without_collector
from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.files import make_folder
from msprobe.base.log import logger
from msprobe.compare.match.given import given_by
from msprobe.compare.measure.files import Effort
from msprobe.compare.noise.calibration import Calibrated, calibrated, limits_of
from msprobe.compare.noise.limits import BUILT_IN
from msprobe.compare.noise.noise_file import NOISE, write_noise
from msprobe.compare.request import Request
from msprobe.compare.workers.run import Lost, run

from .many import plan
from .outcome import Task, compared
from .read_both import read_both
from .steps import around


def with_limits(request: Request, clean: Path, loud: int) -> Request:
    """The request with the limits that a trusted run gives, which are written into the output folder.

    Of several ranks and steps all that the trusted run and the golden both hold are compared, and their limits are one.
    UsageError where the trusted run cannot be read, or holds no tensors; a warning where it is wrong itself.
    """
    for side, other in (("target", request.target), ("golden", request.golden)):
        if clean.resolve() == other.resolve():
            raise UsageError(f"--calibrate {clean}: is the {side} itself; give another run that is trusted")
    path = request.output / NOISE
    asked = replace(request, target=clean, limits=BUILT_IN, calibrate=None, stack_file=None)
    try:
        tasks = list(_tasks(asked, path))
        found = _all(tasks, asked)
    except MsprobeError as err:
        raise UsageError(f"--calibrate {clean}: {err}") from err
    labels = [task.job.label for task in tasks]
    for label, one in zip(labels, found, strict=True):
        if not one.is_of_tensors:
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
    try:
        make_folder(request.output)
        write_noise(path, limits)
    except OSError as err:
        raise UsageError(f"{path}: cannot be written ({err.strerror}); give another folder with -o") from err
    logger.log(loud, "the limits of noise are in %s; give it again with --noise", path)
    return replace(request, limits=limits, calibrate=None)


def _tasks(request: Request, path: Path) -> Iterator[Task]:
    made = plan(request.target, request.golden, ranks=request.ranks, steps=request.steps, read_as=request.read_as)
    for missing in made.missing:
        logger.info("calibrating: %s", missing)
    for job, (before, after) in zip(made.jobs, around(made.jobs), strict=True):
        yield Task(job, request, path, 1, "", len(made.jobs) > 1, before, after)


def _all(tasks: list[Task], request: Request) -> list[Calibrated]:
    """What each task gives, in order; of a single one the processes share the work inside."""
    if len(tasks) == 1:
        return [calibrate_alone(replace(tasks[0], workers=request.workers or 0, scheduler=request.scheduler))]
    results = dict(
        run(
            calibrate_alone,
            tasks,
            workers=request.workers or 0,
            scheduler=request.scheduler,
            title="calibrating",
        )
    )
    found: list[Calibrated] = []
    for at, task in enumerate(tasks):
        result = results[at]
        if isinstance(result, Lost):
            raise UsageError(f"{task.job.label}: {result.reason}")
        found.append(result)
    return found


@without_collector()
def calibrate_alone(task: Task) -> Calibrated:
    """Read a trusted run and the golden, compare them by the built-in limits, and say what they give."""
    workers = 1 if task.scheduler else task.workers
    target, golden = read_both(task.job.target, task.job.golden, task.request, workers)
    if not target.calls or not golden.calls:
        raise UsageError(f"{target.where if not target.calls else golden.where} holds no calls; give another run")
    given = given_by(task.request.mapping, target, golden)
    found = compared(task, target, golden, given, Effort(task.workers, task.scheduler))
    return calibrated(found.comparison, found.located, found.updates)
