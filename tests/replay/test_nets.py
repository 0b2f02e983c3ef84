"""Real networks of both frameworks, collected and replayed: what clean float32 runs leave, and how much is replayed."""

import importlib.util
import subprocess
from pathlib import Path

import pytest
from preloaded import python

from msprobe.precheck.check import Inputs, apis_of
from msprobe.precheck.check import checked as check
from msprobe.precheck.judge import Status
from msprobe.replay.recorded import Cause
from msprobe.store.reader import read

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.part(3)]

pytest.importorskip("mindspore", reason="both sides are run")
torch = pytest.importorskip("torch", reason="both sides are run")

HERE = Path(__file__).parent
TWINS = HERE.parent / "twins"
_spec = importlib.util.spec_from_file_location("replay_coverage", HERE / "coverage.py")
coverage = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(coverage)

CLEAN = 1e-6
"""The greatest eta that a float32 kernel of these networks may leave."""

NO_EVIDENCE = {Cause.NOTHING_TO_MEASURE, Cause.ACCUMULATED_GRADIENT, Cause.UNKNOWN_CELL}
"""Shapes, gradients that were summed up, and blocks of the networks' own, whose inner calls are replayed."""


@pytest.fixture
def one_thread():
    """Calls are small here, and other tests run beside this one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(("net", "framework"), [("llama", "mindspore"), ("resnet", "mindspore"), ("resnet", "pytorch")])
@pytest.mark.usefixtures("one_thread")
def test_every_call_of_a_clean_network_is_explained(net, framework, tmp_path):
    command = [
        python({"pytorch": "torch"}.get(framework, framework)),
        str(TWINS / "make.py"),
        net,
        framework,
        str(tmp_path),
        "--task",
        "tensor",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = coverage.Coverage()
    dump = read(tmp_path / "step0")
    found.add(dump)
    assert {key: worst for key, worst in found.worst.items() if worst[0] > CLEAN} == {}
    others = {cause: calls for cause, calls in found.causes.items() if cause not in NO_EVIDENCE}
    assert others == {}
    assert sum(found.counts.values()) > 100
    checked = [each for api in apis_of(dump) for each in check(dump, api, Inputs())[0].directions]
    assert sum(each.skipped is None for each in checked) >= 0.95 * len(checked)
    assert [each for each in checked if each.status is Status.ERROR] == []
