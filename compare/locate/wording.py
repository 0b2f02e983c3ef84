"""Sentences made of findings. Decisions read the findings' evidence, never these."""

from collections.abc import Sequence
from functools import singledispatch

from msprobe.compare.core.reason import Why
from msprobe.compare.judge.wording import sentences

from .finding import (
    Argument,
    ArgumentKind,
    Basis,
    Between,
    Cause,
    Computed,
    Dataflow,
    Difference,
    Evidence,
    Finding,
    Missing,
    OtherCall,
    Parameters,
    Rule,
    RunInput,
    Unclear,
    Updated,
    UpdateDifference,
    UpdateJudgement,
)

NAMED = 3  # so many parameters stand in a sentence, the others are counted

_LEFT_OUT = "frozen, or not in the optimizer"

_UNEXPLAINED = (
    "two runs drift (look at the optimizer, the learning rate and earlier gradients); the step before, collected too, "
    "would show why"
)

_BLIND = "statistics name a learning rate and parameters that are not updated, no other setting"


def sentence(judgement: UpdateJudgement) -> str:
    """What differs in the updates, for which parameters; empty where nothing does."""
    differing = judgement.differing
    if not differing:
        return ""
    said = [_update_difference(one) for one in judgement.differences]
    named = {name for one in judgement.differences for name in one.parameters}
    if left := [name for name in differing if name not in named]:
        said.append(f"{_count(left, 0)} further apart than {_noise(judgement)}")
    if any(v.basis is Basis.STATISTICS for v in judgement.verdicts):
        said.append(_BLIND)
    if judgement.agreeing:
        said.append(f"{len(judgement.agreeing)} more differ as noise explains")
    return "; ".join(said)


def drifted(judgement: UpdateJudgement) -> str:
    """Of parameters that have only drifted."""
    who = _count(judgement.agreeing, 0)
    return f"{who} have drifted as far as the noise of two runs explains; no update differs by more"


def _update_difference(one: UpdateDifference) -> str:
    who = _count(one.parameters, one.agreeing)
    values = _values(one)
    if one.cause is Cause.LEARNING_RATE:
        factor = f"{_number(one.factor)} times the golden's" if one.factor is not None else "not the golden's"
        text = f"the learning rate is {factor}{values} for {who}"
    elif one.cause is Cause.NOT_UPDATED:
        text = f"{who} {_verb(one.parameters)} not updated ({_LEFT_OUT}), the golden updates {_them(one.parameters)}"
    elif one.cause is Cause.UPDATED_ALONE:
        text = f"{who} {_verb(one.parameters)} updated, and not in the golden ({_LEFT_OUT})"
    elif one.cause is Cause.BIAS_CORRECTION:
        here, there = ("target", "golden") if (one.factor or 0) > 1 else ("golden", "target")
        text = f"the {here}'s Adam does not correct its bias, the {there}'s does, for {who}"
    elif one.cause is Cause.CLIPPING:
        text = f"gradients are clipped differently{_limits(one)}, for {who}"
    elif one.cause is Cause.UNKNOWN:
        text = f"updates of {who} are further apart than noise explains, by no setting that is known"
    else:
        is_other = f"the {one.cause.value} differs"
        text = f"{is_other}{values} for {who}"
    if one.possible:
        text += f" (or {' or '.join(_POSSIBLE[cause] for cause in one.possible)}, which these steps cannot tell apart)"
    return text


_POSSIBLE = {cause: cause.value for cause in Cause} | {
    Cause.BIAS_CORRECTION: "Adam without bias correction",
    Cause.CLIPPING: "gradient clipping",
    Cause.RULE: "Nesterov momentum on one side",
}


def _values(one: UpdateDifference) -> str:
    if one.target is None or one.golden is None:
        return ""
    return f" ({_number(one.target)}, golden {_number(one.golden)})"


def _limits(one: UpdateDifference) -> str:
    told = (
        f"norm {_number(one.target)}" if one.target is not None else "",
        f"norm {_number(one.golden)}" if one.golden is not None else "",
    )
    return f" ({told[0] or 'not'}, golden {told[1] or 'not'})" if any(told) else ""


def _count(parameters: Sequence[str], agreeing: int) -> str:
    """`12 of 12 parameters`; with names where not all are concerned."""
    number, total = len(parameters), len(parameters) + agreeing
    text = f"{number} of {total} parameter{'s' * (total != 1)}"
    if not agreeing and number > 1:
        return text
    more = number - NAMED
    return f"{text} ({', '.join(parameters[:NAMED])}{f' and {more} more' if more > 0 else ''})"


def _verb(parameters: Sequence[str]) -> str:
    return "is" if len(parameters) == 1 else "are"


def _them(parameters: Sequence[str]) -> str:
    return "it" if len(parameters) == 1 else "them"


def _noise(judgement: UpdateJudgement) -> str:
    has_before = any(v.basis is not Basis.DRIFT for v in judgement.verdicts)
    return "their gradients explain" if has_before else _UNEXPLAINED


def _number(value: float | Rule | None) -> str:
    if value is None:
        return "not known"
    return value.value if isinstance(value, Rule) else f"{value:.4g}"


RUNNING = frozenset(["moving_mean", "moving_variance", "running_mean", "running_var"])
"""What a normalisation keeps of the batches it has seen, as both frameworks call it; no optimizer touches it."""


_FROM_OUTSIDE = "no recorded call produced it"
_MISSING = {
    Missing.UNJUDGED_INPUTS: "these givens could not be judged: {names}",
    Missing.INPUTS: "the inputs of calls were not collected on the {side} side",
    Missing.INCOMING_GRADIENTS: "the incoming gradients of calls were not collected on the {side} side",
    Missing.FAILED_INPUTS: "these givens could not be collected: {names}",
    Missing.FORWARD: "its forward call was not collected",
    Missing.SAVED_BY_NAME: "it was saved by name, and what it was made of was not",
}


def kind(finding: Finding) -> str:
    """`computes differently`; of code between two calls which, and in which cell."""
    if isinstance(finding.evidence, Between):
        return f"{finding.kind.value} {finding.evidence.after or 'the start'} and {finding.name} in {finding.cell}"
    return finding.kind.value


def short(finding: Finding) -> str:
    """`NAME in CELL: KIND`."""
    return f"{finding.name} in {finding.cell}: {kind(finding)}"


def full(finding: Finding) -> str:
    """`NAME in CELL: KIND: REASON (FILE:LINE)`, the answer to a comparison of two dumps."""
    place = f" ({finding.file}:{finding.line})" if finding.file else ""
    return f"{short(finding)}: {reason(finding)}{place}"


def reason(finding: Finding) -> str:
    """The evidence; what could not be judged before it; and of a difference within tolerance where it grows beyond."""
    text = said(finding.evidence)
    if hidden := finding.hidden:
        text += f"; {len(hidden)} call{'s' * (len(hidden) != 1)} before it could not be judged in full: {few(hidden)}"
    if finding.grade != "pass":
        return text
    if finding.beyond is None:
        return f"{text}; within tolerance here, and nothing after it is beyond"
    return f"{text}; within tolerance here, {finding.beyond.grade} at {finding.beyond.name}"


@singledispatch
def said(evidence: Evidence) -> str:
    """What supports a finding."""
    raise TypeError(evidence)


@said.register
def _(found: Computed) -> str:
    if found.is_beyond_inputs:
        return f"its inputs differ and do not explain this: {_difference(found.difference)}"
    if found.is_of_parameters:
        return f"all givens agree, but the gradients of its parameters do not: {_difference(found.difference)}"
    return f"{'all givens agree' if found.has_inputs else 'it was given nothing'}, but {_difference(found.difference)}"


@said.register
def _(found: Argument) -> str:
    place = found.difference.place
    if found.kind is ArgumentKind.EXCHANGED:
        return f"{place} is the parameter {found.parameters[0]}, golden {found.parameters[1]}"
    if found.kind is ArgumentKind.TENSOR:
        return f"{_difference(found.difference)}; {_FROM_OUTSIDE}"
    if found.kind is ArgumentKind.VALUE:
        return _sentence(found.difference)
    if found.difference.grade == "error":
        return f"{place}: {_sentence(found.difference)}"
    return f"{place} is given on the {found.side} side only"


@said.register
def _(found: RunInput) -> str:
    text = f"{_difference(found.difference)}; it is among the first tensors that were given, and {_FROM_OUTSIDE}"
    return f"{text} (operations that were not recorded did)" if found.is_made_unrecorded else text


@said.register
def _(found: Between) -> str:
    agree = "every recorded call before agrees"
    if found.dataflow is Dataflow.SWAPPED:
        return f"the arguments {' and '.join(found.names)} are swapped, while {agree}"
    what = f"{'the incoming gradient ' * found.is_gradient}{_difference(found.difference)}"
    if found.dataflow is Dataflow.REWIRED:
        target, golden = (name or "no recorded call" for name in found.names)
        return f"{what}; it comes from {target}, golden from {golden}, while {agree}"
    if found.dataflow is Dataflow.UNRECORDED:
        return f"{what}; it comes from operations that were not recorded, and {agree}"
    if found.dataflow is Dataflow.PRODUCER:
        return f"{what}, although {found.names[0]}, which it comes from, agrees"
    return f"{what}, although {agree}"


@said.register
def _(found: Parameters) -> str:
    several = len(found.names) != 1
    text = f"{len(found.names)} parameter{'s' * several} differ{'' if several else 's'}: {few(found.names)}"
    if found.total > len(found.names):
        text += f" ({found.total} in the whole step)"
    if not found.step:
        return text
    if all(name.rpartition(".")[2] in RUNNING for name in found.names):
        return (
            f"{text}; {'these are' if several else 'this is one of the'} running statistics, look at the layer's "
            "momentum (MindSpore's 0.9 is PyTorch's 0.1) and at the batches before"
        )
    return (
        f"{text}; an earlier update already differed (look at the optimizer, the learning rate and earlier gradients), "
        "or weights were not handed over to this model"
    )


@said.register
def _(found: Updated) -> str:
    if found.is_drift:
        return drifted(found.judgement)
    return f"{sentence(found.judgement)}; by the update after step {found.judgement.step - 1}"


@said.register
def _(found: OtherCall) -> str:
    here, there = ("target", "golden") if found.side == "target" else ("golden", "target")
    if found.is_frozen:
        frozen = f"in the {there} they are frozen, or what it gave is detached"
        return f"only the {here} has gradients of its parameters, {frozen}"
    text = f"only the {here} makes this call"
    if found.others:
        return f"{text}, the {there} calls {few(found.others)} in its place"
    if found.goes_on:
        return f"{text}, the {there} goes on with {found.goes_on}"
    return f"{text}, the {there} ends" + (f" after {found.before}" if found.before else "")


@said.register
def _(found: Unclear) -> str:
    what = _difference(found.difference) if found.difference else ""
    if found.missing is Missing.IN_BETWEEN:
        return f"{what}; no recorded call begins it, records in between are missing"
    if found.missing is Missing.PRODUCER:
        return f"{what}; whether it began before cannot be said, because {few(found.names)} could not be judged"
    because = _MISSING[found.missing].format(names=few(found.names), side=found.side)
    return f"{what}; whether it began here cannot be said, because {because}"


def few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _difference(found: Difference) -> str:
    if not found.reasons:
        return f"{found.place} differs within tolerance"
    text = _sentence(found)  # of two values it begins with their place
    return text if found.reasons[0].why is Why.VALUES else f"{found.place} differs ({text})"


def _sentence(found: Difference) -> str:
    return sentences(found.reasons).rstrip(".")
