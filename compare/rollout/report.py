"""An answer becomes files: one JSON object, and tables by sample and by position."""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.files import replacing
from msprobe.compare.report.cells import Cell, number
from msprobe.compare.report.columns import Column
from msprobe.compare.report.table_file import objects, write_table
from msprobe.store.claim import alone

from .answer import Answer

SUMMARY = "rollout_check.json"

SAMPLES = (
    Column("sample", "number of the sample in generated", 9),
    Column("recomputed_sample", "its number in recomputed", 18),
    Column("step", "its training step; empty where nothing tells", 6),
    Column("prompt", "tokens of its prompt; empty where nothing tells", 8),
    Column("tokens", "response tokens that are compared", 8),
    Column("mean", "mean gap, generated - recomputed", 20),
    Column("mean_absolute", "mean absolute gap", 20),
    Column("max_absolute", "greatest absolute gap", 20),
    Column("worst_position", "its position in the response, from 0 on", 14),
)
POSITIONS = (
    Column("position", "position in the response, from 0 on", 9),
    Column("samples", "samples that are that long", 9),
    Column("mean", "mean gap", 20),
    Column("mean_absolute", "mean absolute gap", 20),
    Column("max_absolute", "greatest absolute gap", 20),
)


def write(answer: Answer, folder: Path, form: str) -> list[Path]:
    """Write `rollout_check.json` and, as xlsx or csv, the two tables; with json they are in that one file.

    UsageError where that cannot be done, or where an answer is there already.
    """
    summary = folder / SUMMARY
    with alone(folder):
        if os.path.lexists(summary):
            raise UsageError(f"{summary}: is there already; give another folder with -o, or remove it")
        return _write(answer, folder, form)


def _write(answer: Answer, folder: Path, form: str) -> list[Path]:
    summary = folder / SUMMARY
    tables = {"samples": (SAMPLES, samples), "positions": (POSITIONS, positions)}
    told = as_object(answer)
    written = [summary]
    try:
        for name, (columns, rows) in tables.items():
            if form == "json":
                told[name] = objects(columns, rows(answer))
                continue
            path = folder / f"rollout_{name}.{form}"
            write_table(path, columns, rows(answer), form, title=name)
            written.append(path)
        with replacing(summary) as file:
            file.write(json.dumps(told, indent=1, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace"))
    except OSError as err:
        raise UsageError(f"{folder}: cannot be written ({err.strerror or err}); give another folder with -o") from err
    return written


def as_object(answer: Answer) -> dict[str, object]:
    """The answer without its tables, as JSON has it: no NaN, which is null."""
    overall = {
        key: value if isinstance(value, int) or math.isfinite(value) else None
        for key, value in asdict(answer.overall).items()
    }
    return {
        "verdict": answer.verdict.grade,
        "reason": answer.verdict.reason,
        "cause": answer.cause,
        "candidates": {one.cause: round(one.strength, 3) for one in answer.candidates},
        "evidence": list(answer.evidence),
        "overall": overall,
        "unjudged": list(answer.unjudged),
    }


def samples(answer: Answer) -> Iterator[tuple[Cell, ...]]:
    """A row for each sample that was compared."""
    aligned, by = answer.aligned, answer.by_sample
    for at in range(aligned.count):
        yield (
            int(aligned.sample[at]),
            int(aligned.other_sample[at]),
            "" if aligned.steps is None else int(aligned.steps[at]),
            "" if aligned.prompts is None else int(aligned.prompts[at]),
            int(aligned.lengths[at]),
            number(float(by.mean[at])),
            number(float(by.mean_absolute[at])),
            number(float(by.max_absolute[at])),
            int(by.worst[at]) if by.worst[at] >= 0 else "",
        )


def positions(answer: Answer) -> Iterator[tuple[Cell, ...]]:
    """A row for each position."""
    by = answer.by_position
    columns = (by.count.tolist(), by.mean.tolist(), by.mean_absolute.tolist(), by.max_absolute.tolist())
    for at, cells in enumerate(zip(*columns, strict=True)):
        yield (at, *cells)
