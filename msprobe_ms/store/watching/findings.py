"""Findings of a collection that checks each call, and `findings.json`, which contains them (`format.md`, page 11)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from msprobe.base.files import replace_atomically
from msprobe.base.log import join_names
from msprobe.base.names import parse
from msprobe.base.phrase import Words, phrase
from msprobe.findings.catalogue import nonfinite as kinds
from msprobe.findings.kind import Kind

NAME = "findings.json"
VERSION = 1


KINDS = (
    *(kinds.MADE, kinds.OF_INFINITIES, kinds.ARGUMENT, kinds.RECEIVED, kinds.ENTERED),
    *(kinds.NAN, kinds.INFINITY, kinds.JUMP, kinds.DIGEST, kinds.EXCEPTION),
)
"""Kinds of findings for which a call is written."""


@dataclass(frozen=True, slots=True)
class Caught:
    """A call that was written, and the reason.

    place : the record with the value, `output.0`.
    value, golden : the compared values: norms for a jump, or digests.
    written : the calls that were written together with it, in order.
    running : the calls that had started and not ended, the outermost first.
    file, line : the line of the user's code.
    traceback : the traceback of Python.
    """

    kind: Kind
    call: str
    place: str = ""
    value: float | str | None = None
    golden: float | str | None = None
    written: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    exception: str = ""
    traceback: str = ""
    file: str = ""
    line: int | None = None

    def sentence(self, folder: object) -> str:
        """Return `CALL: inputs finite, output.0 is not (FILE:LINE); written to FOLDER`."""
        variant = ""
        if self.kind is kinds.ENTERED:
            variant = "calls" if parse(self.call).kind == "api" else "cells"
        reason = self.kind.sentence(
            variant,
            place=self.place,
            value=self.value,
            golden=self.golden,
            exception=self.exception,
            inside=phrase(" inside {calls}", calls=join_names(self.running[::-1])) if self.running else "",
            predecessors=self._predecessors(),
        )
        line = f" ({self.file}:{self.line})" if self.file else ""
        return f"{self.call}: {reason}{line}; written to {folder}"

    def _predecessors(self) -> Words:
        number = len(self.written) - (self.call in self.written)
        if not number:
            return ""
        return phrase(
            ", with the {number} call before it" if number == 1 else ", with the {number} calls before it",
            number=number,
        )

    def as_object(self) -> dict[str, object]:
        """Return the members of its object in `findings.json`, without empty ones."""
        members = {each.name: getattr(self, each.name) for each in fields(self)}
        members["kind"] = self.kind.name
        return {key: value for key, value in members.items() if value not in (None, "", ())}


@dataclass(frozen=True, slots=True)
class Found:
    """The findings of a findings.json, and whether collecting ended with the last of them."""

    findings: tuple[Caught, ...] = ()
    is_over: bool = False


def write_findings(folder: Path, task: str, findings: Sequence[Caught], is_over: bool) -> None:
    """Replace `findings.json`. OSError if it cannot be written."""
    text = {
        "findings_version": VERSION,
        "task": task,
        "is_over": is_over,
        "findings": [finding.as_object() for finding in findings],
    }
    with replace_atomically(folder / NAME) as file:
        file.write(json.dumps(text, indent=1).encode("ascii") + b"\n")


def read_findings(members: dict[str, Any]) -> Found:
    """Return the findings in the object of a findings.json; members that are missing or malformed are left out."""
    if members.get("findings_version") != VERSION:
        return Found()
    by_name = {kind.name: kind for kind in KINDS}
    listed = members.get("findings")
    found = [
        Caught(by_name[each["kind"]], each["call"])
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, dict) and each.get("kind") in by_name and isinstance(each.get("call"), str)
    ]
    return Found(tuple(found), members.get("is_over") is True)
