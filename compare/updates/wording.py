"""What was found of updates, in a sentence."""

from collections.abc import Sequence

from .rules import Rule
from .verdicts import Basis, Cause, Difference, UpdateJudgement

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
    said = [_difference(one) for one in judgement.differences]
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


def _difference(one: Difference) -> str:
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


def _values(one: Difference) -> str:
    if one.target is None or one.golden is None:
        return ""
    return f" ({_number(one.target)}, golden {_number(one.golden)})"


def _limits(one: Difference) -> str:
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
