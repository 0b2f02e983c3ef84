"""The measures between two tensors, as values; and the floating-point formats."""

from collections.abc import Iterable
from dataclasses import dataclass

from .standard import canonical


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures between a target t and a golden g of one shape.

    Elements that are non-finite and the same on both sides (NaN with NaN, infinities of one sign) count as zeros on
    both sides. `mismatched` counts those that are non-finite and not the same; the other numbers exclude them, so they
    are hardly meaningful if it is not zero. Integers and booleans are measured as float64, but their differences are
    those of the integers; a complex number counts as two numbers, its parts, but as one element.

    | field | formula | nothing to measure | special cases |
    |---|---|---|---|
    | `equal` | all t = g, NaN = NaN, -0.0 = 0.0, and one dtype | True | |
    | `cosine` | sum(t g) / (norm(t) norm(g)) | 1.0 | norms of both at most TINY: 1.0; of one: NaN |
    | `euclid` | norm(t - g) | 0.0 | |
    | `max_absolute` | max abs(t - g) | 0.0 | |
    | `max_relative` | max abs((t - g) / g) | 0.0 | if g = 0, TINY is added to both |
    | `within_1e_3`, `within_5e_3` | share of elements whose relative error is below 0.001, 0.005 | 1.0 | |
    | `excess` | max abs(t - g) / (absolute s + relative abs(g)), see standard.py | 0.0 | 0/0 is 0, x/0 infinity |
    | `beyond` | number of elements whose share of `excess` is above 1, and `mismatched` | 0 | |
    | `scale_error` | `max_absolute` / greatest finite abs(g) | 0.0 | 0/0 is 0, x/0 infinity |
    | `bias` | mean(t - g) | 0.0 | |
    | `max_ulp` | max abs(t - g) / spacing(g) | 0.0 | spacing at zero: the least subnormal |

    The spacing is the unit in the last place of the golden element in the coarser of the two floating-point formats, 1
    if neither side has one. TINY is the epsilon of float64.
    """

    size: int
    equal: bool
    mismatched: int
    cosine: float
    euclid: float
    max_absolute: float
    max_relative: float
    within_1e_3: float
    within_5e_3: float
    excess: float
    beyond: int
    worst: int
    """Flat index of the element with the greatest excess, or of the first mismatched one; -1 without any."""
    max_absolute_at: int = -1
    """Flat index of the first element with the greatest absolute difference; -1 if there is none."""
    scale_error: float = 0.0
    bias: float = 0.0
    max_ulp: float = 0.0


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A floating-point format: a normal number in [2^e, 2^(e + 1)) has the unit in the last place 2^(e - digits)."""

    digits: int
    """Number of fraction bits."""

    exponent: int
    """Exponent of the smallest normal number; below that, the unit is constant."""


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
    """Return the format with the fewest digits among some dtypes, as any framework names them; None without a
    floating-point dtype."""
    known = (FORMATS.get(canonical(dtype)) for dtype in dtypes)
    return min((found for found in known if found is not None), key=lambda found: found.digits, default=None)
