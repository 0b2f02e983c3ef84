"""Results of a comparison of two monitors, as data."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from msprobe.base.log import join_names
from msprobe.base.phrase import Words
from msprobe.base.verdicts import Verdicts
from msprobe.findings.kind import Kind
from msprobe.findings.notebook import fragment

from .band import Basis
from .pairing import UncommonSteps, Unmatched
from .unjudged import Unjudged

Array = np.ndarray[Any, Any]


class Cause(Enum):
    """Possible causes of the first divergence: the messages of its stage in the catalogue."""

    DATA = "data"
    FORWARD = "forward"
    LOSS = "loss"
    LOSS_SCALE = "loss_scale"
    LOSS_GRADIENT = "loss_gradient"
    BACKWARD = "backward"
    ANYTHING_BEFORE = "anything_before"
    LOCAL_REDUCTION = "local_reduction"
    REDUCTION = "reduction"
    COLLECTIVE = "collective"
    GRADIENT = "gradient"
    MOMENTS = "moments"
    UPDATE_OF_ALL = "update_of_all"
    UPDATE_OF_SOME = "update_of_some"
    WEIGHTS = "weights"


@dataclass(frozen=True, eq=False)
class Curve:
    """One series around a finding: both sides, the deviation and the half width of its band, and that band around B in
    the unit of the series."""

    rank: int
    kind: str
    statistic: str
    name: str
    step: Array
    a: Array
    b: Array
    value: Array
    limit: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class OfStage:
    """One kind at the step of the finding: the number of targets that leave, the number of all, and the first step at
    which the kind leaves."""

    kind: str
    stage: Kind
    left: int
    targets: int
    first_step: int | None


@dataclass(frozen=True)
class MonitorDivergence:
    """The first divergence.

    - `target`: by its name in B; `left`: the number of its kind that leave at the step, including it, of `targets`
    - `agreeing`: in a backward pass the last target before it that agrees, "" for none
    - `modules`: those whose calls show it; empty for the whole network
    - `factor`: A / B of the norm; `has_common_factor`: whether all that leave have the same one
    - `is_of_digits`: all differences at the step are in the last digits of the files, so that it may have
      begun undetected in the previous update
    """

    stage: Kind
    kind: str
    target: str
    step: int
    micro_step: int
    ranks: tuple[int, ...]
    statistic: str
    a: float
    b: float
    deviation: float
    limit: float
    factor: float | None
    has_common_factor: bool
    left: int
    targets: int
    agreeing: str
    modules: tuple[str, ...]
    cause: Cause
    basis: Basis
    is_of_digits: bool


@dataclass(frozen=True, eq=False)
class Result:
    """The result about two monitors; `passed`: steps at which only gradients left the band, and returned. `further` are
    the curves of other targets, if requested."""

    target: str
    golden: str
    finding: MonitorDivergence | None
    stages: tuple[OfStage, ...]
    basis: Basis
    steps: tuple[int, ...]
    judged_from: int | None
    passed: tuple[int, ...]
    compared: int
    ranks: int
    unmatched: tuple[Unmatched, ...]
    uncommon: tuple[UncommonSteps, ...]
    lost_ranks: dict[str, tuple[int, ...]]
    notes: tuple[Words, ...]
    curves: tuple[Curve, ...]
    further: tuple[Curve, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()

    def _repr_html_(self) -> str:
        """Return the answer for a notebook."""
        found, steps = self.finding, f"{self.steps[0]} to {self.steps[-1]}" if self.steps else ""
        facts: list[tuple[str, object]] = [("A", self.target), ("B", self.golden), ("steps", steps)]
        facts.append(("the band", self.basis.value))
        if found is None:
            state = "clean" if self.is_clean else "unjudged"
            line = (
                "nothing left its band"
                if self.is_clean
                else "nothing could be judged"
                if self.basis is Basis.NOTHING
                else "nothing left its band of what could be judged"
            )
        else:
            state, line = "differs", f"first divergence: {found.stage.name} of {found.target} at step {found.step}"
            facts += [("ranks", join_names(found.ranks, 8)), ("what it means", found.stage.sentence(found.cause.value))]
            facts += [(f"{found.statistic} of A", found.a), (f"{found.statistic} of B", found.b)]
            facts.append(("previous target of the backward pass, which agrees", found.agreeing))
        rows = [(one.kind, one.stage.name, one.left, one.targets) for one in self.stages]
        return fragment(state, line, facts, ("kind", "stage", "left", "targets"), rows)

    @property
    def is_clean(self) -> bool:
        """Return whether everything was judged and nothing left its band."""
        return self.finding is None and self.basis is not Basis.NOTHING and not self.unjudged

    @property
    def verdicts(self) -> Verdicts:
        """Return the judged numbers, and why others were not judged; without a band, nothing was."""
        is_wrong = self.finding is not None
        judged = 0 if self.basis is Basis.NOTHING else self.compared
        return Verdicts(judged, int(is_wrong), {each.cause: each.count for each in self.unjudged})

    @property
    def exit_code(self) -> int:
        """Return the exit code by the rule of all commands."""
        return self.verdicts.exit_code
