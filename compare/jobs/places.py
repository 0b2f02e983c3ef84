"""Where the table of each job goes: the folder and the name."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from msprobe.compare.request import Request

from .many import Job


def task(request: Request) -> str:
    """All that decides what stands in the tables of a request, as a text; not how many do the work, or how it is told.

    The same command given again has the same text, and so completes the tables of one that was killed.
    """
    how = dict(top=0, exit_zero=False, log_each=False, workers=None, scheduler="", resume=True)
    return repr(replace(request, **how))  # type: ignore[arg-type]  # each as its field has it


def named_after(second: str, jobs: Sequence[Job], request: Request) -> list[Path]:
    """The files of a comparison that have a second in their names."""
    paths = [path for path in tables(jobs, request, second) if path.stem.endswith(second)]
    return [*paths, summary(request, second), of_ranks(request, second)]


def of_ranks(request: Request, time: str) -> Path:
    """The path of the file that says what differs first among the ranks."""
    return request.output / f"diff_analyze_{time}.json"


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
