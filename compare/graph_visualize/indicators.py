"""How far a node's inputs and outputs are from the golden's, by the rules of msprobe.

`indicators` returns the remarks of msprobe 26 on each record of a pair of calls; the worst of them is the verdict on
the node. `distance` is the number that msprobe 8.1 has instead. Shares are parts of 1; NaN without measures.

| remark | condition |
|---|---|
| `NON_FINITE` | a maximum or minimum is not finite, and the golden's is |
| `THOUSANDTH` | of all inputs more than 0.9 of the elements are within a thousandth, of an output below 0.6 |
| `NORM` | an output's norm differs by more than 0.5, no input's by 0.1 |
| `GROWN` | the greatest difference of a norm grows more than tenfold (above 0.1 if the inputs agree) |
| `COSINE` | the least cosine falls by more than 0.1 from the inputs, if it is above 0.9, to the outputs |
| `GRADIENT`, `VALUE`, `DTYPE`, `SHAPE` | `requires_grad`, a number or text among the inputs, dtype or shape differ |
| `DIGEST` | the digests differ |
| `OTHER_DIGEST` | the digests are of two kinds (not a rule of msprobe, which has one) |
| `UNMATCHED` | the golden has no such record |
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from msprobe.base import names


class Grade(Enum):
    """A verdict, as the number that determines the color."""

    PASS = 0.0
    WARNING = 0.5
    ERROR = 1.0


class Indicator(Enum):
    """A remark on a record; the value is the grade and the sentence."""

    NON_FINITE = (Grade.ERROR, "The maximum or minimum is NaN or infinite; that of the golden is finite.")
    THOUSANDTH = (Grade.ERROR, "The inputs agree within 0.001, the outputs do not.")
    NORM = (Grade.ERROR, "The norm differs by more than half, although the norms of the inputs agree.")
    GRADIENT = (Grade.ERROR, "requires_grad differs.")
    VALUE = (Grade.ERROR, "The value of an argument differs.")
    DTYPE = (Grade.ERROR, "The dtypes differ.")
    SHAPE = (Grade.ERROR, "The shapes differ.")
    GROWN = (Grade.WARNING, "The difference of the norms grows more than tenfold from the inputs to the outputs.")
    COSINE = (Grade.WARNING, "The cosine falls by more than 0.1 from the inputs to the outputs.")
    DIGEST = (Grade.ERROR, "The digests differ.")
    OTHER_DIGEST = (Grade.WARNING, "The digests are of different kinds: collect both sides with the same summary_mode.")
    UNMATCHED = (Grade.WARNING, "The golden does not have this record.")

    @property
    def grade(self) -> Grade:
        """Return its grade."""
        return self.value[0]

    @property
    def sentence(self) -> str:
        """Return the text on the page: the grade, and the sentence."""
        return f"{self.grade.name.lower()}: {self.value[1]}"


NEVER_JUDGED = frozenset(
    [
        "empty",
        "empty_like",
        "numpy",
        "to",
        "__setitem__",
        "empty_with_format",
        "new_empty_strided",
        "new_empty",
        "empty_strided",
    ]
)
"""Functions whose outputs are not evidence, or not about the function."""

PLACEHOLDERS = frozenset(["_reduce_scatter_base", "_all_gather_base", "all_to_all_single", "batch_isend_irecv"])
"""Functions whose inputs are memory to be written: only their outputs are judged, and not by the inputs."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One record of a call with its counterpart. `relative` are the relative differences of maximum, minimum, mean and
    norm; `own` are the remarks that do not depend on other records; `is_finite` is whether its maximum and minimum
    are."""

    is_output: bool
    own: tuple[Indicator, ...] = ()
    relative: tuple[float, float, float, float] = (math.nan,) * 4
    cosine: float = math.nan
    thousandth: float = math.nan
    is_finite: bool = True
    is_equal: bool = True


def indicators(call: str, records: Sequence[Measured]) -> list[tuple[Indicator, ...]]:
    """Return the remarks on each record of a call; inputs without measures count as equal."""
    function = _function(call)
    if function in NEVER_JUDGED:
        return [()] * len(records)
    is_filled = function in PLACEHOLDERS
    found = [list(record.own) if record.is_output or not is_filled else [] for record in records]
    outputs = [at for at, record in enumerate(records) if record.is_output]
    if outputs and not is_filled:
        before = [record for record in records if not record.is_output]
        after = [records[at] for at in outputs]
        norm = _greatest(record.relative[3] for record in before)
        for at in outputs:
            if norm < 0.1 and records[at].relative[3] > 0.5:
                found[at].append(Indicator.NORM)
        found[outputs[0]] += _of_call(before, after)
    return [tuple(dict.fromkeys(each)) for each in found]


def _of_call(before: Sequence[Measured], after: Sequence[Measured]) -> list[Indicator]:
    """Return the remarks on inputs and outputs as a whole."""
    found = []
    near, far = (_least(record.thousandth for record in side) for side in (before, after))
    if near > 0.9 and far < 0.6:
        found.append(Indicator.THOUSANDTH)
    norm, grown = (_greatest(record.relative[3] for record in side) for side in (before, after))
    if grown > (10 * norm if norm else 0.1):
        found.append(Indicator.GROWN)
    cosine, fallen = (_least(record.cosine for record in side) for side in (before, after))
    if cosine > 0.9 and cosine - fallen > 0.1:
        found.append(Indicator.COSINE)
    return found


def worst(found: Iterable[Iterable[Indicator]]) -> Grade:
    """Return the verdict on a call."""
    grades = [indicator.grade for each in found for indicator in each]
    return max(grades, key=lambda grade: grade.value, default=Grade.PASS)


def distance(call: str, records: Sequence[Measured], task: str) -> float:
    """Return the number of msprobe 8.1: 0 for no difference, 1 for the greatest; for digests 1 for equal ones,
    otherwise 0."""
    good = 1.0 if task == "md5" else 0.0
    if _function(call) in NEVER_JUDGED:
        return good
    if task == "md5":
        return float(all(record.is_equal for record in records))
    outputs = [record for record in records if record.is_output]
    if any(not record.is_finite for record in outputs):
        return 1.0
    if task == "summary":
        return min(1.0, _greatest(share for record in outputs for share in record.relative))
    inputs = [record for record in records if not record.is_output]
    if any(not record.is_finite for record in inputs):
        return 0.0
    fall = _least(record.thousandth for record in inputs) - _least(record.thousandth for record in outputs)
    return min(1.0, max(0.0, fall))


def _function(call: str) -> str:
    name = names.parse(call)
    return name.stem.rpartition(".")[2] if name.kind == "api" else ""


def _greatest(shares: Iterable[float]) -> float:
    return max((share for share in shares if share == share), default=0.0)


def _least(shares: Iterable[float]) -> float:
    return min((share for share in shares if share == share), default=1.0)
