"""The table of functions: how its entries are read, and where they put the arguments and results of both sides."""

import re

import numpy as np
import pytest

from msprobe.base.errors import MappingError
from msprobe.mapping.api import TABLES, Place, load_table, read_table

ARGUMENTS = "input"
RESULTS = "output"


def entry(**keys):
    """The correspondences of one entry."""
    return read_table({"Functional.x": {"pt": "Torch.x", **keys}}, {}).counterparts("Functional.x")


def one(**keys):
    (pair,) = entry(**keys)
    return pair


def joined(pair, ms_path, pt_path, part=ARGUMENTS, direction="forward"):
    """Whether a record of MindSpore and one of PyTorch belong together."""
    here = pair.ms_place(part, ms_path, direction)
    there = pair.pt_place(part, pt_path, direction)
    return here is not None and here == there


# places of arguments


def test_a_position_and_a_keyword_are_one_place():
    pair = one(ms_args=["input", "axis", "dtype"], pt_args=["input", "dim", "*", "dtype"], args={"axis": "dim"})
    for ms_path in [("1",), ("axis",)]:
        for pt_path in [("1",), ("dim",)]:
            assert joined(pair, ms_path, pt_path)
    assert pair.ms_place(ARGUMENTS, ("axis",)) == Place(ARGUMENTS, ("dim",))
    assert joined(pair, ("2",), ("dtype",))
    assert not joined(pair, ("0",), ("dim",))
    assert not joined(pair, ("input",), ("axis",)), "PyTorch has no such parameter"


def test_pytorch_takes_names_of_numpy_for_its_own():
    pair = one(ms_args=["input", "dim", "keepdim"])
    assert joined(pair, ("1",), ("axis",))
    assert joined(pair, ("keepdim",), ("keepdims",))
    assert joined(pair, ("0",), ("x",))
    other = one(ms_args=["x", "axis"])
    assert other.pt_place(ARGUMENTS, ("axis",)) == Place(ARGUMENTS, ("axis",)), "where it is the name"
    assert one(ms_args=["input"]).pt_place(ARGUMENTS, ("axis",)) == Place(ARGUMENTS, ("axis",))


def test_arguments_in_another_order_are_joined_by_name():
    pair = one(ms_args=["weight", "indices"], pt_args=["input", "weight"], args={"indices": "input"})
    assert joined(pair, ("0",), ("1",))
    assert joined(pair, ("1",), ("0",))
    assert not joined(pair, ("0",), ("0",))


def test_what_stands_deeper_is_kept():
    pair = one(ms_args=["input", "pads"], args={"pads": "pad"})
    assert pair.ms_place(ARGUMENTS, ("1", "0", "3")) == Place(ARGUMENTS, ("pad", "0", "3"))
    assert joined(pair, ("pads", "2"), ("1", "2"))


def test_a_list_and_its_elements_one_by_one_are_the_same():
    pair = one(ms_args=["input", "dims"], pt_args=["input", "*dims"])
    assert joined(pair, ("1", "0"), ("1",))
    assert joined(pair, ("1", "2"), ("3",))
    assert joined(pair, ("dims", "1"), ("1", "1")), "PyTorch takes a list there too"


def test_elements_that_are_arguments_of_their_own():
    lstm = one(ms_args=["x", "h", "c"], pt_args=["input", "hx"], args={"x": "input", "h": "hx.0", "c": "hx.1"})
    assert joined(lstm, ("2",), ("1", "1"))
    assert joined(lstm, ("h",), ("hx", "0"))
    addn = one(ms_args=["x"], pt_args=["input", "other"], args={"x.0": "input", "x.1": "other"})
    assert joined(addn, ("0", "1"), ("1",))


def test_what_one_side_alone_has_is_deliberately_nowhere():
    pair = one(
        ms_args=["x", "begin_axis", "eps"],
        pt_args=["input", "shape", "eps"],
        args={"x": "input"},
        dropped={"begin_axis": None},
        inserted={"shape": 3},
    )
    assert pair.ms_place(ARGUMENTS, ("1",)) is None
    assert pair.ms_place(ARGUMENTS, ("begin_axis",)) is None
    assert pair.pt_place(ARGUMENTS, ("shape",)) is None
    assert pair.pt_place(ARGUMENTS, ("1", "0")) is None
    assert joined(pair, ("2",), ("2",))


def test_what_a_primitive_was_made_with_has_no_record_on_its_side():
    pair = one(ms_args=["x", "axis"], pt_args=["input", "dim", "keepdim"], args={"x": "input", "axis": "dim"},
               attributes={"keep_dims": "keepdim"})  # fmt: skip
    assert pair.pt_place(ARGUMENTS, ("2",)) is None
    assert pair.translate(("X", 1), {"keep_dims": True}) == (("X", 1), {"keepdim": True})


def test_without_signatures_places_stay_as_they_are():
    pair = one()
    assert joined(pair, ("0",), ("0",))
    assert joined(pair, ("axis",), ("axis",))
    assert not joined(pair, ("1",), ("axis",))


def test_a_signature_that_is_left_out_follows_from_the_other():
    keys = {"args": {"axis": "dim"}, "dropped": {"mode": None}}
    pair = one(ms_args=["input", "mode", "axis", "*", "dtype"], **keys)
    assert pair.pt_signature.names == ("input", "dim")
    assert pair.pt_signature.keywords == ("dtype",)
    pair = one(pt_args=["input", "*dims"], args={"shape": "dims"}, inserted={})
    assert pair.ms_signature.rest == "shape"


def test_other_parts_of_a_call_are_not_touched():
    pair = one(ms_args=["x"], pt_args=["input"], args={"x": "input"}, output=[None, 0])
    assert pair.ms_place("parameters", ("weight",)) == Place("parameters", ("weight",))
    assert pair.pt_place("debug", ("0",)) == Place("debug", ("0",))


# results


def test_results_in_another_order():
    pair = one(output=[1, None, 0])
    assert joined(pair, ("0",), ("1",), RESULTS)
    assert joined(pair, ("2",), ("0",), RESULTS)
    assert pair.ms_place(RESULTS, ("1",)) is None
    assert pair.pt_place(RESULTS, ("2",)) is None


def test_results_that_are_nested_on_one_side():
    pair = one(output={"0": "0", "1": "1.0", "2": "1.1"})
    assert joined(pair, ("2",), ("1", "1"), RESULTS)
    assert not joined(pair, ("1",), ("1", "1"), RESULTS)


def test_results_stay_where_they_are_if_nothing_is_said():
    assert joined(one(), ("1", "0"), ("1", "0"), RESULTS)


# gradients


def test_gradients_are_where_their_values_are():
    pair = one(ms_args=["weight", "indices"], pt_args=["input", "weight"], args={"indices": "input"}, output=[1, 0])
    assert joined(pair, ("0",), ("1",), "output", "backward"), "gradients of arguments"
    assert joined(pair, ("0",), ("1",), "input", "backward"), "gradients of results"


def test_gradients_of_keyword_arguments_stand_behind_those_of_the_positional_ones():
    pair = one(ms_args=["input", "axis", "weight"], pt_args=["input", "weight", "dim"], args={"axis": "dim"})
    arguments = ("0", "weight", "axis")
    assert pair.ms_place("output", ("1",), "backward", arguments) == Place("output", ("weight",))
    assert pair.pt_place("output", ("1",), "backward") == Place("output", ("weight",))


def test_transforms_are_those_of_the_place():
    pair = one(ms_args=["x", "w", "p"], transforms={"w": "transpose(1, 0)", "p": "complement", "output.0": "flatten"})
    assert str(pair.ms_transform(ARGUMENTS, ("1",))) == "transpose(1, 0)"
    assert str(pair.ms_transform(ARGUMENTS, ("w",))) == "transpose(1, 0)"
    assert str(pair.ms_transform(RESULTS, ("0",))) == "flatten"
    assert not pair.ms_transform(ARGUMENTS, ("0",))
    assert not pair.ms_transform("debug", ("1",))
    assert str(pair.ms_transform("output", ("1",), "backward")) == "transpose(1, 0)"
    assert str(pair.ms_transform("input", ("0",), "backward")) == "flatten"
    assert not pair.ms_transform("output", ("2",), "backward"), "a gradient of 1 - x is not 1 - gradient"


# translating


def test_what_was_passed_by_position_stays_so():
    pair = one(ms_args=["input", "axis", "dtype"], pt_args=["input", "dim", "*", "dtype"], args={"axis": "dim"})
    assert pair.translate(("X", 1), {}) == (("X", 1), {})
    assert pair.translate(("X",), {"axis": 1}) == (("X",), {"dim": 1})
    assert pair.translate(("X", 1, "f"), {}) == (("X", 1), {"dtype": "f"})


def test_a_gap_ends_the_positional_arguments():
    pair = one(ms_args=["input", "target", "reduction"], pt_args=["input", "target", "size_average", "reduction"])
    assert pair.translate(("X", "Y", "sum"), {}) == (("X", "Y"), {"reduction": "sum"})


def test_lists_are_spread_where_pytorch_wants_elements_and_the_other_way_round():
    spread = one(ms_args=["input", "dims"], pt_args=["input", "*dims"])
    assert spread.translate(("X", (1, 0)), {}) == (("X", 1, 0), {})
    assert spread.translate(("X",), {"dims": (1, 0)}) == (("X", 1, 0), {})
    gathered = one(ms_args=["input", "*dims"], pt_args=["input", "dims"])
    assert gathered.translate(("X", 1, 0), {}) == (("X", [1, 0]), {})
    assert gathered.translate(("X", (1, 0)), {}) == (("X", [1, 0]), {})


def test_elements_become_arguments_and_arguments_elements():
    lstm = one(ms_args=["x", "h", "c"], pt_args=["input", "hx"], args={"x": "input", "h": "hx.0", "c": "hx.1"})
    assert lstm.translate(("X", "H", "C"), {}) == (("X", ("H", "C")), {})
    addn = one(ms_args=["x"], pt_args=["input", "other"], args={"x.0": "input", "x.1": "other"})
    assert addn.translate((["A", "B"],), {}) == (("A", "B"), {})


def test_values_and_transforms_and_defaults_and_what_is_inserted():
    pair = one(
        ms_args=["x", "weight", "keep_prob", "mode", "eps"],
        pt_args=["input", "weight", "p", "mode", "eps", "training"],
        args={"x": "input", "keep_prob": "p"},
        values={"mode": {"half": "round", 2: "two"}},
        transforms={"weight": "transpose(1, 0)", "keep_prob": "complement"},
        inserted={"training": True},
        defaults={"ms": {"eps": 1e-7}, "pt": {"eps": 1e-5}},
    )
    weight = np.arange(6).reshape(2, 3)
    args, kwargs = pair.translate(("X", weight, 0.75), {"mode": "half"})
    assert args[0] == "X"
    np.testing.assert_array_equal(args[1], weight.T)
    assert args[2] == 0.25
    assert kwargs == {"mode": "round", "eps": 1e-7, "training": True}
    assert pair.translate(("X",), {"mode": 2, "eps": 1.0})[1] == {"mode": "two", "eps": 1.0, "training": True}
    assert pair.translate(("X",), {"mode": "other"})[1]["mode"] == "other"


def test_the_object_of_a_method_is_passed_by_position():
    pair = one(pt="Tensor.where", ms_args=["condition", "input"], pt_args=["input", "condition"])
    assert pair.translate(("C",), {"input": "X"}) == (("X", "C"), {})


def test_what_pytorch_cannot_do_is_refused():
    pair = one(ms_args=["x", "mode", "seed", "axes"], dropped={"mode": "same", "seed": None, "axes": [0, 1]})
    assert pair.translate(("X", "same", 7, (0, 1)), {}) == (("X",), {})
    with pytest.raises(MappingError, match=r"Functional.x: Torch.x has no 'mode' and corresponds only to 'same'"):
        pair.translate(("X", "valid"), {})
    with pytest.raises(MappingError, match="5 positional arguments, but the table lists 4"):
        pair.translate((1, 2, 3, 4, 5), {})


# choosing


def test_several_names_and_several_signatures_in_their_order():
    table = read_table({"Mint.max": [{"pt": ["Torch.max", "Tensor.max"], "ms_args": ["input", "dim"]},
                                     {"pt": "Torch.maximum", "ms_args": ["input", "other"]}]}, {})  # fmt: skip
    pairs = table.counterparts("Mint.max")
    assert [p.pt for p in pairs] == ["Torch.max", "Tensor.max", "Torch.maximum"]
    assert [p.fits(["0", "dim"]) for p in pairs] == [True, True, False]
    assert [p.fits(["0", "other"]) for p in pairs] == [False, False, True]
    assert not any(p.fits(["0", "1", "2"]) for p in pairs)


def test_both_calls_choose_the_overload():
    """max(x, 1) may be meant either way; what PyTorch was called with tells."""
    entry = [{"pt": "Torch.max", "ms_args": ["input", "dim"]}, {"pt": "Torch.max", "ms_args": ["input", "other"]}]
    table = read_table({"Mint.max": entry}, {})
    by_dim, by_other = table.counterparts("Mint.max")
    assert table.between("Mint.max", "Torch.max", ("0", "1"), ("0", "1")) is by_dim
    assert table.between("Mint.max", "Torch.max", ("0", "1"), ("0", "other")) is by_other
    assert table.between("Mint.max", "Torch.max", ("0", "1"), ("0", "axis")) is by_dim
    assert table.between("Mint.max", "Torch.max", ("0", "1"), ("0", "out")) is by_dim, "what is not listed decides not"
    assert table.between("Mint.max", "Torch.max", ("0", "other"), ("0", "1")) is by_other
    assert table.between("Mint.max", "Torch.max", ("0", "1", "2")) is None
    assert table.between("Mint.max", "Torch.min", ("0",)) is None


def test_a_call_with_too_few_arguments_is_not_meant():
    pair = one(ms_args=["output", "input", "group"], required=2)
    assert pair.fits(["0", "1"])
    assert pair.fits(["0", "input"])
    assert not pair.fits(["0"])
    assert not pair.fits(["0", "group"])


def test_a_function_of_which_nothing_is_known_takes_everything():
    assert one().fits(["0", "7", "anything"])
    assert one(ms_args=["equation", "*operands"]).fits(["0", "5"])


def test_a_primitive_is_found_whatever_held_it():
    table = read_table({"Primitive.MatMul": {"pt": "Torch.matmul"}}, {"Primitive.Print": "prints"})
    for stem in ("Primitive.MatMul", "Primitive.matmul.MatMul", "Primitive.a.b.MatMul"):
        assert [p.pt for p in table.counterparts(stem)] == ["Torch.matmul"]
    assert table.reason_without("Primitive.show.Print") == "prints"
    assert table.counterparts("Functional.unheard_of") == ()
    assert table.reason_without("Functional.unheard_of") == ""


def test_names_of_older_versions_are_found():
    """As dumps of earlier MindSpore have them: re-exported, with a suffix, or renamed since."""
    table = load_table()
    for old, new in {
        "Mint.gelu": "MintFunctional.gelu",
        "Mint.flip_ex": "Mint.flip",
        "Mint.softmax_ext": "Mint.softmax",
        "MintFunctional.dense": "MintFunctional.linear",
        "MintFunctional.bce_with_logits": "MintFunctional.binary_cross_entropy_with_logits",
        "MintFunctional.isclose": "Mint.isclose",
    }.items():
        assert old not in table.entries
        assert table.counterparts(old) is table.entries[new]
    assert table.counterparts("Mint.unheard_of") == ()
    assert table.counterparts("Functional.gelu_ex") == ()


# what a table may not say


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"arg": {}}, "unknown key 'arg'; choose from pt, ms_args"),
        ({"ms_args": "input"}, "ms_args is 'input'; write a list"),
        ({"ms_args": ["input", "input"]}, "duplicate parameter"),
        ({"ms_args": ["x"], "args": {"axis": "dim"}}, "args refers to 'axis', which is not in ms_args"),
        ({"ms_args": ["x"], "pt_args": ["y"], "args": {"x": "dim"}}, "args refers to 'dim', which is not"),
        ({"ms_args": ["x"], "dropped": {"axis": 1}}, "dropped refers to 'axis'"),
        ({"ms_args": ["x"], "pt_args": ["y"], "dropped": {"x": 1}, "args": {"x": "y"}}, "is in args and in dropped"),
        ({"ms_args": ["x"], "transforms": {"w": "flatten"}}, "transforms refers to 'w'"),
        ({"ms_args": ["x"], "transforms": {"x": "turn"}}, "'turn' is not a step"),
        ({"ms_args": ["x"], "defaults": {"ms": {"x": "1e-05"}}}, "1e-05 is a string in YAML; write 1.0e-05"),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused(keys, message):
    with pytest.raises(MappingError) as error:
        entry(**keys)
    assert message in str(error.value)
    if "turn" not in message:
        assert "Functional.x" in str(error.value)


@pytest.mark.parametrize("wrong", ["Torch.x", None, ["Torch.x"], {"ms_args": []}])
def test_an_entry_is_a_map_with_a_counterpart(wrong):
    with pytest.raises(MappingError, match=r"Functional.x: an entry of the table must be a map with the key 'pt'"):
        read_table({"Functional.x": wrong}, {})


def test_a_name_has_a_counterpart_or_a_reason():
    with pytest.raises(MappingError, match=r"Functional.x: is both in the table and in the list of names without"):
        read_table({"Functional.x": {"pt": "Torch.x"}}, {"Functional.x": "none"})


# the table that comes with the package

FILES = sorted(f for f in TABLES.glob("*.yaml") if "layers" not in f.name)


@pytest.mark.parametrize("file", FILES, ids=[f.stem for f in FILES])
def test_no_name_stands_twice_in_a_file(file):
    names = re.findall(r"^([A-Z][\w.]*):", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert names
    assert len(set(names)) == len(names), "yaml would take the last one without a word"


def test_the_table_is_there_and_is_read_once():
    table = load_table()
    assert load_table() is table
    prefixes = {stem.split(".")[0] for stem in table.entries}
    assert prefixes == {"Mint", "MintFunctional", "MintDistributed", "Distributed", "Functional", "Tensor", "Primitive"}
    known = {"Torch", "Functional", "Tensor", "Distributed", "NPU", "Aten", "VF"}
    assert {p.pt.split(".")[0] for pairs in table.entries.values() for p in pairs} <= known
    assert all(reason.strip() for reason in table.without.values())


RENAMED = {
    "Functional.bidense": "Functional.bilinear",
    "Functional.dense": "Functional.linear",
    "Functional.equal": "Torch.eq",
    "Functional.swapaxes": "Torch.transpose",
    "Tensor.asnumpy": "Tensor.numpy",
    "Tensor.cauchy": "Tensor.cauchy_",
    "Tensor.equal": "Tensor.eq",
    "Tensor.fill_diagonal": "Tensor.fill_diagonal_",
    "Tensor.gather_elements": "Tensor.gather",
    "Tensor.swapaxes": "Tensor.transpose",
}
IN_FUNCTIONAL = """
    adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d affine_grid conv1d conv2d conv3d cosine_embedding_loss
    cosine_similarity cross_entropy ctc_loss gumbel_softmax hardsigmoid hardtanh hinge_embedding_loss l1_loss
    margin_ranking_loss max_pool3d max_unpool1d max_unpool2d max_unpool3d mse_loss multi_margin_loss
    multilabel_margin_loss multilabel_soft_margin_loss nll_loss pdist pixel_shuffle pixel_unshuffle relu sigmoid
    smooth_l1_loss soft_margin_loss tanh tanhshrink unfold
"""
OTHER_TABLE = {**RENAMED, **{f"Functional.{name}": f"Functional.{name}" for name in IN_FUNCTIONAL.split()}}
"""What the other tool's table renames, and the functions it looks for in torch.nn.functional."""

GONE = ("Tensor.asnumpy", "Tensor.cauchy", "Tensor.fill_diagonal")
"""Not collected: it computes nothing; or Tensor of MindSpore 2.10 has it no more."""


@pytest.mark.parametrize("stem", sorted(set(OTHER_TABLE) - set(GONE)))
def test_what_the_other_tool_maps_is_among_our_candidates(stem):
    assert OTHER_TABLE[stem] in [pair.pt for pair in load_table().counterparts(stem)]


def test_mint_is_torch_by_name():
    """The other tool replaces the prefix; a name of ours without the same name in PyTorch must be a known one."""
    table = load_table()
    first = {"Mint": "Torch", "MintFunctional": "Functional", "MintDistributed": "Distributed"}
    other = {
        stem
        for stem, pairs in table.entries.items()
        if (prefix := stem.split(".")[0]) in first
        and f"{first[prefix]}.{stem.partition('.')[2]}" not in [pair.pt for pair in pairs]
    }
    assert other == {"Mint.addr_", "Mint.npu_gelu", "MintFunctional.flatten", "MintFunctional.sigmoid_"}


def test_every_parameter_has_a_place_of_its_own_among_those_of_pytorch():
    wrong = []
    for pairs in load_table().entries.values():
        for pair in pairs:
            placed = [pair.ms_place(ARGUMENTS, (name,)) for name in pair.ms_signature.every]
            tops = [place.path for place in placed if place is not None]
            if len(set(tops)) < len(tops):
                wrong.append(f"{pair.ms} -> {pair.pt}: two parameters at one place: {tops}")
            unknown = {path[0] for path in tops} - set(pair.pt_signature.every)
            split = {of.split(".")[0] for of in pair.renamed if "." in of}
            if pair.pt_signature and unknown - split:
                wrong.append(f"{pair.ms} -> {pair.pt}: PyTorch has no parameter {sorted(unknown)}")
    assert not wrong, "\n".join(wrong)
