"""The steps around one job: dumps of the same rank in the steps before it and behind it, read when they are needed."""

from collections.abc import Mapping, Sequence

from msprobe.base.errors import DumpError
from msprobe.store.read import read
from msprobe.store.record import Dump

from .many import Job
from .sides import Place

BEFORE = 16
"""At most so many steps before are read: enough for what an optimizer remembers of a run's first steps, and not all of
a long run again and again."""

AFTER = 2
"""So many steps behind are read, which tell apart what makes the same first update."""


def around(jobs: Sequence[Job]) -> list[tuple[tuple[Job, ...], tuple[Job, ...]]]:
    """For each job those of the steps before it and behind it, without a gap, in order; none where it has no step."""
    by_place = {job.place: job for job in jobs if job.place.step is not None and _is_dump(job)}
    found: list[tuple[tuple[Job, ...], tuple[Job, ...]]] = []
    for job in jobs:
        if job.place.step is None or not _is_dump(job):
            found.append(((), ()))
            continue
        found.append((_run(by_place, job, -1, BEFORE)[::-1], _run(by_place, job, 1, AFTER)))
    return found


def _run(by_place: Mapping[Place, Job], job: Job, by: int, most: int) -> tuple[Job, ...]:
    """The jobs next to one, in one direction, nearest first."""
    found: list[Job] = []
    while len(found) < most:
        step = (job.place.step or 0) + by * (len(found) + 1)
        if (neighbour := by_place.get(job.place._replace(step=step))) is None:
            break
        found.append(neighbour)
    return tuple(found)


def _is_dump(job: Job) -> bool:
    return job.target.family == "dump" and job.place.what == "dump"


def read_steps(jobs: Sequence[Job], *, backwards: bool = False) -> list[tuple[Dump, Dump]]:
    """Target and golden of each job, in order, up to the first that cannot be read; `backwards`: from the last on."""
    found: list[tuple[Dump, Dump]] = []
    for job in reversed(jobs) if backwards else jobs:
        try:
            found.append((read(job.target.paths[0]), read(job.golden.paths[0])))
        except DumpError:  # its own job says what is wrong with it
            break
    return found[::-1] if backwards else found
