"""Sentences made of origins. Decisions read their fields, never these."""

from collections.abc import Iterator, Sequence

from msprobe.base.log import few

from .finding import Answer, Kind, Origin
from .values import Amount

CLEAN = "no call made NaN or infinities"


def full(origin: Origin) -> str:
    """`CALL in CELL on rank R: inputs finite, output.0 has 3 inf (FILE:LINE)`."""
    place = f" ({origin.file}:{origin.line})" if origin.file else ""
    return f"{origin.name} in {origin.cell} on rank {origin.rank}: {reason(origin)}{place}"


def reason(origin: Origin) -> str:
    """What of the call is not finite, and what that rests on."""
    text = _REASONS[origin.kind](origin)
    if origin.is_absorbed:
        text += "; every call that takes it gives finite values"
    return text


def notes(answers: Sequence[Answer]) -> Iterator[str]:
    """What is said of the steps before the last one, of ranks that could not be judged, and of masks."""
    *before, last = answers
    if before:
        where = "" if last.step is None else f", step {last.step} is the first that does" * bool(last.first)
        steps = "1 step before holds" if len(before) == 1 else f"{len(before)} steps before hold"
        yield f"{steps} nothing that is not finite{where}"
    for rank, why in last.unjudged:
        yield f"rank {rank} is not judged: {why}"
    if last.masks:
        yield f"{last.masks} calls with infinities of which only finite values are made (masks) are not reported"


def last_line(answer: Answer | None) -> str:
    """The last line on standard output; None where no dump could be judged."""
    if answer is None or not answer.first:
        return f"first non-finite: none, {CLEAN}"
    return f"first non-finite: {full(answer.first[0])}"


def amounts(found: Sequence[Amount]) -> str:
    """`output.0 has 3 inf, output.1 has 2 nan`, the first two with what is in them."""
    parts = [f"{one.place} has {_what(one)}" for one in found[:2]]
    more = len(found) - len(parts)
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")


def _what(one: Amount) -> str:
    numbers = ((one.nan, "nan"), (one.inf, "inf"), (one.minus_inf, "-inf"))
    if one.is_counted:
        return " and ".join(f"{number} {word}" for number, word in numbers if number)
    return " and ".join(word for number, word in numbers if number)


def where_to_look(kind: Kind) -> str:
    """Where a person looks next, by how the value came into the run."""
    return _LOOK[kind]


_LOOK = {
    Kind.MADE: "at the inputs of the call: a division by 0, a logarithm or root of what is not positive, or values too "
    "large for the dtype",
    Kind.OF_INFINITIES: "at the mask: a row that is hidden as a whole, or -inf minus -inf; a large finite value "
    "instead of -inf avoids both",
    Kind.ARGUMENT: "at the line that makes the call, and at where this argument comes from",
    Kind.EXCHANGE: "at the size of what is summed up over the ranks, and at the dtype of the collective",
    Kind.PARAMETER: "at the update before this step: its gradients, the learning rate and eps; or at what was loaded",
    Kind.LEAF: "at the data and what is done to them, and at the buffers and constants of the model",
    Kind.UNINITIALISED: "at the call of empty() that made this memory: fill it, or write all of it before it is read",
    Kind.UNRECORDED: "at the code before this call; values in it can be saved by hand (docs: saving)",
    Kind.MISSING_RANK: "at the ranks that are missing: collect all ranks of the step",
    Kind.INPUTS_UNKNOWN: "at what was left out of the collection: collect inputs too",
}


def _made(origin: Origin) -> str:
    return f"inputs finite, {amounts(origin.outputs)}"


def _of_infinities(origin: Origin) -> str:
    return f"{amounts(origin.inputs)} and no nan, {amounts(origin.outputs)}"


def _argument(origin: Origin) -> str:
    words = few([f"{one.place} is {_literal(one)}" for one in origin.inputs])
    return f"{words}, {amounts(origin.outputs)}"


def _literal(one: Amount) -> str:
    return "nan" if one.nan else "inf" if one.inf else "-inf"


def _parameter(origin: Origin) -> str:
    text = f"the parameter {origin.source} is not finite ({amounts(origin.inputs)})"
    if origin.previous is not None:
        return f"{text}; it was in step {origin.previous}, the update after it made it so"
    return f"{text} before any recorded call: by an earlier update, or as it was loaded"


def _leaf(origin: Origin) -> str:
    return f"{amounts(origin.inputs)}, and no operation made it: the batch, a buffer or a constant"


def _uninitialised(origin: Origin) -> str:
    return f"{amounts(origin.inputs)}, memory of {origin.source} that was never written"


def _unrecorded(origin: Origin) -> str:
    text = f"{amounts(origin.inputs)}, and no recorded call made it: the batch, or operations that were not recorded"
    return f"{text}; the result of {origin.source} was not recorded" if origin.source else text


def _exchange(origin: Origin) -> str:
    return f"what the ranks put in is finite, {amounts(origin.outputs)}"


def _missing_rank(origin: Origin) -> str:
    who = f"rank{'s' * (len(origin.ranks) != 1)} {few([str(rank) for rank in origin.ranks])}"
    return f"{amounts(origin.outputs)}, from {who if origin.ranks else 'a rank'} that the dump does not hold"


def _inputs_unknown(origin: Origin) -> str:
    return f"inputs not recorded, {amounts(origin.outputs)}"


_REASONS = {
    Kind.MADE: _made,
    Kind.OF_INFINITIES: _of_infinities,
    Kind.ARGUMENT: _argument,
    Kind.EXCHANGE: _exchange,
    Kind.PARAMETER: _parameter,
    Kind.LEAF: _leaf,
    Kind.UNINITIALISED: _uninitialised,
    Kind.UNRECORDED: _unrecorded,
    Kind.MISSING_RANK: _missing_rank,
    Kind.INPUTS_UNKNOWN: _inputs_unknown,
}
