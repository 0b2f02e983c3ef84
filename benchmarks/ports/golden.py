"""Collect one step or two of the originals, by PyTorch.

    python golden.py PLAN

PLAN is a json file: a list of {"model", "task", "out", "golden"}. Each is run in a process of its own, forked from one
that has imported the packages. The dump goes into `out`; `weights.npz` and `losses.npz` (losses and gradients of the
parameters) into the folder `golden`.
"""

import importlib
import json
import shutil
import sys
from pathlib import Path

import data
import forked
import numpy as np
import operators  # noqa: F401  before anything imports torchvision
import torch
from models import MODELS

LEARNING_RATE = 0.05


def build(model):
    """The original with weights of `data.weight`, and those as arrays."""
    if model.config_class:
        kept = dict(model.config)
        attention = kept.pop("attn_implementation")
        config = _named(model.config_class)(**kept)
        config._attn_implementation = attention
        network = _named(model.pytorch)(config)
    else:
        network = _named(model.pytorch)(**{key: _value(value) for key, value in model.config.items()})
    with torch.no_grad():
        for name, tensor in network.state_dict(keep_vars=True).items():
            if tensor.requires_grad or name.endswith(("running_mean", "running_var")):
                tensor.copy_(torch.from_numpy(data.weight(f"{model.name} {name}", tuple(tensor.shape))))
    # A tensor that has two names was filled twice, so its values are taken at the end.
    values = {n: t.detach().numpy().copy() for n, t in network.state_dict().items() if t.is_floating_point()}
    return network.train(model.training), values


def loss_of(model, network, inputs, step):
    """The loss of one step."""
    tensors = {key: torch.from_numpy(array) for key, array in inputs.items()}
    if "labels" in tensors:
        return network(**tensors).loss
    classes = tensors.pop("classes", None)
    result = network(*tensors.values()) if model.positional else network(**tensors)
    result = result if isinstance(result, torch.Tensor) else result[0]
    if classes is not None:
        return torch.nn.functional.cross_entropy(result, classes)
    return (result * torch.from_numpy(data.loss_weights(tuple(result.shape), step))).mean()


def train(model, network, debugger):
    """Train; losses and gradients of all steps, by name."""
    optimizer = torch.optim.SGD(network.parameters(), lr=LEARNING_RATE)
    history = {}
    for step in range(model.steps):
        debugger.start(network)
        optimizer.zero_grad()
        loss = loss_of(model, network, data.inputs(model, step), step)
        loss.backward()
        debugger.stop()
        history[f"{step} loss"] = loss.detach().numpy()
        for name, parameter in network.named_parameters():
            if parameter.grad is not None:
                history[f"{step} {name}"] = parameter.grad.numpy().copy()
        optimizer.step()
        debugger.step()
    return history


def _value(value):
    """A class where a configuration names one."""
    return _named(value) if isinstance(value, str) and ":" in value else value


def _named(path):
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


def collect(item):
    """Run one item of the plan."""
    from msprobe.pytorch import PrecisionDebugger

    torch.set_num_threads(1)
    model, out, folder = MODELS[item["model"]], Path(item["out"]), Path(item["golden"])
    network, values = build(model)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "weights.npz", **values)
    debugger = PrecisionDebugger(dump_path=str(out), level="mix", task=item["task"], step=list(range(model.steps)))
    np.savez(folder / "losses.npz", **train(model, network, debugger))


def main(plan):
    items = json.loads(Path(plan).read_text())
    paths = {p for item in items for p in (MODELS[item["model"]].pytorch, MODELS[item["model"]].config_class) if p}
    sys.exit(bool(forked.run(items, collect, lambda: [_named(path) for path in sorted(paths)])))


if __name__ == "__main__":
    main(sys.argv[1])
