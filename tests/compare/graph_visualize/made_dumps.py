"""Small dumps made by hand, in the form that a collector writes; no framework involved."""

import json
import math
from pathlib import Path

NAN, INF = math.nan, math.inf


def tensor(high=1.0, low=-1.0, mean=0.25, norm=2.0, *, shape=(2, 3), framework="mindspore", dtype=None, **more):
    """The record of a tensor."""
    dtype = dtype or ("Float32" if framework == "mindspore" else "torch.float32")
    statistics = {"Max": high, "Min": low, "Mean": mean, "Norm": norm}
    return {"type": f"{framework}.Tensor", "dtype": dtype, "shape": list(shape), **statistics, **more}


def value(given):
    """The record of a number or text."""
    return {"type": type(given).__name__, "value": given}


def group(ranks, identity="g0"):
    """The record of a group of ranks, as PyTorch's collector writes it."""
    return {"type": "torch.ProcessGroup", "group_ranks": list(ranks), "group_id": identity}


def forward(inputs, outputs, kwargs=None, **more):
    """The entry of a forward call."""
    return {"input_args": list(inputs), "input_kwargs": kwargs or {}, "output": list(outputs), **more}


def backward(inputs, outputs):
    """The entry of a backward call."""
    return {"input": list(inputs), "output": list(outputs)}


def write(
    folder: Path, data, construct=None, stacks=None, *, task="statistics", framework="mindspore", level="mix"
) -> Path:
    """Write the three files of one rank; without `construct` every call stands at the root."""
    folder.mkdir(parents=True, exist_ok=True)
    construct = dict.fromkeys(data) if construct is None else construct
    head = {"task": task, "level": level, "framework": framework, "dump_data_dir": None}
    for name, made in (
        ("dump.json", {**head, "data": data}),
        ("construct.json", construct),
        ("stack.json", stacks or {}),
    ):
        (folder / name).write_text(json.dumps(made, indent=1))
    return folder
