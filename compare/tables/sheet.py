"""Write rows as an xlsx workbook: a sheet with a summary, then the rows, on several sheets if one is too small.

openpyxl creates the workbook: headings, widths, colors, filter. The rows are written into it as they are created,
because a library call for each of millions of cells would take most of the time of a large comparison
(explanation/performance.md).
"""

import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import chain, islice, repeat
from pathlib import Path
from typing import IO, Any

from msprobe.base.files import replace_atomically
from msprobe.base.version import tool
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.verdict import GRADES, Grade
from msprobe.compare.judge.wording import limits_phrase
from msprobe.compare.locate.find import Located
from msprobe.compare.locate.finding import Divergence
from msprobe.compare.locate.wording import full
from msprobe.findings.text import one_line

from .cells import Cell, guard, share
from .columns import Column
from .console import (
    BLIND,
    answer,
    causes_of_unjudged,
    described,
    excused_phrase,
    hint_of_located,
    later_divergences,
)
from .highlight import RED, YELLOW

try:
    from . import _cells  # type: ignore[attr-defined]  # the optional extension, which has no Python source

    rows_of: Any = _cells.sheet_rows
except ImportError:
    rows_of = None


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a label and its text, in the color of a verdict. A line without text is the heading of a part."""

    label: Cell
    text: Cell = ""
    grade: Grade | None = None


def _line_of(finding: Divergence) -> str:
    """Return a divergence as a line, with the number of later calls that received it."""
    received = f" [{finding.receivers} later calls received it]" if finding.receivers > 0 else ""
    return one_line(full(finding)) + received


def summary(comparison: Comparison, located: Located, *, label: str, top: int, exit_zero: bool) -> Iterator[Line]:
    """Yield the lines of one comparison; `label` distinguishes it from others that were made together, `top` is the
    number of the next divergences that are listed, `exit_zero` whether the user wants exit code 0 for any result."""
    is_clean = located.is_clean(comparison)
    grade = located.first.grade if located.first else "pass" if is_clean else "unjudged"
    yield Line("Answer")
    last = answer(comparison, located)
    found, text = str(last.title), one_line(last.text)
    yield Line(found, guard(text), grade)
    if (known := hint_of_located(comparison, located)) is not None:
        yield Line("Try", guard(one_line(known.text)))
    code = "0: every pair passes or is exempt"
    if not is_clean:
        code = "1: something differs, or could not be judged"
        code += "; with --exit-zero the command exits with 0" * exit_zero
    yield Line("exit code", code)
    yield Line("What was compared")
    for side, dump in (("target", comparison.target), ("golden", comparison.golden)):
        yield Line(side, guard(dump.where))
        yield Line("", guard(described(dump)))
    if label:
        yield Line("place", guard(label))
    yield Line("compared by", comparison.mode)
    if blind := BLIND.get(comparison.mode):
        yield Line("cannot detect", blind)
    if (noise := comparison.noise_of_tensors) is not None:
        yield Line("noise", guard(str(limits_phrase(noise.limits))))
    if comparison.excused is not None:
        yield Line("your limits", guard(str(excused_phrase(comparison.excused.counts, comparison.excused.limits))))
    yield Line("compared with", tool())
    yield Line("Verdicts of pairs of records")
    for each in GRADES:
        yield Line(each, comparison.counts[each], each if comparison.counts[each] else None)
    if causes := causes_of_unjudged(comparison.unjudged):
        yield Line("Why unjudged")
        yield from (Line(count, str(words)) for count, words in causes)
    if later := later_divergences(located):
        yield Line("Other divergences, largest first")
        for finding in later[: max(top, 0)]:
            yield Line(finding.grade, guard(_line_of(finding)), finding.grade)
        if len(later) > top:
            yield Line("", f"{len(later) - max(top, 0)} more: filter the column Begins of the next sheet by begins")
    yield Line("More information")
    yield Line("next sheet", "one row per pair of records, in execution order; filter the columns Verdict and Begins")
    yield Line("folded columns", "dtypes, shapes, the values of both sides: [+] or 2 above the headings shows them")
    if label:
        yield Line("other pairs", "if several pairs were compared: compare_summary_*.json in the output folder")
    yield Line("documentation", "docs: compare (verdicts, the first wrong call), compare-table (every column)")


Row = tuple[Cell, ...]

ROWS_IN_A_SHEET = 1_048_575  # of data; the format ends at 1,048,576, and the first row is the heading

FILLS = {"error": "F4B6B6", "warning": "FFEBA8"}
"""The color of the cell `Verdict`, RGB; everything else is white."""

ROW_FILLS = (RED, YELLOW)
"""The colors of whole rows, ARGB, for users who select msprobe 8.1's."""

SUMMARY = "summary"
"""The name of the first sheet."""

SUMMARY_FILLS = {**FILLS, "pass": "C6E7C8", "unjudged": "DDDDDD"}
"""The colors of verdicts in that sheet."""

_SUMMARY_WIDTH = 120  # characters

PERCENT = "[=0]0%;[<0.0001]0.000000%;0.00%"
"""Format of shares: 0 looks different from a share that two decimals would round to zero."""

_FONT = "Calibri"  # as of the other cells; without a name, a spreadsheet uses any font

_HEADING_HEIGHT = 45  # points: three lines, for headings above narrow columns

_AT_ONCE = 1000  # rows compressed together
_SHEET = "xl/worksheets/sheet{}.xml"


def write_sheet(
    path: Path,
    columns: Sequence[Column],
    rows: Iterable[Row],
    *,
    title: str = "compare",
    colors: Iterable[str | None] | None = None,
    summary: Iterable[Line] = (),
) -> None:
    """Write rows as they are created, with fixed headings at the top and a filter.

    `colors` has one entry for each row, which is read after it: a color (one of `ROW_FILLS`) for the whole row, or
    None. `summary` becomes a separate sheet before the rows; the sheet of rows remains the active one, which scripts
    open.
    """
    frame = _Frame(columns, tuple(summary))
    rest, color_of = iter(rows), iter(repeat(None) if colors is None else colors)
    with replace_atomically(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as book:
        lengths: list[int] = []
        while (first := next(rest, None)) is not None or not lengths:  # one sheet even without rows
            part = () if first is None else chain((first,), islice(rest, ROWS_IN_A_SHEET - 1))
            with book.open(_SHEET.format(frame.first + len(lengths)), "w") as sheet:
                lengths.append(frame.fill(sheet, part, color_of))
        frame.close(book, title, lengths)


class _Frame:
    """The workbook around the rows, as openpyxl writes it with one row of each style instead of the rows."""

    def __init__(self, columns: Sequence[Column], summary: Sequence[Line]) -> None:
        from openpyxl.utils import get_column_letter

        self._columns, self._summary = columns, summary
        self.first = 2 if summary else 1  # the number of the first sheet of rows
        self._letters = [get_column_letter(at) for at in range(1, len(columns) + 1)]
        titles = [c.title for c in columns]
        self._verdict = titles.index("Verdict") if "Verdict" in titles else -1
        self._shares = frozenset(at for at, column in enumerate(columns) if column.percent)
        text = _members(self._book("compare", [1]))[_SHEET.format(self.first)]
        self._heading, *styled = re.findall(r"<row .*?</row>", text, re.DOTALL)
        self._head = re.sub(r"<dimension [^>]*/>", "", text[: text.index("<row ")])
        numbers = [re.findall(r'<c [^>]*s="([0-9]+)"', row)[0] for row in styled]
        styles = iter([f' s="{number}"' for number in numbers])  # in the order in which `_book` writes its rows
        self._verdict_styles: dict[Cell, str] = dict(zip(FILLS, styles, strict=False))
        in_color = ["", *islice(styles, len(ROW_FILLS))]
        # Styles of cells, and of shares, in a row of each color.
        self._row_styles = dict(zip((None, *ROW_FILLS), zip(in_color, styles, strict=True), strict=True))

    def fill(self, sheet: IO[bytes], rows: Iterable[Row], colors: Iterator[str | None]) -> int:
        """Write one sheet; return its number of rows, including the heading."""
        sheet.write((self._head + self._heading).encode())
        last = 1
        making = iter(rows)
        while made := list(islice(making, _AT_ONCE)):
            sheet.write(self._rows(last + 1, made, list(islice(colors, len(made)))))
            last += len(made)
        sheet.write(f'</sheetData><autoFilter ref="A1:{self._letters[-1]}{last}"/></worksheet>'.encode())
        return last

    def close(self, book: zipfile.ZipFile, title: str, lengths: Sequence[int]) -> None:
        """Write the files that combine the sheets."""
        for name, text in _members(self._book(title, lengths)).items():
            if not name.startswith("xl/worksheets/sheet") or (self._summary and name == _SHEET.format(1)):
                book.writestr(name, text)

    def _rows(self, first: int, rows: list[Row], colors: list[str | None]) -> bytes:
        """Return rows from a number on, each in its color."""
        if rows_of is not None:
            of_verdict, of_rows = self._verdict_styles, self._row_styles
            made: bytes = rows_of(
                first, rows, colors, self._letters, of_rows, self._verdict, of_verdict, self._shares, _text
            )
            return made
        texts = [self._row(first + at, row, color) for at, (row, color) in enumerate(zip(rows, colors, strict=True))]
        return "".join(texts).encode("utf-8", "replace")

    def _row(self, number: int, row: Row, color: str | None) -> str:
        """Return a row; with a color, all cells have it, also empty ones, otherwise the verdict has its own."""
        cells = []
        style_of_row, in_percent = self._row_styles[color]
        for at, (letter, cell) in enumerate(zip(self._letters, row, strict=True)):
            kind = type(cell)
            style = style_of_row
            if kind is str:
                if at in self._shares and (part := share(cell)) is not None:
                    cells.append(f'<c r="{letter}{number}"{in_percent}><v>{part!r}</v></c>')
                elif cell:
                    if at == self._verdict and color is None:
                        style = self._verdict_styles.get(cell, "")
                    text = _text(cell)  # type: ignore[arg-type]  # a text
                    cells.append(f'<c r="{letter}{number}"{style} t="inlineStr"><is>{text}</is></c>')
                elif color is not None:
                    cells.append(f'<c r="{letter}{number}"{style}/>')
            elif kind is bool:
                cells.append(f'<c r="{letter}{number}"{style} t="b"><v>{int(cell)}</v></c>')
            else:
                cells.append(f'<c r="{letter}{number}"{style}><v>{cell!r}</v></c>')
        return f'<row r="{number}">{"".join(cells)}</row>'

    def _book(self, title: str, lengths: Sequence[int]) -> Any:
        """Return a workbook of sheets with headings, with a row in each style on the first one of rows, and of the
        summary."""
        from openpyxl import Workbook
        from openpyxl.styles import Alignment, Font, PatternFill

        book = Workbook()
        book.remove(book.active)
        for number, length in enumerate(lengths, 1):
            sheet = book.create_sheet(title if number == 1 else f"{title} {number}")
            is_open = True
            for at, (letter, column) in enumerate(zip(self._letters, self._columns, strict=True), 1):
                look = sheet.column_dimensions[letter]
                look.width, look.hidden, look.outlineLevel = column.width, column.folded, int(column.folded)
                look.collapsed = is_open is False and not column.folded  # after a group: the position of its [+]
                is_open = not column.folded
                heading = sheet.cell(1, at, column.title)
                heading.font, heading.alignment = Font(name=_FONT, bold=True), Alignment(wrap_text=True, vertical="top")
            sheet.column_dimensions.max_outline = int(any(column.folded for column in self._columns))
            sheet.row_dimensions[1].height = _HEADING_HEIGHT
            sheet.freeze_panes = "B2"
            sheet.auto_filter.ref = f"A1:{self._letters[-1]}{length}"
        # Always on the same sheet and in one order, so that a style has one number for any number of sheets.
        rows = book.worksheets[0]
        colors = (*(f"FF{color}" for color in FILLS.values()), *ROW_FILLS)
        fills = [PatternFill("solid", start_color=color) for color in colors]
        for at, fill in enumerate((*fills, PatternFill(), *fills[len(FILLS) :]), 2):
            cell = rows.cell(at, 1, "x")
            cell.fill = fill
            if at >= 2 + len(fills):
                cell.number_format = PERCENT
        if self._summary:
            _sum_up(book.create_sheet(SUMMARY, 0), self._summary)
            book.active = 1
            rows.sheet_view.tabSelected = True
        return book


def _sum_up(sheet: Any, lines: Sequence[Line]) -> None:
    """Write the lines into two columns: bold headings, colored verdicts, long texts on several lines."""
    from openpyxl.styles import Alignment, Font, PatternFill

    sheet.column_dimensions["A"].width, sheet.column_dimensions["B"].width = 28, _SUMMARY_WIDTH
    sheet.sheet_view.showGridLines = False
    sheet.page_setup.orientation, sheet.page_setup.fitToHeight = "landscape", 0
    sheet.sheet_properties.pageSetUpPr.fitToPage = True
    for at, line in enumerate(lines, 1):
        label, text = (sheet.cell(at, n, None if c == "" else c) for n, c in enumerate((line.label, line.text), 1))
        for cell in (label, text):
            cell.alignment = Alignment(wrap_text=True, vertical="top", horizontal="left")
            if isinstance(cell.value, str):
                cell.value = _UNDERSCORE.sub("_x005F_", cell.value)
                cell.data_type = "s"  # never a formula, for any name of a record
        if line.text == "" and line.label:
            label.font = Font(name=_FONT, bold=True, size=12)
            sheet.row_dimensions[at].height = 26
            label.alignment = Alignment(vertical="bottom")
        if line.grade in SUMMARY_FILLS:
            label.fill = PatternFill("solid", start_color=f"FF{SUMMARY_FILLS[line.grade]}")
        # A spreadsheet does not adjust the height of a row when it opens a file.
        height = sum(-(-len(part) // _SUMMARY_WIDTH) for part in str(line.text).split("\n") if part)
        if height > 1:
            sheet.row_dimensions[at].height = 15 * min(height, 27)


def _members(book: Any) -> dict[str, str]:
    """Return the files of a workbook as texts; strings are in the cells themselves."""
    made = BytesIO()
    book.save(made)
    with zipfile.ZipFile(made) as packed:
        return {name: packed.read(name).decode() for name in packed.namelist()}


_SPECIAL = re.compile(r"[&<>\r\n\t]|_x|^ | $").search
_UNDERSCORE = re.compile(r"_(?=x[0-9A-Fa-f]{4}_)")


def _text(text: str) -> str:
    """Return text as an element; sequences that XML, or the format itself (`_x000D_`), would decode are escaped."""
    if not _SPECIAL(text):
        return f"<t>{text}</t>"
    text = _UNDERSCORE.sub("_x005F_", text).replace("\r", "_x000D_")
    return f'<t xml:space="preserve">{text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}</t>'
