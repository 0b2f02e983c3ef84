"""Task `acc_check` in trainings with MindSpore, with kernels that are wrong on purpose. Needs torch."""

import csv
import logging
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint, nn

from msprobe.store.reader import read

pytestmark = pytest.mark.mindspore

pytest.importorskip("torch", reason="it computes in float64")

X = np.random.default_rng(2).standard_normal((6, 8)).astype(np.float32)
HEALTHY = mint.sin
PLENTY = {"budget_ms": 1e6}


class Layer(nn.Cell):
    """A layer whose activation is `mint.sin` of the moment."""

    def __init__(self):
        super().__init__()
        numbers = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
        self.fc = nn.Dense(8, 8, weight_init=Tensor(numbers), bias_init="zeros")

    def construct(self, x):
        return mint.sin(self.fc(x))  # the line that is named


LINE = next(
    n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if text.endswith("# the line that is named")
)


class Wrong(ms._Function if hasattr(ms, "_Function") else object):
    """The sine, off by a factor in the given direction."""

    @staticmethod
    def forward(ctx, x, forward, backward):
        ctx.factor = backward
        ctx.x = x
        return HEALTHY(x) * forward

    @staticmethod
    def backward(ctx, gradient):
        return gradient * mint.cos(ctx.x) * ctx.factor, None, None


@pytest.fixture
def wrong(monkeypatch):
    """Makes `mint.sin` wrong: `wrong(forward=1.001)`."""

    def make(forward=1.0, backward=1.0):
        monkeypatch.setattr(mint, "sin", lambda x: Wrong.apply(x, forward, backward))

    return make


def train(debugger, steps=1, layers=2, x=X, change=lambda: None):
    """The losses and gradients of some steps."""
    net = nn.SequentialCell([Layer() for _ in range(layers)])

    def loss(x):
        return mint.mean(mint.square(net(x)))

    gradient = ms.value_and_grad(loss, None, net.trainable_params())
    found = []
    for _ in range(steps):
        debugger.start(net)
        found.append(gradient(Tensor(x)))
        debugger.stop()
        debugger.step()
        change()
    return found


def rows(debugger, kind):
    [file] = debugger._settings.dump_path.glob(f"accuracy_checking_{kind}_rank_*.csv")
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def checking(collecting):
    return lambda level="L1", **section: collecting({"task": "acc_check", "acc_check": section}, level=level)


@pytest.mark.parametrize(("factors", "direction"), [({"forward": 1.001}, "forward"), ({"backward": 1.001}, "backward")])
def test_a_wrong_kernel_is_named_with_its_line_and_written(factors, direction, wrong, checking, caplog):
    wrong(**factors)
    debugger = checking(**PLENTY)
    train(debugger, steps=2)
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(said) == 1, "once, however often the call comes"
    assert said[0].startswith(f"acc_check: Mint.sin.0.{direction}.output.0: ")
    assert f"({__file__}:{LINE}, step0)" in said[0]
    title = {"forward": "Forward Test Success", "backward": "Backward Test Success"}[direction]
    found = {row["API Name"]: row for row in rows(debugger, "result") if "step0" in row["Message"]}
    assert found["Mint.sin.0"][title] == "error"
    assert found["Mint.square.0"]["Forward Test Success"] == found["Mint.square.0"]["Backward Test Success"] == "pass"
    dump = read(debugger._settings.dump_path / "step0" / "rank")
    wanted = ["Mint.sin.0.forward", "Mint.sin.0.backward"] if direction == "backward" else ["Mint.sin.0.forward"]
    assert dump.columns.names == wanted
    written = np.load(debugger._settings.dump_path / "step0/rank/dump_tensor_data/Mint.sin.0.forward.output.0.npy")
    given = np.load(debugger._settings.dump_path / "step0/rank/dump_tensor_data/Mint.sin.0.forward.input.0.npy")
    np.testing.assert_allclose(written, np.sin(given) * factors.get("forward", 1), rtol=1e-5)


def test_what_is_written_can_be_checked_and_reproduced_by_the_commands(wrong, checking, tmp_path, capsys):
    from msprobe.cli import main

    wrong(forward=1.001)
    debugger = checking(**PLENTY)
    train(debugger)
    file = str(debugger._settings.dump_path / "step0" / "rank" / "dump.json")
    assert main(["acc_check", "-api_info", file, "-o", str(tmp_path / "out"), "--workers", "1"]) == 1
    assert "first wrong output: Mint.sin.0.forward.output.0" in capsys.readouterr().out
    assert main(["repro", "Mint.sin.0.forward", "-api_info", file, "-o", str(tmp_path / "script")]) == 0


@pytest.mark.pipeline
def test_nothing_is_written_where_nothing_is_wrong_and_the_training_is_the_same(checking, collecting):
    bare = train(collecting(task="structure"), steps=3)
    debugger = checking("mix", **PLENTY)
    found = train(debugger, steps=3)
    assert not list(debugger._settings.dump_path.glob("step*"))
    for (loss, grads), (other, others) in zip(bare, found, strict=True):
        for one, two in zip((loss, *grads), (other, *others), strict=True):
            assert one.asnumpy().tobytes() == two.asnumpy().tobytes()
    statuses = {row[key] for row in rows(debugger, "result") for key in row if key.endswith("Success")}
    assert statuses <= {"pass", "SKIP", ""}


def test_each_distinct_call_comes_first_and_layers_take_turns(checking):
    debugger = checking(white_list=["sin"], **PLENTY)
    train(debugger, steps=3, layers=3)
    found = [(row["Message"].split(",")[0], row["API Name"]) for row in rows(debugger, "result")]
    assert found == [("step0", "Mint.sin.0"), ("step1", "Mint.sin.1"), ("step2", "Mint.sin.2")]
    [forward, backward] = rows(debugger, "calls")
    assert (forward["API Name"], forward["Inputs"], forward["Checked"]) == ("Mint.sin", "Float32[6, 8]", "3")
    assert (backward["Direction"], backward["Checked"]) == ("backward", "3")


def test_over_many_steps_every_call_gets_its_turn_within_a_small_budget(checking):
    def unchecked():
        return [row["API Name"] for row in rows(debugger, "calls") if row["Checked"] == "0" and not row["Reason"]]

    debugger = checking(budget_ms=10.0)  # some checks take so much
    train(debugger)
    first = rows(debugger, "calls")
    assert sum(int(row["Checked"]) for row in first) >= 1
    assert sum(int(row["Over Budget"]) for row in first) >= 1
    assert unchecked()
    for _ in range(200):
        train(debugger, steps=5)
        if not unchecked():
            return
    assert unchecked() == []


def test_a_call_without_room_is_said(checking):
    debugger = checking(memory="1MiB", **PLENTY)
    x = np.ones((40_000, 8), np.float32)
    train(debugger, x=x, layers=1)
    found = {row["API Name"]: row for row in rows(debugger, "calls") if row["Direction"] == "forward"}
    assert found["Mint.sin"]["Over Memory"] == "1"
    assert found["Mint.sin"]["Checked"] == "0"
    assert "memory" in found["Mint.sin"]["Reason"]
    train(debugger, steps=3)
    assert next(row for row in rows(debugger, "calls") if row["Inputs"] == "Float32[6, 8]")["Checked"] == "3"


def test_what_works_in_place_is_checked_by_what_it_received(checking):
    debugger = checking(**PLENTY)
    debugger.start(nn.ReLU())
    Tensor(X.copy()).mul_(3.0)
    debugger.stop()
    debugger.step()
    [row] = rows(debugger, "result")
    assert (row["API Name"], row["Forward Test Success"]) == ("Tensor.mul_.0", "pass")
