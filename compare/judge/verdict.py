"""Verdicts from measures and thresholds."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from msprobe.compare.core.measures import Measures
from msprobe.compare.core.reason import Reason, Reasons, TensorLook, Why
from msprobe.compare.core.standard import EXACT, STANDARDS, Standard, canonical, family
from msprobe.compare.core.tensor import source_of
from msprobe.compare.match.pairs import equal_values
from msprobe.store.record import NULL, PARTS, REDUCTION, Columns, Dump, NonFinite, Record

from . import wording

Grade = Literal["pass", "warning", "error", "unjudged"]

GRADES: tuple[Grade, ...] = ("pass", "warning", "error", "unjudged")

SEVERITY: tuple[Grade, ...] = ("pass", "unjudged", "warning", "error")
"""The grades from the least to the most severe: that of several pairs is the most severe of theirs. What could not be
judged may not be what differs."""


class Cause(Enum):
    """Why a pair has no verdict; the value completes `12 pairs ...`.

    An exempt pair could not show a fault of the target, or the user ignores it, and a comparison is clean with it. Any
    other one leaves the question open, and the comparison is not clean.
    """

    UNMATCHED = "without a partner"
    NOT_COLLECTED = "not collected on one side"
    LOST_ON_BOTH_SIDES = "that could not be collected on either side"
    LOST_WITHIN = "that could not be collected on either side, where what follows is compared"
    UNREADABLE = "in files that are missing or cannot be read"
    NOT_SAVED = "without statistics, whose tensors one side did not save"
    NO_STATISTICS = "without statistics on one side"
    DIGEST_AGAINST_STATISTICS = "with digests on one side and statistics on the other"
    DIGESTS_OF_TWO_FRAMEWORKS = "with digests of two frameworks and no statistics"
    DIGESTS_OF_TWO_KINDS = "with digests of two kinds; collect both sides with the same summary_mode"
    PART = "of which one is a part of the other, which statistics cannot compare"
    OTHER_GRADIENT = "with a call's own gradient on one side and an accumulated one on the other"
    INNER_NODE = "with the gradient of an inner node of autograd on one side"
    FAILED = "whose comparison failed"
    UNUSED = "of unused values"
    UNNEEDED_GRADIENT = "of unused gradients"
    NO_COUNTERPART = "without a counterpart in the other framework"
    INTERNAL = "internal details of one framework"
    OTHER_LEVEL = "of calls that the level of the other side does not record"
    SUMMED = "with a call's own gradient on one side and an accumulated one on the other, which is compared elsewhere"
    HARMLESS = "whose difference has no effect"
    REWRITTEN = "of calls on one side only, without effect"
    IGNORED = "ignored by the user"
    UNSHOWN = "of arguments that differ, whose effect is below the noise"
    WIDE_BOUND = "whose inputs explain more than 10 %, which is inconclusive"
    EARLIER = "of parameters that earlier steps, which were not compared, made differ by more than rounding"

    @property
    def is_exempt(self) -> bool:
        """Whether the pair could not show a fault."""
        return self in (
            Cause.UNUSED,
            Cause.LOST_WITHIN,
            Cause.UNNEEDED_GRADIENT,
            Cause.NO_COUNTERPART,
            Cause.OTHER_LEVEL,
            Cause.SUMMED,
            Cause.HARMLESS,
            Cause.IGNORED,
            Cause.INTERNAL,
            Cause.REWRITTEN,
        )


CAUSES = tuple(Cause)

_DETAILS = frozenset(
    {
        Why.COMPARED_LATER,
        Why.PASSED_THROUGH,
        Why.OF_FORWARD,
        Why.NULL,
        Why.DEFAULT,
        Why.NO_RESULT,
        Why.NO_RESULT_OF_CALL,
        Why.NO_RESULT_OF_GRADIENT,
        Why.NO_ARGUMENT,
        Why.OTHER_WAY,
        Why.ONE_VALUE_EQUAL,
    }
)
"""Why a record that one framework alone has needs no counterpart: it has no effect, or its effect is compared."""


def cause_of_one_side(reason: Reason) -> Cause:
    """Return the cause of a pair that one framework alone has, for a reason that explains it."""
    return Cause.INTERNAL if reason.why in _DETAILS else Cause.NO_COUNTERPART


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one pair, with reasons for everything but a plain pass, and a cause where there is no
    verdict."""

    grade: Grade
    reasons: Reasons = ()
    cause: Cause | None = None

    @property
    def reason(self) -> str:
        """The reasons in sentences, for printing."""
        return wording.sentences(self.reasons)

    def __bool__(self) -> bool:
        return self.grade == "pass"


PASS = Verdict("pass")

_DTYPES = {*STANDARDS, *(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)), "bool"}


def unjudged(cause: Cause, *reasons: Reason) -> Verdict:
    """Not matched, not readable, not comparable, or no data: never a pass."""
    return Verdict("unjudged", reasons, cause)


def wrong(reason: Reason) -> Verdict:
    """An error."""
    return Verdict("error", (reason,))


def judge_value(target: Record, golden: Record) -> Verdict:
    """Two values that are not both tensors: equal or an error.

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
    """Two values of two frameworks, of which at most one is a tensor.

    Numbers are equal by value, lists and tuples by their elements; a dtype, None, or a number that the other side keeps
    in a tensor, are what they are called on the other side.
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
    """Whether a number is what a tensor of one element holds, or every element of a constant: `0 + y`, `zeros + y`."""
    s = tensor.statistics
    if s is None or s.max is None or s.max != s.min or not isinstance(value, int | float):
        return False
    if math.prod(tensor.shape or ()) == 1:
        return math.isclose(float(s.max), float(value), rel_tol=1e-6)
    is_trained = tensor.part == "parameters" or source_of(tensor.source).origin == "parameter"
    return type(value) is not bool and not is_trained and s.max == value


def judge_structure(target: Record, golden: Record, across: bool) -> Verdict | None:
    """What two tensors look like before any element is read; None where shape and dtype agree.

    Across frameworks the widths of a dtype differ by custom (indices are int32 here, int64 there), so families count.
    """
    if target.shape != golden.shape:
        return wrong(Reason(Why.SHAPES, target=target.shape, golden=golden.shape))
    if not same_dtype(target.dtype, golden.dtype, across):
        return wrong(Reason(Why.DTYPES, target=target.dtype, golden=golden.dtype))
    return None


def same_dtype(target: str, golden: str, across: bool) -> bool:
    """Whether two dtypes are one; across frameworks, whether they are of one family."""
    if target == golden:
        return True
    return family(target) == family(golden) if across else canonical(target) == canonical(golden)


def judge_measures(found: Measures, standard: Standard, shape: tuple[int, ...]) -> Verdict:
    """Two tensors by their elements."""
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
    """Two tensors by their statistics."""
    if excess <= 1:
        return PASS
    t, g = getattr(target.statistics, which), getattr(golden.statistics, which)
    return Verdict(_grade(excess, standard), (statistic(excess, which, t, g, standard),))


def statistic(excess: float, which: str, target: object, golden: object, standard: Standard) -> Reason:
    """One statistic differs beyond its standard."""
    return Reason(Why.STATISTIC, name=which, target=target, golden=golden, excess=excess, allowed=standard)


def counts(target: NonFinite | None, golden: NonFinite | None) -> Reason | None:
    """The counts of what is not finite differ; None where they do not, or one side does not count."""
    if target is None or golden is None or target == golden:
        return None
    return Reason(Why.COUNTS, target=target, golden=golden)


def judge_gradient(target: Record, golden: Record) -> Verdict | None:
    """Whether two gradients mean the same thing; None where they do."""
    if target.gradient == golden.gradient != "unavailable":
        return None
    for side, gradient in (("target", target.gradient), ("golden", golden.gradient)):
        if gradient == "unavailable":
            return unjudged(Cause.NOT_COLLECTED, Reason(Why.GRADIENT_LOST, side))
    reason = Reason(Why.OTHER_GRADIENT, target=target.gradient, golden=golden.gradient)
    return unjudged(Cause.OTHER_GRADIENT, reason)


def count(verdicts: Mapping[Grade, int]) -> str:
    """`12 pass, 1 warning, 0 error, 3 unjudged`."""
    return ", ".join(f"{verdicts.get(grade, 0)} {grade}" for grade in GRADES)


def number_differing(verdicts: Mapping[Grade, int]) -> int:
    """Return how many of the pairs that were judged do not pass."""
    return verdicts.get("warning", 0) + verdicts.get("error", 0)


def path_of(record: Record) -> str:
    """A record's place within its call: `input.1.0`, `parameters.weight`."""
    return ".".join((record.part, *record.path))


def _grade(excess: float, standard: Standard) -> Grade:
    return "warning" if excess <= standard.warning else "error"


def unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element that is `flat` in C order."""
    index: list[int] = []
    for length in reversed(shape):
        flat, at = divmod(flat, length)
        index.append(at)
    return tuple(reversed(index))


def lost_rows(dump: Dump) -> frozenset[int]:
    """The rows that are null, and that the dump names, with a cause, as what could not be collected of their call.

    Only calls with such entries are looked at. A part that is named covers all that is inside it.
    """
    columns = dump.columns
    return frozenset(
        row
        for at, parts in dump.calls.lost.items()
        for row in columns.rows(at)
        if columns.kind[row] == NULL and not set(parts).isdisjoint(_places(columns, row))
    )


def _places(columns: Columns, row: int) -> Iterator[str]:
    """What a dump may call the place of a row, or one around it: `input.1.0`, `input.1` and `input`."""
    part, path = PARTS[columns.part[row]], columns.path_of(row)
    stems: list[tuple[str, ...]] = [("input",), ("kwargs",)] if part == "input" else [(part,)]
    if part in ("parameters_grad", "debug"):  # their names have the path only
        stems = [()]
    for stem in stems:
        yield from (".".join((*stem, *path[:length])) for length in range(len(path) + 1))
