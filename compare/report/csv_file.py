"""Rows become a csv file: UTF-8, commas, one line of headings."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from msprobe.base.files import replacing

from .columns import Column
from .rows import Row


def write_csv(path: Path, columns: tuple[Column, ...], rows: Iterable[Row]) -> None:
    """Write rows as they come; numbers with all their digits, so that they read back as the same floats."""
    with replacing(path) as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([c.title for c in columns])
        writer.writerows(rows)
