"""Two ranks of a small training with DistributedDataParallel, by gloo; the argument plants a fault.

`python ranks_torch.py [CHANGE]` starts both ranks.
"""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from msprobe.pytorch import PrecisionDebugger


class Net(torch.nn.Module):
    def __init__(self, change):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
        self.change = change

    def forward(self, x):
        y = self.norm(self.first(x))
        y = torch.nn.functional.leaky_relu(y, 0.1) if self.change == "leaky" else torch.relu(y)
        if self.change == "second rank" and dist.get_rank() == 1:
            y = y * 1.01
        return self.last(y)


def train(rank, change, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = DistributedDataParallel(Net(change))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    debugger = PrecisionDebugger()
    for step in range(3):
        generator = torch.Generator().manual_seed(100 * step + rank)
        x, target = torch.randn(6, 8, generator=generator), torch.randn(6, 4, generator=generator)
        debugger.start(net.module)
        torch.nn.functional.mse_loss(net(x), target).backward()
        debugger.stop()
        optimizer.step()
        optimizer.zero_grad()
        debugger.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, (sys.argv[1], f"{folder}/store"), nprocs=2)
