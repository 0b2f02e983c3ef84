"""Trainings with MindSpore, one for each way to observe one."""

import re
from contextlib import suppress

import mindspore as ms
import numpy as np
from debugged import SECTIONED, TRAINER_MON, Checking, Monitoring, Perturbing, Probing, Training, Unobserved
from mindspore import Tensor, nn, ops
from mindspore.common.api import _pynative_executor as executor

from msprobe.frameworks.mindspore.functions import functions
from msprobe.mindspore import PrecisionDebugger, flush, save, save_grad, step

ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)

X = Tensor(np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4))


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(4, 4)
        self.drop = nn.Tanh()

    def construct(self, x):
        return self.drop(ops.relu(self.fc(x)))


class Net(nn.Cell):
    """Without recomputation: a forward of that kind that is interrupted spoils MindSpore's later gradients."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()

    def construct(self, x):
        return self.second(self.first(x))


class Debugged(Training):
    debugger_class = PrecisionDebugger
    replaces_errors = leaves_sigint = True
    # Hooks of parameters cannot be removed any more when an exception has ended a backward.
    leftovers = frozenset(
        {
            "cell_dump/session.py Session.hook.<locals>.hook",
            "monitor/gradients.py OwnGradients._hooks.<locals>.computed",
        }
    )

    def __init__(self, *args):
        super().__init__(*args)
        ms.set_seed(0)
        self.net = Net()
        self.net.set_train()
        self._values = [p.asnumpy().copy() for p in self.net.trainable_params()]
        self.optimizer = self.made_optimizer()

    def made_optimizer(self):
        return nn.SGD(self.net.trainable_params(), 0.1)

    def reset(self):
        for parameter, value in zip(self.net.trainable_params(), self._values, strict=True):
            ops.assign(parameter, Tensor(value.copy()))
        ms.manual_seed(1)

    def bits(self):
        return [p.asnumpy().tobytes() for p in self.net.trainable_params()]

    def forward(self, debugger):
        def loss():
            y = self.net(X)
            if self._makes == "raises":
                with suppress(RuntimeError):
                    ops.matmul(X, X)
            if self._makes == "overflows":
                ops.exp(X * 1e9)
            if self._makes == "saves" and debugger is not None:
                debugger.save(y, "y")
            return self.looked_at(y).square().sum()

        return ms.value_and_grad(loss, None, self.net.trainable_params())()

    def looked_at(self, y):
        return y

    def backward(self, loss):
        self._gradients = loss[1]

    def update(self):
        self.optimizer(self._gradients)

    def restore_modes(self):
        """As a program does that an interrupt may have ended inside of a recording."""
        executor.set_grad_flag(False)
        executor.set_enable_grad(True)

    def untouched(self):
        places = {
            (owner.__name__, name): (vars(owner).get(name), getattr(vars(owner).get(name), "__code__", None))
            for owner, name, _ in functions()
        }
        owners = (nn.Cell, Block, Net, nn.Dense, nn.Tanh, nn.SGD, nn.Optimizer, ms.ops.Primitive, ms.Tensor)
        for owner in owners:
            places |= {
                (owner.__name__, name): (value, getattr(value, "__code__", None))
                for name, value in vars(owner).items()
                if callable(value) or isinstance(value, staticmethod)
            }
        hooks = []
        for _, cell in self.net.cells_and_names():
            hooks += [
                len(v) for name, v in vars(cell).items() if name.endswith(("_hooks", "_hook")) and hasattr(v, "__len__")
            ]
        return places, hooks


class Bare(Unobserved, Debugged):
    """A training without msprobe: what it does after an interrupt is asked of the framework."""


class Probed(Probing, Debugged):
    """Task grad_probe."""


class Checked(Checking, Debugged):
    """Task acc_check."""


class Perturbed(Perturbing, Debugged):
    """Task free_benchmark."""


class Monitored(Monitoring, Debugged):
    """A training with a monitor."""


class Saved(Debugged):
    """`save` and `save_grad` of single tensors."""

    def open(self):
        self._opened += 1
        self.dump = self.folder / f"saves{self._opened}"

    def looked_at(self, y):
        if not self._saves:
            return y
        save(str(self.dump), "y", y)
        return save_grad(str(self.dump), "y", y)

    _saves = False

    def step(self):
        self._saves, self.at = True, "forward"
        loss = self.forward(None)
        self.backward(loss)
        self.at = "update"
        self.update()
        self.at = "stop"
        flush()
        self.at = "step"
        step()
        self.at, self._saves = "over", False

    def end(self, ending):
        self._saves = False
        if ending != "nothing":
            step()

    def next_number(self):
        self._saves = False

    def collected(self):
        steps = sorted(self.dump.glob("step*"), key=lambda path: int(path.name[4:]))
        if not steps:
            return None
        files = sorted(steps[-1].rglob("*.npy"))
        return {re.sub(r"_\d+\.npy", "", path.name): path.read_bytes() for path in files} or None

    def ended_by(self, at, ending):
        for path in self.dump.rglob("*.npy"):
            np.load(path)

    def close_step(self):
        """The steps are numbered to the end of the process."""

    def begin_anew(self):
        self._saves = False
        step()

    def close(self):
        """Nothing is open."""


def trainings(root):
    """Without `gradients: "hooks"`: an interrupt leaves the framework's own hooks of cells in disorder."""

    def made(name, makes="", **settings):
        return Debugged(root, name, {"task": "statistics", "level": "mix", **settings}, makes)

    return [
        Bare(root, "bare", {}),
        made("statistics"),
        made("L0", level="L0"),
        made("L1", level="L1"),
        made("tensor", task="tensor"),
        made("packed", task="tensor", format="packed"),
        made("columnar", task="tensor", format="columnar"),
        made("behind", task="tensor", async_dump=True, tensor={"list": ["relu"]}),
        made("structure", task="structure"),
        made("dispatch", dispatch=True),
        made("exceptions", "raises", task="exception_dump"),
        made("overflow", "overflows", task="overflow_check", overflow_check={"overflow_nums": -1}),
        made("debug", "saves", task="tensor", level="debug"),
        Checked(root, "check", {"task": "acc_check", "level": "L1", "acc_check": {"budget_ms": 1e6}}),
        Probed(root, "probe", {"task": "grad_probe", "grad_probe": {"grad_level": "L2"}}),
        Perturbed(
            root, "perturb", {"task": "free_benchmark", "level": "L1", "free_benchmark": {"pert_mode": "add_noise"}}
        ),
        Monitored(root, "monitor", TRAINER_MON),
        Monitored(root, "monitor v2", SECTIONED),
        Saved(root, "save", {}),
    ]
