"""One of two ranks, started by `msrun`: exchanges by `torch.distributed`, collected below the folder it is told."""

import sys

import msadapter  # noqa: F401  # before torch: it takes its place
import torch
import torch.distributed as dist

from msprobe.mindspore import PrecisionDebugger

dist.init_process_group("gloo")
rank = dist.get_rank()
ours, summed, later = (torch.ones(2) * n for n in (rank + 1, rank + 1, rank + 10))
gathered = [torch.zeros(2), torch.zeros(2)]
group = dist.new_group([0, 1])
debugger = PrecisionDebugger(dump_path=sys.argv[1], level="L1")
debugger.start()
dist.all_reduce(summed, group=group)
handle = dist.all_reduce(later, async_op=True)
handle.wait()
dist.all_gather(gathered, ours)
if rank:
    dist.recv(ours, 0)
else:
    dist.send(ours, 1)
debugger.stop()
debugger.step()
assert (summed.numpy().tolist(), later.numpy().tolist()) == ([3, 3], [21, 21])
assert [each.numpy().tolist() for each in gathered] == [[1, 1], [2, 2]]
