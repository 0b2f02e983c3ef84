"""`debugger.stage` and `debugger.service`: several models, stages and configurations within one training step."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ms = pytest.importorskip("mindspore", reason="its networks are what is collected here")

from mindspore import Parameter, Tensor, nn, ops  # noqa: E402  # only where the framework is

from msprobe.base import log  # noqa: E402
from msprobe.base.errors import SettingsError, UsageError  # noqa: E402
from msprobe.debugger import MAX_DUMP_PATHS  # noqa: E402
from msprobe.frameworks.mindspore.autograd import HAS_NODES  # noqa: E402
from msprobe.mindspore import PrecisionDebugger  # noqa: E402

pytestmark = pytest.mark.mindspore

X = Tensor(np.ones((1, 3), np.float32))
BODY, HEAD = "Cell.body.Layer", "Cell.head.Layer"


class Layer(nn.Cell):
    def __init__(self, scale):
        super().__init__()
        self.w = Parameter(Tensor(np.full((3, 3), scale, np.float32)), name="w")

    def construct(self, x):
        return ops.matmul(x, self.w)


class Net(nn.Cell):
    def __init__(self, scale=1.0):
        super().__init__()
        self.body, self.head = Layer(scale), Layer(scale)

    def construct(self, x):
        return self.head(self.body(x))


@pytest.fixture(autouse=True)
def _ended():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    yield
    for each in list(PrecisionDebugger._known.values()):
        each._end_step()
    PrecisionDebugger._known.clear()
    PrecisionDebugger._latest = None


@pytest.fixture
def debugger():
    return PrecisionDebugger(dump_path="dump", level="L0")


def read(place, step=0):
    return json.loads(Path(place, f"step{step}", "rank", "dump.json").read_text())


def names(place, step=0):
    return list(read(place, step)["data"])


def forward(debugger, net, times=1):
    debugger.start(net)
    for _ in range(times):
        net(X)
    debugger.stop()


def calls(*runs):
    return [f"{stem}.forward.{run}" for run in runs for stem in (BODY, HEAD)]


def test_stages_of_one_step_have_their_places_settings_and_numbers(debugger):
    """Generate, log-prob, generate, log-prob, with micro batches: each goes on in its own dump."""
    policy, reference = Net(), Net(2.0)
    generate = debugger.stage("generate", level="mix")
    score = debugger.stage("score", task="tensor", tensor={"list": ["head"]})
    for _ in range(2):
        for _ in range(2):
            forward(generate, policy, times=2)
            forward(score, reference)
        debugger.step()
    for step in (0, 1):
        assert read("dump/generate", step)["run"]["step"] == step
        cells = [name for name in names("dump/generate", step) if name.startswith("Cell")]
        assert cells == calls(0, 1, 2, 3)
        assert names("dump/score", step) == [f"{HEAD}.forward.0", f"{HEAD}.forward.1"]
        output = read("dump/score", step)["data"][f"{HEAD}.forward.1"]["output"][0]
        assert output["Max"] == 36.0, "the reference's, 1 * 3 * 2 * 3 * 2, by hand"
        assert "at" not in read("dump/generate", step)["data"][f"{BODY}.forward.0"], "hooked once, the first model"
    assert sorted(p.name for p in Path("dump").iterdir()) == ["generate", "run.jsonl", "score"]


def test_settings_are_the_debuggers_unless_a_file_or_an_argument_stands_in_their_place(tmp_path):
    file = tmp_path / "stage.json"
    file.write_text(json.dumps({"dump_path": "passed over", "task": "statistics", "level": "mix", "rank": [0]}))
    arguments = {"dump_path": "dump", "task": "tensor", "level": "L0", "step": [0, 2], "tensor": {"list": ["head"]}}
    (tmp_path / "config.json").write_text(json.dumps(arguments))
    debugger = PrecisionDebugger(str(tmp_path / "config.json"))

    def settings(stage):
        return stage._settings.described()

    whole = settings(debugger)
    assert settings(debugger.stage("same")) == {**whole, "dump_path": str(Path("dump/same").absolute())}
    own = settings(debugger.stage("file", file, level="L1"))
    assert (own["task"], own["level"], own["step"], own["rank"]) == ("statistics", "L1", [0, 2], [0])
    assert own["dump_path"] == str(Path("dump/file").absolute())
    assert settings(debugger.stage("all", tensor={}))["tensor"]["list"] == []
    assert settings(debugger.stage("later", step=[5]))["step"] == [5]


def test_a_stage_is_made_once_and_found_again(debugger):
    stage = debugger.stage("update", level="mix")
    assert isinstance(stage, PrecisionDebugger)
    assert debugger.stage("update") is stage is debugger.stage("update", level="mix")
    assert PrecisionDebugger.stage("update") is stage, "of the debugger that was constructed last, which no stage is"
    with pytest.raises(UsageError, match=r'stage\(\): "update" already exists with other settings'):
        debugger.stage("update", level="L1")


@pytest.mark.parametrize(
    ("name", "settings", "what"),
    [
        (
            "update",
            {"levle": "L1"},
            'argument "levle" of stage("update"): unknown setting "levle"; did you mean "level"',
        ),
        ("update", {"level": "L5"}, 'argument "level" of stage("update"): "L5" is unknown'),
        ("update", {"level": "L2"}, 'choose "L0", "L1", "mix" or "debug" for a stage'),
        ("update", {"dump_path": "x"}, 'argument "dump_path" of stage("update"): a stage writes to'),
        ("update", {"statistics": {"lst": []}}, 'argument "statistics" of stage("update"), statistics.lst: unknown'),
        ("update", {"config_path": "no.json"}, "no.json: no such file"),
        ("", {}, "the name is ''; pass a string such as 'actor_update'"),
        (None, {}, "the name is None"),
        ("a/b", {}, 'stage(): "a/b" is not a valid folder'),
        ("..", {}, 'stage(): ".." is not a valid folder'),
        ("x" * 300, {}, "is not a valid folder"),
        ("step3", {}, "the name of a folder of the debugger; choose another name"),
    ],
)
def test_what_cannot_be_a_stage_is_refused(debugger, name, settings, what):
    with pytest.raises((SettingsError, UsageError)) as refused:
        debugger.stage(name, **settings)
    assert what in str(refused.value)
    assert debugger.stage("update").level == "L0"


def test_only_the_debugger_counts_steps(debugger, logged):
    stage = debugger.stage("update")
    with pytest.raises(UsageError, match=r"is a stage itself; call stage\('inner'\) of the debugger of"):
        stage.stage("inner")
    with pytest.raises(UsageError, match="is a stage, which does not count steps"):
        stage.set_init_step(3)
    for _ in range(2):
        forward(stage, Net())
        stage.step()
    assert len(logged) == 1
    assert "step() of the stage in" in logged[0]
    debugger.step()
    assert names("dump/update", 0) == [*calls(0), *[f"{stem}.forward.1" for stem in (BODY, HEAD)]]
    debugger.set_init_step(7)
    forward(debugger.stage("late"), Net())
    forward(stage, Net())
    with pytest.raises(UsageError, match="a step is being collected"):
        debugger.set_init_step(9)
    debugger.step()
    assert names("dump/late", 7) == names("dump/update", 7) == calls(0)


def test_a_stage_that_is_made_in_step_3_begins_there_and_ends_with_its_own_steps(debugger):
    for step in range(5):
        if step >= 3:
            forward(debugger.stage("late", step=[3]), Net())
        debugger.step()
    assert [p.name for p in Path("dump/late").iterdir()] == ["step3"]


def test_the_end_is_said_when_the_last_stage_is_over(monkeypatch):
    lines = []
    monkeypatch.setattr(log.logger, "info", lambda message, *values: lines.append(message % values))
    debugger = PrecisionDebugger(dump_path="dump", level="L0", step=[0])
    late = debugger.stage("late", step=[2])
    for _ in range(5):
        forward(debugger, Net())
        forward(late, Net())
        debugger.step()
    assert [p.name for p in Path("dump").glob("step*")] == ["step0"]
    assert [p.name for p in Path("dump/late").iterdir()] == ["step2"]
    assert lines[2:] == [
        "msprobe ends successfully. The last step to collect was 2; further calls to start(), stop() and step() "
        "are ignored"
    ]


def test_one_is_open_at_a_time_the_debugger_and_its_stages_alike(debugger):
    first, second = debugger.stage("first"), debugger.stage("second")
    first.start(Net())
    for other in (second, debugger):
        with pytest.raises(UsageError, match="is already started; call its stop"):
            other.start(Net())
    first.stop()
    forward(second, Net())
    forward(debugger, Net())
    debugger.step()
    for place in ("dump", "dump/second"):
        assert names(place) == calls(0)


def test_two_debuggers_may_have_stages_of_the_same_name_and_no_folder_has_two_writers(debugger):
    other = PrecisionDebugger(dump_path="other", level="L0")
    forward(debugger.stage("update"), Net())
    forward(other.stage("update"), Net())
    debugger.step()
    forward(debugger.stage("update"), Net())
    other.step()
    debugger.step()
    assert names("dump/update", 1) == names("other/update", 0) == calls(0)
    third = PrecisionDebugger(dump_path="dump/update", level="L0")
    PrecisionDebugger(dump_path="dump/taken", level="L0")
    fourth = debugger.stage("taken", level="mix")
    assert debugger.stage("taken", level="mix") is fourth
    forward(third, Net())
    forward(fourth, Net())
    third.step()
    debugger.step()
    assert names("dump/update_2") == calls(0)
    assert Path("dump/taken_2/step2").is_dir()


def test_a_process_that_just_ends_leaves_finished_dumps_of_its_stages(tmp_path):
    script = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import numpy as np
from mindspore import Tensor, nn
from msprobe.mindspore import PrecisionDebugger
debugger = PrecisionDebugger(dump_path="ended", level="L0")
net = nn.SequentialCell(nn.ReLU())
debugger.stage("one").start(net)
net(Tensor(np.ones(2, np.float32)))
debugger.stage("one").stop()
debugger.stage("two").start(net)
net(Tensor(np.ones(2, np.float32)))
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    for stage in ("one", "two"):
        assert names(f"ended/{stage}") == ["Cell.0.ReLU.forward.0"]


def test_stages_share_the_disk_budget_of_their_debugger(tmp_path, logged):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dump_path": "dump", "level": "L0", "task": "tensor", "disk_budget": 400}))
    debugger = PrecisionDebugger(str(config))
    forward(debugger.stage("one"), Net())
    forward(debugger.stage("two"), Net())
    debugger.step()
    assert len(list(Path("dump").rglob("*.npy"))) < 3
    assert any("disk_budget" in line for line in logged)


# ---- gradients that come late ---------------------------------------------------------------------------------------

AFTER = [f"{stem}.parameters_grad" for stem in (HEAD, BODY)]


@pytest.mark.skipif(not HAS_NODES, reason="without autograd nodes nothing tells whose calls a backward passes")
@pytest.mark.parametrize("gradients", ["own", "hooks"])
@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("is_open", [True, False])
def test_gradients_that_come_after_another_stage_began_are_those_of_their_own_stage(
    gradients, shares, is_open, tmp_path
):
    """The other stage has run a model, the same or another, and is stopped or still open when the backward runs."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dump_path": "dump", "level": "L0", "gradients": gradients}))
    debugger = PrecisionDebugger(str(config))
    net = Net()
    other = net if shares else Net()

    def loss():
        forward_of = debugger.stage("update")
        forward_of.start(net)
        out = net(X)
        forward_of.stop()
        debugger.stage("score").start(other)
        other(X)
        if not is_open:
            debugger.stage("score").stop()
        return out.sum()

    ms.value_and_grad(loss, None, net.trainable_params())()
    debugger.stage("score").stop()
    debugger.step()
    assert [name for name in names("dump/update") if "parameters_grad" in name] == AFTER
    gradient = read("dump/update")["data"][AFTER[0]]["w"][0]
    assert (gradient["Max"], gradient["shape"]) == (3.0, [3, 3]), "what the body gives, 1 * 3, by hand"
    assert [name for name in names("dump/score") if "parameters_grad" in name] == []


@pytest.mark.skipif(not HAS_NODES, reason="without autograd nodes nothing tells whose calls a backward passes")
@pytest.mark.parametrize("gradients", ["own", "hooks"])
def test_stages_that_share_a_model_and_have_a_backward_each_keep_their_own(gradients, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"dump_path": "dump", "level": "L0", "gradients": gradients}))
    debugger = PrecisionDebugger(str(config))
    net = Net()
    gradient_of = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
    for factor, name in ((1, "actor"), (2, "critic"), (3, "actor")):
        stage = debugger.stage(name)
        stage.start(net)
        gradient_of(X * factor)
        stage.stop()
    debugger.step()

    def greatest(place):
        return [each["w"][0]["Max"] for name, each in read(place)["data"].items() if name.startswith(AFTER[0])]

    assert greatest("dump/actor") == [3.0, 9.0]
    assert greatest("dump/critic") == [6.0]


@pytest.mark.skipif(not HAS_NODES, reason="without autograd nodes nothing tells whose calls a backward passes")
def test_the_backward_of_a_part_that_is_not_collected_is_of_no_stage(debugger):
    net = Net()
    forward(debugger.stage("score"), net)
    ms.value_and_grad(lambda: net(X).sum(), None, net.trainable_params())()
    debugger.step()
    assert [name for name in names("dump/score") if "parameters_grad" in name] == []


# ---- msprobe's names ------------------------------------------------------------------------------------------------


def test_a_flow_that_drives_the_service_has_each_stage_at_its_own_place(debugger):
    """As dialect A of the flows does it: redirect, hook anew, start, stop, reset; and step at the end."""
    models = {"actor": Net(), "reference": Net(2.0)}
    for _ in range(2):
        for stage in ("actor", "reference", "actor"):
            debugger.service.first_start = True
            debugger.service.config.dump_path = f"flow/{stage}"
            assert debugger.service.config.dump_path == str(Path(f"flow/{stage}").absolute())
            debugger.start(model=models[stage])
            assert not debugger.service.first_start
            models[stage](X)
            debugger.stop()
            debugger.service.reset_status()
        debugger.step()
    for step in (0, 1):
        assert names("flow/actor", step) == calls(0, 1), "nothing was lost when the place was started again"
        assert names("flow/reference", step) == calls(0)
        assert read("flow/reference", step)["data"][f"{HEAD}.forward.0"]["output"][0]["Max"] == 36.0
        assert all("at" not in each for each in read("flow/reference", step)["data"].values())
    assert not Path("dump").exists()


def test_a_redirection_is_of_the_next_start_and_the_way_back_is_open(debugger):
    net = Net()
    debugger.start(net)
    debugger.service.config.dump_path = "elsewhere"
    net(X)
    debugger.service.reset_status()  # stops
    forward(debugger, net)
    debugger.service.config.dump_path = "dump"
    forward(debugger, net)
    debugger.service.config.dump_path = "dump/update"
    forward(debugger, net)
    debugger.step()
    assert names("dump") == calls(0, 1)
    assert names("elsewhere") == names("dump/update") == calls(0)


def test_a_folder_of_its_own_in_every_step_loses_nothing_and_does_not_pile_up(debugger):
    net = Net()
    for step in range(2 * MAX_DUMP_PATHS):
        debugger.service.config.dump_path = f"iteration{step}/update"
        forward(debugger, net)
        debugger.step()
    assert all(names(f"iteration{step}/update", step) == calls(0) for step in range(2 * MAX_DUMP_PATHS))
    assert len(PrecisionDebugger._known) <= MAX_DUMP_PATHS + 2
    debugger.service.config.dump_path = "iteration0/update"
    forward(debugger, net)
    debugger.step()
    assert names("iteration0/update", 2 * MAX_DUMP_PATHS) == calls(0), "a folder that was let go is taken in again"


def test_a_redirection_that_cannot_be_is_refused(debugger):
    Path("file").write_text("")
    PrecisionDebugger(dump_path="taken", level="L0")
    stage = debugger.stage("update")
    debugger.service.config.dump_path = "taken"
    forward(debugger, Net())
    assert names("taken_2") == calls(0), "another debugger's folder stays its own"
    for path, what in (
        ("file", "service.config.dump_path: .*is a file"),
        (3, "no.* path"),
    ):
        with pytest.raises((SettingsError, UsageError), match=what):
            debugger.service.config.dump_path = path
    with pytest.raises(UsageError, match="is a stage; set the dump_path of the debugger of"):
        stage.service.config.dump_path = "x"
    debugger.service.config.dump_path = "dump/update"
    forward(debugger, Net())
    forward(stage, Net())
    debugger.step()
    assert names("dump/update") == calls(0, 1), "the stage of that place"


def test_saves_of_level_debug_follow_the_redirection_and_the_stage():
    debugger = PrecisionDebugger(dump_path="saved", level="debug")
    debugger.save(X, "x")
    debugger.service.config.dump_path = "saved/other"
    debugger.save(X, "y")
    debugger.stage("stage").save(X, "z")
    debugger.step()
    found = {
        place: list(json.loads((Path(place) / "step0/rank/debug.json").read_text())["data"])
        for place in ("saved", "saved/other", "saved/stage")
    }
    assert [each[0] for each in found.values()] == ["x.0.debug", "y.0.debug", "z.0.debug"]
