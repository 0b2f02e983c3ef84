"""Sentences made of findings and of judgements of updates. Decisions read their evidence, never these."""

from collections.abc import Sequence
from functools import singledispatch

from msprobe.base.log import few
from msprobe.compare.core.reason import Why
from msprobe.compare.judge.wording import sentences

from .finding import (
    Argument,
    ArgumentKind,
    Basis,
    Between,
    Computed,
    Dataflow,
    Difference,
    Evidence,
    Finding,
    FindingKind,
    Missing,
    OtherCall,
    Parameters,
    Rule,
    RunInput,
    Unclear,
    UpdateCause,
    Updated,
    UpdateDifference,
    UpdateJudgement,
)

_LEFT_OUT = "frozen, or not in the optimizer"

_UNEXPLAINED = (
    "two runs drift (look at the optimizer, the learning rate and earlier gradients); the step before, collected too, "
    "would show why"
)

_BLIND = "statistics name a learning rate and parameters that are not updated, no other setting"


def updates(judgement: UpdateJudgement) -> str:
    """What differs in the updates, for which parameters; empty where nothing does."""
    differing = judgement.differing
    if not differing:
        return ""
    parts = [_update_difference(one) for one in judgement.differences]
    named = {name for one in judgement.differences for name in one.parameters}
    if left := [name for name in differing if name not in named]:
        has_before = any(v.basis is not Basis.DRIFT for v in judgement.verdicts)
        parts.append(
            f"{_count(left, 0)} further apart than {'their gradients explain' if has_before else _UNEXPLAINED}"
        )
    if any(v.basis is Basis.STATISTICS for v in judgement.verdicts):
        parts.append(_BLIND)
    if judgement.agreeing:
        parts.append(f"{len(judgement.agreeing)} more differ as noise explains")
    return "; ".join(parts)


def _update_difference(one: UpdateDifference) -> str:
    who = _count(one.parameters, one.agreeing)
    verb, them = ("is", "it") if len(one.parameters) == 1 else ("are", "them")
    values = ""
    if one.target is not None and one.golden is not None:
        values = f" ({_number(one.target)}, golden {_number(one.golden)})"
    if one.cause is UpdateCause.LEARNING_RATE:
        factor = f"{_number(one.factor)} times the golden's" if one.factor is not None else "not the golden's"
        text = f"the learning rate is {factor}{values} for {who}"
    elif one.cause is UpdateCause.BIAS_CORRECTION:
        here, there = ("target", "golden") if (one.factor or 0) > 1 else ("golden", "target")
        text = f"the {here}'s Adam does not correct its bias, the {there}'s does, for {who}"
    elif one.cause is UpdateCause.CLIPPING:
        target, golden = ("not" if norm is None else f"norm {_number(norm)}" for norm in (one.target, one.golden))
        limits = "" if one.target is None and one.golden is None else f" ({target}, golden {golden})"
        text = f"gradients are clipped differently{limits}, for {who}"
    else:
        text = {
            UpdateCause.NOT_UPDATED: f"{who} {verb} not updated ({_LEFT_OUT}), the golden updates {them}",
            UpdateCause.UPDATED_HERE: f"{who} {verb} updated, and not in the golden ({_LEFT_OUT})",
            UpdateCause.UNKNOWN: f"updates of {who} are further apart than noise explains, by no setting that is known",
        }.get(one.cause, f"the {one.cause.value} differs{values} for {who}")
    if one.possible:
        text += f" (or {' or '.join(_POSSIBLE[cause] for cause in one.possible)}, which these steps cannot tell apart)"
    return text


_POSSIBLE = {cause: cause.value for cause in UpdateCause} | {
    UpdateCause.BIAS_CORRECTION: "Adam without bias correction",
    UpdateCause.CLIPPING: "gradient clipping",
    UpdateCause.RULE: "Nesterov momentum on one side",
}


def _count(parameters: Sequence[str], agreeing: int) -> str:
    """`12 of 12 parameters`; with names where not all are concerned."""
    number, total = len(parameters), len(parameters) + agreeing
    text = f"{number} of {total} parameter{'s' * (total != 1)}"
    if not agreeing and number > 1:
        return text
    return f"{text} ({few(parameters)})"


def _number(value: float | Rule) -> str:
    return value.value if isinstance(value, Rule) else f"{value:.4g}"


RUNNING = frozenset(["moving_mean", "moving_variance", "running_mean", "running_var"])
"""What a normalisation keeps of the batches it has seen, as both frameworks call it; no optimizer touches it."""


_FROM_OUTSIDE = "no recorded call produced it"
_NOT_KNOWN = "whether it began here cannot be said, because"
_MISSING = {
    Missing.UNJUDGED_INPUTS: f"{_NOT_KNOWN} these inputs could not be judged: {{names}}",
    Missing.INPUTS: f"{_NOT_KNOWN} the inputs of calls were not collected on the {{side}} side",
    Missing.INCOMING_GRADIENTS: f"{_NOT_KNOWN} the incoming gradients of calls were not collected on the {{side}} side",
    Missing.FAILED_INPUTS: f"{_NOT_KNOWN} these inputs could not be collected: {{names}}",
    Missing.FORWARD: f"{_NOT_KNOWN} its forward call was not collected",
    Missing.SAVED_BY_NAME: f"{_NOT_KNOWN} it was saved by name, and what it was made of was not",
    Missing.PRODUCER: "whether it began before cannot be said, because {names} could not be judged",
    Missing.IN_BETWEEN: "no recorded call begins it, records in between are missing",
}


def kind(finding: Finding) -> str:
    """`computes differently`; of code between two calls which, and in which cell."""
    if isinstance(finding.evidence, Between):
        return f"{finding.kind.value} {finding.evidence.after or 'the start'} and {finding.name} in {finding.cell}"
    return finding.kind.value


_LOOK = {
    FindingKind.COMPUTES: "at the call and its settings; where the settings agree, at the kernel that runs it",
    FindingKind.ARGUMENT: "at the line that makes the call, and at where this argument comes from",
    FindingKind.CALL: "at the line that makes the call, and at the conditions under which it runs",
    FindingKind.PARAMETERS: "at how weights are made: seeds, optimizer, checkpoints (msprobe config_check --compare)",
    FindingKind.RUN_INPUTS: "at the data, their order and what is done to them before the first call",
    FindingKind.CODE: "at the code between the two calls; values in it can be saved by hand (docs: saving)",
    FindingKind.UNKNOWN: "at what was left out of the collection",
}


def where_to_look(found: Finding) -> str:
    """Where a person looks next, by the kind of a finding, when no collection says more."""
    if isinstance(found.evidence, Computed) and found.evidence.without_gradient:
        return _LOOK_AT_GRADIENT
    return _LOOK[found.kind]


_LOOK_AT_GRADIENT = (
    "at what this call was given forward: whether a parameter of it is frozen, or left out of those that gradients are "
    "taken of, or an input is detached"
)


def short(finding: Finding) -> str:
    """`NAME in CELL: KIND`."""
    return f"{finding.name} in {finding.cell}: {kind(finding)}"


def full(finding: Finding) -> str:
    """`NAME in CELL: KIND: REASON (FILE:LINE)`, the answer to a comparison of two dumps."""
    place = f" ({finding.file}:{finding.line})" if finding.file else ""
    return f"{short(finding)}: {reason(finding)}{place}"


def reason(finding: Finding) -> str:
    """The evidence; what could not be judged before it; and of a difference within tolerance where it grows beyond."""
    text = describe(finding.evidence)
    if hidden := finding.hidden:
        text += f"; {len(hidden)} call{'s' * (len(hidden) != 1)} before it could not be judged in full: {few(hidden)}"
    if finding.grade != "pass":
        return text
    if finding.beyond is None:
        return f"{text}; within tolerance here, and nothing after it is beyond"
    return f"{text}; within tolerance here, {finding.beyond.grade} at {finding.beyond.name}"


@singledispatch
def describe(evidence: Evidence) -> str:
    """What supports a finding."""
    raise TypeError(evidence)


@describe.register
def _(found: Computed) -> str:
    if found.is_beyond_inputs:
        return f"its inputs differ and do not explain this: {_difference(found.difference)}"
    if found.is_of_parameters:
        return f"all inputs agree, but the gradients of its parameters do not: {_difference(found.difference)}"
    text = f"{'all inputs agree' if found.has_inputs else 'it has no inputs'}, but {_difference(found.difference)}"
    if found.without_gradient:
        text += f"; the {found.without_gradient} asks for no gradient there"
    return text


@describe.register
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
    return f"{place} is passed on the {found.side} side only"


@describe.register
def _(found: RunInput) -> str:
    text = f"{_difference(found.difference)}; it is among the first inputs of the run, and {_FROM_OUTSIDE}"
    return f"{text} (operations that were not recorded did)" if found.is_made_unrecorded else text


@describe.register
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


@describe.register
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


@describe.register
def _(found: Updated) -> str:
    if found.is_drift:
        who = _count(found.judgement.agreeing, 0)
        return f"{who} have drifted as far as the noise of two runs explains; no update differs by more"
    return f"{updates(found.judgement)}; by the update after step {found.judgement.step - 1}"


@describe.register
def _(found: OtherCall) -> str:
    here, there = ("target", "golden") if found.side == "target" else ("golden", "target")
    if found.is_frozen:
        frozen = f"in the {there} they are frozen, or its output is detached"
        return f"only the {here} has gradients of its parameters, {frozen}"
    text = f"only the {here} makes this call"
    if found.others:
        return f"{text}, the {there} calls {few(found.others)} in its place"
    if found.goes_on:
        also = f" (the {here}'s {found.known_as})" if found.known_as else ""
        return f"{text}, the {there} goes on with {found.goes_on}{also}"
    return f"{text}, the {there} ends" + (f" after {found.before}" if found.before else "")


@describe.register
def _(found: Unclear) -> str:
    what = _difference(found.difference) if found.difference else ""
    return f"{what}; {_MISSING[found.missing].format(names=few(found.names), side=found.side)}"


def _difference(found: Difference) -> str:
    if not found.reasons:
        return f"{found.place} differs within tolerance"
    text = _sentence(found)  # of two values it begins with their place
    return text if found.reasons[0].why is Why.VALUES else f"{found.place} differs ({text})"


def _sentence(found: Difference) -> str:
    return sentences(found.reasons).rstrip(".")
