"""What a user's `torch.autograd.Function.backward` calls stands inside the backward of the module that applied it."""

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from small_model import step  # beside this file, which is no package
from torch import nn
from torch.autograd.function import BackwardCFunction
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.torch

HELPER = nn.Tanh()


class Cubed(torch.autograd.Function):
    """With a backward that calls functions, and can be differentiated itself."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return torch.mul(gradient, 3 * torch.square(x))


class Helped(torch.autograd.Function):
    """With a backward that calls a module of the network."""

    @staticmethod
    def forward(ctx, x):
        return x.exp()

    @staticmethod
    def backward(ctx, gradient):
        return HELPER(gradient)


class Cubes(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return Cubed.apply(self.fc(x))


class Twice(nn.Module):
    """The function outside every module but the root's, and in one that runs twice."""

    def __init__(self):
        super().__init__()
        self.cubes, self.helper = Cubes(), HELPER

    def forward(self, x):
        return Helped.apply(self.cubes(self.cubes(x).sin()))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.outer = Twice()

    def forward(self, x):
        return self.outer(x)


CUBES = "Module.outer.cubes.Cubes.backward"


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_what_a_backward_calls_stands_in_the_backward_of_the_call_that_applied_it(level, task, collecting, dumped):
    before = BackwardCFunction.apply
    debugger = collecting(level=level, task=task)
    step(debugger, Block(), torch.full((2, 3), 0.5))
    assert BackwardCFunction.apply is before, "what was replaced is back"
    dump = dumped(debugger)
    assert not dump.missing
    if level == "L1":
        assert {"Torch.square.0.forward", "Torch.mul.1.forward"} <= set(dump.data)
        assert dump.construct == {}
        return
    assert dump.construct["Module.outer.helper.Tanh.forward.0"] == "Module.outer.Twice.backward.0"
    # The second call of the module runs back first.
    assert [dump.construct[f"{CUBES}.{i}"] for i in (0, 1)] == ["Module.outer.Twice.backward.0"] * 2
    assert set(dump.construct.values()) - {None} <= set(dump.construct)
    if level == "mix":
        for name in ("Torch.square", "Torch.mul", "Tensor.__rmul__"):
            assert [dump.construct[f"{name}.{i}.forward"] for i in (0, 1)] == [f"{CUBES}.1", f"{CUBES}.0"], name
        assert dump.construct["Torch.tanh.0.forward"] == "Module.outer.helper.Tanh.forward.0"


def test_by_the_frameworks_own_hooks_too(collecting, dumped):
    debugger = collecting({"gradients": "hooks"}, level="mix")
    step(debugger, Block(), torch.full((2, 3), 0.5, requires_grad=True))
    construct = dumped(debugger).construct
    assert [construct[f"Torch.square.{i}.forward"] for i in (0, 1)] == [f"{CUBES}.1", f"{CUBES}.0"]
    assert construct["Module.outer.helper.Tanh.forward.0"] == "Module.outer.Twice.backward.0"


def test_without_a_module_around_it_there_is_no_parent(collecting, dumped):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x):
            return Cubed.apply(self.fc(x))

    debugger = collecting(level="mix")
    step(debugger, Net(), torch.ones(2, 3))
    assert dumped(debugger).construct["Torch.square.0.forward"] is None, "a root is no recorded call"


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.reentrant, self.inner = reentrant, Cubes()

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [True, False])
def test_in_a_recomputation(reentrant, collecting, dumped):
    """The reentrant kind makes the node in the second run, whose backward then is its place; the other in the first."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.outer = Checkpointed(reentrant)

        def forward(self, x):
            return self.outer(x)

    debugger = collecting(level="mix")
    step(debugger, Net(), torch.ones(2, 3, requires_grad=True))
    dump = dumped(debugger)
    assert not dump.missing
    run = int(reentrant)
    assert dump.construct["Torch.square.0.forward"] == f"Module.outer.inner.Cubes.backward.{run}"
    assert dump.data["Torch.square.0.forward"].get("is_recompute", False) is reentrant
    assert dump.data[f"Module.outer.inner.Cubes.backward.{run}"].get("is_recompute", False) is reentrant


def gradients(debugger, work):
    """All gradients of a net that is trained twice, as bytes."""
    torch.manual_seed(2)
    net = nn.ModuleDict({"outer": Twice(), "cubes": Cubes()})
    found = []
    for _ in range(2):
        if debugger is not None:
            debugger.start(net)
        work(net, torch.linspace(-1, 1, 6).view(2, 3).requires_grad_())
        found += [p.grad.numpy().tobytes() for p in net.parameters() if p.grad is not None]
        net.zero_grad()
        if debugger is not None:
            debugger.stop()
            debugger.step()
    return found


def _penalty(net, x):
    y = net["cubes"](x)
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (y.sum() + slope.square().sum()).backward()


def _retained(net, x):
    loss = net["outer"](x).sum()
    loss.backward(retain_graph=True)
    loss.backward()


def _raising(net, x):
    y = net["cubes"](x)
    y.register_hook(lambda gradient: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()
    net["outer"](x).sum().backward()


def _transformed(net, x):
    slope = torch.func.grad(lambda v: F.relu(net["outer"].cubes.fc(v)).sum())(x.detach())
    (net["cubes"](x).sum() + slope.sum()).backward()


WORKS = {"double backward": _penalty, "retained graph": _retained, "raising": _raising, "functorch": _transformed}


@pytest.mark.parametrize("work", WORKS)
def test_gradients_keep_their_bits(work, collecting):
    bare = gradients(None, WORKS[work])
    assert bare
    assert gradients(None, WORKS[work]) == bare
    assert gradients(collecting(level="mix"), WORKS[work]) == bare


def test_a_gradient_of_a_gradient_inside_a_modules_call(collecting, dumped):
    """The module that made the node has ended, the one that asks for the gradient has not."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.penalty = Penalty()

        def forward(self, x):
            return self.penalty(x)

    class Penalty(nn.Module):
        def __init__(self):
            super().__init__()
            self.cubes = Cubes()

        def forward(self, x):
            (slope,) = torch.autograd.grad(self.cubes(x).sum(), x, create_graph=True)
            return torch.neg(slope).sum()

    debugger = collecting(level="mix")
    step(debugger, Net(), torch.ones(2, 3, requires_grad=True))
    dump = dumped(debugger)
    assert dump.construct["Torch.square.0.forward"] == "Module.penalty.cubes.Cubes.backward.0"
    assert dump.construct["Torch.neg.0.forward"] == "Module.penalty.Penalty.forward.0"


def compiled(debugger=None):
    """The gradients of three steps, and how many graphs were compiled."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(2)
    net, found = nn.ModuleDict({"cubes": Cubes()}), []
    run = torch.compile(net["cubes"], backend="aot_eager")
    for n in range(3):
        if debugger is not None:
            debugger.start(net)
        run(torch.full((2, 3), float(n))).sum().backward()
        found += [p.grad.numpy().tobytes() for p in net.parameters()]
        if debugger is not None:
            debugger.stop()
            debugger.step()
    return found, torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch.compile's own doing
def test_code_with_such_a_function_is_compiled_as_without_the_debugger(collecting, dumped):
    """It is compiled in the first step, once, and nothing of its inside is recorded."""
    bare, graphs = compiled()
    debugger = collecting(level="mix")
    assert compiled(debugger) == (bare, graphs) == (bare, 1)
    for step_number in range(3):
        dump = dumped(debugger, step_number)
        assert not dump.missing
        assert not [name for name in dump.data if "square" in name or "mul" in name]
