"""Where the other tool's measures are wrong: what it does, and why ours is right, worked out by hand.

A cell is excused by a wart only if our value is the one that `worked.py` gives for it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from other_tool import Row

PARTS = {"Max": "max", "Min": "min", "Mean": "mean", "L2norm": "l2norm", "Norm": "l2norm"}


@dataclass(frozen=True)
class Cell:
    """One cell of two tables that do not agree."""

    title: str
    ours: Row
    theirs: Row
    version: str

    @property
    def mine(self) -> str:
        return str(self.ours[self.title]).strip()

    @property
    def other(self) -> str:
        return str(self.theirs[self.title]).strip()

    @property
    def is_8(self) -> bool:
        return self.version.startswith("8.")

    @property
    def is_relative(self) -> bool:
        """Of statistics; MaxRelativeErr is a column of tensors too."""
        return self.is_statistic and self.title.endswith("RelativeErr")

    @property
    def is_statistic(self) -> bool:
        return "Max diff" in self.ours

    @property
    def sides(self) -> tuple[str, str]:
        """The two statistics that a difference is of, as printed."""
        part = PARTS[self.title.removesuffix(" diff").removesuffix("RelativeErr")]
        return str(self.ours[f"NPU {part}"]).strip(), str(self.ours[f"Bench {part}"]).strip()

    @property
    def dtype(self) -> str:
        return str(self.ours["NPU Dtype"])

    @property
    def ends(self) -> list[float]:
        """Maximum and minimum of both sides, as far as they are numbers."""
        texts = [str(self.ours.get(f"{side} {what}")).strip() for side, what in _ENDS]
        return [float(text) for text in texts if text in ("inf", "-inf") or is_number(text)] or [0.0]


_ENDS = [(side, what) for side in ("NPU", "Bench") for what in ("max", "min")]


@dataclass(frozen=True)
class Wart:
    """A way in which it is wrong; `is_this` knows it by the cell and its row."""

    id: str
    does: str
    proof: str
    is_this: Callable[[Cell], bool]


def is_number(text: str) -> bool:
    """Finite."""
    try:
        return math.isfinite(float(text.rstrip("%")))
    except ValueError:
        return False


def is_cut(cell: Cell) -> bool:
    """Off by no more than the cut digits make: 1e-16 on each side, and what float64 rounds."""
    if not (cell.is_8 and cell.is_statistic and is_number(cell.mine) and is_number(cell.other)):
        return False
    target, golden = map(float, cell.sides)
    slack = 2e-16 + 2.0**-52 * (abs(target) + abs(golden))
    if cell.is_relative:
        slack *= 100 / abs(golden) * (1 + abs(target / golden))
    return abs(float(cell.mine.rstrip("%")) - float(cell.other.rstrip("%"))) <= slack


def is_equal_text(cell: Cell) -> bool:
    return not cell.is_8 and cell.is_statistic and cell.other == "0" and cell.sides[0] == cell.sides[1]


def is_word(cell: Cell) -> bool:
    return not cell.is_8 and cell.is_statistic and (cell.mine, cell.other) == ("N/A", "Diff")


def is_zero_golden(cell: Cell) -> bool:
    return not cell.is_8 and cell.is_relative and cell.mine == "N/A" and float(cell.sides[1]) == 0


def is_infinity(cell: Cell) -> bool:
    return cell.is_relative and cell.mine == "Nan" and "inf" in cell.sides[1]


def is_none(cell: Cell) -> bool:
    return cell.is_8 and cell.is_statistic and cell.mine == "N/A" and cell.sides == ("None", "None")


def is_real_part(cell: Cell) -> bool:
    return cell.dtype.startswith("Complex") and not cell.is_statistic


def is_half(cell: Cell) -> bool:
    return cell.is_8 and cell.title != "Cosine" and cell.dtype == cell.ours["Bench Dtype"] == "Float16"


def is_narrow(cell: Cell) -> bool:
    return not cell.is_statistic and cell.title == "MaxRelativeErr" and is_number(cell.mine) and cell.other == "inf"


def is_wide_integer(cell: Cell) -> bool:
    """Integers that float64 does not hold."""
    return not cell.is_statistic and "Int64" in cell.dtype and max(map(abs, cell.ends)) > 2**53


def is_square(cell: Cell) -> bool:
    return not cell.is_statistic and cell.title in ("Cosine", "EucDist") and not is_number(cell.other) and is_huge(cell)


def is_huge(cell: Cell) -> bool:
    """Whether squares are beyond float64."""
    return max(map(abs, cell.ends)) > 1e150


def is_sign(cell: Cell) -> bool:
    return not cell.is_statistic and cell.mine == "N/A" and is_number(cell.other) and any(map(math.isinf, cell.ends))


def is_one_element(cell: Cell) -> bool:
    return not cell.is_8 and is_number(cell.mine) and cell.other == "unsupported"


def is_nan_alone(cell: Cell) -> bool:
    shape = cell.ours["NPU Tensor Shape"]
    return (
        shape in ("[]", "[1]")
        and str(cell.ours.get("NPU max")) == "Nan"
        and cell.other in ("Nan", "nan", "unsupported")
    )


def is_epsilon(cell: Cell) -> bool:
    return not cell.is_8 and cell.title == "MaxRelativeErr" and is_number(cell.mine) and is_number(cell.other)


WARTS = (
    Wart(
        "cut",
        "8.1.1 reads statistics back from text and cuts them behind 17 digits, zeros before the first other counted",
        "0.00020415769540704787 - 0.00020483879779931158 = -6.811023922637e-07; cut to 0.0002041576954070 and "
        "0.0002048387977993 they differ by -6.811023923e-07, which is what it writes",
        is_cut,
    ),
    Wart(
        "equal text",
        "26.2.0 writes 0 for any two equal texts, also None, True, NaN, inf, and relatively to a golden of 0",
        "NaN - NaN and inf - inf are NaN (IEEE 754), 0 / 0 has no value, None has no maximum; 8.1.1 writes Nan and N/A",
        is_equal_text,
    ),
    Wart(
        "word",
        "26.2.0 writes Diff for two texts that differ",
        "'same' - 'valid' is no number: N/A, as 8.1.1 writes; that they differ is said by Verdict and Reason",
        is_word,
    ),
    Wart(
        "zero golden",
        "26.2.0 writes a relative difference of inf where golden is 0",
        "3 against 0: 3 / 0 has no value, and 1e-20 against 0 is not infinitely wrong; N/A, as 8.1.1 writes",
        is_zero_golden,
    ),
    Wart(
        "infinity",
        "a relative difference against a golden of infinity: 26.2.0 writes inf or -inf, 8.1.1 nan%",
        "2 against inf: |2 - inf| / inf = inf / inf, which is NaN (IEEE 754); a relative difference cannot be -inf",
        is_infinity,
    ),
    Wart(
        "none",
        "8.1.1 writes Nan or N/A for the same pair of None, depending on the other rows of the table",
        "None against None has no statistics: N/A, as 8.1.1 itself writes in the special cases",
        is_none,
    ),
    Wart(
        "real part",
        "complex tensors are measured by their real parts",
        "[1+2j] against [1-2j]: the real parts are equal, but |4j| = 4; z against its conjugate is not EucDist 0",
        is_real_part,
    ),
    Wart(
        "half",
        "8.1.1 computes float16 in float16",
        "60000 against -60000: 120000 / 60000 = 2; 120000 is beyond float16's 65504, so it writes inf",
        is_half,
    ),
    Wart(
        "narrow",
        "relative errors of float32 are inf where the difference is beyond float32",
        "3e38 against -3e38: 6e38 / 3e38 = 2, but 6e38 is beyond float32's 3.4e38, so it writes inf",
        is_narrow,
    ),
    Wart(
        "squares",
        "squares that are beyond float64 make a distance inf and a cosine Nan",
        "[1e200, -1e200] against [-1e200, 1e200]: opposite, so Cosine -1, and the distance is 2e200 * sqrt(2)",
        is_square,
    ),
    Wart(
        "wide integers",
        "int64 is measured after a cast to float64",
        "2^62 + 1, -2^62 - 1 and 7 against 1 less each: three differences of 1, so EucDist is sqrt(3) = 1.7320508; "
        "float64 does not know 2^62 + 1 from 2^62, and it writes 1",
        is_wide_integer,
    ),
    Wart(
        "sign of infinity",
        "inf against -inf counts as the same place and is set to 0 on both sides",
        "[1, inf] against [1, -inf]: it writes Cosine 1 and MaxAbsErr 0 for two tensors that could not differ more",
        is_sign,
    ),
    Wart(
        "one element",
        "26.2.0 writes unsupported for the distance and the ratios of one element",
        "[-2] against [-6]: |-2 + 6| = 4, and 4 / 6 is not below 0.005, so the ratio is 0; 8.1.1 writes the same",
        is_one_element,
    ),
    Wart(
        "NaN alone",
        "for a NaN of no dimension (26.2.0: also of one element) the rule of places is left out and Nan is written",
        "NaN against NaN at the same place of a longer tensor counts as 0 in both releases; NaN against 1 has other "
        "places: N/A",
        is_nan_alone,
    ),
    Wart(
        "epsilon",
        "26.2.0 adds 2^-23 instead of 2^-52 where golden is 0, before it divides",
        "0.25 against 0: 0.25 / 2^-23 = 2097152, 8.1.1 has 0.25 / 2^-52; 1e-20 against 0 becomes 8e-14, printed "
        "as 0.0, as if 1e-20 were 0",
        is_epsilon,
    ),
)
BY_ID = {wart.id: wart for wart in WARTS}
