"""How long statistics and digests of one tensor take: `python benchmarks/statistic.py [--quick] [--digests]`.

It prints a Markdown table: of the statistics, or, with `--digests`, of the digests and of both in one pass.

Each round runs every contender once, one after the other, so that a busy moment of the machine meets all of them. A
cell is the median of the rounds, a ratio the quotient of two medians of the same rounds.
"""

import argparse
import time
import zlib
from collections.abc import Callable
from operator import attrgetter
from statistics import median

import numpy as np

from msprobe.base import digest as digests
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


class InMemory:
    """What the kernel asks a framework's tensor for."""

    is_contiguous = True

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.dtype, self.shape, self.address = array, array.dtype.char, array.shape, array.ctypes.data
        asked = (attrgetter(name) for name in ("dtype", "shape", "is_contiguous", "address"))
        heads = {(id(self.dtype), self.shape): ("{", array.size, self.dtype, self.dtype)}
        self.reader = (InMemory, *asked, heads)


def crc32c_by_numpy(array: np.ndarray) -> int:
    """CRC-32C without the extension."""
    kernel, digests.kernel = digests.kernel, None
    try:
        return digests.crc32c(array, 0)
    finally:
        digests.kernel = kernel


def digest_row(size: int, rounds: int) -> str:
    """GB/s of each way over so many bytes of float32."""
    array = make("float32", size // 4)
    tensor = InMemory(array)
    plain, digested = (*tensor.reader, False), (*tensor.reader, True)
    record = module.kernel.record
    contenders: dict[str, Callable[[], object]] = {
        "zlib": lambda: zlib.crc32(array),
        "CRC-32": lambda: digests.crc32(array),
        "CRC-32C": lambda: digests.crc32c(array, 0),
        "statistics": lambda: record(tensor, plain),
        "then CRC-32": lambda: (record(tensor, plain), digests.crc32(array)),
        "with CRC-32C": lambda: record(tensor, digested),
        "by numpy": lambda: crc32c_by_numpy(array),
    }
    found = measure(contenders, rounds)
    speeds = {name: size / microseconds / 1000 for name, microseconds in found.items()}
    ratios = (found[name] / found["statistics"] for name in ("then CRC-32", "with CRC-32C"))
    return f"| {size >> 10} Ki | {' | '.join(map(text, (*speeds.values(), *ratios)))} |"


DIGEST_SIZES = (1 << 14, 1 << 17, 1 << 20, 1 << 24, 1 << 28)
DIGEST_HEAD = f"""\
GB/s; CRC-32 by {digests.crc32.__module__}.

| bytes | CRC-32 by zlib | CRC-32 | CRC-32C | statistics | statistics, then CRC-32 | statistics with CRC-32C \
| CRC-32C by numpy | then CRC-32 / statistics | with CRC-32C / statistics |
|---|---|---|---|---|---|---|---|---|---|"""


HEAD = """\
| dtype | elements | kernel µs | numpy path µs | four µs | memcpy µs | four / kernel | path / kernel | memcpy / kernel |
|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, and no more than 10^6 elements")
    parser.add_argument("--digests", action="store_true", help="digests in place of statistics")
    args = parser.parse_args()
    quick = args.quick
    if args.digests:
        print(DIGEST_HEAD)
        for size in DIGEST_SIZES[: -1 if quick else None]:
            print(digest_row(size, rounds=5 if quick else 11 if size > 1 << 24 else 21), flush=True)
        return
    print(HEAD)
    for dtype in DTYPES:
        for size in SIZES:
            if not (quick and size > 1_000_000):
                print(row(dtype, size, rounds=5 if quick else 11 if size > 1_000_000 else 21), flush=True)


if __name__ == "__main__":
    main()
