"""The first sheet of a workbook: what was compared, the answer, counts, where to read on; as lines for a writer."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version

from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.verdict import GRADES, Grade
from msprobe.compare.judge.words import say_limits
from msprobe.compare.locate.find import Located
from msprobe.store.record import Dump

from .cells import Cell, guard
from .console import BLIND, answer, beginning, beginnings, causes_of_unjudged

_EXIT = {
    0: "0: every pair passes or is exempt",
    1: "1: something differs, or could not be judged",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line: a label and what it says, in the colour of a verdict. A line without text is the heading of a part."""

    label: Cell
    text: Cell = ""
    grade: Grade | None = None


def summary(comparison: Comparison, located: Located, *, label: str, top: int, exit_zero: bool) -> tuple[Line, ...]:
    """The lines of one comparison; `label` tells it from others that were made together, `top` is how many of the next
    beginnings are listed, `exit_zero` whether the user wants exit code 0 whatever is found."""
    return tuple(_lines(comparison, located, label, top, exit_zero))


def _lines(comparison: Comparison, located: Located, label: str, top: int, exit_zero: bool) -> Iterator[Line]:
    code = 0 if comparison.is_clean else 1
    grade = located.first.grade if located.first else "pass" if comparison.is_clean else "unjudged"
    yield Line("Answer")
    found, said = answer(comparison, located)
    yield Line(found, guard(said), grade)
    yield Line("exit code", _EXIT[code] + ("; with --exit-zero the command ends with 0" if code and exit_zero else ""))
    yield Line("What was compared")
    for side, dump in (("target", comparison.target), ("golden", comparison.golden)):
        yield Line(side, guard(dump.where))
        yield Line("", guard(described(dump)))
    if label:
        yield Line("place", guard(label))
    yield Line("compared by", comparison.mode)
    if blind := BLIND.get(comparison.mode):
        yield Line("cannot see", blind)
    if (noise := comparison.noise_of_tensors) is not None:
        yield Line("noise", guard(say_limits(noise.limits)))
    yield Line("compared with", f"msprobe-ms {version('msprobe-ms')}")
    yield Line("Verdicts of pairs of records")
    for each in GRADES:
        yield Line(each, comparison.counts[each], each if comparison.counts[each] else None)
    if causes := causes_of_unjudged(comparison.unjudged):
        yield Line("Why unjudged")
        for count, words in causes:
            yield Line(count, words)
    if later := beginnings(located):
        yield Line("Next beginnings, worst first")
        for finding in later[: max(top, 0)]:
            yield Line(finding.grade, guard(beginning(finding)), finding.grade)
        if len(later) > top:
            yield Line("", f"{len(later) - max(top, 0)} more: filter the column Begins of the next sheet for begins")
    yield Line("Where to read on")
    yield Line("next sheet", "one row per pair of records, in execution order; filter the columns Verdict and Begins")
    yield Line("folded columns", "dtypes, shapes, the values of both sides: [+] or 2 above the headings shows them")
    if label:
        yield Line("other pairs", "where several were compared: compare_summary_*.json in the output folder")
    yield Line("documentation", "docs/compare.md: verdicts, the first wrong call; docs/compare-table.md: every column")


def described(dump: Dump) -> str:
    """`MindSpore, statistics, format 1 of msprobe-ms`, as far as the dump says."""
    framework = {"mindspore": "MindSpore", "pytorch": "PyTorch"}.get(dump.framework, dump.framework)
    made_by = f"format {dump.format_version} of msprobe-ms" if dump.format_version else "format of msprobe"
    return ", ".join(word for word in (framework, dump.task, f"level {dump.level}" * bool(dump.level), made_by) if word)
