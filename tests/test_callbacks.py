"""The callbacks, in real trainings by `mindspore.train.Model`."""

import json
import subprocess
import sys
from pathlib import Path

import mindspore as ms
import pytest
from mindspore import Tensor, _c_expression, nn, ops
from mindspore.train import Callback, Model
from preloaded import python

from msprobe.base.errors import UsageError
from msprobe.callbacks import MsprobeInitStep, MsprobeStep
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger

sys.path.append(str(Path(__file__).parent / "training"))  # the files there stand beside each other
from by_model import BATCHES, Net, X, Y, batches, bits, data_of, forget_debuggers, steps, train

pytestmark = pytest.mark.mindspore


@pytest.fixture(autouse=True)
def _alone():
    """Each test starts and ends without debuggers."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    forget_debuggers()


class Counted(Net):
    """Counts its runs."""

    runs = 0

    def construct(self, x):
        self.runs += 1
        return super().construct(x)


CELLS = [
    "Cell.body.0.Dense.forward.0",
    "Cell.body.1.Tanh.forward.0",
    "Cell.body.SequentialCell.forward.0",
    "Cell.scale.LeakyReLU.forward.0",
    "Cell.scale.LeakyReLU.backward.0",
    "Cell.body.1.Tanh.backward.0",
    "Cell.body.0.Dense.backward.0",
    "Cell.body.SequentialCell.backward.0",
    "Cell.body.0.Dense.parameters_grad",
]


@pytest.mark.parametrize("sink", [False, True])
def test_each_step_is_collected_as_in_a_loop_of_ones_own(sink, tmp_path):
    """With the sink too: in PyNative mode every step has its begin and its end."""
    debugger = PrecisionDebugger(dump_path=tmp_path / "model", level="L0")
    trained = train(MsprobeStep(debugger), dataset_sink_mode=sink)

    net, loss = Net(), nn.MSELoss()
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    gradient = ms.value_and_grad(lambda x, y: loss(net(x), y), None, net.trainable_params())
    own = PrecisionDebugger(dump_path=tmp_path / "loop", level="L0")
    for step in range(BATCHES):
        own.start(net)
        _, grads = gradient(Tensor(X[2 * step : 2 * step + 2]), Tensor(Y[2 * step : 2 * step + 2]))
        own.stop()
        optimizer(grads)
        own.step()

    assert bits(trained) == bits(net)
    assert steps(tmp_path / "model") == list(range(BATCHES))
    for step in range(BATCHES):
        found, expected = data_of(tmp_path / "model", step), data_of(tmp_path / "loop", step)
        assert sorted(found) == sorted(CELLS)
        assert found == expected


def test_the_training_is_the_same_with_and_without(tmp_path):
    bare = train([])
    watched = train(MsprobeStep(PrecisionDebugger(dump_path=tmp_path, level="mix", task="tensor")))
    assert bits(bare) == bits(watched)
    assert steps(tmp_path) == list(range(BATCHES))


def test_the_loss_functions_calls_stand_at_the_root(tmp_path):
    train(MsprobeStep(PrecisionDebugger(dump_path=tmp_path, level="mix")))
    construct = json.loads((tmp_path / "step0" / "rank" / "construct.json").read_text())
    assert construct["Cell.body.0.Dense.forward.0"] == "Cell.body.SequentialCell.forward.0"
    assert construct["Functional.square.0.forward"] is None
    assert "Functional.square.0.backward" in data_of(tmp_path, 0)


def test_level_l1_works_too(tmp_path):
    train(MsprobeStep(PrecisionDebugger(dump_path=tmp_path, level="L1")))
    names = data_of(tmp_path, 1)
    assert "Functional.square.0.forward" in names
    assert not [name for name in names if name.startswith("Cell.")]


def test_a_model_that_the_user_named_before_stays_in_force(tmp_path):
    net = Net()
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L0")
    debugger.start(net.body)
    train(MsprobeStep(debugger), net)
    assert steps(tmp_path) == list(range(BATCHES))
    for step in range(BATCHES):
        names = {name.split(".")[1] for name in data_of(tmp_path, step)}
        assert names == {"0", "1"}


def test_a_second_training_has_its_own_network(tmp_path):
    callback = MsprobeStep(PrecisionDebugger(dump_path=tmp_path, level="L0"))
    train(callback)
    train(callback)
    assert steps(tmp_path) == list(range(2 * BATCHES))
    assert sorted(data_of(tmp_path, BATCHES)) == sorted(CELLS)


def test_only_the_steps_asked_for_are_collected(tmp_path):
    train(MsprobeStep(PrecisionDebugger(dump_path=tmp_path, level="L0", step=[1])))
    assert steps(tmp_path) == [1]


def test_an_evaluation_between_the_epochs_is_not_recorded(tmp_path):
    net = Net()
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    model = Model(net, loss_fn=nn.MSELoss(), optimizer=optimizer, metrics={"mae"})
    callback = MsprobeStep(PrecisionDebugger(dump_path=tmp_path, level="L0"))
    model.fit(2, batches(), batches(), callbacks=callback, dataset_sink_mode=False, valid_dataset_sink_mode=False)
    assert steps(tmp_path) == list(range(2 * BATCHES))
    for step in range(2 * BATCHES):
        assert sorted(data_of(tmp_path, step)) == sorted(CELLS)


def test_a_mistake_is_raised_before_the_first_step(tmp_path):
    root = tmp_path / "dump"
    callback = MsprobeStep(PrecisionDebugger(dump_path=root, level="L0"))
    root.write_text("a file where the folder should be")
    net = Counted()
    with pytest.raises(UsageError, match="cannot be written"):
        train(callback, net)
    assert net.runs == 0


def test_what_goes_wrong_later_does_not_stop_the_training(tmp_path, capsys):
    other = PrecisionDebugger(dump_path=tmp_path / "other", level="L1")

    class InTheWay(Callback):
        def on_train_step_end(self, run_context):
            if run_context.original_args().cur_step_num == 1:
                other.start()
            else:
                other.stop()

    debugger = PrecisionDebugger(dump_path=tmp_path / "dump", level="L0")
    net = train([MsprobeStep(debugger), InTheWay()])
    assert bits(net) == bits(train([]))
    assert steps(tmp_path / "dump") == [0, 1, 2]
    assert steps(tmp_path / "other") == [0]
    assert "had not been stopped" in capsys.readouterr().err


def test_an_exception_of_the_training_leaves_the_framework_as_it_was(tmp_path):
    class Fails(Callback):
        def on_train_step_begin(self, run_context):
            replaced.append(ops.square.__code__ is not original)
            if run_context.original_args().cur_step_num == 2:
                raise ArithmeticError("the training's own")

    original, replaced = ops.square.__code__, []
    with pytest.raises(ArithmeticError):
        train([MsprobeStep(PrecisionDebugger(dump_path=tmp_path, level="mix")), Fails()])
    assert replaced == [True, True]
    assert ops.square.__code__ is original
    assert sorted(set(CELLS) & set(data_of(tmp_path, 0))) == sorted(CELLS)


@pytest.mark.parametrize("wrong", [None, "./config.json", PrecisionDebugger])
def test_anything_but_a_debugger_is_refused(wrong):
    with pytest.raises(UsageError, match=r"is not a PrecisionDebugger; pass MsprobeStep\(PrecisionDebugger\(...\)\)"):
        MsprobeStep(wrong)


class Resumed(Callback):
    """Tells a training where it resumes, as callbacks that load checkpoints do."""

    def on_train_begin(self, run_context):
        run_context.original_args().cur_step_num = 7


@pytest.fixture
def kernels(monkeypatch):
    """The iterations that MindSpore's kernel dump was told."""
    received = []
    monkeypatch.setattr(_c_expression, "_set_init_iter", received.append)
    return received


@pytest.mark.parametrize("first", [True, False])
def test_a_resumed_training_numbers_its_steps_from_where_it_is(first, tmp_path, kernels):
    callback = MsprobeStep(PrecisionDebugger(dump_path=tmp_path, level="L0", step=[7, 9]))
    order = [MsprobeInitStep(), Resumed(), callback] if first else [callback, Resumed(), MsprobeInitStep()]
    train(order)
    assert steps(tmp_path) == [7, 9]
    assert kernels == [7]


def test_epochs_that_are_left_out_count(tmp_path, kernels):
    train(
        [MsprobeStep(PrecisionDebugger(dump_path=tmp_path, level="L0")), MsprobeInitStep()], epochs=2, initial_epoch=1
    )
    assert steps(tmp_path) == [BATCHES, BATCHES + 1, BATCHES + 2]
    assert kernels == [BATCHES]


def test_a_start_before_a_resumed_training_takes_no_number_of_it(tmp_path, kernels):
    net = Net()
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L0")
    debugger.start(net)
    train([MsprobeStep(debugger), Resumed(), MsprobeInitStep()], net)
    assert steps(tmp_path) == [0, 7, 8, 9]
    assert data_of(tmp_path, 0) == {}
    assert sorted(data_of(tmp_path, 7)) == sorted(CELLS)


def test_a_training_from_its_first_step_is_left_alone(tmp_path, kernels):
    train([MsprobeStep(PrecisionDebugger(dump_path=tmp_path, level="L0")), MsprobeInitStep()])
    assert steps(tmp_path) == list(range(BATCHES))
    assert kernels == []


def test_a_number_without_a_debugger_is_refused_before_the_first_step():
    net = Counted()
    with pytest.raises(UsageError, match="construct a PrecisionDebugger first"):
        train(MsprobeInitStep(), net)
    assert net.runs == 0


def test_the_framework_has_the_switch_that_kernel_dumps_need():
    """What the others replace is there, takes a number, and gives nothing."""
    assert _c_expression._set_init_iter(0) is None


def test_the_page_shows_what_its_examples_collect(tmp_path, blocks):
    code = "\n".join(blocks("en/how-to/collecting/callbacks.md", "python"))
    subprocess.run([python("mindspore"), "-c", code], cwd=tmp_path, check=True)
    assert steps(tmp_path / "dump") == [0, 2]
    assert steps(tmp_path / "resumed") == [6, 7, 8]
    names = list(data_of(tmp_path / "dump", 0))
    shown = blocks("en/how-to/collecting/callbacks.md", "text")[0].split()
    assert [name for name in names if ".forward" in name] == shown
    assert len([name for name in names if ".backward" in name]) == len(shown)


@pytest.mark.parametrize("language", ["python", "text"])
def test_both_pages_show_the_same_examples(language, blocks):
    assert blocks("en/how-to/collecting/callbacks.md", language) == blocks(
        "zh/how-to/collecting/callbacks.md", language
    )
