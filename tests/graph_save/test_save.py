"""`save` in a graph, under `@jit` and in plain Python: values, types, places, names, and what is refused."""

import json
import zlib
from collections import OrderedDict, namedtuple

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.base.errors import SettingsError, UsageError
from msprobe.frameworks.mindspore.at_compile import AtCompile
from msprobe.graph_save import compiled_save, operators
from msprobe.graph_save import save as saving
from msprobe.graph_save.transport import tensordump
from msprobe.mindspore import PrecisionDebugger, flush, save, save_grad, step

pytestmark = [pytest.mark.mindspore, pytest.mark.part(6)]

NUMPY_TYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
]
Pair = namedtuple("Pair", "p q")


def floats(*values):
    return Tensor(np.array(values, np.float32))


class Saving(nn.Cell):
    """Saves what it is given."""

    def __init__(self, folder, name="x"):
        super().__init__()
        self.folder, self.name = str(folder), name

    def construct(self, *inputs):
        for each in inputs:
            save(self.folder, self.name, each)
        return inputs[0]


# ---- values --------------------------------------------------------------------------------------------------------


def test_every_type_and_shape_is_saved_as_it_is(mode, saved):
    inputs = [np.array(v).astype(t) for t in NUMPY_TYPES for v in ([[1, 0, 3]], 1, np.zeros((0, 2)))]
    mode.ready(Saving(saved.folder))(*map(Tensor, inputs))
    records = saved.records()
    for number, (record, array) in enumerate(zip(records, inputs, strict=True)):
        got = saved.array(record)
        assert (got.dtype, got.shape, got.tobytes()) == (array.dtype, array.shape, array.tobytes())
        assert (record["shape"], record["dtype"].lower()) == (list(array.shape), str(array.dtype))
        assert (record["id"], record["count"]) == (number, number)
        assert record["data_name"] == f"x_{array.dtype}_{number}.npy"


def test_bfloat16_is_widened(mode, saved):
    inputs = [Tensor([1.5, -2.0], ms.bfloat16), Tensor(0.5, ms.bfloat16), Tensor(np.zeros((0, 2)), ms.bfloat16)]
    mode.ready(Saving(saved.folder))(*inputs)
    records = saved.records()
    arrays = [saved.array(record) for record in records]
    assert [a.tolist() for a in arrays] == [[1.5, -2.0], 0.5, []]
    assert {a.dtype for a in arrays} == {np.dtype("float32")}
    assert [r["data_name"] for r in records] == [f"x_float32_{number}.npy" for number in range(3)]
    assert {r["dtype"] for r in records} == {"BFloat16"}


def test_a_record_tells_the_statistics(mode, saved):
    array = np.array([[3, -4], [np.inf, 0]], np.float32)
    mode.ready(Saving(saved.folder))(Tensor(array))
    (record,) = saved.records()
    assert record == {
        "name": "x",
        "count": 0,
        "id": 0,
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": [2, 2],
        "Max": float("inf"),
        "Min": -4.0,
        "Mean": float("inf"),
        "Norm": float("inf"),
        "positive_inf_count": 1,
        "data_name": "x_float32_0.npy",
    }


class Nested(nn.Cell):
    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def construct(self, x, y):
        save(self.folder, "nest", {"a": x, "b": [y, (x, None, x * y)], 3: y})
        save(self.folder, "nothing", None)
        save(self.folder, "empty", [(), {}, [None]])
        return x


def test_containers_are_walked_and_none_is_passed_over(mode, saved):
    mode.ready(Nested(saved.folder))(floats(2), floats(5))
    names = ["nest.a", "nest.b.0", "nest.b.1.0", "nest.b.1.2", "nest.3"]
    assert saved.values() == dict(zip([(n, 0) for n in names], ([2.0], [5.0], [2.0], [10.0], [5.0]), strict=True))
    assert [r["data_name"] for r in saved.records()] == [f"{n}_float32_{i}.npy" for i, n in enumerate(names)]


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (OrderedDict(b=floats(1), a=floats(2)), ["x.b", "x.a"]),
        (Pair(floats(1), floats(2)), ["x.0", "x.1"]),
        ([floats(1), floats(2)], ["x.0", "x.1"]),
    ],
    ids=["OrderedDict", "namedtuple", "list"],
)
def test_containers_that_a_network_is_given(data, names, mode, saved):
    mode.ready(Saving(saved.folder))(data)
    assert [r["name"] for r in saved.records()] == names
    assert list(saved.values().values()) == [[1.0], [2.0]]


# ---- places --------------------------------------------------------------------------------------------------------


class Inner(nn.Cell):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.weight = Parameter(floats(2, 3), name="weight")

    def construct(self, x):
        save(self.folder, "weight", self.weight)
        return deeper(self.folder, x * self.weight)


def deeper(folder, x):
    deepest(folder, x)
    return x


def deepest(folder, x):
    save(folder, "deep", x)


class Places(nn.Cell):
    """Where a save may stand."""

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)
        self.inner = Inner(self.folder)

    def construct(self, x, n):
        for _ in range(2):
            x = self.inner(x)
        save(self.folder, "unused", x * 100)
        i = Tensor(0, ms.int32)
        while i < n:
            x = x + 1
            save(self.folder, "while", x)
            i = i + 1
        if x.sum() > 0:
            save(self.folder, "positive", x)
        else:
            save(self.folder, "negative", x)
        save(self.folder, "constant", ops.ones((1,), ms.float32))
        return x


def test_every_place_is_saved_in_the_order_of_the_program(mode, saved):
    """x = (1, 2), weight = (2, 3)."""
    net = mode.ready(Places(saved.folder))
    for _ in range(2):
        assert net(floats(1, 2), Tensor(2, ms.int32)).asnumpy().tolist() == [6.0, 20.0]
    once = [
        *(("weight", [2.0, 3.0]), ("deep", [2.0, 6.0]), ("weight", [2.0, 3.0]), ("deep", [4.0, 18.0])),
        ("unused", [400.0, 1800.0]),
        *(("while", [5.0, 19.0]), ("while", [6.0, 20.0])),
        *(("positive", [6.0, 20.0]), ("constant", [1.0])),
    ]
    records = saved.records()
    assert [(r["name"], saved.array(r).tolist()) for r in records] == once * 2
    assert [r["id"] for r in records] == list(range(18))
    assert [r["count"] for r in records if r["name"] == "deep"] == [0, 1, 2, 3]


@pytest.mark.parametrize("level", ["O0", "O1"])
def test_both_levels_of_compilation_save(level, compiled, saved):
    if compiled.name == "graph":
        ms.set_context(jit_config={"jit_level": level})
    compiled.ready(Places(saved.folder), **({"jit_level": level} if compiled.name == "jit" else {}))(
        floats(1, 2), Tensor(1, ms.int32)
    )
    assert saved.values()["deep", 1] == [4.0, 18.0]
    assert len(saved.records()) == 8


class InPlace(nn.Cell):
    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def construct(self, x):
        y = x * 2
        save(self.folder, "before", y)
        y += 1
        save(self.folder, "after", y)
        return y


def test_what_changes_in_place_afterwards_was_saved_as_it_was(mode, saved):
    mode.ready(InPlace(saved.folder))(floats(1, 2))
    assert saved.values() == {("before", 0): [2.0, 4.0], ("after", 0): [3.0, 5.0]}


class Masked(nn.Cell):
    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def construct(self, x):
        y = x[x > 2]
        deepest(self.folder, y)
        if x.sum() > 3:
            save(self.folder, "branch", [y * 2])
        return x * 2


def test_a_shape_that_depends_on_values(mode, saved):
    net = mode.ready(Masked(saved.folder))
    net(floats(1, 2, 3, 4))
    net(floats(5, 0))
    assert list(saved.values().values()) == [[3.0, 4.0], [6.0, 8.0], [5.0], [10.0]]
    assert [(r["name"], r["count"]) for r in saved.records()] == [
        ("deep", 0),
        ("branch.0", 0),
        ("deep", 1),
        ("branch.0", 1),
    ]


class Growing(nn.Cell):
    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def construct(self, x):
        save(self.folder, "x", x)
        x = save_grad(self.folder, "x", x * 2)
        return x.sum()


def test_an_input_of_unknown_shape_is_saved_and_its_gradient_is_refused_once(saved, logged):
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Growing(saved.folder)
    net.set_inputs(Tensor(shape=[None], dtype=ms.float32))
    assert [net(floats(*range(n))).asnumpy().item() for n in (2, 3)] == [2.0, 6.0]
    assert list(saved.values().values()) == [[0.0, 1.0], [0.0, 1.0, 2.0]]
    late, refused = logged()
    assert "save(): the shape of x is unknown when the graph is compiled; it is saved from Python" in late
    assert "its gradient is not saved; use inputs of fixed shapes" in refused


@pytest.mark.parametrize("capture", ["ast", "bytecode"])
def test_jit_of_a_function(capture, saved):
    folder = str(saved.folder)

    @ms.jit(capture_mode=capture)
    def double(x):
        y = x * 2
        save(folder, "y", y)
        return y

    for k in (1, 2):
        double(floats(k))
    assert saved.values() == {("y", 0): [2.0], ("y", 1): [4.0]}


# ---- steps ---------------------------------------------------------------------------------------------------------


@pytest.mark.always
def test_a_step_begins_a_folder_and_the_counts_but_not_the_ids(mode, saved):
    net = mode.ready(Saving(saved.folder))
    for k in range(3):
        net(floats(k), floats(k))
        step()
    assert saved.files() == sorted(
        f"step{s}/rank0/{name}"
        for s in range(3)
        for name in ("saves.jsonl", f"x_float32_{2 * s}.npy", f"x_float32_{2 * s + 1}.npy")
    )
    assert [[(r["count"], r["id"]) for r in saved.records(s)] for s in range(3)] == [
        [(0, 0), (1, 1)],
        [(0, 2), (1, 3)],
        [(0, 4), (1, 5)],
    ]


class Calling(nn.Cell):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def construct(self, x):
        if self.function == "step":
            step()
        else:
            flush()
        return x


@pytest.mark.parametrize("function", ["step", "flush"])
def test_a_step_inside_of_a_graph_is_refused(function, compiled, saved):
    with pytest.raises(UsageError, match=rf"^{function}\(\) was called inside a graph; call it between two steps"):
        compiled.ready(Calling(function))(floats(1))


# ---- what is refused -----------------------------------------------------------------------------------------------


class Wrong(nn.Cell):
    def __init__(self, folder, what):
        super().__init__()
        self.folder, self.what = str(folder), what

    def construct(self, x):
        if self.what == "number":
            save(self.folder, "n", 1)
        if self.what == "text":
            save(self.folder, "n", "text")
        if self.what == "inside":
            save(self.folder, "n", {"a": x, "b": [x, 2.0]})
        if self.what == "name":
            save(self.folder, 3, x)
        if self.what == "no name":
            save(self.folder, "", x)
        if self.what == "folder":
            save(None, "n", x)
        if self.what == "gradients":
            x = save_grad(self.folder, "n", [x, x])[0]
        if self.what == "gradient name":
            x = save_grad(self.folder, None, x)
        return x


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("number", r"save\(\): n is (int|neither a tensor nor a container); pass a Tensor"),
        ("text", r"save\(\): n is (str|neither a tensor nor a container); pass a Tensor"),
        ("inside", r"save\(\): n\.b\.1 is (float|neither a tensor nor a container); pass a Tensor"),
        ("name", r"save\(\): name is 3; pass a string"),
        ("no name", r"save\(\): name is ''; pass a string"),
        ("folder", r"save\(\): save_dir is None; pass a string"),
        ("gradients", r"save_grad\(\): n is not a Tensor; pass a Tensor"),
        ("gradient name", r"save_grad\(\): name is None; pass a string"),
    ],
)
def test_a_wrong_argument_is_a_type_error_and_nothing_is_saved(what, message, mode, saved):
    with pytest.raises(TypeError, match=f"^{message}"):
        mode.ready(Wrong(saved.folder, what))(floats(1))
    assert saved.files() == []


def test_a_wrong_setting_is_refused_at_the_call(mode, saved, monkeypatch):
    monkeypatch.setenv("MSPROBE_SAVE", "statistic")
    with pytest.raises(
        SettingsError, match=r'^environment variable MSPROBE_SAVE: "statistic" is invalid; choose from tensor, stat'
    ):
        mode.ready(Saving(saved.folder))(floats(1))


# ---- settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["statistics", "md5", "crc32c"])
def test_without_tensors_the_index_has_the_statistics(task, mode, saved, monkeypatch):
    monkeypatch.setenv("MSPROBE_SAVE", task)
    array = np.array([1, 2, 4.5], np.float32)
    mode.ready(Saving(saved.folder))(Tensor(array))
    assert saved.files() == ["step0/rank0/saves.jsonl"]
    (record,) = saved.records()
    wide = array.astype(np.float64)
    assert (record["Max"], record["Min"], record["Mean"]) == (4.5, 1.0, 2.5)
    assert record["Norm"] == pytest.approx(float(np.sqrt((wide**2).sum())), rel=1e-12)
    # the second is CRC-32C of 0000803f 00000040 00009040, bit by bit from its polynomial
    expected = {"md5": f"{zlib.crc32(array.tobytes()):08x}", "crc32c": "crc32c:035c2aff"}
    assert record.get("md5") == expected.get(task)


# ---- Ascend --------------------------------------------------------------------------------------------------------


def test_on_ascend_the_operator_of_the_framework_stands_in_the_graph(compiled, saved, monkeypatch):
    """Up to the door: what that operator does is not run here. It puts step and rank into the braces itself."""
    assert operators._DEVICE == "Ascend"
    received = []
    monkeypatch.setattr(compiled_save._dumps, "_function", lambda: True)
    monkeypatch.setattr(compiled_save, "dump", AtCompile(lambda path, tensor: received.append(path)))
    compiled.ready(Nested("./dump/"))(floats(1), floats(2))
    assert sorted(set(received)) == [f"./dump/{{step}}/{{rank}}/nest.{n}" for n in ("3", "a", "b.0", "b.1.0", "b.1.2")]


def test_on_ascend_so_it_does_for_gradients(compiled, saved, monkeypatch):
    """The graph is compiled to its end, and only then refused: a CPU has no kernel for the operator."""
    monkeypatch.setattr(compiled_save._dumps, "_function", lambda: True)

    def square(x):
        return (save_grad("./dump", "x", x) * x).sum()

    with pytest.raises(RuntimeError, match=r"Unsupported op \[TensorDump\] on CPU"):
        ms.jit(ms.grad(square))(floats(1))


def test_on_ascend_a_step_is_told_to_the_framework(saved, monkeypatch):
    received = []
    monkeypatch.setattr(saving, "has_tensor_dump", lambda: True)
    monkeypatch.setattr(tensordump, "dump", lambda name, tensor: received.append(name))
    step()
    assert received == ["<tensordump-update-step>"]


# ---- beside a debugger ---------------------------------------------------------------------------------------------


class Hidden(nn.Cell):
    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def construct(self, x):
        y = ops.tanh(x)
        if self.folder:
            save(self.folder, "y", y)
            y = save_grad(self.folder, "y", y)
        return ops.sum(y * y)


def test_a_debugger_that_collects_does_not_see_our_own_calls(saved, tmp_path):
    dumps = []
    for folder in ("", str(saved.folder)):
        debugger = PrecisionDebugger(level="mix", dump_path=str(tmp_path / f"dump{len(dumps)}"))
        debugger.start(net := Hidden(folder))
        ms.grad(net)(floats(1, 2))
        debugger.stop()
        flush()
        debugger.step()
        (dump,) = (tmp_path / f"dump{len(dumps)}").rglob("dump.json")
        dumps.append(list(json.loads(dump.read_text())["data"]))
        PrecisionDebugger._known.pop(debugger._settings, None)
    PrecisionDebugger._latest = None
    assert "Functional.tanh.0.backward" in dumps[0]
    assert dumps[0] == dumps[1]
    assert len(saved.records()) == 2
