"""Cells of whole networks in graph mode: the dump is that of PyNative, and the training stays what it was."""

import json
from functools import cache
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.part(9)]

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parents[1] / "training"))
    import graph_nets

STEPS = range(3)
EPSILON = float(np.finfo(np.float32).eps)
# the cases that are also run at jit_level O1
OPTIMISED = ("transformer", "convolution")
# what a run is called, and how it is trained
RUNS = {
    "graph": {},
    "O1": {"level": "O1"},
    "function": {"how": "function"},
    "python": {"graph": False},
}


class Trained:
    """A training and its dump."""

    def __init__(self, folder, inputs):
        self.folder, self.inputs = folder, inputs

    def file(self, step, name="dump.json"):
        return json.loads((self.folder / f"step{step}" / "rank" / name).read_text())

    def data(self, step):
        return self.file(step)["data"]

    def calls(self, step):
        return [name for name in self.data(step) if "parameters_grad" not in name]

    def arrays(self, step):
        """Every saved tensor by the name of its file."""
        files = (self.folder / f"step{step}" / "rank" / "dump_tensor_data").iterdir()
        return {file.stem: np.load(file) for file in files}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Gives the training of a case in one of the ways of RUNS, or without us (`bare`, `bare O1`)."""
    root = tmp_path_factory.mktemp("cells")

    @cache
    def run(case, way):
        if way.startswith("bare"):
            return Trained(None, graph_nets.train(case, level="O1" if way.endswith("O1") else "O0"))
        folder = root / f"{case}-{way}"
        return Trained(folder, graph_nets.train(case, folder, task="tensor", **RUNS[way]))

    return run


def records(node, place):
    """Every record of an entry by its place, without what only PyNative tells."""
    if isinstance(node, dict) and "type" in node:
        return {place: {key: value for key, value in node.items() if key not in ("from", "gradient")}}
    if isinstance(node, dict):
        return {k: v for key, inner in node.items() for k, v in records(inner, f"{place}.{key}").items()}
    if isinstance(node, list):
        return {k: v for index, inner in enumerate(node) for k, v in records(inner, f"{place}.{index}").items()}
    return {place: node}


def all_records(data):
    return {k: v for name, entry in data.items() for k, v in records(entry, name).items()}


def scale(name, arrays):
    """What rounding is measured by: the greatest element; of a sum over rows, what was added up."""
    rows = arrays.get(name.replace("parameters_grad.bias", "backward.0.input.0"))
    if name.endswith("parameters_grad.bias") and rows is not None:
        return float(np.abs(rows, dtype=np.float64).reshape(-1, rows.shape[-1]).sum(0).max())
    return float(np.abs(arrays[name]).max(initial=0))


# ---- the training ----------------------------------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("case", "way", "bare"),
    [*((case, "graph", "bare") for case in graph_nets.CASES), *((case, "O1", "bare O1") for case in OPTIMISED)],
)
def test_losses_and_weights_are_bit_by_bit_those_without_us(case, way, bare, trained):
    losses, weights = trained(case, way).inputs
    assert len(set(losses)) == len(STEPS), "the network learns"
    assert (losses, weights) == trained(case, bare).inputs


def test_nothing_is_left_on_the_cells(tmp_path):
    net = graph_nets.made("flow")
    graph_nets.train("flow", tmp_path / "dump", steps=1, net=net)
    assert not any("construct" in vars(cell) for _, cell in net.cells_and_names())


# ---- names, order, parents -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "way"),
    [
        *((case, "graph") for case in ("transformer", "convolution", "flow")),
        *((case, "O1") for case in OPTIMISED),
        ("convolution", "function"),
    ],
)
def test_names_order_and_parents_are_those_of_pynative(case, way, trained):
    ours, python = trained(case, way), trained(case, "python")
    for step in STEPS:
        assert "missing" not in ours.file(step)
        assert ours.calls(step) == python.calls(step)
        assert set(ours.data(step)) == set(python.data(step)), "with the gradients of the parameters"
        assert ours.file(step, "construct.json") == python.file(step, "construct.json")
        assert list(ours.file(step, "construct.json")) == list(python.file(step, "construct.json"))
        assert ours.file(step, "stack.json") == {}, "Python makes no call"


def test_calls_are_counted_in_loops_and_branches(trained):
    """Step s turns the loop 1 + s times; `c` is called twice by the unrolled loop, and once by the branch or not."""
    for step in STEPS:
        calls = trained("flow", "graph").calls(step)
        turns = [name for name in calls if name.startswith("Cell.a.Dense.forward")]
        assert turns == [f"Cell.a.Dense.forward.{n}" for n in range(1 + step)]
        branch = "Cell.b.Dense.forward.0" in calls
        assert sum(name.startswith("Cell.c.0.Dense.forward") for name in calls) == (2 if branch else 3)
        backward = [name for name in calls if name.startswith("Cell.a.Dense.backward")]
        assert backward == [f"Cell.a.Dense.backward.{n}" for n in reversed(range(1 + step))]
    construct = trained("flow", "graph").file(0, "construct.json")
    assert construct["Cell.c.0.Dense.forward.1"] == "Cell.c.SequentialCell.forward.1"
    assert construct["Cell.c.0.Dense.backward.1"] == "Cell.c.SequentialCell.backward.1"


def test_gradients_of_parameters_stand_before_the_backward_of_the_first_call(trained):
    names = list(trained("convolution", "graph").data(1))
    for cell in ("Cell.conv.Conv2d", "Cell.bn.BatchNorm2d", "Cell.fc.Dense"):
        assert names.index(f"{cell}.parameters_grad") + 1 == names.index(f"{cell}.backward.0")


# ---- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["graph", "O1", "function"])
def test_values_of_a_convolution_are_bit_by_bit_those_of_pynative(way, trained):
    ours, python = trained("convolution", way), trained("convolution", "python")
    assert ours.inputs == python.inputs
    for step in STEPS:
        assert all_records(ours.data(step)) == all_records(python.data(step))
        got, expected = ours.arrays(step), python.arrays(step)
        assert set(got) == set(expected)
        assert len(got) > 30
        for name, array in got.items():
            assert (array.dtype, array.shape) == (expected[name].dtype, expected[name].shape)
            assert array.tobytes() == expected[name].tobytes(), name


def test_values_of_control_flow_are_those_of_pynative_but_for_a_gradient_that_nobody_asked_for(trained):
    """The loop computes it; and what `c` is sent by its calls is added up in another order, which is rounding."""
    ours, python = trained("flow", "graph"), trained("flow", "python")
    extra = "Cell.a.Dense.backward.0.output.0"
    for step in STEPS:
        got, expected = ours.arrays(step), python.arrays(step)
        assert set(got) - set(expected) == {extra}
        assert set(expected) <= set(got)
        assert all_records(python.data(step))[extra] is None
        for name, array in expected.items():
            bound = 32 * EPSILON * scale(name, expected)
            assert np.abs(got[name].astype(np.float64) - array).max() <= bound, name
        weight = got["Cell.a.Dense.forward.0.parameters.weight"].astype(np.float64)
        right = got["Cell.a.Dense.backward.0.input.0"].astype(np.float64) @ weight
        np.testing.assert_allclose(got[extra], right, rtol=1e-5, atol=1e-7)
    got, expected = all_records(ours.data(0)), all_records(python.data(0))
    sums = {f"Cell.c.0.Dense.parameters_grad.{name}.0" for name in ("weight", "bias")}
    assert {place for place in got if got[place] != expected[place]} - {extra} <= sums


@pytest.mark.parametrize("way", ["graph", "O1"])
def test_values_of_a_transformer_are_those_of_pynative_within_rounding(way, trained):
    ours, python = trained("transformer", way), trained("transformer", "python")
    for step in STEPS:
        got, expected = ours.arrays(step), python.arrays(step)
        assert set(got) == set(expected)
        for name, array in got.items():
            bound = 32 * EPSILON * scale(name, expected)
            assert np.abs(array.astype(np.float64) - expected[name]).max(initial=0) <= bound, name


def test_the_kernel_that_differs_adds_the_same_gradients_in_another_order(trained):
    """Nothing before it differs, forward and backward: the sum of what three layers send back to what they share."""
    ours, python = trained("transformer", "graph"), trained("transformer", "python")
    got, expected = all_records(ours.data(0)), all_records(python.data(0))
    differ = [place for place in got if got[place] != expected[place] and "parameters_grad" not in place]
    assert not [place for place in differ if ".forward." in place]
    assert differ[0] == "Cell.b2.n1.LayerNorm.backward.0.input.0"
    parts = [f"Cell.b2.{layer}.Dense.backward.0.output.0" for layer in "qkv"]
    for side, (first, second, third) in ((ours, (0, 1, 2)), (python, (2, 1, 0))):
        arrays = side.arrays(0)
        q, k, v = (arrays[part] for part in parts)
        sent = (q, k, v)
        assert np.array_equal((sent[first] + sent[second]) + sent[third], arrays[differ[0].replace(".npy", "")])


# ---- what is less usual ----------------------------------------------------------------------------------------------


def test_containers_keywords_and_kinds_are_those_of_pynative(trained):
    """Of the first step: on some processors a graph rounds a gradient otherwise, and then the weights differ."""
    got, expected = (all_records(trained("odd", way).data(STEPS[0])) for way in ("graph", "python"))
    cells = ("first-layer", "pair", "named", "listed.0", "listed.1", "kinds", "head", "idle")
    forward = {
        place: record
        for place, record in expected.items()
        if ".forward.0." in place and place.split(".forward.")[0].startswith(tuple(f"Cell.{c}." for c in cells))
    }
    assert len(forward) > 40
    assert forward == {place: got[place] for place in forward}


def test_the_structure_of_arguments_and_results(trained):
    entry = trained("odd", "graph").data(0)["Cell.pair.Pair.forward.0"]
    (pair, many), named, (left, more, seven) = entry["input_args"], entry["input_kwargs"], entry["output"]
    assert [len(pair), list(many), list(named), list(more)] == [2, ["a", "b"], ["times", "scale"], ["b", "unused"]]
    assert (named["times"], seven) == ({"type": "int", "value": 3}, {"type": "int", "value": 7})
    arrays = trained("odd", "graph").arrays(0)
    parts = {place: arrays[f"Cell.pair.Pair.forward.0.{place}"] for place in ("input.0.0", "input.0.1")}
    assert left["data_name"] == "Cell.pair.Pair.forward.0.output.0.npy"
    assert more["b"]["data_name"] == "Cell.pair.Pair.forward.0.output.1.b.npy"
    a = arrays["Cell.pair.Pair.forward.0.input.1.a"]
    weight = arrays["Cell.pair.Pair.forward.0.parameters.weight"]
    scaled = (parts["input.0.0"] * weight + parts["input.0.1"]) * np.float32(3) + a
    np.testing.assert_array_equal(arrays["Cell.pair.Pair.forward.0.output.0"], scaled)
    (named,) = trained("odd", "graph").data(0)["Cell.named.Named.forward.0"]["output"]
    assert list(named) == ["x", "count"]


def test_a_result_that_nobody_uses_has_no_gradient_nor_has_a_text(trained):
    entry = trained("odd", "graph").data(0)["Cell.pair.Pair.backward.0"]
    left, more, seven = entry["input"]
    assert left["shape"] == [2, 4]
    assert (more["b"]["shape"], more["unused"], seven) == ([2, 4], None, None)
    pair, many, times, _ = entry["output"]
    assert [part["shape"] for part in (*pair, many["a"], many["b"])] == [[2, 4]] * 4
    assert times is None
    arrays, python = (trained("odd", way).arrays(0) for way in ("graph", "python"))
    first, again = (f"Cell.pair.Pair.backward.0.output.{place}" for place in ("0.0", "1.a"))
    assert trained("odd", "python").data(0)["Cell.pair.Pair.backward.0"]["output"][0][0]["gradient"] == "accumulated"
    np.testing.assert_allclose(
        arrays[first] + arrays[again], python[first], rtol=1e-6, err_msg="one tensor, given twice"
    )
    assert "Cell.idle.Dense.backward.0" not in trained("odd", "graph").data(0), "behind stop_gradient"


def test_every_kind_of_tensor_arrives(trained):
    entry = trained("odd", "graph").data(1)["Cell.kinds.Kinds.forward.0"]
    described = [(record["dtype"], record["shape"]) for record in entry["input_args"]]
    assert described == [
        *(
            ("Float16", [2, 4]),
            ("BFloat16", [2, 4]),
            ("Int32", [2, 4]),
            ("Bool", [2, 4]),
            ("Float32", []),
            ("Float32", [0, 4]),
        ),
    ]
    arrays = trained("odd", "graph").arrays(1)
    half, brain, _, _, alone, empty = (arrays[f"Cell.kinds.Kinds.forward.0.input.{n}"] for n in range(6))
    assert (alone.shape, empty.shape, half.dtype, brain.dtype) == ((), (0, 4), np.float16, np.float32)
    assert np.array_equal(brain.view(np.uint32) & 0xFFFF, np.zeros((2, 4))), "a bfloat16 is the upper half of a float32"
    assert np.isclose(alone, arrays["Cell.listed.1.Tanh.forward.0.output.0"].mean(), rtol=1e-6)


def test_a_recomputed_cell_is_recorded_once_and_its_values_are_right(trained):
    calls = trained("odd", "graph").calls(0)
    again = [name for name in calls if name.startswith("Cell.again.SequentialCell")]
    assert again == ["Cell.again.SequentialCell.forward.0", "Cell.again.SequentialCell.backward.0"]
    ours, python = trained("odd", "graph").arrays(0), trained("odd", "python").arrays(0)
    for part in ("forward.0.input.0", "forward.0.output.0", "backward.0.input.0", "backward.0.output.0"):
        name = f"Cell.again.SequentialCell.{part}"
        assert ours[name].tobytes() == python[name].tobytes()
    inside, theirs = "Cell.again.0.Dense.backward.0.output.0", "Cell.again.0.Dense.backward.1.output.0"
    assert ours[inside].tobytes() == python[theirs].tobytes(), "PyNative calls the second run 1"


def test_a_cell_with_its_own_bprop_has_a_forward_only(trained):
    ours = trained("odd", "graph")
    names = [name for name in ours.calls(0) if "own" in name]
    assert names == ["Cell.own.inner.Tanh.forward.0", "Cell.own.Doubled.forward.0"]
    arrays = ours.arrays(0)
    gradient = arrays["Cell.head.Dense.backward.0.output.0"].astype(np.float64)
    tanh = arrays["Cell.own.inner.Tanh.forward.0.output.0"].astype(np.float64)
    halved = arrays["Cell.again.SequentialCell.backward.0.input.0"]
    np.testing.assert_allclose(halved, gradient * (1 - tanh**2), rtol=1e-5, atol=1e-8)


def teardown_module():
    ms.set_context(mode=ms.PYNATIVE_MODE)
