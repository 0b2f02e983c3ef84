"""One job: read two dumps, compare them and write the result; its outcome is small enough to be sent between
machines."""

import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile, tee
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.base.errors import DumpError, MsprobeError, UsageError
from msprobe.base.files import make_folder, replace_atomically, writing
from msprobe.base.log import logger
from msprobe.base.memory import without_gc
from msprobe.base.phrase import Words, phrase
from msprobe.compare.core.limits import Limits, LimitSource
from msprobe.compare.core.noise import RoundingLeft
from msprobe.compare.core.reason import Cause
from msprobe.compare.core.relation import relation_of
from msprobe.compare.core.user_limits import ExcusedCounts
from msprobe.compare.judge.judged import EQUAL, Comparison, Mode
from msprobe.compare.judge.verdict import GRADES, Grade
from msprobe.compare.judge.wording import limits_phrase
from msprobe.compare.locate.find import Located, locate
from msprobe.compare.locate.finding import Divergence, UpdateJudgement
from msprobe.compare.locate.wording import full_phrase
from msprobe.compare.match.user_mapping import UserPairs, named_pairs, user_pairs
from msprobe.compare.measure.files import Effort
from msprobe.compare.request import Request
from msprobe.compare.run import compare
from msprobe.compare.tables.columns import columns_of
from msprobe.compare.tables.console import (
    LastLine,
    answer_of,
    described,
    hint_of_located,
    lines,
    no_difference,
    notes,
    roundings_left_of,
    suspect,
    watch,
    write_advice,
)
from msprobe.compare.tables.csv_file import write_csv, write_csv_of
from msprobe.compare.tables.rows import rows
from msprobe.compare.updates.explained import Updates
from msprobe.findings.notebook import fragment
from msprobe.replay.recorded import Cause as Hindrance
from msprobe.store.reader import read
from msprobe.store.record import Call, Calls, Dump

from .plan import Job, SideSource

if TYPE_CHECKING:
    from msprobe.compare.advice.known_causes import Hint
    from msprobe.compare.ranks.collectives import RankSummary
    from msprobe.compare.units.unit import PackedUnit
    from msprobe.findings.finding import Answer

    from .survey import Survey


def read_both(target: SideSource, golden: SideSource, request: Request) -> tuple[Dump, Dump]:
    """Read target and golden of one job. Raise a DumpError if one cannot be read."""
    sides = target, golden
    if target.family == "dump":
        return read(target.paths[0], stack=request.stack_file), read(golden.paths[0])
    if target.family == "kernels":
        from msprobe.store.kernel_dump.files import read_kernels  # here, as below: most comparisons are of dumps

        left, right = (read_kernels(side.paths, side.rank, side.step) for side in sides)
        return left, right
    from msprobe.store.saves.graph_saves import is_indexed, names_of, read_npys, read_saves

    by_index = target.family != "npy" and all(is_indexed(path) for side in sides for path in side.paths)
    if target.family == "saves":
        left, right = (read_saves(side.paths[0], side.step, side.rank, by_index=by_index) for side in sides)
    elif target.family == "single saves":
        from msprobe.store.saves.single_saves import read_single

        left, right = (read_single(side.paths, side.step, side.rank, by_index=by_index) for side in sides)
    else:
        left = read_npys(target.paths[0])
        # The target's names are those of the table; the golden's are translated back.
        ours = {golden_name: name for name, golden_name in reversed(request.names)}
        right = read_npys(golden.paths[0], ours, names_of(left))
    return left, replace(right, calls=Calls.of(_in_order_of(left.calls, right.calls)))


def _in_order_of(ours: Sequence[Call], theirs: Sequence[Call]) -> tuple[Call, ...]:
    """Return the golden's saves in the target's order, those that only the golden has after their neighbor.

    A save is identified by its name and count. The files of one run are numbered as they are written, which may be in
    another order in another run; and files of other names are sorted differently.
    """
    place = {call.name: at for at, call in enumerate(ours)}
    last = -1
    keys = []
    for at, call in enumerate(theirs):
        last = place.get(call.name, last)
        keys.append((last, call.name not in place, at))
    return tuple(theirs[at] for _, _, at in sorted(keys))


BEFORE = 16
"""Maximum number of previous steps that are read: enough for the first steps that an optimizer's state depends on, and
not all of a long run repeatedly."""

AFTER = 2
"""Number of later steps that are read, which distinguish settings with the same first update."""


def around(jobs: Sequence[Job]) -> list[tuple[tuple[Job, ...], tuple[Job, ...]]]:
    """Return, for each job, those of the steps before and after it, without a gap, in order; none if it has no step."""
    by_place = {job.place: job for job in jobs if job.place.step is not None and job.is_of_calls}

    def neighbors(job: Job, offsets: range) -> Iterator[Job]:
        """Return the jobs at these distances in steps, up to the first that is missing."""
        if job.place in by_place:
            places = (job.place._replace(step=(job.place.step or 0) + offset) for offset in offsets)
            yield from (by_place[place] for place in takewhile(by_place.__contains__, places))

    return [
        (tuple(neighbors(job, range(-1, -BEFORE - 1, -1)))[::-1], tuple(neighbors(job, range(1, AFTER + 1))))
        for job in jobs
    ]


def read_steps(jobs: Sequence[Job], *, backwards: bool = False) -> list[tuple[Dump, Dump]]:
    """Read target and golden of each job, in order, up to the first that cannot be read; `backwards`: from the last
    one."""
    found: list[tuple[Dump, Dump]] = []
    for job in reversed(jobs) if backwards else jobs:
        try:
            found.append((read(job.target.paths[0]), read(job.golden.paths[0])))
        except DumpError:  # reported by its own job
            break
    return found[::-1] if backwards else found


_MAX_FINDINGS_SENT = 10  # findings in an outcome; the table has all of them
_MAX_RULES_LISTED = 10  # rules without a match that are reported individually


_OF_A_UNIT, _OF_ALL, _LEAST = 1_000_000, 8_000_000, 50_000


def budget(units: int) -> int:
    """Return the maximum size of details, in bytes, of a unit among this number."""
    return max(_LEAST, min(_OF_A_UNIT, _OF_ALL // max(units, 1)))


@dataclass(frozen=True, slots=True)
class Task:
    """A job with everything that its worker needs; `table` is the path of the answer, with its suffix.

    `workers` and `scheduler` are for work that can be shared within this job. One of several also returns data for the
    search over ranks. `before` and `after` are the jobs of the same place in the steps around it. `in_report` is the
    maximum size of the details of its unit in a report, in bytes.
    """

    job: Job
    request: Request
    table: Path
    workers: int = 1
    scheduler: str = ""
    is_one_of_many: bool = False
    before: tuple[Job, ...] = ()
    after: tuple[Job, ...] = ()
    in_report: int = budget(1)

    @property
    def effort(self) -> Effort:
        """Return how tensors are measured."""
        return Effort(self.workers, self.scheduler, self.table.parent if self.request.resume else None)


def tasks_of(jobs: Sequence[Job], request: Request, paths: Sequence[Path], workers: int) -> list[Task]:
    """Return the tasks of a request: each of several has `workers` processes; a single one has all."""
    if len(jobs) == 1:
        return [Task(jobs[0], request, paths[0], request.workers or 0, request.scheduler)]
    placed = zip(jobs, paths, around(jobs), strict=True)
    most = budget(len(jobs))
    return [Task(job, request, path, workers, "", True, before, after, most) for job, path, (before, after) in placed]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one comparison.

    `label` distinguishes it from others (`step 0, rank 1`). `all_pass`: every pair of records passes or is exempt.
    `step` and `rank` are the target's, `what` is the content (`dump`, `debug`...). `findings` are the first divergences
    in execution order, `lines` the answer for the console, `table` is the path of the table on `host`, `sides`
    describes the data that were read. `rank_summary` is for the search over ranks, if several are compared. `failed` is
    a sentence if the job failed, `unread` one if its dumps differ by their digests and were not read; then nothing else
    is known. `unjudged` counts pairs of records without a verdict by cause. `runs` are those of the two dumps, empty if
    unknown. `limits` are those of noise, if that was judged. `notes` are further lines for the console. `survey` and
    `unit` (of a report) exist if the request asks for them. `excused` counts the differences within the limits of the
    user; None if there are no such limits. `hint` is the known cause that the first finding fits. `roundings_left` is
    the remaining difference by rounding, if nothing differs by more. `answer` has the findings, `target` is the path of
    the target's dump.
    """

    label: str = ""
    mode: Mode | None = None
    counts: Mapping[Grade, int] = field(default_factory=dict)
    all_pass: bool = False
    findings: tuple[Divergence, ...] = ()
    lines: tuple[str, ...] = ()
    step: int | None = None
    rank: int | None = None
    what: str = ""
    table: str = ""
    host: str = ""
    sides: str = ""
    rank_summary: "RankSummary | None" = None
    failed: str = ""
    unread: str = ""
    unjudged: Mapping[Cause, int] = field(default_factory=dict)
    runs: tuple[str, str] = ("", "")
    limits: Words = ""
    survey: "Survey | None" = None
    notes: tuple[Words, ...] = ()
    unit: "PackedUnit | None" = field(default=None, repr=False)
    answer: "Answer | None" = field(default=None, repr=False)
    target: str = ""
    excused: ExcusedCounts | None = None
    hint: "Hint | None" = None
    roundings_left: tuple[RoundingLeft, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Return whether the exit code is 0: every pair passes or is exempt, and there is no divergence."""
        return self.all_pass and not self.findings

    @property
    def judged(self) -> int:
        """Return the number of pairs of records with a verdict."""
        return sum(n for grade, n in self.counts.items() if grade != "unjudged")

    @property
    def first(self) -> Divergence | None:
        """Return the first wrong call; None if nothing differs."""
        return self.findings[0] if self.findings else None

    @property
    def last(self) -> Words:
        """Return the last line of the answer, in words."""
        if self.failed:
            return phrase("not compared: {cause}", cause=self.failed)
        if self.first is not None:
            return LastLine(phrase("first wrong call"), full_phrase(self.first)).sentence
        return no_difference(
            self.is_clean, self.judged, self.unjudged, excused=self.excused, roundings_left=self.roundings_left
        ).sentence

    def _repr_html_(self) -> str:
        """Return the answer of this job, for a notebook."""
        state = "differs" if self.findings else "clean" if self.is_clean else "unjudged"
        line = str(self.last) if self.failed else self.lines[-1] if self.lines else ""
        facts = [("of", self.label), ("read", self.sides), ("table", self.table), ("noise", str(self.limits))]
        facts += [(f"{number} unjudged", cause.value) for cause, number in self.unjudged.items()]
        rows = [(each.name, each.cell, each.kind.name, max(each.receivers, 0)) for each in self.findings]
        return fragment(state, line, facts, ("beginning", "cell", "kind", "later calls that received it"), rows)


def failure(job: Job, reason: str) -> Outcome:
    """Return the outcome of a job that could not be done."""
    place = job.place
    return Outcome(job.label, step=place.step, rank=place.rank, what=place.what, failed=reason)


def compare_job(task: Task) -> Outcome:
    """Run one job of several: an error in its dumps is an outcome too, so that the others are not lost."""
    try:
        return compare_single(task)
    except MsprobeError as err:
        return failure(task.job, " ".join(str(err).split()))


@without_gc()
def compare_single(task: Task) -> Outcome:
    """Read both dumps, compare them, locate divergences, and write the table if it is requested.

    Raise a DumpError if a side cannot be read, a UsageError if there is nothing to compare or the table cannot be
    written.
    """
    job, request = task.job, task.request
    target, golden = read_of(task)
    if request.tables:
        with writing(task.table):
            make_folder(task.table.parent)
    by_user = user_pairs(request.mapping, target, golden)
    label = f"{job.label}: " if job.label else ""
    for sentence in by_user.unused[:_MAX_RULES_LISTED]:
        logger.warning("%s%s", label, sentence)
    if len(by_user.unused) > _MAX_RULES_LISTED:
        logger.warning("%s%d more rules match nothing", label, len(by_user.unused) - _MAX_RULES_LISTED)
    is_shown = not task.is_one_of_many  # with many, the number of finished ones is shown
    found = compared(task, target, golden, by_user, task.effort, is_shown=is_shown)
    comparison, located = found.comparison, found.located
    if request.limits.source is not LimitSource.BUILT_IN and not request.limits.are_of_statistics:
        _log_unused(comparison, label)
    for name in comparison.excused.unused if comparison.excused is not None else ():
        logger.warning("%s%s of --ignore, --atol or --rtol matches no call and no record", label, name)
    if request.tables:
        with writing(task.table):
            _write_report(comparison, located, task)
            if request.mapping.layers is not None:
                write_data_mapping(_neighbor(task.table, "data_mapping", "yaml"), named_pairs(by_user, target, golden))
    if request.log_each and comparison.mode == "tensor":
        for call in comparison.calls:
            for judged in call.judged:
                logger.info("%s: %s", judged.pair.record.name, judged.verdict.grade)
    place = job.place
    answer = answer_of(comparison, located, max(_MAX_FINDINGS_SENT, 1 + (request.top or 0)))
    rank_summary = _rank_summary(comparison, located) if request.diff_analyze or task.is_one_of_many else None
    return Outcome(
        job.label,
        comparison.mode,
        {grade: comparison.counts[grade] for grade in GRADES},
        comparison.is_clean,
        located.findings[:_MAX_FINDINGS_SENT],
        tuple(lines(comparison, located, request.top, answer)),
        target.step if place.step is None else place.step,
        target.rank if place.rank is None else place.rank,
        place.what,
        str(task.table) if request.tables else "",
        platform.node(),
        f"target: {described(target)}; golden: {described(golden)}",
        rank_summary,
        unjudged=dict(comparison.unjudged),
        runs=(target.run, golden.run),
        limits="" if comparison.noise_of_tensors is None else limits_phrase(comparison.noise_of_tensors.limits),
        survey=_survey(comparison, located) if request.survey else None,
        notes=tuple(notes(comparison)),
        unit=_unit(comparison, located, rank_summary, task) if request.html else None,
        target=target.where,
        answer=answer.limited(_MAX_FINDINGS_SENT),
        excused=None if comparison.excused is None else comparison.excused.counts,
        hint=hint_of_located(comparison, located),
        roundings_left=roundings_left_of(comparison),
    )


def read_of(task: Task) -> tuple[Dump, Dump]:
    """Return both dumps of a task; raise a DumpError if a side cannot be read, a UsageError if there is nothing to
    compare."""
    target, golden = read_both(task.job.target, task.job.golden, task.request)
    if not target.calls and not golden.calls:
        raise UsageError(f"{target.where} and {golden.where} hold no calls; there is nothing to compare")
    refuse_other_frameworks(task.request.limits, target, golden)
    return target, golden


def _rank_summary(comparison: Comparison, located: Located) -> "RankSummary":
    from msprobe.compare.ranks.search import summarize  # here: a single comparison has no other ranks

    return summarize(comparison, located)


def _survey(comparison: Comparison, located: Located) -> "Survey":
    from .survey import survey  # here: few comparisons ask for it

    return survey(comparison, located)


def _unit(comparison: Comparison, located: Located, summary: "RankSummary | None", task: Task) -> "PackedUnit":
    from msprobe.compare.units.unit import unit_of  # here: few comparisons have a report

    return unit_of(comparison, located, summary, task.job.target.family, task.in_report)


def _write_report(comparison: Comparison, located: Located, task: Task) -> None:
    """Write the table of a task, and other requested files; raise an OSError if writing fails.

    Advice and colors of msprobe 8.1 are only for dumps of calls: not for kernels or individually saved values.
    """
    request, path = task.request, task.table
    advise, highlight, diff_analyze = (
        task.job.is_of_calls and requested for requested in (request.advise, request.highlight, request.diff_analyze)
    )
    with_stack = request.with_stack
    if with_stack is None:
        with_stack = any(map(comparison.target.calls.stack, range(len(comparison.target.calls))))
    shown = columns_of(comparison, with_stack)
    if request.format == "csv" and not (advise or highlight):
        write_csv_of(path, shown, comparison, located, with_stack)
    else:
        table = rows(comparison, located, with_stack)
        colors: Iterator[str | None] | None = None
        if highlight:
            from msprobe.compare.tables.highlight import colored  # here, as below: modules that write one kind of table

            # Only a sheet reads colors; otherwise they would be kept until the end.
            both = tee(colored(comparison, shown, table), 2 if request.format == "xlsx" else 1)
            table, colors = (row for row, _ in both[0]), (color for _, color in both[-1])
        first_bad: list[tuple[int, str]] = []
        if advise:
            table = watch(table, shown, first_bad)
        if request.format == "csv":
            write_csv(path, shown, table)
        elif request.format == "json":
            from msprobe.compare.tables.json_file import write_json

            write_json(path, comparison, located, shown, table)
        else:
            from msprobe.compare.tables.sheet import summary, write_sheet

            overview = summary(
                comparison, located, label=task.job.label, top=request.listed, exit_zero=request.exit_zero
            )
            write_sheet(path, shown, table, colors=colors, summary=overview)
        if advise:
            write_advice(_neighbor(path, "advisor", "txt"), *suspect(comparison, located, first_bad))
    if diff_analyze:
        from msprobe.compare.ranks.search import write_calls  # here: it is for the search over ranks

        end = "_calls.json" if path.suffix == ".json" else ".json"
        write_calls(path.with_name(f"{path.stem}{end}"), comparison, located)


def _neighbor(table: Path, name: str, suffix: str) -> Path:
    """Return a file that belongs to a table: `advisor_rank0_{time}.txt` of `compare_result_rank0_{time}.csv`."""
    return table.with_name(f"{table.stem.replace('compare_result', name, 1)}.{suffix}")


def write_data_mapping(path: Path, rows: Mapping[str, str]) -> None:
    """Write the correspondence of rows by the layer mapping; it can be passed as `-dm`, and has `N/A` for rows without
    a counterpart."""
    with replace_atomically(path) as file:
        for ours, theirs in rows.items():
            # A JSON text is valid YAML for any names of rows.
            file.write(f"{json.dumps(ours)}: {json.dumps(theirs)}\n".encode())


@dataclass(frozen=True)
class Compared:
    """A comparison, its divergences, and the judgement of the updates of parameters."""

    comparison: Comparison
    located: Located
    updates: UpdateJudgement | None


def compared(
    task: Task, target: Dump, golden: Dump, by_user: UserPairs, effort: Effort, *, is_shown: bool = False
) -> Compared:
    """Compare two dumps that were read for a task, by its limits, and locate divergences."""
    limits = task.request.limits
    updates = Updates(partial(read_steps, task.before, backwards=True), partial(read_steps, task.after), limits)
    comparison = compare(
        target,
        golden,
        fuzzy=task.request.fuzzy,
        effort=effort,
        by_user=by_user,
        is_shown=is_shown,
        settle=updates.settle,
        limits=limits,
    )
    if task.request.user_limits:
        from msprobe.compare.locate.user_limits import with_user_limits  # here: few comparisons have any

        comparison = with_user_limits(comparison, task.request.user_limits)
    located = updates.completed(locate(comparison, is_shown=is_shown), comparison)
    return Compared(*updates.opened(comparison, located), updates.judgement)


def _log_unused(comparison: Comparison, label: str) -> None:
    """Log limits of the user that were not applied, although something differs."""
    noise = comparison.noise_of_tensors
    if noise is None and not (comparison.equal == EQUAL).all():
        logger.warning("%sthe limits of noise were not used: noise is judged where both sides hold tensors", label)
    elif noise is not None and Hindrance.NO_LIBRARY.value in noise.not_replayed:
        logger.warning("%sthe limits of noise were hardly used: %s", label, Hindrance.NO_LIBRARY.value)


def refuse_other_frameworks(limits: Limits, target: Dump, golden: Dump) -> None:
    """Raise a UsageError if limits are of another pair of frameworks, or invalid for this one."""
    sides = target.framework, golden.framework
    if limits.frameworks and limits.frameworks != sides:
        raise UsageError(
            f"{limits.file}: is a calibration of {' against '.join(limits.frameworks)}, and these dumps are of "
            f"{' against '.join(sides)}; calibrate with another trusted run of the target's framework"
        )
    if limits.is_exact and relation_of(target, golden).has_other_names:
        raise UsageError(
            f"exact noise: {' and '.join(sides)} are never equal to the bit; leave the option out, or compare two runs "
            "of one framework"
        )
