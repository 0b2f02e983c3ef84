"""What judging under noise costs: `python benchmarks/noise.py [--calls N] [--rounds N]` prints a table.

Both sides are a forward and a backward through a deep network of products, sums, tanh and norms, computed by numpy and
written as `PrecisionDebugger` writes them: task `tensor`, level L1, each call with its tensors. The target adds its
products up in another order, so that every output differs and every call is executed again. `exact` compares the same
dumps with nothing executed again (`--noise exact`), `equal` the golden with itself, `statistics` the same without
tensors. Contenders take turns, a cell is the median of the rounds, in seconds of the whole command.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

WIDTH, ROWS = 64, 32
PER_LAYER = 8
"""Calls of one layer, forward and backward."""


class Side:
    """One dump, call by call."""

    def __init__(self, folder, task, product):
        self.folder, self.task, self.product = folder, task, product
        self.tensors = folder / "dump_tensor_data"
        self.tensors.mkdir(parents=True)
        self.data, self.construct = {}, {}

    def call(self, name, inputs, outputs):
        """A call; each tensor with its source."""
        keys = ("input", "output") if name.endswith("backward") else ("input_args", "output")
        entry = {
            keys[0]: [self._record(f"{name}.input.{n}", *each) for n, each in enumerate(inputs)],
            keys[1]: [self._record(f"{name}.output.{n}", each) for n, each in enumerate(outputs)],
        }
        self.data[name] = entry if name.endswith("backward") else {**entry, "input_kwargs": {}}
        self.construct[name] = None
        return [(each, f"call {name}.output.{n}") for n, each in enumerate(outputs)]

    def _record(self, stem, array, source=""):
        wide = array.astype(np.float64)
        record = {
            "type": "mindspore.Tensor",
            "dtype": "Float32",
            "shape": list(array.shape),
            "Max": float(wide.max()),
            "Min": float(wide.min()),
            "Mean": float(wide.mean()),
            "Norm": float(np.sqrt((wide * wide).sum())),
        }
        if self.task == "tensor":
            np.save(self.tensors / f"{stem}.npy", array)
            record["data_name"] = f"{stem}.npy"
        return {**record, "from": source} if source else record

    def write(self):
        """The files of the dump."""
        head = {"task": self.task, "level": "L1", "framework": "mindspore", "dump_data_dir": None, "data": self.data}
        (self.folder / "dump.json").write_text(json.dumps(head))
        (self.folder / "construct.json").write_text(json.dumps(self.construct))
        (self.folder / "stack.json").write_text("{}")
        return self.folder


def in_order(a, b):
    """A product as BLAS computes it."""
    return a @ b


def backwards(a, b):
    """The same product, added up from the last term to the first."""
    return np.ascontiguousarray(a[:, ::-1]) @ np.ascontiguousarray(b[::-1])


def network(side, layers):
    """The calls of all layers, and their way back."""
    dice = np.random.default_rng(0)
    h = dice.standard_normal((ROWS, WIDTH)).astype(np.float32), "leaf"
    trace = []
    for n in range(layers):
        w = (dice.standard_normal((WIDTH, WIDTH)) / 8).astype(np.float32), f"parameter {n}.weight"
        b = dice.standard_normal(WIDTH).astype(np.float32), f"parameter {n}.bias"
        [p] = side.call(f"Mint.matmul.{n}.forward", [h, w], [side.product(h[0], w[0])])
        [s] = side.call(f"Mint.add.{n}.forward", [p, b], [p[0] + b[0]])
        [t] = side.call(f"Mint.tanh.{n}.forward", [s], [np.tanh(s[0])])
        [r] = side.call(f"Mint.sub.{n}.forward", [t, h], [t[0] - h[0]])
        trace.append((h, w, b, t))
        h = r
    g = np.full((ROWS, WIDTH), np.float32(1 / WIDTH))
    for n in reversed(range(layers)):
        x, w, _, t = trace[n]
        side.call(f"Mint.sub.{n}.backward", [(g,)], [g, -g])
        d = (g * (1 - t[0] * t[0])).astype(np.float32)
        side.call(f"Mint.tanh.{n}.backward", [(g,)], [d])
        side.call(f"Mint.add.{n}.backward", [(d,)], [d, d.sum(0)])
        dx, dw = side.product(d, np.ascontiguousarray(w[0].T)), side.product(np.ascontiguousarray(x[0].T), d)
        side.call(f"Mint.matmul.{n}.backward", [(d,)], [dx, dw])
        g = (dx - g).astype(np.float32)
    return side.write()


def seconds(target, golden, *options):
    """Wall time of one `msprobe compare`."""
    program = Path(sys.executable).with_name("msprobe")
    with tempfile.TemporaryDirectory() as out:
        command = [program, "compare", "-tp", target, "-gp", golden, "-o", out, "--exit-zero", *options]
        began = time.perf_counter()
        subprocess.run([str(part) for part in command], check=True, capture_output=True)
        return time.perf_counter() - began


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, nargs="+", default=[500, 5000], help="calls a side")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print("| calls a side | noise | exact | equal | statistics |\n|---|---|---|---|---|")
    for calls in args.calls:
        with tempfile.TemporaryDirectory() as folder:
            made = {
                (side, task): network(Side(Path(folder) / side / task, task, product), calls // PER_LAYER)
                for side, product in (("target", backwards), ("golden", in_order))
                for task in ("tensor", "statistics")
            }
            pair = made["target", "tensor"], made["golden", "tensor"]
            contenders = {
                "noise": pair,
                "exact": (*pair, "--noise", "exact"),
                "equal": (pair[1], pair[1]),
                "statistics": (made["target", "statistics"], made["golden", "statistics"]),
            }
            taken = {name: [] for name in contenders}
            for _ in range(args.rounds):
                for name, words in contenders.items():
                    taken[name].append(seconds(*words))
        print(f"| {calls} | " + " | ".join(f"{median(each):.1f}" for each in taken.values()) + " |", flush=True)


if __name__ == "__main__":
    main()
