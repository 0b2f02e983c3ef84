"""Sentences made of judgements. Decisions read their fields, never these."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msprobe.base.log import few
from msprobe.base.phrase import Phrase, Words, phrase
from msprobe.base.verdicts import Verdicts
from msprobe.base.verdicts import last_line as completed

from .judgement import Judgement

if TYPE_CHECKING:
    from .table import Invariant


def sentence(one: Judgement) -> str:
    """`SUBJECT in CELL: WHAT (FILE:LINE)`, with ranks and step."""
    subject = one.subject or "the run"
    cell = f" in {one.cell}" if one.cell else ""
    where = "" if one.step is None else f", step {one.step}"
    ranks = f", rank{'s' * (len(one.ranks) != 1)} {few([str(r) for r in one.ranks])}" if one.ranks else ""
    line = f" ({one.file}:{one.line})" if one.file else ""
    return f"{subject}{cell}{where}{ranks}: {what(one)}{line}"


def last_line(violated: "Sequence[tuple[Invariant, Judgement]]", verdicts: Verdicts) -> Words:
    """The last line on standard output."""
    if not violated:
        return completed(phrase("first violation: none"), verdicts)
    row, one = violated[0]
    return completed(phrase("first violation: {name}: {what}", name=row.name, what=sentence(one)), verdicts)


def what(one: Judgement) -> Phrase:
    """What is wrong, with what was measured; the place stands in other fields."""
    template = _TEXTS.get(one.what)
    text = phrase("{what}", what=one.what) if template is None else phrase(template, place=one.place)
    if one.value is not None and one.limit is not None:
        return phrase("{text} ({value:.3g}, allowed {limit:.3g})", text=text, value=one.value, limit=one.limit)
    return text


_TEXTS = {
    "parameter": "differs from the other ranks",
    "replica": "differs from the other ranks that have the same part of it (replicated placement)",
    "own gradient": "is not distributed, and its gradient is not the same on all ranks: nothing reduces it",
    "gradient": "its gradient goes into no reduction over ranks, those of most parameters do",
    "batch": "these ranks have the same batch",
    "unequal results": "the result is not equal on all ranks: {place}",
    "reduction": "the result is not a reduction of the inputs of the ranks",
    "no gradient": "has no gradient: detached from the loss, not used, or frozen",
    "still": "has a gradient and does not move: not in the optimizer, or its learning rate is 0",
    "rank still": "no parameter of these ranks moves, those of the other ranks do: an update was skipped",
    "row sum": "rows of {place} do not add up to 1",
    "masked weight": "a masked position has a weight",
    "shows what comes later": "the causal mask gives later positions a weight",
    "hides the past": "the causal mask hides the past and shows the future",
    "hides itself": "the causal mask hides a position from itself",
    "row statistics": "{place} without weight and bias has not mean 0 and mean square 1",
    "memory": "{place} is memory that was never written",
    "replay": "{place} is not what the operation gives for its recorded inputs",
    "resumed parameter": "was not restored: it differs from the run that went on",
    "resumed input": "{place} differs from the run that went on, the parameters do not: the batch, or random numbers",
    "resumed state": "{place} was not restored",
    "resumed output": "{place} differs from the run that went on, although its inputs do not: random numbers",
    "resumed call": "the run that went on does not make this call",
}
