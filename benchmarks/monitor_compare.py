"""How long two long monitored trainings take to read and compare.

    python benchmarks/monitor_compare.py [--steps 10000] [--parameters 300] [--ops norm mean max min nans]

Writes one kind, `grad_reduced`, of both sides as TrainerMon does (1000 steps to a file), and runs `msprobe monitor
compare` on them in a process of its own, Python's start included. Numbers of the second side differ by rounding. Needs
no framework; pyarrow (extra `monitor`) reads faster.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from msprobe.store.monitor.writer import Row, RowWriter

OPERATIONS = ["norm", "max", "min", "mean", "nans"]


def write(folder, steps, parameters, operations, seed):
    folder.mkdir(parents=True)
    writer = RowWriter(folder, operations, 6, 1000)
    noise = np.random.default_rng(seed)
    names = [f"layers.{n // 10}.part{n % 10}.weight" for n in range(parameters)]
    for step in range(steps):
        rng = np.random.default_rng(step)
        values = rng.lognormal(0, 1, (parameters, len(operations)))
        if seed:
            values *= 1 + 1e-5 * noise.standard_normal(values.shape)
        rows = [
            Row(0, name, None, each, "(64, 64)", "Float32") for name, each in zip(names, values.tolist(), strict=True)
        ]
        writer.write(step, {"grad_reduced": rows})
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--parameters", type=int, default=300)
    parser.add_argument("--ops", nargs="+", default=OPERATIONS)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        sides = [Path(work) / side / "Jan01_00-00-00-rank0-00000000" for side in "ab"]
        for seed, side in enumerate(sides):
            write(side, args.steps, args.parameters, args.ops, seed)
        size = sum(path.stat().st_size for side in sides for path in side.iterdir()) / 1e6
        command = [sys.executable, "-m", "msprobe", "monitor", "compare", *(str(side.parent) for side in sides)]
        print(f"{args.steps} steps x {args.parameters} parameters x {len(args.ops)} statistics, {size:.0f} MB")
        for _ in range(args.rounds):
            began, before = time.perf_counter(), os.times()
            done = subprocess.run(command, capture_output=True, text=True)
            after = os.times()
            cpu = after.children_user + after.children_system - before.children_user - before.children_system
            answer = done.stdout.splitlines()[-1]
            print(f"{time.perf_counter() - began:.2f} s, {cpu:.2f} s of the processors: {answer}")
            assert done.returncode in (0, 1), done.stderr


if __name__ == "__main__":
    main()
