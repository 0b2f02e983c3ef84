"""Where the table of each job goes: the folder and the name."""

import time
from collections.abc import Sequence
from pathlib import Path

from msprobe.compare.request import Request

from .many import Job


def stamp() -> str:
    """The time as the names of tables have it: 20260131235959."""
    return time.strftime("%Y%m%d%H%M%S")


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
