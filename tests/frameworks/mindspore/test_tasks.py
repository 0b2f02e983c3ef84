"""What the settings of a task ask for: structure, digests, files of some calls, parts, filters, and writing later."""

import json
import zlib
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.base.digest import KINDS
from msprobe.base.errors import SettingsError
from msprobe.frameworks.mindspore.autograd import HAS_NODES

pytestmark = pytest.mark.mindspore

X = np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)
W = np.linspace(0.5, 2.0, 4, dtype=np.float32)


class Scale(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w = Parameter(Tensor(W), name="w")

    def construct(self, x):
        return ops.tanh(ops.mul(x, self.w))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.a, self.b = Scale(), Scale()

    def construct(self, x):
        return ops.sum(self.b(self.a(x)))


@pytest.fixture
def configured(tmp_path, collecting):
    """Makes a debugger of a configuration file."""

    def make(task="statistics", level="mix", common=None, **section):
        config = tmp_path / "config.json"
        config.write_text(json.dumps({"dump_path": "x", "task": task, **(common or {}), task: section}))
        return collecting(config_path=str(config), level=level)

    return make


def train(net):
    return ms.value_and_grad(net, 0, net.trainable_params())(Tensor(X))


def collect(debugger, net=None):
    net = net or Net()
    debugger.start(net)
    train(net)
    debugger.stop()
    debugger.step()
    return net


def files(dump):
    return sorted(p.name for p in (dump.folder / "dump_tensor_data").glob("*.npy"))


def records(value):
    """Every tensor's record inside an entry."""
    if isinstance(value, dict):
        if "shape" in value:
            yield value
        else:
            for inner in value.values():
                yield from records(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from records(inner)


def crc32c(array):
    """The other digest, bit by bit from its polynomial."""
    state = 0xFFFFFFFF
    for byte in np.ascontiguousarray(array).tobytes():
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return f"crc32c:{state ^ 0xFFFFFFFF:08x}"


def crc(array):
    return f"{zlib.crc32(np.ascontiguousarray(array).tobytes()):08x}"


# ---- structure


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_structure_has_the_nesting_and_the_stacks_that_statistics_have_and_no_values(level, configured, dumped):
    structure, statistics = configured("structure", level), configured("statistics", level)
    for debugger in (structure, statistics):
        collect(debugger)
    ours, full = dumped(structure), dumped(statistics)
    assert ours.dump["data"] == {}
    assert ours.dump["task"] == "structure"
    assert ours.dump["dump_data_dir"] is None
    assert ours.construct == full.construct
    assert "Cell.a.Scale.backward.0" in ours.construct
    named = [
        {name for names, _ in json.loads((d.folder / "stack.json").read_text()).values() for name in names}
        for d in (ours, full)
    ]
    assert named[0] == named[1] != set()
    assert not (ours.folder / "dump_tensor_data").exists()


@pytest.mark.parametrize("level", ["L1", "debug"])
def test_structure_at_a_level_without_nesting_becomes_mix(level, configured, dumped):
    debugger = configured("structure", level)
    collect(debugger)
    dump = dumped(debugger)
    assert dump.dump["level"] == "mix"
    assert dump.construct["Functional.tanh.0.forward"] == "Cell.a.Scale.forward.0"


# ---- digests


def test_digests_of_a_statistics_dump_are_the_crc_of_the_bytes(configured, dumped):
    debugger = configured(summary_mode="md5")
    net = collect(debugger)
    bare, (input_gradient, (a_gradient, b_gradient)) = train(Net())
    data = dumped(debugger).data
    first = data["Cell.a.Scale.forward.0"]
    assert first["input_args"][0]["md5"] == crc(X)
    assert first["parameters"]["w"]["md5"] == crc(W)
    assert first["output"][0]["md5"] == crc(net.a(Tensor(X)).asnumpy())
    assert data["Functional.sum.0.forward"]["output"][0]["md5"] == crc(bare.asnumpy())
    assert data["Cell.b.Scale.backward.0"]["input"][0]["md5"] == crc(np.ones_like(X))
    assert data["Cell.a.Scale.backward.0"]["output"][0]["md5"] == crc(input_gradient.asnumpy())
    assert data["Cell.a.Scale.parameters_grad"]["w"][0]["md5"] == crc(a_gradient.asnumpy())
    assert data["Cell.b.Scale.parameters_grad"]["w"][0]["md5"] == crc(b_gradient.asnumpy())
    found = [record for entry in data.values() for record in records(entry)]
    assert all("md5" in record and "data_name" not in record for record in found)
    assert {"Max", "Min", "Mean", "Norm"} <= set(found[0]), "beside the statistics, not in place of them"


def test_digests_of_a_tensor_dump_are_those_of_its_files_and_stand_before_their_names(configured, dumped):
    debugger = configured("tensor", summary_mode="md5")
    collect(debugger)
    dump = dumped(debugger)
    found = [record for entry in dump.data.values() for record in records(entry)]
    assert len(found) > 20
    for record in found:
        saved = np.load(dump.folder / "dump_tensor_data" / record["data_name"])
        assert record["md5"] == crc(saved)
        keys = [key for key in record if key in ("Norm", "md5", "data_name")]
        assert keys == ["Norm", "md5", "data_name"]


@pytest.mark.parametrize("mode", KINDS)
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_digests_of_every_dtype_and_of_views(task, mode, configured, dumped):
    cases = {
        "bfloat16": (Tensor(X, ms.bfloat16), Tensor(X, ms.bfloat16).astype(ms.float32).asnumpy()),
        "float16": (Tensor(X, ms.float16), X.astype(np.float16)),
        "bool": (Tensor(X > 0), X > 0),
        "int64": (Tensor((X * 10).astype(np.int64)), (X * 10).astype(np.int64)),
        "row": (Tensor(X)[1], X[1]),
        "transposed": (Tensor(X).T, X.T),
        "columns": (Tensor(X)[:, 1:3], X[:, 1:3]),
        "columns of bfloat16": (
            Tensor(X, ms.bfloat16)[:, 1:3],
            Tensor(X, ms.bfloat16).astype(ms.float32).asnumpy()[:, 1:3],
        ),
        "scalar": (Tensor(2.5, ms.float32), np.float32(2.5)),
        "empty": (Tensor(X)[1:1], X[1:1]),
    }

    class Same(nn.Cell):
        def construct(self, *xs):
            return xs[0]

    debugger, net = configured(task, "L0", summary_mode=mode), nn.SequentialCell(Same())
    debugger.start(nn.CellList([net]))
    net[0](*[tensor for tensor, _ in cases.values()])
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    found = next(iter(dump.data.values()))["input_args"]
    expected = {name: crc(array) if mode == "md5" else crc32c(array) for name, (_, array) in cases.items()}
    assert {n: r["md5"] for n, r in zip(cases, found, strict=True)} == expected
    assert all({"Max", "Min", "Mean", "Norm"} <= set(record) for record in found)
    if task == "tensor":
        for record, (_, array) in zip(found, cases.values(), strict=True):
            saved = np.load(dump.folder / "dump_tensor_data" / record["data_name"])
            np.testing.assert_array_equal(saved, array)
            assert saved.dtype == array.dtype


def test_without_md5_there_are_no_digests(configured, dumped):
    debugger = configured("tensor")
    collect(debugger)
    assert not any("md5" in record for entry in dumped(debugger).data.values() for record in records(entry))


# ---- files of some calls


def test_a_tensor_list_saves_the_tensors_of_the_calls_that_it_names_and_of_no_other(configured, dumped):
    debugger = configured(tensor_list=["Cell.a.Scale", "sum"])
    collect(debugger)
    dump = dumped(debugger)
    assert dump.dump["dump_data_dir"] == str(dump.folder / "dump_tensor_data")
    assert files(dump) == [
        "Cell.a.Scale.backward.0.input.0.npy",
        "Cell.a.Scale.backward.0.output.0.npy",
        "Cell.a.Scale.forward.0.input.0.npy",
        "Cell.a.Scale.forward.0.output.0.npy",
        "Cell.a.Scale.forward.0.parameters.w.npy",
        "Cell.a.Scale.parameters_grad.w.npy",
        "Functional.sum.0.backward.input.0.npy",
        "Functional.sum.0.backward.output.0.npy",
        "Functional.sum.0.forward.input.0.npy",
        "Functional.sum.0.forward.output.0.npy",
    ]
    for name, entry in dump.data.items():
        saved = "Cell.a.Scale" in name or "sum" in name
        for record in records(entry):
            assert ("data_name" in record) == saved, name
            if saved:
                array = np.load(dump.folder / "dump_tensor_data" / record["data_name"])
                assert (record["Max"], record["Min"]) == (float(array.max()), float(array.min()))
    np.testing.assert_array_equal(
        np.load(dump.folder / "dump_tensor_data" / "Cell.a.Scale.parameters_grad.w.npy"),
        train(Net())[1][1][0].asnumpy(),
    )


def test_a_tensor_list_beside_a_list_saves_what_both_name(configured, dumped):
    debugger = configured(level="L1", list=["tanh"], tensor_list=["tanh.1"])
    collect(debugger)
    dump = dumped(debugger)
    assert set(dump.data) == {f"Functional.tanh.{n}.{d}" for n in (0, 1) for d in ("forward", "backward")}
    assert {name.split(".")[2] for name in files(dump)} == {"1"}


# ---- parts


@pytest.mark.parametrize(
    ("mode", "forward", "backward", "gradients"),
    [
        (["all"], {"input_args", "input_kwargs", "output", "parameters"}, {"input", "output"}, True),
        (["forward"], {"input_args", "input_kwargs", "output", "parameters"}, None, False),
        (["backward"], None, {"input", "output"}, True),
        (["input"], {"input_args", "input_kwargs", "parameters"}, {"input"}, True),
        (["output"], {"output", "parameters"}, {"output"}, True),
        (["forward", "input"], {"input_args", "input_kwargs", "parameters"}, None, False),
        (["forward", "output"], {"output", "parameters"}, None, False),
        (["backward", "input"], None, {"input"}, True),
        (["backward", "output"], None, {"output"}, True),
        (["forward", "backward"], {"input_args", "input_kwargs", "output", "parameters"}, {"input", "output"}, True),
        (["forward", "backward", "output"], {"output", "parameters"}, {"output"}, True),
        (["input", "output"], {"input_args", "input_kwargs", "output", "parameters"}, {"input", "output"}, True),
    ],
)
def test_the_parts_of_a_cells_entries_follow_data_mode(mode, forward, backward, gradients, configured, dumped):
    debugger = configured(level="L0", data_mode=mode)
    collect(debugger)
    dump = dumped(debugger)
    for name, keys in (("Cell.a.Scale.forward.0", forward), ("Cell.a.Scale.backward.0", backward)):
        assert (set(dump.data[name]) if name in dump.data else None) == keys
    assert ("Cell.a.Scale.parameters_grad" in dump.data) == gradients
    assert "Cell.a.Scale.forward.0" in dump.construct, "every executed call, whatever is kept of it"


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_without_extra_info_there_are_no_stacks_and_no_nesting(task, configured):
    debugger = configured(task, common={"extra_info": False})
    collect(debugger)
    folder = Path(debugger._settings.dump_path) / "step0" / "rank"
    assert json.loads((folder / "dump.json").read_text())["data"]["Cell.a.Scale.forward.0"]
    assert not (folder / "stack.json").exists()
    assert not (folder / "construct.json").exists()


# ---- writing later


def statistics_of(dump):
    """A dump's data without the names that hold its own folder."""
    return dump.data, dump.construct, dump.dump.get("missing")


@pytest.mark.parametrize(
    ("task", "section"), [("statistics", {}), ("statistics", {"tensor_list": ["a"]}), ("tensor", {"list": ["Scale"]})]
)
@pytest.mark.parametrize("level", ["L0", "mix"])
def test_an_asynchronous_dump_is_the_same_dump(task, section, level, configured, dumped):
    later, at_once = configured(task, level, {"async_dump": True}, **section), configured(task, level, **section)
    for debugger in (later, at_once):
        collect(debugger)
    ours, plain = dumped(later), dumped(at_once)
    assert statistics_of(ours) == statistics_of(plain)
    assert files(ours) == files(plain)
    assert bool(files(plain)) == (section != {})
    for name in files(plain):
        got, expected = (np.load(d.folder / "dump_tensor_data" / name) for d in (ours, plain))
        np.testing.assert_array_equal(got, expected)


def test_an_asynchronous_dump_holds_tensors_as_they_were_at_the_call(configured, dumped):
    debugger = configured("tensor", "L1", {"async_dump": True}, list=["exp"])
    x = Tensor(np.zeros((64, 64), np.float32))
    debugger.start()
    ops.exp(x)
    x[:] = 5.0
    ops.exp(x)
    x[:] = 7.0
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    found = [np.load(dump.folder / "dump_tensor_data" / f"Functional.exp.{n}.forward.input.0.npy") for n in (0, 1)]
    assert [(a.min(), a.max()) for a in found] == [(0, 0), (5, 5)]


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_an_asynchronous_dump_has_the_same_digests(task, configured, dumped):
    section = {"summary_mode": "md5", "list": ["Scale"]}
    later, at_once = configured(task, "mix", {"async_dump": True}, **section), configured(task, "mix", **section)
    for debugger in (later, at_once):
        collect(debugger)
    ours, plain = dumped(later), dumped(at_once)
    assert statistics_of(ours) == statistics_of(plain)
    record = next(iter(ours.data.values()))["input_args"][0]
    assert len(record["md5"]) == 8
    for name in files(ours) if task == "tensor" else ():
        if name.startswith(next(iter(ours.data))) and name.endswith("input.0.npy"):
            array = np.load(ours.folder / "dump_tensor_data" / name)
            assert record["md5"] == f"{zlib.crc32(np.ascontiguousarray(array)):08x}"


def test_an_asynchronous_dump_of_every_tensor_is_refused(configured):
    with pytest.raises(SettingsError, match="list"):
        configured("tensor", common={"async_dump": True})


# ---- filters


class B(nn.Cell):
    def __init__(self):
        super().__init__()
        self.d = nn.Dense(4, 4)

    def construct(self, x):
        return ops.relu(self.d(x))


class Two(nn.Cell):
    def __init__(self):
        super().__init__()
        self.b1, self.b2 = B(), B()

    def construct(self, x):
        return ops.mean(ops.exp(self.b2(self.b1(x))))


@pytest.fixture
def positive(monkeypatch):
    """An input that relu lets through, so that gradients flow everywhere."""
    monkeypatch.setitem(globals(), "X", np.abs(X))


@pytest.mark.skipif(
    not HAS_NODES, reason="of hooks on one tensor, all there is in MindSpore 2.7.0, inner calls hear first"
)
def test_at_mix_a_cell_that_the_list_names_keeps_everything_inside(positive, configured, dumped):
    debugger = configured(list=["b1"])
    collect(debugger, Two())
    data = dumped(debugger).data
    inside = {"Cell.b1.d.Dense.forward.0", "Functional.relu.0.forward", "Cell.b1.B.forward.0"}
    inside |= {"Functional.relu.0.backward", "Cell.b1.d.Dense.backward.0", "Cell.b1.B.backward.0"}
    assert inside | {"Cell.b1.d.Dense.parameters_grad"} <= set(data)
    rest = set(data) - inside - {"Cell.b1.d.Dense.parameters_grad"}
    assert {n for n in rest if not n.startswith("Primitive.")} == set(), "and nothing else"
    assert "Primitive.matmul.MatMul.0.forward" in rest
    assert "Primitive.bias_add.BiasAdd.0.forward" in rest
    assert {n.split(".")[3] for n in rest} == {"0"}, "the primitives of b2 have number 1"


def test_at_l1_a_list_keeps_the_names_that_contain_an_element(positive, configured, dumped):
    debugger = configured(level="L1", list=["relu"])
    collect(debugger, Two())
    expected = {f"Functional.relu.{n}.{d}" for n in (0, 1) for d in ("forward", "backward")}
    assert set(dumped(debugger).data) - {n for n in dumped(debugger).data if "Primitive" in n} == expected


def test_at_l1_a_scope_keeps_everything_from_one_call_to_the_other(positive, configured, dumped):
    debugger = configured(level="L1", scope=["Functional.relu.0.forward", "Functional.exp.0.forward"])
    collect(debugger, Two())
    names = list(dumped(debugger).data)
    assert (names[0], names[-1]) == ("Functional.relu.0.forward", "Functional.exp.0.forward")
    assert "Functional.relu.1.forward" in names
    assert not any("backward" in n or "mean" in n for n in names)


@pytest.mark.skipif(
    not HAS_NODES, reason="of hooks on one tensor, all there is in MindSpore 2.7.0, inner calls hear first"
)
def test_at_l0_a_scope_may_reach_into_backward(positive, configured, dumped):
    debugger = configured(level="L0", scope=["Cell.b1.d.Dense.forward.0", "Cell.b2.d.Dense.backward.0"])
    collect(debugger, Two())
    names = [n for n in dumped(debugger).data if "parameters_grad" not in n]
    assert names == [
        "Cell.b1.d.Dense.forward.0",
        "Cell.b2.d.Dense.forward.0",
        "Cell.b2.B.forward.0",
        "Cell.b2.d.Dense.backward.0",
        "Cell.b2.B.backward.0",
    ]


def test_at_l0_a_list_is_a_filter_of_names(positive, configured, dumped):
    debugger = configured(level="L0", list=["d.Dense"])
    collect(debugger, Two())
    names = set(dumped(debugger).data)
    dense = {f"Cell.{b}.d.Dense.{d}" for b in ("b1", "b2") for d in ("forward.0", "backward.0", "parameters_grad")}
    assert names == dense


def test_nesting_is_not_filtered(positive, configured, dumped):
    filtered, full = configured(list=["nothing has this name"]), configured()
    for debugger in (filtered, full):
        collect(debugger, Two())
    assert dumped(filtered).data == {}
    assert dumped(filtered).construct == dumped(full).construct


def test_a_pattern_that_no_call_has_matched_is_told_once(configured, caplog):
    debugger, net = configured(list=["Scale", "no such call", "neither this"]), Net()
    for _ in range(2):
        collect(debugger, net)
    logged = [
        r.getMessage() for r in caplog.records if "no such call" in r.getMessage() or "neither this" in r.getMessage()
    ]
    assert len(logged) == 2
    assert not any('"Scale"' in r.getMessage() for r in caplog.records)
