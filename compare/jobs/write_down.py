"""A comparison is written down: the table in the form that was asked for, and what belongs beside it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import tee
from pathlib import Path

from msprobe.base.files import replacing
from msprobe.base.log import logger
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.locate.find import Located
from msprobe.compare.ranks.diff_analyze import write_calls
from msprobe.compare.report.advice import SUSPICIOUS, advise, write_advice
from msprobe.compare.report.coloured import coloured
from msprobe.compare.report.columns import Column, columns_of
from msprobe.compare.report.csv_file import write_csv
from msprobe.compare.report.csv_shares import WORTH_SHARES, write_csv_shares
from msprobe.compare.report.json_file import write_json
from msprobe.compare.report.rows import Row, rows, stack_of
from msprobe.compare.report.sheet import write_sheet
from msprobe.compare.report.summary import summary
from msprobe.compare.request import Request

_OF_8_1 = ("Accuracy Reached or Not", "Result")
"""The headings under which msprobe 8.1 has its verdict."""


def write_down(
    comparison: Comparison,
    located: Located,
    request: Request,
    path: Path,
    *,
    of_calls: bool,
    label: str = "",
    workers: int = 1,
) -> None:
    """Write the table to `path`, and what was asked for beside it; OSError where the disk refuses.

    `label` tells this comparison from others of the same request, in the first sheet of a workbook.
    What msprobe 8.1 advises and colours is for dumps `of_calls`: not for kernels, nor for what was saved one by one.
    """
    advice, highlight = request.advise and of_calls, request.highlight and of_calls
    with_stack = request.with_stack
    if with_stack is None:
        with_stack = any(stack_of(comparison.target, call) for call in range(len(comparison.target.calls)))
    shown = columns_of(comparison, with_stack)
    table = rows(comparison, located, with_stack)
    colours: Iterator[str | None] | None = None
    if highlight and request.format == "xlsx":
        both = tee(coloured(comparison, shown, table))
        table, colours = (row for row, _ in both[0]), (colour for _, colour in both[1])
    elif highlight:
        table = (row for row, _ in coloured(comparison, shown, table))
    suspicious: list[tuple[int, str, str]] = []
    if advice:
        table = _watched(table, shown, suspicious)
    is_plain = not (advice or highlight) and workers != 1 and len(comparison.grades) >= WORTH_SHARES
    if request.format == "csv" and is_plain:
        write_csv_shares(path, shown, comparison, located, with_stack, workers)
    elif request.format == "csv":
        write_csv(path, shown, table)
    elif request.format == "json":
        write_json(path, comparison, located, shown, table)
    else:
        said = summary(comparison, located, label=label, top=request.top, exit_zero=request.exit_zero)
        write_sheet(path, shown, table, colours=colours, summary=said)
    if advice:
        write_advice(advisor(path), advise(suspicious))
    if request.log_each and comparison.mode == "tensor":
        for call in comparison.calls:
            for judged in call.judged:
                logger.info("%s: %s", judged.pair.record.name, judged.verdict.grade)
    if request.diff_analyze and of_calls:
        write_calls(calls_file(path), comparison, located)


def data_mapping_file(table: Path) -> Path:
    """The rows that the layer mapping pairs: `data_mapping_rank0_{time}.yaml` of `compare_result_rank0_{time}.csv`."""
    return table.with_name(f"{table.stem.replace('compare_result', 'data_mapping', 1)}.yaml")


def write_data_mapping(path: Path, rows: Mapping[str, str]) -> None:
    """Write which row the layer mapping takes for which; it can be given as `-dm`, and says `N/A` where it found
    none."""
    with replacing(path) as file:
        for ours, theirs in rows.items():
            # A JSON text is a yaml text whatever a dump calls its rows.
            file.write(f"{json.dumps(ours)}: {json.dumps(theirs)}\n".encode())


def advisor(table: Path) -> Path:
    """The advisor's text of a table: `advisor_rank0_{time}.txt` of `compare_result_rank0_{time}.csv`."""
    return table.with_name(f"{table.stem.replace('compare_result', 'advisor', 1)}.txt")


def calls_file(table: Path) -> Path:
    """The file that says of each call whether it differs: `compare_result_rank0_{time}.json`, or, where that is the
    table itself, the same with `_calls` behind the time."""
    return table.with_name(f"{table.stem}_calls.json") if table.suffix == ".json" else table.with_suffix(".json")


def _watched(table: Iterator[Row], shown: Sequence[Column], suspicious: list[tuple[int, str, str]]) -> Iterator[Row]:
    """The rows as they are; the first that 8.1 calls bad is kept in `suspicious`, so that rows are made once only."""
    verdict = next(at for at, column in enumerate(shown) if column.title in _OF_8_1)
    for number, row in enumerate(table):
        if not suspicious and row[verdict] in SUSPICIOUS:
            suspicious.append((number, str(row[0]), str(row[verdict])))
        yield row
