"""Dumps that users have from earlier releases of the other tool, and from MindTorch.

The dumps of 1.3.0 and 8.3.3 are samples; how they were made is said there. What the network computes is worked out here
with numpy, from the same seed.
"""

import json
import math
import shutil

import numpy as np
import pytest

from msprobe.compare.locate import wording
from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare
from msprobe.store.reader import load_tensor, read

VERSIONS = ("1.3.0", "8.3.3")
CALLS_AND_RECORDS = [
    ("1.3.0", "ms_mix_stat", 26, 67),
    ("1.3.0", "msp_mix_stat", 26, 67),
    ("1.3.0", "ms_mix_md5", 26, 67),
    ("1.3.0", "ms_L0_tensor", 8, 20),
    ("1.3.0", "pt_mix_stat", 26, 73),
    ("8.3.3", "ms_mix_stat", 26, 67),
    ("8.3.3", "msp_mix_stat", 26, 67),
    ("8.3.3", "ms_mix_md5", 26, 67),
    ("8.3.3", "ms_L0_tensor", 8, 20),
    ("8.3.3", "pt_mix_stat", 21, 57),
]


@pytest.fixture
def step(samples):
    """`step("1.3.0", "ms_mix_stat")`: the folder of a step."""
    return lambda version, dump: samples / version / "dumps" / dump / "step0"


@pytest.fixture(scope="module")
def net():
    """The sample network's tensors, by what the dumps call them; biases are zero."""
    draw = np.random.default_rng(3)
    w1 = (draw.standard_normal((32, 16)) / 16).astype(np.float32)
    w2 = (draw.standard_normal((8, 32)) / 32).astype(np.float32)
    x, y = (draw.standard_normal(shape).astype(np.float32) for shape in ((2, 16), (2, 8)))
    hidden = x @ w1.T
    active = np.maximum(hidden, 0)
    result = active @ w2.T
    loss_gradient = 2 * (result - y) / result.size
    return {
        "fc1.forward.0.input.0": x,
        "fc1.forward.0.parameters.weight": w1,
        "fc1.forward.0.output.0": hidden,
        "act.forward.0.output.0": active,
        "fc2.forward.0.parameters.weight": w2,
        "fc2.forward.0.output.0": result,
        "fc2.backward.0.input.0": loss_gradient,
        "fc2.backward.0.output.0": loss_gradient @ w2,
    }


def by_name(dump):
    return {record.name: record for call in dump.calls for record in call.records}


def in_dump(name):
    """`fc1.forward.0.input.0` as the dumps name it."""
    cell, rest = name.split(".", 1)
    return f"Cell.{cell}.{'ReLU' if cell == 'act' else 'Dense'}.{rest}"


@pytest.mark.parametrize(("version", "name", "calls", "records"), CALLS_AND_RECORDS)
def test_every_call_and_record_is_read(step, version, name, calls, records):
    dump = read(step(version, name))
    assert (len(dump.calls), sum(len(call.records) for call in dump.calls)) == (calls, records)
    assert dump.framework == ("pytorch" if name.startswith("pt") else "mindspore")
    assert (dump.task, dump.level) == (
        "tensor" if "tensor" in name else "statistics",
        "L0" if "L0" in name else "mix",
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_statistics_are_those_of_the_network(step, net, version):
    records = by_name(read(step(version, "ms_mix_stat")))
    for name, array in net.items():
        record = records[in_dump(name)]
        assert (record.dtype, record.shape) == ("Float32", array.shape)
        wide = array.astype(np.float64)
        wanted = (wide.max(), wide.min(), wide.mean(), math.sqrt(math.fsum(wide.ravel() ** 2)))
        found = record.statistics
        assert (found.max, found.min, found.mean, found.norm) == pytest.approx(wanted, rel=1e-4, abs=1e-7), name
    loss = records["Mint.mean.0.forward.output.0"]
    assert loss.shape == ()
    assert loss.statistics.max == loss.statistics.norm == pytest.approx(0.6432803869247437, abs=1e-15)


@pytest.mark.parametrize("version", VERSIONS)
def test_tensors_are_those_of_the_network(step, net, version):
    dump = read(step(version, "ms_L0_tensor"))
    records = by_name(dump)
    for name, array in net.items():
        assert np.allclose(load_tensor(dump, records[in_dump(name)]), array, rtol=1e-4, atol=1e-6), name


def test_values_that_are_no_tensors_are_read(step):
    """`Dense` asks for the shape of its input, which gives two integers."""
    for version in VERSIONS:
        records = by_name(read(step(version, "ms_mix_stat")))
        shape = [records[f"Primitive.shape_op.Shape.0.forward.output.{n}"] for n in (0, 1)]
        assert [(record.kind, record.type, record.value) for record in shape] == [
            ("value", "int", 2),
            ("value", "int", 16),
        ]


def test_digests_are_read(step):
    """The bias of fc1 is 32 zeros of float32; CRC-32 of 128 zero bytes is c2a8fa9d."""
    for version in VERSIONS:
        records = by_name(read(step(version, "ms_mix_md5")))
        assert records["Cell.fc1.Dense.forward.0.parameters.bias"].digest == "c2a8fa9d"


def test_pytorch_names_and_types_are_read(step, net):
    for version in VERSIONS:
        records = by_name(read(step(version, "pt_mix_stat")))
        weight = records["Functional.linear.0.forward.input.1"]
        assert (weight.type, weight.dtype, weight.shape) == ("torch.Tensor", "torch.float32", (32, 16))
        assert weight.statistics.max == float(net["fc1.forward.0.parameters.weight"].max())


def test_both_layouts_of_stacks_are_read(step):
    """1.3 writes a list of frames for each call, later releases groups of calls; the user's own lines are the same."""
    layouts = {
        version: json.loads((step(version, "ms_mix_stat") / "rank" / "stack.json").read_text()) for version in VERSIONS
    }
    assert "Primitive.relu.ReLU.0.forward" in layouts["1.3.0"]
    assert "0" in layouts["8.3.3"]
    for version in VERSIONS:
        calls = {call.name: call for call in read(step(version, "ms_mix_stat")).calls}
        own = [frame for frame in calls["Primitive.relu.ReLU.0.forward"].stack if "/home/user/train/" in frame]
        assert own[:2] == [
            "File /home/user/train/train_ms.py, line 30, in construct, \n return self.fc2(self.act(self.fc1(x)))",
            "File /home/user/train/train_ms.py, line 36, in construct, \n "
            "return ms.mint.mean(ms.mint.square(self.model(x) - y))",
        ]
        assert calls["Primitive.relu.ReLU.0.backward"].stack == ()


def test_enclosing_cells_are_read(step):
    for version in VERSIONS:
        parents = {call.name: call.parent for call in read(step(version, "ms_mix_stat")).calls}
        assert parents["Primitive.relu.ReLU.0.forward"] == "Cell.act.ReLU.forward.0"
        assert parents["Primitive.matmul.MatMul.1.backward"] == "Cell.fc2.Dense.backward.0"
        assert parents["Mint.mean.0.forward"] is None


@pytest.mark.parametrize(("folder", "rank"), [("rank", 0), ("rank0", 0), ("rank7", 7), ("proc123", 0)])
def test_every_name_of_a_rank_s_folder_is_found(step, tmp_path, folder, rank):
    """A process that knew no rank was alone: rank 0."""
    shutil.copytree(step("1.3.0", "ms_mix_stat") / "rank", tmp_path / "step3" / folder)
    dump = read(tmp_path / "step3")
    assert (dump.step, dump.rank, len(dump.calls)) == (3, rank, 26)


@pytest.mark.parametrize(("version", "name", "calls", "records"), CALLS_AND_RECORDS)
def test_a_dump_passes_against_itself(step, version, name, calls, records):
    found = compare(read(step(version, name)), read(step(version, name)))
    assert (found.counts["pass"], sum(found.counts.values()), found.is_clean) == (records, records, True)
    assert locate(found).findings == ()


def test_two_releases_of_the_tool_agree_on_one_network(step):
    found = compare(read(step("1.3.0", "ms_mix_stat")), read(step("8.3.3", "ms_mix_stat")))
    assert (found.counts["pass"], sum(found.counts.values()), found.is_clean) == (67, 67, True)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_changed_weight_is_named(step, version):
    first = locate(compare(read(step(version, "msp_mix_stat")), read(step(version, "ms_mix_stat")))).first
    assert (first.name, first.cell, first.kind.name, wording.reason(first)) == (
        "Primitive.matmul.MatMul.0.forward",
        "fc1",
        "parameters differ",
        "1 parameter differs: fc1.weight",
    )
    assert (first.file, first.line) == ("/home/user/train/train_ms.py", 30)


HAND_WRITTEN = """
{
 "task": "statistics", "level": "mix", "framework": "mindtorch", "dump_data_dir": null, "invented": {"later": 1},
 "data": {
  "Functional.linear.0.forward": {
   "input_args": [
    {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2, 2], "tensor_stat_index": 7},
    {"requires_grad": true, "Norm": 5.0, "Mean": 0.5, "Min": -3.0, "Max": 4.0, "shape": [2], "dtype": "Float32",
     "type": "mindspore.Tensor", "hsdp_shard_size": 2, "layout": {"Alias Name": ["dp"]}, "invented": [1, 2]},
    {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2], "Max": NaN, "Min": -Infinity, "Mean": NaN,
     "Norm": Infinity, "requires_grad": false}
   ],
   "input_kwargs": {"bias": null,
                    "group": {"type": "mindspore.ProcessGroup", "group_ranks": [0, 1], "group_id": "0badcafe"}},
   "is_recompute": false,
   "invented": "later",
   "output": [{"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2, 2], "md5_index": 3, "tensor_stat_index": 8}]
  },
  "Module.fc1.Linear.forward.0": {"input_args": [], "input_kwargs": {}, "output": [{"type": "int", "value": 3}]}
 }
}
"""


@pytest.fixture
def mindtorch(tmp_path):
    """A dump of MindTorch: MindSpore's tensors under PyTorch's names."""
    rank = tmp_path / "step0" / "proc4711"
    rank.mkdir(parents=True)
    (rank / "dump.json").write_text(HAND_WRITTEN)
    (rank / "construct.json").write_text('{"Functional.linear.0.forward": "Module.fc1.Linear.forward.0"}')
    (rank / "stack.json").write_text(
        '{"Functional.linear.0.forward": ["File /home/user/net.py, line 3, in forward, \\n y = f(x)"]}'
    )
    return read(tmp_path / "step0")


def test_mindtorch_is_read(mindtorch):
    assert (mindtorch.framework, mindtorch.rank) == ("mindtorch", 0)
    call = mindtorch.calls[0]
    assert (call.name, call.parent) == ("Functional.linear.0.forward", "Module.fc1.Linear.forward.0")
    assert call.stack == ("File /home/user/net.py, line 3, in forward, \n y = f(x)",)
    names = [record.name.removeprefix("Functional.linear.0.forward.") for record in call.records]
    assert names == ["input.0", "input.1", "input.2", "input.bias", "input.group", "output.0"]


def test_unknown_keys_and_another_order_of_keys_make_no_difference(mindtorch):
    record = by_name(mindtorch)["Functional.linear.0.forward.input.1"]
    assert (record.dtype, record.shape) == ("Float32", (2,))
    assert (record.statistics.max, record.statistics.min) == (4.0, -3.0)
    assert (record.statistics.mean, record.statistics.norm) == (0.5, 5.0)


def test_bare_nan_and_infinity_are_read(mindtorch):
    found = by_name(mindtorch)["Functional.linear.0.forward.input.2"].statistics
    assert (found.min, found.norm) == (-math.inf, math.inf)
    assert math.isnan(found.max)
    assert math.isnan(found.mean)


def test_what_was_left_of_a_placeholder_is_missing_statistics(mindtorch):
    """The index of statistics that were never written says nothing: no number, and no verdict."""
    records = by_name(mindtorch)
    for name in ("input.0", "output.0"):
        record = records[f"Functional.linear.0.forward.{name}"]
        assert (record.kind, record.shape, record.statistics, record.digest) == ("tensor", (2, 2), None, "")
    counts = compare(mindtorch, mindtorch).counts
    assert (counts["unjudged"], counts["pass"], counts["error"], counts["warning"]) == (2, 5, 0, 0)


def test_mindtorch_against_pytorch_is_compared_by_name(mindtorch, tmp_path):
    """One call of either, of the same name, with the same numbers: families of dtypes count, not their names."""
    text = HAND_WRITTEN.replace('"mindtorch"', '"pytorch"').replace("mindspore.Tensor", "torch.Tensor")
    rank = tmp_path / "pytorch" / "step0" / "rank0"
    rank.mkdir(parents=True)
    (rank / "dump.json").write_text(text.replace('"Float32"', '"torch.float32"').replace("mindspore.P", "torch.P"))
    counts = compare(mindtorch, read(rank)).counts
    assert (counts["unjudged"], counts["pass"], counts["error"], counts["warning"]) == (2, 5, 0, 0)
