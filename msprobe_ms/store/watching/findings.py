"""What a collection that watches has found, as data; and `findings.json`, which holds it (`format.md`, page 11)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from msprobe.base.files import replacing
from msprobe.findings.catalogue import nonfinite as kinds
from msprobe.findings.kind import Kind

NAME = "findings.json"
VERSION = 1


KINDS = (
    *(kinds.MADE, kinds.OF_INFINITIES, kinds.ARGUMENT, kinds.RECEIVED, kinds.ENTERED),
    *(kinds.NAN, kinds.INFINITY, kinds.JUMP, kinds.DIGEST, kinds.EXCEPTION),
)
"""Why a call is written."""


@dataclass(frozen=True, slots=True)
class Caught:
    """One call that was written, and why.

    `place` is the record that shows it, `output.0`. `value` and `golden` are what was compared: norms for a jump,
    digests. `written` are the calls that were written with it, in their order; `running` those that had begun and not
    ended, the outermost first. `file` and `line` are the user's; `traceback` is Python's.
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

    def as_object(self) -> dict[str, object]:
        """The members of its object in `findings.json`; what is empty is left out."""
        members = {each.name: getattr(self, each.name) for each in fields(self)}
        members["kind"] = self.kind.name
        return {key: value for key, value in members.items() if value not in (None, "", ())}


@dataclass(frozen=True, slots=True)
class Found:
    """What a findings.json says: the findings, and whether collecting ended with the last of them."""

    findings: tuple[Caught, ...] = ()
    is_over: bool = False


def write_findings(folder: Path, task: str, findings: Sequence[Caught], is_over: bool) -> None:
    """Write `findings.json` whole, in the place of the one before. OSError when the disk refuses."""
    text = {
        "findings_version": VERSION,
        "task": task,
        "is_over": is_over,
        "findings": [finding.as_object() for finding in findings],
    }
    with replacing(folder / NAME) as file:
        file.write(json.dumps(text, indent=1).encode("ascii") + b"\n")


def read_findings(members: dict[str, Any]) -> Found:
    """What the object of a findings.json says; what it does not hold, or holds in another form, is left out."""
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
