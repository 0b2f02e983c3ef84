"""The answer of a rollout check as findings."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msprobe.base.phrase import phrase
from msprobe.base.verdicts import last_line
from msprobe.findings.data import as_data
from msprobe.findings.document import Document
from msprobe.findings.finding import Answer, Finding, Place

from .diagnosis import KINDS, RolloutResult


def document_of(
    result: RolloutResult, files: Mapping[str, Path], more_details: Mapping[str, Any] | None = None
) -> Document:
    """Return the document of a check."""
    verdicts = result.verdicts
    details = {
        "cause": result.cause,
        "candidates": {one.cause: round(one.strength, 3) for one in result.candidates},
        "overall": {key: as_data(value) for key, value in asdict(result.overall).items()},
        "unjudged": list(result.unjudged),
        **(more_details or {}),
    }
    answer = answer_of(result)
    return Document("rollout-check", answer, verdicts, verdicts.exit_code, files=files, details=details)


def answer_of(result: RolloutResult) -> Answer:
    """Return the answer: the likeliest cause, at the sample with the largest gaps."""
    line = last_line(phrase("{verdict}", verdict=result.headline), result.verdicts)
    notes = tuple(result.evidence)
    if result.verdict.grade not in ("warning", "error"):
        return Answer("clean" if result.verdicts.exit_code == 0 else "unjudged", line, notes=notes)
    fields: dict[str, object] = {"cause": result.cause, "mean_absolute": result.overall.mean_absolute}
    name = "all samples"
    for at in result.worst(1):
        name = f"sample {result.aligned.sample[at]}"
        fields |= {
            "sample": int(result.aligned.sample[at]),
            "position": int(result.by_sample.worst[at]),
            "max_absolute": float(result.by_sample.max_absolute[at]),
        }
    kind = KINDS[result.cause]
    reason = phrase("{reason}", reason=result.verdict.reason)
    finding = Finding(kind, Place(name), reason, result.verdict.grade, notes, as_data(fields))
    return Answer("differs", line, finding)
