"""Run `--explain`: find the call, compare the dumps that have it, and print its chain."""

import logging
from dataclasses import replace

from msprobe.base.errors import DumpError, MsprobeError, UsageError
from msprobe.base.language import translated
from msprobe.base.log import join_names
from msprobe.base.names import call_of, unknown_call
from msprobe.base.phrase import Words, phrase
from msprobe.compare.core.layouts import Layouts
from msprobe.compare.jobs.outcome import Compared, Task, compared, read_of, tasks_of
from msprobe.compare.jobs.plan import Job, plan, side
from msprobe.compare.jobs.run import absolute
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.match.user_mapping import user_pairs
from msprobe.compare.request import Request

from .chain import CallChain, chain_of

_MAX_NAMES = 8
"""Maximum number of names in a message."""


def explained(request: Request, name: str) -> tuple[CallChain, Words]:
    """Return the chain of a call, by the name on either side, and a sentence about further dumps that have it.

    Of several steps and ranks the first is taken in which something of the call differs or is open, else the first that
    has the call. UsageError if no dump has it, or if ranks would have to be merged first; DumpError if nothing can be
    compared.
    """
    if request.layouts is not None:
        raise UsageError(
            translated(
                "--explain and --rank-size cannot be combined: compare first, and explain with the folder `merged`",
                "--explain 与 --rank-size 冲突：请先比对，再对 `merged` 文件夹使用 --explain",
            )
        )
    request = absolute(request)
    sides = side(request.target, request.read_as), side(request.golden, request.read_as)
    if not request.read_as:
        from msprobe.compare.jobs.shard_layouts import layouts_of_shards  # here: a single save has no shards

        if isinstance(layouts_of_shards(*sides), Layouts):
            raise UsageError(
                translated(
                    "the runs distribute their tensors differently, so their ranks are merged first: "
                    "compare without --explain first, then explain with the folder `merged` of the output",
                    "两次运行的张量分布不同，比对前须先合并各 rank：请先不带 --explain 比对，再对输出中的 `merged` "
                    "文件夹使用 --explain",
                )
            )
    made = plan(request.target, request.golden, ranks=request.ranks, steps=request.steps, sides=sides)
    if request.calibrate is not None:
        from msprobe.compare.jobs.calibration import with_limits  # here: it needs the replay of calls

        request = with_limits(request, request.calibrate, logging.INFO)
    jobs = [job for job in made.jobs if job.is_of_calls]
    if not jobs:
        raise UsageError(translated("--explain needs dumps of calls", "--explain 只适用于调用的 dump"))
    request = replace(request, tables=False, html=False, stack_file=request.stack_file if len(jobs) == 1 else None)
    tasks = tasks_of(jobs, request, [request.output] * len(jobs), request.workers or 1)
    chosen: tuple[Job, CallChain] | None = None
    last: Compared | None = None
    failed: list[str] = []
    for task in tasks:
        try:
            last = _compared(task)
        except MsprobeError as error:
            failed.append(f"{task.job.label}: {' '.join(str(error).split())}")
            continue
        place = _place(last.comparison, name)
        if place is None:
            continue
        chain = chain_of(last.comparison, last.located, place)
        is_chosen = any(record.decision.differs_or_is_open for record in chain.records)
        if chosen is None or is_chosen:
            chosen = task.job, chain
        if is_chosen:
            break
    if chosen is None:
        if last is None:
            raise DumpError(failed[0])
        every = dict.fromkeys((*last.comparison.target.place, *last.comparison.golden.place))
        raise UsageError(unknown_call(name, every))
    return chosen[1], _others(tasks, chosen[0])


def _compared(task: Task) -> Compared:
    target, golden = read_of(task)
    return compared(task, target, golden, user_pairs(task.request.mapping, target, golden), task.effort)


def _place(comparison: Comparison, name: str) -> int | None:
    """Return the place of the pair of calls with this name, or with a record of this name; None without one."""
    pairs = comparison.pairs
    for dump, calls in ((pairs.target, pairs.target_calls), (pairs.golden, pairs.golden_calls)):
        if (call := call_of(name, dump.place)) is not None:
            found = (calls == dump.place[call]).nonzero()[0]
            return int(found[0]) if len(found) else None
    return None


def _others(tasks: list[Task], chosen: Job) -> Words:
    labels = [task.job.label for task in tasks if task.job is not chosen]
    if not labels:
        return ""
    return phrase(
        "{number} other comparisons ({labels}): choose one with --steps and --ranks",
        number=len(labels),
        labels=join_names(labels, _MAX_NAMES),
    )
