"""The comparison of two roots written down: a table per key, one of all keys, one of settings, and all as JSON."""

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from msprobe.base.files import make_folder
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.key_data.table import COLUMNS as OF_KEY
from msprobe.compare.key_data.table import rows as rows_of_key
from msprobe.compare.locate.finding import Finding
from msprobe.compare.report.cells import Cell, guard
from msprobe.compare.report.columns import Column
from msprobe.compare.report.json_file import as_object
from msprobe.compare.report.table_file import write_table, write_text
from msprobe.compare.request import Format
from msprobe.store.folders import printable
from msprobe.store.single import stem_of

from .configurations import COLUMNS as OF_SETTINGS
from .configurations import rows as rows_of_settings
from .parts import FLOW, UNKNOWN
from .result import FlowResult
from .walk import Seen

FOLDER = "key_data"
"""Where the tables of single keys go, below the output folder."""

OF_KEYS = (
    Column("step", "number of the step", 6),
    Column("rank", "number of the rank", 6),
    Column("key", "name of the key; rows stand in the order of the flow", 24),
    Column("made by", "the stage that makes it; empty for host code, `?` where that is not known", 28),
    Column("Verdict", "the worst of its tensors", 10),
    Column("first difference", "micro step, id and index of the first element that differs; empty without any", 24),
    Column("role", "`begins`, `received`, `open` (what it is made of was not saved), `agrees`, `unjudged`", 10),
    Column("Reason", "why, in a sentence", 60),
)


def summary(output: Path, second: str) -> Path:
    """The path of the file that has all of it."""
    return output / f"compare_flow_{second}.json"


def write_down(result: FlowResult, output: Path, form: Format, second: str) -> None:
    """Write everything but the tables of the stages, which are there already. OSError where the disk refuses."""
    make_folder(output)
    if result.keys.rows:
        make_folder(output / FOLDER)
        for tag, part in groupby(result.keys.rows, key=lambda row: row.key.tag):
            write_table(output / FOLDER / f"{stem_of(tag)}.{form}", OF_KEY, rows_of_key(part), form)
        write_table(output / f"compare_flow_keys_{second}.{form}", OF_KEYS, _rows(result.walked), form)
    if result.configurations.count:
        path = output / f"compare_flow_configurations_{second}.{form}"
        write_table(path, OF_SETTINGS, rows_of_settings(result.configurations), form)
    write_text(summary(output, second), _whole(result, output))


def _rows(walked: Sequence[Seen]) -> Iterator[tuple[Cell, ...]]:
    for seen in walked:
        item = seen.item
        if item.kind == "key":
            stage = FLOW[item.part].stage if item.part != UNKNOWN else "?"
            cells = guard(item.name), stage, item.grade, guard(item.first), seen.role, guard(item.reason)
            yield item.step, item.rank, *cells


def _whole(result: FlowResult, output: Path) -> Mapping[str, object]:
    first = result.first
    return {
        "is_clean": result.is_clean,
        "first_difference": None
        if first is None
        else {
            "step": first.seen.item.step,
            "rank": first.seen.item.rank,
            "stage": first.stage or None,
            "says": first.says,
            "why": first.why or None,
            "then": first.then or None,
            "role": first.seen.role,
            "keys": [item.name for item in first.seen_in],
            "collect": dict(first.collect) or None,
        },
        "first_wrong": [] if first is None or first.finding is None else [_call(first.finding, first.seen)],
        "configurations": {
            "count": result.configurations.count,
            "problem": result.configurations.problem or None,
            "differences": [
                {
                    "setting": each.path,
                    "target": each.target,
                    "golden": each.golden,
                    "changes": each.meaning.changes if each.meaning else None,
                }
                for each in result.configurations.differences
            ],
        },
        "key_counts": {grade: result.keys.counts[grade] for grade in GRADES},
        "stages": [
            {
                "stage": stage.name,
                "problem": stage.problem or None,
                "is_clean": stage.answer.is_clean if stage.answer else None,
                "tables": [
                    os.path.relpath(o.table, output) for o in (stage.answer.outcomes if stage.answer else ()) if o.table
                ],
            }
            for stage in result.stages
        ],
        "missing": list(result.missing),
        "walk": [_seen(seen) for seen in result.walked],
    }


def _seen(seen: Seen) -> dict[str, object]:
    item = seen.item
    return {
        "step": item.step,
        "rank": item.rank,
        item.kind: printable(item.name),
        "verdict": item.grade,
        "role": seen.role,
        "through": list(seen.through),
        "reason": item.reason or None,
        "first": item.first or None,
        "first_wrong": [_call(item.finding, seen)] if item.finding else [],
    }


def _call(finding: Finding, seen: Seen) -> dict[str, object]:
    return as_object(finding, seen.item.step, seen.item.rank)
