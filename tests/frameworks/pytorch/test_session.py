"""What a step's dump says of calls: which, in what order, under which names, in what nesting, from which place."""

import threading
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from small_model import Mlp, step  # beside this file, which is no package
from torch import nn
from torch.nn.functional import relu as early_relu
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.torch

MODULES = ["Module.fc1.Linear", "Module.act.ReLU", "Module.fc2.Linear"]
FORWARD = {
    "L0": [f"{m}.forward.0" for m in MODULES],
    "L1": [
        *("Functional.linear.0.forward", "Functional.relu.0.forward", "Functional.linear.1.forward"),
        *("Tensor.__mul__.0.forward", "Tensor.sum.0.forward"),
    ],
}
BACKWARD = {
    "L0": [f"{m}.backward.0" for m in reversed(MODULES)],
    "L1": [name.replace("forward", "backward") for name in reversed(FORWARD["L1"])],
}
FORWARD["mix"] = [
    *("Functional.linear.0.forward", "Module.fc1.Linear.forward.0"),
    *("Functional.relu.0.forward", "Module.act.ReLU.forward.0"),
    *("Functional.linear.1.forward", "Module.fc2.Linear.forward.0", *FORWARD["L1"][3:]),
]
BACKWARD["mix"] = [
    *(*BACKWARD["L1"][:2], "Functional.linear.1.backward", "Module.fc2.Linear.backward.0"),
    *("Functional.relu.0.backward", "Module.act.ReLU.backward.0"),
    *("Functional.linear.0.backward", "Module.fc1.Linear.backward.0"),
]


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_calls_stand_in_the_order_in_which_they_end(level, collecting, dumped):
    debugger = collecting(level=level)
    step(debugger, Mlp(), torch.ones(2, 4))
    dump = dumped(debugger)
    names = [n for n in dump.data if "parameters_grad" not in n]
    assert names == FORWARD[level] + BACKWARD[level]
    assert list(dump.construct) == ([] if level == "L1" else names)
    grads = {n: set(e) for n, e in dump.data.items() if "parameters_grad" in n}
    assert grads == (
        {}
        if level == "L1"
        else {"Module.fc1.Linear.parameters_grad": {"weight", "bias"}, "Module.fc2.Linear.parameters_grad": {"weight"}}
    )
    if level == "mix":
        assert dump.construct["Functional.linear.0.forward"] == "Module.fc1.Linear.forward.0"
        assert dump.construct["Functional.linear.0.backward"] == "Module.fc1.Linear.backward.0"
        assert dump.construct["Tensor.sum.0.forward"] is None
    assert (dump.dump["framework"], dump.dump["level"]) == ("pytorch", level)
    assert dump.dump["run"]["framework"] == f"pytorch {torch.__version__}"


class Raises(nn.Module):
    def forward(self, x):
        torch.exp(x)
        raise ValueError("no such thing")


def test_a_call_that_raises_has_its_inputs_and_says_why(collecting, dumped):
    debugger, net = collecting(level="mix"), nn.ModuleDict({"bad": Raises()})
    debugger.start(net)
    with pytest.raises(ValueError, match="no such thing"):
        net["bad"](torch.full((2,), 7.0))
    torch.relu(torch.ones(1))
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    entry = dump.data["Module.bad.Raises.forward.0"]
    assert entry["input_args"][0]["Max"] == 7.0
    assert entry["missing"] == ["output"]
    assert dump.construct["Torch.relu.0.forward"] is None


def test_operators_methods_and_functions_have_the_names_by_which_they_are_called(collecting, dumped):
    x, w, state = torch.ones(2, 1, 4), torch.ones(3, 1, 2), torch.ones(2, 2)
    debugger = collecting(level="L1")
    debugger.start()
    y = x + 1
    y += 2
    (3 - y) @ y.transpose(1, 2)
    x[0] = 5.0
    x[:, 0]
    y.add(1), torch.add(y, 1), torch.conv1d(x, w), F.conv1d(x, w), torch.linalg.norm(x), torch.fft.rfft(x)
    early_relu(x)
    partial(F.softmax, dim=-1)(x)
    torch._VF.rnn_tanh_cell(state, state, state, state)
    y.shape, y.item, y.numpy(), y.size(), torch.is_tensor(y), y.data_ptr(), y.requires_grad_(False)
    debugger.stop()
    debugger.step()
    assert [n.removesuffix(".forward") for n in dumped(debugger).data] == [
        *("Tensor.__add__.0", "Tensor.__iadd__.0", "Tensor.__rsub__.0", "Tensor.transpose.0", "Tensor.__matmul__.0"),
        *("Tensor.__setitem__.0", "Tensor.__getitem__.0", "Tensor.add.0", "Torch.add.0", "Torch.conv1d.0"),
        *("Functional.conv1d.0", "Torch.norm.0", "Torch.rfft.0", "Functional.relu.0", "Functional.softmax.0"),
        "VF.rnn_tanh_cell.0",
    ]


def test_functions_that_a_model_or_a_user_holds_are_seen(collecting, dumped):
    class Holding(nn.Module):
        def __init__(self):
            super().__init__()
            self.activate, self.more, self.inner = F.gelu, [torch.tanh], nn.TransformerEncoderLayer(4, 1, 4)

        def forward(self, x):
            return self.more[0](self.activate(x))

    debugger = collecting(level="L1")
    step(debugger, Holding(), torch.ones(2), loss=None)
    assert list(dumped(debugger).data) == ["Functional.gelu.0.forward", "Torch.tanh.0.forward"]


def test_nothing_of_ours_is_left_when_a_collection_is_shut(collecting):
    places = [(torch.Tensor, "__getitem__"), (torch.Tensor, "__neg__"), (nn.Module, "__call__")]
    places += [(torch.autograd, "_make_grads"), (torch.distributed.Work, "wait")]
    before = [vars(owner).get(name) for owner, name in places]
    codes = [F.relu.__code__, torch.distributed.all_reduce.__code__, torch.Tensor.norm.__code__]
    debugger, net = collecting(level="mix"), Mlp()
    debugger.start(net)
    assert all(vars(o).get(n) is not b for (o, n), b in zip(places, before, strict=True))
    assert F.relu.__code__ is not codes[0]
    debugger.stop()
    assert [vars(o).get(n) for o, n in places] == before
    assert [F.relu.__code__, torch.distributed.all_reduce.__code__, torch.Tensor.norm.__code__] == codes
    debugger.step()
    assert not net.fc1._forward_hooks
    assert not net.fc1.weight._backward_hooks
    assert net.fc1.forward.__func__ is nn.Linear.forward


class Within(nn.Module):
    def __init__(self, fc, reentrant):
        super().__init__()
        self.held, self.reentrant = [fc], reentrant

    def forward(self, x):
        return checkpoint(lambda y: self.held[0](y).sin(), x, use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_recomputation_is_marked_and_stands_where_the_first_run_stood(reentrant, collecting, dumped):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.ModuleDict({"fc": nn.Linear(3, 3)})
            self.outer = Within(self.block["fc"], reentrant)

        def forward(self, x):
            return self.outer(x)

    debugger = collecting(level="mix")
    step(debugger, Net(), torch.ones(2, 3, requires_grad=True))
    dump = dumped(debugger)
    first, second = (dump.data[f"Module.block.fc.Linear.forward.{i}"] for i in (0, 1))
    assert "is_recompute" not in first
    assert second["is_recompute"] is True
    assert first["output"][0]["Norm"] == second["output"][0]["Norm"]
    assert dump.construct["Module.block.fc.Linear.forward.1"] == "Module.outer.Within.forward.0"
    assert dump.data["Functional.linear.1.forward"]["is_recompute"] is True
    assert "is_recompute" not in dump.data["Tensor.sum.0.forward"]
    assert not dump.missing


def test_stacks_name_the_users_line_and_no_frame_of_msprobe(collecting, dumped):
    debugger, net = collecting(level="mix"), Mlp()
    step(debugger, net, torch.ones(1, 4))
    for name in ("Module.fc1.Linear.forward.0", "Functional.linear.0.forward"):
        frames = dumped(debugger).stack(name)
        assert not any("msprobe" in f.split(", in ")[0] and "cell_dump/session" in f for f in frames)
        assert any("return self.fc2(self.act(self.fc1(x)))" in f for f in frames)


def test_other_threads_are_not_recorded(collecting, dumped):
    debugger, x = collecting(level="L1"), torch.ones(1)
    debugger.start()
    thread = threading.Thread(target=lambda: torch.exp(x))
    thread.start()
    thread.join()
    torch.relu(x)
    debugger.stop()
    debugger.step()
    assert list(dumped(debugger).data) == ["Torch.relu.0.forward"]


def test_a_model_that_refers_to_functions_can_be_saved_while_it_is_recorded(collecting, tmp_path):
    acts = [F.gelu, torch.relu, torch.linalg.norm, early_relu]
    held = nn.Linear(2, 2)
    held.acts = list(acts)
    debugger = collecting(level="mix")
    debugger.start(held)
    torch.save(held, tmp_path / "model.pt")
    debugger.stop()
    debugger.step()
    assert [a is b for a, b in zip(held.acts, acts, strict=True)] == [True] * 4
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    assert loaded.acts == acts
