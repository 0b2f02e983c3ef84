"""How a pair of records was decided: the rule, its numbers, and what would have to change for another verdict."""

import math
from dataclasses import dataclass
from enum import Enum

from msprobe.base.phrase import Phrase, Words, phrase
from msprobe.compare.core.noise import Evidence, Sign, State
from msprobe.compare.core.reason import CAUSES, DRIFT, Cause, Reasons, Why

from .judged import EQUAL, NO_CAUSE, Comparison
from .verdict import GRADES, Grade

_OF_UPDATES = DRIFT | {Why.UPDATE_DIFFERS}


class Rule(Enum):
    """The rule that decided a pair of records."""

    EQUAL = "equal"
    """Bitwise equal; of statistics, all statistics are equal."""
    REPLAY = "replay"
    """The residual of the call, executed again in float64 on its own inputs."""
    INPUTS = "inputs"
    """The relative error of the output compared with that of the inputs."""
    AMPLIFICATION = "amplification"
    """The same by statistics."""
    IDENTITY = "identity"
    """A relation that holds between the statistics of the inputs and outputs of a call."""
    UPDATE = "update"
    """The update that produced a parameter, or the drift of parameters."""
    PRODUCERS = "producers"
    """The calls that produced it: it differs by no more than they explain."""
    DATAFLOW = "dataflow"
    """The calls that produced it do not explain it, or it was not produced by a call."""
    EXEMPTION = "exemption"
    """It could not show a fault, for the stated cause."""
    OPEN = "open"
    """It could not be judged, for the stated cause."""
    TOLERANCE = "tolerance"
    """The table of tolerances alone."""


@dataclass(frozen=True, slots=True)
class Decision:
    """How one pair of records was decided.

    state : its `State` as a word; empty if it differs and was not judged along the dataflow.
    evidence : the numbers that decided along the dataflow, if any did.
    excess : how many times the tolerance it differs by; NaN if the tolerance was not applied.
    cause : why it has no verdict.
    """

    grade: Grade
    state: str
    rule: Rule
    evidence: Evidence | None
    excess: float
    reasons: Reasons
    cause: Cause | None

    @property
    def differs_or_is_open(self) -> bool:
        """Whether it does not pass, for another reason than that it could not show a fault."""
        return self.grade != "pass" and (self.cause is None or not self.cause.is_exempt)


def decision_of(comparison: Comparison, row: int) -> Decision:
    """Return how a pair of records was decided."""
    noise = comparison.noise
    return Decision(
        GRADES[comparison.grades[row]],
        state_of(comparison, row),
        rule_of(comparison, row),
        None if noise is None else noise.evidence.get(row),
        float(comparison.excess[row]) if comparison.which[row] >= 0 else math.nan,
        comparison.reasons_at(row),
        None if comparison.causes[row] == NO_CAUSE else CAUSES[comparison.causes[row]],
    )


def rule_of(comparison: Comparison, row: int) -> Rule:
    """Return the rule that decided a pair of records."""
    noise, kinds = comparison.noise, {reason.why for reason in comparison.reasons_at(row)}
    if comparison.causes[row] != NO_CAUSE:
        return Rule.EXEMPTION if CAUSES[comparison.causes[row]].is_exempt else Rule.OPEN
    if comparison.equal[row] == EQUAL:
        return Rule.EQUAL
    if kinds & _OF_UPDATES:
        return Rule.UPDATE
    evidence = None if noise is None else noise.evidence.get(row)
    if evidence is not None:
        if evidence.law:
            return Rule.IDENTITY
        if evidence.is_by_statistics:
            return Rule.AMPLIFICATION
        return Rule.INPUTS if math.isnan(evidence.bound) or math.isnan(evidence.residual) else Rule.REPLAY
    state = State.EQUAL if noise is None else State(noise.states[row])
    if state in (State.NOISE, State.PROPAGATED):
        return Rule.PRODUCERS
    return Rule.DATAFLOW if state == State.DIVERGENT else Rule.TOLERANCE


def state_of(comparison: Comparison, row: int) -> str:
    """Return the state of a pair of records as a word; empty if it differs and was not judged along the dataflow."""
    noise = comparison.noise
    if noise is not None and noise.states[row] != State.EQUAL:
        return State(noise.states[row]).name.lower()
    return "equal" if comparison.equal[row] == EQUAL else ""


_RULES = {
    Rule.EQUAL: "bitwise equality",
    Rule.REPLAY: "the residual of the call, executed again in float64 on its own inputs",
    Rule.INPUTS: "the relative error of the output against that of the inputs",
    Rule.AMPLIFICATION: "the difference of the statistics against those of the inputs",
    Rule.IDENTITY: "an identity between the statistics of the call: {law}",
    Rule.UPDATE: "the update of the parameter",
    Rule.PRODUCERS: "the calls that produced it",
    Rule.DATAFLOW: "the dataflow: no call that differs produced it",
    Rule.EXEMPTION: "exempt: {cause}",
    Rule.OPEN: "could not be judged: {cause}",
    Rule.TOLERANCE: "the table of tolerances",
}

_WITHOUT_SIGN = {
    Sign.COARSER_THAN_OTHER_LAYERS: "noise if the same call of most other layers were as coarse",
    Sign.ALONE_IN_CLASS: "noise if other calls of its kind were as coarse",
    Sign.SINGLE_ELEMENTS: "noise without the single elements beyond noise",
    Sign.SYSTEMATIC: "noise without the common factor or offset",
    Sign.BITS: "noise if other calls of its kind were not bitwise equal",
}
"""Conditions for another verdict if a sign decided, other than the size of a residual."""


def decision_phrases(decision: Decision) -> tuple[Words, ...]:
    """Return rule, numbers, and the condition for another verdict; nothing for what is equal."""
    if decision.rule is Rule.EQUAL:
        return ()
    return tuple(filter(None, (rule_phrase(decision), numbers_phrase(decision), otherwise_phrase(decision))))


def rule_phrase(decision: Decision) -> Phrase:
    """Return the rule that decided."""
    law = "" if decision.evidence is None else decision.evidence.law
    cause = "" if decision.cause is None else phrase(decision.cause.value)
    rule = phrase(_RULES[decision.rule], law=law, cause=cause)
    if decision.state == "propagated" and decision.evidence is not None:
        return phrase("{rule}: the call itself is correct, the difference is inherited from its inputs", rule=rule)
    return rule


def numbers_phrase(decision: Decision) -> Words:
    """Return the numbers of the rule; empty if it has none."""
    found = decision.evidence
    if decision.rule is Rule.TOLERANCE and not math.isnan(decision.excess):
        return phrase("{excess:.3g} times the tolerance", excess=decision.excess)
    if found is None:
        return ""
    by = "" if found.source.value == "built-in" else phrase(" ({whose} limit)", whose=phrase(found.source.value))
    if decision.rule is Rule.REPLAY:
        return phrase(
            "residual {target:.2g}, golden {golden:.2g}, noise up to {bound:.2g}{by}; precision {precision}{sign}",
            target=found.residual,
            golden=found.golden_residual,
            bound=found.bound,
            by=by,
            precision=phrase(found.is_of.value),
            sign="" if found.sign is Sign.NONE else phrase("; {sign}", sign=phrase(found.sign.value)),
        )
    if decision.rule is Rule.IDENTITY:
        return phrase(
            "the {statistic} is off by {target:.2g}, golden {golden:.2g}, noise up to {bound:.2g}{by}",
            statistic=found.statistic,
            target=found.residual,
            golden=found.golden_residual,
            bound=found.bound,
            by=by,
        )
    numbers = {"apart": found.apart, "allowed": found.explained}
    return phrase("differs by {apart:.2g}; its inputs explain {allowed:.2g}{by}", **numbers, by=by)


def otherwise_phrase(decision: Decision) -> Words:
    """Return what would have to change for another verdict; empty if that is not a number."""
    found = decision.evidence
    if decision.rule is Rule.TOLERANCE and decision.excess > 0 and math.isfinite(decision.excess):
        times = phrase("{times:.3g} times", times=1 / decision.excess)
        if decision.grade == "pass":
            return phrase("would not pass if the difference were {times} as large", times=times)
        return phrase("would pass if the difference were {times} as large", times=times)
    if decision.rule is Rule.OPEN and any(reason.why is Why.DRIFT_EARLIER for reason in decision.reasons):
        return phrase("the step before, or a calibration, would decide")
    if found is None or decision.cause is not None:
        return ""
    is_noise = found.sign is Sign.NONE
    limit = found.bound if decision.rule in (Rule.REPLAY, Rule.IDENTITY) else found.explained
    if not math.isfinite(limit):
        return ""
    if found.sign in _WITHOUT_SIGN:
        return phrase(_WITHOUT_SIGN[found.sign])
    return phrase("wrong above {limit:.2g}" if is_noise else "noise up to {limit:.2g}", limit=limit)
