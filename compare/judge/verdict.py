"""Verdicts from measures and thresholds."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from msprobe.compare.core.exemptions import Exemption
from msprobe.compare.core.measures import Measures
from msprobe.compare.core.reason import Cause, Reason, Reasons, TensorLook, Why
from msprobe.compare.core.relation import Relation
from msprobe.compare.core.standard import EXACT, STANDARDS, Standard, canonical, family
from msprobe.compare.core.tensor import source_of
from msprobe.compare.match.pairs import equal_values
from msprobe.store.record import NULL, PARTS, REDUCTION, Columns, Dump, NonFinite, Record

from . import wording

Grade = Literal["pass", "warning", "error", "unjudged"]

GRADES: tuple[Grade, ...] = ("pass", "warning", "error", "unjudged")

SEVERITY: tuple[Grade, ...] = ("pass", "unjudged", "warning", "error")
"""The grades from the least to the most severe: several pairs have the most severe grade of them. A pair that could not
be judged may be equal, so `unjudged` is less severe than a difference."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one pair, with reasons unless it is a plain pass, and a cause if there is no verdict."""

    grade: Grade
    reasons: Reasons = ()
    cause: Cause | None = None

    @property
    def reason(self) -> str:
        """Return the reasons in sentences, for printing."""
        return wording.sentences(self.reasons)

    def __bool__(self) -> bool:
        return self.grade == "pass"


PASS = Verdict("pass")

_DTYPES = {*STANDARDS, *(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)), "bool"}


def unjudged(cause: Cause, *reasons: Reason) -> Verdict:
    """Return the verdict of a pair that is unmatched, unreadable or not comparable, or has no data. Never a pass."""
    return Verdict("unjudged", reasons, cause)


def excused(exemption: Exemption, *reasons: Reason) -> Verdict:
    """Return the verdict on a pair to which an exemption applies."""
    return Verdict("pass" if exemption.cause is None else "unjudged", reasons, exemption.cause)


def wrong(reason: Reason) -> Verdict:
    """Return an error with its reason."""
    return Verdict("error", (reason,))


def judge_value(target: Record, golden: Record) -> Verdict:
    """Return the verdict of two values that are not both tensors: equal or an error.

    NaN equals NaN, and a dtype equals itself in another framework. Other tools, and earlier versions of this one, write
    null for a `ReduceOp`, which is not judged.
    """
    a, b = target.value, golden.value
    are_dtypes = target.type.endswith(".dtype") and golden.type.endswith(".dtype")
    is_same = a == b or (a != a and b != b) or (are_dtypes and canonical(str(a)) == canonical(str(b)))
    if target.kind == golden.kind and (target.kind == "tensor" or is_same):
        return PASS
    if {target.kind, golden.kind} == {"null", "value"} and REDUCTION in (target.type, golden.type):
        side = "target" if target.kind == "value" else "golden"
        return unjudged(Cause.NOT_COLLECTED, Reason(Why.KIND_NOT_COLLECTED, side))
    mine, theirs = (TensorLook(r.dtype, r.shape) if r.kind == "tensor" else r.value for r in (target, golden))
    return wrong(Reason(Why.VALUES, name=path_of(target), target=mine, golden=theirs))


def judge_value_across(target: Record, golden: Record) -> Verdict:
    """Return the verdict of two values of two frameworks, of which at most one is a tensor.

    Numbers are equal by value, lists and tuples by their elements. A dtype, None, or a number that the other side
    stores in a tensor is compared with its form on the other side.
    """
    if target.kind == golden.kind == "value" and equal_values(target.value, golden.value):
        return PASS
    single = next((r for r in (target, golden) if r.kind == "tensor"), None)
    other = golden if single is target else target
    if single is not None and other.kind == "value" and _is_in(other.value, single):
        return PASS
    a, b = target.value, golden.value
    are_texts = target.kind == golden.kind and isinstance(a, str) and isinstance(b, str)
    if are_texts and canonical(str(a)) == canonical(str(b)) in _DTYPES:  # `Float32`, `torch.float32`
        return PASS
    return judge_value(target, golden)


def _is_in(value: object, tensor: Record) -> bool:
    """Return whether a number equals the element of a one-element tensor, or every element of a constant: `0 + y`,
    `zeros + y`."""
    s = tensor.statistics
    if s is None or s.max is None or s.max != s.min or not isinstance(value, int | float):
        return False
    if math.prod(tensor.shape or ()) == 1:
        return math.isclose(float(s.max), float(value), rel_tol=1e-6)
    is_trained = tensor.part == "parameters" or source_of(tensor.source).origin == "parameter"
    return type(value) is not bool and not is_trained and s.max == value


def judge_structure(target: Record, golden: Record, relation: Relation) -> Verdict | None:
    """Return the verdict if shapes or dtypes of two tensors differ; None if they agree.

    Two frameworks commonly use other widths of a dtype (indices in int32 and int64), so families are compared.
    """
    if target.shape != golden.shape:
        return wrong(Reason(Why.SHAPES, target=target.shape, golden=golden.shape))
    if not same_dtype(target.dtype, golden.dtype, relation):
        return wrong(Reason(Why.DTYPES, target=target.dtype, golden=golden.dtype))
    return None


def same_dtype(target: str, golden: str, relation: Relation) -> bool:
    """Return whether two dtypes are the same; across frameworks, whether they belong to one family."""
    if target == golden:
        return True
    if relation.is_one_framework:
        return canonical(target) == canonical(golden)
    return family(target) == family(golden)


def judge_measures(found: Measures, standard: Standard, shape: tuple[int, ...]) -> Verdict:
    """Return the verdict of two tensors by the measures of their elements."""
    if found.equal or found.excess == found.beyond == 0:
        return PASS
    at = unravel(found.worst, shape) if shape else None
    if found.mismatched:
        return wrong(Reason(Why.NON_FINITE, number=found.mismatched, size=found.size, at=at))
    if found.excess <= 1:
        return PASS
    reason = Reason(Why.ELEMENTS, number=found.beyond, size=found.size, at=at, amount=found.max_absolute)
    if standard == EXACT:
        at = unravel(found.max_absolute_at, shape) if shape and found.max_absolute_at >= 0 else None
        return wrong(reason._replace(why=Why.INTEGERS, at=at))
    return Verdict(_grade(found.excess, standard), (reason._replace(excess=found.excess, allowed=standard),))


def judge_statistics(excess: float, which: str, target: Record, golden: Record, standard: Standard) -> Verdict:
    """Return the verdict of two tensors by their statistics."""
    if excess <= 1:
        return PASS
    t, g = getattr(target.statistics, which), getattr(golden.statistics, which)
    return Verdict(_grade(excess, standard), (statistic(excess, which, t, g, standard),))


def statistic(excess: float, which: str, target: object, golden: object, standard: Standard) -> Reason:
    """Return the reason that one statistic exceeds its standard."""
    return Reason(Why.STATISTIC, name=which, target=target, golden=golden, excess=excess, allowed=standard)


def counts(target: NonFinite | None, golden: NonFinite | None) -> Reason | None:
    """Return the reason that the numbers of non-finite elements differ; None if they agree, or one side has no
    counts."""
    if target is None or golden is None or target == golden:
        return None
    return Reason(Why.COUNTS, target=target, golden=golden)


def judge_gradient(target: Record, golden: Record) -> Verdict | None:
    """Return the verdict if two gradients have different meanings; None if they have the same."""
    if target.gradient == golden.gradient != "unavailable":
        return None
    for side, gradient in (("target", target.gradient), ("golden", golden.gradient)):
        if gradient == "unavailable":
            return unjudged(Cause.NOT_COLLECTED, Reason(Why.GRADIENT_LOST, side))
    reason = Reason(Why.OTHER_GRADIENT, target=target.gradient, golden=golden.gradient)
    return unjudged(Cause.OTHER_GRADIENT, reason)


def count(verdicts: Mapping[Grade, int]) -> str:
    """Return `12 pass, 1 warning, 0 error, 3 unjudged`."""
    return ", ".join(f"{verdicts.get(grade, 0)} {grade}" for grade in GRADES)


def number_differing(verdicts: Mapping[Grade, int]) -> int:
    """Return how many of the pairs that were judged do not pass."""
    return verdicts.get("warning", 0) + verdicts.get("error", 0)


def path_of(record: Record) -> str:
    """Return the place of a record in its call: `input.1.0`, `parameters.weight`."""
    return ".".join((record.part, *record.path))


def _grade(excess: float, standard: Standard) -> Grade:
    return "warning" if excess <= standard.warning else "error"


def unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the index of the element at position `flat` in C order."""
    index: list[int] = []
    for length in reversed(shape):
        flat, at = divmod(flat, length)
        index.append(at)
    return tuple(reversed(index))


def lost_rows(dump: Dump) -> frozenset[int]:
    """Return the rows that are null and that the dump lists, with a cause, as values of their call that could not be
    collected.

    Only calls with such entries are examined. An entry for a part covers everything inside it.
    """
    columns = dump.columns
    return frozenset(
        row
        for at, parts in dump.calls.lost.items()
        for row in columns.rows(at)
        if columns.kind[row] == NULL and not set(parts).isdisjoint(_places(columns, row))
    )


def _places(columns: Columns, row: int) -> Iterator[str]:
    """Yield the names by which a dump may refer to a row, or to a part that contains it: `input.1.0`, `input.1` and
    `input`."""
    part, path = PARTS[columns.part[row]], columns.path_of(row)
    stems: list[tuple[str, ...]] = [("input",), ("kwargs",)] if part == "input" else [(part,)]
    if part in ("parameters_grad", "debug"):  # their names contain only the path
        stems = [()]
    for stem in stems:
        yield from (".".join((*stem, *path[:length])) for length in range(len(path) + 1))
