"""What the user saves by hand: values, gradients, names and files, against values worked out independently."""

import json
import re
import subprocess
import sys
import zlib
from collections import OrderedDict, namedtuple
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from msprobe.base import log
from msprobe.base.sections import StatisticsSettings, TensorSettings
from msprobe.base.settings import Settings
from msprobe.cell_dump.mindspore_side.at_save import in_graph
from msprobe.cell_dump.mindspore_side.framework import FRAMEWORK
from msprobe.cell_dump.mindspore_side.gradient import HAS_NODES
from msprobe.cell_dump.saves import Saves
from msprobe.cli import main
from msprobe.mindspore_debugger import PrecisionDebugger
from msprobe.store.read import read
from msprobe.store.write import Writer

SECTIONS = {"statistics": StatisticsSettings, "tensor": TensorSettings}
GRID = np.arange(8, dtype=np.float32).reshape(2, 4)


class Run:
    """Saves below a folder, a dump a step, and what stands in them."""

    def __init__(self, root, task="statistics", **section):
        made = SECTIONS[task](**section)
        self.saves = Saves(Settings(task=task, dump_path=root, level="debug", section=made), FRAMEWORK)
        self.root, self.task, self.steps = root, task, 0

    def folder(self, step=0):
        return self.root / f"step{step}" / "rank"

    def writer(self):
        header = {"task": self.task, "level": "debug", "framework": "mindspore"}
        return Writer(self.folder(self.steps), header)

    def save(self, variable, name, save_backward=True):
        self.saves.save(variable, name, save_backward, self.writer)

    def step(self):
        self.saves.end_step()
        self.steps += 1

    def dump(self, step=0):
        return json.loads((self.folder(step) / "debug.json").read_text())

    def data(self, step=0):
        return self.dump(step)["data"]

    def npy(self, name, step=0):
        return np.load(self.folder(step) / "dump_tensor_data" / f"{name}.npy")


@pytest.fixture
def running(tmp_path):
    """Makes runs; all are ended when the test ends."""
    made = []

    def make(task="statistics", **section):
        made.append(Run(tmp_path / f"dump{len(made)}", task, **section))
        return made[-1]

    yield make
    for run in made:
        run.saves.end_step()


@pytest.fixture
def said(capsys):
    """The lines that were said, also those that were said before in this process."""
    log._said.clear()
    return lambda: [line for line in capsys.readouterr().err.splitlines() if line.startswith("msprobe")]


def statistics(array):
    """The record of a finite float32 array, by numpy in float64."""
    wide = array.astype(np.float64)
    return {
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": list(array.shape),
        "Max": float(array.max()),
        "Min": float(array.min()),
        "Mean": pytest.approx(float(wide.mean()), rel=1e-12),
        "Norm": pytest.approx(float(np.sqrt((wide**2).sum())), rel=1e-12),
    }


def test_the_example_of_the_documentation(running):
    run = running()
    weights = np.array([[0.5, 0.25, 0], [0, 0.125, 0]], np.float32)
    mask, top = Tensor(weights), Tensor(np.array([[0, 0, np.inf], [0, 0, 0]], np.float32))
    weight = Parameter(Tensor(np.ones((2, 3), np.float32)), name="weight")
    x = Tensor(GRID)

    def loss():
        y = weight + top
        run.save({"k": y, "l": [x, 1, "s"]}, "var")
        return (y * mask).sum()

    ms.value_and_grad(loss, None, [weight])()
    run.step()
    data = run.data()
    inf = float("inf")
    k = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2, 3], "Max": inf, "Min": 1.0, "Mean": inf}
    others = [{"type": "int", "value": 1}, {"type": "str", "value": "s"}]
    assert list(data) == ["var.0.debug", "var_grad.0.debug"]
    assert data["var.0.debug"] == {
        "k": {**k, "Norm": inf, "positive_inf_count": 1},
        "l": [statistics(GRID), *others],
    }
    assert data["var_grad.0.debug"] == {"k": statistics(weights), "l": [None, None, None]}
    assert list(data["var.0.debug"]["k"])[:7] == ["type", "dtype", "shape", "Max", "Min", "Mean", "Norm"]
    assert (run.dump()["task"], run.dump()["level"]) == ("statistics", "debug")
    assert run.dump()["dump_data_dir"] is None
    assert sorted(p.name for p in run.folder().iterdir()) == ["debug.json"]


def test_tensors_go_to_files_named_by_key_and_position(running):
    run = running("tensor")

    def loss(x):
        a, b = x * 2, x * 3
        run.save({"k1": x, "k2": [a, b]}, "var")
        run.save(a, "alone")
        return (a * b).sum()

    x = Tensor(GRID)
    ms.grad(loss)(x)
    run.step()
    expected = {
        "var.0.debug.k1": GRID,
        "var.0.debug.k2.0": GRID * 2,
        "var.0.debug.k2.1": GRID * 3,
        "alone.0.debug": GRID * 2,
        "var_grad.0.debug.k1": GRID * 12,
        "var_grad.0.debug.k2.0": GRID * 3,
        "var_grad.0.debug.k2.1": GRID * 2,
        "alone_grad.0.debug": GRID * 3,
    }
    folder = run.folder() / "dump_tensor_data"
    assert sorted(p.stem for p in folder.iterdir()) == sorted(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(run.npy(name), array)
    assert run.data()["var.0.debug"]["k2"][1]["data_name"] == "var.0.debug.k2.1.npy"
    assert run.data()["alone_grad.0.debug"]["data_name"] == "alone_grad.0.debug.npy"
    assert run.dump()["dump_data_dir"] == str(folder)


def test_summary_mode_md5_digests_values_and_gradients(running):
    run = running(summary_mode="md5")

    def loss(x):
        y = x * 2
        run.save(y, "y")
        return (y * y).sum()

    ms.grad(loss)(Tensor(GRID))
    run.step()
    assert run.data()["y.0.debug"]["md5"] == f"{zlib.crc32((GRID * 2).tobytes()):08x}"
    assert run.data()["y_grad.0.debug"]["md5"] == f"{zlib.crc32((GRID * 4).tobytes()):08x}"


class Net(nn.Cell):
    """Saves inside `construct`, in a loop and in a function, a tensor that three others use."""

    def __init__(self, save):
        super().__init__()
        self.save = save
        self.weight = Parameter(Tensor(np.linspace(-1, 1, 16).reshape(4, 4).astype(np.float32)), name="weight")

    def construct(self, x):
        for turn in range(2):
            x = self.layer(x, turn)
        return x.sum()

    def layer(self, x, turn):
        h = ops.tanh(ops.matmul(x, self.weight))
        self.save({"turn": turn, "h": h}, "h")
        return h * h + h + ops.exp(h)


@pytest.mark.parametrize("synchronize", [True, False])
def test_a_gradient_is_the_sum_over_all_users(running, synchronize):
    ms.set_context(pynative_synchronize=synchronize)
    run = running("tensor")
    net = Net(run.save)
    ms.value_and_grad(net, None, net.trainable_params())(Tensor(GRID))
    run.step()
    assert [run.data()[f"h.{n}.debug"]["turn"]["value"] for n in (0, 1)] == [0, 1]
    rest = Net(lambda variable, name: None)
    for turn in (0, 1):
        # the gradient of what follows the saved tensor, asked of the framework
        def behind(h, turn=turn):
            y = h * h + h + ops.exp(h)
            return y.sum() if turn else rest.layer(y, 1).sum()

        expected = ms.grad(behind)(Tensor(run.npy(f"h.{turn}.debug.h"))).asnumpy()
        np.testing.assert_allclose(run.npy(f"h_grad.{turn}.debug.h"), expected, rtol=1e-6)


def test_data_and_parameters_have_gradients_where_they_are_asked_for(running):
    run = running("tensor")
    weight = Parameter(Tensor(np.full((2, 4), 3, np.float32)), name="weight")
    fixed = Parameter(Tensor(np.full((2, 4), 5, np.float32)), name="fixed", requires_grad=False)

    def loss(x):
        run.save([x, weight, fixed], "leaves")
        return (x * weight * fixed + x).sum()

    ms.value_and_grad(loss, 0, [weight])(Tensor(GRID))
    run.step()
    assert run.data()["leaves_grad.0.debug"][2] is None
    np.testing.assert_array_equal(run.npy("leaves_grad.0.debug.0"), np.full((2, 4), 16, np.float32))
    np.testing.assert_array_equal(run.npy("leaves_grad.0.debug.1"), GRID * 5)


def test_where_no_gradient_can_come_the_entry_says_null(running):
    run = running()
    run.save({"x": Tensor(GRID), "n": 1}, "outside")
    run.save(Tensor(GRID), "alone")
    run.save(Tensor(GRID), "unwanted", save_backward=False)
    run.step()
    assert list(run.data()) == [
        *("outside.0.debug", "outside_grad.0.debug", "alone.0.debug", "alone_grad.0.debug", "unwanted.0.debug")
    ]
    assert run.data()["outside_grad.0.debug"] == {"x": None, "n": None}
    assert run.data()["alone_grad.0.debug"] is None


@pytest.mark.skipif(not HAS_NODES, reason="MindSpore 2.7.0 does not tell when a backward has ended")
def test_gradients_that_do_not_come_are_null_when_the_backward_has_ended(running):
    run = running()

    def loss(x):
        used, unused = x * 2, x * 3
        run.save([used, unused], "pair")
        run.save(unused, "never")
        return used.sum()

    ms.grad(loss)(Tensor(GRID))
    run.save(1, "after", save_backward=False)
    run.step()
    ones = statistics(np.ones_like(GRID))
    assert run.data()["pair_grad.0.debug"] == [ones, None]
    assert run.data()["never_grad.0.debug"] is None
    assert list(run.data()) == [
        *("pair.0.debug", "never.0.debug", "pair_grad.0.debug", "after.0.debug", "never_grad.0.debug")
    ]


def test_several_backwards_in_one_step_have_numbers_and_a_late_one_changes_nothing(running):
    run = running("tensor")
    weight = Parameter(Tensor(np.ones((2, 4), np.float32)), name="weight")

    def loss(x):
        y = x * weight
        run.save({"y": y, "w": weight}, "var")
        return (y * y).sum()

    gradient = ms.value_and_grad(loss, None, [weight])
    gradient(Tensor(GRID))
    gradient(Tensor(GRID + 1))
    run.step()
    gradients = [name for name in run.data() if "_grad" in name]
    assert gradients == ["var_grad.0.debug", "var_grad.1.debug"]
    for number in (0, 1):
        np.testing.assert_array_equal(run.npy(f"var_grad.{number}.debug.y"), 2 * (GRID + number))
        np.testing.assert_array_equal(run.npy(f"var_grad.{number}.debug.w"), 2 * (GRID + number) ** 2)


def test_numbers_count_each_name_and_begin_anew_with_each_step(running):
    run = running()
    for _ in range(2):
        for value in (1, 2):
            run.save(value, "a", save_backward=False)
        run.save(3, "b", save_backward=False)
        run.step()
    for step in (0, 1):
        values = {name: record["value"] for name, record in run.data(step).items()}
        assert values == {"a.0.debug": 1, "a.1.debug": 2, "b.0.debug": 3}


def test_a_variable_named_like_anothers_gradient_replaces_nothing(running):
    run = running()
    run.save(1, "x")
    run.save(2, "x_grad", save_backward=False)
    run.step()
    assert run.data() == {
        "x.0.debug": {"type": "int", "value": 1},
        "x_grad.0.debug": None,
        "x_grad.1.debug": {"type": "int", "value": 2},
    }


def test_what_changes_in_place_afterwards_was_saved_as_it_was(running):
    run = running("tensor")
    x = Tensor(GRID.copy())
    run.save(x, "x")
    x[0] = 100.0
    x.add_(Tensor(np.float32(1)))
    run.step()
    np.testing.assert_array_equal(run.npy("x.0.debug"), GRID)
    assert run.data()["x.0.debug"]["Max"] == 7.0


def test_every_kind_of_value_that_may_be_saved(running):
    run = running()
    point = namedtuple("point", "u v")
    run.save({"t": (True, 2, 0.5, "s"), "o": OrderedDict(z=[], a={}), "p": point(1, [2])}, "kinds", save_backward=False)
    run.step()
    assert run.data()["kinds.0.debug"] == {
        "t": [
            {"type": "bool", "value": True},
            {"type": "int", "value": 2},
            {"type": "float", "value": 0.5},
            {"type": "str", "value": "s"},
        ],
        "o": {"z": [], "a": {}},
        "p": {"u": {"type": "int", "value": 1}, "v": [{"type": "int", "value": 2}]},
    }


def nested(depth):
    value = Tensor(GRID)
    for _ in range(depth):
        value = [value]
    return value


def endless():
    value = []
    value.extend([value, value])
    return value


@pytest.mark.parametrize(
    ("variable", "name", "save_backward", "says"),
    [
        (None, "v", True, "variable 'v' is None; give tensors"),
        ({"a": [1, None]}, "v", True, "variable 'v'['a'][1] is None"),
        ([Tensor(GRID), GRID], "v", True, "variable 'v'[1] is of type ndarray"),
        ({1: Tensor(GRID)}, "v", True, "variable 'v' has the key 1; keys must be texts"),
        (1j, "v", True, "is of type complex"),
        ({2, 3}, "v", True, "is of type set"),
        (nested(51), "v", True, "is nested deeper than 50; save its parts"),
        (endless(), "v", True, "is nested deeper than 50"),
        (1, 7, True, "the name is 7; give a text"),
        (1, "", True, "the name is ''"),
        (1, "v", 1, "save_backward of 'v' is 1; give True or False"),
    ],
)
def test_what_cannot_be_saved_is_said_once_and_nothing_is_saved(variable, name, save_backward, says, running, said):
    run = running()
    for _ in range(2):
        run.save(variable, name, save_backward)
    (line,) = said()
    assert line.startswith("msprobe WARNING: PrecisionDebugger.save: ")
    assert says in line
    assert line.endswith("; nothing is saved by this call")
    run.step()
    assert not run.root.exists()


def test_fifty_levels_are_saved(running):
    run = running()
    run.save(nested(50), "deep", save_backward=False)
    run.step()
    record = run.data()["deep.0.debug"]
    for _ in range(50):
        (record,) = record
    assert record == statistics(GRID)
    assert "missing" not in run.dump()


def test_hooks_on_parameters_and_data_are_gone_with_their_backward_or_the_step(running):
    run = running()
    weight = Parameter(Tensor(np.ones((2, 4), np.float32)), name="weight")
    x = Tensor(GRID)

    def loss(x):
        run.save([x, weight], "leaves")
        return (x * weight).sum()

    def hooks():
        return [len(tensor.hooks()) for tensor in (x, weight)]

    gradient = ms.value_and_grad(loss, 0, [weight])
    for _ in range(2):
        gradient(x)
    assert hooks() == ([0, 0] if HAS_NODES else [2, 2])
    run.save(weight, "awaited")
    assert hooks() == ([0, 1] if HAS_NODES else [2, 3])
    run.step()
    assert hooks() == [0, 0]


def test_a_backward_behind_the_step_finds_nobody(running):
    run = running()

    def loss(x):
        y = x * 2
        run.save(y, "y")
        run.step()
        return (y * y).sum()

    np.testing.assert_array_equal(ms.grad(loss)(Tensor(GRID)).asnumpy(), GRID * 8)
    assert run.data()["y_grad.0.debug"] is None


@pytest.mark.parametrize("synchronize", [True, False])
def test_saving_changes_no_bit_of_the_training(running, synchronize):
    ms.set_context(pynative_synchronize=synchronize)

    def train(save):
        net = Net(save)
        optimizer = nn.Adam(net.trainable_params(), learning_rate=0.01)
        gradient = ms.value_and_grad(net, None, net.trainable_params())
        bits = []
        for step in range(5):
            loss, grads = gradient(Tensor(np.sin(GRID + step)))
            optimizer(grads)
            bits += [t.asnumpy().tobytes() for t in (loss, *grads, net.weight)]
            if step != 2:
                run.step()
        return bits

    run = running("tensor")
    assert train(lambda variable, name: None) == train(run.save)
    assert list(run.root.iterdir())


def test_a_dump_that_cannot_be_opened_is_said_and_the_training_goes_on(running, said):
    run = running()
    run.root.write_text("a file where the folder should be")
    for _ in range(2):
        run.save(Tensor(GRID), "x")
    (line,) = said()
    assert "nothing of this step can be saved: " in line
    assert line.endswith("the training goes on")


def test_a_failure_of_ours_is_noted_in_the_dump_and_goes_no_further(running, said, monkeypatch):
    run = running()

    def loss(x):
        y = x * 2
        run.save(y, "y")
        run.save(y, "z")
        return (y * y).sum()

    write = Writer.call

    def full(self, name, parent, stack, entry):
        if name in ("y.0.debug", "z_grad.0.debug"):
            raise OSError(28, "No space left on device")
        write(self, name, parent, stack, entry)

    monkeypatch.setattr(Writer, "call", full)
    np.testing.assert_array_equal(ms.grad(loss)(Tensor(GRID)).asnumpy(), GRID * 8)
    run.step()
    assert sorted(run.data()) == ["y_grad.0.debug", "z.0.debug"]
    lost = {item["name"]: item["cause"] for item in run.dump()["missing"]}
    assert sorted(lost) == ["y.0.debug", "z_grad.0.debug"]
    assert all("No space left on device" in cause for cause in lost.values())
    assert len(said()) == 1


def test_the_trainings_own_error_reaches_it(running):
    ms.set_context(pynative_synchronize=False)
    run = running()
    wrong = ops.gather(Tensor(GRID), Tensor([0, 9]), 0)
    with pytest.raises((RuntimeError, IndexError)):
        run.save(wrong, "wrong")


@pytest.mark.parametrize("capture", ["ast", "bytecode"])
def test_inside_a_compiled_function_nothing_is_saved_and_that_is_said(capture, running, said):
    run = running()

    def save(variable, name):
        if in_graph():
            return
        run.save(variable, name)

    @ms.jit(capture_mode=capture)
    def double(x):
        y = x * 2
        save({"y": y}, "y")
        return y

    for _ in range(2):
        np.testing.assert_array_equal(double(Tensor(GRID)).asnumpy(), GRID * 2)
    assert len([line for line in said() if "saves nothing inside @jit and graph mode" in line]) == 1
    save(Tensor(GRID), "outside")
    run.step()
    assert list(run.data()) == ["outside.0.debug", "outside_grad.0.debug"]


def test_the_reader_gives_calls_and_records(running):
    run = running("tensor")

    def loss(x):
        y = x * 2
        run.save({"y": y, "n": [1]}, "v")
        run.save(y, "y")
        return y.sum()

    ms.grad(loss)(Tensor(GRID))
    run.step()
    dump = read(run.root / "step0")
    found = {r.name: (r.part, r.kind, r.path) for call in dump.calls for r in call.records}
    assert (dump.level, dump.step) == ("debug", 0)
    assert found == {
        "v.0.debug.y": ("debug", "tensor", ("y",)),
        "v.0.debug.n.0": ("debug", "value", ("n", "0")),
        "y.0.debug": ("debug", "tensor", ()),
        "v_grad.0.debug.y": ("debug", "tensor", ("y",)),
        "v_grad.0.debug.n.0": ("debug", "null", ("n", "0")),
        "y_grad.0.debug": ("debug", "tensor", ()),
    }


# ---- PrecisionDebugger.save ----------------------------------------------------------------------------------------


@pytest.fixture
def debugging(tmp_path):
    """Makes debuggers, at level debug where nothing else is asked for; all are ended when the test ends."""
    made = []

    def make(**settings):
        config = tmp_path / f"config{len(made)}.json"
        config.write_text(json.dumps({"dump_path": str(tmp_path / "dump"), "level": "debug", **settings}))
        made.append(PrecisionDebugger(config))
        return made[-1]

    yield make
    for debugger in made:
        debugger.step()
        PrecisionDebugger._known.pop(debugger._settings)
    PrecisionDebugger._latest = None


def saved(root, step=0):
    return json.loads((root / "dump" / f"step{step}" / "rank" / "debug.json").read_text())


def test_save_needs_no_start_and_may_be_called_on_the_class(debugging, tmp_path):
    debugger = debugging(task="tensor")

    def loss(x):
        y = x * 2
        PrecisionDebugger.save(y, "y")
        debugger.save(variable=y, name="y", save_backward=False)
        return (y * y).sum()

    for _ in range(2):
        ms.grad(loss)(Tensor(GRID))
        PrecisionDebugger.step()
    for step in (0, 1):
        dump = saved(tmp_path, step)
        assert list(dump["data"]) == ["y.0.debug", "y.1.debug", "y_grad.0.debug"]
        assert (dump["task"], dump["level"], dump["run"]["step"]) == ("tensor", "debug", step)
        tensors = tmp_path / "dump" / f"step{step}" / "rank" / "dump_tensor_data"
        assert dump["dump_data_dir"] == str(tensors)
        np.testing.assert_array_equal(np.load(tensors / "y_grad.0.debug.npy"), GRID * 4)


def test_start_and_stop_beside_it_do_nothing(debugging, tmp_path):
    debugger = debugging()
    debugger.start()
    ops.relu(Tensor(GRID))
    debugger.stop()
    assert not (tmp_path / "dump").exists()
    debugger.save(1, "one", save_backward=False)
    debugger.step()
    assert list(saved(tmp_path)["data"]) == ["one.0.debug"]


@pytest.mark.parametrize("settings", [{"level": "L1"}, {"rank": [1]}, {"step": [1]}])
def test_nothing_is_saved_at_another_level_rank_or_step(settings, debugging, tmp_path):
    debugger = debugging(**settings)
    debugger.save(Tensor(GRID), "x")
    debugger.step()
    assert not (tmp_path / "dump").exists()
    debugger.save(Tensor(GRID), "x")
    debugger.step()
    assert (tmp_path / "dump" / "step1").exists() == ("step" in settings)


def compiled(capture, debugger):
    """The gradient of a compiled function that saves."""

    @ms.jit(capture_mode=capture)
    def double(x):
        y = x * 2
        debugger.save({"y": y}, "y")
        for turn in range(2):
            debugger.save([y, turn], f"y{turn}", save_backward=False)
        return y

    return ms.value_and_grad(lambda x: double(x).sum())


def test_save_inside_a_compiled_function_leaves_it_as_it_is(debugging, said, tmp_path):
    debugger = debugging()
    gradient = compiled("ast", debugger)
    for _ in range(2):
        np.testing.assert_array_equal(gradient(Tensor(GRID))[1].asnumpy(), np.full_like(GRID, 2))
    assert len([line for line in said() if "saves nothing inside @jit and graph mode" in line]) == 1
    debugger.step()
    assert not (tmp_path / "dump").exists()


def test_save_inside_a_function_captured_from_bytecode_gives_values_without_gradients(debugging, tmp_path):
    debugger = debugging()
    gradient = compiled("bytecode", debugger)
    for _ in range(2):
        np.testing.assert_array_equal(gradient(Tensor(GRID))[1].asnumpy(), np.full_like(GRID, 2))
    debugger.step()
    data = saved(tmp_path)["data"]
    for number in (0, 1):
        assert data[f"y.{number}.debug"] == {"y": statistics(GRID * 2)}
        assert data[f"y1.{number}.debug"] == [statistics(GRID * 2), {"type": "int", "value": 1}]
        assert data[f"y_grad.{number}.debug"] == {"y": None}


def test_two_dumps_of_saves_are_compared(debugging, tmp_path, monkeypatch):
    debugger = debugging(task="tensor")
    for factor in (1, 2):
        debugger.save({"same": Tensor(GRID), "other": Tensor(GRID * factor)}, "v", save_backward=False)
        debugger.step()
    dumps = [str(tmp_path / "dump" / f"step{step}") for step in (0, 1)]
    assert main(["compare", "-tp", dumps[0], "-gp", dumps[1], "-o", str(tmp_path / "report"), "--format", "json"]) == 1
    (report,) = (tmp_path / "report").glob("*.json")
    rows = {row["NPU Name"]: row["Verdict"] for row in json.loads(report.read_text())["rows"]}
    assert rows == {"v.0.debug.same": "pass", "v.0.debug.other": "error"}


DYING = """
import os, sys
from mindspore import Tensor
from msprobe.mindspore import PrecisionDebugger
PrecisionDebugger(level="debug", dump_path="dump", task="tensor")
PrecisionDebugger.save([Tensor([1.0, 2.0]), 3], "a")
PrecisionDebugger.save(Tensor([1.0, 2.0]), "b")
if "killed" in sys.argv:
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_a_process_without_step_leaves_what_it_saved(how, tmp_path):
    done = subprocess.run([sys.executable, "-c", DYING, how], cwd=tmp_path, check=False)
    assert done.returncode == (0 if how == "ended" else -9)
    if how == "killed":
        assert main(["doctor", str(tmp_path / "dump")]) == 1
    dump = saved(tmp_path)
    assert list(dump["data"]) == ["a.0.debug", "a_grad.0.debug", "b.0.debug", "b_grad.0.debug"]
    assert dump["data"]["a_grad.0.debug"] == [None, None]
    assert ("rebuilt" in dump) == (how == "killed")


# ---- docs/saving.md ------------------------------------------------------------------------------------------------

DOCS = Path(__file__).parents[2] / "docs"


def blocks(page, language):
    """The blocks of one language in a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_page_shows_what_its_example_saves(tmp_path):
    code, (shown,) = blocks("saving.md", "python")[0], blocks("saving.md", "json")
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    for step in (0, 1):
        dump = json.loads((tmp_path / "saved" / f"step{step}" / "rank" / "debug.json").read_text())
        assert dump["data"] == json.loads(shown)


@pytest.mark.parametrize("language", ["python", "json"])
def test_both_pages_show_the_same_example(language):
    assert blocks("saving.md", language) == blocks("zh/saving.md", language)
