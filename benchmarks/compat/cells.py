"""One pair's two tables, cell by cell: do they agree, is it a known wart, and is ours what the formulas give?"""

import ast
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from other_tool import Row
from warts import PARTS, WARTS, Cell
from worked import is_cosine, is_it, of_statistics, of_tensors

STATISTICS = (
    "Max diff",
    "Min diff",
    "Mean diff",
    "L2norm diff",
    "MaxRelativeErr",
    "MinRelativeErr",
    "MeanRelativeErr",
    "NormRelativeErr",
)
TENSORS = (
    "Cosine",
    "EucDist",
    "MaxAbsErr",
    "MaxRelativeErr",
    "One Thousandth Err Ratio",
    "Five Thousandths Err Ratio",
)
DIGESTS = ("NPU MD5", "BENCH MD5")
DIGITS = 1e-15
PRINTED = 12
MOST_WORKED_OUT = 10**5  # elements: they are worked out one by one


@dataclass(frozen=True)
class Pair:
    """Two folders of one rank."""

    name: str
    target: Path
    golden: Path


@dataclass
class Tally:
    """What became of one pair's cells."""

    rows: int = 0
    apart: int = 0
    cells: int = 0
    equal: int = 0
    warts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def columns_of(rows: list[Row]) -> tuple[str, ...]:
    """The columns of measures that a table has."""
    return next(titles for titles in (TENSORS, STATISTICS, DIGESTS) if rows and titles[0] in rows[0])


def agree(mine: object, other: object) -> bool:
    """One number in 15 digits or, where the other prints 12 decimals, in these; or one text.

    A TAB behind a text keeps spreadsheets from reading it as a number. 0 and 0.0%, inf and inf% are one number.
    """
    a, b = (str(cell).strip() for cell in (mine, other))
    try:
        x, y = float(a.rstrip("%")), float(b.rstrip("%"))
    except ValueError:
        return a == b
    if math.isnan(x) or math.isnan(y):
        return math.isnan(x) and math.isnan(y) and a.endswith("%") == b.endswith("%")
    decimals = len(b.rpartition(".")[2]) if "." in b and "e" not in b else 0
    return x == y or math.isclose(x, y, rel_tol=DIGITS) or (decimals == PRINTED and round(x, PRINTED) == y)


def held(mine: list[Row], other: list[Row], version: str) -> Tally:
    """Two tables of one pair, cell by cell, where both matched a row with the same partner."""
    tally = Tally()
    partners: dict[object, list[Row]] = defaultdict(list)
    for row in other:
        partners[row["NPU Name"]].append(row)
    for row in mine:
        if not partners[row["NPU Name"]]:
            tally.apart += 1
            continue
        there = partners[row["NPU Name"]].pop(0)
        if row["Bench Name"] != there["Bench Name"] or row["Bench Name"] == "N/A":
            tally.apart += 1
            continue
        tally.rows += 1
        for title in columns_of(mine):
            tally.cells += 1
            if agree(row[title], there[title]):
                tally.equal += 1
                continue
            cell = Cell(title, row, there, version)
            wart = next((wart.id for wart in WARTS if wart.is_this(cell)), None)
            if wart:
                tally.warts[wart] += 1
            else:
                what = f"ours {row[title]!r}, {version} {there[title]!r}"
                tally.wrong.append(f"{row['NPU Name']}: {title}: {what} {_given(row)}")
    return tally


def not_worked_out(pair: Pair, rows: list[Row]) -> Iterator[str]:
    """Which of our values are not those that follow from the formulas."""
    titles = columns_of(rows)
    for row in rows:
        if row["Bench Name"] == "N/A" or titles == DIGESTS:
            continue
        wanted = _of_files(pair, row) if titles == TENSORS else _of_cells(row)
        for title, value in wanted.items():
            check = is_cosine if title == "Cosine" else is_it
            if not check(row[title], value):
                yield f"{row['NPU Name']}: {title}: ours {row[title]!r}, worked out {value!r} {_given(row)}"


def _of_cells(row: Row) -> dict[str, object]:
    found = {}
    for title in STATISTICS[:4]:
        part = title.removesuffix(" diff")
        found[title], relative = of_statistics(row[f"NPU {PARTS[part]}"], row[f"Bench {PARTS[part]}"])
        found[f"{'Norm' if part == 'L2norm' else part}RelativeErr"] = relative
    return found


def _of_files(pair: Pair, row: Row) -> dict[str, object]:
    files = ast.literal_eval(str(row["Data_name"]))
    paths = [rank / "dump_tensor_data" / name for rank, name in zip((pair.target, pair.golden), files, strict=True)]
    if "-1" in files or not all(path.exists() for path in paths):
        return {}
    target, golden = map(np.load, paths)
    return of_tensors(target, golden) if target.size <= MOST_WORKED_OUT else {}


def _given(row: Row) -> str:
    wanted = ("Dtype", "max", "min", "mean", "l2norm")
    return str({side: [row.get(f"{side} {each}") for each in wanted] for side in ("NPU", "Bench")})
