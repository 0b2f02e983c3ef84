"""Compare the statistics of inputs and of weights, step by step and rank by rank."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msprobe.base.schema import NAMES
from msprobe.mapping.layers import parameter_candidates
from msprobe.store.config_pack import ConfigPack, Place, dataset, weights

from .findings import Checker, Kind, Level, TensorRow

Statistics = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Allowed difference of statistics of equal tensors: of the mean relative to the greatest magnitude, of the norm to
    itself. Extremes are exact."""

    mean: float
    norm: float
    source: str


OURS = Tolerance(1e-11, 1e-11, "statistics of msprobe-ms are within 1e-12 of their exact values (base/statistic.py)")
OTHERS = Tolerance(1e-5, 1e-5, "float32 sums of another tool: 6e-8 for each level of a pairwise sum, with a margin")


def compare(checker: Checker, bench: ConfigPack, cmp: ConfigPack, frameworks: tuple[str, str]) -> Iterator[TensorRow]:
    """Yield one row for each tensor, in the order of the steps and ranks, and of the first side."""
    kind = checker.value
    is_ours = all("tool" in pack.about for pack in (bench, cmp))
    entry: Callable[[int, int], str] = dataset if checker is Checker.DATASET else weights
    of_bench, of_cmp = set(bench.places(kind)), set(cmp.places(kind))
    for place in sorted(of_bench | of_cmp):
        if place not in of_bench or place not in of_cmp:
            one_sided = Kind.BENCH_ONLY if place in of_bench else Kind.CMP_ONLY
            yield TensorRow(checker, one_sided, Level.WARNING, place, "")
            continue
        name = entry(place.step, place.rank)
        ours, theirs = (dict(_tensors(pack.object(name))) for pack in (bench, cmp))
        if checker is Checker.WEIGHTS:
            theirs = _renamed(ours, theirs, frameworks)
        yield from _rows(checker, place, ours, theirs, OURS if is_ours else OTHERS)


def _rows(
    checker: Checker,
    place: Place,
    bench: Mapping[str, Statistics],
    cmp: Mapping[str, Statistics],
    tolerance: Tolerance,
) -> Iterator[TensorRow]:
    for name in (*bench, *(name for name in cmp if name not in bench)):
        left, right = bench.get(name), cmp.get(name)
        if left is None or right is None:
            kind = Kind.CMP_ONLY if left is None else Kind.BENCH_ONLY
            yield TensorRow(checker, kind, Level.ERROR, place, name)
            continue
        relative = tuple(_relative(a, b) for a, b in zip(left, right, strict=True))
        if _equal(left, right, tolerance):
            yield TensorRow(checker, Kind.EQUAL, Level.PASS, place, name, relative)
        else:
            yield TensorRow(checker, Kind.DIFFERS, Level.ERROR, place, name, relative)


def _relative(bench: float, cmp: float) -> float | None:
    if bench == 0 or not (math.isfinite(bench) and math.isfinite(cmp)):
        return None
    return abs(bench - cmp) / abs(bench)


def _equal(bench: Statistics, cmp: Statistics, tolerance: Tolerance) -> bool:
    top = max(abs(bench[0]), abs(bench[1]))
    scales = (0.0, 0.0, tolerance.mean * top, tolerance.norm * abs(bench[3]))
    return all(_near(a, b, scale) for a, b, scale in zip(bench, cmp, scales, strict=True))


def _near(a: float, b: float, most: float) -> bool:
    return a == b or (a != a and b != b) or (math.isfinite(a) and math.isfinite(b) and abs(a - b) <= most)


def _tensors(held: Mapping[str, Any]) -> Iterator[tuple[str, Statistics]]:
    """Yield the statistics in an entry, with the path of their keys."""
    waiting: list[tuple[str, Any]] = [("", held)]
    while waiting:
        name, value = waiting.pop()
        if not isinstance(value, dict):
            continue
        if (found := _statistics(value)) is not None:
            yield name, found
        else:
            waiting += reversed([(f"{name}.{key}" if name else str(key), each) for key, each in value.items()])


def _statistics(value: Mapping[str, Any]) -> Statistics | None:
    numbers = [value.get(key) for key in NAMES]
    if not all(isinstance(number, int | float) for number in numbers):
        return None
    try:
        return tuple(float(number) for number in numbers if number is not None)
    except OverflowError:  # an integer beyond the range of floats
        return None


def _renamed(
    bench: Mapping[str, Statistics], cmp: Mapping[str, Statistics], frameworks: tuple[str, str]
) -> dict[str, Statistics]:
    """Return the second side under the names of the first: without a prefix of all names if the first has none, and
    with the names of layers of the other framework."""
    found: dict[str, str] = {name: name for name in cmp if name in bench}
    left, free = [name for name in bench if name not in found], {name for name in cmp if name not in found}
    if left and free:
        cuts = _prefix(bench), _prefix(cmp)
        by_short = {name[len(cuts[1]) :]: name for name in cmp if name in free}
        for name in left:
            for candidate in _candidates(name[len(cuts[0]) :], by_short, frameworks):
                if (other := by_short.pop(candidate, None)) is not None:
                    found[other] = name
                    break
    return {found.get(name, name): value for name, value in cmp.items()}


def _candidates(name: str, others: Mapping[str, str], frameworks: tuple[str, str]) -> Iterator[str]:
    yield name
    if frameworks == ("mindspore", "pytorch"):
        yield from (each for each, _ in parameter_candidates(name))
    elif frameworks == ("pytorch", "mindspore"):
        yield from (other for other in others if name in (each for each, _ in parameter_candidates(other)))


def _prefix(names: Mapping[str, object]) -> str:
    """Return the common prefix of all names, up to a dot."""
    shortest, longest = min(names, default=""), max(names, default="")
    same = 0
    while same < min(len(shortest), len(longest)) and shortest[same] == longest[same]:
        same += 1
    return shortest[: shortest.rfind(".", 0, same) + 1]
