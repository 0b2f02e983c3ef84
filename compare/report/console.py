"""The answer on the console: counts, the next beginnings, and a last line that never changes its shape."""

from collections.abc import Iterator, Mapping

from msprobe.base.visible import visible
from msprobe.compare.judge.judged import Comparison, Mode
from msprobe.compare.judge.verdict import CAUSES, Cause, count
from msprobe.compare.judge.words import say_limits, say_unseen
from msprobe.compare.locate.find import Located
from msprobe.compare.locate.finding import Finding
from msprobe.compare.locate.words import full
from msprobe.compare.noise.report import Noise

_RANK = {"error": 0, "warning": 1, "unjudged": 2, "pass": 3}

BLIND: dict[Mode, str] = {
    "statistics": "elements that changed places, nor what leaves maximum, minimum, mean and norm alike",
    "digest": "how far two tensors are apart, only that they are",
}
"""What a verdict that was not reached by the elements does not know."""


def lines(comparison: Comparison, located: Located, top: int) -> Iterator[str]:
    """The counts of every verdict, at most `top` next beginnings (worst first, then in execution order), the answer."""
    yield f"{comparison.mode} compared: {count(comparison.counts)}"
    if said := unjudged_said(len(comparison.grades) - comparison.counts["unjudged"], comparison.unjudged):
        yield said
    if blind := BLIND.get(comparison.mode):
        yield f"{comparison.mode} cannot see {blind}"
    if comparison.by_statistics:
        number = len(comparison.by_statistics)
        yield f"{number} judged by statistics, as a tensor was not saved; these cannot see {BLIND['statistics']}"
    if comparison.noise is not None:
        yield from _noise(comparison, comparison.noise)
    later = beginnings(located)
    for finding in later[: max(top, 0)]:
        yield f"next: {beginning(finding)}"
    if len(later) > top:
        yield f"and {len(later) - max(top, 0)} more beginnings in the column Begins of the table"
    yield ": ".join(answer(comparison, located))


def _noise(comparison: Comparison, noise: Noise) -> Iterator[str]:
    """Up to where differences are noise, what statistics leave open, what is taken as intended, and which differences
    die out."""
    if noise.unseen is None:
        yield visible(say_limits(noise.limits))
    elif not noise.is_exact:
        yield say_unseen(noise.unseen)
    for found in noise.classes:
        names = ", ".join(found.operations)
        verb = "behaves" if len(found.operations) == 1 else "behave"
        yield f"{names} of the {found.side} {verb} like {found.is_of.value} ({found.calls} outputs); taken as intended"
    if noise.harmless:
        first = comparison.pairs.pair(noise.harmless[0]).record.name
        what = "difference that dies" if len(noise.harmless) == 1 else "differences that die"
        yield f"harmless: {len(noise.harmless)} {what} out, the first at {first}"


def beginnings(located: Located) -> list[Finding]:
    """Where differences begin besides the first one: worst first, then in execution order."""
    return sorted(located.findings[1:], key=lambda f: (_RANK[f.grade], f.at))


def beginning(finding: Finding) -> str:
    """One beginning in a line, with how many later calls received it."""
    return f"{_said(finding)}{_receivers(finding)}"


def unjudged_said(judged: int, unjudged: Mapping[Cause, int]) -> str:
    """Why pairs have no verdict, the more urgently where that is most of them; empty where all have one."""
    if not (total := sum(unjudged.values())):
        return ""
    said = ", ".join(f"{number} {words}" for number, words in causes_of_unjudged(unjudged))
    return f"only {judged} of {judged + total} pairs could be judged: {said}" if total > judged else f"unjudged: {said}"


def causes_of_unjudged(unjudged: Mapping[Cause, int]) -> list[tuple[int, str]]:
    """How many pairs have no verdict for which cause, in words; none where all have one."""
    return [(n, f"{c.value}{' (exempt)' * c.is_exempt}") for c in CAUSES if (n := unjudged.get(c))]


def answer(comparison: Comparison, located: Located) -> tuple[str, str]:
    """The last line: what was found, and what there is to say of it."""
    if located.first is not None:
        return "first wrong call", _said(located.first)
    judged = sum(n for grade, n in comparison.counts.items() if grade != "unjudged")
    return _no_difference(comparison.is_clean, judged, comparison.unjudged)


def no_difference(
    is_clean: bool, judged: int, unjudged: Mapping[Cause, int], where: str = " in what could be judged"
) -> str:
    """The last line where nothing differs; if not all is clean, what could not be judged may still differ.

    Of a clean comparison all that is unjudged is exempt; else the exempt pairs are not counted.
    """
    return ": ".join(_no_difference(is_clean, judged, unjudged, where))


def _no_difference(
    is_clean: bool, judged: int, unjudged: Mapping[Cause, int], where: str = " in what could be judged"
) -> tuple[str, str]:
    if is_clean:
        return "no difference", f"{judged} pairs judged, {sum(unjudged.values())} unjudged"
    open_ones = {cause: n for cause, n in unjudged.items() if not cause.is_exempt}
    why = ", ".join(f"{number} {words}" for number, words in causes_of_unjudged(open_ones))
    return f"no difference{where}", f"{judged} pairs judged, {sum(open_ones.values())} not{f': {why}' if why else ''}"


def _said(finding: Finding) -> str:
    return visible(" ".join(full(finding).split()))


def _receivers(finding: Finding) -> str:
    return f" [{finding.receivers} later calls received it]" if finding.receivers > 0 else ""
