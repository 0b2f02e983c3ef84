"""The float formats, as data: how fine each of them is. Units in the last place are counted by them."""

from collections.abc import Iterable
from dataclasses import dataclass

from msprobe.compare.judge.standard import canonical


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A normal number in [2^e, 2^(e + 1)) has the unit in the last place 2^(e - digits)."""

    digits: int
    """Binary digits behind the point."""

    exponent: int
    """Of the least normal number; below that the unit stays what it is there."""


FORMATS = {
    "float8_e5m2": FloatFormat(2, -14),
    "float8_e4m3fn": FloatFormat(3, -6),
    "bfloat16": FloatFormat(7, -126),
    "float16": FloatFormat(10, -14),
    "float32": FloatFormat(23, -126),
    "float64": FloatFormat(52, -1022),
    # The parts of complex numbers.
    "complex64": FloatFormat(23, -126),
    "complex128": FloatFormat(52, -1022),
}


def coarsest(dtypes: Iterable[str]) -> FloatFormat | None:
    """The format with the fewest digits among some dtypes, whatever framework named them; None without any float."""
    known = (FORMATS.get(canonical(dtype)) for dtype in dtypes)
    return min((found for found in known if found is not None), key=lambda found: found.digits, default=None)
