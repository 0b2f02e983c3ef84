"""The report of one dump alone: its calls, what of them is not finite, and what does not hold of every training."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

from msprobe.base.errors import DumpError, MsprobeError
from msprobe.base.log import logger
from msprobe.base.phrase import Words, phrase
from msprobe.base.verdicts import NONE, Gap, Verdicts, total
from msprobe.base.verdicts import last_line as completed
from msprobe.base.version import tool
from msprobe.checks.dumps import DumpFile, dumps_of
from msprobe.checks.invariants import report as of_invariants
from msprobe.checks.invariants.judgement import Judgement
from msprobe.checks.invariants.report import last_line as line_of_check
from msprobe.checks.invariants.report import violations
from msprobe.checks.invariants.table import ROWS, Invariant
from msprobe.checks.invariants.verb import read_run, verdicts_of
from msprobe.checks.nonfinite import report as of_nonfinite
from msprobe.checks.nonfinite.finding import Answer as NonFinite
from msprobe.checks.nonfinite.search import search
from msprobe.checks.nonfinite.wording import last_line as line_of_nonfinite
from msprobe.checks.nonfinite.wording import notes as notes_of_nonfinite
from msprobe.compare.core.exchanges import word_of
from msprobe.compare.jobs.outcome import budget
from msprobe.compare.ranks.collectives import RankSummary, exchanges_of
from msprobe.compare.units.assembly import Assembly, label_of
from msprobe.compare.units.unit import PackedUnit, unit_of_dump
from msprobe.compare.workers.run import Lost, run
from msprobe.findings.finding import Answer, Finding
from msprobe.report.document import Head, TableSet, Unit
from msprobe.report.file import Report, now
from msprobe.store.reader import find, read, size_in_json, with_structure_calls

from .sides import What

_WORTH_CHECKING = 64 << 20
"""Bytes of dump.json up to which a dump is checked without being asked to: all of it is held in memory."""

_SLOW = "replay"
"""The invariant that executes every call again: where it was asked for only."""


@dataclass(frozen=True)
class Alone:
    """A report, the lines to print, and what was found."""

    report: Report
    lines: tuple[Words, ...]
    verdicts: Verdicts


@dataclass(frozen=True, slots=True)
class _Task:
    path: Path
    named: tuple[str, ...]
    budget: int


def report_alone(
    path: Path, what: What, steps: Iterable[int] | None, ranks: Iterable[int] | None, workers: int
) -> Alone:
    """Read, check as far as it was asked for or is cheap, and put the report together.

    DumpError where nothing can be read, or what was asked for cannot be judged.
    """
    files = dumps_of(path, steps=steps, ranks=ranks, with_empty=True)
    notes: list[Words] = []
    unknown, nonfinite = _nonfinite(files, what, workers, notes)
    gaps: list[Verdicts] = []
    judged = _invariants(path, files, what, steps, ranks, notes, gaps)
    violated = violations(judged)
    made, places = _units([file for file in files if not file.is_empty], nonfinite, violated, workers)

    def place(step: int | None, rank: int, name: str) -> tuple[int | None, int | None]:
        unit = places.get((step, rank))
        return unit, None if unit is None else made.calls_named[unit].get(name)

    found = list(of_nonfinite.findings_of(nonfinite, place)) if nonfinite else []
    broken = [_placed(one, place) for one in of_invariants.findings_of(violated)]
    shown = _shown(what, bool(found), bool(violated))
    wrong = [*broken, *found] if shown is What.CHECK else [*found, *broken]
    of_check = total(gaps) + verdicts_of(judged)
    verdicts = {What.OVERFLOW_CHECK: total(answer.verdicts for answer in nonfinite), What.CHECK: of_check}.get(
        shown, _verdicts_of_page(files, made, unknown, of_check)
    )
    is_clean = verdicts.exit_code == 0
    state = "shown" if shown is What.DUMP else "differs" if wrong else "clean" if is_clean else "unjudged"
    line = _line(shown, nonfinite, violated, files, verdicts)
    notes[:0] = notes_of_nonfinite(nonfinite) if nonfinite else ()
    notes += _clean_lines(shown, nonfinite, judged, of_check)
    advice = of_invariants.advice(violated) if shown is What.CHECK else of_nonfinite.advice(nonfinite)
    notes += made.assembly.notes
    answer = Answer(state, line, next(iter(wrong), None), tuple(wrong[1:]), advice=advice, notes=tuple(notes))
    tables = tuple(of_invariants.tables(judged, violated, made.assembly.chunks)) if judged else ()
    report = _report(path, shown, answer, tables, made.assembly)
    return Alone(report, (*notes, line), verdicts)


def _verdicts_of_page(files: Sequence[DumpFile], made: "_Units", *checks: Verdicts) -> Verdicts:
    """Of a page that only shows dumps: how many it shows, and what the checks that were made could not judge."""
    empty = sum(file.is_empty for file in files)
    shown = len(made.assembly.units)
    gaps: Counter[Gap] = Counter({Gap.NO_DUMP: empty, Gap.UNREADABLE_DUMP: len(files) - empty - shown})
    for one in checks:  # both may count one record; a dump of task structure has no values and is shown
        gaps |= Counter({gap: n for gap, n in one.gaps.items() if gap not in (Gap.UNREADABLE_DUMP, Gap.NO_DUMP)})
    return Verdicts(shown, gaps=gaps)


def _clean_lines(
    shown: What,
    nonfinite: Sequence[NonFinite],
    judged: Sequence[tuple[Invariant, list[Judgement]]],
    of_check: Verdicts,
) -> Iterator[Words]:
    """What the two checks say of a dump that is only shown: that they found nothing."""
    if shown is What.DUMP and nonfinite:
        yield line_of_nonfinite(nonfinite)
    if shown is What.DUMP and judged:
        yield line_of_check((), of_check)


def _shown(what: What, is_nonfinite: bool, is_violated: bool) -> What:
    """The command whose answer is shown; where none was asked for, that of the first that found something."""
    if what is not What.FOUND:
        return what
    return What.OVERFLOW_CHECK if is_nonfinite else What.CHECK if is_violated else What.DUMP


def _line(
    shown: What,
    nonfinite: Sequence[NonFinite],
    violated: Sequence[tuple[Invariant, Judgement]],
    files: Sequence[DumpFile],
    verdicts: Verdicts,
) -> Words:
    if shown is What.OVERFLOW_CHECK:
        return line_of_nonfinite(nonfinite)
    if shown is What.CHECK:
        return line_of_check(violated, verdicts)
    files = [file for file in files if not file.is_empty]
    steps, ranks = len({file.step for file in files}), len({file.rank for file in files})
    line = phrase(
        "shown: {steps}, {ranks}; nothing was compared",
        steps=phrase("{number} step" if steps == 1 else "{number} steps", number=steps),
        ranks=phrase("{number} rank" if ranks == 1 else "{number} ranks", number=ranks),
    )
    return completed(line, verdicts)


def _nonfinite(
    files: Sequence[DumpFile], what: What, workers: int, notes: list[Words]
) -> tuple[Verdicts, list[NonFinite]]:
    """What of the dumps is not finite; none where that was not asked for, or cannot be judged. First the verdicts."""
    if what in (What.CHECK, What.DUMP):
        return NONE, []
    try:
        found = list(search(files, workers, reads_tensors=what is What.OVERFLOW_CHECK))
    except MsprobeError as err:
        if what is What.OVERFLOW_CHECK:
            raise
        notes.append(phrase("NaN and infinities were not searched: {why}", why=err))
        return NONE, []
    verdicts = total(answer.verdicts for answer in found)
    if not verdicts.judged:
        why = found[0].unjudged[0][1]
        if what is What.OVERFLOW_CHECK:
            raise DumpError(f"{files[0].path}: {why}")
        notes.append(phrase("NaN and infinities were not searched: {why}", why=why))
        return verdicts, []
    return verdicts, found


def _invariants(
    path: Path,
    files: Sequence[DumpFile],
    what: What,
    steps: Iterable[int] | None,
    ranks: Iterable[int] | None,
    notes: list[Words],
    gaps: list[Verdicts],
) -> list[tuple[Invariant, list[Judgement]]]:
    """The judgements of every invariant that needs one run; `gaps` gets what could not be read."""
    if what in (What.OVERFLOW_CHECK, What.DUMP):
        return []
    is_asked = what is What.CHECK
    size = sum(_size(file) for file in files)
    if size > _WORTH_CHECKING and not is_asked:
        notes.append(
            phrase("invariants were not checked, since the dump has {size} MiB; use --as check", size=size >> 20)
        )
        return []
    rows = [row for row in ROWS if row.name != "resume" and (is_asked or row.name != _SLOW)]
    try:
        held = read_run(path, steps, ranks)
    except DumpError as err:
        if is_asked:
            raise
        notes.append(phrase("invariants were not checked: {why}", why=err))
        return []
    gaps.append(Verdicts(gaps=held.gaps))
    if not is_asked:
        notes.append(phrase("calls were not executed again; use --as check, with torch installed"))
    return [(row, list(row.predicate(held, None))) for row in rows]


def _size(file: DumpFile) -> int:
    try:
        return 0 if file.is_empty else size_in_json(find(file.path))
    except DumpError:
        return 0


@dataclass(frozen=True)
class _Units:
    """The units put together, and the number of each call that is named, by unit."""

    assembly: Assembly
    calls_named: list[dict[str, int]]


def _units(
    files: Sequence[DumpFile],
    nonfinite: Sequence[NonFinite],
    violated: Sequence[tuple[Invariant, Judgement]],
    workers: int,
) -> tuple[_Units, dict[tuple[int | None, int], int]]:
    named, most = _named(nonfinite, violated), budget(len(files))
    tasks = [_Task(file.path, tuple(named[file.step, file.rank]), most) for file in files]
    results = dict(run(_unit, tasks, workers=workers, title="reading" if len(tasks) > 1 else ""))
    made = _Units(Assembly(), [])
    places: dict[tuple[int | None, int], int] = {}
    summaries: dict[int | None, dict[int, RankSummary]] = {}
    for at, file in enumerate(files):
        result = results[at]
        if isinstance(result, Lost | str):
            why = result if isinstance(result, str) else result.reason
            text = phrase("{file}: could not be read: {why}", file=file.path, why=why)
            made.assembly.notes.append(text)
            continue
        packed, numbers, summary = result
        label = label_of("", file.step, file.rank if len({f.rank for f in files}) > 1 else None)
        places[file.step, file.rank] = made.assembly.add(packed, Unit(label, 0, 0, step=file.step, rank=file.rank))
        made.calls_named.append(numbers)
        summaries.setdefault(file.step, {})[file.rank] = summary
    for step, of_ranks in summaries.items():
        made.assembly.meet({rank: places[step, rank] for rank in of_ranks}, of_ranks)
    made.assembly.finish()
    return made, places


def _named(
    nonfinite: Sequence[NonFinite], violated: Sequence[tuple[Invariant, Judgement]]
) -> Mapping[tuple[int | None, int], dict[str, None]]:
    """The calls that the checks name, by step and rank."""
    found: dict[tuple[int | None, int], dict[str, None]] = defaultdict(dict)
    for answer in nonfinite[-1:]:
        for origin in (*answer.first, *answer.others):
            found[answer.step, origin.rank][origin.name] = None
    for _, one in violated:
        for rank in one.ranks:
            found[one.step, rank][one.subject] = None
    return found


def _unit(task: _Task) -> tuple[PackedUnit, dict[str, int], RankSummary] | str:
    """What a worker does: read one dump, and make its unit; why it cannot be read."""
    try:
        dump = with_structure_calls(read(task.path, structure=True))
    except DumpError as err:
        return str(err)
    communicating = ((at, word) for at, name in enumerate(dump.columns.names) if (word := word_of(name)))
    exchanges = tuple(exchange for at, word in communicating for exchange in exchanges_of(dump.calls[at], word))
    numbers = {name: dump.place[name] for name in task.named if name in dump.place}
    packed = unit_of_dump(dump, "dump", task.budget, task.named)
    return packed, numbers, RankSummary(exchanges, ("",) * (len(exchanges) + 1))


def _placed(one: Finding, position: of_nonfinite.Position) -> Finding:
    if one.place.rank is None:
        return one
    unit, call = position(one.place.step, one.place.rank, one.place.name)
    return one.placed(unit=unit, call=call)


def _report(path: Path, shown: What, answer: Answer, tables: tuple[TableSet, ...], made: Assembly) -> Report:
    if not made.packed:
        raise DumpError(f"{path}: none of its dumps could be read: {made.notes[0]}")
    command = "report" if shown is What.DUMP else shown.value
    head = Head(
        shown.value,
        path.absolute().name,
        f"msprobe {command} {quote(str(path))}",
        now(),
        tool(),
        replace(made.packed[0].target, path=str(path)),
        None,
        answer,
        units=tuple(made.units),
        meetings=made.meetings,
        tables=tables,
        merged=made.merged(),
        calls=made.calls,
        detailed=made.in_detail,
    )
    logger.info("%d calls in %d dumps", made.calls, len(made.units))
    return Report(head, made.chunks)
