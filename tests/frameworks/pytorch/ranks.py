"""One rank of a training on several: `ranks.py RANK RANKS FOLDER`, by gloo on the CPU. What it saw goes to a file."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from msprobe.pytorch import PrecisionDebugger

RANK, RANKS, FOLDER = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])


class Scale(nn.Module):
    """A factor: 1 in a training without a fault."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


def train(debugger=None, factor=1.0):
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), Scale(factor), nn.Linear(3, 1))
    net = nn.parallel.DistributedDataParallel(layers)
    optimizer, lines = torch.optim.SGD(net.parameters(), 0.1), []
    for _ in range(2):
        if debugger is not None:
            debugger.start(net)
        loss = net(torch.full((2, 3), float(RANK + 1))).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if debugger is not None:
            debugger.stop()
            debugger.step()
        lines += [loss.item(), *(p.sum().item() for p in net.parameters())]
    return lines


def grafted():
    """A faulty training with the values of one without a fault, which each rank reads of its own rank."""
    train(PrecisionDebugger(task="tensor", dump_path=str(FOLDER / "golden"), level="mix"))
    path = FOLDER / f"graft{RANK}.json"
    section = {"golden": str(FOLDER / "golden"), "calls": "*"}
    contents = {"task": "graft", "level": "mix", "dump_path": str(FOLDER / "grafted"), "graft": section}
    path.write_text(json.dumps(contents))
    return train(PrecisionDebugger(path), 1.5)


def exchange():
    debugger = PrecisionDebugger(dump_path=str(FOLDER / "exchange"), level="L1")
    x, found = torch.full((2,), float(RANK + 1)), [torch.zeros(2) for _ in range(RANKS)]
    debugger.start()
    dist.all_reduce(x)
    handle = dist.all_gather(found, x + RANK, async_op=True)
    y = x * 2
    handle.wait()
    lost = dist.all_reduce(y, async_op=True)
    operations = dist.ReduceOp.MAX, dist.ReduceOp(dist.ReduceOp.PRODUCT)
    for operation in operations:
        dist.all_reduce(x + RANK, operation)
    dist.reduce_scatter(torch.zeros(2), [x, x * 2], op=dist.ReduceOp.MIN)
    peer = 1 - RANK
    sent, got = torch.full((1,), float(RANK)), torch.zeros(1)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, peer), dist.P2POp(dist.irecv, got, peer)]):
        work.wait()
    debugger.stop()
    lost.wait()
    debugger.step()
    return [x.tolist(), [f.tolist() for f in found], y.tolist(), got.tolist()]


dist.init_process_group("gloo", init_method=f"file://{FOLDER}/meeting", rank=RANK, world_size=RANKS)
report = {
    "bare": train(),
    "faulty": train(factor=1.5),
    "collected": train(PrecisionDebugger(dump_path=str(FOLDER / "ddp"), level="mix")),
    "grafted": grafted(),
    "exchange": exchange(),
}
(FOLDER / f"rank{RANK}.json").write_text(json.dumps(report))
dist.destroy_process_group()
