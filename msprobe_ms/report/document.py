"""The content of a report, as data: the interface between the commands, which fill it, and the page, which displays it.

A report is one HTML file: the built page with the data in it. The data are chunks of JSON, each compressed (zlib) and
in base64, so that a page decodes only the chunks that it displays. Chunk 0 is the head (`Head`), which refers to all
others by their numbers.

| chunk | class | one for |
|---|---|---|
| head | `Head` | the report |
| layout | `Layout` | every set of units whose calls have the same names and parents |
| state | `State` | a unit |
| details | `Details` | some hundred consecutive calls of a unit |
| curves | list of `Curve` | one target of a monitor |
| table | `Table` | a table |
| messages | `findings.texts` | the report |

A *unit* is one step of one rank. A *call* is identified by its unit and its number in the unit's layout, in execution
order. Columns are by call: position i is call i. Numbers that are not finite are the texts "NaN", "Infinity" and
"-Infinity". `None` is null; members with their default are left out. `Words` are a text, or a phrase: the list of its
template and the values of its placeholders, which the page displays in the reader's language.
"""

from dataclasses import dataclass, field

from msprobe.base.phrase import Words
from msprobe.base.schema import NAMES
from msprobe.findings.finding import Answer

VERSION = 2

VERDICTS = {"p": "pass", "w": "warning", "e": "error", "u": "unjudged", "h": "harmless", "n": "unmatched", ".": "none"}
"""Letters of `State.verdicts`: for a call, the worst of its records; "." if a call has no records."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs: `versions` are those of the framework and tools, by name."""

    path: str
    framework: str = ""
    level: str = ""
    task: str = ""
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unit:
    """One step of one rank, and the numbers of its chunks.

    `details` are pairs: the first call that a chunk of details may contain, and the chunk; sorted. `counts` are
    verdicts of records by name. `first` is the unit's own first divergence, by call.
    """

    label: str
    layout: int
    state: int
    details: tuple[tuple[int, int], ...] = ()
    step: int | None = None
    rank: int | None = None
    stage: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    first: int | None = None
    line: Words = ""


@dataclass(frozen=True, slots=True)
class Meeting:
    """Calls of several units that are one collective or one pair of send and receive: `calls` are (unit, call)."""

    name: str
    calls: tuple[tuple[int, int], ...]
    role: str = ""


@dataclass(frozen=True, slots=True)
class CurveSet:
    """Curves of one target: the chunk that contains them, and the text of the page's list."""

    target: str
    stage: Words
    chunk: int
    is_answer: bool = False
    excess: float | None = None


@dataclass(frozen=True, slots=True)
class TableSet:
    """A table's title, and the chunk that contains it."""

    title: Words
    chunk: int
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Head:
    """The head. `kind` is the command: compare, dump, overflow_check, check, monitor, config_check, flow, acc_check,
    graft.

    `statistics` are the names of the statistics of a tensor, in the order of the page. `merged` is why layouts of
    several ranks (TP, PP, VPP) were merged or not. `calls` counts all units' calls, and `detailed` those whose records
    are in the report. `messages` is the chunk of `findings.texts`.
    """

    kind: str
    title: Words
    command: str
    time: str
    tool: str
    target: Side
    golden: Side | None
    answer: Answer
    counts: dict[str, int] = field(default_factory=dict)
    causes: tuple[tuple[int, Words], ...] = ()
    units: tuple[Unit, ...] = ()
    meetings: tuple[Meeting, ...] = ()
    curves: tuple[CurveSet, ...] = ()
    tables: tuple[TableSet, ...] = ()
    merged: Words = ""
    calls: int = 0
    detailed: int = 0
    messages: int = 0
    statistics: tuple[str, ...] = field(default=NAMES, metadata={"always": True})
    version: int = field(default=VERSION, metadata={"always": True})


@dataclass(frozen=True, slots=True)
class Layout:
    """Calls and their nesting, in execution order.

    `parents` are numbers of calls, -1 at the top. `kinds` are letters: m module, a API, p primitive, j jit, o
    optimizer, c collective, k kernel, s saved value, g parameters' gradients, P parameters. `directions` are f, b or
    "." for none. `micro` is the micro step of each call, empty if there is only one. `golden` are names on the golden's
    side, "" for equal ones; empty if all are equal.
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
    kinds: str
    directions: str
    classes: tuple[str, ...] = ()
    micro: tuple[int, ...] = ()
    golden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class State:
    """The result for each call of a unit.

    `excess` is, by call, the greatest difference in units of the tolerance: more than 1 is outside; null without
    measures. `errors` is the greatest relative error of the outputs, `noise` the part of it that noise explains.
    `overflow` are letters: "." none, m medium, h high, c critical; empty if there is none; `golden_overflow` are the
    golden's. `links` are (call, place, producing call, place): the recorded output that is the same tensor as an input.
    Lists are empty if no call has a value.
    """

    verdicts: str
    excess: tuple[float | str | None, ...] = ()
    errors: tuple[float | str | None, ...] = ()
    noise: tuple[float | str | None, ...] = ()
    overflow: str = ""
    links: tuple[tuple[int, str, int, str], ...] = ()
    golden_overflow: str = ""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One side of a record: `statistics` of a tensor by name, or `value` of a record that is not a tensor."""

    dtype: str = ""
    shape: tuple[int, ...] | None = None
    statistics: dict[str, float | str] = field(default_factory=dict)
    digest: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a call. `part` is one of `store.record.PARTS`; `place` is `output.0`.

    `measures` are the columns of the sheet by their titles; `limits` is the allowed difference, `reasons` are the
    reasons of the verdict. `verdict` is a letter of `VERDICTS`, `state` the result of the pass along the dataflow
    (`compare.core.noise.State`, in lower case). `decision` are the rule that decided, its numbers, and what would have
    to change for another verdict, as `compare --explain` prints them.
    """

    place: str
    part: str
    target: Tensor | None = None
    golden: Tensor | None = None
    verdict: str = "."
    measures: dict[str, float | str | None] = field(default_factory=dict)
    limits: str = ""
    reasons: tuple[Words, ...] = ()
    state: str = ""
    decision: tuple[Words, ...] = ()


@dataclass(frozen=True, slots=True)
class CallDetails:
    """The records of a call, and the lines of its stack, the innermost first."""

    call: int
    records: tuple[Record, ...] = ()
    stack: tuple[str, ...] = ()
    golden_stack: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Details:
    """Some calls of a unit, in their order."""

    calls: tuple[CallDetails, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """One number of a monitored target over the steps, in both runs, with the band in which two correct runs remain.

    `low` and `high` are the band around the golden, by step; empty if unknown. `left` is the first step outside.
    """

    statistic: str
    rank: int | None
    steps: tuple[int, ...]
    target: tuple[float | str | None, ...]
    golden: tuple[float | str | None, ...] = ()
    low: tuple[float | str | None, ...] = ()
    high: tuple[float | str | None, ...] = ()
    left: int | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table as a command writes it: `verdicts` has a letter of `VERDICTS` for each row, or is empty."""

    columns: tuple[Words, ...]
    rows: tuple[tuple[float | Words | None, ...], ...]
    verdicts: str = ""
