"""Runs made by hand: a network of three cells in a row, so that every number that a test asserts follows from here."""

import json
from pathlib import Path

import numpy as np

from msprobe.base.digest import digest

STACK = ["File /train/net.py, line 7, in construct"]
EMBED, NORM, HEAD = "net.embed.Embedding", "net.norm.LayerNorm", "net.head.Dense"


class Run:
    """One side. A step holds the forward calls of three cells in `Net`; at level mix also the two calls in the norm.

    `batch` goes into the embedding, which gives 2, the norm 3, the head 4; `wrong` adds to what a call gives, and what
    comes after is given that. `weight` is the embedding's parameter. `stack` is that of every call.
    """

    stack = STACK

    def __init__(self, path: Path, framework: str = "mindspore", version: str = "2.10.0") -> None:
        self.path, self.framework, self.version = path, framework, version

    def step(self, step=0, rank=None, *, level="L0", task="statistics", digests="", settings=None, **values):
        folder = self.path / f"step{step}" / ("rank" if rank is None else f"rank{rank}")
        folder.mkdir(parents=True)
        section = {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": digests or "statistics"}
        section |= {key: value for key, value in (settings or {}).items() if key in section}
        header = {"task": task, "level": level, "gradients": "own", "jit_cells": "joined", "dispatch": False}
        header |= {key: value for key, value in (settings or {}).items() if key not in section}
        head = {
            "task": task,
            "level": level,
            "framework": self.framework,
            "dump_data_dir": None,
            "run": {
                "framework": f"{self.framework} {self.version}",
                "step": step,
                "rank": rank or 0,
                "settings": {**header, task: section},
            },
            "format_version": 1,
            "data": dict(self._calls(folder, level, task, digests, **values)),
        }
        (folder / "dump.json").write_text(json.dumps(head))
        prefix = "Cell" if self.framework == "mindspore" else "Module"
        root = f"{prefix}.net.Net.forward.0"
        around = {name: None if name == root else root for name in head["data"]}
        around |= {name: f"{prefix}.{NORM}.forward.0" for name in around if name.startswith("Functional")}
        (folder / "construct.json").write_text(json.dumps(around))
        (folder / "stack.json").write_text(json.dumps({"0": [list(head["data"]), self.stack]}))
        return self

    def _calls(self, folder, level, task, digests, *, batch=1.0, weight=5.0, wrong=None, between=0.0, keep=None):
        prefix, wrong = "Cell" if self.framework == "mindspore" else "Module", wrong or {}
        shift = 0.0

        def record(name, value, source):
            array = (np.arange(4, dtype=np.float32).reshape(2, 2) + np.float32(value)).astype(np.float32)
            tensor = "mindspore.Tensor" if self.framework == "mindspore" else "torch.Tensor"
            dtype = "Float32" if self.framework == "mindspore" else "torch.float32"
            wide = array.astype(np.float64)
            made = {"type": tensor, "dtype": dtype, "shape": [2, 2], "Max": wide.max(), "Min": wide.min()}
            made |= {"Mean": wide.mean(), "Norm": float(np.sqrt((wide * wide).sum()))}
            if digests:
                made["md5"] = digest(array, digests)
            if task == "tensor":
                (folder / "dump_tensor_data").mkdir(exist_ok=True)
                np.save(folder / "dump_tensor_data" / f"{name}.npy", array)
                made["data_name"] = f"{name}.npy"
            return {**made, **({"from": source} if source else {})}

        def call(name, inputs, output, parameters=None, number=None):
            nonlocal shift
            shift += wrong.get(name, 0.0)
            full = f"{name}.0.forward" if name.startswith("Functional") else f"{prefix}.{name}.forward.0"
            entry = {
                "input_args": [record(f"{full}.input.{n}", v, s) for n, (v, s) in enumerate(inputs)],
                "input_kwargs": {},
            }
            if parameters:
                entry["parameters"] = {k: record(f"{full}.parameters.{k}", v, "") for k, v in parameters.items()}
            entry["output"] = [record(f"{full}.output.0", output + shift, "")]
            return full, entry

        calls = [call(EMBED, [(batch, "leaf")], 2.0, {"embed.weight": weight})]
        last = 2.0 + shift
        source = f"call {prefix}.{EMBED}.forward.0.output.0"
        if level == "mix":
            calls.append(call("Functional.mean", [(last, source)], 7.0))
            calls.append(call("Functional.sub", [(7.0 + shift, "call Functional.mean.0.forward.output.0")], 3.0))
        calls.append(call(NORM, [(last, source)], 3.0))
        calls.append(
            call(HEAD, [(3.0 + shift + between, "" if between else f"call {prefix}.{NORM}.forward.0.output.0")], 4.0)
        )
        calls.append(call("net.Net", [(batch, "leaf")], 4.0))
        return [each for each in calls if keep is None or each[0] in keep]
