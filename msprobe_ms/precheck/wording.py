"""The sentences of a check."""

from collections.abc import Iterable, Sequence

from msprobe.base.phrase import Phrase, phrase

from .check import Checked, Output, Skipped
from .judge import Reason, Status
from .standards import Criterion

_COMPARED = {
    Reason.ELEMENT: "{value:.3g} times its sensitivity, at most {limit:.3g} is rounding",
    Reason.ALL: "{value:.3g} times their sensitivity, at most {limit:.3g} is rounding",
    Reason.SCALED: "by {value:.3g} of its size, beyond {limit:.3g}",
    Reason.SHIFTED: "by {value:.3g} of its rms, beyond {limit:.3g}",
    Reason.UNEQUAL: "a share of {value:.3g}",
    Reason.NON_FINITE: "{value:.0f} elements",
    Reason.COSINE: "{value:.6g}, has to be above {limit:.6g}",
    Reason.SHARE: "{value:.3g} of them, at most {limit:.3g}",
    Reason.RELATIVE: "{value:.3g} of the elements",
    Reason.SMALL: "{value:.3g} of the elements",
    Reason.BALANCE: "{value:.3g}, at most {limit:.3g}",
    Reason.RATE: "it differs by {value:.3g}, by chance at most by {limit:.3g}",
    Reason.KEPT: "by {value:.3g} of its size, beyond {limit:.3g}",
    Reason.MASK: "{value:.3g} of the elements",
    Reason.FAR: "{value:.3g} of them, at most {limit:.3g}",
}


def message(output: Output) -> str:
    """What is said of one output."""
    return str(message_said(output))


def message_said(output: Output) -> Phrase:
    """What is said of one output, as a phrase."""
    judgement = output.judgement
    reason = phrase(judgement.reason.value)
    if judgement.criterion is Criterion.SHAPE:
        return phrase("{reason}: {shape}", reason=reason, shape=list(output.shape))
    if judgement.criterion is Criterion.DTYPE:
        return phrase("{reason}: {output.dtype}, recorded was {output.golden}", reason=reason, output=output)
    text = reason
    if template := _COMPARED.get(judgement.reason):
        numbers = phrase(template, value=judgement.value, limit=judgement.limit)
        text = phrase("{reason}: {numbers}", reason=reason, numbers=numbers)
    largest = output.measures.max_absolute
    return text if largest != largest else phrase("{text}; max abs error {largest:.3g}", text=text, largest=largest)


def wrong_outputs(found: Iterable[Checked]) -> list[Output]:
    """All outputs in error, in the order of the calls."""
    directions = (direction for checked in found for direction in checked.directions)
    return [output for each in directions for output in each.outputs if output.judgement.status is Status.ERROR]


def answer(wrong: Sequence[Output]) -> Phrase:
    """The last line, of the outputs that are wrong."""
    if not wrong:
        return phrase("first wrong output: none")
    return phrase("first wrong output: {name}: {reason}", name=wrong[0].name, reason=message_said(wrong[0]))


def sentence(output: Output) -> str:
    """`NAME: what is said of it`."""
    return f"{output.name}: {message(output)}"


def skipped_message(skipped: Skipped) -> str:
    """Why a direction was not checked."""
    return f"{skipped.why.value}{': ' if skipped.detail else ''}{skipped.detail}"
