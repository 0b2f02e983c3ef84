"""Trainings that pack their configuration: `python packed.py FRAMEWORK FOLDER HOW`, or under `msrun`.

HOW is `pack`, `plain` (without the checker), or `killed` (a SIGKILL in the third step). What the training drew and
computed goes to `FOLDER/HOW{rank}.json`.
"""

import hashlib
import json
import os
import signal
import sys
from pathlib import Path

framework, FOLDER, HOW = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
if HOW != "plain":
    from msprobe.core.config_check import ConfigChecker

    ConfigChecker.apply_patches(framework)

import random  # noqa: E402  # behind the patches, as in the documentation

import numpy as np  # noqa: E402

random.seed(1)
np.random.seed(2)


def mindspore():
    import mindspore as ms
    from mindspore import nn, ops

    ranks = "MS_ROLE" in os.environ
    ms.set_context(mode=ms.GRAPH_MODE if HOW == "graph" else ms.PYNATIVE_MODE)
    ms.set_seed(3)

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc, self.norm = nn.Dense(4, 2), nn.LayerNorm((2,))

        def construct(self, x, scale=None):
            return self.norm(self.fc(x)) * scale

    net = Net()
    if HOW != "plain":
        checker(net)
    rank = 0
    if ranks:  # as in many scripts, the model is there first
        from mindspore.communication import get_rank, init

        init()
        rank = get_rank()

    @ms.jit
    def drawn_in_a_graph(x):
        return x + ops.uniform((2, 2), ms.Tensor(0.0), ms.Tensor(1.0), seed=5)

    drawn_in_a_graph(ms.Tensor(1.0))
    step = ms.value_and_grad(lambda x, scale: net(x, scale=scale).sum(), None, net.trainable_params())
    optimizer = nn.SGD(net.trainable_params(), 0.1)

    def train():
        x = ops.randn(3, 4)
        loss, gradients = step(x, ms.Tensor([1.0, 2.0]) * (rank + 1))
        if HOW != "graph":
            optimizer(gradients)
        return [loss.asnumpy(), *(p.asnumpy() for p in net.get_parameters())]

    def state():
        return ms.get_rng_state().asnumpy()

    return rank, train, state


def pytorch():
    import torch

    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout(0.5))
    if HOW != "plain":
        checker([net])

    def train():
        x = torch.randn(3, 4).exponential_()
        loss = net(x).sum()
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
        return [loss.detach().numpy(), *(p.detach().numpy() for p in net.parameters())]

    return 0, train, lambda: torch.get_rng_state().numpy()


def checker(net):
    ConfigChecker(net, shell_path=[FOLDER / "train.sh"], output_zip_path=str(FOLDER / f"{HOW}.zip"), fmk=framework)


rank, train, state = {"mindspore": mindspore, "pytorch": pytorch}[framework]()
bits = []
for number in range(3):
    if HOW == "killed" and number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    bits += [hashlib.sha256(np.ascontiguousarray(each).tobytes()).hexdigest() for each in train()]
    bits.append([random.random(), random.randint(0, 10**9), random.choice("abcdefgh")])
    bits.append([np.random.rand(2).tolist(), int(np.random.randint(10**9)), float(np.random.normal())])
bits.append(hashlib.sha256(repr(random.getstate()).encode()).hexdigest())
bits.append(hashlib.sha256(repr(np.random.get_state()).encode()).hexdigest())
bits.append(hashlib.sha256(state().tobytes()).hexdigest())
(FOLDER / f"{HOW}{rank}.json").write_text(json.dumps(bits))
