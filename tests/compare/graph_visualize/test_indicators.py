"""The rules of msprobe, each worked out by hand, and what the page shows of them."""

import json
import math

import odd_dumps
import pytest

from msprobe.compare.graph_visualize.indicators import Grade, Indicator, Measured, distance, indicators, worst

CALL = "Mint.add.0.forward"
nan = math.nan


def norm(share, is_output=False, **more):
    return Measured(is_output, relative=(nan, nan, nan, share), **more)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ([0.09], [0.51], (Indicator.NORM,)),  # and 0.51 is not more than ten times 0.09
        ([0.09], [0.5], ()),
        ([0.1], [0.99], ()),
        ([0.04, 0.01], [0.41], (Indicator.GROWN,)),  # 0.41 > 10 * 0.04
        ([0.04, 0.01], [0.4], ()),
        ([0.0], [0.11], (Indicator.GROWN,)),
        ([0.0], [0.1], ()),
        ([], [0.6], (Indicator.NORM, Indicator.GROWN)),  # no inputs: nothing explains it
        ([nan], [nan], ()),
    ],
)
def test_norms(before, after, found):
    records = [*map(norm, before), *(norm(share, True) for share in after)]
    *inputs, output = indicators(CALL, records)
    assert output == found
    assert not any(inputs)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ((1.0, 0.95), (1.0, 0.59), (Indicator.THOUSANDTH,)),
        ((1.0, 0.9), (1.0, 0.1), ()),
        ((1.0, 0.95), (1.0, 0.6), ()),
        ((0.95, 0.0), (0.84, 0.0), (Indicator.COSINE,)),
        ((0.95, 0.0), (0.86, 0.0), ()),
        ((0.9, 0.0), (0.1, 0.0), ()),
    ],
)
def test_tensors(before, after, found):
    records = [
        Measured(is_output, cosine=cosine, thousandth=thousandth)
        for is_output, (cosine, thousandth) in ((False, before), (True, after))
    ]
    assert indicators(CALL, records)[1] == found


def test_what_is_said_of_all_outputs_stands_at_the_first():
    records = [norm(0.0), norm(0.01, True), norm(0.3, True)]
    assert indicators(CALL, records) == [(), (Indicator.GROWN,), ()]


def test_functions_whose_outputs_say_nothing_pass():
    for name in ("empty", "to", "__setitem__", "new_empty_strided"):
        assert indicators(f"Tensor.{name}.0.forward", [norm(0.0), norm(9.0, True, own=(Indicator.SHAPE,))]) == [(), ()]
    assert indicators("Cell.empty.Net.forward.0", [norm(0.0), norm(9.0, True)])[1]


def test_inputs_that_are_filled_are_not_judged():
    records = [norm(0.0, own=(Indicator.NON_FINITE,)), norm(9.0, True, own=(Indicator.DTYPE,))]
    assert indicators("Distributed.all_to_all_single.0.forward", records) == [(), (Indicator.DTYPE,)]


def test_the_worst_counts():
    assert worst([(), (Indicator.GROWN,)]) is Grade.WARNING
    assert worst([(Indicator.GROWN, Indicator.SHAPE)]) is Grade.ERROR
    assert worst([(), ()]) is Grade.PASS


@pytest.mark.parametrize(
    ("records", "number"),
    [
        ([Measured(False, relative=(1.0,) * 4), Measured(True, relative=(0.1, nan, 0.25, 0.0))], 0.25),
        ([Measured(True, relative=(0.1, nan, 7.0, 0.0))], 1.0),
        ([Measured(True, is_finite=False)], 1.0),
        ([Measured(False, is_finite=False), Measured(True, relative=(0.5,) * 4)], 0.5),
        ([Measured(True)], 0.0),
    ],
)
def test_8_1_measures_statistics_by_the_outputs(records, number):
    assert distance(CALL, records, "summary") == number


@pytest.mark.parametrize(
    ("before", "after", "number"),
    [([0.9, 0.8], [0.7, 0.55], 0.25), ([0.5], [0.9], 0.0), ([nan], [0.75], 0.25), ([0.9], [nan], 0.0)],
)
def test_8_1_measures_tensors_by_how_the_share_falls(before, after, number):
    records = [Measured(False, thousandth=n) for n in before] + [Measured(True, thousandth=n) for n in after]
    assert distance(CALL, records, "all") == pytest.approx(number)


def test_8_1_measures_digests_the_other_way_round():
    equal, other = Measured(True), Measured(True, is_equal=False)
    assert distance(CALL, [equal], "md5") == 1.0
    assert distance(CALL, [equal, other], "md5") == 0.0
    assert distance("Tensor.empty.0.forward", [other], "md5") == 1.0
    assert distance("Tensor.empty.0.forward", [norm(5.0, True)], "summary") == 0.0


# ---- what the page shows


def members(node, name):
    found = (node["input_data"] | node["output_data"])[f"{node['node_name']}.{name}"]
    return found.get("Result"), json.loads(found.get("Err_message", "[]"))


def test_the_records_of_a_node_say_what_differs(tmp_path, draw):
    sides = odd_dumps.values(tmp_path / "a"), odd_dumps.values(tmp_path / "b", changed=True)
    node = draw("-tp", sides[0], "-gp", sides[1]).npu("Module.m.M.forward.0")
    assert node["precision_index"] == 1
    assert members(node, "input.0") == ("error", [Indicator.GRADIENT.sentence])
    assert members(node, "input.1") == ("error", [Indicator.VALUE.sentence])
    assert members(node, "input.3") == ("error", [Indicator.VALUE.sentence])
    assert members(node, "input.4") == ("pass", [])
    assert members(node, "input.m") == ("error", [Indicator.SHAPE.sentence])
    assert members(node, "input.13") == ("pass", []), "not finite on both sides"
    shown = node["input_data"]["Module.m.M.forward.0.input.0"]
    assert (shown["Max diff"], shown["MaxRelativeErr"]) == ("-1e-09", "50.0%")  # 1e-9 - 2e-9
    assert shown["MeanRelativeErr"] == "426.315808%"  # 1e8 / 23456789.123456789
    assert shown["Requires_grad Consistent"] == "False"
    assert node["input_data"]["Module.m.M.forward.0.input.5"] == {"value": "null"}
    assert "Max diff" not in node["input_data"]["Module.m.M.forward.0.input.10"], "a group is not compared"


def test_only_the_target_has_measures(draw, sample):
    drawn = draw("-tp", sample("ms_mix_stat"), "-gp", sample("msp_mix_stat"))
    name = "Cell.fc1.Linear.forward.0.input.0"
    assert "Max diff" in drawn.npu("Cell.fc1.Linear.forward.0")["input_data"][name]
    assert "Max diff" not in drawn.bench("Cell.fc1.Linear.forward.0")["input_data"][name]
    assert drawn.bench("Cell.fc1.Linear.forward.0")["precision_index"] is None


def test_not_finite_on_one_side_is_an_error(tmp_path, draw):
    # output: NaN in the golden only is no error of the target
    sides = odd_dumps.values(tmp_path / "a"), odd_dumps.values(tmp_path / "b", changed=True)
    assert members(draw("-tp", sides[0], "-gp", sides[1]).npu("Module.m.M.forward.0"), "output.0") == ("pass", [])
    other = members(draw("-tp", sides[1], "-gp", sides[0]).npu("Module.m.M.forward.0"), "output.0")
    assert other == ("error", [Indicator.NON_FINITE.sentence])


def test_tensors_are_measured(draw, sample):
    node = draw("-tp", sample("ms_mix_tensor"), "-gp", sample("msp_mix_tensor")).npu("Cell.fc1.Linear.forward.0")
    equal = node["input_data"]["Cell.fc1.Linear.forward.0.input.0"]
    measures = (
        "Cosine",
        "EucDist",
        "MaxAbsErr",
        "MaxRelativeErr",
        "One Thousandth Err Ratio",
        "Five Thousandths Err Ratio",
    )
    assert [equal[title] for title in measures] == ["1.0", "0.0", "0.0", "0.0", "1.0", "1.0"]
    weight = node["input_data"]["Cell.fc1.Linear.forward.0.parameters.weight"]
    assert float(weight["MaxAbsErr"]) == pytest.approx(0.001, rel=1e-4)
    assert float(weight["EucDist"]) == pytest.approx(0.001 * math.sqrt(32 * 16), rel=1e-4)  # 0.001 in each element


def test_digests_are_equal_or_an_error(draw, sample):
    drawn = draw("-tp", sample("ms_mix_md5"), "-gp", sample("msp_mix_md5"))
    node = drawn.npu("Cell.fc1.Linear.forward.0")
    assert drawn.config["task"] == "md5"
    assert members(node, "input.0") == ("pass", [])
    assert members(node, "parameters.weight") == ("error", [Indicator.DIGEST.sentence])
    assert node["precision_index"] == 1
    assert (
        draw("-tp", sample("ms_mix_md5"), "-gp", sample("ms_mix_md5")).npu("Cell.fc1.Linear.forward.0")[
            "precision_index"
        ]
        == 0
    )
