"""Sentences made of origins. Decisions read their fields, never these."""

from collections.abc import Iterator, Sequence

from msprobe.base.phrase import Phrase, Words, joined, names_phrase, parts_phrase, phrase
from msprobe.base.verdicts import last_line as completed
from msprobe.base.verdicts import total
from msprobe.findings.catalogue import nonfinite as kinds

from .finding import Answer, Origin
from .values import Amount


def full(origin: Origin) -> str:
    """`CALL in CELL on rank R: inputs finite, output.0 has 3 inf (FILE:LINE)`."""
    return str(full_phrase(origin))


def full_phrase(origin: Origin) -> Phrase:
    """The same as a phrase."""
    text = phrase(
        "{name} in {cell} on rank {rank}: {reason}",
        name=origin.name,
        cell=origin.cell,
        rank=origin.rank,
        reason=reason(origin),
    )
    return phrase("{text}{place}", text=text, place=f" ({origin.file}:{origin.line})" if origin.file else "")


def reason(origin: Origin) -> Phrase:
    """What of the call is not finite, and what that rests on."""
    text = _REASONS[origin.kind](origin)
    if origin.is_absorbed:
        return phrase("{text}; every call that takes it gives finite values", text=text)
    return text


def notes(answers: Sequence[Answer]) -> Iterator[Words]:
    """What is said of the steps before the last one, of ranks that could not be judged, and of masks."""
    *before, last = answers
    if before:
        text = phrase(
            "{number} step before holds nothing that is not finite"
            if len(before) == 1
            else "{number} steps before hold nothing that is not finite",
            number=len(before),
        )
        is_first = last.step is not None and last.first
        yield phrase("{text}, step {step} is the first that does", text=text, step=last.step) if is_first else text
    for rank, why in last.unjudged:
        yield phrase("rank {rank} is not judged: {why}", rank=rank, why=why)
    if last.masks:
        yield phrase(
            "{number} calls with infinities of which only finite values are made (masks) are not reported",
            number=last.masks,
        )


def last_line(answers: Sequence[Answer]) -> Words:
    """The last line on standard output, of all steps up to the first with a finding."""
    verdicts = total(answer.verdicts for answer in answers)
    if not answers or not answers[-1].first:
        return completed(phrase("first non-finite: none, no call made NaN or infinities"), verdicts)
    return completed(phrase("first non-finite: {what}", what=full_phrase(answers[-1].first[0])), verdicts)


def amounts(found: Sequence[Amount]) -> Words:
    """`output.0 has 3 inf, output.1 has 2 nan`, the first two with what is in them."""
    return parts_phrase([phrase("{place} has {values}", place=one.place, values=_what(one)) for one in found], 2)


def _what(one: Amount) -> Words:
    numbers = ((one.nan, "nan"), (one.inf, "inf"), (one.minus_inf, "-inf"))
    words = [f"{number} {word}" if one.is_counted else word for number, word in numbers if number]
    return joined(words, "{before} and {after}")


def _made(origin: Origin) -> Phrase:
    return phrase("inputs finite, {outputs}", outputs=amounts(origin.outputs))


def _of_infinities(origin: Origin) -> Phrase:
    return phrase("{inputs} and no nan, {outputs}", inputs=amounts(origin.inputs), outputs=amounts(origin.outputs))


def _argument(origin: Origin) -> Phrase:
    parts = [phrase("{place} is {value}", place=one.place, value=_literal(one)) for one in origin.inputs]
    arguments = parts_phrase(parts, 3)
    return phrase("{arguments}, {outputs}", arguments=arguments, outputs=amounts(origin.outputs))


def _literal(one: Amount) -> str:
    return "nan" if one.nan else "inf" if one.inf else "-inf"


def _parameter(origin: Origin) -> Phrase:
    text = phrase("the parameter {name} is not finite ({inputs})", name=origin.source, inputs=amounts(origin.inputs))
    if origin.previous is not None:
        return phrase("{text}; it was in step {step}, the update after it made it so", text=text, step=origin.previous)
    return phrase("{text} before any recorded call: by an earlier update, or as it was loaded", text=text)


def _leaf(origin: Origin) -> Phrase:
    return phrase(
        "{inputs}, and no operation made it: the batch, a buffer or a constant", inputs=amounts(origin.inputs)
    )


def _uninitialised(origin: Origin) -> Phrase:
    if not origin.inputs:
        return (
            phrase("an input, memory of {call} that was never written", call=origin.source)
            if origin.source
            else phrase("an input, memory that was never written")
        )
    return phrase(
        "{inputs}, memory of {call} that was never written", inputs=amounts(origin.inputs), call=origin.source
    )


def _unrecorded(origin: Origin) -> Phrase:
    text = phrase(
        "{inputs}, and no recorded call made it: the batch, or operations that were not recorded",
        inputs=amounts(origin.inputs),
    )
    if origin.source:
        return phrase("{text}; the result of {call} was not recorded", text=text, call=origin.source)
    return text


def _exchange(origin: Origin) -> Phrase:
    return phrase("what the ranks put in is finite, {outputs}", outputs=amounts(origin.outputs))


def _missing_rank(origin: Origin) -> Phrase:
    outputs = amounts(origin.outputs)
    if not origin.ranks:
        return phrase("{outputs}, from a rank that the dump does not hold", outputs=outputs)
    return phrase(
        "{outputs}, from rank {ranks} that the dump does not hold"
        if len(origin.ranks) == 1
        else "{outputs}, from ranks {ranks} that the dump does not hold",
        outputs=outputs,
        ranks=names_phrase(origin.ranks),
    )


def _inputs_unknown(origin: Origin) -> Phrase:
    return phrase("inputs not recorded, {outputs}", outputs=amounts(origin.outputs))


_REASONS = {
    kinds.MADE: _made,
    kinds.OF_INFINITIES: _of_infinities,
    kinds.ARGUMENT: _argument,
    kinds.EXCHANGE: _exchange,
    kinds.PARAMETER: _parameter,
    kinds.LEAF: _leaf,
    kinds.UNINITIALISED: _uninitialised,
    kinds.UNRECORDED: _unrecorded,
    kinds.MISSING_RANK: _missing_rank,
    kinds.INPUTS_UNKNOWN: _inputs_unknown,
}
