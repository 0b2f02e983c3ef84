"""The pairs of dumps that `speed.py` compares: as large as asked for, the second half of the target a little off."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Data = dict[str, Any]

# (what, inputs, outputs) of five calls in turn: 2.4 records each
CALLS = [("add", 2, 1), ("relu", 1, 1), ("exp", 1, 1), ("mul", 2, 1), ("tanh", 1, 1)]
CALLS_IN_A_CELL = 20
OFF = 1e-3
FRAMES = 15


def statistics_pair(folder: Path, calls: int) -> tuple[Path, Path]:
    """Two statistics dumps of this many calls, in cells, with stacks."""
    return _write_statistics(folder / "target", calls, OFF), _write_statistics(folder / "golden", calls, 0.0)


def tensor_pair(folder: Path, tensors: int, elements: int) -> tuple[Path, Path]:
    """Two tensor dumps of float32 tensors, each the result of one call."""
    target, golden = folder / "target" / "step0", folder / "golden" / "step0"
    records: dict[Path, Data] = {target: {}, golden: {}}
    for step in records:
        (step / "rank0" / "dump_tensor_data").mkdir(parents=True)
    draw = np.random.default_rng(1)
    shape = (elements // 64, 64)
    for at in range(tensors):
        name = f"Functional.relu.{at}.forward"
        array = draw.standard_normal(shape, np.float32)
        other = array + np.float32(OFF) * draw.standard_normal(shape, np.float32) if at > tensors // 2 else array
        for step, values in ((target, other), (golden, array)):
            file = f"{name}.output.0.npy"
            np.save(step / "rank0" / "dump_tensor_data" / file, values)
            statistics = (values.max(), values.min(), values.mean(), np.linalg.norm(values.reshape(-1)))
            record = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": list(shape)}
            record |= dict(zip(("Max", "Min", "Mean", "Norm"), map(float, statistics), strict=True))
            records[step][name] = {"input_args": [], "input_kwargs": {}, "output": [record | {"data_name": file}]}
    for step, data in records.items():
        _write(step / "rank0", "tensor", data, dict.fromkeys(data), [[list(data), _frames()]])
    return target, golden


def _write_statistics(folder: Path, calls: int, noise: float) -> Path:
    step, draw, shake = folder / "step0", random.Random(1), random.Random(2)
    data: Data = {}
    construct: dict[str, str | None] = {}
    groups: list[tuple[list[str], list[str]]] = [([], _frames()) for _ in range(50)]
    for at in range(calls):
        what, inputs, outputs = CALLS[at % len(CALLS)]
        name = f"Mint.{what}.{at // len(CALLS)}.forward"
        cell = f"Cell.model.layers.{at // CALLS_IN_A_CELL}.mlp.Mlp.forward.0"
        off = noise if at > calls // 2 else 0.0
        records = list(_records(inputs + outputs, draw, lambda off=off: 1 + off * shake.random()))
        data[name] = {"input_args": records[:inputs], "input_kwargs": {}, "output": records[inputs:]}
        construct[name] = cell
        construct[cell] = None
        groups[at % 50][0].append(name)
    (step / "rank0").mkdir(parents=True)
    _write(step / "rank0", "statistics", data, construct, groups)
    return step


def _records(count: int, draw: random.Random, factor: Callable[[], float]) -> Iterator[Data]:
    for _ in range(count):
        top, low, mean, norm = (draw.gauss(0, 1) * factor() for _ in range(4))
        statistics = {"Max": abs(top), "Min": -abs(low), "Mean": mean, "Norm": abs(norm) * 32}
        yield {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [32, 128], **statistics}


def _frames() -> list[str]:
    return [f"File /home/user/net/layer{n}.py, line {n}, in construct, \n y = self.layer{n}(x)" for n in range(FRAMES)]


def _write(rank: Path, task: str, data: Data, construct: dict[str, str | None], groups: list[Any]) -> None:
    head = {"task": task, "level": "mix", "framework": "mindspore", "dump_data_dir": None, "data": data}
    (rank / "dump.json").write_text(json.dumps(head, indent=1))
    (rank / "construct.json").write_text(json.dumps(construct, indent=1))
    (rank / "stack.json").write_text(json.dumps(dict(enumerate(groups)), indent=1))
