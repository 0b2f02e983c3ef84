"""One rank of trainings in which one call makes NaN or infinities, by gloo:
`planted_pytorch.py RANK RANKS FOLDER TASK/CASE ...`.

Each case is collected by its task into FOLDER/TASK/CASE, blanks as _. `CASES` says what is named, on which rank
`WRONG` is meant: the last.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from msprobe.pytorch import PrecisionDebugger

# case: (call, cell, kind); by hand, from the code below
CASES = {
    "clean": None,
    "forward log": ("Torch.log.0.forward", "first", "made"),
    "forward division": ("Tensor.__truediv__.0.forward", "first", "made"),
    "forward overflow": ("Torch.exp.0.forward", "second", "made"),
    "forward matmul": ("Torch.matmul.0.forward", "second", "made"),
    "in place": ("Tensor.div_.0.forward", "second", "made"),
    "unrecorded in a cell": ("Module.first.Block.forward.0", "the root", "made"),
    "literal": ("Tensor.__mul__.0.forward", "first", "argument"),
    "masked row": ("Functional.softmax.0.forward", "second", "made of infinities"),
    "loss": ("Torch.log.0.forward", "the root", "made"),
    "backward sqrt": ("Torch.sqrt.0.backward", "first", "made"),
    "backward power": ("Torch.pow.0.backward", "second", "made"),
    "where": ("Torch.log.0.forward", "second", "made"),
    "batch": ("Functional.linear.0.forward", "first.fc", "unrecorded"),
    "loaded weight": ("Functional.linear.1.forward", "second.fc", "parameter"),
    "optimizer": ("Functional.linear.1.forward", "second.fc", "parameter"),
    "collective": ("Distributed.all_reduce.{last}.forward", "the root", "exchange"),
    "uninitialised": ("Tensor.__add__.0.forward", "first", "unrecorded"),
    "handle": ("Torch.log.0.forward", "first", "made"),
}


class Block(nn.Module):
    """A layer, behind which a fault may be; of ranks in two groups the activations are summed up in between."""

    def __init__(self, place, group):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.place, self.group, self.fault = place, group, ""

    def forward(self, x):
        x = torch.tanh(self.fc(x))
        x = getattr(self, FAULTS.get((self.place, self.fault), "none"))(x)
        if self.group is not None:
            got = x.detach().clone()
            dist.all_reduce(got, group=self.group)
            x = x + got
        return x

    def none(self, x):
        return x

    def log(self, x):
        return torch.log(-1.5 - x)

    def division(self, x):
        return x / torch.zeros(4)

    def exp(self, x):
        return torch.exp(x + 1000)

    def matmul(self, x):
        return torch.matmul(x * 1e30, torch.full((4, 4), 1e30))

    def in_place(self, x):
        return x.clone().div_(0.0)

    def unrecorded(self, x):
        with torch.no_grad():
            found = torch.from_numpy(x.numpy() / np.float32(0))
        return found

    def literal(self, x):
        return x * float("nan")

    def masked(self, x):
        mask = torch.zeros(x.shape, dtype=torch.bool)
        mask[1] = True
        return nn.functional.softmax(x.masked_fill(mask, float("-inf")), -1)

    def sqrt(self, x):
        return torch.sqrt(x * 0.0)

    def power(self, x):
        return torch.pow(x * 0.0, 0.5)

    def where(self, x):
        return torch.where(x > 2, torch.log(x * 0.0), x)

    def uninitialised(self, x):
        memory = torch.empty(4)
        memory.numpy()[:] = float("nan")  # whatever was there
        return memory + x


FAULTS = {
    ("first", "forward log"): "log",
    ("first", "handle"): "log",
    ("first", "forward division"): "division",
    ("second", "forward overflow"): "exp",
    ("second", "forward matmul"): "matmul",
    ("second", "in place"): "in_place",
    ("first", "unrecorded in a cell"): "unrecorded",
    ("first", "literal"): "literal",
    ("second", "masked row"): "masked",
    ("first", "backward sqrt"): "sqrt",
    ("second", "backward power"): "power",
    ("second", "where"): "where",
    ("first", "uninitialised"): "uninitialised",
}


def train(case, rank, ranks, folder, group, task):
    torch.manual_seed(0)
    net = nn.Sequential()
    for place in ("first", "second"):
        net.add_module(place, Block(place, group))
        net.get_submodule(place).fault = case if rank == ranks - 1 else ""
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    debugger = PrecisionDebugger(dump_path=str(folder / case.replace(" ", "_")), task=task, level="mix")
    is_wrong = rank == ranks - 1
    if case == "loaded weight" and is_wrong:
        net.second.fc.weight.data[1, 1] = float("nan")
    for step in range(2):
        batch = torch.randn(3, 4, generator=torch.Generator().manual_seed(10 * step + rank))
        if case == "batch" and is_wrong and step:
            batch[0, 0] = float("nan")
        debugger.start(net)
        found = net(batch)
        loss = torch.log(found.mean() * 0.0) if case == "loss" and is_wrong else found.square().mean()
        loss.backward()
        reduce_all(case, [torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters()])
        debugger.stop()
        optimizer.step()
        if case == "optimizer" and is_wrong:
            net.second.fc.weight.data *= float("inf")
        optimizer.zero_grad()
        debugger.step()


def reduce_all(case, gradients):
    if not dist.is_initialized():
        return
    if case == "handle":  # waited for in another order by each rank; the first is not waited for at all
        handles = [dist.all_reduce(each, async_op=True) for each in gradients]
        for handle in handles[1:] if dist.get_rank() % 2 else handles[:0:-1]:
            handle.wait()
        handles[0].wait()
        return
    for each in gradients:
        dist.all_reduce(each)
    if case == "collective":
        dist.all_reduce(torch.full((3,), 3e38))


def main():
    rank, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks)
    groups = [dist.new_group([first, first + 1]) for first in range(0, ranks, 2)] if ranks == 4 else []
    for task, case in (each.split("/") for each in sys.argv[4:]):
        train(case, rank, ranks, folder / task, groups[rank // 2] if groups else None, task)
    if ranks > 1:
        dist.barrier()  # a rank that is gone while another still talks ends it
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
