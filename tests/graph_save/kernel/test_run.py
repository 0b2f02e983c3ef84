"""Kernel dumps of real trainings on a CPU: each a process of its own, for MindSpore reads such settings once."""

import json
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from preloaded import python

pytestmark = pytest.mark.mindspore

TRAINING = Path(__file__).parents[2] / "training"
STEPS = (0, 1, 2)
# The kernels of tests/training/kernels.py that multiply matrices: the dense layer, and its gradient for the weight.
FORWARD, GRADIENT = "Default_network-Net_fc-Dense_MatMul-op0", "Gradients_Default_network-Net_fc-Dense_Grad_MatMul"


def run(script, *arguments):
    """What a script reports on its last line, and what was said on standard error."""
    done = subprocess.run(
        [python("mindspore"), str(TRAINING / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "MSPROBE_LOG_LEVEL": "2", "GLOG_v": "3"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@cache
def bare(mode, jit_level, runs):
    """The same training without a debugger."""
    return run("kernels.py", "nowhere", json.dumps({"mode": mode, "jit_level": jit_level, "runs": runs}))[0]


@pytest.fixture
def train(tmp_path):
    """Train with a debugger; gives the folder, the report and what was said. The training is the one without."""

    def train(mode="graph", jit_level="O0", runs=1, **options):
        folder = tmp_path / "dump"
        options |= {"mode": mode, "jit_level": jit_level, "runs": runs}
        report, logged = run("kernels.py", folder, json.dumps(options))
        if "error" not in report:
            assert report == bare(mode, jit_level, runs), "the same losses and weights to the last bit"
        return folder, report, logged

    return train


def files(folder, step, graph=0):
    """The files of one step and graph, in the order of their time stamps; none where the step has no folder."""
    found = (folder / "rank_0" / "Net" / str(graph) / str(step)).glob("*.npy")
    return sorted(found, key=lambda file: int(re.search(r"\.(\d{16})\.", file.name)[1]))


def stems(folder, step):
    """(type, scope name with _ for /, input or output) of the files of a step, each once."""
    return {
        tuple(re.fullmatch(r"(\w+)\.(.+?)\.\d+\.\d+\.\d+\.(\w+)\..*", f.name).groups()) for f in files(folder, step)
    }


def losses_dumped(folder, step):
    """The values of the kernel that makes the loss, as the training reports them."""
    made = [np.load(f) for f in files(folder, step) if re.match(r"ReduceSum\..*\.output\.0\.", f.name)]
    return [each.tobytes().hex() for each in made]


def test_the_steps_asked_for_are_dumped_between_start_and_stop(train):
    folder, report, logged = train(debugger={"task": "statistics", "step": [0, 2]})
    assert {f.name for f in (folder / "rank_0/Net/0").iterdir()} == {"0", "2"}, "the steps of ours"
    # three runs a step: before start, between start and stop, behind stop
    assert losses_dumped(folder, 0) == [report["losses"][1]]
    assert losses_dumped(folder, 2) == [report["losses"][7]]
    assert len(stems(folder, 0)) > 20, "all kernels, inputs and outputs, and the parameters"
    assert {"input", "output"} == {part for _, _, part in stems(folder, 0)}
    assert "on a CPU: the framework saves only tensors" in logged
    written = json.loads((folder / "kernel_kbyk_dump.json").read_text())
    assert written["common_dump_settings"]["saved_data"] == "tensor"
    assert written["msprobe"]["task"] == "statistics", "what gather needs to know"
    assert written["common_dump_settings"]["iteration"] == "0|2"


def test_kernels_are_chosen_by_scope_name_type_and_expression(train):
    exp = "name-regex(.+Net/Exp-op[0-9]+)"
    requested = ["Default/network-Net/act-ReLU/ReLU-op0", "atmul", exp, "MatMulX", "Default/network-Net/fc/BiasAdd-op0"]
    folder, _, logged = train(
        jit_level="O1",
        late="pynative",
        config={"tensor": {"list": requested, "data_mode": ["output"]}},
        debugger={"task": "tensor"},
    )
    for step in STEPS:
        types = {(kind, name) for kind, name, part in stems(folder, step) if part == "output"}
        assert len(types) == len(stems(folder, step)), "outputs alone"
        assert types == {
            ("ReLU", "Default_network-Net_act-ReLU_ReLU-op0"),
            ("MatMul", FORWARD),
            ("MatMul", f"{GRADIENT}_MatMul-op0"),
            ("Exp", "Default_network-Net_Exp-op0"),
        }
    assert '"MatMulX" in list did not match any kernel; did you mean "MatMul"?' in logged
    assert (
        '"Default/network-Net/fc/BiasAdd-op0" in list did not match any kernel; did you mean '
        '"Default/network-Net/fc-Dense/BiasAdd-op0"?' in logged
    )
    assert logged.count("did not match any kernel") == 2


def test_all_runs_of_jit_functions_in_a_step_belong_to_the_step(train):
    folder, report, _ = train(mode="jit", runs=2, debugger={"task": "tensor"})
    for step in STEPS:
        assert losses_dumped(folder, step) == report["losses"][4 * step + 1 : 4 * step + 3]


def test_several_graphs_of_a_step_have_folders_of_their_own(train):
    folder, _, logged = train(other=True, config={"tensor": {"list": ["ReLU"]}}, debugger={"task": "tensor"})
    for step in STEPS:
        kinds = [{file.name.split(".")[0] for file in files(folder, step, graph)} for graph in (0, 1)]
        assert kinds == [{"ReLU", "ReluGrad"}, {"ReLU"}], "the second graph is a ReLU alone"
    assert "not match any kernel" not in logged


@pytest.mark.parametrize("what", ["graph", "jit", "optimizer"])
def test_a_debugger_that_comes_too_late_is_refused(what, train):
    folder, report, _ = train(late=what, debugger={"task": "tensor"})
    assert report["error"] == "UsageError"
    assert "too late for level L2: MindSpore has already compiled a graph" in report["says"]
    assert "construct the debugger at the top of the script" in report["says"]
    assert not folder.exists()


def test_nothing_that_could_be_dumped_is_said(tmp_path):
    """PyNative operations alone: no graph, so no kernel."""
    script = (
        "import sys, mindspore as ms\n"
        "from msprobe.mindspore import PrecisionDebugger\n"
        "debugger = PrecisionDebugger(level='L2', task='tensor', dump_path=sys.argv[1])\n"
        "debugger.start()\n"
        "print(ms.ops.exp(ms.Tensor([0.0])).asnumpy().tolist())\n"
        "debugger.stop()\n"
    )
    (tmp_path / "pynative.py").write_text(script)
    report, logged = run(tmp_path / "pynative.py", tmp_path / "dump")
    assert report == [1.0]
    assert "no kernel" in logged
    assert "use GRAPH_MODE or @jit" in logged


def test_what_the_framework_would_not_do_is_refused_with_the_remedy(tmp_path):
    logged, _ = run("kernel_refusals.py", tmp_path)
    refusals = {
        "foreign letter": ("SettingsError", "contains '.'", "choose another folder"),
        "exception_dump": ("UsageError", "on Ascend (device:", 'use task "statistics"'),
        "overflow_check": ("UsageError", "on Ascend (device:", 'use task "statistics"'),
        "api": ("UsageError", "Functional.relu.0.forward is the name of an API", "give kernels"),
        "expression": ("SettingsError", "the framework rejects", "correct this setting"),
        "used": ("UsageError", "contains kernels of an earlier run", "choose another dump_path"),
        "used, by a rank that was not known": (
            "UsageError",
            "contains kernels of an earlier run",
            "choose another dump_path",
        ),
        "no folder": ("UsageError", "cannot be written", "choose another dump_path"),
        "second": ("UsageError", "one kernel dump per process", "another process"),
    }
    for case, (error, *texts) in refusals.items():
        assert logged[case][0] == error
        assert all(text in logged[case][1] for text in texts), logged[case]
    assert logged["left behind"] is None, "a refusal leaves the environment as it was"
    assert logged["made"] is None
    assert logged["started"] is None
    assert logged["told"] == str(tmp_path / "dump" / "kernel_kbyk_dump.json")


@pytest.mark.turns("ranks", 2)
def test_the_ranks_asked_for_are_dumped(tmp_path, msrun):
    (tmp_path / "config.json").write_text(json.dumps({"rank": [1], "task": "tensor", "tensor": {"list": ["Exp"]}}))
    msrun(TRAINING / "kernel_ranks.py", tmp_path, folder=tmp_path)
    logs = {log.name: log.read_text() for log in (tmp_path / "logs").glob("worker*")}
    assert [(tmp_path / f"done{rank}").exists() for rank in (0, 1)] == [True, True], logs
    dump = tmp_path / "dump"
    assert not (dump / "rank_0" / "Net").exists()
    for step in (0, 1):
        argument, made = (
            np.load(next((dump / f"rank_1/Net/0/{step}").glob(f"Exp.*.{part}.0.*"))) for part in ("input", "output")
        )
        assert argument.tolist() == [1.0 + step] * 3
        np.testing.assert_allclose(made, np.exp(argument), rtol=1e-6)
    assert not any("level L2" in log for log in logs.values()), logs
