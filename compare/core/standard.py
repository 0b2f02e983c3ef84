"""The thresholds for a verdict, as data, each number with its source.

A pair of elements is within the standard when |target - golden| <= absolute * s + relative * |golden|, where
s = min(1, greatest finite |golden| of the tensor). The absolute part of `torch.testing` presumes values of about one;
s lets it shrink with small tensors (gradients of 1e-7 are common, and one that is wrong by half must not pass for being
small) and never lets it grow (one masked score of -1e9 must not excuse its neighbours).
"""

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Standard:
    """What a dtype is allowed. Up to `warning` times the allowance is a warning, beyond it an error.

    `is_plain`: the absolute part is taken as it is, and does not shrink with small tensors.
    """

    relative: float
    absolute: float
    warning: float = 10.0  # one decimal place worse than the standard; ours
    is_plain: bool = False

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


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Limits for two parameters of checkpoints as wholes: at least this cosine, and a difference whose L2 norm is
    below `l2`."""

    cosine: float
    l2: float

    def __str__(self) -> str:
        return f"a cosine of at least {self.cosine:g} and an l2 below {self.l2:g}"


DTYPE = "dtype"
"""The name of the limits of `STANDARDS`, where one is chosen."""

ACCEPTANCES = {
    # The user documentation of msprobe's `config_check` of checkpoints (mindstudio-probe 8.1 to 26.2): "cos >= 0.99 and
    # l2 < 1.0 are normal". It holds for weights after many steps, and does not depend on their dtype or size.
    "msprobe": Acceptance(cosine=0.99, l2=1.0),
}
"""Named limits for checkpoints, which are chosen instead of those of the dtype."""


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
    """Return a dtype's name without its framework: `Float32`, `torch.float32` and `float32` are one."""
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
    """Return the row of a dtype, whatever framework named it."""
    return STANDARDS.get(canonical(dtype), EXACT)


def coarser_standard(target: str, golden: str) -> Standard:
    """Return the standard of the coarser of two dtypes: nobody can ask for digits that one side never had."""
    return max(standard_of(target), standard_of(golden), key=lambda one: one.relative)
