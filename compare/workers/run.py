"""Run tasks here, in worker processes, or on a cluster: results arrive as they are ready.

The tasks are the same everywhere, and a result depends only on its task; so results do not depend on the number or
place of workers. Only their order does.
"""

import math
import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TypeVar

from msprobe.base.errors import UsageError

from .lost import Lost
from .progress import progress

_GROUPS = Path("/sys/fs/cgroup")


__all__ = ["Lost", "bundles", "cores", "run"]


def cores(groups: Path = _GROUPS) -> int:
    """Return the number of cores that this process may use: those of its affinity, at most its container's quota
    (cgroup 2, otherwise 1), rounded up."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = (groups / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota, period = ((groups / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        except OSError:
            return allowed
    try:
        number = float(quota) / float(period)
    except (ValueError, ZeroDivisionError):  # "max": no quota
        return allowed
    return max(1, min(allowed, math.ceil(number))) if number > 0 else allowed


def bundles(sizes: Sequence[int], most: int, count: int = 256) -> list[list[int]]:
    """Return groups of neighboring positions that are one task each, because each task has a fixed cost.

    There are at most `count` of them, with a total size of at most `most` each, unless a single one is larger.
    """
    found: list[list[int]] = []
    free = 0
    for at, size in enumerate(sizes):
        if free < size or not found or len(found[-1]) >= count:
            found.append([])
            free = most
        found[-1].append(at)
        free -= size
    return found


Task = TypeVar("Task")
Result = TypeVar("Result")


def run(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    *,
    workers: int = 0,
    scheduler: str = "",
    title: str = "",
    sizes: Sequence[int] | None = None,
) -> Generator[tuple[int, Result | Lost], None, None]:
    """Yield each task's index with its result, in the order of completion.

    `function` is at the top of a module that the workers can import; tasks and results can be pickled. An idle worker
    takes the largest waiting task (`sizes`, in any unit; without them the next one), so a task should take at least
    some milliseconds. `workers`: number of processes, 0 for the number of cores that this process may use; with one, or
    with one task, everything is executed in this process. `scheduler`: the address of a Dask scheduler, whose workers
    compute instead. With a `title`, progress is shown on standard error.

    Tasks are handed out while results are read, so slow work of the caller should come after the last. An exception of
    `function` is raised here unchanged. A task whose worker dies is tried twice more; then its result is `Lost` and the
    others still arrive. Closing the iterator ends the workers. Raise a UsageError for a negative number of workers, or
    an unusable cluster.
    """
    if workers < 0:
        raise UsageError(f"workers must be 0 (one per core) or more, not {workers}")
    if sizes is not None and len(sizes) != len(tasks):
        raise ValueError(f"{len(sizes)} sizes for {len(tasks)} tasks")
    order = range(len(tasks)) if sizes is None else sorted(range(len(tasks)), key=lambda at: -sizes[at])
    results: Generator[tuple[int, Result | Lost], None, None]
    if scheduler:
        from .cluster import on_cluster

        results = on_cluster(function, tasks, order, scheduler)
    elif (limit := min(workers or cores(), len(tasks))) > 1:
        from .pool import in_pool  # here: small comparisons need no other process

        results = in_pool(function, tasks, order, limit)
    else:
        results = ((at, function(task)) for at, task in enumerate(tasks))
    return progress(results, len(tasks), title) if title else results
