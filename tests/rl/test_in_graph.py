"""MsProbe.save_data in code that the graph compiler of MindSpore reads: GRAPH_MODE and @jit."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ms = pytest.importorskip("mindspore", reason="its compiler reads the calls")

from mindspore import Tensor, nn  # noqa: E402  # only where the framework is

from msprobe.core import MsProbe  # noqa: E402
from msprobe.frameworks.mindspore.at_compile import AtCompile  # noqa: E402
from msprobe.graph_save import compiled_save  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.part(4)]

SECTION = {"msprobe": True, "dump_path": "run", "key_data_dump": True}
X = Tensor(np.array([1, 2], np.float32))


def saved(name, step=0):
    """(name, count) to (dtype, values) of what was saved under a name in a step."""
    folder = Path("run/data") / name / f"step{step}/rank0"
    records = [json.loads(line) for line in (folder / "saves.jsonl").read_text().splitlines()]
    return {
        (r["name"], r["count"]): (r["dtype"], r["data_name"], np.load(folder / r["data_name"]).tolist())
        for r in records
    }


def of_graph(function, mode):
    """A compiled form of a function of one tensor."""
    if mode == "jit":
        return ms.jit(function)

    class Net(nn.Cell):
        def construct(self, x):
            return function(x)

    ms.set_context(mode=ms.GRAPH_MODE)
    return Net()


@pytest.fixture(params=["graph", "jit"])
def compiled(request):
    """Compiles a function of one tensor, as a network in graph mode or by `@jit`."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield lambda function: of_graph(function, request.param)
    ms.set_context(mode=ms.PYNATIVE_MODE)


def nested(x):
    MsProbe.save_data("x", x)
    MsProbe.save_data(name="more", data=[x + 1, {"key": x > 1, "none": None}, (x.sum(),)])
    return x * 2


def several_times(x):
    for _ in range(2):
        x = x * 2
        MsProbe.save_data("x", x)
    return x


def kinds(x):
    MsProbe.save_data("half", x.astype(ms.float16))
    MsProbe.save_data("brain", x.astype(ms.bfloat16))
    MsProbe.save_data("empty", x[:0])
    MsProbe.save_data("scalar", x.sum().astype(ms.bfloat16))
    return x


def squares(x):
    y = x * x
    MsProbe.save_data("y", y)
    return y.sum()


def mistakes(x):
    MsProbe.save_data("number", 3)
    MsProbe.save_data({"single": x})
    MsProbe.save_string_list("texts", ["one", "two"])
    MsProbe.save_data("late", x[x > 1])
    return x + 1


@pytest.mark.parametrize("section", [None, {"msprobe": False}, SECTION | {"key_data_dump": False}])
def test_where_nothing_is_collected_the_calls_compile_to_nothing(compiled, section):
    MsProbe.config_init(section)
    assert compiled(nested)(X).asnumpy().tolist() == [2, 4]
    assert compiled(mistakes)(X).asnumpy().tolist() == [2, 3]
    MsProbe.step()
    assert not list(Path().rglob("*.npy"))


def test_the_tree_is_that_of_save_data_where_python_runs(compiled):
    MsProbe.config_init(SECTION)
    run = compiled(nested)
    for _ in range(2):
        assert run(X).asnumpy().tolist() == [2, 4]
        MsProbe.step()
    assert saved("x") == {("x", 0): ("Float32", "x_float32_0.npy", [1, 2])}
    assert saved("more") == {
        ("more.0", 0): ("Float32", "more.0_float32_1.npy", [2, 3]),
        ("more.1.key", 0): ("Bool", "more.1.key_bool_2.npy", [False, True]),
        ("more.2.0", 0): ("Float32", "more.2.0_float32_3.npy", 3),
    }
    assert saved("x", step=1) == {("x", 0): ("Float32", "x_float32_4.npy", [1, 2])}


def test_every_run_of_a_call_has_its_count(compiled):
    MsProbe.config_init(SECTION)
    run = compiled(several_times)
    MsProbe.save_data("x", X)  # where Python runs, under the same name
    run(X)
    MsProbe.step()
    run(X)
    MsProbe.step()
    values = [[2, 4], [4, 8]]
    assert [value for _, _, value in saved("x").values()] == [[1, 2], *values]
    assert list(saved("x")) == [("x", 0), ("x", 1), ("x", 2)]
    assert [value for _, _, value in saved("x", step=1).values()] == values


def test_dtypes_and_shapes_are_those_of_the_network(compiled):
    MsProbe.config_init(SECTION)
    compiled(kinds)(X)
    MsProbe.step()
    assert saved("half") == {("half", 0): ("Float16", "half_float16_0.npy", [1, 2])}
    assert saved("brain") == {("brain", 0): ("BFloat16", "brain_float32_1.npy", [1, 2])}
    assert saved("empty") == {("empty", 0): ("Float32", "empty_float32_2.npy", [])}
    assert saved("scalar") == {("scalar", 0): ("BFloat16", "scalar_float32_3.npy", 3)}


def test_a_gradient_is_what_it_is_without(compiled):
    MsProbe.config_init(SECTION)
    assert ms.grad(compiled(squares))(X).asnumpy().tolist() == [2, 4]
    MsProbe.step()
    assert saved("y")["y", 0][2] == [1, 4]


def test_what_cannot_be_saved_is_said_and_the_training_goes_on(compiled, logged):
    MsProbe.config_init(SECTION)
    assert compiled(mistakes)(X).asnumpy().tolist() == [2, 3]
    MsProbe.step()
    assert not list(Path().rglob("*.npy"))
    warnings = [line for line in logged if line.startswith("MsProbe: ")]
    for beginning in (
        "save_data: number is neither a tensor nor a container of tensors",
        "save_data in a graph takes a name and its data",
        "save_string_list: strings are constants in a graph",
        "save_data: the shape of late is unknown when the graph is compiled",
    ):
        assert sum(line.startswith(f"MsProbe: {beginning}") for line in warnings) == 1, (beginning, warnings)


def test_settings_that_come_later_hold_for_a_graph_that_is_compiled(compiled):
    MsProbe.config_init(SECTION)
    run = compiled(squares)
    run(X)
    MsProbe.step()
    MsProbe.config_init(SECTION | {"dump_path": "other"})
    run(X)
    MsProbe.step()
    MsProbe.config_init(None)
    run(X)
    MsProbe.config_init(SECTION)
    MsProbe.step()
    assert sorted(str(path) for path in Path().rglob("*.npy")) == [
        "other/data/y/step0/rank0/y_float32_0.npy",
        "run/data/y/step0/rank0/y_float32_0.npy",
    ]


ALONE = """
from msprobe.core import MsProbe
import mindspore as ms
from mindspore import Tensor, nn

class Net(nn.Cell):
    def construct(self, x):
        MsProbe.save_data("x", x)
        return x

MsProbe.config_init({"msprobe": True, "dump_path": "run", "key_data_dump": True})
ms.set_context(mode=ms.GRAPH_MODE)
Net()(Tensor([5.0], ms.float32))
"""


def test_the_framework_may_be_imported_later_and_the_end_of_the_process_waits():
    Path("alone.py").write_text(ALONE)
    done = subprocess.run([sys.executable, "alone.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert saved("x") == {("x", 0): ("Float32", "x_float32_0.npy", [5])}


def test_where_python_runs_a_method_looks_as_it_is():
    assert list(inspect.signature(MsProbe.save_data).parameters) == ["name", "data"]
    assert MsProbe.save_data.__name__ == "save_data"
    assert "Save key data" in MsProbe.save_data.__doc__


def test_on_ascend_the_operator_of_the_framework_stands_in_the_graph(compiled, monkeypatch):
    """Up to the door: what that operator does is not run here. It puts step and rank into the braces itself."""
    received = []
    monkeypatch.setattr(compiled_save._dumps, "_function", lambda: True)
    monkeypatch.setattr(compiled_save, "dump", AtCompile(lambda path, tensor: received.append(path)))
    MsProbe.config_init(SECTION)
    compiled(squares)(X)
    assert set(received) == {f"{Path('run/data/y').absolute()}/{{step}}/{{rank}}/y"}
