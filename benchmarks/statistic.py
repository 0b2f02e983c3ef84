"""How long the statistics of one tensor take: `python benchmarks/statistic.py [--quick]` prints a Markdown table.

Each round runs every contender once, one after the other, so that a busy moment of the machine meets all of them. A
cell is the median of the rounds, a ratio the quotient of two medians of the same rounds.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from msprobe.base import statistic as module
from msprobe.base.statistic import statistic, widen

SIZES = {16: "16", 1000: "10^3", 100_000: "10^5", 1_000_000: "10^6", 10_000_000: "10^7"}
DTYPES = ["float32", "float16", "bfloat16", "float64", "int32"]
ENOUGH = 100_000  # nanoseconds: what is shorter is run several times between two looks at the clock


class bfloat16(np.void):
    """A type such as frameworks register, known by its name."""


def make(dtype: str, size: int) -> np.ndarray:
    """Zero-mean noise, as gradients are; integers up to a few hundred."""
    noise = np.random.default_rng(0).standard_normal(size)
    if dtype == "bfloat16":
        return (
            (noise.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(np.dtype((bfloat16, 2)))
        )
    return (noise * 100 if dtype == "int32" else noise).astype(dtype)


def by_numpy(array: np.ndarray) -> tuple:
    """The numpy passes of this package."""
    kernel, module.kernel = module.kernel, None
    try:
        return statistic(array)
    finally:
        module.kernel = kernel


def four_passes(array: np.ndarray) -> tuple:
    """What one writes without this package: max, min, mean in float64, L2 norm."""
    array = widen(array)
    norm = np.linalg.norm(array.astype(np.float32) if array.dtype == np.float16 else array)
    return array.max(), array.min(), array.mean(dtype=np.float64), norm


def measure(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median microseconds of one call of each."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    calls = {}
    for name, call in contenders.items():  # also warms up
        call()
        start = time.perf_counter_ns()
        call()
        calls[name] = max(1, ENOUGH // max(1, time.perf_counter_ns() - start))
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter_ns()
            for _ in range(calls[name]):
                call()
            times[name].append((time.perf_counter_ns() - start) / calls[name] / 1000)
    return {name: median(found) for name, found in times.items()}


def row(dtype: str, size: int, rounds: int) -> str:
    array = make(dtype, size)
    copy = np.empty_like(array)
    raw, raw_copy = array.view(np.uint8), copy.view(np.uint8)  # numpy copies unknown types element by element
    contenders: dict[str, Callable[[], object]] = {
        "kernel": lambda: statistic(array),
        "numpy": lambda: by_numpy(array),
        "four": lambda: four_passes(array),
        "memcpy": lambda: np.copyto(raw_copy, raw),
    }
    if module.kernel is None:
        del contenders["kernel"]
    found = measure(contenders, rounds)
    times = [text(found.get(name)) for name in ("kernel", "numpy", "four", "memcpy")]
    ratios = [text(found[name] / found["kernel"]) if "kernel" in found else "" for name in ("four", "numpy", "memcpy")]
    return f"| {dtype} | {SIZES[size]} | {' | '.join(times + ratios)} |"


def text(number: float | None) -> str:
    """Two digits after the first."""
    return "" if number is None else f"{number:.0f}" if number >= 100 else f"{number:.3g}"


HEAD = """\
| dtype | elements | kernel µs | numpy path µs | four µs | memcpy µs | four / kernel | path / kernel | memcpy / kernel |
|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, and no more than 10^6 elements")
    quick = parser.parse_args().quick
    print(HEAD)
    for dtype in DTYPES:
        for size in SIZES:
            if not (quick and size > 1_000_000):
                print(row(dtype, size, rounds=5 if quick else 11 if size > 1_000_000 else 21), flush=True)


if __name__ == "__main__":
    main()
