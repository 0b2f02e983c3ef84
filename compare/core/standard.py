"""The thresholds for a verdict, as data, each number with its source; and the operations that are not judged."""

import re
from dataclasses import dataclass
from functools import lru_cache

from msprobe.base import names

from .reason import Reason, Why


@dataclass(frozen=True, slots=True)
class Standard:
    """What a dtype is allowed. Up to `warning` times the allowance is a warning, beyond it an error."""

    relative: float
    absolute: float
    warning: float = 10.0  # one decimal place worse than the standard; ours

    def __str__(self) -> str:
        if self.relative == self.absolute == 0:
            return "equality"
        return f"{self.relative:g}*|golden| + {self.absolute:g}*min(1, max|golden|)"


EXACT = Standard(0.0, 0.0)
"""Integers, booleans and whatever has no row: torch.testing.assert_close allows them nothing either."""

STANDARDS = {
    # torch.testing.assert_close, table of default tolerances by dtype (rtol, atol).
    "float16": Standard(1e-3, 1e-5),
    "bfloat16": Standard(1.6e-2, 1e-5),
    "float32": Standard(1.3e-6, 1e-5),
    "float64": Standard(1e-7, 1e-7),
    "complex32": Standard(1e-3, 1e-5),
    "complex64": Standard(1.3e-6, 1e-5),
    "complex128": Standard(1e-7, 1e-7),
    # No row there; the spacing of the format: 2 ** -mantissa bits.
    "float8_e4m3fn": Standard(0.125, 1e-5),
    "float8_e5m2": Standard(0.25, 1e-5),
    "hifloat8": Standard(0.25, 1e-5),
}


ACROSS = {
    # Hugging Face's `transformers-cli pt-to-tf` accepts 5e-5 between the outputs of one model in two frameworks.
    "float32": 5e-5,
    "complex64": 5e-5,
    # For these a network is not deep enough to gather more than ten units in the last place: ours.
    "float16": 10 * 2.0**-10,
    "bfloat16": 10 * 2.0**-7,
    # torch.testing.assert_close allows float64 1e-7; statistics are often kept with float32's digits.
    "float64": 1e-7,
    "complex128": 1e-7,
    "float8_e4m3fn": 0.5,
    "float8_e5m2": 1.0,
    "hifloat8": 1.0,
}
"""Across frameworks: how far a whole network's results may be apart, as a share of a tensor's own scale. No two kernels
add in one order, so nothing is ever equal to the bit."""

UNMASKED = 1000.0
"""A tensor's scale counts up to here: a score that was masked with -1e4 or -1e9 must not excuse its neighbours."""


@lru_cache(maxsize=256)
def allowed_across(target: str, golden: str, custom: bool = False) -> float | None:
    """What two dtypes of floats allow: the golden's row, of `custom` that of the coarser; None where one is exact."""
    ours, theirs = (ACROSS.get(canonical(dtype)) for dtype in (target, golden))
    if ours is None or theirs is None:
        return None
    return max(ours, theirs) if custom else theirs


@lru_cache(maxsize=256)
def canonical(dtype: str) -> str:
    """A dtype's name without its framework: `Float32`, `torch.float32` and `float32` are one."""
    bare = dtype.rsplit(".", 1)[-1].lower()
    return _ALIASES.get(bare, bare)


_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "bool_": "bool",
}


_FAMILIES = {"uint": "int", "int": "int", "bfloat": "float", "float": "float", "hifloat": "float", "complex": "complex"}


@lru_cache(maxsize=256)
def family(dtype: str) -> str:
    """int, float, complex or bool; the canonical name itself for anything else."""
    name = canonical(dtype)
    return next((kind for prefix, kind in _FAMILIES.items() if name.startswith(prefix)), name)


@lru_cache(maxsize=256)
def standard_of(dtype: str) -> Standard:
    """The row of a dtype, whatever framework named it."""
    return STANDARDS.get(canonical(dtype), EXACT)


UNINITIALISED = frozenset(
    ("empty", "empty_like", "empty_strided", "empty_with_format", "new_empty", "new_empty_strided")
)
"""Their outputs are not judged: mindspore.mint.empty, "the data is uninitialized"; torch.empty likewise."""

PLACEHOLDER = frozenset(
    ("irecv", "recv", "_reduce_scatter_base", "_all_gather_base", "all_to_all_single", "batch_isend_irecv")
)
"""Their inputs are not judged: buffers for the result stand among them (torch.distributed, mint.distributed)."""

FILLING = frozenset(
    (
        *("bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "geometric_", "log_normal_", "normal_", "random_"),
        *("uniform_", "zero_"),
    )
)
"""Their first input is not judged: every element of it is written, none is read."""

WORKSPACE = frozenset(("BatchNorm",))
"""Their outputs behind the first are not judged: MindSpore 2.10 leaves them unwritten on a CPU, so that they differ
between two runs of one program."""

_ANY = re.compile(rf"\.(?:{'|'.join(sorted(UNINITIALISED | PLACEHOLDER | FILLING | WORKSPACE))})\.[0-9]")


def has_any(calls: list[str]) -> bool:
    """Whether one of these calls may be of a family here; quick, and wrong only by saying yes."""
    return _ANY.search("\n".join(calls)) is not None


def unjudged_reason(call: str, part: str, place: str) -> Reason | None:
    """Why a record of this call cannot be judged; None where it can. `place` is the first of its path."""
    name = names.parse(call)
    word = name.stem.rsplit(".", 1)[-1]
    if name.kind != "api" or name.direction != "forward":
        return None
    if part == "output" and word in UNINITIALISED:
        return Reason(Why.UNINITIALISED, name=word)
    if part == "output" and place != "0" and word in WORKSPACE:
        return Reason(Why.WORKSPACE, name=word)
    if part == "input" and word in PLACEHOLDER:
        return Reason(Why.PLACEHOLDER, name=word)
    if part == "input" and place == "0" and word in FILLING:
        return Reason(Why.FILLED, name=word)
    return None
