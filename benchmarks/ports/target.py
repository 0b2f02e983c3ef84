"""Collect one step or two of the ports, by MindSpore.

    python target.py PLAN

PLAN is a json file: a list of {"model", "case", "task", "out", "golden", "bug"}. Each is run in a process of its own,
forked from one that has imported the packages. `golden` is the folder of the original's weights, losses and gradients.
"""

import importlib
import json
import shutil
import sys
from pathlib import Path

import cpu_kernels
import data
import forked
import mindspore as ms
import numpy as np
import planting
import weights
from mindspore import Tensor, nn, ops
from models import MODELS

LEARNING_RATE = 0.05


def build(model, golden):
    """The port with the original's weights, and the original's name for each parameter."""
    if model.config_class:
        kept = dict(model.config)
        attention = kept.pop("attn_implementation")
        config = _named(model.config_class.replace("mindone.", ""))(**kept)
        config._attn_implementation = attention
        if model.mindspore.startswith("mindone.transformers"):
            # The weights are replaced anyway, and drawing them needs kernels that a CPU lacks.
            importlib.import_module("mindone.transformers.modeling_utils")._init_weights = False
            network = _named(model.mindspore)(config)
            network.tie_weights()
        else:
            network = _named(model.mindspore)(config)
    else:
        settings = {key: _value(value) for key, value in (model.port_config or model.config).items()}
        network = _named(model.mindspore)(**settings)
    values = dict(np.load(golden / "weights.npz"))
    own = {parameter.name: parameter for parameter in network.get_parameters()}
    shapes = {name: tuple(parameter.shape) for name, parameter in own.items()}
    sources = weights.sources(shapes, {name: array.shape for name, array in values.items()}, model.weights)
    for name, source in sources.items():
        own[name].set_data(Tensor(weights.taken(values, source).reshape(own[name].shape)))
    missing = [name for name in own if name not in sources]
    if missing:
        print(f"{model.name}: without a weight: {missing}")
    return network.set_train(model.training), {id(own[name]): source for name, source in sources.items()}


def loss_of(model, network, inputs, step):
    """The loss of one step."""
    if "labels" in inputs:
        result = network(**inputs)
        return result.loss if hasattr(result, "loss") else result[0]
    tensors = dict(inputs)
    classes = tensors.pop("classes", None)
    result = network(*tensors.values()) if model.positional else network(**tensors)
    result = result if isinstance(result, Tensor) else result[0]
    if classes is not None:
        return ops.cross_entropy(result, classes)
    return (result * Tensor(data.loss_weights(tuple(result.shape), step))).mean()


def train(model, network, names, debugger):
    """Train; losses and gradients of all steps, by name."""
    trained = network.trainable_params()
    optimizer = nn.SGD(trained, learning_rate=LEARNING_RATE)
    history = {}
    for step in range(model.steps):
        inputs = {key: _tensor(key, array) for key, array in data.inputs(model, step).items()}

        def forward(inputs=inputs, step=step):
            return loss_of(model, network, inputs, step)

        gradient = ms.value_and_grad(forward, None, trained)
        debugger.start(network)
        loss, gradients = gradient()
        debugger.stop()
        history[f"{step} loss"] = loss.asnumpy()
        for parameter, each in zip(trained, gradients, strict=True):
            history[f"{step} {names.get(id(parameter), parameter.name)}"] = each.asnumpy()
        optimizer(gradients)
        debugger.step()
    return history


def collect(item):
    """Run one item of the plan."""
    from msprobe.mindspore import PrecisionDebugger

    model, out, golden = MODELS[item["model"]], Path(item["out"]), Path(item["golden"])
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    bug = item.get("bug") or {}
    planting.rewrite(bug, _named(model.mindspore).__module__)
    network, names = build(model, golden)
    planting.change(bug, network)
    debugger = PrecisionDebugger(dump_path=str(out), level="mix", task=item["task"], step=list(range(model.steps)))
    history = train(model, network, names, debugger)
    _agreement(item, history, dict(np.load(golden / "losses.npz")), out)


def _tensor(key, array):
    """Labels and classes are int32, as MindSpore's losses want them."""
    return Tensor(array.astype(np.int32) if key in ("labels", "classes") else array)


def _agreement(item, history, golden, out):
    """How far losses and gradients are from the original's: written beside the dump."""
    largest = max(float(np.abs(array).max()) for array in golden.values())
    found = {}
    for name, array in history.items():
        other = golden.get(name)
        if other is None or other.size != array.size:
            continue
        array = array.reshape(other.shape)
        scale = max(float(np.abs(other).max()), 1e-3 * largest)
        found[name] = float(np.abs(array - other).max()) / scale
    worst = sorted(found.items(), key=lambda pair: (pair[0][0], -pair[1]))[:5]
    (out.parent / "agreement.json").write_text(json.dumps({"worst": worst, "compared": len(found)}, indent=1))
    print(f"{item['model']} {item['case']} {item['task']}: {len(found)} compared, worst {worst[:2]}", flush=True)


def _value(value):
    """A class where a configuration names one."""
    return _named(value) if isinstance(value, str) and ":" in value else value


def _named(path):
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


def main(plan):
    cpu_kernels.install()
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
    items = json.loads(Path(plan).read_text())
    paths = {p for item in items for p in (MODELS[item["model"]].mindspore, MODELS[item["model"]].config_class) if p}
    sys.exit(bool(forked.run(items, collect, lambda: [_named(path) for path in sorted(paths)])))


if __name__ == "__main__":
    main(sys.argv[1])
