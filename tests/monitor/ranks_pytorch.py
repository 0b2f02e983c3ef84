"""One rank of a monitored training on several: `ranks_pytorch.py RANK RANKS FOLDER`, by gloo on the CPU."""

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist

RANK, RANKS, FOLDER = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])

os.environ["MONITOR_OUTPUT_DIR"] = str(FOLDER / "out")
from msprobe.pytorch import TrainerMon  # noqa: E402  # the folder is read when it begins to write

dist.init_process_group("gloo", init_method=f"file://{FOLDER}/meeting", rank=RANK, world_size=RANKS)
torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
ops = ["norm", "min", "max", "zeros", "nans", "mean"]
where = {"enable": True, "cc_pre_hook": True, "cc_codeline": [r"ranks_pytorch\.py\[\d+\]"]}
settings = {"wg_distribution": True, "ops": ops, "cc_distribution": where}
(FOLDER / f"{RANK}.json").write_text(json.dumps(settings))
monitor = TrainerMon(FOLDER / f"{RANK}.json")
monitor.set_monitor(net, optimizer, dp_group=dist.group.WORLD)
for step in range(2):
    loss = net(torch.full((2, 3), float(RANK + 1 + step))).sum()
    loss.backward()
    monitor.loss(loss)
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad)
    handle = dist.all_reduce(torch.full((2,), float(RANK)), async_op=True)
    handle.wait()
    found = [torch.zeros(2) for _ in range(RANKS)]
    dist.all_gather(found, torch.full((2,), float(RANK + 1)))
    sent, got = torch.full((4,), float(RANK + 5)), torch.zeros(4)
    peer = 1 - RANK
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, peer), dist.P2POp(dist.irecv, got, peer)]):
        work.wait()
    assert got.tolist() == [float(peer + 5)] * 4
    dist.broadcast(torch.full((2,), 1.0 if RANK == 0 else float("nan")), 0)
    optimizer.step()
    optimizer.zero_grad()
monitor.stop()


def once(name, settings, pipeline=None, **groups):
    """One step of another training, with a parameter that is a part of a split one."""
    os.environ["MONITOR_OUTPUT_DIR"] = str(FOLDER / name)
    (FOLDER / f"{name}{RANK}.json").write_text(json.dumps({"wg_distribution": True, "ops": ops, **settings}))
    model = torch.nn.Linear(3, 1)
    model.weight.tensor_model_parallel = True
    update = torch.optim.SGD(model.parameters(), 0.1)
    watching = TrainerMon(FOLDER / f"{name}{RANK}.json", process_group=pipeline)
    watching.set_monitor(model, update, **groups)
    model(torch.ones(1, 3)).sum().backward()
    dist.all_reduce(torch.ones(2))
    dist.all_reduce(torch.ones(2), async_op=True)  # nobody waits for it in this step
    update.step()
    watching.stop()


def averaged():
    """One step of a training whose gradients DistributedDataParallel averages."""
    os.environ["MONITOR_OUTPUT_DIR"] = str(FOLDER / "averaged")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
    update, watching = torch.optim.SGD(model.parameters(), 0.1), TrainerMon(FOLDER / f"{RANK}.json")
    watching.set_monitor(model, update)
    model(torch.full((1, 3), float(RANK + 1))).sum().backward()
    update.step()
    watching.stop()


def accumulated(name, synchronizes, **options):
    """Two updates of three micro steps each, of which DistributedDataParallel reduces the last alone, or all."""
    os.environ["MONITOR_OUTPUT_DIR"] = str(FOLDER / name)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1), **options)
    update, watching = torch.optim.SGD(model.parameters(), 0.1), TrainerMon(FOLDER / f"{RANK}.json")
    watching.set_monitor(model, update)
    for step in range(2):
        for micro in range(3):
            value = 100.0 * step + 10 * micro + RANK + 1
            with nullcontext() if synchronizes or micro == 2 else model.no_sync():
                model(torch.full((1, 3), value)).sum().backward()
        update.step()
        update.zero_grad()
    watching.stop()


averaged()
accumulated("unsynchronized", False)
accumulated("views", False, gradient_as_bucket_view=True)
accumulated("synchronized", True)
every = {"rule_name": "AnomalyNan", "args": {"threshold": 0}}
once("pipeline", {"alert": {"rules": [every], "dump": True}}, pipeline=dist.new_group([1, 0]))
once("split", {}, tp_group=dist.group.WORLD)
once("plain", {"cc_distribution": {"enable": True}})
once("elsewhere", {"cc_distribution": {"enable": True, "cc_codeline": [r"nowhere\.py"]}})
once("logged", {"cc_distribution": {"enable": True, "cc_log_only": True}})
dist.barrier()
assert not hasattr(dist.all_reduce, "__wrapped__") or "msprobe" not in dist.all_reduce.__code__.co_filename
dist.destroy_process_group()
