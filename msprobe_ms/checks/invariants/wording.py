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


def where_to_look(name: str) -> Phrase:
    """Where a person looks next, by the name of the invariant that is violated."""
    return phrase(_LOOK[name])


_LOOK = {
    "equal-parameters": "at what each rank does for itself: seeds, the broadcast of first weights, clipping, learning "
    "rates, groups of collectives, and gradients that are not reduced",
    "reduced-gradients": "at the loop or hook that reduces gradients, and at the parameters that it leaves out",
    "own-batches": "at the sampler: its number of ranks, and this rank's number in it",
    "reductions": "at the group and the operation of the collective on every rank, and at what is done to its result",
    "gradients": "at whether the parameter is frozen, its output is detached, or nothing uses it",
    "updates": "at the list of parameters that the optimizer was given, and at their learning rate",
    "softmax": "at the axis of the softmax; where it is right, at the kernel that runs it",
    "masks": "at the line that makes the mask: which side it hides, the diagonal, and what True means there",
    "norms": "at the axes and eps of the layer; where they are right, at the kernel that runs it",
    "replay": "at the kernel that runs this call; msprobe acc-check tries it alone",
    "written-memory": "at the call of empty() that made this memory: fill it, or write all of it before it is read",
    "resume": "at what is saved and loaded: weights, optimizer state, random state, and the place in the data",
}

_TEXTS = {
    "parameter": "differs from the other ranks",
    "gradient": "its gradient goes into no reduction over ranks, those of most parameters do",
    "batch": "these ranks have the same batch",
    "unequal results": "the result is not equal on all ranks: {place}",
    "reduction": "the result is no reduction of what the ranks put in",
    "no gradient": "has no gradient: detached from the loss, not used, or frozen",
    "still": "has a gradient and does not move: not in the optimizer, or its learning rate is 0",
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
