"""A comparison becomes a JSON file that a program reads: counts, the first wrong call, all beginnings, rows."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from msprobe.base.files import replacing
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.verdict import CAUSES, GRADES, Cause
from msprobe.compare.locate.find import Finding, Located

from .columns import Column
from .console import BLIND
from .rows import Row


def write_json(
    path: Path, comparison: Comparison, located: Located, columns: tuple[Column, ...], rows: Iterable[Row]
) -> None:
    """Write one object; each row is an object by heading, written as it comes."""
    found = [as_object(finding, comparison.target.step, comparison.target.rank) for finding in located.findings]
    head = {
        "target": comparison.target.where,
        "golden": comparison.golden.where,
        "mode": comparison.mode,
        "cannot_see": BLIND.get(comparison.mode),
        "counts": {grade: comparison.counts[grade] for grade in GRADES},
        "unjudged": causes(comparison.unjudged),
        "first_wrong": found[:1],
        "next_beginnings": found[1:],
    }
    titles = [c.title for c in columns]
    with replacing(path) as file:
        file.write(json.dumps(head, ensure_ascii=False, indent=1)[:-2].encode("utf-8", "replace"))
        file.write(b',\n "rows": [')
        for at, row in enumerate(rows):
            text = json.dumps(dict(zip(titles, row, strict=True)), ensure_ascii=False)
            file.write((",\n  " if at else "\n  ").encode() + text.encode("utf-8", "replace"))
        file.write(b"\n ]\n}\n")


def causes(unjudged: Mapping[Cause, int]) -> list[dict[str, object]]:
    """Why pairs have no verdict, as the JSON file and other tools see it."""
    found = [(cause, unjudged[cause]) for cause in CAUSES if unjudged.get(cause)]
    return [{"cause": c.name.lower(), "pairs": n, "is_exempt": c.is_exempt, "means": c.value} for c, n in found]


def as_object(finding: Finding, step: int | None, rank: int | None) -> dict[str, object]:
    """One beginning as the JSON file and other tools see it."""
    return {
        "name": finding.name,
        "cell": finding.cell,
        "kind": finding.kind,
        "reason": finding.reason,
        "file": finding.file or None,
        "line": finding.line,
        "step": step,
        "rank": rank,
    }
