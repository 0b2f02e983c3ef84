"""Run a request: plan its jobs, run them here, in worker processes or on a cluster, and sum them up."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from msprobe.base.errors import DumpError
from msprobe.base.files import make_folder
from msprobe.base.log import logger
from msprobe.compare.request import Request
from msprobe.compare.workers.pool import Lost
from msprobe.compare.workers.run import cores, run
from msprobe.store.lock import alone, claimed

from .calibration import with_limits
from .outcome import (
    Outcome,
    Task,
    compare_alone,
    compare_job,
    failure,
    named_after,
    of_ranks,
    summary_path,
    tables,
    task,
    tasks_of,
    writing,
)
from .plan import Plan, plan
from .summary import Answer, write_first_over_ranks, write_summary


def run_request(request: Request, loud: int = logging.INFO, time: str = "") -> Answer:
    """Compare everything that a request asks for, and tell what is compared and written, as loud as that.

    `time` stands in the names of the files where the caller has claimed it; else this comparison claims one. Of several
    jobs one that cannot be done does not stop the others. UsageError where the request cannot be meant, DumpError where
    nothing at all could be compared.
    """
    request = _absolute(request)
    made = plan(request.target, request.golden, ranks=request.ranks, steps=request.steps, read_as=request.read_as)
    if request.calibrate is not None:
        request = with_limits(request, request.calibrate, loud)
    if request.stack_file is not None and len(made.jobs) > 1:
        logger.warning(
            "%s is the stack of one dump, and there are %d; it is ignored", request.stack_file, len(made.jobs)
        )
        request = replace(request, stack_file=None)
    if time:
        return _compare(made, request, time, loud)
    with ExitStack() as held:
        if any(path.stem == f"result{request.suffix}" for path in tables(made.jobs, request, "")):
            held.enter_context(alone(request.output))  # the names of these tables have no time
        named = partial(named_after, jobs=made.jobs, request=request)
        return _compare(made, request, held.enter_context(claimed(request.output, task(request), named)), loud)


def _compare(made: Plan, request: Request, time: str, loud: int) -> Answer:
    paths = tables(made.jobs, request, time)
    # Where there are more processes than jobs, those that are left over help with the tensors of each.
    inside = 1 if request.scheduler else max(1, (request.workers or cores()) // len(made.jobs))
    tasks = tasks_of(made.jobs, request, paths, inside)
    if len(tasks) == 1:
        answer = Answer((compare_alone(tasks[0]),), made.missing)
    else:
        logger.log(loud, "%s; %d comparisons", made.kinds, len(tasks))
        answer = Answer(_compare_all(tasks, request), made.missing)
    _say(answer, loud)
    _write_beside(answer, request, time, loud)
    return answer


def _compare_all(tasks: Sequence[Task], request: Request) -> tuple[Outcome, ...]:
    """The outcomes in the order of the tasks, in whatever order they come."""
    workers, scheduler = request.workers or 0, request.scheduler
    results = dict(run(compare_job, tasks, workers=workers, scheduler=scheduler, title="comparing"))
    found = tuple(
        failure(task.job, result.reason) if isinstance(result := results[at], Lost) else result
        for at, task in enumerate(tasks)
    )
    if all(outcome.failed for outcome in found):
        raise DumpError(f"nothing could be compared: {found[0].label}: {found[0].failed}")
    return found


def _say(answer: Answer, loud: int) -> None:
    for at, side in enumerate(("target", "golden")):
        steps: dict[str, set[int]] = {}
        for outcome in answer.outcomes:
            if not outcome.failed:
                steps.setdefault(outcome.runs[at], set()).add(outcome.step or 0)
        if len(steps) > 1:
            listed = "; ".join(f"of one, step {', '.join(map(str, sorted(each)))}" for each in steps.values())
            logger.warning(
                "%s: dumps of %d runs lie in one folder (%s); compare each run alone", side, len(steps), listed
            )
    for sides in dict.fromkeys(outcome.sides for outcome in answer.outcomes if outcome.sides):
        logger.log(loud, "%s", sides)
    tables = [outcome.table for outcome in answer.outcomes if outcome.table]
    if len(tables) == 1:
        logger.log(loud, "the table is in %s", tables[0])


def _write_beside(answer: Answer, request: Request, time: str, loud: int) -> None:
    """The files beside the tables: the sum of several jobs, and what was asked for."""
    wanted = []
    if len(answer.outcomes) > 1 or answer.missing:
        wanted.append((write_summary, summary_path(request, time), "what all of them found"))
    if request.diff_analyze:
        wanted.append((write_first_over_ranks, of_ranks(request, time), "what differs first among the ranks"))
    for write, path, what in wanted:
        with writing(path):
            make_folder(request.output)
            write(path, answer)
        logger.log(loud, "%s is in %s", what, path)


def _absolute(request: Request) -> Request:
    """The same request for workers that stand in another folder, and for tables that name what they were made of."""
    return replace(
        request,
        target=request.target.absolute(),
        golden=request.golden.absolute(),
        output=request.output.absolute(),
        stack_file=request.stack_file and request.stack_file.absolute(),
        calibrate=request.calibrate and request.calibrate.absolute(),
    )
