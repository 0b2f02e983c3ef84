"""The hand-written truth says something about every call of the dumps, and about no other."""

import pytest
import truth

from msprobe.store.reader import read

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

CASES = [(net, variant) for net, variants in truth.nets().items() for variant in (None, *variants)]

# PyTorch makes the first gradient inside its backward; it is no call of the program.
OF_THE_ENGINE = "Torch.ones_like"


@pytest.mark.sample(14)
@pytest.mark.parametrize(("net", "variant"), CASES, ids=[f"{n}-{v or 'clean'}" for n, v in CASES])
def test_every_call_of_a_dump_stands_in_the_truth(net, variant, twins):
    truths = truth.load(net, variant)
    for side, folder in zip(truth.SIDES, twins.pair(net, variant), strict=True):
        listed = {getattr(row, side) for row in truths.rows} - {"none"}
        dumped = {call.name for call in read(folder / "step0" / "rank").calls if ".forward" in call.name}
        assert dumped - listed == set()
        assert {name for name in listed - dumped if not name.startswith(OF_THE_ENGINE)} == set()


def test_every_net_has_both_sides_and_all_six_variants_where_they_make_sense():
    nets = truth.nets()
    assert set(nets) == {"gpt", "llama", "resnet", "vit", "lstm", "lstm_cell"}
    assert all(nets[net] == list(truth.VARIANTS) for net in ("gpt", "llama", "vit"))
    assert nets["resnet"] == [v for v in truth.VARIANTS if v != "fused_qkv"]
    assert all(nets[net] == ["scrambled", "reordered", "equal_weights"] for net in ("lstm", "lstm_cell"))


def test_rows_are_numbered_by_their_side_s_order():
    rows = {(row.ms, row.pt) for row in truth.load("gpt", "reordered").rows}
    # The port runs the value first: its first dense layer is the original's third.
    assert ("Primitive.reshape.Reshape.3.forward", "Functional.linear.2.forward") in rows
    assert ("Primitive.reshape.Reshape.5.forward", "Functional.linear.0.forward") in rows
    assert ("Tensor.swapaxes.0.forward", "Tensor.transpose.2.forward") in rows


def test_an_extra_layer_shifts_the_numbers_behind_it():
    rows = {(row.ms, row.pt) for row in truth.load("gpt", "extra_layer").rows}
    assert ("Cell.blocks.1.Block.forward.0", "none") in rows
    assert ("Cell.blocks.2.Block.forward.0", "Module.h.1.Block.forward.0") in rows
    assert ("Functional.softmax.2.forward", "Functional.softmax.1.forward") in rows


def test_three_projections_share_a_fused_one():
    truths = truth.load("gpt", "fused_qkv")
    fused = "Module.h.0.attn.c_attn.Linear.forward.0"
    assert {row.ms for row in truths.rows if row.pt == fused} == {
        f"Cell.blocks.0.attention.{name}.Dense.forward.0" for name in ("query", "key", "value")
    }
    assert truths.pairs()["Primitive.reshape.Reshape.3.forward", "Functional.linear.0.forward"] is False
