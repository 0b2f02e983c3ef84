"""The same by a flow's `MsProbe`, by the callback of `Model`, and under `verify-collection`: many rows in each."""

import json
import subprocess
from pathlib import Path

import named
import pytest
from odd import LARGE
from preloaded import python

from msprobe.core import MsProbe
from msprobe.store.reader import read

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

STAGE = "actor_update"


@pytest.fixture
def values(taken):
    return {word: odd for word, odd in taken.items() if word not in LARGE}


class Flow:
    """Called as a debugger is, and collects as a flow does."""

    def start(self, model):
        MsProbe.debugger_start(model, STAGE)

    def stop(self):
        MsProbe.debugger_stop(STAGE)

    def step(self):
        MsProbe.step()


def test_a_stage_of_a_flow_goes_on_and_names_what_it_lacks(training, values, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(MsProbe, "_roots", {})
    level = {"level": "mix", "task": "tensor"}
    section = {"msprobe": True, "dump_path": "run", "actor_train_dump": True, "step_end": 0}
    MsProbe.config_init({**section, "stage_configs": {STAGE: level}})
    makes = [odd.make for odd in values.values()]
    try:
        parameters = training.run(makes, Flow())
    finally:
        MsProbe.config_init(None)
    assert parameters == training.run(makes)
    dump = read(tmp_path / "run" / STAGE / "step0" / "rank0")
    named.check(dump, values, training.name + ".inner.Inner.forward.{}")


@pytest.mark.parametrize("training", ["mindspore"], indirect=True)
def test_the_callback_of_a_model_goes_on_and_names_what_it_lacks(training, values, ending, tmp_path):
    from msprobe.mindspore import MsprobeStep

    debugger = training.debugger_class(dump_path=str(tmp_path), level="mix", task="statistics")
    ending.append(debugger)
    makes = [odd.make for odd in values.values()]
    assert training.run_by_model(makes, [MsprobeStep(debugger)]) == training.run_by_model(makes)
    for step in range(2):
        named.check(read(tmp_path / f"step{step}" / "rank"), values, "Cell.inner.Inner.forward.{}")


SCRIPT = """
import json
import sys
sys.path[:0] = [sys.argv[1]]
from odd import ODD
from trainings import MAKERS
from msprobe.mindspore import seed_all

seed_all(mode=True)
training = MAKERS["mindspore"]()
debugger = training.debugger_class(dump_path="dump", level="mix", task="statistics")
training.run([ODD[word].make for word in json.loads(sys.argv[2])], debugger)
"""


@pytest.mark.parametrize("training", ["mindspore"], indirect=True)
def test_verify_collection_finds_the_training_equal(training, values, tmp_path):
    """Of one framework and a sample of the rows: three runs import it anew."""
    values = dict(list(values.items())[::4])
    (tmp_path / "script.py").write_text(SCRIPT)
    argv = ["script.py", str(Path(__file__).parent), json.dumps(list(values))]
    command = [python("mindspore"), "-m", "msprobe", "verify-collection", *argv]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1].startswith("equal: ")
    named.check(read(tmp_path / "dump" / "step0" / "rank"), values, training.name + ".inner.Inner.forward.{}")
