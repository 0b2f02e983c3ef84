"""One rank of a data-parallel training with MindSpore: `msrun ... clipped.py FOLDER [OPTION=VALUE ...]`.

Each rank has a layer of its own (an expert) between two layers that all ranks share. It trains on its share of a batch
of tokens, some of which the loss ignores, and clips its gradients by their norm.

Options: `clip`, `hand` (the sum of squares, reduced) or `function` (`ops.clip_by_global_norm` of the shared layers);
`loss` as in `sharded.py`; and `bug`: `counted`, `local_norm`, `mean_of_means` or `not_reduced`, as there.
"""

import faulthandler
import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.communication import get_group_size, get_rank, init
from mindspore.mint import distributed

from msprobe.mindspore import PrecisionDebugger

TOKENS, WIDTH, CLASSES = 16, 6, 4


class Net(nn.Cell):
    def __init__(self, rank):
        super().__init__()
        self.embed = nn.Dense(8, WIDTH, weight_init=weights(1, WIDTH, 8), bias_init="zeros")
        self.expert = nn.Dense(WIDTH, WIDTH, weight_init=weights(10 + rank, WIDTH, WIDTH), bias_init="zeros")
        self.head = nn.Dense(WIDTH, CLASSES, weight_init=weights(2, CLASSES, WIDTH), bias_init="zeros")

    def construct(self, x):
        return self.head(ops.tanh(self.expert(self.embed(x))))


def weights(seed, *shape):
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def share(step, rank, size):
    """The tokens of a rank and their classes, of which as many are ignored as the number of the rank."""
    random = np.random.default_rng(100 + step)
    x = random.standard_normal((TOKENS, 8)).astype(np.float32)
    y = random.integers(0, CLASSES, TOKENS).astype(np.int32)
    each = TOKENS // size
    x, y = x[rank * each : (rank + 1) * each], y[rank * each : (rank + 1) * each]
    y[:rank] = -100
    return Tensor(x), Tensor(y), int((y != -100).sum())


def loss_of(out, target, count, total, size, form):
    if form == "mean":
        return ops.cross_entropy(out, target) * (count * size / total)
    if form == "sum":
        return ops.cross_entropy(out, target, reduction="sum") * (size / total)
    return ops.cross_entropy(out, target, reduction="none").sum() * (size / total)


def clipped(net, gradients, rank, how, bug):
    """The gradients, clipped by the norm of those of all ranks."""
    names = [each.name for each in net.trainable_params()]
    is_shared = [not name.startswith("expert") for name in names]
    if how == "function":
        shared = ops.clip_by_global_norm([g for g, one in zip(gradients, is_shared, strict=True) if one], 0.1)
        rest = iter(shared)
        return [next(rest) if one else g for g, one in zip(gradients, is_shared, strict=True)]
    total = Tensor(0.0, ms.float32)
    for gradient, one in zip(gradients, is_shared, strict=True):
        if bug in ("counted", "local_norm") or not one or rank == 0:
            total = total + ops.square(gradient).sum()
    if bug != "local_norm":
        distributed.all_reduce(total)
    factor = ops.minimum(0.1 / (ops.sqrt(total) + 1e-6), Tensor(1.0, ms.float32))
    return [ops.mul(gradient, factor) for gradient in gradients]


def main(folder, *pairs):
    faulthandler.dump_traceback_later(240, exit=True)  # nothing here may hang for ever
    options = dict(pair.split("=") for pair in pairs)
    bug, task = options.get("bug", ""), options.get("task", "statistics")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    init()
    rank, size = get_rank(), get_group_size()
    net = Net(rank)
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    config = Path(folder) / f"config{rank}.json"
    config.write_text(json.dumps({"dump_path": str(Path(folder) / "dump"), "task": task, "level": "mix"}))
    debugger = PrecisionDebugger(config_path=str(config))
    counts = [share(0, each, size)[2] for each in range(size)]
    for step in range(2):
        x, y, count = share(step, rank, size)
        total = count * size if bug == "mean_of_means" else sum(counts)

        def forward(x, y, count=count, total=total):
            return loss_of(net(x), y, count, total, size, options.get("loss", "mean"))

        gradient = ms.value_and_grad(forward, None, net.trainable_params())
        debugger.start(net)
        _, gradients = gradient(x, y)
        reduced = []
        for parameter, each in zip(net.trainable_params(), gradients, strict=True):
            if not parameter.name.startswith("expert") and not (bug == "not_reduced" and "head" in parameter.name):
                distributed.all_reduce(each)
                each = each / size
            reduced.append(each)
        gradients = clipped(net, reduced, rank, options.get("clip", "hand"), bug)
        debugger.stop()
        optimizer(tuple(gradients))
        debugger.step()
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    main(*sys.argv[1:])
