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
from msprobe.compare.judge.judged import EQUAL, Comparison, Mode
from msprobe.compare.judge.verdict import GRADES, Cause, Grade
from msprobe.compare.judge.words import say_limits
from msprobe.compare.locate.find import Located, locate
from msprobe.compare.locate.finding import Finding
from msprobe.compare.match.frameworks import are_of_two_frameworks
from msprobe.compare.match.given import Given, Named, given_by
from msprobe.compare.measure.files import Effort
from msprobe.compare.noise.limits import Limits, Source
from msprobe.compare.ranks.story import RankStory
from msprobe.compare.ranks.summarise import summarise
from msprobe.compare.report.console import lines
from msprobe.compare.report.summary import described
from msprobe.compare.request import Request
from msprobe.compare.run import compare
from msprobe.compare.updates.explained import Updates
from msprobe.compare.updates.verdicts import UpdateJudgement
from msprobe.replay.result import Cause as Hindrance
from msprobe.store.record import Dump

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
    why pairs of records have no verdict. `runs` are those of the two dumps, empty where they do not say. `limits` says
    up to where differences were noise, where that was judged. `survey` is there where the request asks for it.
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
    limits: str = ""
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
    refuse_other_frameworks(request.limits, target, golden)
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
    found = compared(task, target, golden, given, effort, is_shown=is_shown)
    comparison, located = found.comparison, found.located
    if request.limits.source is not Source.BUILT_IN:
        _say_unused(comparison, label)
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
        limits="" if comparison.noise_of_tensors is None else say_limits(comparison.noise_of_tensors.limits),
        survey=survey(comparison, located) if request.survey else None,
    )


@dataclass(frozen=True)
class Compared:
    """A comparison, where its differences begin, and what was found of the updates of parameters."""

    comparison: Comparison
    located: Located
    updates: UpdateJudgement | None


def compared(
    task: Task, target: Dump, golden: Dump, given: Given, effort: Effort, *, is_shown: bool = False
) -> Compared:
    """Compare two dumps that were read for a task, by its limits, and find where differences begin."""
    limits = task.request.limits
    updates = Updates(partial(read_steps, task.before, backwards=True), partial(read_steps, task.after), limits)
    comparison = compare(
        target,
        golden,
        fuzzy=task.request.fuzzy,
        effort=effort,
        given=given,
        is_shown=is_shown,
        settle=updates.settle,
        limits=limits,
    )
    located = updates.told(locate(comparison, is_shown=is_shown), comparison)
    return Compared(comparison, located, updates.judgement)


def _say_unused(comparison: Comparison, label: str) -> None:
    """Say where limits that the user named were not asked, although something differs."""
    noise = comparison.noise_of_tensors
    if noise is None and not (comparison.equal == EQUAL).all():
        logger.warning("%sthe limits of noise were not used: noise is judged where both sides hold tensors", label)
    elif noise is not None and Hindrance.NO_TORCH.value in noise.not_replayed:
        logger.warning("%sthe limits of noise were hardly used: %s", label, Hindrance.NO_TORCH.value)


def refuse_other_frameworks(limits: Limits, target: Dump, golden: Dump) -> None:
    """UsageError where limits are of another pair of frameworks, or cannot be meant for this one."""
    sides = target.framework, golden.framework
    if limits.frameworks and limits.frameworks != sides:
        raise UsageError(
            f"{limits.file}: is a calibration of {' against '.join(limits.frameworks)}, and these dumps are of "
            f"{' against '.join(sides)}; calibrate with another trusted run of the target's framework"
        )
    if limits.is_exact and are_of_two_frameworks(target, golden):
        raise UsageError(
            f"exact noise: {' and '.join(sides)} are never equal to the bit; leave the option out, or compare two runs "
            "of one framework"
        )


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as err:
        raise UsageError(f"{path}: cannot be written ({err.strerror}); give another folder with -o") from err
