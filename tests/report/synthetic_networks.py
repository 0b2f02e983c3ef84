"""Calls of networks of any size, what was found at each, and their records: what synthetic reports are made of."""

import random
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from msprobe.base.phrase import phrase
from msprobe.findings.texts import texts
from msprobe.report.document import CallDetails, Details, Layout, Record, Side, State, Tensor, Unit
from msprobe.report.embed import MARK, element, encoded

PER_DETAILS = 200

TARGET = Side(
    "runs/2026-11-26/dump/step0", "MindSpore", "mix", "statistics", {"mindspore": "2.10.0", "msprobe-ms": "0.1.0"}
)
GOLDEN = Side("runs/trusted/dump/step0", "MindSpore", "mix", "statistics", {"mindspore": "2.9.0"})


@dataclass
class Chunks:
    """The chunks of one report in their encoded form; the first place is kept for the head."""

    held: list[bytes] = field(default_factory=lambda: [b""])

    def add(self, value):
        self.held.append(encoded(value))
        return len(self.held) - 1

    def copy(self, number):
        """The same chunk once more."""
        self.held.append(self.held[number])
        return len(self.held) - 1

    def write(self, head, path):
        """Write the report to `path` and return it."""
        self.held[0] = encoded(replace(head, messages=self.add(texts())))
        before, _, after = page().partition(MARK.encode())
        data = b"".join(element(number, chunk) for number, chunk in enumerate(self.held))
        Path(path).write_bytes(before + data + after)
        return Path(path)


@cache
def page():
    """The built page, as it is installed."""
    return files("msprobe").joinpath("report/page.html").read_bytes()


class Network:
    """Calls of one training step: `blocks` transformer blocks, forward and backward, APIs inside cells."""

    def __init__(self, blocks=2, micro=1):
        self.names, self.parents, self.micro = [], [], []
        self.counts, self.kinds, self.directions = {}, [], []
        for step in range(micro):
            self._forward(blocks, step)
            self._backward(blocks, step)
        self._add("optimizer.AdamW.forward.0", -1, "o", ".", 0)

    def _add(self, name, parent, kind, direction, step):
        self.names.append(name)
        self.parents.append(parent)
        self.kinds.append(kind)
        self.directions.append(direction)
        self.micro.append(step)
        return len(self.names) - 1

    def _cell(self, path, parent, direction, step):
        word = "forward" if direction == "f" else "backward"
        return self._add(f"Cell.{path}.{word}.{step}", parent, "m", direction, step)

    def _apis(self, names, parent, direction, step):
        for name in names:
            number = self.counts.get((name, direction), 0)
            self.counts[name, direction] = number + 1
            word = "forward" if direction == "f" else "backward"
            kind = "c" if "Distributed" in name else "a"
            self._add(f"{name}.{number}.{word}", parent, kind, direction, step)

    def _inner(self, block, path, direction, step):
        parts = [
            ("norm1.RMSNorm", ["Tensor.__mul__", "Tensor.mean", "Tensor.__add__", "Mint.rsqrt", "Tensor.__mul__"]),
            ("attention.Attention", []),
            ("norm2.RMSNorm", ["Tensor.__mul__", "Tensor.mean", "Tensor.__add__", "Mint.rsqrt", "Tensor.__mul__"]),
            ("mlp.MLP", []),
        ]
        inner = {
            "attention.Attention": [
                ("qkv.Dense", ["Mint.linear"]),
                ("core.FlashAttention", ["Mint.matmul", "Functional.softmax", "Mint.matmul"]),
                ("out.Dense", ["Mint.linear", "Distributed.all_reduce"]),
            ],
            "mlp.MLP": [
                ("up.Dense", ["Mint.linear"]),
                ("act.SiLU", ["Functional.silu"]),
                ("down.Dense", ["Mint.linear"]),
            ],
        }
        order = (lambda e: e) if direction == "f" else (lambda e: list(reversed(e)))
        for part, apis in order(parts):
            cell = self._cell(f"{path}.{part}", block, direction, step)
            self._apis(apis, cell, direction, step)
            for sub, sub_apis in order(inner.get(part, [])):
                below = self._cell(f"{path}.{part.split('.')[0]}.{sub}", cell, direction, step)
                self._apis(sub_apis, below, direction, step)

    def _forward(self, blocks, step):
        cell = self._cell("embedding.Embedding", -1, "f", step)
        self._apis(["Mint.embedding"], cell, "f", step)
        for i in range(blocks):
            block = self._cell(f"blocks.{i}.Block", -1, "f", step)
            self._inner(block, f"blocks.{i}", "f", step)
        head = self._cell("head.Dense", -1, "f", step)
        self._apis(["Mint.linear"], head, "f", step)
        self._apis(["Functional.cross_entropy"], -1, "f", step)

    def _backward(self, blocks, step):
        self._apis(["Functional.cross_entropy"], -1, "b", step)
        for i in reversed(range(blocks)):
            block = self._cell(f"blocks.{i}.Block", -1, "b", step)
            self._inner(block, f"blocks.{i}", "b", step)
            self._add(f"Cell.blocks.{i}.Block.parameters_grad", -1, "g", ".", step)

    def layout(self):
        micro = tuple(self.micro) if max(self.micro) else ()
        return Layout(
            tuple(self.names), tuple(self.parents), "".join(self.kinds), "".join(self.directions), micro=micro
        )

    def call(self, name):
        return self.names.index(name)


def state_of(layout, fault, seed=0, rank_is_odd=False):
    """Everything before the call `fault` passes; behind it most calls differ, less and less; none where it is None."""
    draw = random.Random(seed)
    verdicts, excess, errors, noise = [], [], [], []
    for call in range(len(layout.names)):
        error = draw.lognormvariate(-15, 0.7)
        allowed = 2e-6 * draw.lognormvariate(0, 0.3)
        if fault is not None and call >= fault:
            error = 3e-3 * draw.lognormvariate(0, 1) * (20 if rank_is_odd else 1)
            if call != fault and draw.random() < 0.25:
                error = allowed * draw.uniform(0.2, 3)
        distance = error / 1e-4 if error > allowed else error / (4 * allowed)
        verdict = "e" if distance > 3 else "w" if distance > 1 else "h" if error > allowed else "p"
        if call and call % 97 == 0:
            verdict, distance, error = "n", None, None
        elif call % 131 == 7:
            verdict = "u"
        if call == fault:
            verdict, distance = "e", 100.0
        verdicts.append(verdict)
        excess.append(distance and float(f"{distance:.3g}"))
        errors.append(error and float(f"{error:.3g}"))
        noise.append(float(f"{allowed:.2g}"))
    links = []
    for call in range(1, len(layout.names)):
        if "n" in verdicts[call - 1 : call + 1]:
            continue  # the golden alone makes it, and the dataflow is the target's
        links.append((call, "input.0", call - 1, "output.0"))
        if call % 5 == 0:
            links.append((call, "input.1", max(0, call - 4), "output.0"))
    return State("".join(verdicts), tuple(excess), tuple(errors), tuple(noise), links=tuple(links))


STACK = (
    "File /home/user/training/network.py, line 34, in construct, x = x * ops.rsqrt(variance + self.epsilon)",
    "File /home/user/training/network.py, line 71, in construct, x = x + self.mlp(self.norm2(x))",
    "File /home/user/training/train.py, line 52, in forward, logits = network(tokens)",
)


def statistics(*numbers):
    return dict(zip(("max", "min", "mean", "norm"), numbers, strict=True))


def records_of(layout, state, call, fault):
    """The records of one call, with the statistics of both sides and the measures."""
    size = (call % 7 + 1) * 0.731
    golden = Tensor("Float32", (8, 64, 256), statistics(3.1 * size, -2.9 * size, 0.0012 * size, 41.7 * size))
    off = state.errors[call] or 0.0
    shares = {"max": 1 + off, "min": 1 + off / 2, "mean": 1, "norm": 1 + off}
    target = replace(golden, statistics={name: value * shares[name] for name, value in golden.statistics.items()})
    measures = {"MaxAbsErr": off, "MaxRelativeErr": off, "NormRelativeErr": off / 2, "Cosine": 1 - off**2}
    records = [
        Record("input.0", "input", golden, golden, "p", dict.fromkeys(measures, 0.0), "relative error up to 1e-4"),
        Record(
            "input.1",
            "input",
            Tensor("Float16", (256,), statistics(1.0, 0.5, 0.8, 13.1)),
            Tensor("Float16", (256,), statistics(1.0, 0.5, 0.8, 13.1)),
            "p",
        ),
    ]
    if call == fault:
        records[1] = Record(
            "input.1",
            "input",
            Tensor(value="0.001"),
            Tensor(value="1e-05"),
            "e",
            reasons=("the values are different",),
            state="divergent",
            decision=("the dataflow: no call that differs produced it", phrase("noise up to {limit:.2g}", limit=1e-5)),
        )
    output = Record("output.0", "output", target, golden, state.verdicts[call], measures, "relative error up to 1e-4")
    if state.verdicts[call] == "e":
        output = replace(output, reasons=(f"the norm differs by {off:.3g}, and 1e-4 is allowed",))
    records.append(output)
    if layout.kinds[call] == "m" and layout.directions[call] == "f":
        records.insert(2, Record("parameters.weight", "parameters", golden, golden, "p", {"MaxAbsErr": 0.0}))
    if state.verdicts[call] == "n":
        records = [replace(one, target=None, verdict="n", reasons=("Only on the golden side.",)) for one in records]
    return CallDetails(call, tuple(records), STACK, STACK if call == fault else ())


def add_unit(chunks, number, layout, fault, step, rank, with_details=True, seed=0, is_odd=False):
    """The chunks of a unit, and the unit; `number` is that of the layout's chunk."""
    state = state_of(layout, fault, seed, is_odd)
    details = []
    size = len(layout.names)
    for begin in range(0, size if with_details else 0, PER_DETAILS):
        calls = [records_of(layout, state, call, fault) for call in range(begin, min(size, begin + PER_DETAILS))]
        details.append((begin, chunks.add(Details(tuple(calls)))))
    counts = {
        name: state.verdicts.count(letter)
        for letter, name in {
            "e": "error",
            "w": "warning",
            "p": "pass",
            "h": "harmless",
            "u": "unjudged",
            "n": "unmatched",
        }.items()
        if letter in state.verdicts
    }
    label = "step0" if rank is None else f"step{step} rank{rank}"
    return Unit(label, number, chunks.add(state), tuple(details), step, rank, counts=counts, first=fault)
