"""One rank of a training whose model is distributed: `sharded.py FOLDER RANK RANKS KIND [OPTION=VALUE ...]`.

KIND: `one` (a single process), `ddp`, `fsdp` (FSDP2), `fsdp_recompute`, `uneven` (FSDP2, shards of unequal lengths and
empty ones), `tp` (tensor parallel), `2d` (FSDP2 and tensor parallel, four ranks), `fsdp1` (the older FSDP, flat
parameters), `zero` (DDP with a ZeroRedundancyOptimizer).

Each rank trains on its share of one batch, with AdamW. It trains twice, without and with the debugger (`collects=0`
only without, `collects=1` only with), and writes to FOLDER/rank{RANK}.json a digest of all bits of parameters,
gradients and states of the optimizer after each step.

Options: `like` (the KIND whose model it is), `task`, `level`, `format`, `steps`, `mode` (summary_mode), and
`fault=STEP:RANK:NAME`: after that step's update the rank adds 1 to one element of its shard of a parameter; `micro`,
the number of micro batches (of one process: like those of `shares` ranks); `clip=HOW`, by which function gradients are
clipped while the debugger collects: `torch` (`clip_grad_norm_`) or `hand` (the sum of squares, reduced); `loss=FORM`, a
cross entropy over tokens of which each rank ignores others, as `mean` of a rank's tokens weighted by their number, or
as `sum` or `none` (one loss for each token), divided by the number of tokens of all ranks; `bug=NAME`, one of BUGS.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import distributed, nn
from torch.utils.checkpoint import checkpoint

BATCH, WIDTH = 16, 12

BUGS = {
    "same_batch": "all ranks read the same files (VeOmni#1075)",
    "skips": "rank 0 alone skips the second update (WeatherGenerator#2724)",
    "own_seed": "each rank draws its own initial weights (OLMo-core#319)",
    "not_reduced": "a module is left out of the reduction of gradients (Megatron-LM#599, bigcode Megatron-LM#11)",
    "sum": "gradients are doubled, as where their sum is taken for their mean (pytorch#160285)",
    "old_parameters": "the optimizer has the parameters from before they were distributed (accelerate#2665)",
    "last_micro_batch": "of two micro batches only the last one survives (open-instruct#1498)",
    "leak": "the last micro batch leaks into the next step (DeepSpeed#7985)",
    "lossy": "one rank's part of a reduced gradient is lost (pytorch#84803)",
    "counted": "replicated weights are counted in the norm once for each rank (Megatron-LM, Apex: clip_grad_norm)",
    "one_group": "the norm is reduced in one of two groups of a mesh (Megatron-LM#5916, #6099; DeepSpeed#7718)",
    "local_norm": "each rank clips by the norm of its own gradients",
    "mean_of_means": "each rank divides its loss by its own number of tokens (Megatron-LM#7452 item 3, #7498)",
}
"""Published bugs of trainings on several ranks, and by which mechanism they are planted here."""


class Block(nn.Module):
    def __init__(self, width, inner, recompute):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, inner), nn.Linear(inner, width)
        self.recompute = recompute

    def inside(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))

    def forward(self, x):
        return checkpoint(self.inside, x, use_reentrant=False) if self.recompute else self.inside(x)


class Net(nn.Module):
    def __init__(self, inner=(24, 24), recompute=False):
        super().__init__()
        self.embed = nn.Linear(8, WIDTH)
        self.blocks = nn.ModuleList([Block(WIDTH, each, recompute) for each in inner])
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def made(kind):
    """The whole model, equal on all ranks."""
    torch.manual_seed(0)
    net = Net((5, 1) if kind == "uneven" else (24, 24), recompute=kind == "fsdp_recompute")
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(torch.randn(parameter.shape) * 0.05)
    return net


def batch(step):
    generator = torch.Generator().manual_seed(1000 + step)
    return torch.randn(BATCH, 8, generator=generator), torch.randn(BATCH, 4, generator=generator)


def distribute(net, kind, ranks, bug=""):
    """The model as this kind distributes it."""
    if kind == "one":
        return net
    if kind in ("ddp", "zero"):
        return nn.parallel.DistributedDataParallel(net)
    if kind == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(net, device_id=torch.device("cpu"))
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    if kind == "2d":
        mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("dp", "tp"))
        parallel(net, mesh["tp"])
        shard(net, mesh["dp"], fully_shard)
    elif kind == "tp":
        parallel(net, init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",)))
    else:
        shard(net, init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",)), fully_shard, bug)
    return net


def shard(net, mesh, fully_shard, bug=""):
    left = {net.blocks[1].norm.weight, net.blocks[1].norm.bias} if bug == "not_reduced" else set()
    for each in (*net.blocks, net.head, net):
        fully_shard(each, mesh=mesh, ignored_params=left)


def parallel(net, mesh):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    for block in net.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def digest(net, optimizer):
    found = hashlib.sha256()
    for parameter in net.parameters():
        state = optimizer.state.get(parameter, {})
        for tensor in (parameter, parameter.grad, *(state[key] for key in sorted(state))):
            if tensor is not None:
                found.update(getattr(tensor, "_local_tensor", tensor).detach().contiguous().numpy().tobytes())
    return found.hexdigest()


def micro_batches(each, options):
    """The micro batches of a rank's share; of one process those of all `shares` ranks together, in the same order."""
    count, shares = int(options.get("micro", 1)), int(options.get("shares", 1))
    parts = [share.chunk(count) for share in each.chunk(shares)]
    return [torch.cat(some) for some in zip(*parts, strict=True)]


def classes(wanted):
    """The targets of a share: class numbers, of which some are ignored, later ones more often, but not the last."""
    place = torch.arange(len(wanted))
    is_ignored = (wanted[:, 0] > 0.3 - 0.05 * place) & (place < len(wanted) - 1)
    return torch.where(is_ignored, -100, wanted.argmax(-1))


def loss_of(out, wanted, form, total, replicas, bug):
    """The loss of a share; `total` is the number of tokens of all ranks and micro batches."""
    if not form:
        return (out - wanted).square().mean()
    target = classes(wanted)
    count = (target != -100).sum()
    if bug == "mean_of_means":
        total = count * replicas
    if form == "mean":
        return F.cross_entropy(out, target) * (count * replicas / total)
    if form == "sum":
        return F.cross_entropy(out, target, reduction="sum") * (replicas / total)
    return F.cross_entropy(out, target, reduction="none").sum() * (replicas / total)


def clip(net, rank, kind, how, bug):
    """Clip the gradients by their norm."""
    if how == "torch":
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        return
    total = torch.zeros(())
    for parameter in net.parameters():
        gradient = parameter.grad
        coordinates = _copies(gradient) if kind in ("tp", "2d") else []
        if bug in ("counted", "one_group", "local_norm") or not any(coordinates):
            total = total + getattr(gradient, "_local_tensor", gradient).norm() ** 2
    if bug == "one_group":
        distributed.all_reduce(total, group=net.head.weight.device_mesh["dp"].get_group())
    elif bug == "counted" or (kind not in ("ddp", "zero") and bug != "local_norm"):
        distributed.all_reduce(total)
    factor = torch.clamp(0.1 / (total.sqrt() + 1e-6), max=1.0)
    for parameter in net.parameters():
        getattr(parameter.grad, "_local_tensor", parameter.grad).mul_(factor)


def _copies(gradient):
    """The coordinates of a rank along the dimensions of the mesh along which ranks have copies."""
    if not hasattr(gradient, "placements"):
        return [distributed.get_rank()]
    at = gradient.device_mesh.get_coordinate()
    if gradient.device_mesh.ndim == 1 and gradient.device_mesh.mesh_dim_names == ("dp",):
        at, placements = (
            [*at, distributed.get_rank() % 2],
            [*gradient.placements, None],
        )  # of a layer that is not parallel
    else:
        placements = gradient.placements
    return [n for n, placement in zip(at, placements, strict=True) if placement is None or placement.is_replicate()]


def train_on(net, xs, ys, optimizer, bug, form="", total=1, replicas=1):
    """Forward and backward of one step, in micro batches; the mean loss."""
    count = 1 if form else len(xs)
    losses = []
    for some, wanted in zip(xs, ys, strict=True):
        if bug == "last_micro_batch":
            optimizer.zero_grad()
        losses.append(loss_of(net(some), wanted, form, total, replicas, bug) / count)
        if bug == "sum":
            losses[-1] = losses[-1] * distributed.get_world_size()
        losses[-1].backward()
    return sum(losses)


def train(folder, rank, ranks, kind, options, *, collects):
    bug = options.get("bug", "")
    net = made(options.get("like", kind))
    if bug == "own_seed":
        torch.manual_seed(rank)
        for parameter in net.parameters():
            parameter.data.copy_(torch.randn(parameter.shape) * 0.05)
    before = list(net.parameters()) if bug == "old_parameters" else None
    net = distribute(net, kind, ranks, bug)
    if kind == "zero":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, lr=1e-2)
    else:
        optimizer = torch.optim.AdamW(before or net.parameters(), lr=1e-2)
    debugger = None
    if collects:
        from msprobe.pytorch import PrecisionDebugger

        task = options.get("task", "statistics")
        config = {
            "task": task,
            "level": options.get("level", "mix"),
            "dump_path": str(folder / "dump"),
            "rank": [],
            "step": [],
            "format": options.get("format", "json"),
            task: {"summary_mode": options["mode"]} if "mode" in options else {},
        }
        path = folder / f"config{rank}.json"
        path.write_text(json.dumps(config))
        debugger = PrecisionDebugger(config_path=str(path))
    replicas = {"one": 1, "tp": 1, "2d": 2}.get(kind, ranks)
    share = BATCH // replicas
    at = 0 if replicas == 1 else rank // (ranks // replicas)
    fault = options.get("fault", "-1:0:").split(":")
    found = []
    for step in range(int(options.get("steps", 2))):
        first = 0 if bug == "same_batch" else at * share
        xs, ys = (micro_batches(each[first : first + share], options) for each in batch(step))
        total = sum((classes(each) != -100).sum() for each in batch(step)[1].chunk(replicas * len(xs)))
        if debugger is not None:
            debugger.start(net)
        if kind == "ddp" and bug == "local_norm":
            with net.no_sync():
                loss = train_on(net, xs, ys, optimizer, bug, options.get("loss", ""), total, replicas)
        else:
            loss = train_on(net, xs, ys, optimizer, bug, options.get("loss", ""), total, replicas)
        if "clip" in options:
            clip(net, rank, kind, options["clip"], bug)
        if debugger is not None:
            debugger.stop()
        if kind == "ddp" and bug == "local_norm":
            for parameter in net.parameters():
                distributed.all_reduce(parameter.grad)
        if bug == "lossy" and (step, rank) == (0, ranks - 1):
            net.head.weight.grad._local_tensor.zero_()
        if bug != "skips" or (step, rank) != (1, 0):
            optimizer.step()
        if (step, rank) == (int(fault[0]), int(fault[1])):
            with torch.no_grad():
                parameter = dict(net.named_parameters())[fault[2]]
                getattr(parameter, "_local_tensor", parameter).view(-1)[0] += 1.0
        found.append([loss.item(), digest(net, optimizer)])
        if bug != "leak":
            optimizer.zero_grad()
        if debugger is not None:
            debugger.step()
    return found


def main(folder, rank, ranks, kind, *pairs):
    folder, rank, ranks = Path(folder), int(rank), int(ranks)
    options = dict(pair.split("=") for pair in pairs)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    if kind != "one":
        distributed.init_process_group(
            "gloo", init_method=f"file://{folder.absolute()}/meeting", rank=rank, world_size=ranks
        )
    wanted = [int(options["collects"])] if "collects" in options else [0, 1]
    report = {str(each): train(folder, rank, ranks, kind, options, collects=bool(each)) for each in wanted}
    (folder / f"rank{rank}.json").write_text(json.dumps(report))
    if kind != "one":
        distributed.barrier()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
