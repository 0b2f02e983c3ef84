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
from msprobe.compare.core.reason import CAUSES, Cause, Why
from msprobe.compare.core.user_limits import NOTHING_EXCUSED, ExcusedCounts, UserLimits
from msprobe.compare.judge.judged import Comparison, Mode
from msprobe.compare.judge.verdict import GRADES, SEVERITY, Grade, number_differing
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
"""Limits of verdicts that were not based on elements."""


def lines(
    comparison: Comparison, located: Located, top: int | None = None, known: Answer | None = None
) -> Iterator[str]:
    """Yield the answer for the console: the verdict, its evidence, what was judged, and the line for scripts.

    `top` is the number of further divergences, and of harmless ones, that are listed, None for the default. `known` is
    the answer of `answer_of`, if it exists already.
    """
    found = known or answer_of(comparison, located)
    number_open = sum(each.certainty == "open" for each in located.harmless)
    totals = {
        "also": len(located.findings[1:]),
        "harmless": len(located.harmless) - number_open,
        "open": number_open,
    }
    title, judged = answer(comparison, located).title, _judged(comparison)
    yield from lines_of(found, title, judged, limits(comparison), top, totals)


def answer_of(comparison: Comparison, located: Located, most: int | None = None) -> Answer:
    """Return a comparison's answer as findings: at most `most`, and the same number of harmless ones; None for all.

    Each finding reads its source line, and there may be thousands.
    """
    step, rank = comparison.target.step, comparison.target.rank
    ordered = [*located.findings[:1], *later_divergences(located)]
    found = [finding_of(each, step, rank) for each in ordered[:most]]
    harmless = tuple(finding_of(each, step, rank) for each in located.harmless[:most])
    if (hint := hint_of_located(comparison, located)) is not None:
        found[0] = replace(found[0], evidence=(phrase("known cause: {what}", what=hint.text),))
    state = "differs" if found else "clean" if located.is_clean(comparison) else "unjudged"
    line = answer(comparison, located).sentence
    omitted = len(ordered) - len(found) + len(located.harmless) - len(harmless)
    return Answer(
        state,
        line,
        next(iter(found), None),
        tuple(found[1:]),
        harmless,
        notes=tuple(notes(comparison)),
        omitted=omitted,
    )


def _judged(comparison: Comparison) -> Iterator[Words]:
    """Yield the counts of every verdict, and the causes of missing verdicts."""
    mode = phrase(comparison.mode)
    yield phrase("{counts} (compared by {mode})", counts=counts_phrase(comparison.counts), mode=mode)
    yield from why_unjudged(comparison)
    yield from _structure(comparison)


def notes(comparison: Comparison) -> Iterator[Words]:
    """Yield the counts of every verdict, what is left open, and the limits of noise."""
    yield counted(comparison)
    yield from why_unjudged(comparison)
    yield from _structure(comparison)
    yield from limits(comparison)


def counted(comparison: Comparison) -> Words:
    """Return the counts of every verdict."""
    return phrase("{mode} compared: {counts}", mode=phrase(comparison.mode), counts=counts_phrase(comparison.counts))


def why_unjudged(comparison: Comparison) -> Iterator[Words]:
    """Yield the causes of missing verdicts."""
    judged = len(comparison.grades) - comparison.counts["unjudged"]
    yield from left_open(judged, number_differing(comparison.counts), comparison.unjudged, [])


def limits(comparison: Comparison) -> Iterator[Words]:
    """Yield what the verdicts cannot show, the limits of noise, and the differences within the user's limits."""
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
    """Return the number of differences within the limits of the user."""
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
    """Yield the number of calls that only one side makes without consequence."""
    if found := harmless_calls(comparison):
        yield phrase(
            "structure differs without consequence: {number} call is on one side only: {name}"
            if len(found) == 1
            else "structure differs without consequence: {number} calls are on one side only, the first is {name}",
            number=len(found),
            name=comparison.pairs.name(found[0]),
        )


def harmless_calls(comparison: Comparison) -> list[int]:
    """Return the places of the forward calls that only one side makes without consequence, in order.

    Calls of a level that the other dump does not have, and calls that the user ignores, are not included: their
    consequence is unknown.
    """
    return [
        place
        for place, reason in sorted(comparison.explained.items(), key=itemgetter(0))
        if ".forward" in comparison.pairs.name(place) and reason.why not in (Why.OTHER_LEVEL, Why.IGNORED)
    ]


def counts_phrase(counts: Mapping[Grade, int]) -> Words:
    """Return `12 pass, 1 warning, 0 error, 3 unjudged`."""
    each = [phrase("{number} {grade}", number=counts.get(grade, 0), grade=grade) for grade in GRADES]
    return joined(each, "{before}, {after}")


def _noise(comparison: Comparison, noise: Noise) -> Iterator[Words]:
    """Yield the limits of noise, what statistics leave open, what is treated as intended, and which differences die
    out."""
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
    """Return the known cause that the first wrong call fits; None if there is none, or nothing differs."""
    if located.first is None:
        return None
    from msprobe.compare.advice.known_causes import hint  # here: if nothing differs, no cause is needed

    return hint(comparison, located.first)


def later_divergences(located: Located) -> list[Divergence]:
    """Return the divergences after the first one: the most severe first, then in execution order; of equal verdicts,
    those of random numbers last."""
    return sorted(located.findings[1:], key=lambda f: (-SEVERITY.index(f.grade), f.kind is kinds.RANDOM, f.at))


def left_open(
    judged: int, differing: int, unjudged: Mapping[Cause, int], modes: Iterable[Mode | None]
) -> Iterator[Words]:
    """Yield the causes of missing verdicts, more prominently if most are missing; and the limits of the other verdicts.

    `differing` is the number of judged pairs that do not pass. Internal details of one framework could not be compared
    with anything, and do not count as pairs that could not be judged.
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
    """Yield the limits of verdicts that were not based on elements."""
    for mode in dict.fromkeys(modes):
        if mode in BLIND:
            yield phrase("{mode} cannot detect {what}", mode=phrase(mode), what=phrase(BLIND[mode]))


def _counted(unjudged: Mapping[Cause, int]) -> Words:
    each = [phrase("{number} {cause}", number=n, cause=words) for n, words in causes_of_unjudged(unjudged)]
    return joined(each, "{before}, {after}")


def causes_of_unjudged(unjudged: Mapping[Cause, int]) -> list[tuple[int, Words]]:
    """Return the number of pairs without a verdict, by cause, as phrases; empty if all have one."""
    return [(n, _cause(cause)) for cause in CAUSES if (n := unjudged.get(cause))]


def _cause(cause: Cause) -> Words:
    words = phrase(cause.value)
    return phrase("{cause} (exempt)", cause=words) if cause.is_exempt else words


@dataclass(frozen=True, slots=True)
class LastLine:
    """The last line of an answer: the result, and its explanation."""

    title: Words
    text: Words

    @property
    def sentence(self) -> Phrase:
        """Return both as one phrase."""
        return phrase("{title}: {text}", title=self.title, text=self.text)


def answer(comparison: Comparison, located: Located) -> LastLine:
    """Return the last line of a comparison."""
    if located.first is not None:
        return LastLine(phrase("first wrong call"), full_phrase(located.first))
    judged = len(comparison.grades) - comparison.counts["unjudged"]
    excused = None if comparison.excused is None else comparison.excused.counts
    left = roundings_left_of(comparison)
    is_clean = located.is_clean(comparison)
    return no_difference(is_clean, judged, comparison.unjudged, excused=excused, roundings_left=left)


def roundings_left_of(comparison: Comparison) -> tuple[RoundingLeft, ...]:
    """Return the differences by rounding; empty if everything that was compared is equal."""
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
    """Return the last line if nothing differs; unless all is clean, unjudged pairs may still differ.

    In a clean comparison, all unjudged pairs are exempt; otherwise the exempt pairs are not counted. `absent`: dumps
    that were not compared at all. `excused`: differences within the limits of the user. `roundings_left` are those of
    the comparisons in which something differs by rounding.
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
    """Return the numbers of pairs, the largest difference, and the error that it may hide."""
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
    """Return the error of a call that may be hidden."""
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
"""The headings of msprobe 8.1's verdict."""

_BAD = frozenset({"No", "Different", "Warning"})
"""The values of msprobe 8.1 for a bad row: by tensors, by digests, by statistics."""

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
    "The second input of a batch normalization differs, which is a statistic that it keeps or a parameter of it. See "
    "that both sides set affine, track_running_stats and momentum alike and start from the same values."
)
_NO_DIRECTION = "A value that was saved by name differs. See where it is computed, and save what goes into it too."

_MAY_VARY = ("conv2d", "conv3d", "matmul", "nllloss", "layernorm", "lstm")

# The name of a row: `Mint.add.0.forward.input.1`; in that of a cell, the number is after the direction.
_PLACE = re.compile(
    r"(?P<call>.+?)\.(?P<direction>forward|backward)(?:\.[0-9]+)?"
    r"\.(?P<part>input|kwargs|parameters|output)(?:\.(?P<path>.+))?",
    re.DOTALL,
)


def watch(
    rows: Iterable[tuple[Cell, ...]], columns: Sequence[Column], first_bad: list[tuple[int, str]]
) -> Iterator[tuple[Cell, ...]]:
    """Yield the rows unchanged; number and name of the first that msprobe 8.1 calls bad are added to `first_bad`, so
    that rows are created only once."""
    verdict = next(at for at, column in enumerate(columns) if column.title in _VERDICTS)
    for number, row in enumerate(rows):
        if not first_bad and row[verdict] in _BAD:
            first_bad.append((number, str(row[0])))
        yield row


def suspect(
    comparison: Comparison, located: Located, first_bad: Sequence[tuple[int, str]]
) -> tuple[list[tuple[int, str]], str]:
    """Return number and name of the row for the advisor; for none, an empty list and the reason.

    There is one if msprobe 8.1 calls a row bad. It is a row of the first wrong call, so that the advisor and the
    console report the same call: its first bad row, otherwise its first that does not pass.
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
    """Return the pairs of records of the call of this name; empty if neither side has it."""
    pairs = comparison.pairs
    for dump, calls in ((comparison.target, pairs.target_calls), (comparison.golden, pairs.golden_calls)):
        if name in dump.columns.names:
            number = list(dump.columns.names).index(name)
            for place in np.flatnonzero(calls == number)[:1].tolist():
                return pairs.rows(place)
    return range(0)


def write_advice(path: Path, named: Sequence[tuple[int, str]], why: str = _ALL_WELL) -> None:
    """Write three lines about the reported row, or the reason why there is none; raise an OSError if writing fails."""
    text = f"Line: NA\nSuspect Nodes: NA\nExpert Advice: {why}\n"
    for number, name in named[:1]:
        text = f"Line: {number}\nSuspect Nodes: {_one_line(name)}\nExpert Advice: {advice_on(name)}\n"
    with replace_atomically(path) as file:
        file.write(text.encode("utf-8", "replace"))


def _one_line(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)


def advice_on(name: str) -> str:
    """Return advice for the case that the record of this name is the first that differs."""
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
    """Return a common form of `layer_norm`, `LayerNorm` and `Layernorm`."""
    return call.lower().replace("_", "")


def described(dump: Dump) -> str:
    """Return `MindSpore, statistics, format 1 of msprobe-ms`, as far as the dump contains it."""
    framework = TITLES.get(dump.framework, dump.framework)
    made_by = f"format {dump.format_version} of msprobe-ms" if dump.format_version else "format of msprobe"
    return ", ".join(word for word in (framework, dump.task, f"level {dump.level}" * bool(dump.level), made_by) if word)
