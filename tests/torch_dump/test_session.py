"""What a step's dump says: names, nesting, values, own contributions, places of calls."""

import dataclasses
import threading
import zlib
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.functional import relu as early_relu
from torch.utils.checkpoint import checkpoint

from msprobe.base import log
from msprobe.base.errors import SettingsError, UsageError
from msprobe.pytorch import PrecisionDebugger


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2, bias=False)

    def forward(self, x):
        return self.fc2(self.act(self.fc1(x)))


def step(debugger, net, *args, loss=lambda out: (out * 2).sum(), **kwargs):
    debugger.start(net)
    out = net(*args, **kwargs)
    if loss is not None:
        loss(out).backward()
    debugger.stop()
    debugger.step()
    return out


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


def test_records_hold_what_numpy_makes_of_the_tensors(collecting, dumped):
    debugger, net = collecting(level="mix"), Mlp()
    x = torch.linspace(-1, 2, 8).view(2, 4)
    out = step(debugger, net, x)
    data = dumped(debugger).data
    linear = data["Functional.linear.0.forward"]
    record = linear["input_args"][0]
    assert (record["type"], record["dtype"], record["shape"]) == ("torch.Tensor", "torch.float32", [2, 4])
    values = x.numpy().astype(np.float64)
    assert record["Max"] == values.max()
    assert record["Min"] == values.min()
    assert record["Mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert record["Norm"] == pytest.approx(np.linalg.norm(values), rel=1e-12)
    assert linear["input_args"][1]["from"] == "parameter fc1.weight"
    assert data["Functional.relu.0.forward"]["input_args"][0]["from"] == "call Functional.linear.0.forward.output.0"
    module = data["Module.fc2.Linear.forward.0"]
    assert set(module["parameters"]) == {"weight"}
    assert module["output"][0]["Max"] == out.max().item()
    grads = data["Module.fc1.Linear.parameters_grad"]
    assert grads["weight"][0]["Max"] == net.fc1.weight.grad.max().item()
    assert data["Functional.linear.1.backward"]["output"][1]["Min"] == net.fc2.weight.grad.min().item()


@pytest.mark.parametrize(
    ("dtype", "letter"),
    [
        *(("float32", "f4"), ("float64", "f8"), ("float16", "f2"), ("bfloat16", "f4"), ("int64", "i8"), ("int8", "i1")),
        *(("uint8", "u1"), ("bool", "?"), ("complex64", "c8"), ("float8_e5m2", "f4"), ("int16", "i2")),
    ],
)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
def test_every_dtype_and_layout_is_read(dtype, letter, layout, collecting, dumped):
    whole = torch.arange(12).view(3, 4).to(getattr(torch, dtype))
    tensor = {"contiguous": whole, "transposed": whole.t(), "sliced": whole[1:]}[layout]
    debugger = collecting(level="L1", task="tensor")
    debugger.start()
    torch.clone(tensor)
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    record = dump.data["Torch.clone.0.forward"]["input_args"][0]
    assert (record["dtype"], record["shape"]) == (f"torch.{dtype}", list(tensor.shape))
    expected = tensor.to(torch.float32).numpy() if letter == "f4" else tensor.numpy()
    saved = np.load(dump.folder / "dump_tensor_data" / record["data_name"])
    assert saved.dtype == np.dtype(letter)
    np.testing.assert_array_equal(saved, expected)
    if dtype not in ("bool", "complex64"):
        assert (record["Max"], record["Min"]) == (expected.max(), expected.min())


def test_views_with_lazy_signs_and_tensors_without_storage_are_not_read_as_they_lie(collecting, dumped):
    imaginary = torch.view_as_real(torch.ones(3, dtype=torch.complex64) * 1j).view(3, 2)
    negative = torch.complex(torch.zeros(3), torch.ones(3)).conj().imag  # minus one, by a bit on the view
    assert negative.is_neg()
    freed = torch.ones(8)[2:]
    freed.untyped_storage().resize_(0)
    debugger = collecting(level="L1")
    debugger.start()
    torch.add(imaginary, 0)
    torch.add(negative, 0)
    debugger.stop()
    step = debugger._collectors.session
    step.describer.tensor(freed, "call", "input.0")
    step.describer.tensor(torch.empty(3, device="meta"), "call", "input.1")
    debugger.step()
    dump = dumped(debugger)
    assert dump.data["Torch.add.1.forward"]["input_args"][0]["Max"] == -1.0
    assert [m["part"] for m in dump.missing if m["name"] == "call"] == ["input.0", "input.1"]


def test_a_call_contributes_its_own_part_to_a_gradient_of_several_users(collecting, dumped):
    debugger = collecting(level="L1")
    x = torch.full((2,), 3.0, requires_grad=True)
    debugger.start()
    y = torch.mul(x, 2)
    a, b = torch.mul(y, 5), torch.mul(y, 7)
    (a + b).sum().backward()
    debugger.stop()
    debugger.step()
    data = dumped(debugger).data
    assert data["Torch.mul.1.backward"]["output"][0]["Max"] == 5.0
    assert data["Torch.mul.2.backward"]["output"][0]["Max"] == 7.0
    assert data["Torch.mul.0.backward"]["input"][0]["Max"] == 12.0, "what came in is the sum"
    assert "gradient" not in data["Torch.mul.1.backward"]["output"][0]
    assert x.grad.tolist() == [24.0, 24.0]


def test_the_gradient_of_a_function_of_several_nodes_is_that_of_its_argument(collecting, dumped):
    """The softmax and the likelihood are two nodes: what leaves the function is the gradient of its logits."""
    debugger = collecting(level="L1")
    logits = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    debugger.start()
    F.cross_entropy(logits, torch.tensor([0])).backward()
    debugger.stop()
    debugger.step()
    record = dumped(debugger).data["Functional.cross_entropy.0.backward"]["output"][0]
    wanted = np.exp([1.0, 2, 3]) / np.exp([1.0, 2, 3]).sum() - [1, 0, 0]
    assert record["Min"] == pytest.approx(wanted.min(), rel=1e-6)
    assert record["Norm"] == pytest.approx(np.linalg.norm(wanted), rel=1e-6)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(2, 2, bias=False)

    def forward(self, x):
        return self.shared(self.shared(x))


def test_a_module_that_is_called_twice_has_two_numbers_and_a_part_of_its_weights_gradient_in_each(collecting, dumped):
    debugger, net = collecting(level="mix"), Twice()
    step(debugger, net, torch.ones(1, 2), loss=torch.sum)
    data = dumped(debugger).data
    parts = [data[f"Functional.linear.{i}.backward"]["output"][1]["Mean"] for i in (0, 1)]
    assert sum(parts) == pytest.approx(net.shared.weight.grad.double().mean().item(), rel=1e-6)
    assert data["Module.shared.Linear.parameters_grad"]["weight"][0]["Mean"] == pytest.approx(sum(parts), rel=1e-6)
    assert [n for n in data if n.startswith("Module.shared.Linear.backward")] == [
        *("Module.shared.Linear.backward.1", "Module.shared.Linear.backward.0")
    ]


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclasses.dataclass
class Made:
    value: torch.Tensor
    n: int


class Gives(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x, *, y=None):
        return self.make(x * 2)


class Outer(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.inner = Gives(make)

    def forward(self, x):
        return self.inner(x, y={"deep": [x]})


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda v: {"a": v, "n": 3}, {"a": "t", "n": "n"}),
        (lambda v: Pair(v, v.sin()), ["t", "t"]),
        (lambda v: [v, (v, None)], [["t", ["t", None]]]),
        (lambda v: Made(v, 3), [{"value": "t", "n": "n"}]),
        (lambda v: v, ["t"]),
    ],
)
def test_results_of_every_shape_are_recorded(make, shape, collecting, dumped):
    debugger = collecting(level="L0")
    step(debugger, Outer(make), torch.ones(2, requires_grad=True), loss=None)
    entry = dumped(debugger).data["Module.inner.Gives.forward.0"]

    def outline(value):
        if isinstance(value, list):
            return [outline(v) for v in value]
        if value is None or "type" not in value:
            return value and {k: outline(v) for k, v in value.items()}
        return "t" if value["type"] == "torch.Tensor" else "n"

    found = outline(entry["output"])
    assert found == ([shape] if isinstance(shape, dict) else shape) or found == [{"left": "t", "right": "t"}], (
        "a named tuple goes by its names"
    )
    assert outline(entry["input_kwargs"]) == {"y": {"deep": ["t"]}}


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
    places = [(torch, "relu"), (F, "linear"), (torch.Tensor, "__add__"), (nn.Module, "__call__"), (torch._VF, "lstm")]
    places += [(torch.autograd, "_make_grads"), (torch.distributed, "all_reduce"), (torch.distributed.Work, "wait")]
    before = [vars(owner).get(name) for owner, name in places]
    debugger, net = collecting(level="mix"), Mlp()
    debugger.start(net)
    assert all(vars(o).get(n) is not b for (o, n), b in zip(places, before, strict=True))
    debugger.stop()
    assert [vars(o).get(n) for o, n in places] == before
    debugger.step()
    assert not net.fc1._forward_hooks
    assert not net.fc1.weight._backward_hooks
    assert net.fc1.forward.__func__ is nn.Linear.forward


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


class Within(nn.Module):
    def __init__(self, fc, reentrant):
        super().__init__()
        self.held, self.reentrant = [fc], reentrant

    def forward(self, x):
        return checkpoint(lambda y: self.held[0](y).sin(), x, use_reentrant=self.reentrant)


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


def test_what_is_collected_follows_data_mode_list_scope_and_rank(collecting, dumped):
    def names(**section):
        debugger = collecting({"statistics": section}, level="mix")
        step(debugger, Mlp(), torch.ones(2, 4))
        return dumped(debugger).data

    assert all(".forward" in n for n in names(data_mode=["forward"]))
    backward = names(data_mode=["backward", "input"])
    assert all(set(e) == {"input"} for n, e in backward.items() if ".backward" in n)
    assert [n for n in names(list=["relu"]) if "relu" in n.lower()] == list(names(list=["relu"]))
    bounds = ["Module.act.ReLU.forward.0", "Module.act.ReLU.forward.0"]
    assert list(names(scope=bounds)) == ["Functional.relu.0.forward", "Module.act.ReLU.forward.0"]


def test_digests_files_and_names_alone_are_had_by_their_tasks(collecting, dumped):
    md5 = collecting({"statistics": {"summary_mode": "md5"}}, level="L0")
    step(md5, Mlp(), torch.ones(2, 4))
    digest = dumped(md5).data["Module.fc1.Linear.forward.0"]["input_args"][0]["md5"]
    assert digest == f"{zlib.crc32(np.ones((2, 4), np.float32)):08x}"
    structure = collecting(level="L0", task="structure")
    step(structure, Mlp(), torch.ones(2, 4))
    assert not (dumped(structure).folder / "dump_tensor_data").exists()
    assert "Module.fc1.Linear.forward.0" in dumped(structure).construct
    tensor = collecting(level="L0", task="tensor")
    net = Mlp()
    step(tensor, net, torch.ones(2, 4))
    folder = dumped(tensor).folder / "dump_tensor_data"
    np.testing.assert_array_equal(
        np.load(folder / "Module.fc1.Linear.parameters_grad.weight.npy"), net.fc1.weight.grad.numpy()
    )
    np.testing.assert_array_equal(
        np.load(folder / "Module.fc2.Linear.forward.0.parameters.weight.npy"), net.fc2.weight.detach().numpy()
    )


def test_every_operation_is_had_by_dispatch_as_aten(collecting, dumped):
    debugger = collecting({"dispatch": True}, level="mix")
    debugger.start(Mlp())
    x = torch.ones(2, 3, requires_grad=True)
    F.cross_entropy(x, torch.tensor([0, 1])).backward()
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    assert dump.construct["Aten._log_softmax.0.forward"] == "Functional.cross_entropy.0.forward"
    assert "Aten._log_softmax_backward_data.0.forward" in dump.data
    assert dump.construct["Aten._log_softmax_backward_data.0.forward"] is None


def test_what_this_framework_does_not_have_is_refused_at_construction(tmp_path):
    with pytest.raises(SettingsError, match='level: "L2" dumps the kernels of MindSpore'):
        PrecisionDebugger(dump_path=str(tmp_path), level="L2")
    config = tmp_path / "config.json"
    config.write_text(f'{{"dump_path": "{tmp_path}", "level": "mix", "jit_cells": "split"}}')
    with pytest.raises(SettingsError, match="jit_cells"):
        PrecisionDebugger(str(config))
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L0")
    with pytest.raises(UsageError, match=r"must be a torch\.nn\.Module"):
        debugger.start(3)
    with pytest.raises(UsageError, match="cannot be None"):
        debugger.start()
    PrecisionDebugger._known.clear()


def test_tokens_are_counted_by_the_runs_of_the_model(collecting, dumped):
    debugger, net = collecting(level="L0"), Mlp()
    debugger.start(net, token_range=[1, 2])
    for i in range(4):
        net(torch.full((1, 4), float(i)))
    debugger.stop()
    debugger.step()
    data = dumped(debugger).data
    assert [data[f"Module.fc1.Linear.forward.{i}"]["input_args"][0]["Max"] for i in (0, 1)] == [1.0, 2.0]
    assert "Module.fc1.Linear.forward.2" not in data
    assert data["Module.fc1.Linear.forward.1"]["at"] == {"micro_step": 2}


def test_registered_functions_are_collected_until_they_are_restored(collecting, dumped):
    class Own:
        @staticmethod
        def twice(x):
            return torch.mul(x, 2)

    debugger, x = collecting(level="L1"), torch.ones(1)
    debugger.register_custom_api(Own, "twice", "Mine")
    debugger.start()
    Own.twice(x)
    debugger.stop()
    debugger.step()
    debugger.restore_custom_api(Own, "twice")
    debugger.start()
    Own.twice(x)
    debugger.stop()
    debugger.step()
    assert list(dumped(debugger).data) == ["Mine.twice.0.forward"]
    assert list(dumped(debugger, 1).data) == ["Torch.mul.0.forward"]


def test_names_of_a_golden_dump_choose_the_functions(collecting, dumped):
    x = torch.ones(2, 2)

    def run(debugger):
        debugger.start()
        F.normalize(x)
        debugger.stop()
        debugger.step()
        return list(dumped(debugger).data)

    golden = collecting(level="L1")
    golden.start()
    x.norm(2, 1)
    golden.stop()
    golden.step()
    assert run(collecting(level="L1")) == ["Functional.normalize.0.forward"]
    assert run(collecting({"names_from": str(golden._settings.dump_path)}, level="L1")) == ["Tensor.norm.0.forward"]


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


def test_the_condition_number_of_a_matrix_is_recorded(collecting, dumped):
    debugger, matrix = collecting(level="L1"), torch.diag(torch.tensor([4.0, 2.0]))
    debugger.start()
    torch.linalg.cond(matrix)
    debugger.stop()
    debugger.step()
    (name,) = dumped(debugger).data
    assert name == "Torch.cond.0.forward"
    assert dumped(debugger).data[name]["output"][0]["Max"] == 2.0


def test_a_model_that_holds_nothing_is_told_once_that_its_dump_is_empty(collecting, monkeypatch, capsys):
    monkeypatch.setattr(log, "_said", set())
    debugger, x = collecting(level="L0"), torch.ones(2, 3)
    for model in (nn.Linear(3, 2), nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 2))):
        debugger.start(model)
        model(x)
        debugger.stop()
        debugger.step()
    said = capsys.readouterr().err
    assert said.count("the dump will be empty") == 1
    assert "Linear holds nothing" in said


@pytest.mark.parametrize("level", ["mix", "L1"])
def test_at_other_levels_such_a_model_has_its_functions(level, collecting, monkeypatch, capsys):
    monkeypatch.setattr(log, "_said", set())
    debugger, model = collecting(level=level), nn.Linear(3, 2)
    debugger.start(model)
    model(torch.ones(2, 3))
    debugger.stop()
    assert "the dump will be empty" not in capsys.readouterr().err
