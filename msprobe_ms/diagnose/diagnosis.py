"""Results of a diagnosis, as data; `page.py` renders them as a page or JSON."""

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
from .proof import Proof

if TYPE_CHECKING:
    from msprobe.compare.advice.known_causes import Hint

Result = RequestResult | FlowResult | Stepwise
"""Result of `msprobe compare` for two paths."""


def flow_of(result: Result) -> FlowResult | None:
    """Return the result of an RL flow, of several steps the first that differs; None for dumps and equal steps."""
    if isinstance(result, Stepwise):
        return None if result.first is None else result.results[result.first]
    return result if isinstance(result, FlowResult) else None


class Sureness(Enum):
    """How certain it is that something is ruled out: the weakest of its evidence."""

    BITS = "bitwise equal"
    DIGESTS = "equal by digest"
    NOISE = "agrees within noise"
    TOLERANCE = "agrees within tolerance"
    STATISTICS = "equal in four statistics"
    OPEN = "not all of it could be judged"


class About(Enum):
    """Possible sources of a difference, in addition to the subjects within a step."""

    STEPS = "steps"
    RANKS = "ranks"
    COLLECTION = "collection"
    CALLS_BEFORE = "calls before"
    ALL_CALLS = "all calls"


@dataclass(frozen=True)
class RuledOut:
    """A source that is ruled out, with its certainty; `names` are steps, ranks or a collection."""

    what: About | Subject
    tally: Tally = field(default_factory=Tally)
    names: tuple[str, ...] = ()
    calls: int = 0
    mode: Mode | None = None

    @property
    def sureness(self) -> Sureness:
        """Return the certainty: the weakest in the tally."""
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
    """Kinds of data that were not recorded and are not ruled out."""

    STEPS_BEFORE = "steps before"
    CALLS_IN_CELLS = "calls in cells"
    BACKWARD = "backward"
    PARAMETERS = "parameters"
    FILTERED = "filtered"
    ONE_SIDE = "on one side"
    OTHER_STEPS = "other steps"


@dataclass(frozen=True)
class Gap:
    """Data that were not recorded; `names` are steps, levels, or sentences of the comparison about one side."""

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
    """Two corresponding collections and the result of their comparison; `failed` is the reason if there is none.

    `is_overruled`: they differ by statistics, and a complete collection of tensors shows that this is rounding.
    """

    pair: CollectionPair
    result: Result | None = None
    skipped: Skipped | None = None
    failed: str = ""
    is_overruled: bool = False

    @property
    def is_clean(self) -> bool:
        """Return whether everything was compared and agrees, possibly by finer records."""
        return self.is_overruled or (self.result is not None and self.result.is_clean)

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """Return the outcome of each pair of dumps."""
        return tuple(self.result.outcomes) if self.result is not None else ()

    @property
    def surveyed(self) -> tuple[tuple[Outcome, Survey], ...]:
        """Return the outcomes with their surveys."""
        return tuple((outcome, outcome.survey) for outcome in self.outcomes if outcome.survey is not None)


@dataclass(frozen=True)
class Located:
    """The first wrong call, with its place and collections. `stage` is empty without stages, `survey` is None if the
    difference of an RL flow is not in a dump.

    `is_unconfirmed`: a filtered collection of this call does not show where the difference begins. `border`: a filtered
    collection reports a value from outside of it, which agrees in the wider collection; then `finding` is the first
    divergence inside.
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
        """Return the known cause that `msprobe compare` prints for this finding; None if there is none."""
        result = self.compared.result
        flow = None if result is None else flow_of(result)
        first = flow.first if flow is not None else result.first if isinstance(result, RequestResult) else None
        return None if first is None or self.border is not None else first.hint


def is_from_border(finding: Divergence) -> bool:
    """Return whether the value that differs came from outside of the collection, or from an unknown source."""
    evidence = finding.evidence
    if isinstance(evidence, Between):
        return evidence.dataflow in (Dataflow.UNRECORDED, Dataflow.UNKNOWN)
    return finding.is_from_outside or isinstance(evidence, Unclear)


class Verdict(Enum):
    """The overall result: something differs, nothing does, or nothing does and not everything could be judged."""

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
    """A complete configuration for each side; for two frameworks they differ in names.

    `sides` are the sides to run again; `around` is the cell, call or window of calls to collect, empty for all.
    """

    purpose: Purpose
    target: Mapping[str, object]
    golden: Mapping[str, object]
    sides: tuple[str, ...] = ("target", "golden")
    around: tuple[str, ...] = ()

    @property
    def is_one(self) -> bool:
        """Return whether there is one configuration for all sides."""
        return self.target == self.golden or len(self.sides) == 1

    def of(self, side: str) -> Mapping[str, object]:
        """Return the configuration of a side."""
        return self.golden if side == "golden" else self.target


@dataclass(frozen=True)
class Setting:
    """A setting of the environment or the collection that differs between the headers of two dumps."""

    name: str
    target: str
    golden: str


@dataclass(frozen=True, eq=False)
class ComparedMonitors:
    """Two corresponding monitors, by their names below the sides; `failed` is the reason if they could not be compared,
    `next` collects the calls of the first divergence."""

    name: str
    golden: str
    result: MonitorResult | None = None
    failed: str = ""
    next: NextCollection | None = None

    @property
    def is_clean(self) -> bool:
        """Return whether something was judged and nothing leaves its band."""
        return self.result is not None and self.result.is_clean


@dataclass(frozen=True)
class ComparedPacks:
    """Two corresponding packs of configurations; `failed` is the reason if they could not be compared."""

    name: str
    golden: str
    result: PackResult | None = None
    failed: str = ""

    @property
    def is_clean(self) -> bool:
        """Return whether everything was compared and agrees."""
        return self.result is not None and self.result.verdicts.exit_code == 0


@dataclass(frozen=True)
class Unmatched:
    """A monitor, a checkpoint or a pack on one side only."""

    side: str
    kind: Kind
    name: str


@dataclass(frozen=True)
class Diagnosis:
    """The complete result.

    `located` is None if no dump differs, `next` if no further collection is useful. `diverged` are the monitors that
    diverge first, if that is the answer: no dump differs in that step or an earlier one.
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
    """Names of checkpoints that could not be compared, with the reason."""
    others_unmatched: tuple[Unmatched, ...] = ()
    unused: tuple[tuple[str, Unused], ...] = ()
    """Files and folders that were not compared, with their side."""
    proof: Proof | None = None
    """The proof of the cause that the user gave."""

    @property
    def is_clean(self) -> bool:
        """Return whether everything has a counterpart, was compared, and agrees."""
        return self.verdict is Verdict.AGREES

    @property
    def verdicts(self) -> Verdicts:
        """Return the number of judged pairs, parameters, readings and settings, and whether something differs or is
        open."""
        judged = sum(each.result.judged for each in self.compared if each.result is not None)
        judged += sum(len(result.judged) for _, result in self.checkpoints)
        judged += sum(each.result.verdicts.judged for each in self.monitors if each.result is not None)
        judged += sum(each.result.verdicts.judged for each in self.packs if each.result is not None)
        is_open = {Unjudged.NO_PARTNER: int(self.verdict is Verdict.OPEN)}
        return Verdicts(judged, int(self.verdict is Verdict.DIFFERS), is_open)
