"""What saving tensors costs a training: `python benchmarks/tensor_task.py [--quick] [--folder DIR]` prints a table.

The same arrays, all different, are written by a loop of `numpy.save`, by a `Writer` with its thread, by one that may
not let anything wait (`limit=0`), and by one that packs them into one file; each is the only tensor of its call. Each
round runs every contender once, one after the other, in a new folder; a cell is the median of the rounds. *calls* is
the time until the last call has returned, which is what the training waits for during its step; *close* the time until
everything is written and the dump is finished; *own* the processor time that the calling thread spent in the whole of
it, work included, which tells most where other processes keep the cores busy. Between two tensors the training works
for a while: not at all, in Python, or in numpy, which lets other threads run.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from msprobe.store.writer import Writer

HEADER = {"task": "tensor", "level": "mix", "framework": "mindspore"}

# Bytes of a tensor: how many of them. They come mixed, as the calls of a network do.
LOADS = {
    "1000 of 64 B": {64: 1000},
    "1000 of 16 KiB": {1 << 14: 1000},
    "200 of 1 MiB": {1 << 20: 200},
    "8 of 32 MiB": {1 << 25: 8},
    "mixed": {64: 600, 1 << 14: 300, 1 << 20: 50, 1 << 24: 6},
}
MATRIX = np.ones((160, 160), np.float32)


def nothing() -> None:
    """The next tensor comes at once."""


def python() -> None:
    """About 100 microseconds in which Python holds its lock."""
    end = time.perf_counter() + 100e-6
    while time.perf_counter() < end:
        pass


def numpy() -> None:
    """About 100 microseconds outside of Python."""
    np.dot(MATRIX, MATRIX)


WORKS = {"none": nothing, "Python": python, "numpy": numpy}


def arrays(load: dict[int, int]) -> list[tuple[str, np.ndarray]]:
    """Names and arrays of a load, in an order that mixes the sizes the same way every time."""
    sizes = [size for size, count in load.items() for _ in range(count)]
    dice = np.random.default_rng(0)
    dice.shuffle(sizes)
    return [
        (f"Functional.relu.{i}.forward.output.0.npy", dice.standard_normal(size // 4, np.float32))
        for i, size in enumerate(sizes)
    ]


class Times(NamedTuple):
    """Milliseconds."""

    calls: float
    close: float
    own: float


def numpy_save(folder: Path, tensors: Iterable[tuple[str, np.ndarray]], work: Callable[[], None]) -> Times:
    """What one writes without this package."""
    start, own = time.perf_counter(), time.thread_time()
    folder.mkdir(parents=True)
    for name, array in tensors:
        work()
        np.save(folder / name, array)
    taken = (time.perf_counter() - start) * 1000
    return Times(taken, taken, (time.thread_time() - own) * 1000)


def by_writer(**options: Any) -> Callable[..., Times]:
    def run(folder: Path, tensors: Iterable[tuple[str, np.ndarray]], work: Callable[[], None]) -> Times:
        start, own = time.perf_counter(), time.thread_time()
        writer = Writer(folder, HEADER, **options)
        for name, array in tensors:
            work()
            writer.tensor(name, array)
            writer.call(name, None, None, "{}")
        calls = time.perf_counter()
        writer.close()
        close = time.perf_counter()
        return Times((calls - start) * 1000, (close - start) * 1000, (time.thread_time() - own) * 1000)

    return run


CONTENDERS: dict[str, Callable[..., Times]] = {
    "np.save": numpy_save,
    "thread": by_writer(),
    "direct": by_writer(limit=0),
    "packed": by_writer(form="packed"),
}


def rows(folder: Path, rounds: int) -> Iterator[str]:
    for title, load in LOADS.items():
        tensors = arrays(load)
        for working, work in WORKS.items():
            times: dict[str, list[Times]] = {name: [] for name in CONTENDERS}
            for n in range(rounds):
                for name, run in CONTENDERS.items():
                    place = folder / f"{name}{n}"
                    times[name].append(run(place, tensors, work))
                    shutil.rmtree(place)
            save, thread, direct, packed = (Times(*map(median, zip(*times[name], strict=True))) for name in CONTENDERS)
            yield (
                f"| {title} | {working} | {save.calls:.0f} | {thread.calls:.0f}, {thread.close:.0f} "
                f"| {direct.calls:.0f}, {direct.close:.0f} | {packed.calls:.0f}, {packed.close:.0f} "
                f"| {thread.close / save.close:.2f}, {packed.close / save.close:.2f} "
                f"| {save.own:.0f}, {thread.own:.0f}, {direct.own:.0f}, {packed.own:.0f} |"
            )


HEAD = """\
| tensors | work between | np.save ms | thread ms: calls, close | direct ms: calls, close | packed ms: calls, close \
| close / np.save: thread, packed | own ms: np.save, thread, direct, packed |
|---|---|---|---|---|---|---|---|"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three rounds instead of nine")
    parser.add_argument(
        "--folder", type=Path, help="where to write and delete; some file systems are slower than others"
    )
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=args.folder))
    try:
        print(HEAD)
        for line in rows(folder, 3 if args.quick else 9):
            print(line, flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
