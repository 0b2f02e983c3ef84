"""What the findings say, in sentences."""

from collections.abc import Sequence

from msprobe.compare.judge.judged import Judged
from msprobe.compare.judge.verdict import path_of

from .agree import Seen
from .cause import REWIRED, UNRECORDED, Cause
from .events import Event, cell_path

RUNNING = frozenset(["moving_mean", "moving_variance", "running_mean", "running_var"])
"""What a normalisation keeps of the batches it has seen, as both frameworks call it; no optimizer touches it."""

FROM_OUTSIDE = "no recorded call produced it"
"""Of a tensor that a call was given."""

NAMED = 3  # so many names stand in a sentence, the others are counted


def computes(event: Event, evidence: Sequence[Judged]) -> str:
    """All givens agree, a result does not."""
    if event.kind == "parameters_grad":
        return f"all givens agree, but the gradients of its parameters do not: {_evidence(evidence)}"
    givens = "all givens agree" if event.own or event.forwards else "it was given nothing"
    return f"{givens}, but {_evidence(evidence)}"


def unclear(evidence: Sequence[Judged], missing: str) -> str:
    """A result differs and a given is not known."""
    return f"{_evidence(evidence)}; whether it began here cannot be said, because {missing}"


def unclear_given(judged: Judged, missing: str) -> str:
    """A given differs and what produced it is not known."""
    return f"{_evidence([judged])}; whether it began before cannot be said, because {missing} could not be judged"


def no_beginning(seen: Seen) -> str:
    """Something differs, and nothing recorded begins it."""
    return f"{_evidence(seen.results or seen.givens)}; no recorded call begins it, records in between are missing"


def argument(judged: Judged) -> str:
    """An argument differs that no recorded call made."""
    pair = judged.pair
    if pair.target is None or pair.golden is None:
        if judged.grade == "error":
            return f"{path_of(pair.record)}: {_sentence(judged)}"
        return f"{path_of(pair.record)} is given on the {'target' if pair.target else 'golden'} side only"
    if pair.target.kind == pair.golden.kind == "tensor":
        return f"{_evidence([judged])}; {FROM_OUTSIDE}"
    return _sentence(judged)


def run_inputs(judged: Judged) -> str:
    """The first tensors given to the run differ."""
    text = f"{_evidence([judged])}; it is among the first tensors that were given, and {FROM_OUTSIDE}"
    before = judged.pair.target is not None and judged.pair.target.source == "code"
    return f"{text} (operations that were not recorded did)" if before else text


def code(event: Event, judged: Judged, cause: Cause) -> str:
    """Everything recorded agrees, and yet a given differs."""
    if "swapped" in cause.text:
        return f"{cause.text}, while every recorded call before agrees"
    what = "the incoming gradient " if event.direction == "backward" else ""
    if cause.text.startswith(REWIRED):
        return f"{what}{_evidence([judged])}; {cause.text}, while every recorded call before agrees"
    if cause.text == UNRECORDED:
        return f"{what}{_evidence([judged])}; it comes from {cause.text}, and every recorded call before agrees"
    if cause.text:
        return f"{what}{_evidence([judged])}, although {cause.text}, which it comes from, agrees"
    return f"{what}{_evidence([judged])}, although every recorded call before agrees"


def code_kind(event: Event, last_agreeing: str) -> str:
    """`code between A and B in P`."""
    return f"code between {last_agreeing or 'the start'} and {event.name} in {cell_path(event.parents)}"


def parameters(before: Sequence[str], total: int, step: int | None) -> str:
    """Parameters differ before any result does."""
    several = len(before) != 1
    text = f"{len(before)} parameter{'s' * several} differ{'' if several else 's'}: {few(before)}"
    if total > len(before):
        text += f" ({total} in the whole step)"
    if not step:
        return text
    if all(name.rpartition(".")[2] in RUNNING for name in before):
        return (
            f"{text}; {'these are' if several else 'this is one of the'} running statistics, look at the layer's "
            "momentum (MindSpore's 0.9 is PyTorch's 0.1) and at the batches before"
        )
    return (
        f"{text}; an earlier update already differed (look at the optimizer, the learning rate and earlier gradients), "
        "or weights were not handed over to this model"
    )


def before(unjudged: Sequence[str]) -> str:
    """The calls before the first finding that could hide an earlier one."""
    calls = "call" if len(unjudged) == 1 else "calls"
    return f"{len(unjudged)} {calls} before it could not be judged in full: {few(unjudged)}"


def different_call(event: Event, before: str, others: Sequence[str], goes_on: str) -> str:
    """A call stands on one side only."""
    here, there = ("target", "golden") if event.side == "target" else ("golden", "target")
    text = f"only the {here} makes this call"
    if others:
        return f"{text}, the {there} calls {few(others)} in its place"
    if goes_on:
        return f"{text}, the {there} goes on with {goes_on}"
    return f"{text}, the {there} ends" + (f" after {before}" if before else "")


def trained_alone(event: Event) -> str:
    """Gradients of parameters stand on one side only."""
    here, there = ("target", "golden") if event.side == "target" else ("golden", "target")
    return (
        f"only the {here} has gradients of its parameters, in the {there} they are frozen, or what it gave is detached"
    )


def few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _evidence(judged: Sequence[Judged]) -> str:
    worst = next((j for j in judged if j.verdict.grade == "error"), judged[0])
    place = path_of(worst.pair.record)
    text = _sentence(worst)
    if not text:
        return f"{place} differs within tolerance"
    return text if text.startswith(place) else f"{place} differs ({text})"


def _sentence(judged: Judged) -> str:
    return judged.verdict.reason.rstrip(".")
