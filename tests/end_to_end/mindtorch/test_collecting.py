"""A training in PyTorch's API on MindSpore is collected as PyTorch's would be."""

import json

import numpy as np
import pytest

REASON = "MSAdapter, which takes the place of torch, is not installed; `make mindtorch` runs this"
msadapter = pytest.importorskip("msadapter", reason=REASON)

import mindspore as ms  # noqa: E402
import small_net  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from msprobe.base.errors import SettingsError, UsageError  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.mindtorch]


@pytest.fixture(scope="module")
def undisturbed():
    return small_net.train(small_net.filled())


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_every_bit_of_the_training_stays(collecting, undisturbed, level, task):
    assert small_net.train(small_net.filled(), collecting(level=level, task=task)) == undisturbed


def test_calls_have_the_names_that_pytorch_gives_them(collecting, dumped, pytorch_dump):
    debugger = collecting()
    small_net.train(small_net.filled(), debugger)
    for step in range(2):
        theirs = json.loads((pytorch_dump / f"step{step}" / "rank" / "dump.json").read_text())["data"]
        ours = dumped(debugger, step)
        assert set(ours.names) == set(theirs)
        forward = [name for name in theirs if ".forward" in name]
        assert [name for name in ours.names if ".forward" in name] == forward
        assert len(forward) > 40


def test_the_dump_says_whose_api_and_whose_tensors_they_are(collecting, dumped):
    debugger = collecting(level="L0")
    small_net.train(small_net.filled(), debugger, steps=1)
    found = dumped(debugger)
    assert found.dump["framework"] == "mindtorch"
    assert found.dump["run"]["framework"] == f"mindtorch {torch.__version__} on mindspore {ms.__version__}"
    head = found.data["Module.head.Linear.forward.0"]
    assert head["input_args"][0]["type"] == "mindspore.Tensor"
    assert head["input_args"][0]["dtype"] == "Float32"
    assert list(head["parameters"]) == ["weight", "bias"]


def test_a_level_has_its_kinds_of_calls(collecting, dumped):
    prefixes = {}
    for level in ("L0", "L1", "mix"):
        debugger = collecting(level=level)
        small_net.train(small_net.filled(), debugger, steps=1)
        prefixes[level] = {name.partition(".")[0] for name in dumped(debugger).names}
    assert prefixes == {
        "L0": {"Module"},
        "L1": {"Functional", "Tensor", "Torch"},
        "mix": {"Functional", "Module", "Tensor", "Torch"},
    }


def test_values_and_gradients_are_those_of_the_formula(collecting, dumped):
    layer = nn.Linear(3, 2)
    weight, x = layer.weight.numpy().copy(), np.arange(12, dtype=np.float32).reshape(4, 3)
    debugger = collecting(task="tensor")
    model = nn.Sequential(layer)
    debugger.start(model)
    model(torch.tensor(x)).sum().backward()
    debugger.stop()
    debugger.step()
    found = dumped(debugger)

    def saved(name):
        return np.load(found.folder / "dump_tensor_data" / f"{name}.npy")

    expected = x.astype(np.float64) @ weight.T.astype(np.float64) + layer.bias.numpy()
    np.testing.assert_allclose(saved("Module.0.Linear.forward.0.output.0"), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(saved("Module.0.Linear.backward.0.input.0"), np.ones((4, 2)))
    np.testing.assert_allclose(saved("Module.0.Linear.parameters_grad.weight"), [x.sum(0)] * 2)
    np.testing.assert_array_equal(saved("Module.0.Linear.parameters_grad.bias"), [4, 4])


def test_a_backward_has_the_own_contribution_of_its_call(collecting, dumped):
    """A tensor that two layers use gets the sum of their gradients; each layer's record has its own."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(3, 2, bias=False), nn.Linear(3, 2, bias=False)

        def forward(self, x):
            return self.left(x) + self.right(x)

    model, debugger = Both(), collecting(level="L0", task="tensor")
    x = torch.ones(1, 3)
    x.requires_grad = True
    debugger.start(model)
    model(x).sum().backward()
    debugger.stop()
    debugger.step()
    folder = dumped(debugger).folder / "dump_tensor_data"
    parts = [np.load(folder / f"Module.{name}.Linear.backward.0.output.0.npy") for name in ("left", "right")]
    for part, layer in zip(parts, (model.left, model.right), strict=True):
        np.testing.assert_allclose(part[0], layer.weight.numpy().sum(0), rtol=1e-6)
    np.testing.assert_allclose(sum(parts), x.grad.numpy(), rtol=1e-6)


def test_nothing_of_ours_stays_in_the_framework(collecting):
    held, shown = vars(msadapter), vars(torch)
    before = dict(held), dict(shown), dict(vars(msadapter.nn.functional)), dict(vars(ms.Tensor))
    debugger = collecting()
    codes = [torch.cumsum.__code__, F.gelu.__code__]
    debugger.start(small_net.filled())
    assert torch.cumsum is before[0]["cumsum"]
    assert torch.cumsum.__code__ is not codes[0]
    debugger.stop()
    debugger.step()
    assert [torch.cumsum.__code__, F.gelu.__code__] == codes
    assert (dict(held), dict(shown), dict(vars(msadapter.nn.functional)), dict(vars(ms.Tensor))) == before
    assert torch.cumsum is held["cumsum"]
    assert F.gelu is small_net.gelu is vars(msadapter.nn.functional)["gelu"]


def test_setting_an_item_is_recorded_with_what_it_made(collecting, dumped):
    debugger = collecting(level="L1")
    x = torch.ones(4, 3)
    debugger.start()
    x[0] = 2.0
    debugger.stop()
    debugger.step()
    ((name, call),) = dumped(debugger).data.items()
    assert name == "Tensor.__setitem__.0.forward"
    assert (call["input_args"][0]["Max"], call["output"][0]["Max"]) == (1.0, 2.0)


def test_functions_of_the_device_library_have_a_prefix_of_their_own(collecting, dumped):
    import torch_npu

    debugger = collecting(level="L1")
    x = torch.ones(2)
    debugger.start()
    torch_npu.fast_gelu(x)
    debugger.stop()
    debugger.step()
    assert dumped(debugger).names == ["NPU.fast_gelu.0.forward"]


def test_several_models_are_numbered(collecting, dumped):
    models = [nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.ReLU())]
    debugger = collecting(level="L0")
    debugger.start(models)
    models[1](models[0](torch.ones(1, 2)))
    debugger.stop()
    debugger.step()
    assert dumped(debugger).names == ["Module.0.0.Linear.forward.0", "Module.1.0.ReLU.forward.0"]


def test_saving_by_hand_brings_value_and_gradient(collecting, dumped):
    debugger, layer = collecting(level="debug"), nn.Linear(3, 2)
    y = layer(torch.ones(4, 3))
    debugger.save(y, "y")
    (y * 3.0).sum().backward()
    debugger.step()
    found = dumped(debugger)
    assert found.dump["framework"] == "mindtorch"
    assert found.data["y.0.debug"]["shape"] == [4, 2]
    assert [found.data["y_grad.0.debug"][key] for key in ("Max", "Min")] == [3.0, 3.0]


def test_the_layers_own_hooks_can_be_asked_for(collecting, dumped):
    debugger = collecting({"gradients": "hooks"}, level="L0")
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    debugger.start(model)
    model(torch.ones(4, 3)).sum().backward()
    debugger.stop()
    debugger.step()
    gradient = dumped(debugger).data["Module.1.Linear.backward.0"]["output"][0]
    np.testing.assert_allclose(gradient["Max"], model[1].weight.numpy().sum(0).max(), rtol=1e-6)


def test_of_a_golden_dump_of_pytorch_only_its_functions_are_collected(collecting, dumped, tmp_path):
    golden = tmp_path / "golden" / "dump.json"
    golden.parent.mkdir()
    call = {"input_args": [], "input_kwargs": {}, "output": []}
    golden.write_text(
        json.dumps(
            {
                "task": "statistics",
                "level": "L1",
                "framework": "pytorch",
                "dump_data_dir": None,
                "data": {"Torch.softmax.0.forward": call},
            }
        )
    )
    debugger = collecting({"names_from": str(golden)}, level="L1")
    small_net.train(small_net.filled(), debugger, steps=1)
    assert {name.rpartition(".")[0] for name in dumped(debugger).names} == {"Torch.softmax.0", "Torch.softmax.1"}


class Cells(ms.nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = ms.nn.Dense(2, 2)

    def construct(self, x):
        return self.fc(x)


def test_a_model_of_cells_is_collected_as_mindspores(collecting, dumped, caplog):
    debugger, net = collecting(level="L0"), Cells()
    debugger.start(net)
    net(ms.Tensor([[1.0, 2.0]]))
    debugger.stop()
    debugger.start(nn.Linear(2, 2))
    assert "must be a mindspore.nn.Cell" in caplog.text
    debugger.step()
    assert dumped(debugger).names == ["Cell.fc.Dense.forward.0"]
    assert dumped(debugger).dump["framework"] == "mindspore"


def test_what_cannot_be_collected_is_refused(collecting):
    with pytest.raises(UsageError, match=r"must be a torch\.nn\.Module"):
        collecting().start(3)
    with pytest.raises(SettingsError, match="jit_cells"):
        collecting({"jit_cells": "split"}, level="L0").start(nn.Linear(2, 2))
    graphs = collecting(level="L0")
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(UsageError, match="PYNATIVE_MODE"):
        graphs.start(nn.Linear(2, 2))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    graphs.start(nn.Linear(2, 2))


def test_a_seed_is_the_layers_too(monkeypatch):
    from msprobe.mindspore import seed_all

    monkeypatch.setenv("PYTHONHASHSEED", "0")
    seed_all(5, rm_dropout=False)
    first = torch.rand(4).numpy()
    seed_all(5, rm_dropout=False)
    np.testing.assert_array_equal(torch.rand(4).numpy(), first)


def test_functions_are_the_same_objects_while_they_are_recorded(collecting, dumped):
    """Also by the names of the module that users import, and by references that were made before."""
    acts, x = {F.gelu: 1, F.relu: 2}, torch.ones(2, 3)
    held, act, debugger = (F.relu, torch.cat, torch.Tensor.sum), F.gelu, collecting(level="L1")
    debugger.start()
    same = (F.relu, torch.cat, torch.Tensor.sum) == held, acts.get(F.gelu), act is F.gelu, F.relu in held
    act(x), held[0](x), held[1]([x, x]), held[2](x)
    debugger.stop()
    debugger.step()
    assert same == (True, 1, True, True)
    names = [name for name in dumped(debugger).data if name.endswith(".forward")]
    assert [name.split(".")[1] for name in names] == ["gelu", "relu", "cat", "sum"]
