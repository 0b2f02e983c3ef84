"""What the training monitor costs: the time of a training step with it, beside a step without, and memory.

    python benchmarks/monitor.py [--torch] [--rounds N] [--variants off parameters activations everything]
    python benchmarks/monitor.py --grows 2000 [--torch]      the memory of a long training, with and without
    python benchmarks/monitor.py --profile activations       where the time of a monitored step goes

A transformer of 4 blocks of width 512 is trained on 4 sequences of 256 with Adam: forward, backward and update. Each
variant is a training of its own in the one process; every round trains one step of each in turn, so that a slow moment
of the machine strikes all alike. `off again` is a second training without the monitor: what it differs from `off` by
is noise. Shown are medians, and the median over the rounds of a variant's step divided by that of `off`; in the next
two columns the same of the processors' time, of all threads, which other work on the machine disturbs less. The last
column is measured from the inside: the processors' time of all threads while the monitor measures, writes and alerts,
beside the rest of the same step. What it leaves out is the call of the hooks themselves. All operations are computed
and written as csv, every step.
"""

import argparse
import cProfile
import gc
import importlib
import json
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from msprobe.monitor.guard import Guard

OPERATIONS = ["norm", "min", "max", "zeros", "nans", "mean"]
PARAMETERS = {"wg_distribution": True, "param_distribution": True, "mv_distribution": True}
ACTIVATIONS = {"xy_distribution": True, "all_xy": True}
VARIANTS = {
    "off": None,
    "off again": None,
    "parameters": PARAMETERS,
    "activations": ACTIVATIONS,
    "everything": {**PARAMETERS, **ACTIVATIONS, "monitor_mbs_grad": True},
}
WARM_UP = 2
POINTS = 10
SETTLED = 0.2
"""The part of a long training after which caches of the framework are full."""


@dataclass(frozen=True)
class Size:
    """How large a training is."""

    blocks: int = 4
    width: int = 512
    words: int = 1000
    batch: int = 4
    length: int = 256


SMALL = Size(blocks=2, width=64, words=100, batch=2, length=16)


class Inside:
    """The processors' time that passes inside of the monitor, of all threads, while installed."""

    def __init__(self):
        self.seconds = 0.0
        original = Guard.run

        def run(guard, what, work, *args):
            if guard.is_busy:
                return original(guard, what, work, *args)
            began = time.process_time()
            try:
                return original(guard, what, work, *args)
            finally:
                self.seconds += time.process_time() - began

        Guard.run = run


INSIDE = Inside()


class Monitored:
    """A training with one of the variants."""

    def __init__(self, framework, size, settings, folder):
        model, optimizer, self.step = framework.training(size)
        if settings is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "monitor.json"
        config.write_text(json.dumps({"ops": OPERATIONS, "step_count_per_record": 100, **settings}))
        os.environ["MONITOR_OUTPUT_DIR"] = str(folder)
        framework.TrainerMon(str(config)).set_monitor(model, optimizer)

    def seconds(self):
        """The time of one step: on the clock, and of the processors."""
        begin, begin_busy, inside = time.perf_counter(), time.process_time(), INSIDE.seconds
        self.step()
        return time.perf_counter() - begin, time.process_time() - begin_busy, INSIDE.seconds - inside


def measure(framework, names, rounds, folder):
    """Variant to the seconds of its steps."""
    trainings = {name: Monitored(framework, Size(), VARIANTS[name], folder / name) for name in names}
    found = {name: [] for name in names}
    for turn in range(-WARM_UP, rounds):
        for name in names if turn % 2 else names[::-1]:
            seconds = trainings[name].seconds()
            if turn >= 0:
                found[name].append(seconds)
    return found


def table(found):
    """Lines of a table."""
    yield "| variant | step, ms | / off | least and greatest | processors, ms | / off | inside |"
    yield "|---|---|---|---|---|---|---|"
    for name, steps in found.items():
        ratios, busy = (
            [mine[kind] / bare[kind] for mine, bare in zip(steps, found["off"], strict=True)] for kind in (0, 1)
        )
        step, work = (1e3 * statistics.median(each[kind] for each in steps) for kind in (0, 1))
        inside = statistics.median(1 + own / (all_of_it - own) for _, all_of_it, own in steps)
        yield (
            f"| {name} | {step:.0f} | {statistics.median(ratios):.3f} | {min(ratios):.3f} to {max(ratios):.3f} | "
            f"{work:.0f} | {statistics.median(busy):.3f} | {inside:.4f} |"
        )


def resident():
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def grow(framework, variant, steps, folder):
    """(step, bytes in memory) along a training of a small network."""
    training = Monitored(framework, SMALL, VARIANTS[variant], folder / variant)
    every, found = max(1, steps // POINTS), []
    for step in range(1, steps + 1):
        training.step()
        if step % every == 0:
            gc.collect()
            found.append((step, resident()))
    return found


def growth_table(args):
    """Lines of a table; each variant is trained in a process of its own."""
    yield "| variant | at first, MB | at the end, MB | bytes a step |"
    yield "|---|---|---|---|"
    for variant in args.variants:
        if variant == "off again":
            continue
        command = [sys.executable, __file__, "--grows", str(args.grows), "--alone", variant]
        command += ["--torch"] * args.torch + ["--asynchronous"] * args.asynchronous
        points = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
        late = [point for point in points if point[0] > SETTLED * args.grows]
        slope = statistics.linear_regression(*zip(*late, strict=True)).slope
        yield f"| {variant} | {points[0][1] / 1e6:.1f} | {points[-1][1] / 1e6:.1f} | {slope:.0f} |"


def profiled(framework, variant, rounds, folder):
    """Where the time of a variant's steps goes."""
    training = Monitored(framework, Size(), VARIANTS[variant], folder / variant)
    for _ in range(WARM_UP):
        training.step()
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(rounds):
        training.step()
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    pstats.Stats(profile).sort_stats("cumtime").print_stats("msprobe", 25)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="store_true", help="PyTorch in place of MindSpore")
    parser.add_argument("--asynchronous", action="store_true", help="with MindSpore's asynchronous pipeline")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=VARIANTS)
    parser.add_argument("--grows", type=int, default=0, metavar="STEPS", help="measure memory, over so many steps")
    parser.add_argument("--profile", choices=VARIANTS, metavar="VARIANT", help="only say where the time goes")
    parser.add_argument("--alone", choices=VARIANTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.grows and not args.alone:
        print(*growth_table(args), sep="\n")
        return
    framework = importlib.import_module(f"monitored.{'torch' if args.torch else 'mindspore'}_training")
    framework.prepare(args.asynchronous)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.alone:
            print(json.dumps(grow(framework, args.alone, args.grows, folder)))
        elif args.profile:
            profiled(framework, args.profile, args.rounds, folder)
        else:
            names = list(dict.fromkeys(["off", *args.variants]))
            print(*table(measure(framework, names, args.rounds, folder)), sep="\n")
            load = " ".join(f"{each:.1f}" for each in os.getloadavg())
            print(f"\n{args.rounds} rounds. Load: {load} on {os.cpu_count()} cores.")


if __name__ == "__main__":
    main()
