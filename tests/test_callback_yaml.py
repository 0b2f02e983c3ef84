"""`MsprobeStep` from the plain values of a YAML file, in real trainings by `mindspore.train.Model`."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import mindspore as ms
import pytest
import yaml
from mindspore import _c_expression, nn, ops
from mindspore.train import Callback, Model

from msprobe.base.errors import MsprobeError, SettingsError, UsageError
from msprobe.mindspore import MsprobeInitStep, MsprobeStep, PrecisionDebugger

sys.path.append(str(Path(__file__).parent / "training"))  # the files there stand beside each other
from by_model import BATCHES, FORWARD, Net, batches, bits, data_of, forget_debuggers, forward, steps, train

pytestmark = [pytest.mark.mindspore, pytest.mark.part(2)]


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Each test starts and ends without debuggers, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)
    forget_debuggers()


class Fails(Callback):
    """Ends a training in its second step."""

    def on_train_step_begin(self, run_context):
        if run_context.original_args().cur_step_num == 2:
            raise ArithmeticError("the training's own")


REGISTERED = {each.__name__: each for each in (MsprobeStep, MsprobeInitStep, Fails)}


def built(text):
    """The callbacks of a YAML file, made as MindFormers makes them.

    Of 1.7.0 to 2.1.0, these are `mindformers.core.callback.build_callback` and
    `mindformers.tools.register.MindFormerRegister.get_instance_from_cfg`.
    """
    made = []
    for entry in yaml.safe_load(text)["callbacks"]:
        arguments = entry.copy()
        kind = REGISTERED[arguments.pop("type")]
        try:
            made.append(kind(**arguments))
        except Exception as err:
            raise type(err)(f"{kind.__name__}: {err}") from err
    return made


def entry(**keys):
    return yaml.safe_dump({"callbacks": [{"type": "MsprobeStep", **keys}]})


@pytest.mark.parametrize("sink", [False, True])
def test_an_entry_collects_what_a_debugger_with_these_settings_collects(sink):
    text = """
    callbacks:
      - type: MsprobeStep
        level: L0
        task: statistics
        dump_path: ./dump
        step: [0, "2-9"]
    """
    collected = train(built(text), dataset_sink_mode=sink)
    trained = train(MsprobeStep(PrecisionDebugger(level="L0", dump_path="./given")))
    assert bits(collected) == bits(trained) == bits(train([]))
    assert steps("dump") == [0, 2]
    for step in (0, 2):
        assert forward("dump", step) == FORWARD
        assert data_of("dump", step) == data_of("given", step)


def test_a_configuration_file_may_say_the_rest():
    settings = {"level": "L1", "dump_path": "./unused", "step": [0], "statistics": {"list": ["Tanh"]}}
    Path("config.json").write_text(json.dumps(settings))
    train(built(entry(config_path="./config.json", level="L0", dump_path="./dump")))
    assert sorted(path.name for path in Path().iterdir()) == ["config.json", "dump"]
    assert steps("dump") == [0]
    assert forward("dump", 0) == ["Cell.body.1.Tanh"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [("1", [1]), ("'1'", [1]), ("0-1", [0, 1]), ("0, 2-7", [0, 2]), ("[0-1, 2]", [0, 1, 2]), ("", [0, 1, 2])],
)
def test_steps_are_had_in_every_way_that_yaml_writes_them(written, expected):
    text = f"""
    callbacks:
      - type: MsprobeStep
        level: L0
        dump_path: ./dump
        step: {written}
    """
    train(built(text))
    assert steps("dump") == expected


@pytest.mark.parametrize(
    ("init_step", "numbers", "expected"),
    [
        (True, [3, 4, 5], [3]),
        ("True", [3, 4, 5], [3]),
        (7, [7, 8, 9], [7]),
        ("7", [7, 8, 9], [7]),
        (1, [1, 2, 3], [1]),
        (False, [0, 1, 2], []),
        ("false", [0, 1, 2], []),
        (0, [0, 1, 2], []),
        (None, [0, 1, 2], []),
    ],
)
def test_one_entry_numbers_the_steps_of_a_resumed_training(init_step, numbers, expected, monkeypatch):
    """The training resumes with its second epoch, so that its first step is that after `BATCHES` others."""
    kernels = []
    monkeypatch.setattr(_c_expression, "_set_init_iter", kernels.append)
    train(built(entry(level="L0", dump_path="./dump", init_step=init_step)), epochs=2, initial_epoch=1)
    assert steps("dump") == numbers
    assert kernels == expected


def test_the_number_is_told_once_per_training_and_beside_the_other_callback_too():
    callbacks = built(entry(level="L0", dump_path="./dump", step=[3, 5], init_step=True))
    train([*callbacks, MsprobeInitStep()], epochs=3, initial_epoch=1)
    assert steps("dump") == [3, 5]


def test_training_on_from_the_last_step_collects_it_though_it_is_the_last_one_asked_for():
    """The first training ends before step 3, the second resumes with it; both know the debugger of these settings."""
    text = entry(level="L0", dump_path="./dump", step=[3], init_step=True)
    train(built(text))
    train(built(text), epochs=2, initial_epoch=1)
    assert steps("dump") == [3]


@pytest.mark.parametrize("first", [True, False])
def test_the_number_goes_to_the_debugger_of_the_entry(first):
    """Also where another one was constructed later."""
    callbacks = built(entry(level="L0", dump_path="./dump", init_step=7))
    other = PrecisionDebugger(level="debug", dump_path="./other")
    others = MsprobeStep(other)
    train([*callbacks, others] if first else [others, *callbacks])
    assert steps("dump") == [7, 8, 9]
    assert other._step == BATCHES


MISTAKES = [
    ({"levle": "L0"}, 'argument "levle" of MsprobeStep: unknown setting "levle"; did you mean "level"?'),
    ({"level": "L7"}, 'argument "level" of'),
    ({"level": 0}, 'argument "level" of'),
    ({"task": "statistic"}, 'did you mean "statistics"?'),
    ({"step": "one"}, 'argument "step" of'),
    ({"step": True}, 'argument "step" of'),
    ({"step": "2-1"}, 'write the smaller number first, "1-2"'),
    ({"dump_path": ""}, 'argument "dump_path" of'),
    ({"config_path": "./missing.json"}, "correct config_path"),
    ({"init_step": "yes"}, 'argument "init_step" of MsprobeStep: "yes" is neither a boolean nor a step'),
]


@pytest.mark.parametrize(("wrong", "expected"), MISTAKES, ids=[str(wrong) for wrong, _ in MISTAKES])
def test_a_mistake_is_raised_when_the_list_is_built_and_names_its_key(wrong, expected):
    with pytest.raises(SettingsError, match=re.escape(expected)):
        built(entry(**{"level": "L0", "dump_path": "./dump", **wrong}))
    assert not PrecisionDebugger._known
    assert not list(Path().iterdir())


@pytest.mark.parametrize("keys", [{}, {"init_step": True}, {"network": "body"}, {"level": None}])
def test_an_entry_that_says_nothing_about_a_debugger_is_refused(keys):
    with pytest.raises(UsageError, match=r"or the arguments of PrecisionDebugger such as level and dump_path"):
        built(entry(**keys))


def test_a_debugger_and_settings_of_one_are_refused_together():
    debugger = PrecisionDebugger(level="L0", dump_path="./dump")
    with pytest.raises(UsageError, match='"dump_path", "level" cannot be combined with a debugger'):
        MsprobeStep(debugger, level="L0", dump_path="./dump")


def test_what_a_debugger_does_not_have_may_stand_beside_one():
    train(MsprobeStep(PrecisionDebugger(level="L0", dump_path="./dump"), network="body", init_step=7))
    assert steps("dump") == [7, 8, 9]
    assert forward("dump", 7) == ["Cell.0.Dense", "Cell.1.Tanh"]


def test_two_entries_for_one_folder_part_their_folders_when_the_list_is_built():
    text = """
    callbacks:
      - {type: MsprobeStep, level: L0, dump_path: ./dump}
      - {type: MsprobeStep, level: mix, dump_path: ./dump}
    """
    built(text)
    paths = [debugger._settings.dump_path for debugger in PrecisionDebugger._known.values()]
    assert sorted(path.name for path in paths) == ["dump", "dump_2"]


@pytest.mark.parametrize("second", ["level: L0, dump_path: ./dump", "level: mix, dump_path: ./other, step: [1]"])
def test_two_entries_that_collect_are_refused_before_the_first_step(second):
    text = f"""
    callbacks:
      - {{type: MsprobeStep, level: L0, dump_path: ./dump}}
      - {{type: MsprobeStep, {second}}}
    """
    net = Net()
    before = bits(net)
    with pytest.raises(UsageError, match="this training has two MsprobeStep callbacks"):
        train(built(text), net)
    assert bits(net) == before
    assert not Path("dump").exists()


def test_beside_an_entry_that_collects_another_may_count_the_steps_of_saves():
    class Saves(Callback):
        def on_train_step_end(self, run_context):
            saving.save(run_context.original_args().net_outputs, "loss")

    callbacks = built("callbacks: [{type: MsprobeStep, level: debug, dump_path: ./saved}]")
    saving = PrecisionDebugger._latest
    callbacks += built(entry(level="L0", dump_path="./dump"))
    train([Saves(), *callbacks])
    assert steps("saved") == steps("dump") == [0, 1, 2]


@pytest.mark.parametrize(("name", "names"), [("body", ["Cell.0.Dense", "Cell.1.Tanh"]), ("", FORWARD)])
def test_a_part_of_the_network_is_collected_by_its_name(name, names):
    train(built(entry(level="L0", dump_path="./dump", network=name)))
    for step in range(BATCHES):
        assert forward("dump", step) == names


@pytest.mark.parametrize(
    ("name", "expected"),
    [("boddy", 'no cell "boddy"; did you mean "body"?'), ("xyz", 'no cell "xyz"; it has "body", "scale"')],
)
def test_a_part_that_is_not_there_is_refused_before_the_first_step(name, expected):
    net = Net()
    before = bits(net)
    with pytest.raises(UsageError, match=re.escape(expected)):
        train(built(entry(level="L0", dump_path="./dump", network=name)), net)
    assert bits(net) == before


def test_a_network_that_holds_its_loss_and_optimizer_is_collected_by_the_name_of_the_model_in_it():
    """MindFormers trains such a wrapper: `Model(wrapper)`, with neither loss nor optimizer of its own."""
    net = Net()
    whole = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1))
    callbacks = built(entry(level="L0", dump_path="./dump", network="network._backbone"))
    Model(whole.set_train()).train(1, batches(), callbacks=callbacks, dataset_sink_mode=False)
    assert bits(net) == bits(train([]))
    assert steps("dump") == [0, 1, 2]
    assert forward("dump", 0) == FORWARD


def test_a_list_that_is_built_again_collects_the_network_of_its_own_training():
    """Equal settings mean the same debugger, which still holds the network of the first training."""
    text = entry(level="L0", dump_path="./dump")
    train(built(text))
    other = nn.SequentialCell(nn.Dense(4, 3))
    model = Model(other, loss_fn=nn.MSELoss(), optimizer=nn.SGD(other.trainable_params(), 0.1))
    model.train(1, batches(), callbacks=built(text))
    assert steps("dump") == list(range(2 * BATCHES))
    assert forward("dump", BATCHES - 1) == FORWARD
    assert forward("dump", BATCHES) == ["Cell.0.Dense"]


def test_in_graph_mode_cells_are_collected_and_apis_refused_before_the_first_step():
    ms.set_context(mode=ms.GRAPH_MODE)
    net = Net()
    before = bits(net)
    with pytest.raises(MsprobeError, match="L1"):
        train(built(entry(level="L1", dump_path="./apis")), net)
    assert bits(net) == before
    assert PrecisionDebugger._latest._step == 0
    train(built(entry(level="L0", dump_path="./dump", step="0, 2")), dataset_sink_mode=False)
    ms.set_context(mode=ms.PYNATIVE_MODE)  # which ends what the graphs still write
    assert steps("dump") == [0, 2]
    assert set(FORWARD) <= set(forward("dump", 2))


def test_an_exception_of_the_training_leaves_the_framework_as_it_was():
    original = ops.square
    text = """
    callbacks:
      - {type: MsprobeStep, level: mix, dump_path: ./dump}
      - {type: Fails}
    """
    with pytest.raises(ArithmeticError, match="the training's own"):
        train(built(text))
    assert ops.square is original
    assert set(FORWARD) <= set(forward("dump", 0))
    train(built(entry(level="mix", dump_path="./dump")))  # the step that was cut short keeps its number and its dump
    assert ops.square is original
    assert steps("dump") == [0, 1, 2, 3, 4]
    assert not data_of("dump", 1)
    assert set(FORWARD) <= set(forward("dump", 2))


def test_the_pages_list_is_built_and_collects_the_steps_that_it_names(blocks):
    (text,) = blocks("en/how-to/collecting/callbacks.md", "yaml")
    assert blocks("zh/how-to/collecting/callbacks.md", "yaml") == [text]
    entries = [each for each in yaml.safe_load(text)["callbacks"] if each["type"] == "MsprobeStep"]
    assert entries[0].pop("auto_register") == "msprobe_callbacks.MsprobeStep"
    train(built(yaml.safe_dump({"callbacks": entries})), epochs=4)
    assert steps("dump") == [0, 10]


REAL = """
import os, pathlib, sys
os.environ["REGISTER_PATH"] = str(pathlib.Path("code").absolute())
import msprobe.mindspore
assert "mindformers" not in sys.modules
from mindformers.core.callback import build_callback
from mindformers.tools.register import MindFormerConfig
from msprobe.mindspore import MsprobeStep
import by_model
made = build_callback(MindFormerConfig("run.yaml").callbacks)
assert type(made[1]) is MsprobeStep, made
by_model.train(made[1:], epochs=4)
try:
    build_callback({"type": "MsprobeStep", "levle": "L0"})
except msprobe.base.errors.SettingsError as err:
    assert str(err).startswith('MsprobeStep: argument "levle" of MsprobeStep: unknown setting'), err
else:
    raise AssertionError("a wrong key was taken")
"""


@pytest.mark.skipif(find_spec("mindformers") is None, reason="MindFormers is not installed here")
def test_mindformers_own_builder_takes_the_pages_list(monkeypatch, blocks):
    Path("code").mkdir()
    (line,) = [block for block in blocks("en/how-to/collecting/callbacks.md", "python") if "auto_register" in block]
    Path("code", "msprobe_callbacks.py").write_text(line)
    Path("run.yaml").write_text(blocks("en/how-to/collecting/callbacks.md", "yaml")[0])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "training"))
    monkeypatch.setenv("OM_MODULES_CACHE", str(Path("modules").absolute()))
    subprocess.run([sys.executable, "-c", REAL], check=True)
    assert steps("dump") == [0, 10]
