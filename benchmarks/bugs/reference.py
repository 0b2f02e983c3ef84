"""The reference tool (`mindstudio-probe`) as a black box: what its own table marks first, held to the same truth.

It names no call by itself, so taken is the first row of its table that its rules mark: `Result` error or Warning, or
`No` under `Accuracy Reached or Not`. Each comparison is a process of its own, which imports MindSpore; hence `every`.
"""

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

Score = dict[str, Any]
VERSION = "26.2.0"
_PART = re.compile(r"\.(input|output|parameters|parameters_grad|kwargs)(\.|$)")
_MARKED = {"error", "warning", "no", "different"}


def add(scores: list[Score], folder: Path, environments: Path, every: int) -> None:
    """Put `other`, as `score.judged` gives it, into every nth score; its environment is made if it is not there."""
    sys.path.append(str(Path(__file__).parents[1]))
    from compat.other_tool import install

    tool = install(VERSION, environments)
    for one in scores[::every]:
        case = folder / one["regime"] / one["task"] / one["case"]
        one["other"] = _judged(json.loads((case / "truth.json").read_text()), *_first_marked(tool, case))


def _first_marked(tool: Any, case: Path) -> tuple[int, str | None]:
    """The step and the call of the first row that is marked; steps in their order."""
    for step in sorted(path.name for path in (case / "target").glob("step*")):
        with tempfile.TemporaryDirectory() as out:
            ranks = tool.compare_ranks(case / "target" / step, case / "golden" / step, Path(out) / "table")[0]
        for rows in ranks.values():
            for row in rows:
                if is_marked(row):
                    return int(step.removeprefix("step")), call_of(row)
    return 0, None


def is_marked(row: dict[str, Any]) -> bool:
    """Whether the tool's own rules say of a row that it differs."""
    return any(str(row.get(title, "")).lower() in _MARKED for title in ("Result", "Accuracy Reached or Not"))


def call_of(row: dict[str, Any]) -> str:
    """The call of a row, by the target's name, or the golden's where the target has none."""
    name = str(row["NPU Name"])
    name = name if name not in ("N/A", "") else str(row["Bench Name"])
    return _PART.split(name, maxsplit=1)[0]


def _judged(truth: dict[str, Any], step: int, named: str | None) -> dict[str, Any]:
    if truth["clean"]:
        return {"alarm": named is not None, "named": named}
    right = named is not None and step in truth["steps_shown"] and truth["names"] in (["*"], [named])
    right = right or (named in truth["names"] and step in truth["steps_shown"])
    return {"alarm": named is not None, "first": right, "named": named}
