"""One rank of a training whose layers or samples are exchanged: `stages.py FOLDER RANK RANKS KIND`.

KIND: `pipeline` (`torch.distributed.pipelining`, a stage on each rank), `experts` (each rank has an expert; samples are
sent to it and back by all-to-all, in groups of two ranks) or `context` (each rank has a part of a sequence, and gathers
keys and values of its group of two ranks).

It trains twice, without and with the debugger, and writes to FOLDER/rank{RANK}.json a digest of all bits of parameters
and gradients after each step.
"""

import hashlib
import json
import sys
import warnings
from pathlib import Path

import torch
import torch.distributed.nn.functional as exchanged
import torch.nn.functional as F
from torch import distributed, nn

WIDTH, BATCH, STEPS = 8, 8, 2


class Experts(nn.Module):
    def __init__(self, rank, group):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Linear(WIDTH, WIDTH)
        torch.manual_seed(10 + rank)
        self.expert = nn.Linear(WIDTH, WIDTH)
        self.group = group

    def forward(self, x):
        return self.sent(self.expert(self.sent(self.embed(x))).relu())

    def sent(self, x):
        return exchanged.all_to_all_single(torch.empty_like(x), x, group=self.group)


class Context(nn.Module):
    def __init__(self, group):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.keys, self.values = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.group = group

    def forward(self, x):
        q, k, v = self.embed(x), self.keys(x), self.values(x)
        return F.softmax(q @ self.gathered(k).T, -1) @ self.gathered(v)

    def gathered(self, x):
        """The parts of all ranks of the group, one after the other: a sum, in which each has its place."""
        at, size = distributed.get_rank(self.group), distributed.get_world_size(self.group)
        return exchanged.all_reduce(F.pad(x, (0, 0, at * len(x), (size - 1 - at) * len(x))), group=self.group)


def made(kind, rank, ranks):
    """The model of a rank, and a function that computes the gradients of a batch."""
    if kind == "pipeline":
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

        torch.manual_seed(rank)
        net = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
        stage = PipelineStage(net, rank, ranks, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=F.mse_loss)

        def backward(x, y):
            schedule.step(*([x] if rank == 0 else []), **({"target": y} if rank == ranks - 1 else {}))

        return net, backward
    groups = [distributed.new_group([first, first + 1]) for first in range(0, ranks, 2)]
    net = Experts(rank, groups[rank // 2]) if kind == "experts" else Context(groups[rank // 2])

    def backward(x, y):
        F.mse_loss(net(x), y).backward()
        for name, parameter in net.named_parameters():
            if not name.startswith("expert"):
                distributed.all_reduce(parameter.grad)

    return net, backward


def train(folder, rank, ranks, kind, *, collects):
    net, backward = made(kind, rank, ranks)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    debugger = None
    if collects:
        from msprobe.pytorch import PrecisionDebugger

        path = folder / f"config{rank}.json"
        path.write_text(json.dumps({"level": "mix", "dump_path": str(folder / "dump"), "rank": [], "step": []}))
        debugger = PrecisionDebugger(config_path=str(path))
    found = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(step if kind == "pipeline" else 10 * step + rank)
        x, y = torch.randn(2, BATCH, WIDTH, generator=generator)
        if debugger is not None:
            debugger.start(net)
        backward(x, y)
        if debugger is not None:
            debugger.stop()
        optimizer.step()
        digest = hashlib.sha256()
        for parameter in net.parameters():
            for tensor in (parameter, parameter.grad):
                digest.update(tensor.detach().numpy().tobytes())
        found.append([0.0, digest.hexdigest()])
        optimizer.zero_grad()
        if debugger is not None:
            debugger.step()
    return found


def main(folder, rank, ranks, kind):
    folder, rank, ranks = Path(folder), int(rank), int(ranks)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", FutureWarning)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder.absolute()}/meeting", rank=rank, world_size=ranks
    )
    report = {str(int(each)): train(folder, rank, ranks, kind, collects=each) for each in (False, True)}
    (folder / f"rank{rank}.json").write_text(json.dumps(report))
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
