"""Trainings of models that are compiled by inductor in many ways, and what may collect from them.

`train(way, tool, folder)` trains from one seed and gives a digest of every step with how often code ran that inductor
made, which is counted in the framework itself.
"""

import hashlib
import json
from contextlib import contextmanager

import torch
import torch._dynamo
import torch.nn.functional as F
from torch import nn
from torch._inductor.output_code import CompiledFxGraph
from torch.utils.checkpoint import checkpoint

STEPS = 3


class Block(nn.Module):
    """What inductor fuses, and computes in another order than the framework's own kernels do."""

    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(F.gelu(self.norm(self.up(x)))).softmax(-1) * torch.tanh(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = Block(), Block(), nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.second(self.first(x)))


class Decorated(Net):
    """Compiled is a method, not a module."""

    def forward(self, x):
        return self.head(self.fused(self.first(x)))

    @torch.compile
    def fused(self, x):
        return self.second(x).sigmoid() * x


class Broken(Net):
    """The graph breaks at what must not be compiled."""

    def forward(self, x):
        return self.head(self.second(unseen(self.first(x))))


@torch.compiler.disable
def unseen(x):
    return x * 2


class Checkpointed(Net):
    def forward(self, x):
        return self.head(checkpoint(self.second, self.first(x), use_reentrant=False))


def _whole(**options):
    return lambda net: torch.compile(net, **options)


def _in_place(*path, **options):
    def compiled(net):
        net.get_submodule(".".join(path)).compile(**options)
        return net

    return compiled


def _inner(net):
    net.second = torch.compile(net.second)
    return net


def _function(net):
    fused, second = torch.compile(lambda x: torch.tanh(x) * x.softmax(-1)), net.second.forward
    net.second.forward = lambda x: fused(second(x))
    return net


WAYS = {
    "whole": (Net, _whole()),
    "whole, full graph": (Net, _whole(fullgraph=True)),
    "whole, dynamic shapes": (Net, _whole(dynamic=True)),
    "whole, reduced overhead": (Net, _whole(mode="reduce-overhead")),
    "whole, compiled again for other shapes": (Net, _whole(dynamic=False)),
    "whole, in place": (Net, _in_place()),
    "whole, in place, full graph": (Net, _in_place(fullgraph=True)),
    "whole, graph broken": (Broken, _whole()),
    "whole, checkpointed": (Checkpointed, _whole()),
    "inner": (Net, _inner),
    "inner, in place": (Net, _in_place("second")),
    "inner, checkpointed": (Checkpointed, _inner),
    "two inner, one inside the other": (Net, lambda net: _in_place("second")(_in_place("second", "norm")(net))),
    "function": (Net, _function),
    "method": (Decorated, lambda net: net),
}
"""The class of a network, and how it is compiled."""

AROUND = {"compiled optimizer": (Net, lambda net: net), "compiled step with its backward": (Net, lambda net: net)}
"""The network is not compiled by itself."""

LATE = ("whole", "inner, in place")
"""Ways that are tried with what is compiled while a step is collected, too."""

MONITOR = {
    "xy_distribution": True,
    "wg_distribution": True,
    "mv_distribution": True,
    "param_distribution": True,
    "ur_distribution": True,
}

TOOLS = {
    "nothing": {},
    **{f"{level}": {"level": level} for level in ("L0", "L1", "mix")},
    "mix, tensor": {"level": "mix", "task": "tensor"},
    **{f"{level}, dispatch": {"level": level, "dispatch": True} for level in ("L1", "mix")},
    "mix, dispatch, tensor": {"level": "mix", "task": "tensor", "dispatch": True},
    **{f"{level}, hooks": {"level": level, "gradients": "hooks"} for level in ("L0", "mix")},
    "overflow_check": {"level": "mix", "task": "overflow_check"},
    "free_benchmark": {"task": "free_benchmark", "free_benchmark": {"handler_type": "check"}},
    "grad_probe": {"task": "grad_probe", "grad_probe": {"grad_level": "L1"}},
    "monitor, xy": {"monitor": {"xy_distribution": True}},
    "monitor, all": {"monitor": MONITOR},
    "mix, dispatch, and monitor, all": {"level": "mix", "dispatch": True, "monitor": MONITOR},
}
"""What collects: a configuration of a debugger, and `monitor` of a monitor."""


@contextmanager
def counted():
    """A list that grows with each run of code that inductor has made."""
    runs, original = [], CompiledFxGraph.__call__

    def run(graph, *args, **kwargs):
        runs.append(graph)
        return original(graph, *args, **kwargs)

    CompiledFxGraph.__call__ = run
    try:
        yield runs
    finally:
        CompiledFxGraph.__call__ = original


def train(way, tool, folder, late=False):
    """Digests of all steps, and how often inductor's code ran; compiled is before the first `start`, or behind it."""
    from msprobe.pytorch import PrecisionDebugger, TrainerMon

    torch._dynamo.reset()
    torch.manual_seed(0)
    make, compiled = {**WAYS, **AROUND}[way]
    net = model = make()
    settings = dict(TOOLS[tool])
    monitor, config = settings.pop("monitor", None), folder / "config.json"
    if not late:
        model = compiled(net)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    debugger = trainer = None
    if settings:
        task = settings.pop("task", "statistics")
        section = {task: settings.pop(task, {})}
        config.write_text(json.dumps({"task": task, "dump_path": str(folder / "dump"), **settings, **section}))
        debugger = PrecisionDebugger(str(config))
        if task == "grad_probe":
            debugger.monitor(optimizer)
    if monitor is not None:
        (folder / "monitor.json").write_text(json.dumps({"targets": {}, "format": "csv", "ops": ["norm"], **monitor}))
        trainer = TrainerMon(str(folder / "monitor.json"))
        trainer.set_monitor(model, optimizer=optimizer, grad_acc_steps=1)

    def forward_and_backward(x, label):
        loss = F.cross_entropy(model(x), label)
        loss.backward()
        return loss

    update = optimizer.step
    if way == "compiled optimizer":
        update = torch.compile(optimizer.step)
    elif way == "compiled step with its backward":
        forward_and_backward = torch.compile(forward_and_backward)
    generator = torch.Generator().manual_seed(1)
    lines = []
    try:
        with counted() as runs:
            for step in range(STEPS):
                rows = 4 + step if "other shapes" in way else 4
                x, label = torch.randn(rows, 16, generator=generator), torch.randint(0, 5, (rows,), generator=generator)
                if debugger is not None:
                    debugger.start(model)
                if late and step == 0:
                    model = compiled(net)
                loss = forward_and_backward(x, label)
                if debugger is not None:
                    debugger.stop()
                gradients = [each.grad.clone() for each in net.parameters()]
                update()
                optimizer.zero_grad()
                if debugger is not None:
                    debugger.step()
                lines.append(_digest([loss, *gradients, *net.state_dict().values(), torch.get_rng_state()]))
    finally:
        if trainer is not None:
            trainer.stop()
        if debugger is not None:
            debugger._shut()
            PrecisionDebugger._known.pop(debugger._settings, None)
            PrecisionDebugger._latest = None
    return lines, len(runs)


def _digest(tensors):
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
    return found.hexdigest()
