"""One rank of a training, clean or with a fault: `train_pytorch.py NET FAULT RANK RANKS FOLDER TASK`.

The steps 0 and 1 are collected; of the faults of resuming, step 1 of the run that goes on is in FOLDER/continued.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from nets_pytorch import NETS, loss
from torch.nn import functional as F

from msprobe.pytorch import PrecisionDebugger

NET, FAULT, RANK, RANKS, FOLDER, TASK = (
    *sys.argv[1:3],
    int(sys.argv[3]),
    int(sys.argv[4]),
    Path(sys.argv[5]),
    sys.argv[6],
)


def main():
    torch.set_num_threads(1)
    if RANKS > 1:
        dist.init_process_group("gloo", init_method=f"file://{FOLDER}/meeting", rank=RANK, world_size=RANKS)
    break_a_kernel()
    if FAULT.startswith("resumed"):
        train(FOLDER / "continued", range(2))
        train(FOLDER / "run", range(2), resumes=True)
    else:
        train(FOLDER / "run", range(2))
    if RANKS > 1:
        dist.barrier()  # a rank that is gone while another still talks ends it
        dist.destroy_process_group()


def train(path, steps, resumes=False):
    torch.manual_seed(0)
    build, batches = NETS[NET]
    net = build(FAULT)
    if FAULT == "weight not broadcast" and RANK == 1:
        net.first.weight.data += 0.01
    if FAULT == "frozen layer":
        for p in net.second.parameters():
            p.requires_grad_(False)
    trained = [p for p in net.parameters() if p.requires_grad]
    if FAULT == "not in the optimizer":
        trained = [p for p in trained if p is not net.second.weight]
    rate = 0.02 if FAULT == "rate of one rank" and RANK == 1 else 0.01
    optimizer = torch.optim.AdamW(trained, rate)
    debugger = PrecisionDebugger(dump_path=str(path), level="mix", task=TASK)
    for step in steps:
        if resumes and step == 1:
            optimizer = resume(net, optimizer)
        seed = 100 * step + (0 if FAULT == "same batch" else RANK)
        if FAULT == "resumed at another batch" and resumes and step == 1:
            seed = 0
        batch = batches(torch.Generator().manual_seed(seed))
        debugger.start(net)
        loss(net, batch).backward()
        reduce_gradients(net)
        if FAULT == "clip on one rank" and RANK == 1:
            torch.nn.utils.clip_grad_norm_(trained, 0.01)
        debugger.stop()
        optimizer.step()
        optimizer.zero_grad()
        debugger.step()


def resume(net, optimizer):
    """What a checkpoint of step 0 brings back; of the fault, not all of it."""
    if FAULT == "resumed without a weight":
        net.last.weight.data.normal_(generator=torch.Generator().manual_seed(9))
    if FAULT == "resumed without random state":
        torch.manual_seed(77)
    return optimizer


def reduce_gradients(net):
    if RANKS < 2:
        return
    for name, p in net.named_parameters():
        if p.grad is None or (FAULT == "missing all_reduce" and name == "second.weight"):
            continue
        dist.all_reduce(p.grad, group=group())
        if not (FAULT == "sum on one rank" and RANK == 1):
            p.grad /= RANKS


def group():
    """A group of this rank alone, for the fault; all ranks otherwise."""
    if FAULT != "wrong group":
        return None
    if not hasattr(group, "own"):
        group.own = [dist.new_group([rank]) for rank in range(RANKS)][RANK]
    return group.own


def break_a_kernel():
    """Replace a function of the framework, before it is collected, by one that computes a little else."""
    if FAULT == "kernel of linear":
        linear = F.linear
        F.linear = lambda *args: linear(*args) * 1.003
    elif FAULT == "kernel of layer norm":
        F.layer_norm = lambda x, shape, w=None, b=None, eps=1e-5: (
            x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w + b
        )
    elif FAULT == "kernel of softmax":
        softmax = torch.softmax
        torch.softmax = lambda *args, **kwargs: softmax(*args, **kwargs) * 0.999
    elif FAULT == "kernel of embedding":
        embedding = F.embedding
        F.embedding = lambda ids, weight, *args, **kwargs: embedding(
            (ids + 1) % weight.shape[0], weight, *args, **kwargs
        )


if __name__ == "__main__":
    main()
