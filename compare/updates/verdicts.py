"""What is found of the updates of parameters: data only, the words are in `wording.py`."""

from dataclasses import dataclass
from enum import Enum

from .rules import Rule


class Status(Enum):
    """Whether an update of a parameter is the golden's but for noise."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNSEEN = "unseen"


class Basis(Enum):
    """What a status rests on.

    | basis | needs | agrees where |
    |---|---|---|
    | `SETTINGS` | the gradients of the step before; for a state, of all | settings fitted to each side are equal |
    | `GRADIENTS` | the gradients of the step before | updates are as far apart as the gradients |
    | `UPDATES` | the weights of the step before | updates are hardly apart |
    | `DRIFT` | the weights alone | weights are hardly apart |
    | `STATISTICS` | statistics of the step before | means moved alike |
    """

    SETTINGS = "settings"
    GRADIENTS = "gradients"
    UPDATES = "updates"
    DRIFT = "drift"
    STATISTICS = "statistics"


class Cause(Enum):
    """What makes updates differ; `UPDATED_ALONE`: the golden does not update what the target does."""

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
    UPDATED_ALONE = "updated alone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One parameter: how far beyond the limit its difference is (more than 1 differs), and what that rests on."""

    parameter: str
    golden: str
    status: Status
    basis: Basis
    excess: float = 0.0


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that differs, with the parameters that are concerned, by the target's names.

    `agreeing` is how many of the parameters that could show it do not differ in it. `target` and `golden` are the
    values as fitted to updates and recorded gradients: where a loss was scaled, or gradients averaged after they were
    recorded, a learning rate is told divided by that. None: not known. `factor` is target / golden. `possible` are
    causes that the steps at hand cannot tell from this one.
    """

    cause: Cause
    parameters: tuple[str, ...]
    agreeing: int = 0
    target: float | Rule | None = None
    golden: float | Rule | None = None
    factor: float | None = None
    possible: tuple[Cause, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateJudgement:
    """The updates that led to the parameters of step `step`, all parameters of two dumps together."""

    step: int
    verdicts: tuple[Verdict, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def differing(self) -> tuple[str, ...]:
        """The parameters whose update differs by more than noise explains."""
        return tuple(v.parameter for v in self.verdicts if v.status is Status.DIFFERS)

    @property
    def agreeing(self) -> tuple[str, ...]:
        """The parameters whose difference is drift of two noisy runs."""
        return tuple(v.parameter for v in self.verdicts if v.status is Status.AGREES)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The parameters of which nothing can be said."""
        return tuple(v.parameter for v in self.verdicts if v.status is Status.UNSEEN)
