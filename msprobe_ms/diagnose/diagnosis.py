"""What a diagnosis found, as data; `page.py` makes a page or JSON of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from msprobe.base.verdicts import Gap as Unjudged
from msprobe.base.verdicts import Verdicts
from msprobe.compare.checkpoint.compare import CheckpointResult
from msprobe.compare.config_check.compare import Compared as PackResult
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.jobs.summary import RequestResult
from msprobe.compare.jobs.survey import Subject, Survey, Tally
from msprobe.compare.judge.judged import Mode
from msprobe.compare.locate.finding import Between, Dataflow, Divergence, Unclear
from msprobe.compare.monitor.finding import Result as MonitorResult
from msprobe.compare.rl.configurations import ConfigurationDifferences
from msprobe.compare.rl.result import FlowResult, Stepwise

from .collected import Collection, CollectionPair, Kind, Unused

if TYPE_CHECKING:
    from msprobe.compare.advice.known_causes import Hint

Result = RequestResult | FlowResult | Stepwise
"""What `msprobe compare` gives for two paths."""


def flow_of(result: Result) -> FlowResult | None:
    """The result of a flow, of several steps that of the first that differs; None for plain dumps and equal steps."""
    if isinstance(result, Stepwise):
        return None if result.first is None else result.results[result.first]
    return result if isinstance(result, FlowResult) else None


class Sureness(Enum):
    """How surely something is ruled out: the weakest of what supports it."""

    BITS = "equal to the bit"
    DIGESTS = "equal by digest"
    NOISE = "agrees within noise"
    TOLERANCE = "agrees within tolerance"
    STATISTICS = "equal in four statistics"
    OPEN = "not all of it could be judged"


class About(Enum):
    """What a difference could have come from, besides the subjects within a step."""

    STEPS = "steps"
    RANKS = "ranks"
    COLLECTION = "collection"
    CALLS_BEFORE = "calls before"
    ALL_CALLS = "all calls"


@dataclass(frozen=True)
class RuledOut:
    """Something that the difference does not come from, and how surely; `names` are steps, ranks or a collection."""

    what: About | Subject
    tally: Tally = field(default_factory=Tally)
    names: tuple[str, ...] = ()
    calls: int = 0
    mode: Mode | None = None

    @property
    def sureness(self) -> Sureness:
        """How surely: the weakest of what is in the tally."""
        if self.tally.unjudged:
            return Sureness.OPEN
        if self.tally.tolerance:
            return Sureness.TOLERANCE
        if self.tally.by_statistics or self.mode == "statistics":
            return Sureness.STATISTICS
        if self.tally.noise:
            return Sureness.NOISE
        return Sureness.DIGESTS if self.mode == "digest" else Sureness.BITS


class GapKind(Enum):
    """What was not recorded, and so is not ruled out."""

    STEPS_BEFORE = "steps before"
    CALLS_IN_CELLS = "calls in cells"
    BACKWARD = "backward"
    PARAMETERS = "parameters"
    FILTERED = "filtered"
    ONE_SIDE = "on one side"
    OTHER_STEPS = "other steps"


@dataclass(frozen=True)
class Gap:
    """One thing that was not recorded; `names` are steps, levels, or sentences of the comparison about one side."""

    kind: GapKind
    names: tuple[str, ...] = ()


class Skipped(Enum):
    """Why two collections were not compared."""

    NO_COMMON_STEP = "no common step"
    NOT_THIS_STEP = "not this step"
    NOT_NEEDED = "answered"
    FAILED = "failed"


@dataclass(frozen=True)
class ComparedPair:
    """Two collections that belong together, and what came of them; `failed` says why they could not be compared.

    `is_overruled`: by statistics they differ, and a whole collection of the tensors shows that this is rounding.
    """

    pair: CollectionPair
    result: Result | None = None
    skipped: Skipped | None = None
    failed: str = ""
    is_overruled: bool = False

    @property
    def is_clean(self) -> bool:
        """Whether all was compared and agrees, be it that finer records say so."""
        return self.is_overruled or (self.result is not None and self.result.is_clean)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What came of each pair of dumps."""
        return tuple(self.result.outcomes) if self.result is not None else ()

    @property
    def surveyed(self) -> tuple[tuple[Outcome, Survey], ...]:
        """The outcomes with what they saw."""
        return tuple((outcome, outcome.survey) for outcome in self.outcomes if outcome.survey is not None)


@dataclass(frozen=True)
class Located:
    """The first wrong call: where, and in which collections. `stage` is empty where there are none, `survey` None where
    the result is of a flow whose difference is no dump's.

    `is_unconfirmed`: a narrower collection was made because of it, and does not show where it begins. `border`: a
    filtered collection names something that came from outside it, and a wider one had it agree; then the finding is the
    first that begins inside.
    """

    compared: ComparedPair
    finding: Divergence | None
    step: int | None
    rank: int | None
    survey: Survey | None = None
    stage: str = ""
    border: Divergence | None = None
    is_unconfirmed: bool = False

    @property
    def hint(self) -> "Hint | None":
        """Return the known cause that `msprobe compare` prints of this finding; None where none fits."""
        result = self.compared.result
        flow = None if result is None else flow_of(result)
        first = flow.first if flow is not None else result.first if isinstance(result, RequestResult) else None
        return None if first is None or self.border is not None else first.hint


def is_from_border(finding: Divergence) -> bool:
    """Whether what differs came from outside what was collected, or from nobody knows where."""
    evidence = finding.evidence
    if isinstance(evidence, Between):
        return evidence.dataflow in (Dataflow.UNRECORDED, Dataflow.UNKNOWN)
    return finding.is_from_outside or isinstance(evidence, Unclear)


class Verdict(Enum):
    """What the whole comes to: something differs, nothing does, or nothing does and not all could be judged."""

    DIFFERS = "differs"
    AGREES = "agrees"
    OPEN = "open"


class Purpose(Enum):
    """Why the next collection is proposed."""

    MONITORED = "monitored"
    INSIDE_CELL = "inside_cell"
    BETWEEN_CALLS = "between_calls"
    UNRECORDED_CODE = "unrecorded_code"
    ELEMENTS = "elements"
    NOISE = "noise"
    WHOLE_STEP = "whole_step"
    MISSING_RECORDS = "missing_records"
    STEP_BEFORE = "step_before"
    BLIND = "blind"
    ONE_SIDE = "one_side"
    OUTSIDE_CELLS = "outside_cells"
    OTHER_STEPS = "other_steps"


@dataclass(frozen=True)
class NextCollection:
    """What to collect: a complete configuration for each side, equal but for names where these are two frameworks'.

    `sides` are those to be run again; `around` is the cell, call or window of calls that is collected, empty for all.
    """

    purpose: Purpose
    target: Mapping[str, object]
    golden: Mapping[str, object]
    sides: tuple[str, ...] = ("target", "golden")
    around: tuple[str, ...] = ()

    @property
    def is_one(self) -> bool:
        """Whether one configuration serves both sides."""
        return self.target == self.golden or len(self.sides) == 1

    def of(self, side: str) -> Mapping[str, object]:
        """The configuration of a side."""
        return self.golden if side == "golden" else self.target


@dataclass(frozen=True)
class Setting:
    """Something of the environment or the collection that differs, as the headers of two dumps tell it."""

    name: str
    target: str
    golden: str


@dataclass(frozen=True, eq=False)
class ComparedMonitors:
    """Two monitors that belong together, by their names below the sides; `failed` says why they could not be compared,
    `next` shows the calls of what differs first."""

    name: str
    golden: str
    result: MonitorResult | None = None
    failed: str = ""
    next: NextCollection | None = None

    @property
    def is_clean(self) -> bool:
        """Whether something was judged, and nothing leaves its band."""
        return self.result is not None and self.result.is_clean


@dataclass(frozen=True)
class ComparedPacks:
    """Two packs of configurations that belong together; `failed` says why they could not be compared."""

    name: str
    golden: str
    result: PackResult | None = None
    failed: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether all of it was compared and agrees."""
        return self.result is not None and self.result.verdicts.exit_code == 0


@dataclass(frozen=True)
class Unmatched:
    """A monitor, a checkpoint or a pack that one side alone has."""

    side: str
    kind: Kind
    name: str


@dataclass(frozen=True)
class Diagnosis:
    """Everything that was found.

    `located` is None where no dump differs, `next` where no collection helps. `diverged` are the monitors that diverge
    first, where that is the answer: no dump shows a difference in that step or before.
    """

    target: str
    golden: str
    verdict: Verdict
    located: Located | None
    compared: tuple[ComparedPair, ...]
    unmatched: tuple[tuple[str, Collection], ...] = ()
    configurations: ConfigurationDifferences = field(default_factory=ConfigurationDifferences)
    environment: tuple[Setting, ...] = ()
    checkpoints: tuple[tuple[str, CheckpointResult], ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    gaps: tuple[Gap, ...] = ()
    next: NextCollection | None = None
    diverged: ComparedMonitors | None = None
    monitors: tuple[ComparedMonitors, ...] = ()
    packs: tuple[ComparedPacks, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    """Checkpoints that could not be compared: the name, and why."""
    others_unmatched: tuple[Unmatched, ...] = ()
    unused: tuple[tuple[str, Unused], ...] = ()
    """Parts of a side that were not compared, with the side."""

    @property
    def is_clean(self) -> bool:
        """Whether everything was compared, agrees, and has a partner."""
        return self.verdict is Verdict.AGREES

    @property
    def verdicts(self) -> Verdicts:
        """The pairs, parameters, readings and settings that were judged, and whether something differs or is open."""
        judged = sum(each.result.judged for each in self.compared if each.result is not None)
        judged += sum(len(result.judged) for _, result in self.checkpoints)
        judged += sum(each.result.verdicts.judged for each in self.monitors if each.result is not None)
        judged += sum(each.result.verdicts.judged for each in self.packs if each.result is not None)
        is_open = {Unjudged.NO_PARTNER: int(self.verdict is Verdict.OPEN)}
        return Verdicts(judged, int(self.verdict is Verdict.DIFFERS), is_open)
