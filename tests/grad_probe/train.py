"""A small training with MindSpore or PyTorch in a process of its own, with the probe or without.

    train.py FRAMEWORK HOW OPTIMIZER FOLDER [SETTINGS]

The gradients that the optimizer received and the parameters at the end go to `FOLDER/seen.npz`; with SETTINGS, the JSON
of a configuration, the optimizer is monitored.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np

STEPS = 3


def data():
    rng = np.random.default_rng(3)
    return [rng.standard_normal((5, 4)).astype(np.float32) for _ in range(STEPS)]


def mindspore_training(how, kind, folder, settings):
    import mindspore as ms
    from mindspore import Tensor, nn
    from mindspore.dataset import GeneratorDataset
    from mindspore.train import Model

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc1, self.norm, self.fc2 = nn.Dense(4, 6), nn.LayerNorm((6,)), nn.Dense(6, 2)

        def construct(self, x):
            return (self.fc2(self.norm(self.fc1(x))) ** 2).sum()

    ms.set_context(mode=ms.GRAPH_MODE if how in ("graph", "model") else ms.PYNATIVE_MODE)
    ms.set_seed(0)
    net = Net()
    rng = np.random.default_rng(0)
    for parameter in net.trainable_params():
        parameter.set_data(Tensor(rng.standard_normal(parameter.shape).astype(np.float32)))
    make = {
        "adam": lambda p: nn.Adam(p, 1e-2),
        "momentum": lambda p: nn.Momentum(p, 0.1, 0.9),
        "weight-decay": lambda p: nn.AdamWeightDecay(p, 1e-2),
        "grouped": lambda p: nn.SGD([{"params": p[2:]}, {"params": p[:2], "lr": 0.2}], 0.1),
        "experimental": lambda p: ms.experimental.optim.Adam(list(p), lr=1e-2),
    }[kind]
    optimizer = make(net.trainable_params())
    if settings:
        from msprobe.mindspore import PrecisionDebugger

        debugger = PrecisionDebugger(settings)
        debugger.monitor(optimizer)
    gradients = []
    if how == "model":
        Model(net, optimizer=optimizer).train(
            1, GeneratorDataset([(x,) for x in data()], ["x"], shuffle=False), dataset_sink_mode=False
        )
    else:
        value_and_grad = ms.value_and_grad(net, None, optimizer.parameters)

        def step(x):
            loss, found = value_and_grad(x)
            optimizer(found)
            return loss, found

        class Step(nn.Cell):
            def construct(self, x):
                return step(x)

        call = {"pynative": step, "jit": ms.jit(step), "graph": Step()}[how]
        for x in data():
            if settings:
                debugger.start()
            _, found = call(Tensor(x))
            gradients.append({p.name: g.asnumpy() for p, g in zip(optimizer.parameters, found, strict=True)})
            if settings:
                debugger.stop()
                debugger.step()
    if settings:
        debugger.stop()
    return gradients, {p.name: p.asnumpy() for p in (*net.trainable_params(), *optimizer.get_parameters())}


def kill(when):
    """Have this process killed in the third step: while signs are written, or before the table has its name."""
    owner, name, calls = (os, "replace", 3) if when == "killed-table" else (os, "writev", 2 * 6 + 4)
    function, left = getattr(owner, name), [calls]

    def counted(*args):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args)

    setattr(owner, name, counted)


def torch_training(how, kind, folder, settings):
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.LayerNorm(6), torch.nn.Linear(6, 2))
    named = list(net.named_parameters())
    optimizer = torch.optim.Adam(named if how == "named" else net.parameters(), 1e-2)
    if settings:
        from msprobe.pytorch import PrecisionDebugger

        debugger = PrecisionDebugger(settings)
        debugger.monitor(net if how == "model" else optimizer)
    if kind.startswith("killed"):
        kill(kind)
    gradients = []
    for x in data():
        optimizer.zero_grad()
        (net(torch.tensor(x)) ** 2).sum().backward()
        gradients.append({n: p.grad.numpy().copy() for n, p in named})
        optimizer.step()
    if settings:
        debugger.stop()
    state = {f"{n}.{k}": v.numpy() for n, p in named for k, v in optimizer.state[p].items()}
    return gradients, {n: p.detach().numpy() for n, p in named} | state


def main(framework, how, kind, folder, settings=""):
    run = mindspore_training if framework == "mindspore" else torch_training
    gradients, parameters = run(how, kind, Path(folder), settings)
    seen = {f"parameter {name}": value for name, value in parameters.items()}
    seen |= {f"gradient {step} {name}": value for step, found in enumerate(gradients) for name, value in found.items()}
    np.savez(Path(folder) / "seen.npz", **seen)


if __name__ == "__main__":
    main(*sys.argv[1:])
