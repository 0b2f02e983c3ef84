"""The verdict of a gate as lines of a console, as a JSON document, and as a summary in Markdown for a pull request."""

import html
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msprobe.base.files import make_folder, writing
from msprobe.base.log import terminal_line
from msprobe.base.phrase import phrase
from msprobe.base.verdicts import Verdicts
from msprobe.findings.document import Document, finding_as_object, printed
from msprobe.findings.finding import Answer, Finding, Suggestion
from msprobe.findings.text import called, lines_of, next_step, one_line

from .golden import Accepted, Golden
from .judge import WORDS, State, Verdict
from .training import StepFacts

_MAX_LISTED = 10
"""Findings that a summary lists."""


def with_command(verdict: Verdict, golden: Path, source: Sequence[str]) -> Verdict:
    """Return the verdict with the command that accepts its first finding; `source` are the words that give the run."""
    first = verdict.answer.first
    if verdict.state is not State.RED or first is None:
        return verdict
    words = ["msprobe", "gate", "accept", "--golden", str(golden), "--only", first.place.name, "--reason", "REASON"]
    accept = Suggestion(phrase("if the change is intended, accept it"), shlex.join([*words, *source]))
    return replace(verdict, answer=replace(verdict.answer, advice=(*verdict.answer.advice, accept)))


def lines(verdict: Verdict, top: int | None = None) -> Iterator[str]:
    """Return the lines of the console; the last one is the state with the first finding."""
    judged = [phrase("{fine} pass, {wrong} differ", fine=verdict.verdicts.fine, wrong=verdict.verdicts.wrong)]
    title = phrase(WORDS[verdict.state])
    *found, last = lines_of(verdict.answer, title, judged, verdict.answer.notes, top)
    yield from found
    if step := next_step(verdict.answer):
        yield terminal_line(f"  do next: {step}")
    yield last


def document(verdict: Verdict, command: str, golden: Golden, written: dict[str, Any]) -> Document:
    """Return the document of `--json`."""
    details = {
        "state": WORDS[verdict.state],
        "golden": str(golden.path),
        "training": [each.as_row() for each in verdict.facts],
        "golden_training": [each.as_row() for each in golden.facts],
        "accepted": [one.as_object() for one in golden.wanted.accepted],
    }
    exit_code = int(verdict.state)
    return Document(command, verdict.answer, verdict.verdicts, exit_code, verdict.counts, written, details)


def accepted_of(findings: Sequence[Finding], reason: str) -> Accepted:
    """Return findings as an accepted change."""
    return Accepted(reason, tuple(_brief(each) for each in findings[:_MAX_LISTED]))


def _brief(finding: Finding) -> dict[str, Any]:
    made = finding_as_object(finding)
    place = made["place"]
    return {
        "code": made["code"],
        "kind": made["kind"],
        "name": place["name"],
        "step": place["step"],
        "rank": place["rank"],
        "message": made["message"],
    }


# ---- Markdown -------------------------------------------------------------------------------------------------------

_MARKS = {State.GREEN: ":white_check_mark:", State.RED: ":x:", State.UNTRAINED: ":warning:"}


def append_summary(path: Path, text: str) -> None:
    """Append a summary to a file, as GitHub expects it; UsageError if it cannot be written."""
    with writing(path, "give another file with --summary"):
        make_folder(path.parent)
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write(text)


def summary(verdict: Verdict, golden: Golden) -> str:
    """Return the verdict as Markdown: the first finding, the others, the numbers of the training, accepted changes."""
    return "\n".join(_summary(verdict, golden)) + "\n"


def _summary(verdict: Verdict, golden: Golden) -> Iterator[str]:
    yield f"### {_MARKS[verdict.state]} Numerics gate {_code(golden.path.name)}: {WORDS[verdict.state]}"
    yield ""
    yield _text(verdict.answer.line)
    yield ""
    if (first := verdict.answer.first) is not None:
        yield from _finding(first)
    others = verdict.answer.next
    if others:
        yield from _folded(
            f"{len(others)} more findings", [f"- {_code(called(each))}: {_text(each.reason)}" for each in others]
        )
    if verdict.answer.harmless:
        rows = [f"- {_code(called(each))}: {_text(each.reason)}" for each in verdict.answer.harmless]
        yield from _folded(f"{len(rows)} differences that do not decide", rows)
    yield from _numbers(verdict.facts, golden.facts)
    for note in verdict.answer.notes:
        yield f"- {_text(note)}"
    if step := next_step(verdict.answer):
        yield from ("", "```bash", step.replace("```", ""), "```")
    if golden.wanted.accepted:
        rows = [f"- {_text(one.reason)}" for one in golden.wanted.accepted]
        yield from _folded(f"{len(rows)} accepted changes in this golden", rows)


def _finding(finding: Finding) -> Iterator[str]:
    rows = [("call", _code(finding.place.name)), ("kind", f"{finding.kind.code} {_text(finding.kind.name)}")]
    if finding.place.cell:
        rows.append(("in", _code(finding.place.cell)))
    rows.append(("because", _text(finding.reason)))
    if (source := finding.place.source) is not None:
        rows.append(
            ("source", _code(f"{source.file}:{source.line}") + (f" {_code(source.text)}" if source.text else ""))
        )
    if finding.later_calls:
        rows.append(("later calls that received it", str(finding.later_calls)))
    yield from ("| first finding | |", "|---|---|")
    yield from (f"| {name} | {value} |" for name, value in rows)
    yield ""


def _numbers(run: Sequence[StepFacts], golden: Sequence[StepFacts]) -> Iterator[str]:
    theirs = {(each.step, each.rank): each for each in golden}
    yield "| step | rank | loss | golden | norm of gradients | golden |"
    yield "|---|---|---|---|---|---|"
    for each in run[:_MAX_LISTED]:
        other = theirs.get((each.step, each.rank))
        losses = each.loss, None if other is None else other.loss
        cells = (*losses, each.gradient_norm, None if other is None else other.gradient_norm)
        yield f"| {each.step} | {each.rank} | {' | '.join(map(_number, cells))} |"
    yield ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.7g}"


def _folded(title: str, rows: Sequence[str]) -> Iterator[str]:
    yield from (f"<details><summary>{html.escape(title)}</summary>", "", *rows[:_MAX_LISTED])
    if len(rows) > _MAX_LISTED:
        yield f"- and {len(rows) - _MAX_LISTED} more"
    yield from ("", "</details>", "")


def _text(words: object) -> str:
    """Return a text of which Markdown and HTML interpret nothing."""
    text = html.escape(" ".join(str(words).split()), quote=False)
    return "".join(f"\\{letter}" if letter in "\\`*_[]|#~" else letter for letter in text)


def _code(text: str) -> str:
    shown = " ".join(text.replace("`", "'").replace("|", "\\|").split())
    return f"`{shown}`"


def page_of(verdict: Verdict, folder: Path | None) -> str:
    """Write the report page into a folder, if the verdict has one; return its path, or an empty text."""
    if folder is None or verdict.result is None or verdict.request is None or not verdict.request.html:
        return ""
    from msprobe.compare.dispatch import write_report  # here: few checks have a page

    make_folder(folder)
    return str(write_report(verdict.result, replace(verdict.request, output=folder)))


def printed_answer(
    command: str,
    answer: Answer,
    exit_code: int,
    files: Mapping[str, str] = MappingProxyType({}),
    details: Mapping[str, Any] = MappingProxyType({}),
    *,
    is_json: bool,
) -> int:
    """Print an answer that is about no pairs of records, as its last line or as a document; return the exit code."""
    if is_json:
        printed(Document(command, answer, Verdicts(), exit_code, files=files, details=details))
    else:
        print(one_line(answer.line))
    return exit_code
