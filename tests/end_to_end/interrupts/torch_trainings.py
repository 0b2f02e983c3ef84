"""Trainings with PyTorch, one for each way to observe one."""

from contextlib import suppress

import torch
from debugged import SECTIONED, TRAINER_MON, Checking, Monitoring, Perturbing, Probing, Training, Unobserved
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from msprobe.frameworks.pytorch.functions import functions
from msprobe.pytorch import PrecisionDebugger

torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.25)

    def forward(self, x):
        return self.drop(torch.relu(self.fc(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x):
        x = checkpoint(self.first, x, use_reentrant=False)
        return self.second(x)


X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Debugged(Training):
    debugger_class = PrecisionDebugger

    def __init__(self, *args):
        super().__init__(*args)
        torch.manual_seed(0)
        self.net = Net()
        self._values = [p.detach().clone() for p in self.net.parameters()]
        self.optimizer = self.made_optimizer()

    def made_optimizer(self):
        return torch.optim.SGD(self.net.named_parameters(), 0.1)

    def reset(self):
        self.optimizer.zero_grad()
        with torch.no_grad():
            for parameter, start in zip(self.net.parameters(), self._values, strict=True):
                parameter.copy_(start)
        torch.manual_seed(1)

    def bits(self):
        return [p.detach().numpy().tobytes() for p in self.net.parameters()]

    def forward(self, debugger):
        y = self.net(X)
        if self._makes == "raises":
            with suppress(RuntimeError):
                torch.matmul(X, X)
        if self._makes == "overflows":
            torch.exp(X * 1e9)
        if self._makes == "saves" and debugger is not None:
            debugger.save(y, "y")
        return y.square().sum()

    def backward(self, loss):
        loss.backward()

    def update(self):
        self.optimizer.step()

    def restore_modes(self):
        torch.set_grad_enabled(True)
        # An interrupt where `saved_tensors_hooks.__enter__` returns leaves them, as it does without the debugger.
        while torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
            torch._C._autograd._pop_saved_tensors_default_hooks()

    def untouched(self):
        """What stands in the framework's places, and hangs at the network."""
        places = {
            (owner.__name__, name): (vars(owner).get(name), getattr(vars(owner).get(name), "__code__", None))
            for owner, name, _ in functions()
        }
        owners = (nn.Module, Block, Net, nn.Linear, nn.Dropout, torch.jit, torch.autograd, torch.utils.checkpoint)
        owners += (torch.autograd.function.BackwardCFunction, torch.utils.checkpoint.CheckpointFunction, torch)
        owners += (torch.utils.checkpoint._CheckpointFrame, torch.utils.checkpoint._recomputation_hook)
        for owner in owners:
            places |= {
                (owner.__name__, name): (value, getattr(value, "__code__", None))
                for name, value in vars(owner).items()
                if callable(value) or isinstance(value, staticmethod)
            }
        hooks = [len(p._backward_hooks or ()) for p in self.net.parameters()]
        for module in self.net.modules():
            hooks += [len(value) for name, value in vars(module).items() if name.endswith("_hooks")]
        modes = torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()
        return places, hooks, modes, torch.get_num_threads(), len(hooks_of(self.optimizer))


NODE = torch.autograd.function.BackwardCFunction.__name__


class Moded(Debugged):
    """The user's own modes are around the model, which count operations."""

    def forward(self, debugger):
        with Counting(), Passing():
            return super().forward(debugger)


class Counting(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Passing(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Bare(Unobserved, Debugged):
    """A training without msprobe: what it does after an interrupt is asked of the framework."""


class Probed(Probing, Debugged):
    """Task grad_probe."""

    def untouched(self):
        """Without what is watched for good: the optimizer, and what compiles or traces its steps."""
        places, *rest = super().untouched()[:-1]
        followed = {
            ("torch.jit", "script"),
            ("torch.jit", "trace"),
            ("torch.jit", "trace_module"),
            ("torch", "compile"),
        }
        return {place: of for place, of in places.items() if place not in followed and place[0] != NODE}, *rest


class Checked(Checking, Debugged):
    """Task acc_check."""


class Perturbed(Perturbing, Debugged):
    """Task free_benchmark."""


class Monitored(Monitoring, Debugged):
    """A training with a monitor."""


def hooks_of(optimizer):
    return [*optimizer._optimizer_step_pre_hooks, *optimizer._optimizer_step_post_hooks]


def trainings(root):
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
        made("hooks", gradients="hooks"),
        made("exceptions", "raises", task="exception_dump"),
        made("overflow", "overflows", task="overflow_check", overflow_check={"overflow_nums": -1}),
        made("debug", "saves", task="tensor", level="debug"),
        Checked(root, "check", {"task": "acc_check", "level": "L1", "acc_check": {"budget_ms": 1e6}}),
        Moded(root, "modes", {"task": "statistics", "level": "mix"}),
        Probed(root, "probe", {"task": "grad_probe", "grad_probe": {"grad_level": "L2"}}),
        Perturbed(
            root, "perturb", {"task": "free_benchmark", "level": "L1", "free_benchmark": {"pert_mode": "add_noise"}}
        ),
        Monitored(root, "monitor", TRAINER_MON),
        Monitored(root, "monitor v2", SECTIONED),
    ]
