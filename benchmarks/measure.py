"""How long the measures between two tensors take: `python benchmarks/measure.py [--quick]` prints Markdown tables.

Each round runs every contender once, one after the other, so that a busy moment of the machine meets all of them. A
cell is the median of the rounds; GB/s are of the bytes of both tensors.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

from msprobe.compare.core.standard import standard_of
from msprobe.compare.measure import block as measure_block
from msprobe.compare.measure.tensors import measure
from msprobe.store.npy import load_npy, open_npy

SIZES = {1000: "10^3", 100_000: "10^5", 10_000_000: "10^7"}
DTYPES = ["float32", "float16", "int32"]
ENOUGH = 100_000  # nanoseconds: what is shorter is run several times between two looks at the clock
FILE = 1 << 22  # elements of float32: 16 MiB


def make(dtype: str, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Two tensors that differ a little everywhere."""
    draw = np.random.default_rng(0)
    golden = draw.standard_normal(size)
    if dtype == "int32":
        golden = np.round(golden * 100).astype(dtype)
        return golden + draw.integers(0, 2, size, dtype), golden
    return (golden * (1 + 1e-3 * draw.standard_normal(size))).astype(dtype), golden.astype(dtype)


def by_numpy(call: Callable[[], object]) -> Callable[[], object]:
    """A call that is measured by the numpy passes of this package."""

    def run() -> object:
        kernel, measure_block.kernel = measure_block.kernel, None
        try:
            return call()
        finally:
            measure_block.kernel = kernel

    return run


def bare_numpy(target: np.ndarray, golden: np.ndarray) -> tuple:
    """What one writes without this package for six of the measures: whole arrays in float64."""
    t, g = target.astype(np.float64), golden.astype(np.float64)
    d = t - g
    relative = np.abs(d / np.where(g == 0, 1e-16, g))
    cosine = np.dot(t, g) / (np.linalg.norm(t) * np.linalg.norm(g))
    shares = np.mean(relative < 0.001), np.mean(relative < 0.005)
    return cosine, np.linalg.norm(d), np.abs(d).max(), relative.max(), *shares


def seconds(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of one call of each."""
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
            times[name].append((time.perf_counter_ns() - start) / calls[name] / 1e9)
    return {name: median(found) for name, found in times.items()}


def row(dtype: str, size: int, rounds: int) -> str:
    target, golden = make(dtype, size)
    same = golden.copy()
    standard = standard_of(dtype)
    contenders: dict[str, Callable[[], object]] = {
        "C": lambda: measure(target, golden, standard),
        "numpy": by_numpy(lambda: measure(target, golden, standard)),
        "bare": lambda: bare_numpy(target, golden),
        "equal, C": lambda: measure(same, golden, standard),
        "equal, numpy": by_numpy(lambda: measure(same, golden, standard)),
    }
    found = seconds(contenders, rounds)
    rate = 2 * golden.nbytes / found["C"] / 1e9
    cells = [f"{1e6 * value:.3g}" if value < 1e-3 else f"{1e6 * value:.0f}" for value in found.values()]
    return f"| {dtype} | {SIZES[size]} | {' | '.join(cells)} | {rate:.2f} | {found['numpy'] / found['C']:.1f} |"


def files(rounds: int) -> list[str]:
    """Two npy files in the page cache: read only, measured while reading, measured after loading."""
    standard = standard_of("float32")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{side}.npy") for side in ("target", "golden")]
        for path, array in zip(paths, make("float32", FILE), strict=True):
            np.save(path, array)
        contenders: dict[str, Callable[[], object]] = {
            "read both, in blocks": lambda: read(paths),
            "measure while reading": lambda: measure(open_npy(paths[0]), open_npy(paths[1]), standard),
            "measure after loading": lambda: measure(load_npy(paths[0]), load_npy(paths[1]), standard),
            "while reading, numpy path": by_numpy(lambda: measure(open_npy(paths[0]), open_npy(paths[1]), standard)),
            "bare numpy after loading": lambda: bare_numpy(np.load(paths[0]), np.load(paths[1])),
        }
        found = seconds(contenders, rounds)
        peaks = [peak(name, paths) for name in contenders]
    rate = {name: 2 * 4 * FILE / value / 1e9 for name, value in found.items()}
    return [
        f"| {name} | {1e3 * found[name]:.1f} | {rate[name]:.2f} | {more:.0f} |"
        for name, more in zip(found, peaks, strict=True)
    ]


def read(paths: list[Path]) -> None:
    sides = [open_npy(path) for path in paths]
    for start in range(0, FILE, 1 << 17):
        for side in sides:
            side.part(start, start + (1 << 17))


def peak(name: str, paths: list[Path]) -> float:
    """MiB that one of these takes beyond what a process has that imported it all."""
    command = [sys.executable, __file__, "--peak", name, *map(str, paths)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def report_peak(name: str, paths: list[Path]) -> None:
    standard = standard_of("float32")
    measure(*make("float32", 1000), standard)
    bare_numpy(*make("float32", 1000))
    before = most_memory()
    if name.startswith("read"):
        read(paths)
    elif name.startswith("bare"):
        bare_numpy(np.load(paths[0]), np.load(paths[1]))
    else:
        opening = load_npy if "after" in name else open_npy
        call = lambda: measure(opening(paths[0]), opening(paths[1]), standard)  # noqa: E731
        (by_numpy(call) if "numpy" in name else call)()
    print((most_memory() - before) / 1024)


def most_memory() -> int:
    """KiB that this process held at most (`getrusage` would count its parent's)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


HEAD = """\
| dtype | elements | C µs | numpy path µs | bare numpy µs | equal, C µs | equal, numpy µs | C GB/s | numpy path / C |
|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, and no more than 10^5 elements")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        report_peak(args.peak[0], [Path(path) for path in args.peak[1:]])
        return
    print(HEAD)
    for dtype in DTYPES:
        for size in SIZES:
            if not (args.quick and size > 100_000):
                print(row(dtype, size, rounds=5 if args.quick else 11), flush=True)
    print("\n| two files of 16 MiB, float32 | ms | GB/s | more MiB |")
    print("|---|---|---|---|")
    print("\n".join(files(5 if args.quick else 11)))


if __name__ == "__main__":
    main()
