"""Results of a comparison of two packs, as data: one row for each setting, tensor, or place of a random call."""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from msprobe.findings.catalogue import configuration as kinds
from msprobe.findings.kind import Kind as FindingKind
from msprobe.store.config_pack import Place


class Level(Enum):
    """Level of a row. `INFO` is only listed; a row that was not compared does not pass."""

    PASS = "pass"
    INFO = "info"
    WARNING = "warning"
    UNJUDGED = "unjudged"
    ERROR = "error"


SEVERITY = (Level.PASS, Level.INFO, Level.WARNING, Level.UNJUDGED, Level.ERROR)
"""Mildest first."""


class Kind(Enum):
    """Relation of the two sides."""

    EQUAL = "equal"
    DIFFERS = "differs"
    BENCH_ONLY = "only bench have"
    CMP_ONLY = "only cmp have"
    NOT_RECORDED = "not recorded"
    NOT_COUNTED = "not counted"
    """By the tool that packed the other side."""


class Checker(Enum):
    """The parts of a configuration, in the order of the sheets; `value` is the name of the sheet.

    kind : the kind of finding that reports a difference.
    """

    kind: FindingKind

    def __new__(cls, name: str, kind: FindingKind) -> "Checker":
        """Make a member whose value is the name."""
        member = object.__new__(cls)
        member._value_, member.kind = name, kind
        return member

    ENV = "env", kinds.ENV
    PIP = "pip", kinds.PIP
    DATASET = "dataset", kinds.DATASET
    WEIGHTS = "weights", kinds.WEIGHTS
    HYPERPARAMETERS = "hyperparameters", kinds.HYPERPARAMETERS
    RANDOM = "random", kinds.RANDOM
    CONTEXT = "context", kinds.CONTEXT


class Match(Enum):
    """The way in which two settings were matched."""

    NAME = "pure name"
    ALIAS = "mapping"
    SIMILAR = "similarity"
    NONE = ""


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A variable, a package or a setting, with its name and value on each side; None if a side does not have it."""

    checker: Checker
    kind: Kind
    level: Level
    bench_name: str
    cmp_name: str
    bench: object
    cmp: object
    file: str = ""
    match: Match = Match.NONE
    similarity: float = 1.0
    importance: int = 0
    """The smaller the number, the more likely the setting changes results."""

    @property
    def name(self) -> str:
        """Return the name that both sides have; if they differ, that of the first."""
        return self.bench_name or self.cmp_name


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A tensor of the inputs or the weights. `relative`: relative differences of maximum, minimum, mean and norm, None
    if undefined."""

    checker: Checker
    kind: Kind
    level: Level
    place: Place
    name: str
    relative: tuple[float | None, ...] = (None, None, None, None)
    importance: int = 0


@dataclass(frozen=True, slots=True)
class CallSite:
    """A place that calls a random function, and the number of calls."""

    count: int
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RandomRow:
    """A place of calls with its counterpart on the other side; None without one."""

    kind: Kind
    level: Level
    op: str
    rank: int
    bench: CallSite | None
    cmp: CallSite | None
    checker: Checker = Checker.RANDOM
    importance: int = 0

    @property
    def name(self) -> str:
        """Return the function."""
        return self.op


Row = SettingRow | TensorRow | RandomRow


class OneSided(Enum):
    """Reasons why a checker compared nothing."""

    NO = ""
    BENCH = "only bench has it"
    CMP = "only cmp has it"
    APART = "nothing of it is on both sides"


@dataclass
class Outcome:
    """Result of a checker: its level, the number of rows of each level, and the most relevant rows."""

    checker: Checker
    one_sided: OneSided = OneSided.NO
    counts: Counter[Level] = field(default_factory=Counter)
    worst: list[Row] = field(default_factory=list)

    def take(self, row: Row, most: int) -> None:
        """Count a row, and keep it if it is among the first `most` of its level."""
        self.counts[row.level] += 1
        if row.level in (Level.ERROR, Level.WARNING) and self.counts[row.level] <= most:
            self.worst.append(row)

    @property
    def level(self) -> Level:
        """Return the most severe level of the decisive rows."""
        if self.one_sided is not OneSided.NO:
            return Level.UNJUDGED
        found = max((level for level, count in self.counts.items() if count), key=SEVERITY.index, default=Level.PASS)
        return Level.PASS if found is Level.INFO else found
