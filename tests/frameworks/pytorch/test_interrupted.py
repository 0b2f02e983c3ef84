"""A signal handler that ends the step, and whatever else comes at a wrong moment, never stops or blocks a training."""

import json
import signal
import subprocess
import sys

import pytest
import torch
from preloaded import python
from small_model import Mlp
from traced_lines import AtLine

from msprobe import stage_control
from msprobe.base.errors import UsageError

pytestmark = [pytest.mark.torch, pytest.mark.part(2)]

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def train(debugger, net):
    """One step; gives its gradients."""
    net.zero_grad()
    debugger.start(net)
    net(X).sum().backward()
    debugger.stop()
    debugger.step()
    return [parameter.grad.tolist() for parameter in net.parameters()]


def send_signal():
    sys.settrace(None)  # calls from here on need not be traced, which costs more than the step
    signal.raise_signal(signal.SIGUSR1)


@pytest.mark.parametrize(
    ("level", "stride"), [("L0", 29), ("mix", 61), pytest.param("mix", 29, marks=pytest.mark.verify)]
)
def test_a_handler_that_ends_the_step_may_come_at_any_line(level, stride, collecting, capsys):
    debugger = collecting({"task": "tensor", "tensor": {}}, level=level)
    net = Mlp()
    bare = train(debugger, net)
    came = []

    def handler(*_):
        debugger.stop()
        debugger.step()
        came.append(1)

    before, traced = signal.signal(signal.SIGUSR1, handler), sys.gettrace()
    try:
        at, reached = 1, True
        while reached:
            count = AtLine(at, send_signal)
            sys.settrace(count)
            try:
                gradients = train(debugger, net)
            finally:
                sys.settrace(traced)
            assert gradients == bare, f"line {at}"
            reached = count.left <= 0
            at += stride
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(came) > 60
    assert torch.relu.__module__ != "msprobe", "what was replaced is back"
    assert train(debugger, net) == bare
    root = debugger._settings.dump_path
    files = sorted(root.glob("step*/rank/dump.json"), key=lambda file: int(file.parts[-3][4:]))
    assert len(files) > 60
    whole = json.loads(files[0].read_text())["data"]
    assert json.loads(files[-1].read_text())["data"].keys() == whole.keys()
    assert not list(root.rglob("dump.journal"))
    for file in files:
        json.loads(file.read_text())
    assert "Traceback" not in capsys.readouterr().err


def test_a_batch_that_is_skipped_leaves_the_next_one_whole(collecting, dumped, capsys):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.outer = torch.nn.Sequential(Mlp(), Raises())

        def forward(self, x):
            return self.outer(x)

    class Raises(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.act = torch.nn.ReLU()

        def forward(self, x):
            if x.isnan().any():
                raise ValueError("a bad batch")
            return self.act(x)

    debugger, net, seen = collecting(), Net(), 0
    for batch in (X, X * float("nan"), X, X * float("nan"), X):
        try:
            debugger.start(net)
            net(batch).sum().backward()
            debugger.stop()
            debugger.step()
            seen += 1
        except ValueError:
            continue
    assert seen == 3
    first, second = dumped(debugger), dumped(debugger, 1)
    assert second.missing[0]["name"] == "Module.outer.1.Raises.forward.0"
    assert second.missing[0]["cause"].startswith("the call raised ValueError")
    later = "Module.outer.1.Raises.forward.1"
    assert second.construct[later] == "Module.outer.Sequential.forward.1"
    assert second.construct["Module.outer.1.act.ReLU.forward.0"] == later
    assert second.construct["Module.outer.Sequential.forward.1"] is None
    assert second.construct["Module.outer.1.act.ReLU.backward.0"] == "Module.outer.1.Raises.backward.1"
    assert first.construct["Module.outer.1.act.ReLU.backward.0"] == "Module.outer.1.Raises.backward.0"
    logged = capsys.readouterr().err
    assert logged.count("had not been stopped, possibly because an exception ended") == 1


def test_once_started_nothing_raises(collecting, dumped, capsys, tmp_path):
    debugger = collecting()
    net = Mlp()
    debugger.stop()
    debugger.step()
    train(debugger, net)
    other = collecting()
    train(other, net)
    wrong = [
        lambda: debugger.start(net),
        lambda: debugger.start(net),
        lambda: other.start(net),
        lambda: debugger.start("no model"),
        lambda: debugger.start(net, token_range=[3, 1]),
        lambda: debugger.start(net, rank_id=-1),
        debugger.stop,
        debugger.stop,
        debugger.step,
        debugger.step,
        other.stop,
        other.step,
    ]
    for call in wrong:
        call()
    torch.relu(X)
    train(debugger, net)
    step = max(int(path.name[4:]) for path in debugger._settings.dump_path.glob("step*"))
    assert dumped(debugger, step).names == dumped(debugger, 1).names
    logged = capsys.readouterr().err
    assert logged.count("the training continues without the dump of this step") == 3
    assert "Traceback" not in logged


def test_a_debugger_that_was_deleted_is_there_again(debugger_class, tmp_path):
    torch.manual_seed(0)
    net = Mlp()
    for _ in range(3):
        debugger = debugger_class(dump_path=str(tmp_path / "d"), level="L0")
        train(debugger, net)
        del debugger
    assert sorted(path.name for path in (tmp_path / "d").glob("step*")) == ["step0", "step1", "step2"]
    debugger_class._known.clear()
    debugger_class._latest = None
    again = debugger_class(dump_path=str(tmp_path / "d"), level="L0")
    train(again, net)
    debugger_class._known.clear()
    debugger_class._latest = None
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["run.jsonl", "run2", "step0", "step1", "step2"]
    assert (tmp_path / "d" / "run2" / "step0" / "rank" / "dump.json").exists()


def test_another_thread_may_start_what_this_one_stopped(collecting, dumped):
    from threading import Thread

    debugger, net = collecting(), Mlp()
    debugger.start(net)
    net(X)
    debugger.stop()

    def more():
        debugger.start(net)
        net(X)
        debugger.stop()

    thread = Thread(target=more)
    thread.start()
    thread.join()
    debugger.step()
    assert {"Module.fc1.Linear.forward.0", "Module.fc1.Linear.forward.1"} <= set(dumped(debugger).names)


DELETED = """
import os, shutil, sys, torch
from msprobe.pytorch import PrecisionDebugger
os.mkdir("gone"); os.chdir("gone"); home = os.getcwd()
gone = lambda when: shutil.rmtree(home) if sys.argv[1] == when else None
gone("before")
debugger = PrecisionDebugger(dump_path="./dump", level="mix", task="tensor")
gone("before start")
net = torch.nn.Sequential(torch.nn.Linear(2, 2))
for step in range(4):
    gone(f"before step {step}")
    debugger.start(net)
    gone(f"in step {step}")
    net(torch.ones(1, 2)).sum().backward()
    debugger.stop()
    debugger.step()
print(sorted(name for name in os.listdir(home + "/dump") if os.path.exists(f"{home}/dump/{name}/rank/dump.json")))
"""


@pytest.mark.parametrize(
    ("when", "whole"),
    [("before start", [0, 1, 2, 3]), ("before step 2", [2, 3]), ("in step 2", [3])],
)
def test_a_working_directory_that_is_deleted_costs_what_was_in_it(when, whole, tmp_path):
    done = subprocess.run(
        [python("torch", "torch._dynamo"), "-c", DELETED, when],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{[f'step{step}' for step in whole]}\n"
    assert "Traceback" not in done.stderr


def test_a_relative_dump_path_without_a_working_directory_is_refused_in_one_line(tmp_path):
    done = subprocess.run(
        [python("torch", "torch._dynamo"), "-c", DELETED, "before"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1].endswith(
        '"./dump" is relative, but the working directory no longer exists; give an absolute path, or start in an '
        "existing folder"
    )


class Stops(torch.nn.Module):
    """Interrupted in its forward, as by Ctrl-C, when asked to be."""

    interrupts = False

    def forward(self, x):
        if self.interrupts:
            signal.raise_signal(signal.SIGINT)
        return x.relu()


@pytest.fixture
def stopping(interruptible):
    net = torch.nn.Sequential(Mlp(), Stops())
    net[1].interrupts = True
    return net


@pytest.mark.parametrize("task", ["statistics", "exception_dump", "overflow_check", "structure"])
@pytest.mark.parametrize("is_handling", [True, False])
def test_steps_can_be_numbered_anew_after_an_interrupt(task, is_handling, stopping, collecting, dumped):
    debugger = collecting({"task": task, task: {}})
    try:
        train(debugger, stopping)
    except KeyboardInterrupt:
        if is_handling:
            debugger.set_init_step(7)
    if not is_handling:
        debugger.set_init_step(7)
    stopping[1].interrupts = False
    train(debugger, stopping)
    assert debugger._step == 8
    if task == "statistics":
        assert {"name": "step", "part": "interrupted"}.items() <= dumped(debugger, 0).missing[0].items()
        assert "Module.1.Stops.forward.0" in dumped(debugger, 7).data
        assert not dumped(debugger, 7).missing


def test_steps_cannot_be_numbered_anew_in_a_step_that_goes_on(collecting):
    debugger, net = collecting(), Mlp()
    debugger.start(net)
    net(X)
    with pytest.raises(UsageError, match="being collected"):
        debugger.set_init_step(7)


def test_the_next_start_notes_that_the_step_was_left(stopping, collecting, dumped):
    debugger = collecting()
    stopping[1].interrupts = False
    debugger.start(stopping)
    stopping(X)
    with pytest.raises(KeyboardInterrupt):  # outside of all that is recorded
        signal.raise_signal(signal.SIGINT)
    train(debugger, stopping)
    [note] = dumped(debugger).missing
    assert (note["name"], note["part"]) == ("step", "interrupted")


def test_a_turn_that_was_not_given_back_is_taken(collecting):
    """As when an interrupt comes as `start` has taken its turn."""
    debugger, net = collecting(), Mlp()
    train(debugger, net)
    stage_control._CALLS._holder["turn"] = object()
    train(debugger, net)
    assert debugger._step == 2
    assert sorted(path.name for path in debugger._settings.dump_path.glob("step*")) == ["step0", "step1"]
