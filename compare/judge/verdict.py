"""Measures and a standard make a verdict. Judging never measures."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from msprobe.compare.match.alone import equal_values
from msprobe.compare.measure.measures import Measures
from msprobe.store.record import NonFinite, Record

from .standard import EXACT, STANDARDS, Standard, canonical, family

Grade = Literal["pass", "warning", "error", "unjudged"]

GRADES: tuple[Grade, ...] = ("pass", "warning", "error", "unjudged")


class Cause(Enum):
    """Why a pair has no verdict; the value completes `12 pairs ...`.

    An exempt pair could not show a fault of the target, and a comparison is clean with it. Any other one leaves the
    question open, and the comparison is not clean.
    """

    UNMATCHED = "without a partner"
    NOT_COLLECTED = "not collected on one side"
    LOST_ON_BOTH_SIDES = "that could not be collected on either side"
    UNREADABLE = "in files that are missing or cannot be read"
    NOT_SAVED = "without statistics, whose tensors one side did not save"
    NO_STATISTICS = "without statistics on one side"
    DIGEST_AGAINST_STATISTICS = "with digests on one side and statistics on the other"
    DIGESTS_OF_TWO_FRAMEWORKS = "with digests of two frameworks and no statistics"
    PART = "of which one is a part of the other, which statistics do not show"
    OTHER_GRADIENT = "with a call's own gradient on one side and an accumulated one on the other"
    INNER_NODE = "with the gradient of an inner node of autograd on one side"
    FAILED = "whose comparison failed"
    UNUSED = "of values that nobody uses"
    UNNEEDED_GRADIENT = "of gradients that nobody needs"
    NO_COUNTERPART = "without a counterpart in the other framework"
    HARMLESS = "whose difference dies out"

    @property
    def is_exempt(self) -> bool:
        """Whether the pair could not show a fault."""
        return self in (Cause.UNUSED, Cause.UNNEEDED_GRADIENT, Cause.NO_COUNTERPART, Cause.HARMLESS)


CAUSES = tuple(Cause)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge says of one pair, with a reason for everything but a plain pass, and a cause where there is no
    verdict."""

    grade: Grade
    reason: str = ""
    cause: Cause | None = None

    def __bool__(self) -> bool:
        return self.grade == "pass"


PASS = Verdict("pass")

_DTYPES = {*STANDARDS, *(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)), "bool"}


def unjudged(reason: str, cause: Cause) -> Verdict:
    """Not matched, not readable, not comparable, or no data: never a pass."""
    return Verdict("unjudged", reason, cause)


def judge_value(target: Record, golden: Record) -> Verdict:
    """Two values that are not both tensors: equal or an error.

    NaN equals NaN, and a dtype equals itself in another framework.
    """
    if target.kind == golden.kind == "tensor" or (target.kind == golden.kind and same_value(target, golden)):
        return PASS
    return Verdict("error", f"{path_of(target)} is {say(target)}, golden {say(golden)}.")


def same_value(target: Record, golden: Record) -> bool:
    """Whether two values that are not tensors are the same argument."""
    a, b = target.value, golden.value
    if a == b or (a != a and b != b):
        return True
    is_dtype = target.type.endswith(".dtype") and golden.type.endswith(".dtype")
    return is_dtype and canonical(str(a)) == canonical(str(b))


def judge_value_across(target: Record, golden: Record) -> Verdict:
    """Two values of two frameworks, of which at most one is a tensor.

    Numbers are equal by value, lists and tuples by their elements; a dtype, None, or a number that the other side keeps
    in a tensor of one element, are what they are called on the other side.
    """
    if target.kind == golden.kind == "value" and equal_values(target.value, golden.value):
        return PASS
    single = next((r for r in (target, golden) if r.kind == "tensor"), None)
    other = golden if single is target else target
    if single is not None and other.kind == "value" and _is_in(other.value, single):
        return PASS
    if target.kind == golden.kind and _same_word(target.value, golden.value):
        return PASS
    return judge_value(target, golden)


def _is_in(value: object, tensor: Record) -> bool:
    """Whether a number is what a tensor of one element holds."""
    s = tensor.statistics
    if s is None or s.max is None or s.max != s.min or not isinstance(value, int | float):
        return False
    return math.prod(tensor.shape or ()) == 1 and math.isclose(float(s.max), float(value), rel_tol=1e-6)


def _same_word(a: object, b: object) -> bool:
    """Whether two texts name one dtype: `Float32`, `mindspore.float32`, `torch.float32`."""
    return isinstance(a, str) and isinstance(b, str) and canonical(a) == canonical(b) in _DTYPES


def judge_structure(target: Record, golden: Record, across: bool) -> Verdict | None:
    """What two tensors look like before any element is read; None where shape and dtype agree.

    Across frameworks the widths of a dtype differ by custom (indices are int32 here, int64 there), so families count.
    """
    if target.shape != golden.shape:
        return Verdict("error", f"Shapes differ: {say_shape(target)}, golden {say_shape(golden)}.")
    if not same_dtype(target.dtype, golden.dtype, across):
        return Verdict("error", f"Dtypes differ: {target.dtype or 'none'}, golden {golden.dtype or 'none'}.")
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
    where = f"at {list(unravel(found.worst, shape))}" if shape else "in its one element"
    if found.mismatched:
        return Verdict(
            "error", f"NaN or infinity differs in {found.mismatched} of {found.size} elements, first {where}."
        )
    if found.excess <= 1:
        return PASS
    if standard == EXACT:
        place = f", at {list(unravel(found.max_absolute_at, shape))}" if shape and found.max_absolute_at >= 0 else ""
        verb = "differs" if found.beyond == 1 else "differ"
        return Verdict(
            "error",
            f"Integers and booleans must be equal: {found.beyond} of {found.size} elements {verb}, the largest "
            f"difference is {found.max_absolute:.15g}{place}.",
        )
    return Verdict(
        _grade(found.excess, standard),
        f"{found.beyond} of {found.size} elements beyond {standard}, worst {where} by {_times(found.excess)}; "
        f"greatest absolute difference {found.max_absolute:.3g}.",
    )


def judge_statistics(excess: float, which: str, target: Record, golden: Record, standard: Standard) -> Verdict:
    """Two tensors by their statistics."""
    if excess <= 1:
        return PASS
    t, g = getattr(target.statistics, which), getattr(golden.statistics, which)
    return Verdict(_grade(excess, standard), say_statistic(excess, which, t, g, standard))


def say_statistic(excess: float, which: str, target: object, golden: object, standard: Standard) -> str:
    """How one statistic differs beyond its standard."""
    if isinstance(target, NonFinite) and isinstance(golden, NonFinite):
        return say_counts(target, golden)
    if _is_non_finite(target) or _is_non_finite(golden):
        return f"NaN or infinity differs: the {which} is {target}, golden {golden}."
    if not (isinstance(target, float) and isinstance(golden, float)):
        return f"The {which} differs: {target}, golden {golden}."
    amount = "" if standard == EXACT else f" beyond {standard} by {_times(excess)}"
    return f"The {which} differs{amount}: {target:.9g}, golden {golden:.9g}."


def say_counts(target: NonFinite | None, golden: NonFinite | None) -> str:
    """`3 elements are NaN, golden 2.`, and so on for each count that differs; empty where one side does not count."""
    if target is None or golden is None:
        return ""
    return " ".join(
        f"{t} {'element is' if t == 1 else 'elements are'} {kind}, golden {g}."
        for t, g, kind in zip(target, golden, ("NaN", "inf", "-inf"), strict=True)
        if t != g
    )


def judge_digests(target: Record, golden: Record) -> Verdict:
    """Two tensors by the digests of their bytes: equal or an error."""
    if target.digest == golden.digest:
        return PASS
    return Verdict("error", f"Digests differ: {target.digest}, golden {golden.digest}.")


def judge_gradient(target: Record, golden: Record) -> Verdict | None:
    """Whether two gradients mean the same thing; None where they do."""
    if target.gradient == golden.gradient != "unavailable":
        return None
    sides = {"the target": target.gradient, "the golden": golden.gradient}
    for side, gradient in sides.items():
        if gradient == "unavailable":
            return unjudged(f"A gradient flowed here on {side} side but could not be collected.", Cause.NOT_COLLECTED)
    return unjudged(
        "The gradient is this call's own on one side and the sum over all users of the tensor on the other "
        f"(target {target.gradient}, golden {golden.gradient}).",
        Cause.OTHER_GRADIENT,
    )


def count(verdicts: Mapping[Grade, int]) -> str:
    """`12 pass, 1 warning, 0 error, 3 unjudged`."""
    return ", ".join(f"{verdicts.get(grade, 0)} {grade}" for grade in GRADES)


def path_of(record: Record) -> str:
    """A record's place within its call: `input.1.0`, `parameters.weight`."""
    return ".".join((record.part, *record.path))


def say(record: Record) -> str:
    """A record's value in a sentence."""
    if record.kind == "null":
        return "None"
    if record.kind == "tensor":
        return f"a tensor {record.dtype}{say_shape(record)}"
    text = repr(record.value)
    return text if len(text) <= 60 else text[:57] + "..."


def say_shape(record: Record) -> str:
    """`[2, 16]`, as the sheet prints it."""
    return "None" if record.shape is None else str(list(record.shape))


def _grade(excess: float, standard: Standard) -> Grade:
    return "warning" if excess <= standard.warning else "error"


def _times(excess: float) -> str:
    return "any amount" if math.isinf(excess) else f"{excess:.3g} times"


def _is_non_finite(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index of an element that is `flat` in C order."""
    index: list[int] = []
    for length in reversed(shape):
        flat, at = divmod(flat, length)
        index.append(at)
    return tuple(reversed(index))
