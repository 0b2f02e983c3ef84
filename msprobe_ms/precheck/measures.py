"""Measures between an output and its golden value in float64. They judge nothing."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from msprobe.replay.recorded import Array
from msprobe.replay.references import Reference
from msprobe.replay.residual import FLOOR, RANGES, measured, unequal

from .standards import LIMITS, ULP_FAR, ULP_NEAR, Limits

TINY = 1e-8
"""In the cosine, and in the place of a golden 0 in the maximal relative error, as msprobe has it."""


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of one output. NaN where there is nothing to measure.

    `unequal`: share of elements that are unequal after the golden value is rounded to the output's dtype. `non_finite`:
    number of elements that are NaN or infinite on one side alone, or another infinity. Of the finite elements, with
    r = output - golden, b = golden:

    - cosine: (1e-8 + n.b) / (1e-8 + |n| |b|); max_absolute: max |r|; max_relative, mean_relative: of |r| / |b|, 1e-8
      for b = 0
    - max_ulp, mean_ulp: of |r| 2^(mantissa - max(floor(log2 |b|), min exponent)); `ulp_far`, `ulp_near`: share of
      elements beyond 32 and 1
    - shares: of elements with |r| / (|b| + eps) below 1e-2, 1e-3, 1e-4
    - relative_violations: share of elements with |b| > small whose |r| / |b| is beyond the dtype's limit;
      small_violations, small_errors: share of others whose |r| is beyond the absolute and the benchmark limit
    - sum_violations: share of elements whose |r| is beyond the limit for sums, relative to |b| where that is beyond 1,
      else absolutely; sum_balance: |mean| of these errors with their signs
    - rmse: sqrt(mean r^2); balance: |#(n > b) - #(n < b)| / size
    - eta, peak: rms and maximum of z (`replay.residual`); slope, bias: shares of r's energy; drift, offset: the size of
      the systematic part: sum(r b) / sum(b^2), and mean(r) / rms(b)
    - distinct: number of distinct golden values
    - place: index of the worst element, by z, in the flattened output; -1 without elements
    """

    size: int
    unequal: float = 0.0
    non_finite: int = 0
    cosine: float = float("nan")
    max_absolute: float = float("nan")
    max_relative: float = float("nan")
    mean_relative: float = float("nan")
    max_ulp: float = float("nan")
    mean_ulp: float = float("nan")
    ulp_far: float = 0.0
    ulp_near: float = 0.0
    shares: tuple[float, float, float] = (1.0, 1.0, 1.0)
    relative_violations: float = 0.0
    small_violations: float = 0.0
    small_errors: float = 0.0
    sum_violations: float = 0.0
    sum_balance: float = 0.0
    rmse: float = float("nan")
    balance: float = 0.0
    eta: float = 0.0
    peak: float = 0.0
    slope: float = 0.0
    bias: float = 0.0
    drift: float = 0.0
    offset: float = 0.0
    distinct: int = 0
    place: int = -1


def measures_of(output: Array, reference: Reference, dtype: str) -> Measures:
    """Return the measures of an output of the reference's shape; `dtype` is the output's (`bfloat16` as float32)."""
    golden = reference.value
    if golden.size == 0:
        return Measures(0)
    if reference.sensitivity is None:
        differ = unequal(output, golden, reference.source)
        place = int(differ.argmax()) if differ.any() else -1
        wide = np.asarray(output, np.float64).ravel(), np.asarray(golden, np.float64).ravel()
        found = _plain(*wide)
        return Measures(golden.size, float(differ.mean()), place=place, **found)
    n, b = np.asarray(output, np.float64).ravel(), np.asarray(golden, np.float64).ravel()
    limits = LIMITS.get(dtype, LIMITS["float32"])
    with np.errstate(all="ignore"):
        rounded = as_dtype(b, dtype)
        differ = (n != rounded) & ~(np.isnan(n) & np.isnan(rounded))
        finite = np.isfinite(n) & np.isfinite(b)
        outside = differ & ~finite
        found = {"unequal": float(differ.mean()), "non_finite": int(outside.sum())}
        if outside.any():
            found["place"] = int(outside.argmax())
        s = np.asarray(reference.sensitivity, np.float64).ravel()
        places = np.flatnonzero(finite)
        if len(places) < n.size:
            n, b, s = n[finite], b[finite], s[finite]
        if not n.size:
            return Measures(golden.size, **found)
        of_limits = _by_limits(n, b, limits)
        figures = measured(n, b, s, dtype)
        found |= _plain(n, b) | of_limits | _systematic(n, b, dtype)
        found |= {"eta": figures.eta, "peak": figures.peak, "slope": figures.slope, "bias": figures.bias}
        if "place" not in found:
            rms = float(np.sqrt(np.mean(np.square(np.where(np.isfinite(s), s, 0.0)))))
            found["place"] = int(places[np.argmax(np.abs(n - b) / (np.maximum(s, FLOOR * rms) + 1e-300))])
    return Measures(golden.size, **found)


def as_dtype(values: Array, dtype: str) -> Array:
    """Return values rounded to a dtype (to nearest, ties to even), in float64."""
    if dtype == "bfloat16":
        return to_bfloat16(values).astype(np.float64)
    if dtype in ("float16", "float32"):
        with np.errstate(over="ignore"):
            return values.astype(dtype).astype(np.float64)
    return values


def to_bfloat16(values: Array) -> Array:
    """Return values rounded to float32 and then to bfloat16 (to nearest, ties to even), as float32."""
    with np.errstate(over="ignore"):
        wide = np.ascontiguousarray(values, np.float32)
    bits = wide.view(np.uint32)
    up = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    made = ((bits + up) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isfinite(wide), made, wide).reshape(np.shape(values))


def _plain(n: Array, b: Array) -> dict[str, Any]:
    """Return the measures that do not depend on the dtype."""
    r = np.abs(n - b)
    by = np.abs(b)
    relative = r / np.where(by == 0, TINY, by)
    scale = max(float(by.max(initial=0.0)), float(np.abs(n).max(initial=0.0)), 1e-300)
    n, b = n / scale, b / scale  # so that squares do not overflow
    tiny = TINY / scale / scale
    return {
        "cosine": float((tiny + n @ b) / (tiny + np.sqrt(n @ n) * np.sqrt(b @ b))) if np.isfinite(tiny) else 1.0,
        "max_absolute": float(r.max()),
        "max_relative": float(relative.max()),
        "mean_relative": float(relative.mean()),
    }


def _by_limits(n: Array, b: Array, limits: Limits) -> dict[str, Any]:
    r, by = np.abs(n - b), np.abs(b)
    exponent = np.floor(np.log2(np.where(by == 0, 2.0**limits.min_exponent, by)))
    ulp = r * np.exp2(limits.mantissa - np.maximum(exponent, limits.min_exponent))
    relative = r / (by + 2 * limits.unit)
    is_small = by <= limits.small
    largest = float(r.max())
    return {
        "max_ulp": float(ulp.max()),
        "mean_ulp": float(ulp.mean()),
        "ulp_far": float((ulp > ULP_FAR).mean()),
        "ulp_near": float((ulp > ULP_NEAR).mean()),
        "shares": tuple(float((relative < limit).mean()) for limit in (1e-2, 1e-3, 1e-4)),
        "relative_violations": float((~is_small & (r > limits.relative * by)).mean()),
        "small_violations": float((is_small & (r > limits.small_absolute)).mean()),
        "small_errors": float((is_small & (r > limits.small_benchmark)).mean()),
        "sum_violations": float((r > limits.accumulative * np.maximum(by, 1)).mean()),
        "sum_balance": abs(float(((n - b) / np.maximum(by, 1)).mean())),
        "rmse": largest * float(np.sqrt(np.mean(np.square(r / largest)))) if largest else 0.0,
        "balance": abs(int((n > b).sum()) - int((n < b).sum())) / n.size,
    }


_MANY = 1 << 16
"""Golden values among which distinct ones are counted."""


def _systematic(n: Array, b: Array, dtype: str) -> dict[str, Any]:
    r = n - b
    underflow = RANGES[dtype].underflow if dtype in RANGES else 0.0
    scale = float(np.abs(b).max())
    if scale <= 1e3 * underflow or not r.any():
        return {}
    b = b / scale
    size = float(b @ b)
    sample = b if b.size <= _MANY else b[:: -(-b.size // _MANY)]
    distinct = len(np.unique(sample))
    if 2 * distinct > sample.size:  # they hardly come again
        distinct *= b.size // sample.size
    drift = float(r @ b) / scale / size
    return {"drift": drift, "offset": float(r.mean()) / scale / (size / b.size) ** 0.5, "distinct": distinct}
