"""The thresholds for a verdict, as data, each number with its source.

A pair of elements is within the standard if |target - golden| <= absolute * s + relative * |golden|, where s = min(1,
greatest finite |golden| of the tensor). The absolute part of `torch.testing` assumes values of about one; s reduces it
for small tensors (gradients of 1e-7 are common, and one that is wrong by half must not pass because it is small) and
never increases it (one masked score of -1e9 must not affect the tolerance of its neighbors).
"""

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Standard:
    """The allowance of a dtype. Up to `warning` times the allowance is a warning, more is an error.

    `is_plain`: the absolute part is used as it is, and is not reduced for small tensors.
    """

    relative: float
    absolute: float
    warning: float = 10.0  # one decimal place worse than the standard; chosen for this tool
    is_plain: bool = False

    def __str__(self) -> str:
        if self.relative == self.absolute == 0:
            return "equality"
        return f"{self.relative:g}*|golden| + {self.absolute:g}*min(1, max|golden|)"


EXACT = Standard(0.0, 0.0)
"""Integers, booleans and dtypes without a row: torch.testing.assert_close does not allow them a difference either."""

STANDARDS = {
    # torch.testing.assert_close, table of default tolerances by dtype (rtol, atol).
    "float16": Standard(1e-3, 1e-5),
    "bfloat16": Standard(1.6e-2, 1e-5),
    "float32": Standard(1.3e-6, 1e-5),
    "float64": Standard(1e-7, 1e-7),
    "complex32": Standard(1e-3, 1e-5),
    "complex64": Standard(1.3e-6, 1e-5),
    "complex128": Standard(1e-7, 1e-7),
    # Not in that table; the spacing of the format: 2 ** -mantissa bits.
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
"""The name of the limits of `STANDARDS`, if one can be chosen."""

ACCEPTANCES = {
    # The user documentation of msprobe's `config_check` of checkpoints (mindstudio-probe 8.1 to 26.2): "cos >= 0.99 and
    # l2 < 1.0 are normal". It holds for weights after many steps, and does not depend on their dtype or size.
    "msprobe": Acceptance(cosine=0.99, l2=1.0),
}
"""Named limits for checkpoints, which can be chosen instead of those of the dtype."""


ACROSS = {
    # Hugging Face's `transformers-cli pt-to-tf` accepts 5e-5 between the outputs of one model in two frameworks.
    "float32": 5e-5,
    "complex64": 5e-5,
    # For these a network is not deep enough to accumulate more than ten units in the last place; chosen for this tool.
    "float16": 10 * 2.0**-10,
    "bfloat16": 10 * 2.0**-7,
    # torch.testing.assert_close allows float64 1e-7; statistics are often stored with the digits of float32.
    "float64": 1e-7,
    "complex128": 1e-7,
    "float8_e4m3fn": 0.5,
    "float8_e5m2": 1.0,
    "hifloat8": 1.0,
}
"""Across frameworks: the largest difference of results of a whole network, relative to a tensor's own scale. Two
kernels accumulate in different orders, so results are never bitwise equal."""

UNMASKED = 1000.0
"""Upper limit of a tensor's scale: a score that was masked with -1e4 or -1e9 must not affect the tolerance of its
neighbors."""


@lru_cache(maxsize=256)
def allowed_across(target: str, golden: str, custom: bool = False) -> float | None:
    """Return the allowance of two floating-point dtypes: the golden's row, with `custom` that of the coarser; None if
    one is exact."""
    ours, theirs = (ACROSS.get(canonical(dtype)) for dtype in (target, golden))
    if ours is None or theirs is None:
        return None
    return max(ours, theirs) if custom else theirs


@lru_cache(maxsize=256)
def canonical(dtype: str) -> str:
    """Return a dtype's name without its framework: `Float32`, `torch.float32` and `float32` are the same."""
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
    """Return int, float, complex or bool; the canonical name itself for any other dtype."""
    name = canonical(dtype)
    return next((kind for prefix, kind in _FAMILIES.items() if name.startswith(prefix)), name)


@lru_cache(maxsize=256)
def standard_of(dtype: str) -> Standard:
    """Return the row of a dtype, as any framework names it."""
    return STANDARDS.get(canonical(dtype), EXACT)


def coarser_standard(target: str, golden: str) -> Standard:
    """Return the standard of the coarser of two dtypes: digits that one side never had cannot be required."""
    return max(standard_of(target), standard_of(golden), key=lambda one: one.relative)
