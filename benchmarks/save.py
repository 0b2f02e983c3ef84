"""What one `save` in a network costs: `python benchmarks/save.py [--quick] [--rounds N]` prints a table.

A network adds one to a tensor again and again; with a save behind every addition, and without. Each round runs
both, one after the other, in a new step. A cell is the difference of the medians by the number of saves, in
microseconds: until the result of the network is there, which is what a training waits for, and until all is written.
*numpy.save* writes the same arrays in a loop. One process a task, which is read from the environment. PyNative runs
synchronously; in its asynchronous pipeline (`--asynchronous`) every save waits for what is in the pipeline.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from msprobe.mindspore import flush, save, step

SIZES = {"64 B": (64, 32), "16 KiB": (1 << 14, 32), "1 MiB": (1 << 20, 16), "16 MiB": (1 << 24, 4)}
MODES = ("graph O0", "@jit", "PyNative")
TASKS = ("tensor", "statistics")
WARM_UP = 2


class Chain(nn.Cell):
    """`calls` additions; a save behind each where there is a folder."""

    def __init__(self, calls: int, folder: str) -> None:
        super().__init__()
        self.calls, self.folder = calls, folder

    def construct(self, x):
        for _ in range(self.calls):
            x = x + 1
            if self.folder:
                save(self.folder, "x", x)
        return x


def made(mode: str, calls: int, folder: str) -> Chain:
    net = Chain(calls, folder)
    if mode == "@jit":
        net.construct = ms.jit(net.construct, jit_level="O0")
    return net


def timed(net: Chain, x: Tensor) -> tuple[float, float]:
    """Seconds until the result is there, and until everything is written."""
    start = time.perf_counter()
    net(x).asnumpy()
    there = time.perf_counter()
    flush()
    return there - start, time.perf_counter() - start


def plain(folder: Path, array: np.ndarray, calls: int) -> float:
    folder.mkdir()
    start = time.perf_counter()
    for number in range(calls):
        np.save(folder / f"x.{number}.npy", array)
    return time.perf_counter() - start


def measured(mode: str, size: str, rounds: int, root: Path) -> list[float]:
    """Microseconds a save: until the result is there, until all is written, and of `numpy.save`."""
    length, calls = SIZES[size]
    array = np.random.default_rng(0).standard_normal(length // 4, np.float32)
    x, folder = Tensor(array), root / "saved"
    with_saves, without = made(mode, calls, str(folder)), made(mode, calls, "")
    times = []
    for turn in range(-WARM_UP, rounds):
        one, other = (
            (timed(without, x), timed(with_saves, x)) if turn % 2 else (timed(with_saves, x), timed(without, x))[::-1]
        )
        by_numpy = plain(root / "plain", array, calls)
        step()
        for each in root.iterdir():
            shutil.rmtree(each)
        if turn >= 0:
            times.append((one, other, by_numpy))
    bare, saved = ([median(t[i][j] for t in times) for j in (0, 1)] for i in (0, 1))
    return [(b - a) / calls * 1e6 for a, b in zip(bare, saved, strict=True)] + [
        median(t[2] for t in times) / calls * 1e6
    ]


def of_this_task(rounds: int, sizes: list[str], folder: str | None, asynchronous: bool) -> dict[str, list[float]]:
    found = {}
    ms.set_context(pynative_synchronize=not asynchronous)
    for mode in MODES:
        ms.set_context(mode=ms.GRAPH_MODE if mode == "graph O0" else ms.PYNATIVE_MODE)
        if mode == "graph O0":
            ms.set_context(jit_config={"jit_level": "O0"})
        for size in sizes:
            with tempfile.TemporaryDirectory(dir=folder) as root:
                found[f"{mode}, {size}"] = measured(mode, size, rounds, Path(root))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two sizes, few rounds")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--asynchronous", action="store_true", help="leave PyNative its pipeline")
    parser.add_argument("--folder", help="write below this one, not below the system's temporary folder")
    parser.add_argument("--task", choices=TASKS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    sizes = list(SIZES)[: 2 if args.quick else None]
    rounds = 3 if args.quick else args.rounds
    if args.task:
        print(json.dumps(of_this_task(rounds, sizes, args.folder, args.asynchronous)))
        return
    found = {}
    for task in TASKS:
        done = subprocess.run(
            [sys.executable, __file__, "--task", task, *sys.argv[1:]],
            env={**os.environ, "MSPROBE_SAVE": task},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found[task] = json.loads(done.stdout.splitlines()[-1])
    print(f"| µs a save | task | {' | '.join(f'{mode}: there | written' for mode in MODES)} | numpy.save |")
    print(f"|{'---|' * (3 + 2 * len(MODES))}")
    for size in sizes:
        for task in TASKS:
            rows = [found[task][f"{mode}, {size}"] for mode in MODES]
            cells = [f"{value:,.0f}" for row in rows for value in row[:2]]
            numpy = f"{median(row[2] for row in rows):,.0f}" if task == "tensor" else ""
            print(f"| {size} | {task} | {' | '.join(cells)} | {numpy} |")
    print(f"\n{rounds} rounds. Load: {' '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
