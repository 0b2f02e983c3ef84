"""What fails in a monitor is logged once and noted beside the files; the training goes on as if there were none."""

import csv
import resource
import subprocess
from contextlib import contextmanager

import pytest
import torch
from by_numpy import named
from kept_training import Training, batch

from msprobe.frameworks.pytorch.tensors import Tensors
from msprobe.pytorch import TrainerMon

pytestmark = pytest.mark.torch

KINDS = {"wg_distribution": True, "param_distribution": True, "xy_distribution": True, "mv_distribution": True}


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.01)


def bits(training):
    state = [training.optimizer.state[p] for p in training.net.parameters()]
    return (
        training.losses,
        [p.detach().numpy().tobytes() for p in training.net.parameters()],
        [each[name].numpy().tobytes() for each in state for name in ("exp_avg", "exp_avg_sq", "step")],
    )


@pytest.fixture
def same_training(configured):
    """Train beside a training without monitor: `same_training(count)` gives the monitored one."""

    def train(count=3, around=None, **settings):
        bare, training = Training(adam), Training(adam)
        monitor = TrainerMon(configured(**{**KINDS, **settings}))
        monitor.set_monitor(training.net, training.optimizer)
        for step in range(count):
            bare.step(step)
            training.step(step)
        assert bits(training) == bits(bare)
        monitor.stop()
        return training

    return train


def lost(tmp_path):
    (path,) = (tmp_path / "out").rglob("lost.csv")
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_one_tensor_that_cannot_be_measured_takes_no_other_with_it(configured, written, tmp_path, logged):
    training = Training(adam)
    monitor = TrainerMon(configured(**KINDS))
    monitor.set_monitor(training.net, training.optimizer)
    for step in range(2):
        training.backward(step)
        training.net.fc1.weight.main_grad = torch.zeros(2, device="meta")  # has no elements
        training.update()
    rows = written()
    assert {row["name"] for row in rows["grad_reduced"]} == {"fc1.bias", "norm.weight", "norm.bias", "fc2.weight"}
    for kind in ("grad_unreduced", "param_origin", "param_updated"):
        assert len(rows[kind]) == 2 * 5
    assert len(rows["exp_avg"]) == 5
    (note,) = lost(tmp_path)
    assert (note["step"], note["what"]) == ("0", "grad_reduced of fc1.weight")
    assert sum("fc1.weight could not be measured" in line for line in logged()) == 1


def test_a_measurement_that_always_fails_changes_no_bit(same_training, monkeypatch, tmp_path, logged):
    """The one place where every number comes from is broken."""

    def fails(self, tensor):
        raise ValueError("no numbers today")

    monkeypatch.setattr(Tensors, "array", fails)
    same_training()
    lines = [line for line in logged() if "no numbers today" in line]
    assert len(lines) == len(set(lines))
    assert all(line.endswith("the training continues") for line in lines)
    assert not list((tmp_path / "out").rglob("grad_reduced*"))


def test_a_rank_that_cannot_be_written_about_is_said_once(same_training, tmp_path, logged):
    (tmp_path / "out").write_text("a file is in the way")
    same_training(4)
    assert sum("could not be measured" in line for line in logged()) == 1


@contextmanager
def no_file_larger_than(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_files_that_cannot_grow_leave_whole_lines_and_the_training_alone(same_training, written, tmp_path, logged):
    with no_file_larger_than(2500):
        same_training(6, step_count_per_record=100)
    for path in (tmp_path / "out").rglob("*.csv"):
        text = path.read_text()
        assert text.endswith("\n")
        assert len(text) <= 2500
        assert len({len(line) for line in csv.reader(text.splitlines())}) == 1
    assert [(note["step"], note["what"]) for note in lost(tmp_path)] == [("4", "the files")]
    assert named(written()["param_origin"], "fc1.weight", 0)
    assert sum("File too large" in line for line in logged()) == 1


@pytest.fixture
def mounted(tmp_path):
    """A file system of 64 kB in the place of the output; needs the right to mount."""
    place = tmp_path / "out"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"mounting a small disk needs root: {made.stderr.strip()} (the limit on file sizes stands in)")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_disk_that_is_full_stops_nothing_and_room_is_used_again(mounted, configured, written, logged):
    bare, training = Training(adam), Training(adam)
    monitor = TrainerMon(configured(**KINDS))
    monitor.set_monitor(training.net, training.optimizer)
    (mounted / "filling").write_bytes(bytes(40 << 10))
    for step in range(6):
        if step == 4:
            (mounted / "filling").unlink()
        bare.step(step)
        training.step(step)
    monitor.stop()
    assert bits(training) == bits(bare)
    assert sum("No space left" in line for line in logged()) == 1
    steps = {row["step"] for row in written()["param_updated"]}
    assert "0" in steps
    assert "3" not in steps


def test_a_folder_without_permission_stops_nothing(mounted, same_training, logged):
    subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
    same_training(4)
    subprocess.run(["mount", "-o", "remount,rw", mounted], check=True)
    lines = [line for line in logged() if "could not be measured" in line]
    assert len(lines) == 1
    assert "at step 0: " in lines[0]
    assert "Read-only file system" in lines[0]


def test_a_user_that_interrupts_is_obeyed(configured):
    """What is no `Exception` passes through the guard."""
    training = Training(adam)
    monitor = TrainerMon(configured(**KINDS))
    monitor.set_monitor(training.net, training.optimizer)

    class Interrupts:
        def __array__(self, *_, **__):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        monitor.loss(Interrupts())


def test_results_that_are_no_tensors_are_left_alone(configured, written):
    class Strange(torch.nn.Module):
        def forward(self, x, *rest, **more):
            return {"x": x, "self": rest, 5: object(), "set": {1, 2}}

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.strange, self.fc = Strange(), torch.nn.Linear(4, 1)

        def forward(self, x):
            endless = [x]
            endless.append(endless)
            return self.fc(self.strange(x, endless, None, key="text")["x"])

    net = Outer()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    TrainerMon(configured(**KINDS)).set_monitor(net, optimizer)
    net(batch(0)).sum().backward()
    optimizer.step()
    rows = written()
    assert "lost" not in rows
    assert named(rows["actv"], "strange.output_0", 0)["shape"] == "[5, 4]"


def test_a_cause_whose_words_change_is_not_said_for_ever(configured, tmp_path, logged):
    """As an address in memory would."""

    class Changing:
        calls = 0

        def __array__(self, *_, **__):
            Changing.calls += 1
            raise ValueError(f"at {Changing.calls}")

    training = Training(adam)
    monitor = TrainerMon(configured(**KINDS))
    monitor.set_monitor(training.net, training.optimizer)
    for step in range(50):
        monitor.loss(Changing())
        training.step(step)
    assert Changing.calls == 50
    assert 1 <= len(lost(tmp_path)) == sum("ValueError: at" in line for line in logged()) <= 10
