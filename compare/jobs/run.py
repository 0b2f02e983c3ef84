"""Run a request: plan its jobs, run them here, in worker processes or on a cluster, and summarize them."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.base.files import make_folder, writing
from msprobe.base.log import logger
from msprobe.compare.request import Request, identity_of
from msprobe.compare.workers.run import Lost, cores, run
from msprobe.store.lock import claimed, exclusive

from .outcome import Outcome, Task, compare_job, compare_single, failure, tasks_of
from .plan import Job, Plan, Side, plan
from .summary import RequestResult, write_first_over_ranks, write_summary


def run_request(
    request: Request, log_level: int = logging.INFO, time: str = "", sides: tuple[Side, Side] | None = None
) -> RequestResult:
    """Compare all dumps of a request, and log progress at level `log_level`.

    `sides` are the contents of its two paths, if they are known; the request then has absolute paths. `time` is the
    part of the names of files if the caller has reserved it; otherwise this comparison reserves one. If one of several
    jobs fails, the others continue. Raise a UsageError if the request is invalid, a DumpError if nothing could be
    compared.
    """
    request = absolute(request)
    made = plan(
        request.target,
        request.golden,
        ranks=request.ranks,
        steps=request.steps,
        read_as=request.read_as,
        sides=sides,
    )
    if request.calibrate is not None:
        from .calibration import with_limits  # here: it needs the replay of calls

        request = with_limits(request, request.calibrate, log_level)
    if request.stack_file is not None and len(made.jobs) > 1:
        logger.warning(
            "%s is the stack of one dump, and there are %d; it is ignored", request.stack_file, len(made.jobs)
        )
        request = replace(request, stack_file=None)
    if time:
        return _compare(made, request, time, log_level)
    with ExitStack() as held:
        if any(path.stem == f"result{request.suffix}" for path in _tables(made.jobs, request, "")):
            held.enter_context(exclusive(request.output))  # the names of these tables have no time
        named = partial(_named_after, jobs=made.jobs, request=request)
        return _compare(
            made, request, held.enter_context(claimed(request.output, identity_of(request), named)), log_level
        )


def _compare(made: Plan, request: Request, time: str, log_level: int) -> RequestResult:
    paths = _tables(made.jobs, request, time)
    # If there are more processes than jobs, the others help with the tensors of each.
    inside = 1 if request.scheduler else max(1, (request.workers or cores()) // len(made.jobs))
    tasks = tasks_of(made.jobs, request, paths, inside)
    if request.first_only:
        from .first import first_wrong_only  # here: only this one reads digests

        logger.log(log_level, "%s; %d comparisons", made.kinds, len(tasks))
        result = RequestResult(first_wrong_only(tasks, request), made.missing)
    elif len(tasks) == 1:
        result = RequestResult((compare_single(tasks[0]),), made.missing)
    else:
        logger.log(log_level, "%s; %d comparisons", made.kinds, len(tasks))
        result = RequestResult(_compare_all(tasks, request), made.missing)
    result = replace(result, user_limits=request.user_limits)
    _log(result, log_level)
    _write_summaries(result, request, time, log_level)
    return result


def _compare_all(tasks: Sequence[Task], request: Request) -> tuple[Outcome, ...]:
    """Return the outcomes in the order of the tasks; they are computed in any order."""
    workers, scheduler = request.workers or 0, request.scheduler
    results = dict(run(compare_job, tasks, workers=workers, scheduler=scheduler, title="comparing"))
    found = tuple(
        failure(task.job, result.reason) if isinstance(result := results[at], Lost) else result
        for at, task in enumerate(tasks)
    )
    if all(outcome.failed for outcome in found):
        raise DumpError(f"nothing could be compared: {found[0].label}: {found[0].failed}")
    return found


def _log(result: RequestResult, log_level: int) -> None:
    for at, side in enumerate(("target", "golden")):
        steps: dict[str, set[int]] = {}
        for outcome in result.outcomes:
            if not outcome.failed:
                steps.setdefault(outcome.runs[at], set()).add(outcome.step or 0)
        if len(steps) > 1:
            listed = "; ".join(f"of one, step {', '.join(map(str, sorted(each)))}" for each in steps.values())
            logger.warning(
                "%s: dumps of %d runs lie in one folder (%s); compare each run alone", side, len(steps), listed
            )
    for sides in dict.fromkeys(outcome.sides for outcome in result.outcomes if outcome.sides):
        logger.log(log_level, "%s", sides)
    paths = [outcome.table for outcome in result.outcomes if outcome.table]
    if len(paths) == 1:
        logger.debug("the table is in %s", paths[0])


def _write_summaries(result: RequestResult, request: Request, time: str, log_level: int) -> None:
    """Write the files in addition to the tables: the summary of several jobs, and the request."""
    wanted = []
    summary_path, ranks_path = _summary_tables(request, time)
    if len(result.outcomes) > 1 or result.missing:
        wanted.append((write_summary, summary_path, "what all of them found"))
    if request.diff_analyze:
        wanted.append((write_first_over_ranks, ranks_path, "what differs first among the ranks"))
    for write, path, what in wanted:
        with writing(path):
            make_folder(request.output)
            write(path, result)
        logger.log(log_level, "%s is in %s", what, path)


def absolute(request: Request) -> Request:
    """Return the request with absolute paths, for workers in another folder, and for tables that contain their
    sources."""
    names = ("target", "golden", "output", "stack_file", "calibrate")
    paths = {name: path.absolute() for name in names if (path := getattr(request, name)) is not None}
    return replace(request, **paths)


def _named_after(second: str, jobs: Sequence[Job], request: Request) -> list[Path]:
    """Return the files of a comparison that have a time in their names."""
    paths = [path for path in _tables(jobs, request, second) if path.stem.endswith(second)]
    return [*paths, *_summary_tables(request, second)]


def _summary_tables(request: Request, time: str) -> tuple[Path, Path]:
    """Return the files that summarize several jobs, and that contain the first differences among the ranks."""
    return request.output / f"compare_summary_{time}.json", request.output / f"diff_analyze_{time}.json"


def _tables(jobs: Sequence[Job], request: Request, time: str) -> list[Path]:
    """Return the path of each job's table: a folder for each step of a run, a name for each rank of a step.

    `compare_result_{time}`; of the folders of ranks `compare_result_{rank folder}_{time}`, of kernels
    `compare_result_{rank}_{step}_{time}`, of debug.json `debug_compare_result...`; of npy files `result` in folders as
    theirs.
    """
    return [_table(job, request, time) for job in jobs]


def _table(job: Job, request: Request, time: str) -> Path:
    tree, step, rank, what = job.place
    if job.target.family == "npy":
        return request.output / what / f"result{request.suffix}.{request.format}"
    end = f"{request.suffix}_{time}.{request.format}"
    if job.target.family == "kernels":
        return request.output / f"compare_result_{rank}_{step}{end}"
    name = "debug_compare_result" if what == "debug" else "compare_result"
    folder = request.output / (tree or "") / ("" if step is None else f"step{step}")
    return folder / f"{name}{f'_{job.rank_name}' if job.rank_name else ''}{end}"
