"""The answer on the console, and the file of msprobe 8.1's advisor.

The advice is on a row of the first wrong call, which is found by `msprobe.compare.locate`; its text follows from the
name of the row alone, so it is a hint where to look.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from msprobe.base.files import replace_atomically
from msprobe.base.framework import TITLES
from msprobe.base.phrase import Phrase, Words, joined, phrase
from msprobe.compare.core.noise import Noise, RoundingLeft
from msprobe.compare.core.reason import Why
from msprobe.compare.core.user_limits import NOTHING_EXCUSED, ExcusedCounts, UserLimits
from msprobe.compare.judge.judged import Comparison, Mode
from msprobe.compare.judge.verdict import CAUSES, GRADES, SEVERITY, Cause, Grade, number_differing
from msprobe.compare.judge.wording import limits_phrase, unseen_phrase
from msprobe.compare.locate.find import Located
from msprobe.compare.locate.finding import Divergence
from msprobe.compare.locate.wording import finding_of, full_phrase
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.finding import Answer
from msprobe.findings.text import lines_of
from msprobe.store.record import Dump

from .cells import NOT_APPLICABLE, Cell
from .columns import Column, columns_of
from .rows import rows_of

if TYPE_CHECKING:
    from msprobe.compare.advice.known_causes import Hint

BLIND: dict[Mode, str] = {
    "statistics": "permuted elements or changes that preserve max, min, mean and norm",
    "digest": "how much two tensors differ, only that they differ",
}
"""What a verdict that was not reached by the elements does not know."""


def lines(
    comparison: Comparison, located: Located, top: int | None = None, said: Answer | None = None
) -> Iterator[str]:
    """Return the answer for the console: the verdict, its evidence, what was judged, and the line for scripts.

    `top` is how many further divergences, and harmless ones, are listed, None for the default. `said` is the answer
    of `answer_of`, if it is known already.
    """
    said = said or answer_of(comparison, located)
    number_open = sum(each.certainty == "open" for each in located.harmless)
    totals = {
        "also": len(located.findings[1:]),
        "harmless": len(located.harmless) - number_open,
        "open": number_open,
    }
    title, judged = answer(comparison, located).title, _judged(comparison)
    yield from lines_of(said, title, judged, limits(comparison), top, totals)


def answer_of(comparison: Comparison, located: Located, most: int | None = None) -> Answer:
    """Return a comparison's answer as findings: at most `most`, and as many harmless ones; None for all.

    Each finding reads its source line, and there may be thousands.
    """
    step, rank = comparison.target.step, comparison.target.rank
    ordered = [*located.findings[:1], *beginnings(located)]
    found = [finding_of(each, step, rank) for each in ordered[:most]]
    harmless = tuple(finding_of(each, step, rank) for each in located.harmless[:most])
    if (hint := hint_of_located(comparison, located)) is not None:
        found[0] = replace(found[0], evidence=(phrase("known cause: {what}", what=hint.text),))
    state = "differs" if found else "clean" if located.is_clean(comparison) else "unjudged"
    line = answer(comparison, located).said
    omitted = len(ordered) - len(found) + len(located.harmless) - len(harmless)
    said = tuple(notes(comparison))
    return Answer(state, line, next(iter(found), None), tuple(found[1:]), harmless, notes=said, omitted=omitted)


def _judged(comparison: Comparison) -> Iterator[Words]:
    """Return the counts of every verdict, and why pairs have none."""
    mode = phrase(comparison.mode)
    yield phrase("{counts} (compared by {mode})", counts=counts_said(comparison.counts), mode=mode)
    yield from why_unjudged(comparison)
    yield from _structure(comparison)


def notes(comparison: Comparison) -> Iterator[Words]:
    """Return the counts of every verdict, what is left open, and up to where differences are noise."""
    yield counted(comparison)
    yield from why_unjudged(comparison)
    yield from _structure(comparison)
    yield from limits(comparison)


def counted(comparison: Comparison) -> Words:
    """Return the counts of every verdict."""
    return phrase("{mode} compared: {counts}", mode=phrase(comparison.mode), counts=counts_said(comparison.counts))


def why_unjudged(comparison: Comparison) -> Iterator[Words]:
    """Return why pairs have no verdict."""
    judged = len(comparison.grades) - comparison.counts["unjudged"]
    yield from left_open(judged, number_differing(comparison.counts), comparison.unjudged, [])


def limits(comparison: Comparison) -> Iterator[Words]:
    """Return what the verdicts cannot show, up to where differences are noise, and what the user's limits excuse."""
    yield from blind_to([comparison.mode])
    if comparison.by_statistics:
        yield phrase(
            "{number} judged by statistics, as a tensor was not saved; these cannot detect {what}",
            number=len(comparison.by_statistics),
            what=phrase(BLIND["statistics"]),
        )
    if comparison.noise is not None:
        yield from _noise(comparison, comparison.noise)
    if comparison.excused is not None:
        yield excused_phrase(comparison.excused.counts, comparison.excused.limits)


def excused_phrase(counts: ExcusedCounts, limits: UserLimits) -> Words:
    """How much the limits of the user excuse."""
    return phrase(
        "your limits: {counts} ({options})",
        counts=_excused(counts),
        options=str(limits),
    )


def _excused(counts: ExcusedCounts) -> Words:
    text = phrase(
        "{ignored} pairs ignored, {tolerated} passed by your tolerance",
        ignored=counts.ignored,
        tolerated=counts.tolerated,
    )
    if not counts.calls:
        return text
    return phrase("{text}, {number} ignored calls on one side only", text=text, number=counts.calls)


def _structure(comparison: Comparison) -> Iterator[Words]:
    """How many calls one side alone makes without consequence."""
    if found := harmless_calls(comparison):
        yield phrase(
            "structure differs without consequence: {number} call is on one side only: {name}"
            if len(found) == 1
            else "structure differs without consequence: {number} calls are on one side only, the first is {name}",
            number=len(found),
            name=comparison.pairs.name(found[0]),
        )


def harmless_calls(comparison: Comparison) -> list[int]:
    """Return the places of the forward calls that one side alone makes without consequence, in order.

    Calls of a level that the other dump does not have, and calls that the user's limits leave out, are not among them:
    nothing was found about their consequence.
    """
    return [
        place
        for place, reason in sorted(comparison.explained.items(), key=itemgetter(0))
        if ".forward" in comparison.pairs.name(place) and reason.why not in (Why.OTHER_LEVEL, Why.IGNORED)
    ]


def counts_said(counts: Mapping[Grade, int]) -> Words:
    """`12 pass, 1 warning, 0 error, 3 unjudged`."""
    each = [phrase("{number} {grade}", number=counts.get(grade, 0), grade=grade) for grade in GRADES]
    return joined(each, "{before}, {after}")


def _noise(comparison: Comparison, noise: Noise) -> Iterator[Words]:
    """Up to where differences are noise, what statistics leave open, what is taken as intended, and which differences
    die out."""
    if noise.unseen is None:
        yield limits_phrase(noise.limits)
    elif not noise.is_exact:
        yield unseen_phrase(noise.unseen)
    for found in noise.classes:
        yield phrase(
            "{names} of the {side} behaves like {dtype} ({number} outputs); taken as intended"
            if len(found.operations) == 1
            else "{names} of the {side} behave like {dtype} ({number} outputs); taken as intended",
            names=", ".join(found.operations),
            side=found.side,
            dtype=found.is_of.value,
            number=found.calls,
        )
    if noise.harmless:
        yield phrase(
            "harmless: {number} difference that dies out, the first at {name}"
            if len(noise.harmless) == 1
            else "harmless: {number} differences that die out, the first at {name}",
            number=len(noise.harmless),
            name=comparison.pairs.pair(next(iter(noise.harmless))).record.name,
        )


def hint_of_located(comparison: Comparison, located: Located) -> "Hint | None":
    """Return the known cause that the first wrong call fits; None where none does, or nothing differs."""
    if located.first is None:
        return None
    from msprobe.compare.advice.known_causes import hint  # here: where nothing differs, no cause is asked for

    return hint(comparison, located.first)


def beginnings(located: Located) -> list[Divergence]:
    """Where differences begin besides the first one: worst first, then in execution order; of equal verdicts those of
    random numbers last."""
    return sorted(located.findings[1:], key=lambda f: (-SEVERITY.index(f.grade), f.kind is kinds.RANDOM, f.at))


def left_open(
    judged: int, differing: int, unjudged: Mapping[Cause, int], modes: Iterable[Mode | None]
) -> Iterator[Words]:
    """Why pairs have no verdict, the more urgently where that is most of them; and what the other verdicts miss.

    `differing` is how many of the pairs that were judged do not pass. Internal details of one framework could not be
    compared with anything, and do not count as pairs that could not be judged.
    """
    comparable: Mapping[Cause, int] = {
        cause: number for cause, number in unjudged.items() if cause is not Cause.INTERNAL
    }
    total, details = sum(comparable.values()), unjudged.get(Cause.INTERNAL, 0)
    if details and judged:
        is_all = not differing and set(comparable) <= {Cause.NO_COUNTERPART}
        yield phrase(
            "all {judged} comparable pairs agree; {details} are internal details of one framework"
            if is_all
            else "{judged} pairs compared; {details} are internal details of one framework",
            judged=judged,
            details=details,
        )
    elif details:
        comparable, total = unjudged, total + details
    if total:
        yield phrase(
            "only {judged} of {total} pairs could be judged: {why}" if total > judged else "unjudged: {why}",
            judged=judged,
            total=judged + total,
            why=_counted(comparable),
        )
    yield from blind_to(modes)


def blind_to(modes: Iterable[Mode | None]) -> Iterator[Words]:
    """Return what verdicts that were not reached by the elements cannot show."""
    for mode in dict.fromkeys(modes):
        if mode in BLIND:
            yield phrase("{mode} cannot detect {what}", mode=phrase(mode), what=phrase(BLIND[mode]))


def _counted(unjudged: Mapping[Cause, int]) -> Words:
    each = [phrase("{number} {cause}", number=n, cause=words) for n, words in causes_of_unjudged(unjudged)]
    return joined(each, "{before}, {after}")


def causes_of_unjudged(unjudged: Mapping[Cause, int]) -> list[tuple[int, Words]]:
    """How many pairs have no verdict for which cause, in words; none where all have one."""
    return [(n, _cause(cause)) for cause in CAUSES if (n := unjudged.get(cause))]


def _cause(cause: Cause) -> Words:
    words = phrase(cause.value)
    return phrase("{cause} (exempt)", cause=words) if cause.is_exempt else words


@dataclass(frozen=True, slots=True)
class LastLine:
    """The last line of an answer: what was found, and what there is to say of it."""

    title: Words
    text: Words

    @property
    def said(self) -> Phrase:
        """Both in one."""
        return phrase("{title}: {text}", title=self.title, text=self.text)


def answer(comparison: Comparison, located: Located) -> LastLine:
    """The last line of a comparison."""
    if located.first is not None:
        return LastLine(phrase("first wrong call"), full_phrase(located.first))
    judged = len(comparison.grades) - comparison.counts["unjudged"]
    excused = None if comparison.excused is None else comparison.excused.counts
    left = roundings_left_of(comparison)
    is_clean = located.is_clean(comparison)
    return no_difference(is_clean, judged, comparison.unjudged, excused=excused, roundings_left=left)


def roundings_left_of(comparison: Comparison) -> tuple[RoundingLeft, ...]:
    """What differs by rounding; empty where all that was compared is equal."""
    found = None if comparison.noise is None else comparison.noise.rounding_left
    return () if found is None else (found,)


def no_difference(
    is_clean: bool,
    judged: int,
    unjudged: Mapping[Cause, int],
    title: str = "no difference in what could be judged",
    absent: int = 0,
    excused: ExcusedCounts | None = None,
    roundings_left: Sequence[RoundingLeft] = (),
) -> LastLine:
    """The last line where nothing differs; if not all is clean, what could not be judged may still differ.

    Of a clean comparison all that is unjudged is exempt; else the exempt pairs are not counted. `absent`: dumps that
    were not compared at all. `excused`: what differs, but for the limits of the user. `roundings_left` are those of the
    comparisons in which something differs by rounding.
    """
    open_ones = {cause: n for cause, n in unjudged.items() if is_clean or not cause.is_exempt}
    text: Words = phrase(
        "{judged} pairs judged, {open} unjudged" if is_clean else "{judged} pairs judged, {open} not",
        judged=judged,
        open=sum(open_ones.values()),
    )
    if is_clean and roundings_left:
        text = _with_roundings(text, roundings_left)
    if excused is not None and excused != NOTHING_EXCUSED:
        text = phrase("{text}; {excused}", text=text, excused=_excused(excused))
        title = "no difference but what your limits excuse" if is_clean else title
    elif is_clean:
        title = "no difference beyond rounding" if roundings_left else "no difference"
    if is_clean:
        return LastLine(phrase(title), text)
    if absent:
        text = phrase("{text}, {number} without counterpart or not readable", text=text, number=absent)
    why = _counted(open_ones)
    return LastLine(phrase(title), phrase("{text}: {why}", text=text, why=why) if why else text)


def _with_roundings(text: Words, roundings: Sequence[RoundingLeft]) -> Words:
    """The numbers of pairs, the largest difference, and how large an error it may hide."""
    largest = max(roundings, key=lambda one: one.largest)
    text = phrase(
        "{text}, largest {largest:.2g} of the norm at {name}", text=text, largest=largest.largest, name=largest.name
    )
    if bounded := [one for one in roundings if one.outputs]:
        text = _with_hidden(text, bounded)
    if updates := max(one.updates for one in roundings):
        text = phrase(
            "{text}; nor are updates of all parameters seen that differ by less than {share:.2g} of their size",
            text=text,
            share=updates,
        )
    return text


def _with_hidden(text: Words, bounded: Sequence[RoundingLeft]) -> Words:
    """How large an error of a call may be hidden."""
    widest = max(bounded, key=lambda one: one.hidden)
    is_by_statistics = any(one.is_by_statistics for one in bounded)
    return phrase(
        "{text}; statistics cannot detect an error of a call below {hidden:.2g} of its output "
        "(median; at most {most:.2g})"
        if is_by_statistics
        else "{text}; tensors cannot detect an error of a call below {hidden:.2g} of its output "
        "(median; at most {most:.2g})",
        text=text,
        hidden=widest.hidden,
        most=max(one.most for one in bounded),
    )


_VERDICTS = ("Accuracy Reached or Not", "Result")
"""The headings under which msprobe 8.1 has its verdict."""

_BAD = frozenset({"No", "Different", "Warning"})
"""The words of msprobe 8.1 for a row that is bad: by tensors, by digests, by statistics."""

_ALL_WELL = (
    "No row is bad by msprobe 8.1's rules, which pass much: by statistics, whatever differs by less than half. What "
    "differs by the standard of its dtype is in the columns Verdict and Reason."
)
_NOT_WRONG = (
    "No call is wrong. By msprobe 8.1's rules row {number}, {name}, is bad; the columns Verdict and Reason say why it "
    "is not."
)
_INPUT = (
    "An input of the call already differs. Look at the call that made it, further up; see whether an "
    "in-place operation wrote over it after it was made; if neither explains it, suspect memory that something else "
    "wrote to."
)
_FORWARD = "No input of this call stood out, and this does: look into how it computes forward."
_PARAMETER = (
    "A parameter of this call differs before anything was computed with it. See that both sides start from the same "
    "weights, and how the optimizer changed it since."
)
_INPUT_BACKWARD = (
    "The gradient that arrived here differs. Gradients are made from forward results: compare those of this call and "
    "of the calls behind it first."
)
_BACKWARD = "No gradient that arrived here stood out, and this one does: look into how the call computes backward."
_ANY_ORDER = (
    " Calls of this kind may add up in another order in each run: switch on the framework's deterministic mode, "
    "collect both sides again, and see whether the difference stays."
)
_RUNNING_STATISTICS = (
    "The second input of a batch normalisation differs, which is a statistic that it keeps or a parameter of it. See "
    "that both sides set affine, track_running_stats and momentum alike and start from the same values."
)
_NO_DIRECTION = "A value that was saved by name differs. See where it is computed, and save what goes into it too."

_MAY_VARY = ("conv2d", "conv3d", "matmul", "nllloss", "layernorm", "lstm")

# A row's name: `Mint.add.0.forward.input.1`; for a cell the number stands behind the direction.
_PLACE = re.compile(
    r"(?P<call>.+?)\.(?P<direction>forward|backward)(?:\.[0-9]+)?"
    r"\.(?P<part>input|kwargs|parameters|output)(?:\.(?P<path>.+))?",
    re.DOTALL,
)


def watch(
    rows: Iterable[tuple[Cell, ...]], columns: Sequence[Column], first_bad: list[tuple[int, str]]
) -> Iterator[tuple[Cell, ...]]:
    """The rows as they are; `first_bad` takes number and name of the first that msprobe 8.1 calls bad, so that rows are
    made once only."""
    verdict = next(at for at, column in enumerate(columns) if column.title in _VERDICTS)
    for number, row in enumerate(rows):
        if not first_bad and row[verdict] in _BAD:
            first_bad.append((number, str(row[0])))
        yield row


def suspect(
    comparison: Comparison, located: Located, first_bad: Sequence[tuple[int, str]]
) -> tuple[list[tuple[int, str]], str]:
    """Number and name of the row that the advisor names; for none, an empty list and the text that says why.

    Whether there is one follows from the rows that msprobe 8.1 calls bad; which one, from the first wrong call, so that
    the advisor and the console name the same call: its first bad row, else its first that does not pass.
    """
    first = located.first
    if first is None:
        return [], _NOT_WRONG.format(
            number=first_bad[0][0], name=_one_line(first_bad[0][1])
        ) if first_bad else _ALL_WELL
    if not first_bad:
        return [], f"{_ALL_WELL} The first wrong call by that standard is {_one_line(first.name)}."
    shown = columns_of(comparison, False)
    at = {column.title: place for place, column in enumerate(shown)}
    heading = next(title for title in _VERDICTS if title in at)
    numbers = _rows_of_call(comparison, first.name)
    rows = list(zip(numbers, rows_of(comparison, located, [numbers]), strict=True))
    bad = [each for each in rows if each[1][at[heading]] in _BAD]
    differing = [each for each in rows if each[1][at["Verdict"]] != "pass"]
    named = [(number, str(row[0] if row[0] != NOT_APPLICABLE else row[1])) for number, row in (*bad, *differing, *rows)]
    return (named or list(first_bad))[:1], ""


def _rows_of_call(comparison: Comparison, name: str) -> range:
    """The pairs of records of the call of this name; empty where neither side has one."""
    pairs = comparison.pairs
    for dump, calls in ((comparison.target, pairs.target_calls), (comparison.golden, pairs.golden_calls)):
        if name in dump.columns.names:
            number = list(dump.columns.names).index(name)
            for place in np.flatnonzero(calls == number)[:1].tolist():
                return pairs.rows(place)
    return range(0)


def write_advice(path: Path, named: Sequence[tuple[int, str]], why: str = _ALL_WELL) -> None:
    """Write three lines about the row that is named, or why none is; OSError where the disk refuses."""
    text = f"Line: NA\nSuspect Nodes: NA\nExpert Advice: {why}\n"
    for number, name in named[:1]:
        text = f"Line: {number}\nSuspect Nodes: {_one_line(name)}\nExpert Advice: {advice_on(name)}\n"
    with replace_atomically(path) as file:
        file.write(text.encode("utf-8", "replace"))


def _one_line(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)


def advice_on(name: str) -> str:
    """What to look at when the record of this name is the first that differs."""
    place = _PLACE.fullmatch(name)
    if place is None:
        return _BACKWARD + _order(name) if ".parameters_grad" in name else _NO_DIRECTION
    call, is_input = place["call"], place["part"] in ("input", "kwargs")
    if is_input and "batchnorm" in _normalized(call) and place["path"] == "1":
        return _RUNNING_STATISTICS
    if place["direction"] == "backward":
        return _INPUT_BACKWARD if is_input else _BACKWARD + _order(call)
    if place["part"] == "parameters":
        return _PARAMETER
    return _INPUT if is_input else _FORWARD + _order(call)


def _order(call: str) -> str:
    return _ANY_ORDER if any(word in _normalized(call) for word in _MAY_VARY) else ""


def _normalized(call: str) -> str:
    """`layer_norm`, `LayerNorm` and `Layernorm` are one."""
    return call.lower().replace("_", "")


def described(dump: Dump) -> str:
    """`MindSpore, statistics, format 1 of msprobe-ms`, as far as the dump says."""
    framework = TITLES.get(dump.framework, dump.framework)
    made_by = f"format {dump.format_version} of msprobe-ms" if dump.format_version else "format of msprobe"
    return ", ".join(word for word in (framework, dump.task, f"level {dump.level}" * bool(dump.level), made_by) if word)
