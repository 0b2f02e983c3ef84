"""Record one call of every function of the table of functions, forward and backward, into a dump of task tensor.

    python examples_dump.py OUT [--dtype float16] [--scale 1] [--grow 1]

The calls are those with which tests/end_to_end/mapping_executed shows that both frameworks mean the same. `--dtype`
casts their float32 tensors; `--grow N` makes the first axis of tensors N times as long where all of a call's have one
length.
"""

import argparse
import contextlib
import importlib
import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import mindspore
import numpy as np
from mindspore import ops

from msprobe.mindspore import PrecisionDebugger

EXAMPLES = Path(__file__).parents[2] / "tests" / "end_to_end" / "mapping_executed"
sys.path.append(str(EXAMPLES))
executed = importlib.import_module("executed")

DEADLY = ("MintDistributed", "Distributed", "Primitive")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--task", default="tensor", choices=["tensor", "statistics"])
    parser.add_argument("--grow", type=int, default=1)
    args = parser.parse_args()
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    warnings.simplefilter("ignore")
    args.out.mkdir(parents=True, exist_ok=True)
    settings = args.out / "config.json"
    content = {"task": args.task, "dump_path": str(args.out), "level": "L1", args.task: {}}
    settings.write_text(json.dumps(content))
    debugger = PrecisionDebugger(config_path=str(settings))
    found = [e for f in sorted(EXAMPLES.glob("examples_*.py")) for e in importlib.import_module(f.stem).EXAMPLES]
    found = [e for e in found if e.stem.split(".")[0] not in DEADLY and e.kernel]
    good = [made for e in found if runs(made := changed(e, args.dtype, args.grow))]
    print(len(good), "calls of", len(found), "run")
    debugger.start()
    for example in good:
        with contextlib.suppress(Exception):
            call(example, args.dtype)
        with contextlib.suppress(Exception):
            mindspore.runtime.synchronize()
    debugger.stop()
    debugger.step()


def changed(example, dtype, grow):
    """The example in another dtype, of other lengths."""
    arrays = [value for _, value in executed.leaves((example.args, example.kwargs)) if isinstance(value, np.ndarray)]
    lengths = {value.shape[0] for value in arrays if value.ndim}
    may_grow = grow > 1 and len(lengths) == 1 and len({a.ndim for a in arrays if a.ndim}) == 1

    def turned(value):
        if isinstance(value, executed.Parameter):
            return executed.Parameter(turned(value.array))
        if not isinstance(value, np.ndarray):
            return value
        if may_grow and value.ndim:
            more = np.concatenate([value] * grow)
            if value.dtype.kind == "f":
                more = more * np.linspace(0.5, 1, more.size).reshape(more.shape).astype(value.dtype)
            value = more.astype(value.dtype)
        return value.astype(np.float16) if dtype == "float16" and value.dtype == np.float32 else value

    args, kwargs = executed._turned(example.args, turned), executed._turned(example.kwargs, turned)
    return replace(example, args=args, kwargs=kwargs)


def runs(example):
    """Whether MindSpore has a kernel for the call."""
    return executed.runs(example)


def call(example, dtype):
    """One call, with gradients of its floating tensors where it has some."""
    function = executed.ms_function(example)
    args = list(executed._turned(example.args, executed._to_ms))
    kwargs = executed._turned(example.kwargs, executed._to_ms)
    if dtype == "bfloat16":
        args = [a.astype(mindspore.bfloat16) if is_floating(a) else a for a in args]
        kwargs = {key: a.astype(mindspore.bfloat16) if is_floating(a) else a for key, a in kwargs.items()}
    places = [i for i, value in enumerate(args) if is_floating(value)]
    if not places:
        function(*args, **kwargs)
        return

    def of_floats(*values):
        given = list(args)
        for place, value in zip(places, values, strict=True):
            given[place] = value * 1
        out = function(*given, **kwargs)
        several = out if isinstance(out, tuple | list) else (out,)
        total = 0
        for each in several:
            if is_floating(each):
                weight = np.random.default_rng(each.size).uniform(0.5, 1.5, each.shape).astype(np.float32)
                total = total + (each.astype(mindspore.float32) * mindspore.Tensor(weight)).sum()
        return total

    ops.GradOperation(get_all=True)(of_floats)(*[args[i] for i in places])


def is_floating(value):
    return isinstance(value, mindspore.Tensor) and value.dtype in (
        mindspore.float16,
        mindspore.float32,
        mindspore.bfloat16,
    )


if __name__ == "__main__":
    main()
