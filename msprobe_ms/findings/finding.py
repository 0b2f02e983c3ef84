"""Findings of all commands: what is wrong, where, the evidence, and what to do next.

A command measures and judges with its own classes, and then reports findings. Console output, JSON documents, pages,
notebooks and spreadsheets are rendered from these, independent of the command. Texts are phrases: templates with
values, which a renderer shows in the language of the reader.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal

from msprobe.base.files import open_text
from msprobe.base.phrase import Words

from .kind import Kind, Severity

_AROUND = 3
"""Lines of source before and after the line of a finding."""

_MAX_LINE = 500
"""Characters of a line of source."""


@dataclass(frozen=True, slots=True)
class Source:
    """Lines of the user's source around the line of a finding.

    file : path as it was recorded.
    line : number of the line, from 1.
    first : number of the first of `lines`; 0 without lines.
    lines : empty if the file cannot be read on this machine.
    """

    file: str
    line: int
    first: int = 0
    lines: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the line itself without its indentation; empty if the file cannot be read."""
        at = self.line - self.first
        return self.lines[at].strip() if self.first and 0 <= at < len(self.lines) else ""


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a training.

    name : the call, parameter, setting, package or file.
    cell : path of the module that contains the call.
    record : the input or output of the call, `output.0`.
    step, rank, micro_step : None if unknown, or if the finding is about all of them.
    source : the line of the user's code.
    unit, call : position in the tree of a report, None outside of one.
    """

    name: str
    cell: str = ""
    record: str = ""
    step: int | None = None
    rank: int | None = None
    micro_step: int | None = None
    source: Source | None = None
    unit: int | None = None
    call: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of a kind.

    reason : one sentence that says why, without the place.
    grade : `pass`, `warning` or `error` of the records, where these are graded; empty otherwise.
    evidence : further sentences, most important first.
    fields : the same facts as data; names and types are those of the kind.
    later_calls : number of later calls that only received the difference; None if unknown.
    reaches_loss : whether the loss received it; None if unknown.
    certainty : `certain`, `likely`, or `open` if records before it could not be judged; empty if not graded.
    """

    kind: Kind
    place: Place
    reason: Words = ""
    grade: str = ""
    evidence: tuple[Words, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict, metadata={"page": False})
    later_calls: int | None = None
    reaches_loss: bool | None = None
    certainty: Literal["certain", "likely", "open", ""] = ""

    @property
    def severity(self) -> Severity:
        """Return the severity of the kind; a note where the difference is within tolerance."""
        return Severity.NOTE if self.grade == "pass" else self.kind.severity

    def placed(self, **changes: Any) -> "Finding":
        """Return the same finding with some members of its place changed."""
        return replace(self, place=replace(self.place, **changes))


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A next step: a sentence, with a command line or a configuration to copy."""

    text: Words
    command: str = ""
    config: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a command.

    state : `differs` (something is wrong), `clean`, `unjudged`, or `shown` (nothing was to be judged).
    line : the last line that the command prints.
    first : the finding that explains the others.
    next : findings that do not follow from it.
    harmless : differences without consequence.
    advice : what to do next.
    notes : what limits the answer.
    omitted : how many further findings and harmless ones there are, which are not listed here.
    """

    state: str
    line: Words
    first: Finding | None = None
    next: tuple[Finding, ...] = ()
    harmless: tuple[Finding, ...] = ()
    advice: tuple[Suggestion, ...] = ()
    notes: tuple[Words, ...] = ()
    omitted: int = field(default=0, metadata={"page": False})

    @property
    def findings(self) -> Sequence[Finding]:
        """Return all findings but the harmless ones, the first of them first."""
        return self.next if self.first is None else (self.first, *self.next)

    @property
    def total(self) -> int:
        """Return the number of all findings, harmless and omitted ones included."""
        return len(self.findings) + len(self.harmless) + self.omitted

    def limited(self, most: int) -> "Answer":
        """Return the same answer with at most `most` findings and `most` harmless ones."""
        kept = replace(self, next=self.next[: most - (self.first is not None)], harmless=self.harmless[:most])
        return replace(kept, omitted=self.total - len(kept.findings) - len(kept.harmless))


def source_of(file: str, line: int | None) -> Source | None:
    """Return the lines around a line of the user's source; without lines if the file cannot be read on this machine.

    None if the line is unknown.
    """
    if not file or line is None:
        return None
    try:
        with open_text(file) as text:
            lines = [each.rstrip("\n") for each in islice(text, line + _AROUND)]
    except (OSError, ValueError):
        return Source(file, line)
    first = max(1, line - _AROUND)
    if line > len(lines):
        return Source(file, line)
    return Source(file, line, first, tuple(each[:_MAX_LINE] for each in lines[first - 1 :]))
