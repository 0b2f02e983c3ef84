"""One job: two dumps read, compared and written down; what comes back is small enough to move between machines."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from msprobe.base.collector import without_collector
from msprobe.base.errors import MsprobeError, UsageError
from msprobe.base.files import make_folder
from msprobe.base.log import logger
from msprobe.compare.judge.judged import Mode
from msprobe.compare.judge.verdict import GRADES, Cause, Grade
from msprobe.compare.locate.find import locate
from msprobe.compare.locate.finding import Finding
from msprobe.compare.match.given import Named, given_by
from msprobe.compare.measure.files import Effort
from msprobe.compare.ranks.story import RankStory
from msprobe.compare.ranks.summarise import summarise
from msprobe.compare.report.console import lines
from msprobe.compare.report.summary import described
from msprobe.compare.request import Request
from msprobe.compare.run import compare
from msprobe.compare.updates.explained import Updates

from .many import Job
from .read_both import read_both
from .steps import read_steps
from .survey import Survey, survey
from .write_down import data_mapping_file, write_data_mapping, write_down

_KEPT = 10  # findings that travel; the table has all of them
_SAID = 10  # rules without a match that are said one by one


@dataclass(frozen=True, slots=True)
class Task:
    """A job with everything that whoever does it must know; `table` is where the answer goes, with its suffix.

    `workers` and `scheduler` are for what can be shared within this job. One of many also tells what the search over
    ranks needs. `before` and `after` are the jobs of the same place in the steps around it.
    """

    job: Job
    request: Request
    table: Path
    workers: int = 1
    scheduler: str = ""
    is_one_of_many: bool = False
    before: tuple[Job, ...] = ()
    after: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one job.

    `label` tells it from others (`step 0, rank 1`); `step` and `rank` are the target's, `what` is the place's (`dump`,
    `debug`...). `findings` are the first beginnings in execution order, `lines` the answer for the console, `table` is
    where the table is on `host`, `sides` says what was read. `story` is for the search over ranks, where several
    are compared. `failed` is a sentence where the job could not be done; then nothing else is known. `unjudged` says
    why pairs of records have no verdict. `runs` are those of the two dumps, empty where they do not say. `survey` is
    there where the request asks for it.
    """

    label: str = ""
    mode: Mode | None = None
    counts: Mapping[Grade, int] = field(default_factory=dict)
    is_clean: bool = False
    findings: tuple[Finding, ...] = ()
    lines: tuple[str, ...] = ()
    step: int | None = None
    rank: int | None = None
    what: str = ""
    table: str = ""
    host: str = ""
    sides: str = ""
    story: RankStory | None = None
    failed: str = ""
    unjudged: Mapping[Cause, int] = field(default_factory=dict)
    runs: tuple[str, str] = ("", "")
    survey: Survey | None = None

    @property
    def judged(self) -> int:
        """How many pairs of records have a verdict."""
        return sum(n for grade, n in self.counts.items() if grade != "unjudged")

    @property
    def first(self) -> Finding | None:
        """The first wrong call; None where nothing differs."""
        return self.findings[0] if self.findings else None


def compare_job(task: Task) -> Outcome:
    """Do one job of several: what is wrong with its dumps is an outcome too, so that the others are not lost."""
    try:
        return compare_alone(task)
    except MsprobeError as err:
        place = task.job.place
        text = " ".join(str(err).split())
        return Outcome(task.job.label, step=place.step, rank=place.rank, what=place.what, failed=text)


@without_collector()
def compare_alone(task: Task) -> Outcome:
    """Read both dumps, compare them, find where differences begin, and write the table.

    DumpError where a side cannot be read, UsageError where there is nothing to compare or the table cannot be written.
    """
    job, request = task.job, task.request
    workers = 1 if task.scheduler else task.workers  # what is done here by processes of this machine
    target, golden = read_both(job.target, job.golden, request, workers)
    if not target.calls and not golden.calls:
        raise UsageError(f"{target.where} and {golden.where} hold no calls; there is nothing to compare")
    with _writing(task.table):
        make_folder(task.table.parent)
    effort = Effort(task.workers, task.scheduler, task.table.parent if request.resume else None)
    given = given_by(request.mapping, target, golden)
    label = f"{job.label}: " if job.label else ""
    for sentence in given.unused[:_SAID]:
        logger.warning("%s%s", label, sentence)
    if len(given.unused) > _SAID:
        logger.warning("%s%d more rules match nothing", label, len(given.unused) - _SAID)
    is_shown = not task.is_one_of_many  # of many it is shown how many are done
    updates = Updates(partial(read_steps, task.before, backwards=True), partial(read_steps, task.after))
    comparison = compare(
        target, golden, fuzzy=request.fuzzy, effort=effort, given=given, is_shown=is_shown, settle=updates.settle
    )
    located = updates.told(locate(comparison, is_shown=is_shown), comparison)
    with _writing(task.table):
        of_calls = job.target.family == "dump" and job.place.what == "dump"
        write_down(comparison, located, request, task.table, of_calls=of_calls, label=job.label, workers=workers)
        if request.mapping.layers is not None:
            write_data_mapping(data_mapping_file(task.table), Named(given, target, golden).pairs)
    place = job.place
    return Outcome(
        job.label,
        comparison.mode,
        {grade: comparison.counts[grade] for grade in GRADES},
        comparison.is_clean,
        located.findings[:_KEPT],
        tuple(lines(comparison, located, request.top)),
        target.step if place.step is None else place.step,
        target.rank if place.rank is None else place.rank,
        place.what,
        str(task.table),
        socket.gethostname(),
        f"target: {described(target)}; golden: {described(golden)}",
        summarise(comparison, located) if request.diff_analyze or task.is_one_of_many else None,
        unjudged=dict(comparison.unjudged),
        runs=(target.run, golden.run),
        survey=survey(comparison, located) if request.survey else None,
    )


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise UsageError(f"{path}: cannot be written ({err.strerror}); give another folder with -o") from err
