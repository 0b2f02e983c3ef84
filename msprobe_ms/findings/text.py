"""Answers as lines of a console: the verdict first, the line that scripts read last."""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from msprobe.base.log import terminal_line
from msprobe.base.phrase import Words

from .finding import Answer, Finding

MAX_EVIDENCE = 3
"""Sentences of evidence in addition to the reason."""

MAX_HARMLESS = 2
"""Harmless differences that are listed where nothing else is wrong."""

_VERDICTS = {"clean": "ok", "unjudged": "open", "shown": "shown", "failed": "failed", "differs": "error"}

_COLORS = {"ok": "32", "open": "33", "note": "33", "warning": "33", "error": "31", "failed": "31"}
"""SGR codes of verdicts: green, yellow, red."""

_VERDICT = re.compile(r"(ok|open|note|warning|error|failed): (.*)", re.DOTALL)
_LABEL = re.compile(r"  [a-z ]+: ")


def lines_of(
    answer: Answer,
    title: Words,
    judged: Iterable[Words] = (),
    limits: Iterable[Words] = (),
    top: int | None = None,
    totals: Mapping[str, int] = MappingProxyType({}),
) -> Iterator[str]:
    """Return the lines of an answer: at most ten with the default `top`, so that a screen has room for two more.

    title : the verdict if there is no first finding.
    judged : what was judged, and how much of it agrees.
    limits : limits of the answer.
    top : number of listed other findings, and of harmless ones. By default one other finding, or two harmless ones if nothing is wrong.
    totals : numbers of all findings by label, `also`, `harmless` and `open`, if the answer has only the first ones.
    """
    first = answer.first
    yield one_line(f"{_VERDICTS[answer.state]}: {title}" if first is None else _headline(first))
    if first is not None:
        yield from _finding(first)
    yield from _listed("also", answer.next, 1 if top is None else top, totals)
    if first is None or top is not None:
        most = MAX_HARMLESS if top is None else top
        for label, is_open in (("harmless", False), ("open", True)):
            found = [one for one in answer.harmless if (one.certainty == "open") == is_open]
            yield from _listed(label, found, most, totals)
    for label, sentences in (("judged", judged), ("limits", limits)):
        if text := "; ".join(filter(None, map(str, sentences))):
            yield one_line(f"  {label}: {text}")
    yield one_line(answer.line)


def one_line(words: Words) -> str:
    """Return a sentence as one line of a terminal."""
    text = str(words)
    indent = text[: len(text) - len(text.lstrip(" "))]
    return indent + terminal_line(" ".join(text.split()))


def colored(line: str) -> str:
    """Return a line with the colors of a terminal: those of its verdict, and dim labels."""
    if found := _VERDICT.fullmatch(line):
        verdict, rest = found.groups()
        return f"\x1b[1;{_COLORS[verdict]}m{verdict}\x1b[0m: \x1b[1m{rest}\x1b[0m"
    if label := _LABEL.match(line):
        return f"\x1b[2m{label[0]}\x1b[0m{line[label.end() :]}"
    return line


def printed(lines: Iterable[str]) -> None:
    """Print lines on standard output, in color on a terminal unless NO_COLOR is set."""
    is_colored = sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    is_colored = is_colored and os.environ.get("TERM") != "dumb"
    for line in lines:
        print(colored(line) if is_colored else line)


def next_step(answer: Answer) -> str:
    """Return the command to run next: the last one that is suggested; empty without any."""
    commands = [one.command for one in answer.advice if one.command]
    return commands[-1] if commands else ""


def _headline(finding: Finding) -> str:
    certainty = f" ({finding.certainty})" if finding.certainty else ""
    return f"{finding.severity.value}: {called(finding)}{certainty}"


def called(finding: Finding) -> str:
    """Return the place and the kind of a finding: `NAME in CELL: KIND`."""
    where = f" in {finding.place.cell}" if finding.place.cell else ""
    return f"{finding.place.name}{where}: {finding.kind.name}"


def _finding(finding: Finding) -> Iterator[str]:
    if str(finding.reason):
        yield one_line(f"  because: {finding.reason}")
    evidence = [*_reach(finding), *map(str, finding.evidence)]
    yield from (one_line(f"  evidence: {text}") for text in evidence[:MAX_EVIDENCE])
    if (source := finding.place.source) is not None:
        code = f": {source.text}" if source.text else ""
        yield one_line(f"  source: {source.file}:{source.line}{code}")


def _reach(finding: Finding) -> Iterator[str]:
    if finding.later_calls:
        received = "call received" if finding.later_calls == 1 else "calls received"
        to_loss = {True: "; it reaches the loss", False: "; it does not reach the loss", None: ""}[finding.reaches_loss]
        yield f"{finding.later_calls} later {received} the difference{to_loss}"


def _listed(label: str, findings: Sequence[Finding], top: int, totals: Mapping[str, int]) -> Iterator[str]:
    """Return a line for each of the first findings; the last one has the number of the others."""
    shown, total = findings[: max(top, 0)], totals.get(label, len(findings))
    for at, finding in enumerate(shown, 1):
        reason = f": {finding.reason}" if str(finding.reason) else ""
        left = total - len(shown)
        more = f" (and {left} more, see the table)" if at == len(shown) and left else ""
        yield one_line(f"  {label}: {called(finding)}{reason}{more}")
    if total and not shown:
        yield one_line(f"  {label}: {total}, see the table")
