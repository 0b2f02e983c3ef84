"""One rank of a training on several: `msrun ... ranks.py CASE FOLDER`, with CASE one of those below.

What a rank has to report goes to `FOLDER/rank{R}.json`; its dumps go to folders beside it. `msrun` runs this also as
the scheduler, which never returns from `init()`.
"""

import faulthandler
import hashlib
import json
import os
import re
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, dataset, mint, nn, ops
from mindspore.communication import GlobalComm, comm_func, create_group, get_group_size, get_rank, init
from mindspore.mint import distributed

from msprobe.base.errors import UsageError
from msprobe.debugger import _end_all
from msprobe.mindspore import PrecisionDebugger

FOLDER = Path(sys.argv[2])
STEPS = 3


def main():
    faulthandler.dump_traceback_later(240, exit=True)  # nothing here may hang for ever
    ms.set_context(mode=ms.PYNATIVE_MODE)
    report = {}
    # Both are constructed before init(); one is also started before it, which is too early.
    before, early = debugger("before"), debugger("early")
    if os.environ["MS_ROLE"] == "MS_WORKER":
        report["early"] = attempt(lambda: early.start(Net()))
    init()
    early.stop()
    early.step()
    report["rank"] = get_rank()
    report["before"] = train(before, level="mix")
    for case in CASES[sys.argv[1]]:
        report[case.__name__] = case()
    (FOLDER / f"rank{get_rank()}.json").write_text(json.dumps(report))
    faulthandler.cancel_dump_traceback_later()


def debugger(name, level="mix", **settings):
    """A debugger that writes to the folder `name`."""
    config = FOLDER / f"{name}.{os.getpid()}.json"
    config.write_text(json.dumps({"dump_path": str(FOLDER / name), "level": level, **settings}))
    return PrecisionDebugger(config_path=str(config))


def attempt(what):
    """What a call complains of; "" when it works."""
    try:
        what()
    except UsageError as cause:
        return str(cause)
    return ""


class Net(nn.Cell):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.first = nn.Dense(4, 8, weight_init=weights(8, 4), bias_init="zeros")
        self.last = nn.Dense(8, 1, weight_init=weights(1, 8), bias_init="zeros")

    def construct(self, x):
        return mint.mean(ops.square(self.last(ops.tanh(self.first(x)))))


def weights(*shape):
    return Tensor(np.random.default_rng(1).standard_normal(shape).astype(np.float32))


def batch(step):
    """Every rank has data of its own."""
    return Tensor(np.random.default_rng([step, get_rank()]).standard_normal((2, 4)).astype(np.float32))


def train(collector=None, level="mix", **start):
    """Train data-parallel; gives a digest of every step's loss, gradients and parameters."""
    net = Net()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    gradient = ms.value_and_grad(net, None, net.trainable_params())
    digest = hashlib.sha256()
    for step in range(STEPS):
        if collector:
            collector.start(None if level == "L1" else net, **start)
        loss, gradients = gradient(batch(step))
        waiting = [distributed.all_reduce(each, async_op=True) for each in gradients[:2]]
        for each in gradients[2:]:
            distributed.all_reduce(each)
        for handle in waiting:
            handle.wait()
        gradients = tuple(each / get_group_size() for each in gradients)
        if collector:
            collector.stop()
        optimizer(gradients)
        if collector:
            collector.step()
        for tensor in (loss, *gradients, *net.get_parameters()):
            digest.update(tensor.asnumpy().tobytes())
    return digest.hexdigest()


def documented():
    """The example of docs/en/how-to/comparing/ranks.md."""
    page = (Path(__file__).parents[2] / "docs" / "en/how-to/comparing/ranks.md").read_text()
    os.chdir(FOLDER)
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    exec(compile(example, "en/how-to/comparing/ranks.md", "exec"), {"__name__": "example"})


def bits():
    """Train without a debugger twice, and with one at several levels."""
    return {
        "bare": train(),
        "again": train(),
        "mix": train(debugger("mix", "mix", task="tensor")),
        "L1": train(debugger("L1", "L1"), level="L1"),
        "L0": train(debugger("L0", "L0", statistics={"summary_mode": "md5"})),
    }


def bare():
    """Train without a debugger."""
    return train()


def chosen():
    """Which ranks write: by the setting `rank`, and under a number of the training's own."""
    train(debugger("second", rank=[1]))
    train(debugger("both", rank=["0-1"]))
    train(debugger("numbered"), rank_id=get_rank() + 5)


def full(value, *shape):
    return Tensor(np.full(shape or (2, 3), value, np.float32))


def collectives():
    """Whatever a CPU can run of the collectives, at once and behind handles."""
    rank, size = get_rank(), get_group_size()
    collector = debugger("collectives", "L1", task="tensor")
    handles, world = [], GlobalComm.WORLD_COMM_GROUP
    collector.start()
    distributed.all_gather([full(0) for _ in range(size)], full(rank + 1))
    distributed.broadcast(full(rank + 1), src=1)
    distributed.scatter(full(0), [full(10 * i + 10) for i in range(size)], 0, group=world)
    distributed.gather(full(rank + 1), [full(0) for _ in range(size)], 0)
    distributed.barrier()
    distributed.all_reduce(full(rank + 1), op="max")
    ops.communication.all_reduce(full(rank + 1))
    ops.broadcast(full(rank + 1), 0)
    handles.append(ops.communication.all_reduce(full(rank + 2), async_op=True))
    handles[-1].wait()
    comm_func.broadcast(full(rank + 1), 0, world)
    # behind handles: waited for in another order, and one never
    handles += [distributed.all_reduce(full(10.0**i + rank), async_op=True) for i in range(3)]
    between = mint.add(full(1), full(1))
    handles[2].wait()
    handles[1].wait()
    distributed.barrier(async_op=True).wait()
    collector.stop()
    handles[3].wait()
    collector.step()
    return {
        "classes": sorted({f"{type(h).__module__}.{type(h).__name__}" for h in handles}),
        "untouched": all("wait" not in vars(h) for h in handles),
        "between": between.asnumpy().tolist(),
    }


def overlap():
    """The receiving rank gets on with its work, on which the sending one waits: who waited in `irecv` would hang."""
    # MindSpore asks for this process's rank in the world group of Ascend here, which a CPU does not have
    distributed.distributed._GROUP_RANK_CACHE["hccl_world_group"] = get_rank()
    collector = debugger("overlap", "L1", task="tensor")
    pipe = FOLDER / "go"
    collector.start()
    if get_rank() == 0:
        received = full(0)
        handle = distributed.irecv(received, 1)
        pipe.write_text("go")
        handle.wait()
    else:
        assert pipe.read_text() == "go"
        received = full(7)
        distributed.isend(received, 0).wait()
    collector.stop()
    collector.step()
    return received.asnumpy().tolist()


class Exchanging(nn.Cell):
    """Collectives with a backward of their own, and one in place, which has none."""

    def __init__(self):
        super().__init__()
        self.reduce = ops.AllReduce()

    def construct(self, x):
        spread = comm_func.broadcast(x * 2.0, 0, GlobalComm.WORLD_COMM_GROUP)
        written = x * 5.0
        distributed.all_reduce(written)
        return (self.reduce(x * 3.0) * spread * written).sum() * (get_rank() + 1.0)


def gradients():
    """Collectives under a gradient, with and without a debugger."""
    collector = debugger("gradients", "L1", task="tensor")
    net = Exchanging()
    bare = ms.grad(net)(full(get_rank() + 1.0))
    collector.start(net)
    collected = ms.grad(net)(full(get_rank() + 1.0))
    collector.stop()
    collector.step()
    return [bare.asnumpy().tolist(), collected.asnumpy().tolist()]


class Numbers:
    """A data set whose workers ask the debugger for all that would write."""

    def __init__(self, collector):
        self._collector, self._parent = collector, os.getpid()

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if os.getpid() != self._parent:  # who looks at the first row too
            self._collector.stop()
            self._collector.step()
        return np.full(3, index, np.float32)


def forks():
    """Processes that are forked while a step is collected: workers of a data set, and one of the training's own."""
    collector = debugger("forks", "L1", task="tensor")
    collector.start()
    mint.add(full(1), full(get_rank()))
    rows = dataset.GeneratorDataset(
        Numbers(collector), ["x"], shuffle=False, num_parallel_workers=2, python_multiprocessing=True
    )
    total = sum(float(row.sum()) for (row,) in rows.create_tuple_iterator(num_epochs=1, output_numpy=True))
    child = os.fork()
    if not child:
        collector.step()
        _end_all()  # what is registered for the end of a process; with what MindSpore registers this one would crash
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    mint.mul(full(2), full(3))
    collector.stop()
    collector.step()
    return [total, status]


def pairs():
    """Groups of two ranks."""
    collector = debugger("pairs", "L1", task="tensor")
    first = get_rank() // 2 * 2
    create_group(f"pair{first}", [first, first + 1])
    collector.start()
    distributed.all_reduce(full(2.0 ** get_rank()), group=f"pair{first}")
    collector.stop()
    collector.step()


CASES = {"two": (documented, bits, chosen, collectives, overlap, gradients, forks), "four": (bare, pairs)}

if __name__ == "__main__":
    main()
