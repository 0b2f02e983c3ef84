"""What was merged becomes a workbook with a sheet per measure, or a csv file per measure."""

import csv
import io
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msprobe.base.files import replacing
from msprobe.compare.report.cells import Cell, share
from msprobe.compare.report.sheet import PERCENT

from .merged import Merged

ROWS_IN_A_SHEET = 1_048_575  # of records; the format ends at 1,048,576, and the first row is the heading


def write_workbook(path: Path, merged: Merged) -> None:
    """Write one sheet per measure, called as the measure; what a sheet cannot hold goes on in a further one."""
    from openpyxl import Workbook
    from openpyxl.utils import get_column_letter

    book = Workbook(write_only=True)
    letters = [get_column_letter(at) for at in range(1, len(merged.titles) + 1)]
    for measure in merged.measures:
        rows, number = merged.rows(measure), 0
        while (part := list(islice(rows, ROWS_IN_A_SHEET))) or not number:
            number += 1
            sheet = book.create_sheet(measure if number == 1 else f"{measure} {number}")
            sheet.freeze_panes = "B2"
            for at, letter in enumerate(letters):
                sheet.column_dimensions[letter].width = 18 if at else 56
            sheet.append(merged.titles)
            for row in part:
                sheet.append([None if cell == "" else _set(sheet, cell) for cell in row])
    with replacing(path) as file:
        book.save(file)


def _set(sheet: Any, cell: Cell) -> Any:
    """A cell as it is, but for a share, which is a number that is shown in percent."""
    if (part := share(cell)) is None:
        return cell
    from openpyxl.cell import WriteOnlyCell

    shown = WriteOnlyCell(sheet, part)
    shown.number_format = PERCENT
    return shown


def write_csv_files(paths: Sequence[Path], merged: Merged) -> None:
    """Write a file per measure, UTF-8 with commas; numbers with all their digits."""
    for path, measure in zip(paths, merged.measures, strict=True):
        with replacing(path) as raw, io.TextIOWrapper(raw, encoding="utf-8", errors="replace", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(merged.titles)
            writer.writerows(merged.rows(measure))
