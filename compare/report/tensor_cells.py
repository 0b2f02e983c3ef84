"""The cells under the measures of a comparison, as msprobe 8.1 prints them, and its own verdict minus its slips."""

import math

from msprobe.compare.judge.verdict import unravel
from msprobe.compare.match.pairs import Pair
from msprobe.compare.measure.measures import Measures

from .cells import NOT_APPLICABLE, Cell, number

UNSUPPORTED = ("unsupported",) * 6
NO_PARTNER = {True: "No bench data matched.", False: "No NPU data matched."}

Six = tuple[Cell, ...]


def tensor_cells(pair: Pair, found: Measures | None) -> tuple[Six, str, str]:
    """Six measures, 8.1's verdict and its message."""
    target, golden = pair.target, pair.golden
    if target is None or golden is None:
        return UNSUPPORTED, "None", NO_PARTNER[target is not None]
    if target.kind == golden.kind == "tensor" and target.shape != golden.shape:
        return ("shape unmatched",) * 6, "Unmatched", "Shapes of NPU and bench tensor do not match."
    if found is None:
        return UNSUPPORTED, "None", "No tensor to measure on one side or both."
    if found.size == 0:
        return UNSUPPORTED, "None", "The tensors are empty."
    if found.mismatched:
        return (NOT_APPLICABLE,) * 6, "No", "The positions of nan or inf do not match."
    message = "" if target.dtype == golden.dtype else "Dtypes of NPU and bench tensor do not match."
    cosine: Cell = _cosine(found) if found.size > 1 else "unsupported"
    absolute, relative = number(round(found.max_absolute, 12)), number(round(found.max_relative, 12))
    if target.shape == ():
        cells: Six = (*UNSUPPORTED[:2], absolute, relative, *UNSUPPORTED[:2])
        return cells, "None", "A 0-d tensor has no direction and no ratios."
    if found.cosine != found.cosine:
        message = "One side is all zeros, the other is not."
    cells = (cosine, number(found.euclid), absolute, relative, found.within_1e_3, found.within_5e_3)
    return cells, _accuracy(cosine, found), message


def our_measures(found: Measures | None, shape: tuple[int, ...]) -> tuple[Cell, ...]:
    """Scale error, index of the greatest absolute difference, bias and ULP; empty where nothing was measured."""
    if found is None or found.size == 0:
        return ("",) * 4
    index = str(list(unravel(found.max_absolute_at, shape))) if found.max_absolute_at >= 0 else ""
    return number(found.scale_error), index, number(found.bias), number(found.max_ulp)


def _cosine(found: Measures) -> Cell:
    value = round(found.cosine, 12) if math.isfinite(found.cosine) else found.cosine
    return number(round(value, 6) if value > 0.9999 else value)


def _accuracy(cosine: Cell, found: Measures) -> str:
    """8.1's rule. There the text `Nan` of a one-sided zero tensor counts as above every bound; here it is a `No`."""
    if isinstance(cosine, str):
        return "No" if found.cosine != found.cosine else "None"
    if (cosine < 0.99 and found.max_absolute > 0.001) or cosine < 0.9 or found.max_absolute > 1:
        return "No"
    return "Yes"
