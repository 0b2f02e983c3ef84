"""All APIs of a dump, or those that are wanted: in this process, or in several that take work as they are free.

Kernels are executed in separate processes, so a kernel that crashes does not lose other results. The APIs of its task
are tried again individually, and the one that crashes is reported as skipped.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.compare.workers.pool import in_pool
from msprobe.compare.workers.progress import progress
from msprobe.compare.workers.run import Lost, cores, run
from msprobe.store.lock import claim
from msprobe.store.reader import read
from msprobe.store.record import Dump

from .check import Api, Checked, Direction, Inputs, Skipped, Why, checked
from .executor import executor_of
from .save import save_tensors

MOST = 32
"""APIs in one task."""


@dataclass(frozen=True)
class Options:
    """Options of the check. `seed`: of drawn inputs, None for recorded ones. `is_run`: execute the calls, or judge
    what was recorded. `devices` are shared out among the processes. `save`: the folder for the tensors of what is
    wrong; empty for none."""

    seed: int | None = None
    is_run: bool = False
    devices: tuple[int, ...] = (0,)
    save: str = ""


@dataclass(frozen=True)
class _Task:
    dump: str
    apis: tuple[Api, ...]
    options: Options
    claims: str = ""


def check_all(
    dump: Dump, path: str, apis: Sequence[Api], options: Options, workers: int, claims: str = ""
) -> Generator[Checked, None, None]:
    """Yield each checked API in the order of completion; `claims` is a folder in which processes claim devices."""
    limit = workers or max(cores(), len(options.devices))
    if options.is_run and len(options.devices) > 1:
        limit = len(options.devices)  # one process each
    size = max(1, min(MOST, len(apis) // (4 * limit)))
    tasks = [_Task(path, tuple(apis[at : at + size]), options, claims) for at in range(0, len(apis), size)]
    with closing(progress(_results(tasks, limit, is_apart=options.is_run), len(apis), "checking")) as results:
        yield from results


def _results(tasks: Sequence[_Task], limit: int, *, is_apart: bool) -> Generator[Checked, None, None]:
    again: list[_Task] = []
    if is_apart:
        found = in_pool(_checked, tasks, range(len(tasks)), max(1, min(limit, len(tasks))))
    else:
        found = run(_checked, tasks, workers=limit)
    for at, result in found:
        if not isinstance(result, Lost):
            yield from result
        elif len(tasks[at].apis) == 1:
            yield _lost(tasks[at].apis[0], result)
        else:
            again += [replace(tasks[at], apis=(api,)) for api in tasks[at].apis]
    if again:
        yield from _results(again, limit, is_apart=is_apart)


def _lost(api: Api, lost: Lost) -> Checked:
    skipped = Skipped(Why.PROCESS_DIED, lost.reason)
    named = (("forward", api.forward), ("backward", api.backward))
    return Checked(api.name, tuple(Direction(name, skipped=skipped) for name, at in named if at >= 0))


@lru_cache(maxsize=1)
def _dump(path: str) -> Dump:
    return read(path)


def _checked(task: _Task) -> list[Checked]:
    """Check the APIs of one task, in a worker."""
    options, dump = task.options, _dump(task.dump)
    executor = executor_of(dump.framework, _device(task)) if options.is_run else None
    inputs = Inputs(options.seed, executor)
    found = []
    for api in task.apis:
        result, attempts = checked(dump, api, inputs)
        if options.save:
            save_tensors(Path(options.save), attempts)
        found.append(result)
    return found


@lru_cache(maxsize=1)
def _claimed(claims: str, devices: tuple[int, ...]) -> int:
    """Return the first device that no running process has claimed; UsageError if there is none."""
    for device in devices:
        if claim(Path(claims) / str(device), create=True) is not None:  # open, so this process owns it until it ends
            return device
    raise UsageError(f"none of the devices {', '.join(map(str, devices))} is free; give one device per process")


def _device(task: _Task) -> int:
    devices = task.options.devices
    return devices[0] if len(devices) == 1 or not task.claims else _claimed(task.claims, devices)
