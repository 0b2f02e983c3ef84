"""What measuring the tensors of one step costs the monitor: `python benchmarks/brief.py [--quick]` prints a table.

The list of a step is that of a transformer: many small tensors, some large ones. Each round runs every contender once,
one after the other, so that a busy moment of the machine meets all of them. A cell is the median of the rounds.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np

from msprobe.base import statistic as module
from msprobe.base.brief import measure_all
from msprobe.base.statistic import statistic

EPS = 1e-8
BLOCKS = 12
WIDTH = 512


def tensors(dtype: str, quick: bool) -> list[np.ndarray]:
    """Twelve blocks of a transformer of width 512, with an embedding: 146 tensors."""
    noise = np.random.default_rng(0).standard_normal(4 * WIDTH * WIDTH)
    shapes = [(4 * WIDTH, WIDTH), (WIDTH, 4 * WIDTH), *[(WIDTH, WIDTH)] * 4, *[(WIDTH,)] * 6]
    shapes = shapes * (1 if quick else BLOCKS) + [(4 * WIDTH, WIDTH), (WIDTH,)]
    return [noise[: int(np.prod(shape))].reshape(shape).astype(dtype) for shape in shapes]


def six_passes(arrays: list[np.ndarray]) -> list[tuple]:
    """What one writes in numpy without this package."""
    return [
        (
            np.linalg.norm(array.astype(np.float32).ravel()),
            array.min(),
            array.max(),
            np.mean(np.abs(array) < EPS),
            np.count_nonzero(np.isnan(array)),
            array.mean(dtype=np.float64),
        )
        for array in arrays
    ]


def by_numpy(arrays: list[np.ndarray]) -> np.ndarray:
    """The numpy passes of this package."""
    kernel, module.kernel = module.kernel, None
    try:
        return measure_all(arrays, EPS)
    finally:
        module.kernel = kernel


def measure(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter_ns()
            call()
            times[name].append((time.perf_counter_ns() - start) / 1e6)
    return {name: median(found) for name, found in times.items()}


def contenders_of(arrays: list[np.ndarray]) -> dict[str, Callable[[], object]]:
    copies = [np.empty_like(array) for array in arrays]
    return {
        "1 thread": lambda: measure_all(arrays, EPS),
        "2 threads": lambda: measure_all(arrays, EPS, 2),
        "statistic()": lambda: [statistic(array) for array in arrays],
        "numpy path": lambda: by_numpy(arrays),
        "six passes": lambda: six_passes(arrays),
        "memcpy": lambda: [np.copyto(copy, array) for copy, array in zip(copies, arrays, strict=True)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one block instead of twelve, and few rounds")
    quick = parser.parse_args().quick
    print("| tensors | MB | contender | ms | GB/s | µs a tensor |\n|---|---|---|---|---|---|")
    for dtype in ("float32", "float16", "float64"):
        arrays = tensors(dtype, quick)
        size = sum(array.nbytes for array in arrays)
        for name, took in measure(contenders_of(arrays), 3 if quick else 7).items():
            of = f"{len(arrays)} {dtype} | {size / 1e6:.0f} | {name}"
            print(f"| {of} | {took:.2f} | {size / took / 1e6:.1f} | {took * 1000 / len(arrays):.1f} |")
    small = [np.ones(16, np.float32)] * 1000
    for name, took in measure(contenders_of(small), 7).items():
        print(f"| 1000 of 16 elements | 0.06 | {name} | {took:.2f} | | {took:.2f} |")


if __name__ == "__main__":
    main()
