"""What collecting costs: the time of a training step with the debugger, beside the other tool's, level by level.

    python benchmarks/step_time.py [--nets transformer conv tiny] [--levels L0 L1 mix debug]
        [--tasks idle statistics md5 crc32c tensor packed structure overflow_check trigger exception_dump]
        [--rounds N] [--only-ours] [--asynchronous]
    python benchmarks/step_time.py --profile --nets tiny --levels mix --tasks statistics

Each kind (level and task) of each tool has a process of its own. Every round runs, in turn and never two at once, for
each kind a step that is not collected and one that is, in ours and in the other tool's process: a slow moment of the
machine strikes all alike. A step is forward and backward of one batch; a collected one is start, the step, stop and
step, with everything that is written. See `benchmarks/against/README.md` for the columns and the other tool.
"""

import argparse
import itertools
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
from against import table
from against.process import Failed, Kind, Process
from against.samples import profile
from against.written import arrays, written
from compat.other_tool import ENVIRONMENTS, install

from msprobe.base.statistic import statistic

NETS = ("transformer", "conv", "tiny")
LEVELS = ("L0", "L1", "mix", "debug")
TASKS = (
    "idle",
    "statistics",
    "md5",
    "crc32c",
    "tensor",
    "packed",
    "structure",
    "overflow_check",
    "trigger",
    "exception_dump",
)
ONLY_OURS = ("crc32c", "packed")
WATCHING = TASKS[-3:]
WARM_UP = 2
VERSION = "26.2.0"
NEEDS = ("mindspore", "numpy<2")  # MindSpore 2.10 trains with numpy 1 only


def bandwidth():
    """Bytes per second that one thread reads here: the faster of our kernel and numpy's maximum, over 200 MB."""
    data = np.random.default_rng(0).standard_normal(50_000_000, np.float32)
    best = np.inf
    for read in (statistic, np.max) * 5:
        begin = time.perf_counter()
        read(data)
        best = min(best, time.perf_counter() - begin)
    return data.nbytes / best


def plain_save(found, folder):
    """Seconds of `np.save` of arrays into a fresh folder."""
    begin = time.perf_counter()
    folder.mkdir()
    for name, array in found.items():
        np.save(folder / name, array)
    seconds = time.perf_counter() - begin
    shutil.rmtree(folder)
    return seconds


class Contest:
    """Some kinds of one net, and the processes that run them."""

    def __init__(self, net, kinds, pythons, scratch, asynchronous, stack):
        self.scratch, self.rows, self.sides, self.arrays = scratch, [], [], {}
        self.alone = {}
        make = {"net": net, "scratch": scratch, "asynchronous": asynchronous}
        for kind in kinds:
            row = table.Row(net, kind.level, kind.task, table.Side(), table.Side())
            self.rows.append(row)
            for tool, python in pythons.items():
                side = getattr(row, tool)
                if kind.task in ONLY_OURS and tool != "ours":
                    side.refused = "it has no such setting"
                    break
                try:
                    process = Process(python, tool, kind=kind, **make)
                except Failed as why:
                    side.refused = str(why)
                    break  # what ours refuses is not measured
                stack.callback(process.end)
                self.sides.append((row, side, tool, process))
        for tool in dict.fromkeys(tool for _row, _side, tool, _process in self.sides):
            self.alone[tool] = Process(pythons[tool], tool, kind=None, **make)
            stack.callback(self.alone[tool].end)

    def run(self, rounds):
        """All rounds; the rows then hold what every side measured."""
        for _row, side, _tool, process in self.sides:
            for _ in range(3):
                process.ask("bare")
            side.growth = -process.ask("peak")["MB"]
        for turn in range(-WARM_UP, rounds):
            alone = {tool: process.ask("bare")["seconds"] for tool, process in self.alone.items()}
            for row, side, tool, process in self.sides if turn % 2 else self.sides[::-1]:
                if not side.refused:
                    self.turn(row, side, tool, process, turn, turn == rounds - 1)
                    side.alone += [alone[tool]] * (turn >= 0)
        for _row, side, _tool, process in self.sides:
            if not side.refused:
                side.growth += process.ask("peak")["MB"]

    def turn(self, row, side, tool, process, turn, is_last):
        """One step without and one with collecting."""
        try:
            bare, step = process.ask("bare"), process.ask("collect")
        except Failed as why:
            side.refused = str(why)
            return
        if turn >= 0:
            side.bare.append(bare["seconds"])
            side.bare_cpu.append(bare["cpu"])
            side.step.append(step["seconds"])
            side.step_cpu.append(step["cpu"])
            side.stand_in.append(step["stand_in"])
        if is_last:
            side.written = written(process.folder)
        if tool == "ours" and row.task in ("tensor", "packed"):
            if turn == -WARM_UP:
                self.arrays[process] = arrays(process.folder)
            process.ask("empty")
            seconds = plain_save(self.arrays[process], self.scratch / "plain")
            row.plain += [seconds] * (turn >= 0)
        process.ask("empty")


def kinds_of(levels, tasks):
    """The combinations that make sense: structure is of cells, and level debug has no start that could be idle."""
    kinds = [Kind(level, task) for level in levels for task in tasks]
    senseless = {Kind("L1", "structure"), *(Kind("debug", task) for task in ("structure", "idle", *WATCHING))}
    return [kind for kind in kinds if kind not in senseless]


def contested(args, kinds, pythons, rows):
    """Fill `rows`, some kinds of one net at a time."""
    for net, at in itertools.product(args.nets, range(0, len(kinds), args.together)):
        with tempfile.TemporaryDirectory(dir=args.folder) as scratch, ExitStack() as stack:
            some = kinds[at : at + args.together]
            contest = Contest(net, some, pythons, Path(scratch), args.asynchronous, stack)
            contest.run(args.rounds)
        rows += contest.rows
        print(*list(table.times(contest.rows))[2:], sep="\n", file=sys.stderr, flush=True)


def profiled(args, kind):
    """Where the time of one kind goes."""
    with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
        process = Process(sys.executable, "ours", args.nets[0], kind, Path(scratch), args.asynchronous)
        text = profile(process, Path(scratch))
        process.end()
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--nets", nargs="+", default=NETS, choices=NETS)
    parser.add_argument("--levels", nargs="+", default=LEVELS, choices=LEVELS)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--only-ours", action="store_true")
    parser.add_argument("--asynchronous", action="store_true")
    parser.add_argument("--together", type=int, default=1, help="kinds that take turns; each has two processes of 1 GB")
    parser.add_argument("--profile", action="store_true", help="only say where the time of one kind goes")
    parser.add_argument("--environments", type=Path, default=ENVIRONMENTS, help="where the other tool is installed")
    parser.add_argument(
        "--folder", type=Path, help="write dumps below this one, not below the system's temporary folder"
    )
    args = parser.parse_args()
    kinds = kinds_of(args.levels, args.tasks)
    if args.profile:
        print(profiled(args, kinds[0]))
        return
    pythons = {"ours": sys.executable}
    if not args.only_ours:
        pythons["other"] = str(install(VERSION, args.environments / "training", NEEDS).folder / "bin" / "python")
    rows, speed = [], bandwidth()
    with suppress(KeyboardInterrupt):  # what is there is printed then
        contested(args, kinds, pythons, rows)
    for lines in (table.times(rows), table.work(rows), table.floors(rows, speed)):
        print(*lines, sep="\n", end="\n\n")
    mode = "Asynchronous" if args.asynchronous else "Synchronous"
    print(f"{mode}, {args.rounds} rounds. Floor: {speed / 1e9:.1f} GB/s, {table.PER_TENSOR * 1e6:.0f} µs a tensor.")
    print(f"Load: {' '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
