"""The JSON document of `--json`, the same for every command.

Its schema is `schema/findings-1.json`; `docs/en/reference/json.md` describes it. Within one version, members are only
added, and no member changes its meaning or type. `details` has additional members of a command, to which members may be
added, too.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.base.verdicts import Verdicts
from msprobe.base.version import tool

from .data import as_data
from .finding import Answer, Finding, Place, Suggestion

SCHEMA = "msprobe-ms/findings/1"
"""Value of the member `schema`; the number is the version."""

SCHEMA_FILE = Path(__file__).with_name("schema") / "findings-1.json"
"""JSON Schema (draft 2020-12) of the document."""


@dataclass(frozen=True)
class Document:
    """The answer of a command, and its data.

    command : the command without options, `monitor compare`.
    answer : findings, suggestions, notes and the last line.
    verdicts : numbers of items that are fine, wrong or unjudged, with reasons.
    exit_code : the exit code of the command.
    counts : records by grade, if the command grades records.
    files : written paths by their type (`table`, `page`, ...).
    details : members of this command only.
    """

    command: str
    answer: Answer
    verdicts: Verdicts
    exit_code: int
    counts: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, Path | str | Sequence[Path | str]] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


def as_object(document: Document) -> dict[str, Any]:
    """Return a document as JSON types."""
    answer, verdicts = document.answer, document.verdicts
    return {
        "schema": SCHEMA,
        "tool": tool(),
        "command": document.command,
        "state": answer.state,
        "exit_code": document.exit_code,
        "answer": str(answer.line),
        "findings": [finding_as_object(one) for one in answer.findings],
        "first_is_cause": answer.first is not None,
        "harmless": [finding_as_object(one) for one in answer.harmless],
        "omitted": answer.omitted,
        "suggestions": [_suggestion(one) for one in answer.advice],
        "notes": [str(note) for note in answer.notes],
        "judged": {"fine": verdicts.fine, "wrong": verdicts.wrong, "unjudged": verdicts.unjudged},
        "not_judged": [
            {"reason": cause.name.lower(), "means": cause.value, "number": number}
            for cause, number in verdicts.gaps.items()
            if number
        ],
        "counts": dict(document.counts),
        "files": {name: _paths(path) for name, path in document.files.items() if path},
        "details": as_data(document.details),
    }


def finding_as_object(finding: Finding) -> dict[str, Any]:
    """Return a finding as JSON types."""
    kind = finding.kind
    return {
        "code": kind.code,
        "kind": kind.name,
        "severity": finding.severity.value,
        "grade": finding.grade or None,
        "certainty": finding.certainty or None,
        "message": str(finding.reason),
        "place": _place(finding.place),
        "evidence": [str(one) for one in finding.evidence],
        "fields": as_data(finding.fields),
        "later_calls": finding.later_calls,
        "reaches_loss": finding.reaches_loss,
        "docs": kind.docs,
    }


def failure(command: str, message: str, exit_code: int) -> dict[str, Any]:
    """Return the document of a command that could not be carried out: its state is `failed`."""
    answer = Answer("failed", message)
    return as_object(Document(command, answer, Verdicts(), exit_code))


def text_of(made: Mapping[str, Any]) -> str:
    """Return a document as the text that `--json` prints."""
    return json.dumps(made, ensure_ascii=False, indent=1, allow_nan=False)


def printed(document: Document) -> None:
    """Print a document on standard output."""
    print(text_of(as_object(document)))


def _place(place: Place) -> dict[str, Any]:
    source = place.source
    return {
        "name": place.name,
        "cell": place.cell or None,
        "record": place.record or None,
        "step": place.step,
        "rank": place.rank,
        "micro_step": place.micro_step,
        "file": None if source is None else source.file,
        "line": None if source is None else source.line,
        "code": None if source is None else source.text or None,
    }


def _suggestion(one: Suggestion) -> dict[str, Any]:
    return {"text": str(one.text), "command": one.command or None, "configuration": one.config or None}


def _paths(path: Path | str | Sequence[Path | str]) -> str | list[str]:
    return str(path) if isinstance(path, str | Path) else [str(one) for one in path]
