"""What collecting costs with PyTorch: a training step of a small GPT, plain, with ours and with the other tool.

    python benchmarks/torch_step.py [--levels L0 L1 mix] [--tasks statistics tensor] [--rounds N] [--other PYTHON]

`--other` is the interpreter of an environment that has the other tool and the same PyTorch; without it ours is measured
alone. Each tool has a process of its own for each level and task. Every round runs, in turn and never two at once, a
plain step and a collected one in each: a slow moment of the machine strikes all alike. A collected step is start,
forward, backward, stop and step, with everything that is written. The table has medians in milliseconds, of one thread,
and in brackets the cost: collected less plain.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

WORKER = """
import json, shutil, sys, time
import torch

benchmarks, level, task, folder = sys.argv[1:]
sys.path.append(benchmarks)
from torch_gpt import Gpt

torch.set_num_threads(1)
torch.manual_seed(0)
net, ids = Gpt(width=256, heads=8, words=500), torch.randint(0, 500, (2, 64))
debugger = None
for line in sys.stdin:
    collects = line.strip() == "collect"
    if collects and debugger is None:
        from msprobe.pytorch import PrecisionDebugger
        debugger = PrecisionDebugger(dump_path=folder, level=level, task=task)
    begin = time.perf_counter()
    if collects:
        debugger.start(model=net)
    net(ids).backward()
    if collects:
        debugger.stop()
        debugger.step()
    seconds = time.perf_counter() - begin
    net.zero_grad()
    if collects:
        shutil.rmtree(folder, ignore_errors=True)
    print("MEASURED", json.dumps(seconds), flush=True)
"""
WARM_UP = 2


class Worker:
    """A process that runs steps when it is asked to."""

    def __init__(self, python, level, task, folder):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        command = [python, "-c", WORKER, str(Path(__file__).parent), level, task, str(folder)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, text=True, env=environment, **pipes)

    def ask(self, what):
        """The seconds of a step, `plain` or `collect`."""
        print(what, file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            if line.startswith("MEASURED"):
                return json.loads(line.partition(" ")[2])
        raise SystemExit(f"the process for {self.process.args[4:]} has ended")

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def measure(level, task, pythons, rounds):
    """Milliseconds of every round: tool to [(plain, collected), ...]."""
    found = {tool: [] for tool in pythons}
    with tempfile.TemporaryDirectory() as folder:
        workers = {tool: Worker(python, level, task, Path(folder) / tool) for tool, python in pythons.items()}
        for turn in range(-WARM_UP, rounds):
            for tool in pythons if turn % 2 else reversed(list(pythons)):
                pair = workers[tool].ask("plain") * 1e3, workers[tool].ask("collect") * 1e3
                if turn >= 0:
                    found[tool].append(pair)
        for worker in workers.values():
            worker.end()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--levels", nargs="+", default=["L0", "L1", "mix"])
    parser.add_argument("--tasks", nargs="+", default=["statistics", "tensor"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--other", default="")
    args = parser.parse_args()
    pythons = {"ours": sys.executable, **({"other": args.other} if args.other else {})}
    print("| level | task | plain | " + " | ".join(pythons) + (" | cost, other / ours |" if args.other else " |"))
    print("|---|---|---|" + "---|" * (len(pythons) + bool(args.other)))
    for level in args.levels:
        for task in args.tasks:
            found = measure(level, task, pythons, args.rounds)
            plain = statistics.median(p for pairs in found.values() for p, _ in pairs)
            steps = {tool: statistics.median(c for _, c in pairs) for tool, pairs in found.items()}
            costs = {tool: statistics.median(c - p for p, c in pairs) for tool, pairs in found.items()}
            cells = [f"{steps[tool]:.0f} ({costs[tool]:.0f})" for tool in pythons]
            cells += [f"{costs['other'] / costs['ours']:.1f}"] if args.other else []
            print(f"| {level} | {task} | {plain:.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
