"""What the user saves by hand: values, names and files, against values worked out independently."""

import zlib
from collections import OrderedDict, namedtuple

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor
from saved_by_hand import GRID, statistics

from msprobe.store.reader import read

pytestmark = pytest.mark.mindspore


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
    ("variable", "name", "save_backward", "message"),
    [
        (None, "v", True, "variable 'v' is None; pass tensors"),
        ({"a": [1, None]}, "v", True, "variable 'v' at a.1 is None"),
        ([Tensor(GRID), GRID], "v", True, "variable 'v' at 1 is of type ndarray"),
        ({1: Tensor(GRID)}, "v", True, "variable 'v' at 1 has a key that is not a string; use strings as keys"),
        (1j, "v", True, "is of type complex"),
        ({2, 3}, "v", True, "is of type set"),
        (nested(51), "v", True, "is nested deeper than 50; save its parts"),
        (endless(), "v", True, "cannot be saved as a whole: it contains itself; save its parts"),
        (1, 7, True, "the name is 7; pass a string"),
        (1, "", True, "the name is ''"),
        (1, "v", 1, "save_backward of 'v' is 1; pass True or False"),
    ],
)
def test_what_cannot_be_saved_is_said_once_and_nothing_is_saved(
    variable, name, save_backward, message, running, logged
):
    run = running()
    for _ in range(2):
        run.save(variable, name, save_backward)
    (line,) = logged()
    assert line.startswith("msprobe WARNING: PrecisionDebugger.save: ")
    assert message in line
    assert line.endswith("; this call does not save anything")
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
