"""A run that collects nothing says so at its end, once, with the reason and what to change; any other says nothing.

Each case is a process of its own, for what is said at its end is what is asked for; those of PyTorch are forked from
one that has imported it.
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.part(4)]

TRAIN = {
    "pytorch": """
import json, os, sys, torch
from msprobe.pytorch import PrecisionDebugger
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
    def forward(self, x):
        return torch.relu(self.fc(x))
net, X = Net(), torch.ones(1, 3)
""",
    "mindspore": """
import json, os, sys, numpy as np, mindspore as ms
from mindspore import nn, ops, Tensor
from msprobe.mindspore import PrecisionDebugger
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(3, 2)
    def construct(self, x):
        return ops.relu(self.fc(x))
net, X = Net(), Tensor(np.ones((1, 3), np.float32))
""",
}
LOOP = """
def config(**given):
    with open("config.json", "w") as file:
        json.dump({"dump_path": "dump", **given}, file)
    return PrecisionDebugger("config.json")
def train(steps, start=True, stop=True, model=net):
    for _ in range(steps):
        start and debugger.start(model)
        net(X)
        start and stop and debugger.stop()
        debugger.step()
"""

CASES = {
    # the run; what is said of it
    "a rank that this card is not": (
        "debugger = config(level='mix', rank=[3])\ntrain(2)",
        ['"rank" is [3]', "no process of this run has such a rank; choose an existing rank, or []"],
    ),
    "a step that never came": (
        "debugger = config(level='mix', step=[9])\ntrain(4)",
        ['"step" is [9]', "start() was called only in the steps 0 to 3; choose one of these"],
    ),
    "steps that were never ended": (
        "debugger = config(level='mix', step=[2])\ndebugger.start(net)\nnet(X)\ndebugger.stop()",
        ['"step" is [2]', "only in step 0; step() was never called"],
    ),
    "a step before the first": (
        "debugger = config(level='mix', step=[1])\ndebugger.set_init_step(5)\ntrain(2)",
        ["start() was never called"],
    ),
    "debug without save": (
        "debugger = config(level='debug')\ntrain(2)",
        ["save() was never called", "use start() for other levels"],
    ),
    "debug whose steps are others": (
        "debugger = config(level='debug', step=[7])\ndebugger.save(X, 'x')\ndebugger.step()",
        ['"step" is [7]', "save() was called only in step 0"],
    ),
    "a list that matches nothing": (
        "debugger = config(level='mix', statistics={'list': ['conv2d']})\ntrain(2)",
        ['"list" ["conv2d"] did not match any call', "use the names from its dump.json"],
    ),
    "a scope that matches nothing": (
        "names = ['Functional.gelu.0.forward', 'Functional.gelu.1.forward']\n"
        "debugger = config(level='L1', statistics={'scope': names})\ntrain(2)",
        ['"scope" ["Functional.gelu.0.forward", ', "did not match any call"],
    ),
    "steps without a start": ("debugger = config(level='mix')\ntrain(3, start=False)", ["start() was never called"]),
    "another model": (
        "debugger = config(level='L0')\ndebugger.start(Net())\nnet(X)\ndebugger.stop()\ndebugger.step()",
        ["no call was recorded between start() and stop()", "pass the trained model to start()"],
    ),
    "all over": (
        "debugger = config(level='mix', step=[0], statistics={'list': ['conv2d']})\ntrain(3)\n"
        "print('said before the end', file=sys.stderr)",
        ["did not match any call"],
    ),
    "a stage without calls": (
        "debugger = config(level='mix')\nstage = debugger.stage('update', statistics={'list': ['conv2d']})\n"
        "stage.start(net)\nnet(X)\nstage.stop()\ntrain(1)",
        ["/dump/update: ", "did not match any call"],
    ),
}

SILENT = {
    "a run": "debugger = config(level='mix')\ntrain(2)",
    "a run without stop": "debugger = config(level='mix')\ntrain(2, stop=False)",
    "one of its steps": "debugger = config(level='mix', step=[1])\ntrain(4)",
    "structure": "debugger = config(task='structure', level='mix')\ntrain(1)",
    "saved": "debugger = config(level='debug')\ndebugger.save(X, 'x')\ntrain(2)",
    "a process that never began": "debugger = config(level='mix', step=[9])\nnet(X)",
    "a rank of another process": "os.environ['WORLD_SIZE'] = '4'\ndebugger = config(level='mix', rank=[3])\ntrain(2)",
    "a rank that is given": (
        "debugger = config(level='mix', rank=[3])\ndebugger.start(net, rank_id=1)\nnet(X)\ndebugger.stop()"
    ),
    "a stage": (
        "debugger = config(level='mix')\nstage = debugger.stage('update')\nstage.start(net)\nnet(X)\nstage.stop()\n"
        "debugger.step()"
    ),
    "a forked child": (
        "debugger = config(level='mix', step=[0])\ndebugger.start(net)\nnet(X)\ndebugger.stop()\n"
        "if os.fork() == 0:\n    sys.exit()\nos.wait()\ndebugger.step()"
    ),
    "a forked child of an empty run": (
        "debugger = config(level='mix', step=[9])\ndebugger.start(net)\n"
        "if os.fork() == 0:\n    sys.exit()\nos.wait()\nos._exit(0)"
    ),
}


FORKING = """
import json, os, sys
for name, code in json.load(open("cases.json")).items():
    if (child := os.fork()) == 0:
        os.makedirs(name)
        os.chdir(name)
        os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT), 2)
        exec(code, globals())
        sys.exit()
    assert os.waitpid(child, 0)[1] == 0, name
"""


def run(folder, code):
    environment = {key: value for key, value in os.environ.items() if key not in ("WORLD_SIZE", "RANK_SIZE")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


@pytest.fixture(scope="module")
def forked(tmp_path_factory):
    """The folder with a folder for each case that was trained with PyTorch, and in it what was said."""
    if not find_spec("torch"):
        pytest.skip("PyTorch is not installed here")
    folder = tmp_path_factory.mktemp("forked")
    cases = {name: code for name, (code, _) in CASES.items()} | SILENT
    (folder / "cases.json").write_text(json.dumps(cases))
    run(folder, TRAIN["pytorch"] + LOOP + FORKING)
    return folder


@pytest.fixture
def logged(request, tmp_path):
    """What a process says, and the folder that it ran in."""

    def trained(framework, name, code):
        if framework == "pytorch":
            folder = request.getfixturevalue("forked") / name
            return (folder / "said").read_text().splitlines(), folder
        if not find_spec("mindspore"):
            pytest.skip("MindSpore is not installed here")
        return run(tmp_path, TRAIN[framework] + LOOP + code), tmp_path

    return trained


def together(cases):
    """Every case with PyTorch, and the main ones with MindSpore, whose import takes seconds."""
    heavy = ("a rank that this card is not", "a step that never came", "debug without save", "steps without a start")
    light = [pytest.param("pytorch", name, id=f"pytorch-{name}") for name in cases]
    return light + [pytest.param("mindspore", name, id=f"mindspore-{name}") for name in cases if name in heavy]


@pytest.mark.sample(2)
@pytest.mark.parametrize(("framework", "name"), together(CASES))
def test_a_run_that_collects_nothing_says_why(framework, name, logged):
    code, words = CASES[name]
    lines, folder = logged(framework, name, code)
    (line,) = [line for line in lines if "nothing was collected in " in line]
    assert line.startswith(f"msprobe WARNING: nothing was collected in {folder}/dump")
    assert all(word in line for word in words), line
    assert not any("msprobe ends successfully" in each for each in lines) or name == "a step before the first"
    if name == "all over":
        assert lines.index(line) < lines.index("said before the end")
    for file in folder.glob("dump/step*/rank*/d*.json"):
        assert json.loads(file.read_text())["data"] == {} or name == "a stage without calls"


@pytest.mark.parametrize("name", SILENT)
def test_a_run_that_collects_says_nothing(name, logged):
    lines, folder = logged("pytorch", name, SILENT[name])
    assert not [line for line in lines if "nothing was collected" in line]
    collects = name not in ("a process that never began", "a forked child of an empty run") and "a rank" not in name
    assert bool(list(folder.glob("dump/**/d*.json"))) == collects
