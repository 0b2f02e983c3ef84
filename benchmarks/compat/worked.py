"""What the measures of a pair are, worked out with no part of either tool: the formulas, once, in their plainest form.

Integers are subtracted as Python's, complex numbers by their parts, everything else in float64. Only relative errors of
two tensors of floats of 32 bits or less are taken in float32, as the other tool does, if nothing overflows there.
"""

import math

import numpy as np

Array = np.ndarray
EPS = 2.0**-52
UNSUPPORTED, PLACES_DIFFER, NOTHING = "unsupported", "N/A", "Nan"


def of_statistics(target: object, golden: object) -> tuple[object, object]:
    """Difference and relative difference in percent of one statistic, from its printed texts."""
    t, g = _number(target), _number(golden)
    if t is None or g is None:
        return "N/A", "N/A"
    difference = t - g
    if math.isnan(difference):
        return NOTHING, NOTHING
    if g == 0:
        return difference, "N/A"
    percent = abs(difference / g) * 100
    return difference, NOTHING if math.isnan(percent) else percent


def of_tensors(target: Array, golden: Array) -> dict[str, object]:
    """The six measures of two tensors of one shape; nothing for empty ones."""
    if target.shape != golden.shape or target.size == 0:
        return {}
    is_scalar = target.ndim == 0
    t, g = _parts(target), _parts(golden)
    if not _places(t, g):
        return dict.fromkeys(_TITLES, PLACES_DIFFER)
    finite = np.isfinite(t)
    t, g = np.where(finite, t, t.dtype.type(0)), np.where(finite, g, g.dtype.type(0))
    apart, relative = _distances(t, g), _relative(t, g)
    found: dict[str, object] = {
        "Cosine": UNSUPPORTED if target.size == 1 else _cosine(t, g),
        "EucDist": _norm(apart),
        "MaxAbsErr": max(apart),
        "MaxRelativeErr": float(relative.max()),
        "One Thousandth Err Ratio": float(np.mean(relative < 0.001)),
        "Five Thousandths Err Ratio": float(np.mean(relative < 0.005)),
    }
    if is_scalar:
        found |= dict.fromkeys(("Cosine", "EucDist", *_TITLES[-2:]), UNSUPPORTED)
    return found


_TITLES = (
    "Cosine",
    "EucDist",
    "MaxAbsErr",
    "MaxRelativeErr",
    "One Thousandth Err Ratio",
    "Five Thousandths Err Ratio",
)


def is_it(printed: object, wanted: object) -> bool:
    """Whether a cell says what was worked out: a text, or a number, 12 decimals of which may be all that is printed."""
    text = str(printed).strip()
    if isinstance(wanted, str):
        return text == wanted
    try:
        number = float(text.rstrip("%"))
    except ValueError:
        return False
    return number == wanted or math.isclose(number, wanted, rel_tol=1e-10, abs_tol=6e-13)


def is_cosine(printed: object, wanted: object) -> bool:
    """The same for cosines, of which 6 decimals are printed beyond 0.9999."""
    if is_it(printed, wanted) or isinstance(wanted, str):
        return is_it(printed, wanted)
    return wanted > 0.9999 and math.isclose(float(str(printed)), wanted, abs_tol=6e-7)


def _number(printed: object) -> float | None:
    """The number that a cell holds; bools and texts are none."""
    try:
        return float(str(printed).strip())
    except ValueError:
        return None


def _places(t: Array, g: Array) -> bool:
    """Whether NaN, infinity and minus infinity stand at the same places."""
    if not np.isfinite(t).all() or not np.isfinite(g).all():
        finite = np.isfinite(t)
        return bool((finite == np.isfinite(g)).all() and np.array_equal(t[~finite], g[~finite], equal_nan=True))
    return True


def _parts(array: Array) -> Array:
    """Flat; a complex number is two numbers of float64."""
    flat = array.reshape(-1)
    if not np.iscomplexobj(flat):
        return flat
    return np.stack([flat.real, flat.imag], axis=1).reshape(-1).astype(np.float64)


def _distances(t: Array, g: Array) -> list[float]:
    if t.dtype.kind in "iub" and g.dtype.kind in "iub":
        return [float(abs(a - b)) for a, b in zip(map(int, t), map(int, g), strict=True)]
    return [float(d) for d in np.abs(t.astype(np.float64) - g.astype(np.float64))]


def _relative(t: Array, g: Array) -> Array:
    """Where the golden is 0, 8.1's convention: 2^-52 is added to both."""
    if t.dtype.kind in "iub" and g.dtype.kind in "iub":
        return np.array([d / abs(int(b)) if b else d / EPS for d, b in zip(_distances(t, g), g, strict=True)])
    for wide in (np.float32, np.float64):
        if wide is np.float32 and not all(x.dtype.kind == "f" and x.dtype.itemsize <= 4 for x in (t, g)):
            continue
        x, y = t.astype(wide), g.astype(wide)
        x, y = np.where(g == 0, x + wide(EPS), x), np.where(g == 0, y + wide(EPS), y)
        with np.errstate(over="ignore"):
            found = np.abs((x - y) / y)
        if np.isfinite(found).all():
            break
    return found


def _norm(values: list[float]) -> float:
    scale = max(values)
    return scale * math.sqrt(math.fsum((v / scale) ** 2 for v in values)) if 0 < scale < math.inf else scale


def _cosine(t: Array, g: Array) -> object:
    """8.1's convention for zeros: one without length is `Nan`, two are alike."""
    x, y = t.astype(np.float64), g.astype(np.float64)
    long, far = _norm(list(np.abs(x))), _norm(list(np.abs(y)))
    if long <= EPS and far <= EPS:
        return 1.0
    if long <= EPS or far <= EPS:
        return NOTHING
    return math.fsum((x / long) * (y / far))
