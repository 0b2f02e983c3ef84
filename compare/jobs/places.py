"""Where the table of each job goes: the folder and the name."""

import os
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from msprobe.compare.request import Request

from .many import Job


def stamp(jobs: Sequence[Job], request: Request) -> str:
    """The time as the names of tables have it: 20260131235959.

    A second in which an earlier comparison wrote a file of such a name is passed over, so that none replaces another's.
    """
    now = time.time()
    seconds = (time.strftime("%Y%m%d%H%M%S", time.localtime(now + ahead)) for ahead in count())
    return next(second for second in seconds if not any(map(os.path.exists, _named_after(second, jobs, request))))


def _named_after(second: str, jobs: Sequence[Job], request: Request) -> list[Path]:
    paths = [path for path in tables(jobs, request, second) if path.stem.endswith(second)]
    return [*paths, summary(request, second)]


def summary(request: Request, time: str) -> Path:
    """The path of the file that sums several jobs up."""
    return request.output / f"compare_summary_{time}.json"


def tables(jobs: Sequence[Job], request: Request, time: str) -> list[Path]:
    """The path of each job's table: a folder for each step of a run, a name for each rank of a step.

    `compare_result_{time}`; of the folders of ranks `compare_result_{rank folder}_{time}`, of kernels
    `compare_result_{rank}_{step}_{time}`, of debug.json `debug_compare_result...`; of npy files `result` in folders as
    theirs.
    """
    return [_table(job, request, time) for job in jobs]


def _table(job: Job, request: Request, time: str) -> Path:
    tree, step, _, what = job.place
    folder = request.output
    if job.target.family == "npy":
        return folder / what / f"result{request.suffix}.{request.format}"
    if job.target.family == "kernels":
        name = f"compare_result_{job.place.rank}_{step}"
    else:
        if tree:
            folder = folder / tree
        if step is not None:
            folder = folder / f"step{step}"
        name = "debug_compare_result" if what == "debug" else "compare_result"
        if job.rank_name:
            name += f"_{job.rank_name}"
    return folder / f"{name}{request.suffix}_{time}.{request.format}"
