"""What the probe does with odd gradients, names, settings and disks; the training goes on."""

import csv
import os
import zlib

import numpy as np
import pytest
import torch

from msprobe.base.errors import UsageError
from msprobe.base.sections import GradProbeSettings
from msprobe.grad_probe.gradient import header, positive, row, shares

pytestmark = pytest.mark.torch


class Training:
    """Parameters of PyTorch whose gradients are set by hand, and their optimizer."""

    def __init__(self, gradients, **others):
        self.parameters = [(name, torch.nn.Parameter(torch.zeros(np.shape(g)))) for name, g in gradients.items()]
        self.optimizer = torch.optim.SGD(self.parameters, 0.1, **others)
        self.gradients = gradients

    def step(self):
        for (_, parameter), gradient in zip(self.parameters, self.gradients.values(), strict=True):
            parameter.grad = None if gradient is None else torch.as_tensor(gradient)
        self.optimizer.step()


def probing(collecting, training, level="L1", section=None, **settings):
    config = {"task": "grad_probe", "grad_probe": {"grad_level": level, **(section or {})}, **settings}
    debugger = collecting(config)
    debugger.monitor(training.optimizer)
    return debugger


# ---- numbers


def test_nan_has_a_column_of_its_own_and_is_in_no_interval(collecting, output):
    gradient = np.array([np.nan, -3, -1, -0.0, 0, 0.5, np.inf, -np.inf], np.float32)
    training = Training({"w": gradient})
    debugger = probing(collecting, training, "L2")
    training.step()
    found = output(debugger).table(0)["w"]
    assert {key: found[key] for key in list(found)[1:7]} == {
        **{"(-inf, -1]": "0.375", "(-1, 0]": "0.25", "(0, 1]": "0.125", "(1, inf)": "0.125"},
        **{"=0": "0.25", "nan": "0.125"},
    }
    assert (found["max"], found["min"], found["norm"]) == ("nan", "nan", "nan")
    np.testing.assert_array_equal(
        output(debugger).signs(0, "w"), [False, False, False, False, False, True, True, False]
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_intervals_and_digest_of_every_width(dtype):
    wide = np.array([[-2.0, -1.0, 0.0], [0.25, 1.0, 3.0]], np.float32)  # exact in each of them
    gradient = wide.astype(dtype)
    cells = dict(
        zip(
            header(GradProbeSettings(grad_level="L0")),
            row(GradProbeSettings(grad_level="L0"), "w", gradient),
            strict=True,
        )
    )
    assert cells["MD5"] == f"{zlib.crc32(wide.tobytes()):08x}"
    assert (cells["max"], cells["min"], cells["shape"]) == (3.0, -2.0, "[2, 3]")
    assert list(shares(gradient, (-1, 0, 1))) == [2 / 6, 1 / 6, 2 / 6, 1 / 6, 1 / 6, 0.0]
    np.testing.assert_array_equal(positive(gradient), wide > 0)


def test_a_boundary_is_rounded_to_the_gradients_dtype():
    assert list(shares(np.array([0.1], np.float32), (0.1,))) == [1.0, 0.0, 0.0, 0.0]
    assert list(shares(np.array([1.0], np.float16), (2**62,))) == [1.0, 0.0, 0.0, 0.0]


def test_intervals_and_nan_share_every_element():
    rng = np.random.default_rng(0)
    for _ in range(50):
        gradient = rng.standard_normal(rng.integers(1, 200)).astype(np.float32)
        gradient[rng.random(gradient.size) < 0.1] = np.nan
        bounds = sorted(rng.standard_normal(rng.integers(1, 6)))
        *found, zeros, nans = shares(gradient, bounds)
        assert len(found) == len(bounds) + 1
        assert sum(found) + nans == pytest.approx(1)
        assert zeros == 0


def test_an_empty_gradient_has_a_row_without_numbers(collecting, output):
    training = Training({"empty": np.zeros((0, 3), np.float32), "scalar": np.float32(2)})
    debugger = probing(collecting, training, "L2")
    training.step()
    found = output(debugger).table(0)
    assert list(found["empty"].values()) == ["empty", *["0.0"] * 6, "", "", "", "[0, 3]"]
    assert found["scalar"]["shape"] == "[]"
    assert output(debugger).signs(0, "empty").shape == (0, 3)
    assert output(debugger).signs(0, "scalar").shape == ()


def test_a_parameter_without_a_gradient_has_no_row(collecting, output):
    training = Training({"used": np.ones(2, np.float32), "unused": np.ones(2, np.float32)})
    training.gradients["unused"] = None
    debugger = probing(collecting, training)
    training.step()
    assert list(output(debugger).table(0)) == ["used"]


def test_a_sparse_gradient_is_recorded_as_a_dense_one(collecting, output):
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = torch.optim.SGD(list(table.named_parameters()), 0.1)
    debugger = collecting({"task": "grad_probe"})
    debugger.monitor(optimizer)
    table(torch.tensor([1, 3])).sum().backward()
    optimizer.step()
    np.testing.assert_array_equal(output(debugger).signs(0, "weight"), [[0, 0], [1, 1], [0, 0], [1, 1]])


# ---- names


HOSTILE = [
    "../../escaped",
    "/tmp/absolute",
    "..",
    ".",
    "a/b",
    "a_b",
    "n" * 300,
    "语 言",
    'quote"d, comma',
    "new\nline",
    "=1+1",
]


def test_no_name_leads_out_of_the_folder_and_no_two_share_a_file(collecting, output, tmp_path):
    training = Training({name: np.full(2, n, np.float32) for n, name in enumerate(HOSTILE)})
    debugger = probing(collecting, training)
    before = set(os.listdir(tmp_path))
    training.step()
    found = output(debugger)
    assert len([file for file in found.files if file.startswith("step0/")]) == len(HOSTILE) == len(found.files)
    assert set(os.listdir(tmp_path)) == before
    with open(found.folder / "grad_summary_0.csv", encoding="utf-8-sig", newline="") as file:
        assert [line[0] for line in csv.reader(file)] == ["param_name", *HOSTILE]


def test_optimizers_whose_parameters_have_one_name_share_no_file(collecting, output, notes):
    one, other = Training({"w": np.ones(2, np.float32)}), Training({"w": -np.ones(3, np.float32)})
    debugger = probing(collecting, one)
    debugger.monitor(other.optimizer)
    for _ in range(2):
        one.step()
        other.step()
    for step in range(2):
        assert list(output(debugger).table(step)) == ["w", "optimizer2.w"]
        assert output(debugger).signs(step, "w").tolist() == [True] * 2
        assert output(debugger).signs(step, "optimizer2.w").tolist() == [False] * 3
    assert sum("optimizer2." in note for note in notes()) == 1


def test_an_optimizer_without_names_is_recorded_by_places(collecting, output, notes):
    parameters = [torch.nn.Parameter(torch.ones(n)) for n in (1, 2, 3)]
    optimizer = torch.optim.SGD([{"params": parameters[:1]}, {"params": parameters[1:]}], 0.1)
    debugger = collecting({"task": "grad_probe"})
    debugger.monitor(optimizer)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert list(output(debugger).table(0)) == ["group0.0", "group1.0", "group1.1"]
    assert any("named_parameters()" in note for note in notes())


# ---- settings


def test_param_list_chooses_parameters(collecting, output, notes):
    training = Training({"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)})
    debugger = probing(collecting, training, section={"param_list": ["b", "gone"]})
    training.step()
    assert list(output(debugger).table(0)) == ["b"]
    assert output(debugger).files == ["step0/b.npy"]
    assert any("does not have gone" in note for note in notes())


def test_step_chooses_calls_of_the_optimizer(collecting, output):
    training = Training({"w": np.ones(2, np.float32)})
    debugger = probing(collecting, training, step=[1, "3-4"])
    for _ in range(6):
        training.step()
    assert output(debugger).steps == [1, 3, 4]


def test_set_init_step_numbers_the_calls_of_a_resumed_run(collecting, output):
    training = Training({"w": np.ones(2, np.float32)})
    debugger = probing(collecting, training)
    debugger.set_init_step(100)
    training.step()
    training.step()
    assert output(debugger).steps == [100, 101]


def test_rank_chooses_processes(collecting, output, notes):
    training = Training({"w": np.ones(2, np.float32)})
    debugger = probing(collecting, training, rank=[1])
    training.step()
    assert output(debugger).steps == []


def test_grad_level_is_l1_and_bounds_are_minus_one_to_one_by_default():
    assert GradProbeSettings() == GradProbeSettings(grad_level="L1", param_list=(), bounds=(-1, 0, 1))
    assert header(GradProbeSettings(grad_level="L2"))[1:5] == ["(-inf, -1]", "(-1, 0]", "(0, 1]", "(1, inf)"]


def test_start_stop_step_and_the_level_change_nothing(collecting, output):
    training = Training({"w": np.ones(2, np.float32)})
    debugger = probing(collecting, training, level="L0", section={})
    model = torch.nn.Linear(1, 1)
    for _ in range(3):
        debugger.start(model)
        model(torch.ones(1, 1))
        debugger.stop()
        debugger.step()
        debugger.step()
        training.step()
    assert output(debugger).steps == [0, 1, 2]
    assert not list(debugger._settings.dump_path.rglob("dump.json"))


# ---- what goes wrong


def test_other_tasks_have_a_monitor_that_does_nothing_and_says_so_once(collecting, notes):
    training = Training({"w": np.ones(2, np.float32)})
    debugger = collecting({"task": "statistics"})
    debugger.monitor(training.optimizer)
    debugger.monitor(training.optimizer)
    training.step()
    assert sum('task "statistics" does not monitor optimizers; the call has no effect' in note for note in notes()) == 1
    assert not debugger._settings.dump_path.exists()


@pytest.mark.parametrize("thing", [None, 3, object(), torch.nn.ReLU()], ids=lambda value: type(value).__name__)
def test_what_is_no_optimizer_is_refused(thing, collecting):
    debugger = collecting({"task": "grad_probe"})
    with pytest.raises(ValueError, match="monitor") as caught:
        debugger.monitor(thing)
    assert isinstance(caught.value, UsageError)


def test_an_optimizer_is_watched_once(collecting, output):
    training = Training({"w": np.ones(2, np.float32)})
    debugger = probing(collecting, training)
    debugger.monitor(training.optimizer)
    training.step()
    training.step()
    assert output(debugger).steps == [0, 1]


def test_a_disk_that_refuses_is_logged_once_and_the_training_goes_on(collecting, output, notes):
    training = Training({"w": np.ones(2, np.float32)})
    debugger = probing(collecting, training)
    folder = output(debugger).folder
    folder.write_text("a file where the folder of the rank would be")
    for _ in range(3):
        training.step()
    assert training.parameters[0][1].detach().numpy() == pytest.approx([-0.3, -0.3])
    assert len([note for note in notes() if "the training continues" in note]) == 1
    folder.unlink()
    training.step()
    assert output(debugger).steps == [3], "and the probe goes on as soon as it can"


def test_a_gradient_that_cannot_be_read_costs_its_own_row_only(collecting, output, notes):
    class Odd(torch.Tensor):
        @property
        def layout(self):
            raise RuntimeError("no layout today")

    training = Training({"odd": np.ones(2, np.float32), "w": np.ones(2, np.float32)})
    debugger = probing(collecting, training)
    training.gradients["odd"] = torch.ones(2).as_subclass(Odd)
    training.step()
    training.step()
    assert output(debugger).steps == [0, 1]
    assert list(output(debugger).table(1)) == ["w"]
    assert len([note for note in notes() if "no layout today" in note]) == 1


def test_a_run_without_a_monitored_optimizer_says_what_to_call(collecting, notes):
    debugger = collecting({"task": "grad_probe"})
    debugger.start()
    debugger.stop()
    debugger.step()
    debugger.step()
    assert len([note for note in notes() if "call debugger.monitor(optimizer)" in note]) == 1


def test_an_optimizer_that_is_none_of_the_frameworks_is_watched_by_its_step(collecting, output):
    class Sharded:
        def __init__(self):
            self.weight = torch.nn.Parameter(torch.ones(2))
            self.param_groups = [{"params": [self.weight]}]
            self.calls = []

        def step(self, closure=None):
            self.calls.append(closure)
            return "stepped"

    optimizer = Sharded()
    debugger = collecting({"task": "grad_probe"})
    debugger.monitor(optimizer)
    optimizer.weight.grad = torch.ones(2)
    assert optimizer.step(None) == "stepped"
    assert optimizer.calls == [None]
    assert list(output(debugger).table(0)) == ["group0.0"]
