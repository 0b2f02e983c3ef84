"""The answer about two packs: its lines, its findings, and the report page with the rows of every checker."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from shlex import quote

from msprobe.base.phrase import Phrase, Words, joined, phrase
from msprobe.base.schema import NAMES
from msprobe.base.verdicts import last_line as completed
from msprobe.base.version import tool
from msprobe.compare.tables.cells import Cell
from msprobe.compare.tables.columns import Column
from msprobe.compare.tables.page import LETTERS, MAX_ROWS, put_table
from msprobe.findings.data import as_data
from msprobe.findings.finding import Answer, Finding, Place, Suggestion
from msprobe.report.document import Head, Side, Table, TableSet
from msprobe.report.file import Chunks, Report, against, now

from .compare import Compared, compare_packs
from .findings import SEVERITY, Checker, Kind, Level, OneSided, Outcome, RandomRow, Row, SettingRow, TensorRow
from .sheets import COLUMNS, SUMMARY_COLUMNS, cells_of, names_and_values, remark, summary_rows

_MAX_FINDINGS = 50

_LETTERS = "ewu.p"
"""In the order of the rows of a table."""

_EXPLAINING_FIRST = (
    *(Checker.HYPERPARAMETERS, Checker.CONTEXT, Checker.ENV, Checker.PIP),
    *(Checker.WEIGHTS, Checker.DATASET, Checker.RANDOM),
)
"""Checkers whose differences explain those of others come first: different settings lead to different weights and
random numbers."""


def lines(compared: Compared, top: int) -> Iterator[Words]:
    """Return the outcome of each checker, at most `top` relevant rows, and the answer."""
    yield from checkers(compared)
    rows = by_importance(compared)
    shown = rows[: max(top, 1)]
    if (more := _count(compared) - len(shown)) > 0:
        yield f"{more} more rows: {compared.result}"
    yield from (f"{row.level.value}: {sentence(row)}" for row in reversed(shown[1:]))
    yield answer(compared) if compared.outcomes else completed(answer(compared), compared.verdicts)


def checkers(compared: Compared) -> Iterator[Phrase]:
    """Return the outcome of each checker."""
    for outcome in compared.outcomes:
        text = phrase("{checker}: {grade}", checker=phrase(outcome.checker.value), grade=outcome.level.value)
        words = remark(outcome)
        yield phrase("{text} ({cause})", text=text, cause=words) if words else text


def answer(compared: Compared) -> Phrase:
    """Return the last line."""
    sides = phrase("{before} and {after}", before=compared.bench, after=compared.cmp)
    rows = by_importance(compared)
    if rows:
        return phrase("{grade}: {text} ({sides})", grade=rows[0].level.value, text=sentence(rows[0]), sides=sides)
    unjudged = [
        phrase("{text} ({cause})", text=phrase(outcome.checker.value), cause=phrase(outcome.one_sided.value))
        for outcome in compared.outcomes
        if outcome.one_sided is not OneSided.NO
    ]
    if unjudged:
        which = joined(unjudged, "{before}, {after}")
        return phrase("unjudged: {which}; everything else passes ({sides})", which=which, sides=sides)
    return phrase("pass: no relevant difference between {sides}", sides=sides)


def by_importance(compared: Compared) -> list[Row]:
    """Return the rows that were kept, the likeliest explanation first."""
    found = [(outcome, row) for outcome in compared.outcomes for row in outcome.worst]

    def place(pair: tuple[Outcome, Row]) -> tuple[int, int, int]:
        outcome, row = pair
        return -SEVERITY.index(row.level), _EXPLAINING_FIRST.index(outcome.checker), row.importance

    return list(_first_steps(row for _, row in sorted(found, key=place)))


def _first_steps(rows: Iterable[Row]) -> Iterator[Row]:
    """Return only the first step of a tensor that differs at several steps."""
    seen: set[tuple[Checker, int, str]] = set()
    for row in rows:
        if isinstance(row, TensorRow):
            key = row.checker, row.place.rank, row.name
            if key in seen:
                continue
            seen.add(key)
        yield row


def _count(compared: Compared) -> int:
    return sum(outcome.counts[level] for outcome in compared.outcomes for level in (Level.ERROR, Level.WARNING))


def sentence(row: Row) -> Phrase:
    """Return a row as a sentence: `hyperparameters: lr: 0.1 | 0.2`."""
    return phrase("{checker}: {what}", checker=phrase(row.checker.value), what=what(row))


def what(row: Row) -> Phrase:
    """Return the same without the checker."""
    if isinstance(row, SettingRow):
        return names_and_values(row)
    if isinstance(row, RandomRow):
        site = row.bench or row.cmp
        return phrase(
            "{name} was called {a} | {b} times on rank {rank} from {place}",
            name=row.op,
            a=0 if row.bench is None else row.bench.count,
            b=0 if row.cmp is None else row.cmp.count,
            rank=row.rank,
            place=site.stack[-1] if site is not None and site.stack else phrase("an unknown place"),
        )
    where = phrase("at step {step}, rank {rank}", step=row.place.step, rank=row.place.rank)
    name: Words = row.name or phrase("everything")
    if row.kind is not Kind.DIFFERS:
        return phrase("{name} {where}: {kind}", name=name, where=where, kind=phrase(row.kind.value))
    apart = ", ".join(f"{name} {each:.3g}" for name, each in zip(NAMES, row.relative, strict=True) if each)
    if not apart:
        return phrase("{name} {where} differs: from zero, or by a non-numeric relative amount", name=name, where=where)
    return phrase("{name} {where} differs: {apart}, relative", name=name, where=where, apart=apart)


def report_on_packs(bench: Path, cmp: Path, output: Path) -> tuple[Report, Compared]:
    """Compare two packs, write the workbook below `output`, and return the report; errors are those of
    `compare_packs`."""
    kept: dict[Checker, list[tuple[tuple[Cell, ...], str]]] = defaultdict(list)

    def watch(row: Row) -> None:
        rows = kept[row.checker]
        most = 2 * MAX_ROWS if row.level in (Level.ERROR, Level.WARNING) else MAX_ROWS
        if len(rows) < most:
            rows.append((tuple(cells_of(row)), LETTERS.get(row.level.value, ".")))

    compared = compare_packs(bench, cmp, output, watch)
    chunks = Chunks()
    head = Head(
        "config_check",
        against(cmp, bench),
        f"msprobe config-check -c {quote(str(bench))} {quote(str(cmp))}",
        now(),
        tool(),
        Side(str(cmp)),
        Side(str(bench)),
        answer_of(compared),
        counts_of(compared),
        tables=tuple(_tables(compared, kept, chunks)),
    )
    return Report(head, chunks), compared


def answer_of(compared: Compared) -> Answer:
    """Return the answer about two packs."""
    named = [_finding(row) for row in by_importance(compared)[:_MAX_FINDINGS]]
    is_open = any(outcome.one_sided is not OneSided.NO for outcome in compared.outcomes)
    state = "clean" if compared.verdicts.exit_code == 0 else "unjudged" if is_open and not named else "differs"
    line = answer(compared) if compared.outcomes else completed(answer(compared), compared.verdicts)
    notes = tuple(checkers(compared))
    return Answer(state, line, named[0] if named else None, tuple(named[1:]), (), _advice(named), notes)


def counts_of(compared: Compared) -> dict[str, int]:
    """Return the number of rows of each level."""
    return {level.value: sum(outcome.counts[level] for outcome in compared.outcomes) for level in Level}


def _advice(named: list[Finding]) -> tuple[Suggestion, ...]:
    text = phrase("align the two runs in these differences, then compare their values")
    return (Suggestion(text),) if named else ()


def _finding(row: Row) -> Finding:
    sides = phrase("left of the line: the trusted pack; right of it: the pack under suspicion")
    step = row.place.step if isinstance(row, TensorRow) else None
    rank = row.place.rank if isinstance(row, TensorRow) else row.rank if isinstance(row, RandomRow) else None
    place = Place(row.name, step=step, rank=rank)
    return Finding(row.checker.kind, place, what(row), row.level.value, evidence=(sides,), fields=as_data(row))


def _tables(
    compared: Compared, kept: dict[Checker, list[tuple[tuple[Cell, ...], str]]], chunks: Chunks
) -> Iterator[TableSet]:
    """Return the tables: those that differ first, since the page opens on the first one; then the summary, and those
    that agree."""
    judged = [outcome for outcome in compared.outcomes if outcome.one_sided is OneSided.NO]
    named = list(dict.fromkeys(row.checker for row in by_importance(compared)))
    differing = sorted((o for o in judged if o.checker in named), key=lambda outcome: named.index(outcome.checker))
    for outcome in differing:
        yield _table(outcome, COLUMNS[outcome.checker], kept[outcome.checker], chunks)
    rows = (tuple(cells) for cells, _ in summary_rows(compared.outcomes))
    yield put_table(chunks, phrase("summary"), SUMMARY_COLUMNS, rows, "pass_check")
    for outcome in judged:
        if outcome not in differing:
            yield _table(outcome, COLUMNS[outcome.checker], kept[outcome.checker], chunks)


def _table(
    outcome: Outcome, columns: tuple[Column, ...], rows: list[tuple[tuple[Cell, ...], str]], chunks: Chunks
) -> TableSet:
    """Return the rows of one checker, those that differ first; of very many rows the relevant ones and the first
    others."""
    rows = sorted(rows, key=lambda row: _LETTERS.index(row[1]))
    total, title = sum(outcome.counts.values()), phrase(outcome.checker.value)
    if total > len(rows):
        title = phrase("{title} ({number} of {total} rows)", title=title, number=len(rows), total=total)
    titles = tuple(column.title for column in columns)
    table = Table(titles, tuple(cells for cells, _ in rows), "".join(letter for _, letter in rows))
    return TableSet(title, chunks.add(table), len(rows))
