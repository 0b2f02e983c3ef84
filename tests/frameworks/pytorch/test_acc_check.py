"""Task `acc_check` in trainings with PyTorch."""

import csv
import warnings

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 48).reshape(6, 8)


class Layer(nn.Module):
    """A layer that is recomputed, whose activation works in place."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(8, 8)

    def inner(self, x):
        return nn.functional.leaky_relu(self.fc(x), 0.5, inplace=True)

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False)


@pytest.fixture
def wrong_gradient():
    """Gradients of torch.sin that are four times too large, but in float64."""
    with warnings.catch_warnings(), torch.library._scoped_library("aten", "IMPL") as library:
        warnings.simplefilter("ignore")  # a kernel is replaced, and not by chance
        library.impl("cos", lambda x: torch.sin(x + torch.pi / 2) * (1 if x.dtype == torch.float64 else 4), "CPU")
        yield


def train(debugger, steps=3):
    """The bits of all losses, gradients and parameters, and of the generator."""
    torch.manual_seed(1)
    net = nn.Sequential(Layer(), Layer())
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    found = []
    for _ in range(steps):
        if debugger is not None:
            debugger.start(net)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = torch.sin(net(X)).square().mean()
        loss.backward()
        if debugger is not None:
            debugger.stop()
            debugger.step()
        found += [t.detach().clone() for t in (loss, *net.parameters(), *(p.grad for p in net.parameters()))]
        optimizer.step()
        optimizer.zero_grad()
    return [*found, torch.get_rng_state()]


def rows(debugger, kind="result"):
    [file] = debugger._settings.dump_path.glob(f"accuracy_checking_{kind}_rank_*.csv")
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def checking(collecting):
    return lambda **section: collecting({"task": "acc_check", "acc_check": section}, level="L1")


def test_a_recomputed_training_in_mixed_precision_is_checked_and_stays_the_same(checking):
    bare, threads = train(None), torch.get_num_threads()
    debugger = checking(budget_ms=1e6)
    found = train(debugger)
    assert all(torch.equal(one, other) for one, other in zip(bare, found, strict=True))
    assert torch.get_num_threads() == threads
    checked = {row["API Name"].rpartition(".")[0]: row for row in rows(debugger)}
    for name in ("Functional.linear", "Torch.sin", "Tensor.square", "Tensor.mean"):
        assert checked[name]["Forward Test Success"] == "pass", checked[name]
    assert "error" not in {row[key] for row in rows(debugger) for key in row if key.endswith("Success")}
    assert {row["Tested Dtype"] for row in rows(debugger, "details")} >= {"bfloat16", "float32"}


@pytest.mark.usefixtures("wrong_gradient")
def test_a_wrong_gradient_is_found_while_the_backward_runs(checking, caplog):
    debugger = checking(budget_ms=1e6)
    train(debugger, steps=1)
    [said] = [r.getMessage() for r in caplog.records if "acc_check: Torch.sin" in r.getMessage()]
    assert said.startswith("acc_check: Torch.sin.0.backward.output.0: ")
    assert f"({__file__}:" in said
    [row] = [row for row in rows(debugger) if row["API Name"] == "Torch.sin.0"]
    assert (row["Forward Test Success"], row["Backward Test Success"]) == ("pass", "error")


def test_what_holds_is_let_go(checking):
    import gc
    import weakref

    debugger = checking(budget_ms=1e6)
    debugger.start(nn.ReLU())
    x = torch.ones(3, requires_grad=True)
    y = torch.sin(x)
    watched = weakref.ref(y)
    del y
    gc.collect()
    assert watched() is None
    debugger.stop()
    debugger.step()
