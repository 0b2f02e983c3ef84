"""Known causes of differences: those that fit the data of a finding, as one line to try first.

Each cause is a row in `CAUSES`: a function that returns a sentence if the kind, operation, argument and evidence of the
finding fit, and None otherwise. The first row that fits is printed. A cause is a suggestion, never a verdict.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import isclose

from msprobe.base import names
from msprobe.base.phrase import Phrase, Words, phrase
from msprobe.compare.core.reason import Reason, Why
from msprobe.compare.core.tensor import source_of
from msprobe.compare.judge.judged import Comparison, Mode
from msprobe.compare.locate.finding import (
    Argument,
    Computed,
    Difference,
    Divergence,
    Missing,
    OtherCall,
    Parameters,
    RunInput,
    Unclear,
    UpdateCause,
    Updated,
    UpdateDifference,
)
from msprobe.compare.noise.operation import operation_of
from msprobe.findings.catalogue import comparison as kinds
from msprobe.replay.operations import Kind
from msprobe.store.record import PARAMETERS

from .defaults import NAMES, Default, argument_at, defaults_of

_SEEDS = "https://docs.pytorch.org/docs/stable/notes/randomness.html"
_WARM_UP = "https://huggingface.co/docs/transformers/main_classes/optimizer_schedules"

_OPTIMIZER_ARGUMENTS = {UpdateCause.EPS: "eps", UpdateCause.WEIGHT_DECAY: "weight_decay"}

_TWO_ENDS = {("batch_norm", "momentum"), ("dropout", "p")}
"""Arguments whose complement MindSpore uses: 0.9 there is 0.1 in PyTorch."""

_NEAR = 1e-3
"""Relative difference up to which a number that was fitted or recorded as float32 is a default."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A known cause that fits a finding: `text` is the suggestion, `source` the documentation of the cause."""

    cause: str
    text: Words
    source: str

    @property
    def line(self) -> Phrase:
        """Return the line after the answer."""
        return phrase("Try: {what}", what=self.text)

    def as_object(self) -> dict[str, str]:
        """Return it in the form of the JSON files."""
        return {"cause": self.cause, "text": str(self.text), "source": self.source}


@dataclass(frozen=True)
class Case:
    """A finding with the data that its cause may depend on. `frameworks` are those of target and golden, `step` and
    `mode` those of the comparison; `initial` is the number of parameters of the target that are not constant, as random
    initial weights are."""

    finding: Divergence
    frameworks: tuple[str, str]
    step: int | None = None
    mode: Mode = "statistics"
    initial: int = 0

    @cached_property
    def name(self) -> names.Name:
        """Return the name of the call."""
        return names.parse(self.finding.name)

    @cached_property
    def operation(self) -> str:
        """Return the operation that the call computes, by its name in `msprobe.replay.operations`; empty if unknown."""
        known = operation_of(self.name)
        return known.name if known else ""

    @property
    def is_random(self) -> bool:
        """Return whether the result of the call depends on random numbers."""
        known = operation_of(self.name)
        return known is not None and known.kind is Kind.RANDOM

    @cached_property
    def difference(self) -> Difference | None:
        """Return the pair of records that differs, if the evidence is one."""
        found = getattr(self.finding.evidence, "difference", None)
        return found if isinstance(found, Difference) else None

    @cached_property
    def argument(self) -> str:
        """Return the name of the argument that differs, in PyTorch's terms; empty if it is not an argument."""
        if not isinstance(self.finding.evidence, Argument) or self.difference is None:
            return ""
        last = self.difference.place.rpartition(".")[2]
        name = argument_at(self.operation, int(last)) if last.isdigit() else last
        return NAMES.get(name, name)

    @cached_property
    def values(self) -> tuple[object, object] | None:
        """Return the values of an argument on both sides; None if one of them has none."""
        reasons = self.difference.reasons if self.difference is not None else ()
        found: Reason | None = next((reason for reason in reasons if reason.why is Why.VALUES), None)
        return None if found is None else (found.target, found.golden)

    @property
    def differences(self) -> tuple[UpdateDifference, ...]:
        """Return the settings of the optimizer that differ."""
        evidence = self.finding.evidence
        return evidence.judgement.differences if isinstance(evidence, Updated) else ()

    def differs_in(self, cause: UpdateCause) -> UpdateDifference | None:
        """Return the difference of the optimizers that has this cause, or may have it."""
        return next((one for one in self.differences if cause in (one.cause, *one.possible)), None)


def hint(comparison: Comparison, finding: Divergence | None) -> Hint | None:
    """Return the known cause that fits the first finding of a comparison; None if there is none."""
    if finding is None:
        return None
    dumps = comparison.target, comparison.golden
    frameworks = dumps[0].framework, dumps[1].framework
    initial = _initial(comparison) if isinstance(finding.evidence, Parameters) else 0
    return hint_of(Case(finding, frameworks, dumps[0].step, comparison.mode, initial))


def hint_of(case: Case) -> Hint | None:
    """Return the first known cause that fits a case."""
    for name, fits in CAUSES.items():
        if (found := fits(case)) is not None:
            text, source = found
            return Hint(name, text, source)
    return None


def _initial(comparison: Comparison) -> int:
    columns = comparison.target.columns
    return len(
        {
            columns.source[row] or columns.path_of(row)
            for row, part in enumerate(columns.part)
            if (part == PARAMETERS or source_of(columns.source[row]).origin == "parameter")
            and columns.max[row] > columns.min[row]
        }
    )


_Found = tuple[Phrase, str]


def _default_of_argument(case: Case) -> _Found | None:
    """Return the cause that an argument has the default of one side's framework, which differs on the other side."""
    if not case.argument or case.values is None or (case.operation, case.argument) in _TWO_ENDS:
        return None
    if pair := _defaults(case.operation, case.argument, case.frameworks, case.values):
        return _set_explicitly(case.argument, pair)
    return None


def _default_of_layer(case: Case) -> _Found | None:
    """Return the cause that a layer of two frameworks has different defaults of a setting that is not recorded."""
    evidence = case.finding.evidence
    if not isinstance(evidence, Computed) or evidence.is_beyond_inputs or len(set(case.frameworks)) == 1:
        return None
    if case.name.kind != "cell":  # a function is passed its arguments, and they are recorded
        return None
    for argument in ("eps", "approximate"):
        for target in defaults_of(case.operation, argument, case.frameworks[0]):
            for golden in defaults_of(case.operation, argument, case.frameworks[1]):
                if not _is(target.value, golden.value) and _is_layer(target) and _is_layer(golden):
                    return _set_explicitly(argument, (target, golden))
    return None


def _is_layer(row: Default) -> bool:
    return row.owner.rpartition(".")[2][:1].isupper()


def _set_explicitly(argument: str, pair: tuple[Default, Default]) -> _Found:
    target, golden = pair
    text = phrase(
        "pass {argument} explicitly on both sides: the default of {target} is {value}, that of {golden} is {other}",
        argument=argument,
        target=target.owner,
        value=repr(target.value),
        golden=golden.owner,
        other=repr(golden.value),
    )
    return text, golden.source if target.framework == "pytorch" else target.source


def _defaults(
    operation: str, argument: str, frameworks: tuple[str, str], values: tuple[object, object]
) -> tuple[Default, Default] | None:
    """Return the defaults of both sides, if they differ and both values, or one of them, are defaults: a layer that
    keeps its default, and another that was written for the default of the other side."""
    rows = [tuple(defaults_of(operation, argument, framework)) for framework in frameworks]
    kept = [[row for row in side if _is(row.value, value)] for side, value in zip(rows, values, strict=True)]
    if all(kept):
        return kept[0][0], kept[1][0]
    for side in (0, 1):
        others = [row for row in rows[1 - side] if kept[side] and not _is(row.value, kept[side][0].value)]
        if others and kept[side]:
            pair = kept[side][0], others[0]
            return pair if side == 0 else pair[::-1]
    return None


def _is(value: object, other: object) -> bool:
    """Return whether two values of an argument mean the same."""
    if isinstance(value, bool | str) or isinstance(other, bool | str):
        return {"tanh": True, "none": False}.get(str(value), value) == {"tanh": True, "none": False}.get(
            str(other), other
        )
    if isinstance(value, int | float) and isinstance(other, int | float):
        return isclose(value, other, rel_tol=_NEAR, abs_tol=0.0)
    return value is other


def _gelu(case: Case) -> _Found | None:
    """Return the cause that the two sides compute different forms of GELU, which differ by up to 5e-4, or one of which
    is written out with tanh."""
    evidence = case.finding.evidence
    written = isinstance(evidence, OtherCall) and any(_word(name) == "tanh" for name in evidence.others)
    computes = isinstance(evidence, Computed) and not evidence.is_beyond_inputs and _is_of_gelu(case)
    is_argument = case.argument == "approximate"
    if case.operation not in ("gelu", "fast_gelu") or not (written or computes or is_argument):
        return None
    text = phrase(
        "set approximate to the same value on both sides: mindspore.nn.GELU uses the tanh form by default, "
        "torch.nn.GELU and mint.nn.GELU the exact one"
    )
    return text, next(defaults_of("gelu", "approximate", "pytorch")).source


_APPROXIMATED = {"gelu": 5e-3, "fast_gelu": 3e-2}
"""Largest difference of the result of another form, relative to its scale. That of the tanh form is 5e-4 and of x *
sigmoid(1.702 x) 2.1e-2, evaluated on [-8, 8]; the rest is for rounding to bfloat16."""


def _is_of_gelu(case: Case) -> bool:
    """Return whether a difference is at most that of two forms of GELU, as far as its reasons have amounts."""
    amounts = [r.amount for r in (case.difference.reasons if case.difference else ()) if r.amount]
    return all(amount <= _APPROXIMATED.get(case.operation, 0.0) for amount in amounts)


def _word(call: str) -> str:
    return names.parse(call).stem.rpartition(".")[2]


def _complement(case: Case) -> _Found | None:
    """Return the cause that two values of an argument sum to 1: MindSpore and PyTorch use complementary values."""
    is_of_two_ends = (case.operation, case.argument) in _TWO_ENDS
    if "mindspore" not in case.frameworks or not is_of_two_ends or case.values is None:
        return None
    target, golden = case.values
    if not (isinstance(target, float) and isinstance(golden, float) and isclose(target + golden, 1.0)):
        return None
    return _of_complement(case.operation, case.argument)


def _of_complement(operation: str, argument: str) -> _Found:
    mindspore = next(defaults_of(operation, argument, "mindspore"))
    pytorch = next(defaults_of(operation, argument, "pytorch"))
    text = phrase(
        "use 1 - {value} on one side: {argument} of {mindspore} is 1 - {other} of {pytorch}",
        value=pytorch.argument,
        argument=mindspore.argument,
        mindspore=mindspore.owner,
        other=pytorch.argument,
        pytorch=pytorch.owner,
    )
    return text, mindspore.source


def _running_statistics(case: Case) -> _Found | None:
    evidence = case.finding.evidence
    if not isinstance(evidence, Parameters) or "mindspore" not in case.frameworks:
        return None
    if not evidence.names or not all(map(names.is_running_statistic, evidence.names)):
        return None
    return _of_complement("batch_norm", "momentum")


def _bias_correction(case: Case) -> _Found | None:
    """Return the cause that `mindspore.nn.AdamWeightDecay` does not correct the bias of its moments."""
    if (found := case.differs_in(UpdateCause.BIAS_CORRECTION)) is None:
        return None
    without = case.frameworks[0 if (found.factor or 0) > 1 else 1]
    source = next(defaults_of("adam", "eps", "mindspore")).source
    if without == "mindspore" or found.cause is not UpdateCause.BIAS_CORRECTION:
        text = phrase(
            "use mint.optim.AdamW or mindspore.experimental.optim.AdamW: mindspore.nn.AdamWeightDecay does not correct "
            "the bias of its moments"
        )
        return (text, source) if "mindspore" in case.frameworks else None
    return phrase("enable (or disable) the bias correction of Adam on both sides"), source


def _default_of_optimizer(case: Case) -> _Found | None:
    for one in case.differences:
        if (argument := _OPTIMIZER_ARGUMENTS.get(one.cause)) is None or one.target is None or one.golden is None:
            continue
        if pair := _defaults("adam", argument, case.frameworks, (one.target, one.golden)):
            return _set_explicitly(argument, pair)
    return None


def _no_learning_rate(case: Case) -> _Found | None:
    """Return the cause that one side updates no parameter at all: its learning rate is 0, as in the first step of a
    warm-up."""
    rate, source = case.differs_in(UpdateCause.LEARNING_RATE), _WARM_UP
    frozen = {UpdateCause.NOT_UPDATED: "target", UpdateCause.UPDATED_HERE: "golden"}
    side = next((frozen[d.cause] for d in case.differences if d.cause in frozen and not d.agreeing), "")
    if rate is not None and 0 in (rate.target, rate.golden):
        side = "target" if rate.target == 0 else "golden"
    if not side:
        return None
    text = phrase(
        "print the learning rate of this step: no parameter of the {side} is updated, as with a warm-up that "
        "starts at 0, or an optimizer without parameters",
        side=side,
    )
    return text, source


def _clipping(case: Case) -> _Found | None:
    if case.differs_in(UpdateCause.CLIPPING) is None:
        return None
    row = next(defaults_of("clip", "clip_norm", "mindspore"))
    text = phrase(
        "clip gradients in the same way on both sides, with the same max_norm, after unscaling the loss (the "
        "default of {owner} is {value})",
        owner=row.owner,
        value=repr(row.value),
    )
    return text, row.source


def _random(case: Case) -> _Found | None:
    if not case.is_random or case.finding.kind is not kinds.COMPUTES:  # one of its inputs may equally be wrong
        return None
    return (
        phrase(
            "call seed_all(seed=1234, mode=True) on both sides before constructing the model, or set p=0: this "
            "operation is random"
        ),
        _SEEDS,
    )


def _initial_weights(case: Case) -> _Found | None:
    """Return the cause that most of the parameters that are not constant differ before any update: they were drawn with
    other seeds."""
    evidence = case.finding.evidence
    if not isinstance(evidence, Parameters) or case.step:
        return None
    if evidence.total < 2 or 2 * evidence.total <= case.initial or not case.initial:
        return None
    if all(map(names.is_running_statistic, evidence.names)):
        return None
    text = phrase(
        "load the same checkpoint on both sides, or within one framework call seed_all(seed=1234, mode=True) "
        "before constructing the model"
    )
    return text, _SEEDS


def _order_of_samples(case: Case) -> _Found | None:
    """Return the cause that most of the integers at the beginning of a run differ: other samples, or another order of
    them."""
    evidence = case.finding.evidence
    if not isinstance(evidence, RunInput):
        return None
    reasons = evidence.difference.reasons
    counts = [(r.number, r.size) for r in reasons if r.why is Why.INTEGERS]
    if not any(2 * number >= size for number, size in counts):
        return None
    text = phrase("feed both runs the same samples in the same order: disable shuffling, or fix its seed")
    return text, _SEEDS


_MISSING_VALUES = {Missing.UNJUDGED_INPUTS, Missing.PRODUCER}
"""Records that exist, and could not be judged by their statistics or digests."""


def _more_data(case: Case) -> _Found | None:
    """Return the cause that statistics, or a later step alone, are not sufficient."""
    evidence = case.finding.evidence
    is_later = (bool(case.step) and isinstance(evidence, Parameters)) or (
        isinstance(evidence, Updated) and evidence.judgement.lacks_step_before
    )
    is_unknown = any(one.cause is UpdateCause.UNKNOWN for one in case.differences)
    is_open = isinstance(evidence, Unclear) and evidence.missing in _MISSING_VALUES
    if not (is_later or ((is_open or is_unknown) and case.mode != "tensor")):
        return None
    text = phrase(
        "collect task tensor from step 0 on, on both sides, so that the first step that differs can be judged"
    )
    return text, "docs: noise, by statistics"


CAUSES: dict[str, Callable[[Case], _Found | None]] = {
    "gelu": _gelu,
    "complement": _complement,
    "default": _default_of_argument,
    "layer_default": _default_of_layer,
    "running_statistics": _running_statistics,
    "bias_correction": _bias_correction,
    "learning_rate_0": _no_learning_rate,
    "clipping": _clipping,
    "optimizer_default": _default_of_optimizer,
    "random": _random,
    "initial_weights": _initial_weights,
    "sample_order": _order_of_samples,
    "more_data": _more_data,
}
"""By name: the rule of each known cause, in the order in which they are tried."""
