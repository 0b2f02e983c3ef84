"""Show the contents of a golden file: versions, steps, losses, and the changes that were accepted.

  msprobe gate show FILE

Exit code: 0, or 2 if the file cannot be read.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from msprobe.base.log import terminal_line
from msprobe.base.phrase import phrase
from msprobe.options.declaration import positional
from msprobe.options.groups import JsonAnswer
from msprobe.options.kinds import PATH

if TYPE_CHECKING:
    from .golden import Golden


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    golden: Path = positional(PATH, "FILE", help="the golden file", zh="golden 文件")


def run(options: Options) -> int:
    """Print the contents, and return the exit code."""
    from msprobe.findings.finding import Answer

    from .golden import Golden
    from .report import printed_answer

    golden = Golden.read(options.golden)
    if not options.is_json:
        for text in _lines(golden):
            print(terminal_line(text))
    number, accepted = len(golden.facts), len(golden.wanted.accepted)
    line = phrase(
        "golden: {path}: {steps} steps, {accepted} accepted changes",
        path=str(golden.path),
        steps=number,
        accepted=accepted,
    )
    details = {key: value for key, value in golden.about.items() if key not in ("format", "tool")}
    return printed_answer("gate show", Answer("shown", line), 0, details=details, is_json=options.is_json)


def _lines(golden: "Golden") -> Iterator[str]:
    about, wanted = golden.about, golden.wanted
    yield f"made with: {', '.join(f'{key} {value}' for key, value in about['made_with'].items())}"
    if wanted.command:
        yield f"command: {' '.join(wanted.command)}"
    yield f"collected: level {wanted.collection.level}, at most {about['sampled']} elements of each tensor"
    limits = f"calibrated by {wanted.runs} runs" if wanted.limits is not None else "built-in"
    yield f"limits: {limits}; {'forward only' if wanted.forward_only else 'trains'}"
    for each in golden.facts:
        loss = "no loss" if each.loss is None else f"loss {each.loss:.7g}"
        norm = "" if each.gradient_norm is None else f", gradient norm {each.gradient_norm:.7g}"
        updated = "" if each.updated is None else f", {each.updated} of {each.parameters} parameters updated"
        yield f"step {each.step}, rank {each.rank}: {each.calls} calls, {loss}{norm}{updated}"
    for number, one in enumerate(wanted.accepted, 1):
        yield f"accepted {number}: {one.reason}"
        yield from (f"  {each.get('name')}: {each.get('kind')}: {each.get('message')}" for each in one.findings)
