"""Runs of any size without a framework: layers of a cell with functions and a collective, forward and backward."""

import json
import random

IN_A_LAYER = 9
"""Calls of a layer: a cell and four calls inside forward, a cell and three calls inside backward."""


def write_run(folder, ranks, layers, *, noise=0.0, wrong_from=None, wrong_rank=0, prefix=lambda rank: "model"):
    """Write step 0 of a run of statistics. From the layer `wrong_from` on rank `wrong_rank` is wrong by a half; all
    others differ by `noise`, relative. `prefix` is the first part of the cells' paths by rank."""
    for rank in range(ranks):
        step = folder / "step0" / f"rank{rank}"
        step.mkdir(parents=True)
        is_wrong = wrong_from is not None and rank == wrong_rank
        data, construct, groups = _calls(rank, layers, noise, wrong_from if is_wrong else None, prefix(rank))
        head = {"task": "statistics", "level": "mix", "framework": "mindspore", "dump_data_dir": None, "data": data}
        (step / "dump.json").write_text(json.dumps(head))
        (step / "construct.json").write_text(json.dumps(construct))
        frames = [
            f"File /home/user/net/layer{n}.py, line {n}, in construct, \n y = self.layer{n}(x)" for n in range(15)
        ]
        stacks = {
            str(n): [names, [f"File /home/user/net.py, line {n + 1}, in construct, \n y = f(x)", *frames]]
            for n, names in groups.items()
        }
        (step / "stack.json").write_text(json.dumps(stacks))
    return folder


def _calls(rank, layers, noise, wrong_from, prefix):
    draw, shake = random.Random(rank), random.Random(rank + 1000)
    data, construct, groups = {}, {}, {}
    factor = 1.0

    def tensor():
        numbers = [draw.gauss(0, 1) for _ in range(4)]
        top, low, mean, norm = (n * factor * (1 + noise * shake.random()) for n in numbers)
        statistics = {"Max": abs(top), "Min": -abs(low), "Mean": mean, "Norm": abs(norm) * 32}
        return {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [32, 128], **statistics}

    def call(name, inputs, outputs, parent, group):
        data[name] = (
            {"input": inputs, "output": outputs}
            if ".backward" in name
            else {"input_args": inputs, "input_kwargs": {}, "output": outputs}
        )
        construct[name] = parent
        if ".forward" in name:
            groups.setdefault(group % 20, []).append(name)

    x = tensor()
    kept = []
    for layer in range(layers):
        factor = 1.5 if wrong_from is not None and layer >= wrong_from else 1.0
        cell = f"Cell.{prefix}.layers.{layer}.Layer"
        w, h, a, y, z = (tensor() for _ in range(5))
        forward = f"{cell}.forward.0"
        call(f"Mint.matmul.{layer}.forward", [x, w], [h], forward, 3 * layer)
        call(f"Mint.add.{layer}.forward", [h, x], [a], forward, 3 * layer + 1)
        call(f"Mint.relu.{layer}.forward", [a], [y], forward, 3 * layer + 2)
        call(f"MintDistributed.all_reduce.{layer}.forward", [y], [z], forward, 3 * layer + 2)
        call(forward, [x], [z], None, layer)
        kept.append((cell, layer))
        x = z
    gradient = tensor()
    for cell, layer in reversed(kept):
        made = [tensor() for _ in range(3)]
        backward = f"{cell}.backward.0"
        given = gradient
        for name, out in zip(("relu", "add", "matmul"), made, strict=True):
            call(f"Mint.{name}.{layer}.backward", [given], [out, tensor()][: 1 + (name != "relu")], backward, layer)
            given = out
        call(backward, [gradient], [given], None, layer)
        gradient = given
    return data, construct, groups
