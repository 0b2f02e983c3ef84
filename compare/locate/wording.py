"""Sentences of divergences and of judgments of updates. Decisions read their evidence, never the sentences."""

from collections.abc import Sequence
from functools import singledispatch
from math import isnan

from msprobe.base.names import is_running_statistic
from msprobe.base.phrase import Phrase, Words, joined, names_phrase, phrase
from msprobe.compare.core.noise import NoConsequence
from msprobe.compare.core.reason import Why
from msprobe.compare.judge.wording import reasons_phrase
from msprobe.findings.finding import Finding

from .finding import (
    Argument,
    ArgumentKind,
    Basis,
    Between,
    Computed,
    Dataflow,
    Difference,
    Divergence,
    Drawn,
    Evidence,
    Explanation,
    Harmless,
    Missing,
    OtherCall,
    Parameters,
    Precision,
    Rule,
    RunInput,
    Unclear,
    UpdateCause,
    Updated,
    UpdateDifference,
    UpdateJudgement,
)

_BLIND = "statistics name a learning rate, a weight decay and parameters that are not updated, no other setting"


def updates(judgement: UpdateJudgement) -> Words:
    """Return the differences of updates and their parameters; empty without any."""
    differing = judgement.differing
    if not differing:
        return ""
    parts: list[Words] = [_update_difference(one) for one in judgement.differences]
    named = {name for one in judgement.differences for name in one.parameters}
    if left := [name for name in differing if name not in named]:
        parts.append(
            phrase(
                "{who} differ by more than run-to-run drift (look at the optimizer, the learning rate and earlier "
                "gradients); the step before, collected too, would show why",
                who=_count(left, 0),
            )
            if judgement.lacks_step_before
            else phrase("{who} differ by more than their gradients explain", who=_count(left, 0))
        )
    if any(v.basis is Basis.STATISTICS for v in judgement.verdicts):
        parts.append(phrase(_BLIND))
    if judgement.agreeing:
        parts.append(phrase("{number} more differ as noise explains", number=len(judgement.agreeing)))
    return joined(parts, "{before}; {after}")


def _update_difference(one: UpdateDifference) -> Phrase:
    text = _setting(one)
    if tried := one.others[:_MAX_EXPLANATIONS]:
        others = joined([_explanation(other) for other in tried], "{before}, {after}")
        text = phrase(
            "{text} [residual {residual}; other explanations: {others}]",
            text=text,
            residual=_residual(one.residual),
            others=others,
        )
    if not one.possible:
        return text
    others = joined([phrase(_POSSIBLE[cause]) for cause in one.possible], "{before} or {after}")
    return phrase("{text} (or {others}; these steps cannot distinguish them)", text=text, others=others)


_MAX_EXPLANATIONS = 2  # explanations that are listed in addition to the decisive one


def _explanation(one: Explanation) -> Phrase:
    values = phrase("{target}, golden {golden}", target=_value(one.target), golden=_value(one.golden))
    known: Words = phrase(" ({values})", values=values) if (one.target, one.golden) != (None, None) else ""
    return phrase(
        "{cause}{values}: {residual}",
        cause=phrase(_POSSIBLE[one.cause]),
        values=known,
        residual=_residual(one.residual),
    )


def _value(value: "float | Rule | None") -> Words:
    return phrase("none") if value is None else _number(value)


def _residual(value: float) -> Words:
    return phrase("not known") if isnan(value) else f"{value:.2g}"


def _setting(one: UpdateDifference) -> Phrase:
    """Return the setting that differs, and its parameters."""
    who = _count(one.parameters, one.agreeing)
    is_one = len(one.parameters) == 1
    values: Words = ""
    if one.target is not None and one.golden is not None:
        values = phrase(" ({target}, golden {golden})", target=_number(one.target), golden=_number(one.golden))
    if one.cause is UpdateCause.LEARNING_RATE:
        if one.target == 0:
            return phrase("the learning rate is 0 for {who}, and the golden's is not", who=who)
        if one.golden == 0:
            return phrase("the golden's learning rate is 0 for {who}, and the target's is not", who=who)
        if one.factor is None:
            return phrase("the learning rate is not the golden's{values} for {who}", values=values, who=who)
        return phrase(
            "the learning rate is {factor} times the golden's{values} for {who}",
            factor=_number(one.factor),
            values=values,
            who=who,
        )
    if one.cause is UpdateCause.BIAS_CORRECTION:
        here, there = ("target", "golden") if (one.factor or 0) > 1 else ("golden", "target")
        return phrase(
            "the {here}'s Adam does not correct its bias, the {there}'s does, for {who}",
            here=here,
            there=there,
            who=who,
        )
    if one.cause is UpdateCause.CLIPPING:
        norms = [phrase("not") if n is None else phrase("norm {n}", n=_number(n)) for n in (one.target, one.golden)]
        if one.target is not None or one.golden is not None:
            values = phrase(" ({target}, golden {golden})", target=norms[0], golden=norms[1])
        return phrase("gradients are clipped differently{limits}, for {who}", limits=values, who=who)
    if one.cause is UpdateCause.NOT_UPDATED:
        return phrase(
            "{who} is not updated (frozen, or not in the optimizer), the golden updates it"
            if is_one
            else "{who} are not updated (frozen, or not in the optimizer), the golden updates them",
            who=who,
        )
    if one.cause is UpdateCause.UPDATED_HERE:
        return phrase(
            "{who} is updated, and not in the golden (frozen, or not in the optimizer)"
            if is_one
            else "{who} are updated, and not in the golden (frozen, or not in the optimizer)",
            who=who,
        )
    if one.cause is UpdateCause.UNKNOWN:
        return phrase("updates of {who} differ by more than noise explains, and no known setting explains it", who=who)
    return phrase("the {cause} differs{values} for {who}", cause=phrase(one.cause.value), values=values, who=who)


_POSSIBLE = {cause: cause.value for cause in UpdateCause} | {
    UpdateCause.BIAS_CORRECTION: "Adam without bias correction",
    UpdateCause.CLIPPING: "gradient clipping",
    UpdateCause.RULE: "Nesterov momentum on one side",
    UpdateCause.NOT_UPDATED: "all of them frozen, or not in the optimizer",
    UpdateCause.UPDATED_HERE: "all of them frozen in the golden, or not in its optimizer",
}


def _count(parameters: Sequence[str], agreeing: int) -> Phrase:
    """Return `12 of 12 parameters`, with names if others agree."""
    number, total = len(parameters), len(parameters) + agreeing
    text = phrase(
        "{number} of {total} parameter" if total == 1 else "{number} of {total} parameters", number=number, total=total
    )
    if not agreeing and number > 1:
        return text
    return phrase("{text} ({names})", text=text, names=names_phrase(parameters))


def _number(value: float | Rule) -> str:
    return value.value if isinstance(value, Rule) else f"{value:.4g}"


_MISSING = {
    Missing.UNJUDGED_INPUTS: ("it is unknown whether it began here, because these inputs could not be judged: {names}"),
    Missing.INPUTS: (
        "it is unknown whether it began here, because the inputs of calls were not collected on the {side} side"
    ),
    Missing.INCOMING_GRADIENTS: (
        "it is unknown whether it began here, because the incoming gradients of calls were not collected on the "
        "{side} side"
    ),
    Missing.FAILED_INPUTS: (
        "it is unknown whether it began here, because these inputs could not be collected: {names}"
    ),
    Missing.FORWARD: "it is unknown whether it began here, because its forward call was not collected",
    Missing.SAVED_BY_NAME: (
        "it is unknown whether it began here, because it was saved by name, but its inputs were not"
    ),
    Missing.PRODUCER: "it is unknown whether it began earlier, because {names} could not be judged",
    Missing.EFFECT: "its effect is unknown: it would be smaller than the noise of the outputs",
    Missing.EARLIER: (
        "{names} differ by more than rounding, but not by more than two correct runs drift, and the step before was "
        "not compared"
    ),
    Missing.IN_BETWEEN: "no recorded call begins it, records in between are missing",
}


def kind(finding: Divergence) -> str:
    """Return the kind; for code between two calls also these calls and the cell."""
    return str(kind_phrase(finding))


def kind_phrase(finding: Divergence) -> Phrase:
    """Return the kind as a phrase."""
    if not isinstance(finding.evidence, Between):
        return phrase(finding.kind.name)
    if finding.evidence.after:
        return phrase(
            "code between {before} and {name} in {cell}",
            before=finding.evidence.after,
            name=finding.name,
            cell=finding.cell,
        )
    return phrase("code between the start and {name} in {cell}", name=finding.name, cell=finding.cell)


def where_to_look(found: Divergence) -> Phrase:
    """Return where to look next, by the kind of a finding, if no collection shows more."""
    if isinstance(found.evidence, Computed) and found.evidence.without_gradient:
        return phrase(_LOOK_AT_GRADIENT)
    return found.kind.where_to_look


_LOOK_AT_GRADIENT = (
    "at what this call was given forward: whether a parameter of it is frozen, or left out of those that gradients are "
    "taken of, or an input is detached"
)


def finding_of(found: Divergence, step: int | None, rank: int | None) -> Finding:
    """Return a divergence of a step and rank as a finding."""
    return found.as_finding(step, rank, reason_phrase(found))


def short(finding: Divergence) -> str:
    """Return `NAME in CELL: KIND`."""
    return str(short_phrase(finding))


def short_phrase(finding: Divergence) -> Phrase:
    """Return the same as a phrase."""
    return phrase("{name} in {cell}: {kind}", name=finding.name, cell=finding.cell, kind=kind_phrase(finding))


def full(finding: Divergence) -> str:
    """Return `NAME in CELL: KIND: REASON (FILE:LINE)`, the answer to a comparison of two dumps."""
    return str(full_phrase(finding))


def full_phrase(finding: Divergence) -> Phrase:
    """Return the same as a phrase."""
    place = f" ({finding.file}:{finding.line})" if finding.file else ""
    text = phrase("{call}: {reason}", call=short_phrase(finding), reason=reason_phrase(finding))
    return phrase("{text}{place}", text=text, place=place)


def reason(finding: Divergence) -> str:
    """Return the evidence, the calls before it that could not be judged, and where a difference within tolerance
    exceeds it."""
    return str(reason_phrase(finding))


def reason_phrase(finding: Divergence) -> Phrase:
    """Return the reason as a phrase."""
    text = describe(finding.evidence)
    if hidden := finding.hidden:
        text = phrase(
            "{text}; {number} call before it could not be judged in full: {names}"
            if len(hidden) == 1
            else "{text}; {number} calls before it could not be judged in full: {names}",
            text=text,
            number=len(hidden),
            names=names_phrase(hidden),
        )
    if finding.grade != "pass":
        return text
    if finding.beyond is None:
        return phrase("{text}; within tolerance here, and nothing after it is beyond", text=text)
    return phrase(
        "{text}; within tolerance here, {grade} at {name}",
        text=text,
        grade=finding.beyond.grade,
        name=finding.beyond.name,
    )


@singledispatch
def describe(evidence: Evidence) -> Phrase:
    """Return the evidence of a finding as a sentence."""
    raise TypeError(evidence)


@describe.register
def _(found: Computed) -> Phrase:
    difference = _difference(found.difference)
    if found.is_beyond_inputs:
        return phrase("its inputs differ and do not explain this: {difference}", difference=difference)
    if found.is_of_parameters:
        return phrase(
            "all inputs agree, but the gradients of its parameters do not: {difference}", difference=difference
        )
    if not found.has_inputs:
        text = phrase("it has no inputs, but {difference}", difference=difference)
    elif found.are_inputs_open:
        text = phrase("all inputs that were compared agree, but {difference}", difference=difference)
    else:
        text = phrase("all inputs agree, but {difference}", difference=difference)
    if found.without_gradient:
        return phrase("{text}; the {side} requires no gradient there", text=text, side=found.without_gradient)
    return text


_DRAWS = {
    (False, True): "fix seeds with seed_all or set p=0; {difference}",
    (False, False): "fix seeds with seed_all; {difference}",
    (True, True): "two frameworks draw different numbers from one seed, set p=0; {difference}",
    (True, False): "two frameworks draw different numbers from one seed, load the same values on both; {difference}",
}
"""Templates by whether the sides are two frameworks, and whether the operation is a dropout."""


@describe.register
def _(found: Drawn) -> Phrase:
    return phrase(_DRAWS[found.has_other_names, found.is_dropout], difference=_difference(found.difference))


@describe.register
def _(found: Argument) -> Phrase:
    place = found.difference.place
    if found.kind is ArgumentKind.EXCHANGED:
        target, golden = found.parameters
        return phrase("{place} is the parameter {target}, golden {golden}", place=place, target=target, golden=golden)
    if found.kind is ArgumentKind.TENSOR:
        return phrase("{difference}; no recorded call returned it", difference=_difference(found.difference))
    if found.kind is ArgumentKind.VALUE:
        return phrase("{reasons}", reasons=reasons_phrase(found.difference.reasons))
    if found.difference.grade == "error":
        return phrase("{place}: {reasons}", place=place, reasons=reasons_phrase(found.difference.reasons))
    return phrase("{place} is passed on the {side} side only", place=place, side=found.side)


@describe.register
def _(found: RunInput) -> Phrase:
    return phrase(
        "{difference}; it is among the first inputs of the run, and no recorded call returned it",
        difference=_difference(found.difference),
    )


@describe.register
def _(found: Between) -> Phrase:
    if found.agreeing:
        before = phrase(
            "{number} call that was compared before it agrees"
            if found.agreeing == 1
            else "{number} calls that were compared before it agree",
            number=found.agreeing,
        )
    else:
        before = phrase("no call before it was compared")
    if found.dataflow is Dataflow.SWAPPED:
        first, second = found.names
        return phrase(
            "the arguments {first} and {second} are swapped; {before}", first=first, second=second, before=before
        )
    what = _difference(found.difference)
    if found.is_gradient:
        what = phrase("the incoming gradient {difference}", difference=what)
    if found.dataflow is Dataflow.REWIRED:
        target, golden = (name or phrase("no recorded call") for name in found.names)
        return phrase(
            "{what}; it comes from {target}, golden from {golden}; {before}",
            what=what,
            target=target,
            golden=golden,
            before=before,
        )
    if found.dataflow is Dataflow.UNRECORDED:
        return phrase("{what}; no recorded call returned it; {before}", what=what, before=before)
    if found.dataflow is Dataflow.UNEXPLAINED:
        return phrase(
            "{what}; {producer} returned it, and no recorded call begins the difference",
            what=what,
            producer=found.names[0],
        )
    if found.dataflow is Dataflow.PRODUCER:
        return phrase("{what}, although {producer}, which it comes from, agrees", what=what, producer=found.names[0])
    if found.dataflow is Dataflow.EXCUSED:
        return phrase(
            "{what}; it comes from {producer}, whose difference your --ignore, --atol or --rtol excuses",
            what=what,
            producer=found.names[0],
        )
    return phrase("{what}; {before}", what=what, before=before)


@describe.register
def _(found: Parameters) -> Phrase:
    is_one = len(found.names) == 1
    text = phrase(
        "{number} parameter differs: {names}" if is_one else "{number} parameters differ: {names}",
        number=len(found.names),
        names=names_phrase(found.names),
    )
    if found.total > len(found.names):
        text = phrase("{text} ({total} in the whole step)", text=text, total=found.total)
    if not found.step:
        return text
    if all(map(is_running_statistic, found.names)):
        return phrase(
            "{text}; this is one of the running statistics, look at the layer's momentum (MindSpore's 0.9 is PyTorch's "
            "0.1) and at the batches before"
            if is_one
            else "{text}; these are running statistics, look at the layer's momentum (MindSpore's 0.9 is PyTorch's "
            "0.1) and at the batches before",
            text=text,
        )
    return phrase(
        "{text}; an earlier update already differed (look at the optimizer, the learning rate and earlier gradients), "
        "or weights were not transferred to this model",
        text=text,
    )


@describe.register
def _(found: Precision) -> Phrase:
    return phrase(
        "only the {side} rounds to {dtype} here, the {there} keeps {other}",
        side=found.side,
        dtype=found.dtype,
        there="golden" if found.side == "target" else "target",
        other=found.other,
    )


@describe.register
def _(found: Harmless) -> Phrase:
    return phrase(_HARMLESS[found.ground], difference=_difference(found.difference))


_HARMLESS = {
    NoConsequence.AGREES: "{difference}; what recorded calls compute from it agrees",
    NoConsequence.UNUSED: "{difference}; no recorded call uses it",
    NoConsequence.UNCOMPARED: "{difference}; nothing that recorded calls compute from it is compared",
}


@describe.register
def _(found: Updated) -> Phrase:
    if found.is_drift:
        return phrase(
            "{who} have drifted as far as the noise of two runs explains; no update differs by more",
            who=_count(found.judgement.agreeing, 0),
        )
    return phrase(
        "{updates}; by the update after step {step}", updates=updates(found.judgement), step=found.judgement.step - 1
    )


@describe.register
def _(found: OtherCall) -> Phrase:
    here, there = ("target", "golden") if found.side == "target" else ("golden", "target")
    sides = {"here": here, "there": there}
    if found.is_frozen:
        return phrase(
            "only the {here} has gradients of its parameters, in the {there} they are frozen, or its output is "
            "detached",
            **sides,
        )
    if found.others:
        return phrase(
            "only the {here} makes this call; the {there} calls {others} instead",
            **sides,
            others=names_phrase(found.others),
        )
    if found.goes_on and found.known_as:
        return phrase(
            "only the {here} makes this call; the {there} continues with {name} (the {here}'s {known_as})",
            **sides,
            name=found.goes_on,
            known_as=found.known_as,
        )
    if found.goes_on:
        return phrase("only the {here} makes this call; the {there} continues with {name}", **sides, name=found.goes_on)
    if found.before:
        return phrase("only the {here} makes this call; the {there} ends after {name}", **sides, name=found.before)
    return phrase("only the {here} makes this call; the {there} ends", **sides)


@describe.register
def _(found: Unclear) -> Phrase:
    missing = phrase(_MISSING[found.missing], names=names_phrase(found.names), side=found.side)
    if not found.difference:
        return missing
    return phrase("{what}; {missing}", what=_difference(found.difference), missing=missing)


def _difference(found: Difference) -> Phrase:
    if not found.reasons:
        return phrase("{place} differs within tolerance", place=found.place)
    reasons = reasons_phrase(found.reasons)
    if found.reasons[0].why is Why.VALUES:  # begins with their place
        return phrase("{reasons}", reasons=reasons)
    return phrase("{place} differs ({reasons})", place=found.place, reasons=reasons)
