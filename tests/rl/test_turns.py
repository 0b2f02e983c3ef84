"""A stage's dump says as which of its step's stages it was begun (`run.stage`), so that a comparison has the order."""

import json
from pathlib import Path

import numpy as np
import pytest

ms = pytest.importorskip("mindspore", reason="its networks are what is collected here")

from mindspore import Tensor, nn  # noqa: E402  # only where the framework is

from msprobe.core import MsProbe  # noqa: E402
from msprobe.mindspore import PrecisionDebugger  # noqa: E402

pytestmark = pytest.mark.mindspore


@pytest.fixture
def collect():
    """`collect(debugger)`: one start and stop of it around a run of a network."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net = nn.SequentialCell(nn.ReLU())

    def run(debugger):
        debugger.start(net)
        net(Tensor(np.ones(2, np.float32)))
        debugger.stop()

    yield run
    for each in list(PrecisionDebugger._known.values()):
        each._retire()
    PrecisionDebugger._latest = None


def turns(root, step):
    """The turn of every dump of a step, by the folder that it stands in."""
    found = {str(file.relative_to(root)): json.loads(file.read_text()) for file in Path(root).rglob("dump.json")}
    return {name.partition("/")[0]: dump["run"].get("stage") for name, dump in found.items() if f"step{step}/" in name}


def test_stages_count_from_their_first_start_in_each_step_with_the_debugger_itself(collect):
    debugger = PrecisionDebugger(dump_path="turns", level="L0")
    learn, sample = debugger.stage("learn"), debugger.stage("sample")
    for order in ((sample, learn, sample, debugger, learn), (debugger, learn, sample)):
        for each in order:
            collect(each)
        debugger.step()
    assert turns("turns", 0) == {"sample": 0, "learn": 1, "step0": 2}
    assert turns("turns", 1) == {"step1": 0, "learn": 1, "sample": 2}


def test_a_stage_that_is_made_behind_the_debuggers_own_start_counts_it(collect):
    """In that step the debugger does not know yet that it will have one, and says nothing."""
    debugger = PrecisionDebugger(dump_path="late", level="L0")
    for _ in range(2):
        collect(debugger)
        collect(debugger.stage("late"))
        debugger.step()
    assert turns("late", 0) == {"step0": None, "late": 1}
    assert turns("late", 1) == {"step1": 0, "late": 1}


def test_places_that_the_service_is_led_to_are_stages(collect):
    debugger = PrecisionDebugger(dump_path="service", level="L0")
    for place in ("b", "a", "b"):
        debugger.service.config.dump_path = f"service/{place}"
        collect(debugger)
    debugger.step()
    assert turns("service", 0) == {"b": 0, "a": 1}


def test_a_debugger_without_stages_says_nothing(collect):
    debugger = PrecisionDebugger(dump_path="plain", level="L0")
    collect(debugger)
    debugger.step()
    assert turns("plain", 0) == {"step0": None}


def test_the_stages_of_a_flow_say_their_turn():
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net = nn.SequentialCell(nn.ReLU())
    MsProbe.config_init({"msprobe": True, "dump_path": "flow", "reference_dump": True, "actor_train_dump": True})
    for stage in ("reference_compute_log_prob", "actor_update"):
        MsProbe.debugger_start(net, stage)
        net(Tensor(np.ones(2, np.float32)))
        MsProbe.debugger_stop(stage)
    MsProbe.step()
    assert turns("flow", 0) == {"reference_compute_log_prob": 0, "actor_update": 1}
