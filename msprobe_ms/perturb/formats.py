"""The floating-point formats that calls are perturbed and compared in, and the numbers that belong to each.

numpy has no bfloat16: its values are float32 arrays here, which hold each of them exactly. What is computed for such an
array is rounded back by `rounded`.
"""

from dataclasses import dataclass

import numpy as np

from msprobe.base.statistic import Array


@dataclass(frozen=True)
class Format:
    """A floating-point format. `dtype` is that of the arrays that hold its values."""

    name: str
    dtype: type
    noise: float
    """The noise of `add_noise`."""
    epsilon: float
    """The distance of 1 from the next larger number."""
    tiny: float
    """The smallest normal number."""
    tolerance: float
    """The largest ratio of two outputs that counts as consistent."""
    bits: type | None
    """The whole numbers by which `bit_noise` reads its values; None where it does not."""

    @property
    def unit_roundoff(self) -> float:
        """Return the largest relative error of rounding a number to this format."""
        return self.epsilon / 2


# Noise and tolerances are those of msprobe (`mindstudio-probe` 8.1).
FLOAT16 = Format("float16", np.float16, 1e-6, 2.0**-10, 2.0**-14, 1.002, np.uint16)
BFLOAT16 = Format("bfloat16", np.float32, 1e-4, 2.0**-7, 2.0**-126, 1.004, None)
FLOAT32 = Format("float32", np.float32, 1e-8, 2.0**-23, 2.0**-126, 1.0002, np.uint32)
FLOAT64 = Format("float64", np.float64, 1e-16, 2.0**-52, 2.0**-1022, 1.0002, np.uint64)

FORMATS = {each.name: each for each in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)}
"""The formats by the names of their dtypes. No other dtype is perturbed or compared: float8 and complex numbers."""

RAISED = (FLOAT16, BFLOAT16)
"""The formats that `improve_precision` raises to float32."""


def format_of(dtype: object) -> Format | None:
    """Return the format of a framework's dtype, by its text: `torch.float32`, `Float32`."""
    return FORMATS.get(str(dtype).rpartition(".")[2].lower())


def rounded(values: Array, to: Format) -> Array:
    """Return values rounded to the nearest one of a format, at a tie to the even one. NaN remains NaN."""
    if to is not BFLOAT16:
        with np.errstate(all="ignore"):
            return values.astype(to.dtype)
    wide = np.array(values, np.float32)
    bits = wide.view(np.uint32)
    odd = bits >> np.uint32(16) & np.uint32(1)
    nearest = (bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(wide), wide, nearest.view(np.float32))
