"""The monitor as a callback of `mindspore.train.Model`, from entries of a YAML file, in real trainings."""

import csv
import json
import re
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import yaml
from mindspore import Tensor, nn
from mindspore.train import Callback, Model

from msprobe.base.errors import SettingsError, UsageError
from msprobe.callbacks import MsprobeStep
from msprobe.mindspore import MsprobeMonitor, TrainerMon

sys.path.append(str(Path(__file__).parent / "training"))  # the files there stand beside each other
from by_model import BATCHES, Net, X, Y, batches, bits, forget_debuggers, steps, train

pytestmark = pytest.mark.mindspore

ALL = {
    "xy_distribution": True,
    "wg_distribution": True,
    "mv_distribution": True,
    "param_distribution": True,
    "ops": ["norm", "min", "max", "mean"],
    "step_count_per_record": 100,
}


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Each test has a folder of its own, with a configuration file of the monitor, and no debuggers."""
    monkeypatch.chdir(tmp_path)
    Path("monitor.json").write_text(json.dumps(ALL))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)
    forget_debuggers()


def rows(kind, folder=None):
    """The rows of a kind, of the one folder that was written."""
    (folder,) = [folder] if folder else Path("monitor_output").glob("*-rank0-*")
    (file,) = folder.glob(f"{kind}_[0-9]*.csv")
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def numbers(kind, name, statistic, folder=None):
    """Step to value of one series."""
    return {int(row["step"]): float(row[statistic]) for row in rows(kind, folder) if row["name"] == name}


def built(text):
    """The callbacks of a YAML file, as MindFormers makes them."""
    known = {each.__name__: each for each in (MsprobeStep, MsprobeMonitor)}
    return [known[entry.pop("type")](**entry) for entry in yaml.safe_load(text)["callbacks"]]


def by_hand(count=BATCHES):
    """The training of `train` in numpy: per step the loss, the gradient of the weight, the weight before and after.

    The loss is the mean of squares of f(tanh(x W^T + b)) - y, f the leaky ReLU with slope 0.5; SGD with rate 0.1. The
    framework's own tanh is right to some 3e-5.
    """
    weight, bias = X[:3].astype(np.float64), np.zeros(3)
    found = []
    for step in range(count):
        x, y = (each[2 * step : 2 * step + 2].astype(np.float64) for each in (X, Y))
        hidden = np.tanh(x @ weight.T + bias)
        output = np.where(hidden > 0, hidden, 0.5 * hidden)
        at_output = 2 * (output - y) / output.size
        at_sum = at_output * np.where(hidden > 0, 1, 0.5) * (1 - hidden**2)
        gradient = at_sum.T @ x
        after = weight - 0.1 * gradient
        found.append((np.mean((output - y) ** 2), gradient, weight, after))
        weight, bias = after, bias - 0.1 * at_sum.sum(0)
    return found


ENTRY = """
callbacks:
  - type: MsprobeMonitor
    config_path: ./monitor.json
"""


@pytest.mark.parametrize("sink", [False, True])
def test_an_entry_monitors_the_losses_gradients_and_weights_of_every_step(sink):
    """In PyNative mode each step has its hooks with the sink too; on the CPU nothing is sunk."""
    watched = train(built(ENTRY), dataset_sink_mode=sink)
    assert bits(watched) == bits(train([]))
    for step, (loss, gradient, before, after) in enumerate(by_hand()):
        near = dict(rel=1e-4, abs=1e-5)
        assert numbers("local", "loss", "value")[step] == pytest.approx(loss, **near)
        for kind, value in (
            ("grad_unreduced", gradient),
            ("grad_reduced", gradient),
            ("param_origin", before),
            ("param_updated", after),
        ):
            for statistic, expected in (("norm", np.linalg.norm(value)), ("max", value.max()), ("mean", value.mean())):
                assert numbers(kind, "body.0.weight", statistic)[step] == pytest.approx(expected, **near), (kind, step)
    assert sorted(numbers("grad_reduced", "body.0.weight", "norm")) == list(range(BATCHES))


def test_activations_are_measured_once_a_step_and_carry_the_names_of_the_trained_network():
    train(built(ENTRY))
    names = [(row["name"], row["step"], row["micro_step"]) for row in rows("actv")]
    modules = ("body", "body.0", "body.1", "scale")
    expected = [
        (f"{m}.{side}", str(step), "0") for step in range(BATCHES) for m in modules for side in ("input", "output")
    ]
    assert sorted(names) == sorted(expected)


def test_the_moments_are_those_of_the_optimizer():
    net = Net()
    model = Model(net, loss_fn=nn.MSELoss(), optimizer=nn.Adam(net.trainable_params(), 0.1))
    model.train(1, batches(), callbacks=built(ENTRY))
    (_, gradient, *_), *_ = by_hand(1)
    second = numbers("exp_avg", "body.0.weight", "norm")
    assert second[0] == 0
    assert second[1] == pytest.approx(0.1 * np.linalg.norm(gradient), rel=1e-4)


@pytest.mark.parametrize(
    ("key", "expected"),
    [("", [3, 4, 5]), ("start_iteration: 7", [7, 8, 9]), ("start_iteration: '7'", [7, 8, 9])],
)
def test_a_resumed_training_goes_on_with_its_own_numbers(key, expected):
    """It resumes with its second epoch, so that its first step is that after `BATCHES` others."""
    train(built(f"{ENTRY}    {key}\n"), epochs=2, initial_epoch=1)
    assert sorted(numbers("param_origin", "body.0.weight", "norm")) == expected


def test_a_number_that_another_callback_sets_at_the_beginning_counts():
    class Resumes(Callback):
        def on_train_begin(self, run_context):
            run_context.original_args().cur_step_num = 40

    train([*built(ENTRY), Resumes()])
    assert sorted(numbers("param_origin", "body.0.weight", "norm")) == [40, 41, 42]


def test_graph_mode_is_refused_before_the_first_step():
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Net()
    before = bits(net)
    with pytest.raises(UsageError, match=r"GRAPH_MODE.*set PYNATIVE_MODE"):
        train(built(ENTRY), net)
    assert bits(net) == before
    assert not Path("monitor_output").exists()


def test_a_model_without_an_optimizer_is_refused_before_the_first_step():
    net = Net()
    with pytest.raises(UsageError, match=", and its updates define the steps"):
        Model(net, loss_fn=nn.MSELoss()).train(1, batches(), callbacks=built(ENTRY))


@pytest.mark.parametrize("network", ["", "    network: network._backbone\n"])
def test_a_network_that_holds_its_loss_and_optimizer_is_monitored_without_these_wrappers(network):
    """MindFormers trains such a wrapper: `Model(wrapper)`, with neither loss nor optimizer of its own."""
    net = Net()
    whole = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1))
    Model(whole.set_train()).train(1, batches(), callbacks=built(ENTRY + network), dataset_sink_mode=False)
    assert bits(net) == bits(train([]))
    assert {row["name"].split(".")[0] for row in rows("actv")} == {"body", "scale"}
    assert numbers("local", "loss", "value") == pytest.approx({n: row[0] for n, row in enumerate(by_hand())}, rel=1e-4)


def test_a_network_that_computes_its_own_loss_needs_no_loss_function():
    class WithLoss(nn.Cell):
        def __init__(self):
            super().__init__()
            self.model, self.loss = Net(), nn.MSELoss()

        def construct(self, x, y):
            return self.loss(self.model(x), y)

    net = WithLoss()
    Model(net, optimizer=nn.SGD(net.trainable_params(), 0.1)).train(1, batches(), callbacks=built(ENTRY))
    assert numbers("local", "loss", "value") == pytest.approx({n: row[0] for n, row in enumerate(by_hand())}, rel=1e-4)
    assert len(numbers("grad_reduced", "model.body.0.weight", "norm")) == BATCHES


@pytest.mark.parametrize("scale", [1.0, 128.0])
def test_with_mixed_precision_and_a_loss_scale_the_gradients_are_those_that_the_optimizer_receives(scale):
    """The loss scale is in the gradients until the optimizer takes it out."""
    net = Net()
    optimizer = nn.SGD(net.trainable_params(), 0.1, loss_scale=scale)
    manager = ms.amp.FixedLossScaleManager(scale, drop_overflow_update=False)
    options = {"amp_level": "O2", "loss_scale_manager": manager, "keep_batchnorm_fp32": False}
    Model(net, loss_fn=nn.MSELoss(), optimizer=optimizer, **options).train(1, batches(), callbacks=built(ENTRY))
    _, gradient, before, _ = by_hand(1)[0]
    found = numbers("grad_reduced", "body.0.weight", "norm")
    assert found[0] == pytest.approx(scale * np.linalg.norm(gradient), rel=1e-2)
    assert numbers("param_origin", "body.0.weight", "norm")[0] == pytest.approx(np.linalg.norm(before), rel=1e-2)


def test_an_entry_of_msprobe_step_can_start_a_monitor_beside_its_dump():
    text = """
    callbacks:
      - type: MsprobeStep
        level: L0
        dump_path: ./dump
        step: [4]
        init_step: true
        monitor: ./monitor.json
    """
    watched = train(built(text), epochs=2, initial_epoch=1)
    assert bits(watched) == bits(train([]))
    assert steps("dump") == [4]
    assert sorted(numbers("param_origin", "body.0.weight", "norm")) == [3, 4, 5]


def test_without_init_step_a_dump_and_a_monitor_beside_it_both_begin_at_0():
    text = "callbacks: [{type: MsprobeStep, level: L0, dump_path: ./dump, monitor: ./monitor.json}]"
    train(built(text), epochs=2, initial_epoch=1)
    assert steps("dump") == [0, 1, 2]
    assert sorted(numbers("param_origin", "body.0.weight", "norm")) == [0, 1, 2]


def test_a_callback_that_is_used_twice_writes_two_folders():
    callbacks = built(ENTRY)
    net = train(callbacks)
    train(callbacks, net, epochs=2, initial_epoch=1)
    folders = sorted(Path("monitor_output").iterdir(), key=lambda each: each.stat().st_mtime_ns)
    found = [sorted(numbers("param_origin", "body.0.weight", "norm", folder)) for folder in folders]
    assert sorted(found) == [[0, 1, 2], [3, 4, 5]]


class Fails(Callback):
    """Ends a training in its second step."""

    def on_train_step_begin(self, run_context):
        if run_context.original_args().cur_step_num == 2:
            raise ArithmeticError("the training's own")


@pytest.mark.parametrize("ends_early", [False, True])
def test_after_the_training_nothing_is_hooked(ends_early):
    net, loss = Net(), nn.MSELoss()
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    model = Model(net, loss_fn=loss, optimizer=optimizer)
    if ends_early:
        with pytest.raises(ArithmeticError, match="the training's own"):
            model.train(1, batches(), callbacks=[*built(ENTRY), Fails()])
    else:
        model.train(1, batches(), callbacks=built(ENTRY))
    before = rows("param_updated")
    assert {int(row["step"]) for row in before} == ({0} if ends_early else {0, 1, 2})
    gradient = ms.value_and_grad(lambda x, y: loss(net(x), y), None, net.trainable_params())
    optimizer(gradient(Tensor(X[:2]), Tensor(Y[:2]))[1])
    model.train(1, batches())
    assert rows("param_updated") == before


MISTAKES = [
    ({"conifg_path": "./monitor.json"}, 'did you mean "config_path"?'),
    ({"config_path": 5}, "is not a path; give the configuration file of the monitor"),
    ({"config_path": "./missing.json"}, "missing.json: cannot be read"),
    ({"config_path": "./monitor.json", "ops": ["norm"]}, "move it to the file given by config_path"),
    ({"config_path": "./monitor.json", "level": "L0"}, "move it to an entry of MsprobeStep"),
    ({"config_path": "./monitor.json", "network": 1}, "is not the name of a cell"),
    ({"config_path": "./monitor.json", "start_iteration": "soon"}, "is not a step; write the number of the first step"),
    ({"config_path": "./monitor.json", "start_iteration": True}, "is not a step"),
    ({"config_path": "./wrong.json"}, "wrong.json: wg_distribution"),
]


@pytest.mark.parametrize(("wrong", "expected"), MISTAKES, ids=[str(wrong) for wrong, _ in MISTAKES])
def test_a_mistake_is_raised_when_the_list_is_built(wrong, expected):
    Path("wrong.json").write_text('{"wg_distribution": "yes"}')
    with pytest.raises(SettingsError, match=re.escape(expected)):
        MsprobeMonitor(**wrong)


def test_an_entry_without_a_file_is_refused():
    with pytest.raises(UsageError, match="config_path is missing"):
        MsprobeMonitor()


def test_a_network_that_is_not_there_is_refused_before_the_first_step():
    net = Net()
    before = bits(net)
    with pytest.raises(
        UsageError, match=re.escape('"network" of MsprobeMonitor: the trained network has no cell "boddy"')
    ):
        train(built(f"{ENTRY}    network: boddy\n"), net)
    assert bits(net) == before


def test_the_callback_writes_what_a_trainer_mon_in_a_loop_of_ones_own_writes(monkeypatch):
    train(built(ENTRY))
    found = {kind: rows(kind) for kind in ("actv", "actv_grad", "grad_reduced", "param_updated")}
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", "own")
    net, loss = Net(), nn.MSELoss()
    net.set_train()
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    gradient = ms.value_and_grad(lambda x, y: loss(net(x), y), None, net.trainable_params())
    monitor = TrainerMon("monitor.json")
    monitor.set_monitor(net, optimizer)
    for step in range(BATCHES):
        _, grads = gradient(Tensor(X[2 * step : 2 * step + 2]), Tensor(Y[2 * step : 2 * step + 2]))
        optimizer(grads)
    monitor.stop()
    (folder,) = Path("own").iterdir()
    assert {kind: rows(kind, folder) for kind in found} == found
