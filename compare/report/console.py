"""The answer on the console: counts, the next beginnings, and a last line that never changes its shape."""

from collections.abc import Iterator

from msprobe.base.visible import visible
from msprobe.compare.judge.judged import Comparison, Mode
from msprobe.compare.judge.verdict import count
from msprobe.compare.locate.find import Finding, Located

_RANK = {"error": 0, "warning": 1, "unjudged": 2, "pass": 3}

BLIND: dict[Mode, str] = {
    "statistics": "elements that changed places, nor what leaves maximum, minimum, mean and norm alike",
    "digest": "how far two tensors are apart, only that they are",
}
"""What a verdict that was not reached by the elements does not know."""


def lines(comparison: Comparison, located: Located, top: int) -> Iterator[str]:
    """The counts of every verdict, at most `top` next beginnings (worst first, then in execution order), the answer."""
    yield f"{comparison.mode} compared: {count(comparison.counts)}"
    if 2 * comparison.counts["unjudged"] > len(comparison.grades):
        yield _unjudged(comparison)
    if blind := BLIND.get(comparison.mode):
        yield f"{comparison.mode} cannot see {blind}"
    later = beginnings(located)
    for finding in later[: max(top, 0)]:
        yield f"next: {beginning(finding)}"
    if len(later) > top:
        yield f"and {len(later) - max(top, 0)} more beginnings in the column Begins of the table"
    yield ": ".join(answer(comparison, located))


def beginnings(located: Located) -> list[Finding]:
    """Where differences begin besides the first one: worst first, then in execution order."""
    return sorted(located.findings[1:], key=lambda f: (_RANK[f.grade], f.at))


def beginning(finding: Finding) -> str:
    """One beginning in a line, with how many later calls received it."""
    return f"{_said(finding)}{_receivers(finding)}"


def _unjudged(comparison: Comparison) -> str:
    """Why more than half of what was recorded has no verdict."""
    said = ", ".join(f"{count} {words}" for count, words in causes_of_unjudged(comparison))
    return f"{comparison.counts['unjudged']} unjudged: {said}"


def causes_of_unjudged(comparison: Comparison) -> list[tuple[int, str]]:
    """How many pairs have no verdict for which cause; none where all have one."""
    found = comparison.unjudged
    said = (
        (found.in_lonely_calls, "stand in calls that only one side makes"),
        (found.on_one_side, "on one side only of a pair of calls"),
        (found.of_two, "could not be compared"),
    )
    return [(count, words) for count, words in said if count]


def answer(comparison: Comparison, located: Located) -> tuple[str, str]:
    """The last line: what was found, and what there is to say of it."""
    if located.first is not None:
        return "first wrong call", _said(located.first)
    judged = sum(n for grade, n in comparison.counts.items() if grade != "unjudged")
    return _no_difference(comparison.is_clean, judged, comparison.counts["unjudged"])


def no_difference(is_clean: bool, judged: int, unjudged: int) -> str:
    """The last line where nothing differs; if not all is clean, what could not be read or matched may still differ."""
    return ": ".join(_no_difference(is_clean, judged, unjudged))


def _no_difference(is_clean: bool, judged: int, unjudged: int) -> tuple[str, str]:
    where = "" if is_clean else " in what could be judged"
    return f"no difference{where}", f"{judged} pairs judged, {unjudged} unjudged"


def _said(finding: Finding) -> str:
    place = f" ({finding.file}:{finding.line})" if finding.file else ""
    text = f"{finding.name} in {finding.cell}: {finding.kind}: {finding.reason}{place}"
    return visible(" ".join(text.split()))


def _receivers(finding: Finding) -> str:
    return f" [{finding.receivers} later calls received it]" if finding.receivers > 0 else ""
