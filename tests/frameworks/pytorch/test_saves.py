"""`PrecisionDebugger.save` at level debug: values at once, gradients when they flow back."""

import pytest
import torch

from msprobe.pytorch import PrecisionDebugger

pytestmark = pytest.mark.torch


def test_values_and_the_gradients_of_all_their_users_are_saved(collecting, dumped):
    debugger = collecting(level="debug")
    leaf = torch.tensor([1.0, -2.0], requires_grad=True)
    y = leaf * 3
    debugger.save(leaf, "leaf")
    debugger.save({"y": [y, 4, "text"], "z": (y.detach(),)}, "nested")
    debugger.save(leaf, "leaf", save_backward=False)
    (y * 2 + y.sin() + leaf).sum().backward()
    debugger.step()
    data = dumped(debugger).data
    assert data["leaf.0.debug"]["Min"] == -2.0
    assert "leaf.1.debug" in data
    assert "leaf_grad.1.debug" not in data
    assert data["leaf_grad.0.debug"]["Max"] == leaf.grad.max().item()
    nested = data["nested.0.debug"]
    assert (nested["y"][0]["Max"], nested["y"][1], nested["y"][2]) == (
        *(3.0, {"type": "int", "value": 4}),
        {"type": "str", "value": "text"},
    )
    gradient = 2 + torch.cos(y.detach())
    assert data["nested_grad.0.debug"]["y"][0]["Max"] == gradient.max().item()
    assert data["nested_grad.0.debug"]["z"] == [None]


def test_saving_changes_no_bit(collecting):
    def train(debugger=None):
        torch.manual_seed(0)
        x = torch.randn(4, 4, requires_grad=True)
        h = torch.tanh(x @ x)
        if debugger is not None:
            debugger.save([x, h], "both")
        (h.exp() + h * h + h.sin()).sum().backward()
        if debugger is not None:
            debugger.step()
        return x.grad.tolist()

    assert train(collecting(level="debug")) == train()


def test_a_second_backward_has_no_second_gradient_and_nothing_stays_on_a_parameter(collecting, dumped):
    debugger = collecting(level="debug")
    w = torch.ones(2, requires_grad=True)
    debugger.save(w, "w")
    for _ in range(2):
        (w * 2).sum().backward()
    debugger.step()
    assert not w._backward_hooks
    assert [n for n in dumped(debugger).data] == ["w.0.debug", "w_grad.0.debug"]


def test_the_class_saves_by_the_debugger_that_was_constructed_last(collecting, dumped):
    debugger = collecting(level="debug", task="tensor")
    PrecisionDebugger.save(torch.ones(2, dtype=torch.bfloat16), "x")
    PrecisionDebugger.step()
    dump = dumped(debugger)
    assert dump.data["x.0.debug"]["dtype"] == "torch.bfloat16"
    assert (dump.folder / "dump_tensor_data" / dump.data["x.0.debug"]["data_name"]).exists()


def test_at_other_levels_nothing_is_saved(collecting):
    debugger = collecting(level="L1")
    debugger.save(torch.ones(1), "x")
    debugger.step()
    assert not debugger._settings.dump_path.joinpath("step0").exists()
