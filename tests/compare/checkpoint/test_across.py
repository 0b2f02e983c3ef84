"""A net of MindSpore against its original in PyTorch: names and layouts of the layers answer to each other."""

import mindspore as ms
import numpy as np
import pytest
import torch
from mindspore import Tensor, nn
from safetensors.torch import save_file

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.conv = nn.Conv1d(4, 5, 3, has_bias=True)
        self.stem = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.layers = nn.CellList([nn.SequentialCell(nn.Dense(4, 6), nn.LayerNorm((6,))) for _ in range(2)])
        self.lstm = nn.LSTM(4, 3)


class Wrapped(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.backbone = net


class Original(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(7, 4)
        self.conv = torch.nn.Conv1d(4, 5, 3)
        self.stem = torch.nn.Conv2d(3, 4, 3, bias=False)
        self.norm = torch.nn.BatchNorm2d(4)
        self.layers = torch.nn.ModuleList(
            [torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.LayerNorm(6)) for _ in range(2)]
        )
        self.lstm = torch.nn.LSTM(4, 3)


PAIRS = {
    "embed.embedding_table": "embed.weight",
    "conv.weight": "conv.weight",
    "conv.bias": "conv.bias",
    "stem.weight": "stem.weight",
    "norm.gamma": "norm.weight",
    "norm.beta": "norm.bias",
    "norm.moving_mean": "norm.running_mean",
    "norm.moving_variance": "norm.running_var",
    **{f"layers.{n}.0.{own}": f"layers.{n}.0.{own}" for n in range(2) for own in ("weight", "bias")},
    **{
        f"layers.{n}.1.{own}": f"layers.{n}.1.{pt}"
        for n in range(2)
        for own, pt in (("gamma", "weight"), ("beta", "bias"))
    },
    **{f"lstm.{name}_l0": f"lstm.{name}_l0" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")},
}
"""Written by hand: what each parameter of `Net` is called in `Original`."""


@pytest.fixture
def original():
    torch.manual_seed(5)
    net = Original()
    with torch.no_grad():
        for tensor in (*net.parameters(), net.norm.running_mean, net.norm.running_var):
            tensor.copy_(torch.rand_like(tensor))
    return net


@pytest.fixture
def net(original):
    """The same weights in MindSpore."""
    made, weights = Net(), original.state_dict()
    held = {parameter.name: parameter for parameter in made.get_parameters()}
    names = {name.removeprefix("rnn.").replace(".rnn.", "."): name for name in held}
    assert set(names) == set(PAIRS)
    for name, theirs in PAIRS.items():
        values = weights[theirs].numpy()
        held[names[name]].set_data(Tensor(values[:, :, None] if name == "conv.weight" else values))
    return made


def saved(net, path):
    ms.save_checkpoint(net, str(path))
    return path


def test_equal_weights_pass_under_the_names_of_both_frameworks(net, original, tmp_path, compare):
    torch.save(original.state_dict(), tmp_path / "b.pt")
    code, entries, output = compare(saved(net, tmp_path / "a.ckpt"), tmp_path / "b.pt")
    assert code == 0, output
    assert {name: entry.get("golden", name) for name, entry in entries.items()} == PAIRS
    assert entries["conv.weight"]["shape"] == [5, 4, 3]
    assert "transform" in entries["conv.weight"]
    assert "the other framework does not have them: 1 (norm.num_batches_tracked)" in output


def test_the_other_way_round_the_layout_is_changed_on_the_other_side(net, original, tmp_path, compare):
    save_file(original.state_dict(), tmp_path / "b.safetensors", {"format": "pt"})
    code, entries, output = compare(tmp_path / "b.safetensors", saved(net, tmp_path / "a.ckpt"))
    assert code == 0, output
    assert {entry.get("golden", name): name for name, entry in entries.items()} == PAIRS
    assert entries["conv.weight"]["shape"] == [5, 4, 3]
    assert "golden_transform" in entries["conv.weight"]


def test_wrong_weights_are_named_worst_first(net, original, tmp_path, compare):
    net.norm.gamma.set_data(net.norm.gamma + 1)
    net.embed.embedding_table[0, 0] += 0.0001
    torch.save({"model": original.state_dict(), "optimizer": {}, "epoch": 3}, tmp_path / "b.pt")
    code, entries, output = compare(saved(net, tmp_path / "a.ckpt"), tmp_path / "b.pt")
    assert code == 1
    assert {name for name, entry in entries.items() if entry["verdict"] == "error"} == {
        "norm.gamma",
        "embed.embedding_table",
    }
    assert entries["norm.gamma"]["l2"] == pytest.approx(2.0), "the root of four ones"
    lines = output.splitlines()
    assert lines[1].startswith("error: norm.gamma: l2 2, cos ")
    assert lines[2].startswith("error: embed.embedding_table: l2 0.0001")


def test_what_stands_before_every_name_does_not_count(net, original, tmp_path, compare):
    torch.save(torch.nn.ModuleDict({"model": original}).state_dict(), tmp_path / "b.pt")
    code, entries, output = compare(saved(Wrapped(net), tmp_path / "a.ckpt"), tmp_path / "b.pt")
    assert code == 0, output
    assert entries["backbone.norm.gamma"]["golden"] == "model.norm.weight"


def test_the_optimizers_state_of_mindspore_is_left_out_and_told(net, original, tmp_path, compare):
    train = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 0.1))
    torch.save(original.state_dict(), tmp_path / "b.pt")
    code, entries, output = compare(saved(train, tmp_path / "a.ckpt"), tmp_path / "b.pt")
    assert code == 0, output
    assert set(entries) == set(PAIRS)
    assert "moment1." in output


def test_a_parameter_on_one_side_is_reported(net, original, tmp_path, compare):
    weights = original.state_dict() | {"head.weight": torch.ones(2, 3)}
    del weights["stem.weight"]
    torch.save(weights, tmp_path / "b.pt")
    code, entries, output = compare(saved(net, tmp_path / "a.ckpt"), tmp_path / "b.pt")
    assert code == 1
    assert "on the target side only 1 (stem.weight); on the golden side only 1 (head.weight)" in output
    assert entries["stem.weight"]["verdict"] == entries["head.weight"]["verdict"] == "unjudged"
    assert entries["stem.weight"]["shape"] == [[4, 3, 3, 3], None]
    assert entries["head.weight"]["numel"] == [None, 6]


def test_a_transposed_weight_is_told_and_passes_where_it_is_declared(tmp_path, compare):
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    ms.save_checkpoint([{"name": "fc.weight", "data": Tensor(weight.T.copy())}], str(tmp_path / "a.ckpt"))
    torch.save({"fc.weight": torch.from_numpy(weight)}, tmp_path / "b.pt")
    code, entries, output = compare(tmp_path / "a.ckpt", tmp_path / "b.pt")
    assert code == 1
    assert "within the standard after transpose(1, 0)" in output
    assert entries["fc.weight"]["shape"] == [[3, 2], [2, 3]]
    assert entries["fc.weight"]["l2"] is None
    (tmp_path / "map.yaml").write_text('fc.weight: {to: fc.weight, transform: "transpose(1, 0)"}\n')
    code, entries, output = compare(tmp_path / "a.ckpt", tmp_path / "b.pt", "-dm", tmp_path / "map.yaml")
    assert code == 0, output
    assert entries["fc.weight"]["transform"] == "transpose(1, 0)"


def test_rules_of_the_user_name_parameters_paths_and_parts_of_fused_weights(tmp_path, compare):
    rng = np.random.default_rng(1)
    fused, out = rng.random((6, 2), np.float32), rng.random((2, 2), np.float32)
    held = dict(zip("qkv", np.split(fused, 3), strict=True))
    named = [{"name": f"cells.0.{part}.weight", "data": Tensor(array)} for part, array in held.items()]
    ms.save_checkpoint([*named, {"name": "cells.0.out.weight", "data": Tensor(out)}], str(tmp_path / "a.ckpt"))
    torch.save({"h.0.qkv.weight": torch.from_numpy(fused), "h.0.proj.weight": torch.from_numpy(out)}, tmp_path / "b.pt")
    rules = [
        f'cells.0.{part}.weight: {{to: h.0.qkv.weight, transform: "split(0, {at}, 3)"}}'
        for at, part in enumerate("qkv")
    ]
    (tmp_path / "map.yaml").write_text("\n".join([*rules, "cells.0.out: h.0.proj"]))
    code, entries, output = compare(tmp_path / "a.ckpt", tmp_path / "b.pt", "-dm", tmp_path / "map.yaml")
    assert code == 0, output
    assert entries["cells.0.k.weight"]["golden_transform"] == "split(0, 1, 3)"
    assert entries["cells.0.out.weight"]["golden"] == "h.0.proj.weight"
    (tmp_path / "map.yaml").write_text("cells.0.out: h.1.proj\n")
    code, _, output = compare(tmp_path / "a.ckpt", tmp_path / "b.pt", "-dm", tmp_path / "map.yaml")
    assert code == 2
    assert "has no parameter h.1.proj, which is in the data mapping" in output


def test_a_model_saved_as_bfloat16_is_held_to_the_standard_of_bfloat16(tmp_path, compare):
    weight = torch.linspace(1, 2, 64)
    ms.save_checkpoint([{"name": "w", "data": Tensor(weight.numpy())}], str(tmp_path / "a.ckpt"))
    save_file({"w": weight.bfloat16()}, tmp_path / "b.safetensors", {"format": "pt"})
    code, entries, output = compare(tmp_path / "a.ckpt", tmp_path / "b.safetensors")
    assert code == 0, output
    assert entries["w"]["dtype"] == ["float32", "bfloat16"]
    assert entries["w"]["l2"] > 0


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.other = torch.nn.Embedding(7, 4), torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.words.weight


@pytest.mark.parametrize("name", ["words", "vocabulary"])
def test_shared_weights_stand_under_one_name_in_mindspore(name, tmp_path, compare):
    torch.manual_seed(3)
    original = Tied()
    torch.save(original.state_dict(), tmp_path / "b.pt")  # words.weight, other.weight, head.weight
    held = {f"{name}.embedding_table": original.words, "other.embedding_table": original.other}
    parameters = [{"name": n, "data": Tensor(layer.weight.detach().numpy())} for n, layer in held.items()]
    ms.save_checkpoint(parameters, str(tmp_path / "a.ckpt"))
    code, entries, output = compare(tmp_path / "a.ckpt", tmp_path / "b.pt")
    assert code == 0, output
    assert {n: entry["golden"] for n, entry in entries.items()} == {
        f"{name}.embedding_table": "words.weight",
        "other.embedding_table": "other.weight",
    }
    assert "additional names of shared weights: 1 (head.weight)" in output


def test_a_head_of_its_own_that_lacks_is_reported(tmp_path, compare):
    original = Tied()
    original.head.weight = torch.nn.Parameter(original.words.weight + 1)
    torch.save(original.state_dict(), tmp_path / "b.pt")
    held = {"words.embedding_table": original.words, "other.embedding_table": original.other}
    parameters = [{"name": n, "data": Tensor(layer.weight.detach().numpy())} for n, layer in held.items()]
    ms.save_checkpoint(parameters, str(tmp_path / "a.ckpt"))
    code, _, output = compare(tmp_path / "a.ckpt", tmp_path / "b.pt")
    assert code == 1
    assert "on the golden side only 1 (head.weight)" in output
