"""Checkpoints of Megatron-LM, cut in every way: the same model is the same model."""

import json

import pytest
import torch

from msprobe.cli import main

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("how", "other"),
    [
        ({"tp": 2, "pp": 2}, {"tp": 1, "pp": 1}),
        ({"tp": 2, "pp": 2}, {"tp": 4, "pp": 1, "legacy": True}),
        ({"pp": 2, "virtual": 2}, {"pp": 4}),
        ({"tp": 2, "virtual": 2, "pp": 2, "legacy": True}, {}),
    ],
)
def test_a_model_that_was_cut_otherwise_is_the_same_model(how, other, megatron, compare, model):
    code, entries, output = compare(megatron("a", model, **how), megatron("b", model, **other))
    assert code == 0, output
    assert {name: entry["shape"] for name, entry in entries.items()} == {n: list(a.shape) for n, a in model.items()}
    assert all(entry["l2"] == 0 and entry["cos"] == 1 and entry["verdict"] == "pass" for entry in entries.values())


@pytest.mark.parametrize("how", [{"ep": 2}, {"ep": 4, "pp": 2, "tp": 2}])
def test_experts_that_are_shared_out_have_their_own_numbers_again(how, megatron, compare, moe):
    code, entries, output = compare(megatron("a", moe, **how), megatron("b", moe))
    assert code == 0, output
    assert set(entries) == set(moe)


def test_what_differs_is_measured_as_the_reference_measures_it(megatron, compare, model, samples):
    other = {
        name: array + 0.2 if "layernorm" in name else array * 1.001 if "fc1" in name else array
        for name, array in model.items()
    }
    folders = (
        megatron("a", model, tp=2, pp=2),
        megatron("b", other | {"output_layer.bias": other["decoder.final_layernorm.weight"]}, pp=2),
    )
    code, entries, output = compare(*folders)
    assert code == 1
    assert "on the golden side only 1 (output_layer.bias)" in output
    assert entries.pop("output_layer.bias")["shape"] == [None, [8]]
    theirs = json.loads((samples / "8.3.3.json").read_text())
    assert set(entries) == set(theirs)
    for name, entry in theirs.items():
        assert entries[name]["l2"] == pytest.approx(entry["l2"], rel=1e-5, abs=1e-7), name
        assert entries[name]["cos"] == pytest.approx(entry["cos"], abs=1e-6), name
        assert entries[name]["numel"] == entry["numel"]
        assert entries[name]["shape"] == entry["shape"]
        is_changed = "layernorm" in name or "fc1" in name
        assert entries[name]["verdict"] == ("error" if is_changed else "pass"), name


def test_a_folder_of_one_iteration_is_taken_as_it_is(megatron, compare, model):
    root = megatron("a", model, tp=2)
    (root / "latest_checkpointed_iteration.txt").write_text("20")
    code, _, output = compare(root / "iter_0000010", root / "iter_0000010")
    assert code == 0
    assert f"{len(model)} pass" in output
    code, _, output = compare(root, root)
    assert code == 2
    assert "refers to '20', which is missing" in output


def test_release_is_an_iteration_too(megatron, compare, model):
    root = megatron("a", model)
    (root / "iter_0000010").rename(root / "release")
    (root / "latest_checkpointed_iteration.txt").write_text("release\n")
    assert compare(root, root)[0] == 0


def test_a_rank_that_is_not_there_is_told(megatron, compare, model):
    root = megatron("a", model, tp=2, pp=2)
    (root / "iter_0000010" / "mp_rank_01_001" / "model_optim_rng.pt").unlink()
    code, _, output = compare(root, root)
    assert code == 2
    assert "rank tp 1, pp 1, ep 0" in output


def test_copies_that_are_none_are_told(megatron, compare, model, caplog):
    root = megatron("a", model, tp=2)
    file = root / "iter_0000010" / "mp_rank_01" / "model_optim_rng.pt"
    held = torch.load(file, weights_only=False)
    held["model"]["decoder.final_layernorm.weight"] += 1
    torch.save(held, file)
    assert compare(root, megatron("b", model))[0] == 0
    assert "decoder.final_layernorm.weight: differs among ranks" in caplog.text


class Planted:
    """What must never run."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_nothing_of_a_checkpoint_is_ever_run(megatron, model, tmp_path):
    root = megatron("a", model)
    file = root / "iter_0000010" / "mp_rank_00" / "model_optim_rng.pt"
    held = torch.load(file, weights_only=False)
    torch.save(held | {"args": Planted(str(tmp_path / "was-run"))}, file)
    main(["config_check", "-c", str(root), str(root), "-o", str(tmp_path / "answer.json")])
    assert not (tmp_path / "was-run").exists()
