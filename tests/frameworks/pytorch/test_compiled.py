"""Compiled code is left alone: recorded as one call where it is a module, and computed as without the debugger."""

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _anew():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.fc(x))


class Net(nn.Module):
    def __init__(self, compiled):
        super().__init__()
        self.inner = Inner()
        if compiled == "module":
            self.run = torch.compile(self.inner, backend="aot_eager")
        elif compiled == "function":
            self.run = torch.compile(lambda x: self.inner(x), backend="aot_eager")
        else:
            self.inner.compile(backend="aot_eager")
            self.run = self.inner

    def forward(self, x):
        return torch.relu(self.run(x)).sum()


def losses(compiled, debugger=None):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    net, lines, xs = Net(compiled), [], [torch.full((2, 4), float(i)) for i in range(3)]
    for i in range(3):
        if debugger is not None:
            debugger.start(net)
        loss = net(xs[i])
        loss.backward()
        if debugger is not None:
            debugger.stop()
            debugger.step()
        lines += [loss.item(), net.inner.fc.weight.grad.norm().item()]
    return lines


@pytest.mark.parametrize("compiled", ["module", "in place", "function"])
def test_compiled_code_is_neither_compiled_anew_nor_recorded_inside(compiled, collecting, dumped):
    bare = losses(compiled)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    debugger = collecting(level="mix")
    assert losses(compiled, debugger) == bare
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs == 1, "compiled once, for all steps"
    for step in range(3):
        dump = dumped(debugger, step)
        forward = [n for n in dump.data if "forward" in n]
        assert not [n for n in forward if "linear" in n.lower() or "tanh" in n.lower()]
        assert [n for n in forward if n.startswith(("Torch", "Tensor"))] == [
            "Torch.relu.0.forward",
            "Tensor.sum.0.forward",
        ]
        if compiled == "module":
            assert "Module.run.OptimizedModule.forward.0" in forward
        if compiled == "in place":
            assert "Module.inner.Inner.forward.0" in forward
        assert not dump.missing


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # on its way out, and still in use
def test_code_is_scripted_and_traced_as_without_the_debugger(collecting, dumped):
    def double(x):
        return torch.relu(x) * 2

    debugger, x = collecting(level="L1"), torch.ones(2)
    debugger.start()
    scripted, traced = torch.jit.script(double), torch.jit.trace(double, x)
    assert scripted(x).tolist() == traced(x).tolist() == [2.0, 2.0]
    debugger.stop()
    debugger.step()
    assert scripted.code == torch.jit.script(double).code


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_traced_graph_has_no_operation_of_ours(level, collecting, dumped):
    """Whoever traces the operations before they are dispatched: our looks at leaves would be part of the program."""
    net, x = nn.Sequential(nn.Linear(3, 2), nn.ReLU()), torch.linspace(-1, 1, 6).view(2, 3)

    def traced():
        program = torch.export.export(net, (x,))
        graph = make_fx(lambda x: net(x).sum(), pre_dispatch=True)(x)
        return program.graph_module.code, graph.code

    bare = traced()
    debugger = collecting(level=level)
    debugger.start(net)
    assert traced() == bare
    net(x).sum().backward()
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    assert not dump.missing
    expected = {"L0": "Module.0.Linear.forward.0", "L1": "Functional.linear.0.forward"}
    assert expected.get(level, "Module.0.Linear.forward.0") in dump.names, "what was not traced is recorded as ever"
