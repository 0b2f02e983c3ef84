"""The report of two packs: the answer, and the rows of every checker."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from msprobe.base.phrase import phrase
from msprobe.base.verdicts import last_line as completed
from msprobe.base.version import tool
from msprobe.compare.tables.cells import Cell
from msprobe.compare.tables.columns import Column
from msprobe.compare.tables.page import LETTERS, MOST, put_table
from msprobe.findings.data import as_data
from msprobe.findings.finding import Answer, Finding, Place, Suggestion
from msprobe.findings.kinds import BY_NAME
from msprobe.report.document import Head, Side, Table, TableSet
from msprobe.report.file import Chunks, Report, against, now

from .compare import Compared, compare_packs
from .findings import Checker, Level, OneSided, Outcome, RandomRow, Row, TensorRow
from .sheets import COLUMNS, SUMMARY_COLUMNS, cells_of, summary_rows
from .wording import answer, by_importance, checkers, what

_LISTED = 50

_LETTERS = "ewu.p"
"""In the order of the rows of a table."""


def report_on_packs(bench: Path, cmp: Path, output: Path) -> tuple[Report, Compared]:
    """Compare two packs, the workbook going below `output`, and report it; errors as of `compare_packs`."""
    kept: dict[Checker, list[tuple[tuple[Cell, ...], str]]] = defaultdict(list)

    def watch(row: Row) -> None:
        rows = kept[row.checker]
        most = 2 * MOST if row.level in (Level.ERROR, Level.WARNING) else MOST
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
    named = [_beginning(row) for row in by_importance(compared)[:_LISTED]]
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


def _beginning(row: Row) -> Finding:
    sides = phrase("left of the line: the trusted pack; right of it: the pack under suspicion")
    kind = BY_NAME[f"{row.checker.value} differs"]
    step = row.place.step if isinstance(row, TensorRow) else None
    rank = row.place.rank if isinstance(row, TensorRow) else row.rank if isinstance(row, RandomRow) else None
    return Finding(
        kind, Place(row.name, step=step, rank=rank), what(row), row.level.value, evidence=(sides,), fields=as_data(row)
    )


def _tables(
    compared: Compared, kept: dict[Checker, list[tuple[tuple[Cell, ...], str]]], chunks: Chunks
) -> Iterator[TableSet]:
    """What differs first, as the page opens on the first table; then the summary, and what agrees."""
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
    """The rows of one checker, what differs first; of very many those that matter, and the first others."""
    rows = sorted(rows, key=lambda row: _LETTERS.index(row[1]))
    total, title = sum(outcome.counts.values()), phrase(outcome.checker.value)
    if total > len(rows):
        title = phrase("{title} ({number} of {total} rows)", title=title, number=len(rows), total=total)
    titles = tuple(column.title for column in columns)
    table = Table(titles, tuple(cells for cells, _ in rows), "".join(letter for _, letter in rows))
    return TableSet(title, chunks.add(table), len(rows))
