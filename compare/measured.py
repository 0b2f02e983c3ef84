"""What was measured between two arrays: the numbers alone; judging and reporting them needs no numpy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Measures:
    """What was measured between a target t and a golden g of one shape.

    Elements that are non-finite and the same on both sides (NaN with NaN, infinities of one sign) count as zeros on
    both sides. `mismatched` counts those that are non-finite and not the same; the other numbers leave them out
    likewise, so they mean little as soon as it is not zero. Integers and booleans are measured as floats; `equal` is
    exact for them too.

    | field | formula | both empty | zero norms |
    |---|---|---|---|
    | `equal` | all t = g, NaN = NaN, -0.0 = 0.0, and one dtype | True | True |
    | `cosine` | sum(t g) / (norm(t) norm(g)) | 1.0 | both: 1.0; one: NaN |
    | `euclid` | norm(t - g) | 0.0 | norm of the other |
    | `max_absolute` | max abs(t - g) | 0.0 | |
    | `max_relative` | max abs((t - g) / g); where g = 0, TINY is added to both | 0.0 | |
    | `within_1e_3`, `within_5e_3` | share of elements whose relative error is below 0.001, 0.005 | 1.0 | |
    | `excess` | max abs(t - g) / (absolute s + relative abs(g)), see standard.py; 0/0 is 0, x/0 is infinity | 0.0 | |
    | `beyond` | number of elements whose share of `excess` is above 1, and `mismatched` | 0 | |
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
    """Flat index of the element that stands for the greatest excess, or of the first mismatched one; -1 without any."""
