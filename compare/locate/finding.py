"""Divergences as data: their kinds and evidence; `wording.py` renders them as sentences."""

from dataclasses import dataclass
from enum import Enum
from math import nan
from typing import Any, Literal, TypeAlias

from msprobe.base.phrase import Words
from msprobe.compare.core.noise import NoConsequence
from msprobe.compare.core.reason import Reasons
from msprobe.compare.judge.verdict import Grade
from msprobe.compare.judge.wording import sentences
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.data import as_data
from msprobe.findings.finding import Finding, Place, source_of
from msprobe.findings.kind import Kind
from msprobe.findings.notebook import html_of


class Rule(Enum):
    """The update rule of an optimizer."""

    SGD = "SGD"
    MOMENTUM = "momentum"
    NESTEROV = "Nesterov momentum"
    ADAM = "Adam"
    ADAMW = "AdamW"


class Status(Enum):
    """Whether an update of a parameter agrees with the golden's within noise. `DRIFTED`: the step before is not known,
    and the weights differ by more than rounding, but not by more than two correct runs drift."""

    AGREES = "agrees"
    DRIFTED = "drifted"
    DIFFERS = "differs"
    UNSEEN = "unseen"


class Basis(Enum):
    """The basis of a status.

    | basis | needs | agrees if |
    |---|---|---|
    | `SETTINGS` | the gradients of the previous step; for a state, of all | settings fitted to each side are equal |
    | `GRADIENTS` | the gradients of the previous step | updates differ as much as the gradients |
    | `UPDATES` | the weights of the previous step | updates hardly differ |
    | `DRIFT` | only the weights | weights differ by rounding, or by no more than a calibration allows |
    | `STATISTICS` | statistics of the previous step | means changed by equal amounts |
    | `ROUNDING` | the gradient of any step | it is rounding error on both sides, so that every update is equally good |
    """

    SETTINGS = "settings"
    GRADIENTS = "gradients"
    UPDATES = "updates"
    DRIFT = "drift"
    STATISTICS = "statistics"
    ROUNDING = "rounding"


class UpdateCause(Enum):
    """Causes of differing updates; `UPDATED_HERE`: the golden does not update a parameter that the target updates."""

    LEARNING_RATE = "learning rate"
    WEIGHT_DECAY = "weight decay"
    MOMENTUM = "momentum"
    BETA1 = "beta1"
    BETA2 = "beta2"
    EPS = "eps"
    BIAS_CORRECTION = "bias correction"
    CLIPPING = "gradient clipping"
    RULE = "update rule"
    NOT_UPDATED = "not updated"
    UPDATED_HERE = "updated alone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class UpdateVerdict:
    """Verdict on one parameter: its difference relative to the limit (above 1 it differs), and the basis. `hidden` is
    the share of an update by which all updates may differ undetected; 0 if unknown. `is_calibrated`: it agrees by what
    a calibration has shown."""

    parameter: str
    golden: str
    status: Status
    basis: Basis
    excess: float = 0.0
    hidden: float = 0.0
    is_calibrated: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """A setting with which the golden's optimizer would compute the target's updates, up to `residual`: the root mean
    square of the remaining error of the median parameter, in roundings of its weights; NaN if unknown."""

    cause: UpdateCause
    target: float | Rule | None = None
    golden: float | Rule | None = None
    residual: float = nan


@dataclass(frozen=True, slots=True)
class UpdateDifference:
    """A setting that differs, and its parameters, by the target's names.

    `agreeing` is the number of parameters that could show the difference and do not. `target` and `golden` are the
    values as fitted to updates and recorded gradients: if a loss was scaled, or gradients were averaged after they were
    recorded, a learning rate is divided by that factor. None: unknown. `factor` is target / golden. `possible` are
    causes that these steps cannot distinguish from this one.

    `residual` is that of an `Explanation`. `others` are the other explanations that were tried, best first: this one is
    the simplest of those that explain the updates, with the fewest settings and the roundest numbers.
    """

    cause: UpdateCause
    parameters: tuple[str, ...]
    agreeing: int = 0
    target: float | Rule | None = None
    golden: float | Rule | None = None
    factor: float | None = None
    possible: tuple[UpdateCause, ...] = ()
    residual: float = nan
    others: tuple[Explanation, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateJudgement:
    """Verdicts on the updates before step `step`, for all parameters of two dumps."""

    step: int
    verdicts: tuple[UpdateVerdict, ...] = ()
    differences: tuple[UpdateDifference, ...] = ()

    @property
    def differing(self) -> tuple[str, ...]:
        """Return the parameters whose updates differ by more than noise."""
        return tuple(v.parameter for v in self.verdicts if v.status is Status.DIFFERS)

    @property
    def agreeing(self) -> tuple[str, ...]:
        """Return the parameters whose differences are the drift of two noisy runs, or may be."""
        return tuple(v.parameter for v in self.verdicts if v.status in (Status.AGREES, Status.DRIFTED))

    @property
    def lacks_step_before(self) -> bool:
        """Return whether something differs by its values alone, as the step before was not collected."""
        return bool(self.differing) and all(v.basis is Basis.DRIFT for v in self.verdicts)


@dataclass(frozen=True, slots=True)
class Difference:
    """A pair of records that differs: its place in the call (`input.1`), its verdict, and the reasons."""

    place: str
    grade: Grade
    reasons: Reasons = ()


@dataclass(frozen=True, slots=True)
class Computed:
    """All inputs agree, and an output does not. `has_inputs` is False for a call without inputs.

    `is_beyond_inputs`: inputs also differ, and do not explain the output. `without_gradient` is the side of a backward
    call that has no gradient while the other side has one; empty for none. `are_inputs_open`: some inputs were not
    compared.
    """

    difference: Difference
    has_inputs: bool = True
    is_of_parameters: bool = False
    is_beyond_inputs: bool = False
    without_gradient: Literal["target", "golden", ""] = ""
    are_inputs_open: bool = False


@dataclass(frozen=True, slots=True)
class Drawn:
    """All inputs agree, and an output differs by random numbers that `operation` draws.

    `has_other_names`: the sides are MindSpore and PyTorch, whose generators return different numbers for the same seed.
    """

    difference: Difference
    operation: str
    has_other_names: bool = False

    @property
    def is_dropout(self) -> bool:
        """Return whether the call is a function of its inputs with a probability of 0."""
        return "dropout" in self.operation


class ArgumentKind(Enum):
    """Ways in which an argument differs."""

    VALUE = "value"
    """A value that is not a tensor."""
    TENSOR = "tensor"
    """A tensor that no recorded call returned."""
    ONE_SIDE = "one_side"
    """Only `side` has it, or both sides have it in different ways."""
    EXCHANGED = "exchanged"
    """It is a different one of the parameters that both sides have."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument differs while the results of all earlier calls agree; `parameters` are the target's and the golden's
    if they are swapped."""

    difference: Difference
    kind: ArgumentKind
    side: str = ""
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunInput:
    """One of the first inputs of the run; `is_made_unrecorded`: it was computed by operations that were not
    recorded."""

    difference: Difference
    is_made_unrecorded: bool = False


class Dataflow(Enum):
    """The origin of an input that differs and that no earlier finding explains."""

    SWAPPED = "swapped"
    """Two arguments are swapped: `names` are both."""
    REWIRED = "rewired"
    """It comes from a different call: `names` are the target's and the golden's, empty for a call that was not
    recorded."""
    UNRECORDED = "unrecorded"
    """No recorded call returned it."""
    UNEXPLAINED = "unexplained"
    """The call in `names` returned it, and its difference begins in no call: a sum over all users of a tensor."""
    PRODUCER = "producer"
    """It comes from the call in `names`, which agrees."""
    EXCUSED = "excused"
    """It comes from the call in `names`, whose difference is excused by the user's limits."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Between:
    """The code between recorded calls differs; `after` is the last call that agrees, empty for none, and `agreeing` the
    number of earlier calls that were compared and agree."""

    difference: Difference
    after: str
    dataflow: Dataflow
    names: tuple[str, ...] = ()
    is_gradient: bool = False
    agreeing: int = 0


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters differ: `names` before any output does, `total` in the whole step."""

    names: tuple[str, ...]
    total: int
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Updated:
    """Parameters differ by their update after the previous step; `is_drift`: only as much as two noisy runs drift."""

    judgement: UpdateJudgement
    is_drift: bool = False


@dataclass(frozen=True, slots=True)
class OtherCall:
    """Only `side` makes a call. The other side makes `others` instead; without any it continues with `goes_on`, which
    `side` calls `known_as` if the names differ; or it ends after `before`. `is_frozen`: these are gradients of
    parameters, which the other side does not have."""

    side: str
    others: tuple[str, ...] = ()
    goes_on: str = ""
    before: str = ""
    is_frozen: bool = False
    known_as: str = ""


@dataclass(frozen=True, slots=True)
class Precision:
    """Only `side` rounds to `dtype`; the other side keeps `other` on the whole path between two compared tensors."""

    side: str
    dtype: str
    other: str


@dataclass(frozen=True, slots=True)
class Harmless:
    """A difference without effect on later results, and the reason."""

    difference: Difference
    ground: NoConsequence = NoConsequence.AGREES


class Missing(Enum):
    """Missing records without which it is unknown whether a difference begins at a call."""

    UNJUDGED_INPUTS = "unjudged_inputs"
    INPUTS = "inputs"
    INCOMING_GRADIENTS = "incoming_gradients"
    FAILED_INPUTS = "failed_inputs"
    FORWARD = "forward"
    SAVED_BY_NAME = "saved_by_name"
    PRODUCER = "producer"
    IN_BETWEEN = "in_between"
    EFFECT = "effect"
    EARLIER = "earlier"


@dataclass(frozen=True, slots=True)
class Unclear:
    """Required records are missing: `names` of the known ones, or the `side` that did not collect them."""

    missing: Missing
    names: tuple[str, ...] = ()
    side: str = ""
    difference: Difference | None = None


Evidence: TypeAlias = (
    Computed | Drawn | Argument | RunInput | Between | Parameters | Updated | OtherCall | Precision | Harmless | Unclear
)


@dataclass(frozen=True, slots=True)
class Beyond:
    """The first place at which a difference exceeds the tolerance: verdict and call."""

    grade: Grade
    name: str


@dataclass(frozen=True)
class Divergence:
    """A call at which a difference begins.

    `receivers` is the number of later calls that only received it. `hidden` are the calls before the first divergence
    that could not be fully judged. `beyond`: where a difference within tolerance exceeds it, None if it does not.
    """

    name: str
    cell: str
    kind: Kind
    evidence: Evidence
    grade: Grade
    file: str = ""
    line: int | None = None
    receivers: int = 0
    at: int = 0
    hidden: tuple[str, ...] = ()
    beyond: Beyond | None = None

    def as_finding(self, step: int | None, rank: int | None, reason: Words) -> Finding:
        """Return it as a finding of a step and rank, with its reason."""
        difference = getattr(self.evidence, "difference", None)
        record = difference.place if isinstance(difference, Difference) else ""
        return Finding(
            self.kind,
            Place(self.name, self.cell, record, step, rank, source=source_of(self.file, self.line)),
            reason,
            self.grade,
            fields=self.facts,
            later_calls=max(self.receivers, 0),
            certainty=self.certainty,
        )

    def _repr_html_(self) -> str:
        """Return it for a notebook."""
        difference = getattr(self.evidence, "difference", None)
        reason = sentences(difference.reasons) if isinstance(difference, Difference) else ""
        return html_of(self.as_finding(None, None, reason))

    @property
    def certainty(self) -> Literal["certain", "likely", "open"]:
        """Return how sure it is that the difference begins here.

        `open` if records before it could not be judged, `likely` if it is within tolerance or random numbers explain
        it, `certain` otherwise.
        """
        if self.hidden or self.kind is kinds.UNKNOWN:
            return "open"
        return "certain" if self.grade == "error" and self.kind is not kinds.RANDOM else "likely"

    @property
    def facts(self) -> dict[str, Any]:
        """Return the evidence as JSON types: the name of its class as `type`, its members, `hidden` and `beyond`."""
        held = {"hidden": list(self.hidden), "beyond": as_data(self.beyond)}
        return {"type": type(self.evidence).__name__, **as_data(self.evidence), **held}

    @property
    def is_from_outside(self) -> bool:
        """Return whether the difference is in a tensor that no recorded call returned."""
        evidence = self.evidence
        if isinstance(evidence, Argument):
            return evidence.kind is ArgumentKind.TENSOR
        return isinstance(evidence, RunInput)
