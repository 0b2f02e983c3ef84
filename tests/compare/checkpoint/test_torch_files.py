"""What programs of PyTorch leave: plain and nested state dicts, shards with an index, odd tensors, foreign objects."""

import argparse
import json
import os
from collections import OrderedDict, defaultdict

import pytest
import torch
from safetensors.torch import save_file

from msprobe.base.errors import DumpError
from msprobe.compare.checkpoint.sources import read_side
from msprobe.store.torch_files import load_tree

pytestmark = pytest.mark.torch

WEIGHTS = OrderedDict(a=torch.arange(6.0).reshape(2, 3), b=torch.ones(2, dtype=torch.int64))


def parameters(path):
    return read_side(path).ranks[""].parameters


def same(path, weights=WEIGHTS):
    found = parameters(path)
    assert list(found) == list(weights)
    for name, tensor in weights.items():
        assert found[name].shape == tuple(tensor.shape)
        assert found[name].dtype == str(tensor.dtype)
        assert found[name].load().tolist() == tensor.tolist()


@pytest.mark.parametrize(
    "held",
    [
        WEIGHTS,
        {"model": WEIGHTS, "optimizer": {"state": {0: {"exp_avg": torch.ones(3)}}}},
        {"state_dict": WEIGHTS, "epoch": 3, "args": argparse.Namespace(lr=0.1)},
        {"model": {"module": WEIGHTS}},
        {"weights_of_mine": WEIGHTS, "step": 3},
        {f"module.{name}": tensor for name, tensor in WEIGHTS.items()},
        {"module": {f"_orig_mod.{name}": tensor for name, tensor in WEIGHTS.items()}},
        {"model": WEIGHTS, "counts": defaultdict(int, a=1), "best": {1, 2}},
    ],
)
@pytest.mark.parametrize("suffix", ["pt", "pth", "bin"])
def test_the_models_parameters_are_found_where_programs_put_them(held, suffix, tmp_path):
    torch.save(held, tmp_path / f"a.{suffix}")
    same(tmp_path / f"a.{suffix}")


def test_a_model_in_parts_is_named_by_the_way_to_them(tmp_path):
    torch.save({"model": {"encoder": {"fc": WEIGHTS}, "head": {"a": WEIGHTS["a"]}}}, tmp_path / "a.pt")
    assert list(parameters(tmp_path / "a.pt")) == ["encoder.fc.a", "encoder.fc.b", "head.a"]


def test_where_several_may_be_the_model_it_is_asked_for(tmp_path):
    torch.save({"student": WEIGHTS, "teacher": WEIGHTS, "epoch": 3}, tmp_path / "a.pt")
    with pytest.raises(DumpError, match=r"it is unclear which of its entries \(student, teacher, epoch\)"):
        read_side(tmp_path / "a.pt")


def test_parameters_come_back_whatever_their_layout_and_dtype(tmp_path):
    held = {
        "transposed": torch.arange(6.0).reshape(2, 3).T,
        "part": torch.arange(10.0)[2:5],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "half": torch.tensor([1.5, -2.0], dtype=torch.float16),
        "brain": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "scalar": torch.tensor(3),
        "empty": torch.ones(0, 3),
    }
    torch.save(held, tmp_path / "a.pt")
    found = parameters(tmp_path / "a.pt")
    for name, tensor in held.items():
        assert found[name].load().tolist() == tensor.tolist(), name


def test_shards_with_an_index_are_one_checkpoint(tmp_path):
    for kind, write in (("bin", torch.save), ("safetensors", save_file)):
        folder = tmp_path / kind
        folder.mkdir()
        stem = "pytorch_model" if kind == "bin" else "model"
        files = {name: f"{stem}-0000{n}-of-00002.{kind}" for n, name in enumerate(WEIGHTS, 1)}
        for name, file in files.items():
            write({name: WEIGHTS[name]}, folder / file)
        same_names = parameters(folder)
        assert list(same_names) == ["a", "b"], "without an index all shards are taken"
        (folder / f"{stem}.{kind}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))
        torch.save({"not": torch.ones(3)}, folder / "training_args.bin")
        (folder / "config.json").write_text("{}")
        found = parameters(folder)
        assert {name: one.load().tolist() for name, one in found.items()} == {
            name: tensor.tolist() for name, tensor in WEIGHTS.items()
        }


def test_an_index_is_not_followed_out_of_its_folder(tmp_path):
    torch.save(dict(WEIGHTS), tmp_path / "secret.bin")
    folder = tmp_path / "model"
    folder.mkdir()
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../secret.bin"}}))
    with pytest.raises(DumpError, match="such paths are not followed"):
        read_side(folder)
    torch.save({"b": torch.ones(1)}, folder / "x.bin")
    index.write_text(json.dumps({"weight_map": {"a": "x.bin"}}))
    with pytest.raises(DumpError, match="refers to a, which is in none of its files"):
        read_side(folder)


def test_one_file_against_shards_passes(tmp_path, compare):
    torch.save(dict(WEIGHTS), tmp_path / "a.pt")
    (tmp_path / "b").mkdir()
    for name, tensor in WEIGHTS.items():
        save_file({name: tensor}, tmp_path / "b" / f"model-{1 if name == 'a' else 2:05d}-of-00002.safetensors")
    code, entries, output = compare(tmp_path / "a.pt", tmp_path / "b")
    assert code == 0, output
    assert entries["b"] == {
        **{"l2": 0.0, "cos": 1.0, "numel": 2, "shape": [2]},
        **{"verdict": "pass", "reason": "", "dtype": "int64"},
    }


def test_a_tensor_without_plain_elements_is_unjudged_and_the_others_are_not(tmp_path, compare):
    torch.save({"a": torch.eye(3).to_sparse(), "b": torch.ones(2)}, tmp_path / "a.pt")
    code, entries, output = compare(tmp_path / "a.pt", tmp_path / "a.pt")
    assert code == 1
    assert entries["a"]["l2"] == entries["a"]["cos"] == "error"
    assert entries["a"]["verdict"] == "unjudged"
    assert entries["b"]["verdict"] == "pass"
    assert "unjudged: a: Not readable" in output


class Foreign:
    """A class that whoever opens the file may not have."""

    def __init__(self):
        self.size = 4
        self.inner = {"deep": torch.ones(2)}

    def __setstate__(self, state):
        raise AssertionError("this code is the file's, and must not run")


def test_foreign_objects_are_their_attributes_and_run_nothing(tmp_path):
    torch.save({"args": Foreign(), "model": dict(WEIGHTS)}, tmp_path / "a.pt")
    tree = load_tree(tmp_path / "a.pt")
    assert tree["args"]["size"] == 4
    assert tree["args"]["inner"]["deep"].array().tolist() == [1, 1]
    same(tmp_path / "a.pt")


def test_a_model_that_was_saved_itself_is_its_parameters(tmp_path, compare):
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Sequential(torch.nn.Linear(2, 2))
    )
    torch.save({"model": net, "epoch": 3}, tmp_path / "a.pt")
    same(tmp_path / "a.pt", net.state_dict())
    torch.save(net, tmp_path / "b.pt")
    torch.save(net.state_dict(), tmp_path / "c.pt")
    code, entries, output = compare(tmp_path / "b.pt", tmp_path / "c.pt")
    assert code == 0, output
    assert set(entries) == set(net.state_dict())


def test_a_ckpt_may_be_of_pytorch_too(tmp_path):
    torch.save({"state_dict": WEIGHTS, "pytorch-lightning_version": "2.0", "callbacks": {}}, tmp_path / "last.ckpt")
    same(tmp_path / "last.ckpt")


def test_what_is_no_archive_is_never_opened(tmp_path):
    torch.save(dict(WEIGHTS), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(DumpError, match="plain pickle, which is not opened"):
        read_side(tmp_path / "old.pt")
    torch.save([torch.ones(2)], tmp_path / "list.pt")
    with pytest.raises(DumpError, match="contains a list, not a dictionary"):
        read_side(tmp_path / "list.pt")


@pytest.mark.parametrize("keep", [0, 100])
def test_of_a_broken_file_it_is_said_what_to_do_with_a_checkpoint(keep, tmp_path):
    torch.save(dict(WEIGHTS), tmp_path / "a.pt")
    (tmp_path / "a.pt").write_bytes((tmp_path / "a.pt").read_bytes()[:keep])
    with pytest.raises(DumpError, match=r"copy it again, or save the state_dict\(\) again") as refused:
        read_side(tmp_path / "a.pt")
    assert "collect this step" not in str(refused.value)


class Callable:
    def __reduce__(self):
        return os.getpid, ()


def test_a_pickle_that_is_refused_is_not_advised_to_be_trusted(tmp_path):
    torch.save({**WEIGHTS, "more": Callable()}, tmp_path / "a.pt")
    with pytest.raises(DumpError, match=r"torch cannot open it \(.*getpid") as refused:
        read_side(tmp_path / "a.pt")
    for advice in ("weights_only", "safe_globals", "trust"):
        assert advice not in str(refused.value)


def test_a_parameter_that_two_shards_hold_is_not_silently_one_of_them(tmp_path):
    for number, value in ((1, 1.0), (2, 2.0)):
        torch.save({"a": torch.full((2,), value)}, tmp_path / f"model-0000{number}-of-00002.bin")
    with pytest.raises(DumpError, match=r"both model-00001-of-00002\.bin and model-00002-of-00002\.bin contain a;"):
        parameters(tmp_path)
    index = {"weight_map": {"a": "model-00001-of-00002.bin", "b": "model-00002-of-00002.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    torch.save({"a": torch.zeros(2), "b": torch.ones(1)}, tmp_path / "model-00002-of-00002.bin")
    assert parameters(tmp_path)["a"].load().tolist() == [1.0, 1.0]


def test_parameters_in_a_list_are_compared_too(tmp_path, compare):
    for name, last in (("t", 2.0), ("g", 3.0)):
        torch.save({"a": torch.ones(2), "of": [torch.ones(2), (torch.full((3,), last),)]}, tmp_path / f"{name}.pt")
    assert list(parameters(tmp_path / "t.pt")) == ["a", "of.0", "of.1.0"]
    code, result, _ = compare(tmp_path / "t.pt", tmp_path / "g.pt")
    assert code == 1
    assert [name for name, one in result.items() if one["verdict"] != "pass"] == ["of.1.0"]


def test_a_list_beside_the_model_is_not_taken_for_it(tmp_path):
    torch.save({"mine": WEIGHTS, "rng": [torch.ones(2)]}, tmp_path / "a.pt")
    same(tmp_path / "a.pt")
    torch.save([torch.ones(2)], tmp_path / "b.pt")
    with pytest.raises(DumpError, match="contains a list, not a dictionary"):
        parameters(tmp_path / "b.pt")
