"""Record the calls of faulty kernels into one dump: `python plant.py OUT [--healthy]`.

`--healthy` records the same calls with nothing wrong in them.
"""

import argparse
import importlib
import json
import sys
import warnings
from pathlib import Path

import mindspore
import torch
from mindspore import Tensor, mint, ops

from msprobe.mindspore import PrecisionDebugger

sys.path.append(str(Path(__file__).parent))
faults = importlib.import_module("faults")

OWNERS = {"Mint": mint, "MintFunctional": mint.nn.functional}
DTYPES = {torch.bfloat16: mindspore.bfloat16}


def to_torch(value):
    """A tensor of MindSpore as one of PyTorch."""
    if value.dtype == mindspore.bfloat16:
        return torch.from_numpy(value.float().asnumpy().copy()).bfloat16()
    return torch.from_numpy(value.asnumpy().copy())


def to_mindspore(value):
    """A tensor of PyTorch as one of MindSpore."""
    value = value.detach()
    if value.dtype == torch.bfloat16:
        return Tensor(value.float().numpy(), mindspore.bfloat16)
    return Tensor(value.contiguous().numpy())


class Kernel(mindspore._Function):
    """A healthy function of PyTorch with a fault, or without."""

    @staticmethod
    def forward(ctx, fault, is_healthy, args, *tensors):
        ctx.fault, ctx.is_healthy, ctx.args = fault, is_healthy, args
        inputs = [to_torch(t) for t in tensors]
        ctx.inputs = inputs
        given = rebuilt(args, inputs)
        y = fault.healthy(*given)
        if fault.forward is not None and not is_healthy:
            y = fault.forward(y, *given)
        return to_mindspore(y)

    @staticmethod
    def backward(ctx, gradient):
        fault, g = ctx.fault, to_torch(gradient)
        inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in ctx.inputs]
        wanted = [x for x in inputs if x.requires_grad]
        found = iter(torch.autograd.grad(fault.healthy(*rebuilt(ctx.args, inputs)), wanted, g))
        grads = tuple(next(found) if x.requires_grad else None for x in inputs)
        if fault.backward is not None and not ctx.is_healthy:
            grads = fault.backward(grads, g, *ctx.inputs)
        return (None, None, None, *(None if d is None else to_mindspore(d) for d in grads))


class Place:
    """Where a tensor stands among the arguments."""

    def __init__(self, number):
        self.number = number


def rebuilt(args, tensors):
    return [tensors[a.number] if isinstance(a, Place) else a for a in args]


def planted(fault, is_healthy):
    """The function that stands in MindSpore's place."""

    def kernel(*args):
        tensors = [a for a in args if isinstance(a, Tensor)]
        numbers = iter(range(len(tensors)))
        places = tuple(Place(next(numbers)) if isinstance(a, Tensor) else a for a in args)
        return Kernel.apply(fault, is_healthy, places, *tensors)

    return kernel


def arguments(fault):
    """The arguments of a call in the order of MindSpore's function."""
    inputs = list(fault.draw() if fault.draw else (faults.normal(*shape) for shape in fault.shapes))
    tensors = [to_mindspore(x.to(fault.dtype) if x.is_floating_point() else x) for x in inputs]
    numbers = [to_mindspore(n) if isinstance(n, torch.Tensor) else n for n in fault.numbers]
    name = fault.stem.rpartition(".")[2]
    if name == "layer_norm":
        return [tensors[0], numbers[0], *tensors[1:], numbers[1]]
    if name == "batch_norm":
        return [tensors[0], None, None, *tensors[1:], *numbers]
    return [*tensors, *numbers]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--healthy", action="store_true")
    parser.add_argument("--numbers", type=int, nargs="*", help="only these of faults.py")
    args = parser.parse_args()
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    warnings.simplefilter("ignore")
    args.out.mkdir(parents=True, exist_ok=True)
    settings = args.out / "config.json"
    settings.write_text(json.dumps({"task": "tensor", "dump_path": str(args.out), "level": "L1", "tensor": {}}))
    for number, fault in enumerate(faults.FAULTS):
        if args.numbers and number not in args.numbers:
            continue
        prefix, _, name = fault.stem.partition(".")
        owner = OWNERS[prefix]
        original = getattr(owner, name)
        setattr(owner, name, planted(fault, args.healthy))
        settings.write_text(
            json.dumps({"task": "tensor", "dump_path": str(args.out / f"{number:02d}"), "level": "L1", "tensor": {}})
        )
        record(fault, owner, name, settings)
        setattr(owner, name, original)


def record(fault, owner, name, settings):
    """One call with its gradients, in a dump of its own."""
    given = arguments(fault)
    places = [i for i, a in enumerate(given) if isinstance(a, Tensor) and a.is_floating_point()]
    debugger = PrecisionDebugger(config_path=str(settings))
    debugger.start()

    def function(*values):
        args = list(given)
        for place, value in zip(places, values, strict=True):
            args[place] = value
        return getattr(owner, name)(*args)

    tensors = [given[i] for i in places]
    out = function(*tensors) if fault.stem.endswith("argmax") else None
    if out is None:
        shape = None
        with torch.no_grad():
            inner = [to_torch(a) if isinstance(a, Tensor) else a for a in given]
            shape = fault.healthy(*inner)
        weight = faults.normal(*shape.shape).to(shape.dtype)
        ops.GradOperation(get_all=True, sens_param=True)(function)(*tensors, to_mindspore(weight))
    debugger.stop()
    debugger.step()
    type(debugger)._instance = None


if __name__ == "__main__":
    main()
