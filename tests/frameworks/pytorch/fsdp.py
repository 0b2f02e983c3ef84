"""Two ranks train a model whose parameters are sharded by FSDP2, with gloo, under a debugger.

    python fsdp.py FOLDER RANK PORT SEED

SEED fills memory that is freed again before the training, so that what `empty` gives differs from run to run.
"""

import os
import sys

import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard

WORLD = 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(48, 64), nn.Linear(64, 8)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def main(folder, rank, port, seed):
    from msprobe.pytorch import PrecisionDebugger

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(WORLD))
    distributed.init_process_group("gloo", rank=rank, world_size=WORLD)
    torch.manual_seed(0)
    net = Net()
    for module in (net.first, net.second, net):
        fully_shard(module, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (WORLD,)))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    debugger = PrecisionDebugger(dump_path=folder, level="mix", task="statistics")
    generator = torch.Generator().manual_seed(rank)
    for step in range(2):
        litter = [torch.full((size,), 1e30 / (seed + step + 1)) for size in range(1, 8000, 7)]
        del litter
        debugger.start(net)
        net(torch.randn(4, 48, generator=generator)).square().mean().backward()
        debugger.stop()
        optimizer.step()
        optimizer.zero_grad()
        debugger.step()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
