"""`msprobe verify-collection`: a training that collecting changes is found out, one that it does not is vouched for."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from preloaded import python

from msprobe.base.errors import UsageError
from msprobe.verify_collection import Moment, Trace, compare_runs, first_difference, verify_collection

pytestmark = [pytest.mark.mindspore, pytest.mark.part(3)]

pytest.importorskip("mindspore", reason="trains")

ROOT = Path(__file__).parents[1]
COMMANDS = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(r"^(?:equal|first difference): .*$", re.MULTILINE)

TRAINING = """
import os, random, sys
import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from msprobe.mindspore import PrecisionDebugger

bare = ops.square.__code__

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = Parameter(Tensor([1.0, 2.0], ms.float32), name="first")
        self.second = Parameter(Tensor([3.0, 4.0], ms.float32), name="second")

    def construct(self, x):
        return ops.square(x * self.first * self.second).sum()

def is_collecting():
    return ops.square.__code__ is not bare

with open("said", "a") as said:
    print(*sys.argv, __name__, file=said)
ms.set_context(mode=ms.PYNATIVE_MODE)
random.seed(1); np.random.seed(1); ms.set_seed(1); ms.manual_seed(1)
net = Net()
gradient = ms.value_and_grad(net, None, net.trainable_params())
optimizer = nn.SGD(net.trainable_params(), 0.01)
debugger = PrecisionDebugger(dump_path="dump", level="L1")
for step in range(3):
    debugger.start(net)
    _, grads = gradient(Tensor([0.5, 0.25], ms.float32))
    HERE
    debugger.stop()
    optimizer(grads)
    debugger.step()
"""


@pytest.fixture
def verify(tmp_path):
    """Verify the training with a line inside the collection; gives exit code, standard output, standard error."""

    def run(*words, here="pass", old="", new="", printed=""):
        (tmp_path / "train.py").write_text(TRAINING.replace("HERE", here).replace(old, new))
        command = [python("mindspore"), "-m", "msprobe", "verify-collection", *words]
        (tmp_path / "input").write_text(printed)
        with open(tmp_path / "input") as file:
            done = subprocess.run(command, cwd=tmp_path, stdin=file, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


def complaint(outcome):
    code, out, err = outcome
    assert (code, out) == (2, "")
    return err.splitlines()[-1]


def test_a_training_that_stays_as_it_is_is_vouched_for(verify, tmp_path):
    answers = "print(input(), file=sys.stderr)"
    code, out, err = verify("train.py", "--steps", "9", "--framework", "mine", "x y", here=answers, printed="7\n8\n9\n")
    assert out == "equal: 2 parameters and the random generators are bitwise identical at all 3 steps\n"
    assert code == 0
    # the script's own words are the script's, in each of the three runs
    assert (tmp_path / "said").read_text() == "train.py --steps 9 --framework mine x y __main__\n" * 3
    assert [line for line in err.splitlines() if line.startswith("msprobe INFO: run ")] == [
        "msprobe INFO: run 1 of 3, without collection",
        "msprobe INFO: run 2 of 3, without collection",
        "msprobe INFO: run 3 of 3, collecting",
    ]
    assert "".join(line for line in err.splitlines() if line.isdecimal()) == "789" * 3, "each run reads the same input"
    assert sorted(os.listdir(tmp_path / "dump")) == ["run.jsonl", "step0", "step1", "step2"]


def test_a_parameter_that_collecting_changes_is_named_with_its_step(verify):
    here = "if is_collecting() and step == 1: net.second[0] = net.second[0] * (1 + 2e-7)"
    code, out, _ = verify("train.py", here=here)
    assert out == "first difference: at step() of step 1: parameter second\n"
    assert code == 1


@pytest.mark.always
def test_a_random_number_that_collecting_draws_is_found_without_a_network(verify):
    here = "if is_collecting() and step == 2: random.random(); np.random.rand(); ms.manual_seed(2)"
    code, out, _ = verify("train.py", here=here, old="start(net)", new="start()")
    generators = ", ".join(f"the random generator of {each}" for each in ("Python", "numpy", "MindSpore"))
    assert (code, out) == (1, f"first difference: at step() of step 2: {generators}\n")


def test_without_a_network_it_says_what_was_not_compared(verify):
    code, out, _ = verify("train.py", old="debugger.start(net)", new="PrecisionDebugger.start()")
    assert code == 0
    assert out == (
        "equal: the random generators are bitwise identical at all 3 steps; parameters were not compared, since "
        "start() was called without a network: call start(network)\n"
    )


def test_a_training_that_is_not_reproducible_is_refused_with_advice(verify):
    message = complaint(verify("train.py", here="net.first[0] = os.getpid() * 0.25"))
    assert "not reproducible even without collection: two runs differ at step() of step 0: parameter first" in message
    assert "seed_all(mode=True)" in message
    assert "msprobe.mindspore" in message
    assert "msprobe.pytorch" in message


def test_steps_ends_each_run_after_so_many(verify, tmp_path):
    here = "open(f'reached{step}', 'a').write('x')"
    code, out, _ = verify("--steps", "2", "train.py", here=here)
    assert (code, out.endswith("at all 2 steps\n")) == (0, True)
    assert sorted(p.name for p in tmp_path.glob("reached*")) == ["reached0", "reached1"]
    assert (tmp_path / "reached1").read_text() == "xxx"
    assert {p.name for p in (tmp_path / "dump").glob("*/rank/dump.json")} == {"dump.json"}
    assert sorted(os.listdir(tmp_path / "dump")) == ["run.jsonl", "step0", "step1"]


def test_a_training_that_fails_only_when_it_is_collected_differs(verify):
    code, out, _ = verify("train.py", here="if is_collecting(): raise OSError('no space')")
    assert code == 1
    assert out == "first difference: the training fails when it is collected: OSError: no space\n"


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        (
            "debugger.stop()",
            "sys.exit(3)",
            "the training fails without collection: it ends with exit code 3",
        ),
        ("debugger.stop()", "os._exit(4)", "without collection: its process ends with code 4"),
        ("debugger.", "print #", "never calls start() or step()"),
        ('level="L1"', 'level="L3"', 'argument "level" of PrecisionDebugger: "L3"'),
    ],
)
def test_what_cannot_be_verified_is_refused(verify, old, new, part):
    assert part in complaint(verify("train.py", old=old, new=new))


@pytest.mark.parametrize(("words", "part"), [(("no.py",), "no.py: no such script"), (("--steps", "-1", "no.py"), "-1")])
def test_a_wrong_command_is_refused(words, part, verify):
    assert part in complaint(verify(*words))


def test_in_an_inert_run_the_debugger_does_nothing(tmp_path):
    (tmp_path / "train.py").write_text(TRAINING.replace("HERE", "assert not is_collecting()").replace("L1", "no level"))
    command = [python("mindspore"), "-m", "msprobe.observed_run", "trace", "inert", "0", "train.py"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert sorted(os.listdir(tmp_path)) == ["said", "trace", "train.py"]
    moments = (tmp_path / "trace").read_text().splitlines()
    assert [re.search(r'"at": "(\w+)", "step": (\d)', moment).groups() for moment in moments] == [
        *((at, step) for step in "012" for at in ("start", "step")),
        ("end", "3"),
    ]


SURFACE = """
import inspect, sys
from msprobe.stage_control import class_or_instance_method
from msprobe.observed_run import Observer
from msprobe.frameworks.mindspore.debugger import PrecisionDebugger
from msprobe.debugger import Debugger
from pathlib import Path

def surface():
    seen = {}
    for name in dir(PrecisionDebugger):
        if not name.startswith("_"):
            each = inspect.getattr_static(PrecisionDebugger, name)
            seen[name] = inspect.signature(each.method) if isinstance(each, class_or_instance_method) else type(each)
    return seen

real = surface()
services = {type(PrecisionDebugger(dump_path="real").service), type(PrecisionDebugger(dump_path="real").service.config)}
Observer(Path("trace"), True, 0).wrap(PrecisionDebugger)
assert surface() == real, (surface(), real)
debugger = PrecisionDebugger(dump_path="dump", level="L0")
assert {type(debugger.service), type(debugger.service.config)} == services
calls = {
    "start": ([],), "save": (1, "x"), "set_init_step": (3,), "register_custom_api": (sys, "exit"),
    "restore_custom_api": (sys, "exit"), "stage": ("actor",),
}
for each in (debugger, debugger.stage("critic", level="mix"), PrecisionDebugger):
    for name, kind in real.items():
        if kind is property:
            getattr(each, name)
        else:
            method = getattr(each, name)
            assert method.__self__ is (debugger if each is PrecisionDebugger else each)
            method(*calls.get(name, ()))
assert (debugger.level, debugger.stage("critic").level) == ("L0", "mix")
assert debugger.stage("actor") is debugger.stage("actor")
debugger.service.config.dump_path = "elsewhere"
debugger.service.reset_status()
debugger.service.first_start = True
assert debugger.service.config.dump_path.endswith("elsewhere")
"""


def test_the_inert_debugger_has_the_whole_public_surface(tmp_path):
    done = subprocess.run(
        [python("mindspore"), "-c", SURFACE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path) == ["trace"]


@pytest.mark.parametrize(
    "loop",
    [
        """
    stage = debugger.stage("actor", level="mix" if debugger.level == "L1" else "L0")
    stage.start(net)
    _, grads = gradient(Tensor([0.5, 0.25], ms.float32))
    stage.stop()
    debugger.service.config.dump_path = os.path.join(debugger.service.config.dump_path, "..", "other")
    debugger.start(net)
    debugger.service.reset_status()
    assert debugger.has_model
    optimizer(grads)
    PrecisionDebugger.step()
""",
        """
    from msprobe.mindspore import MsprobeStep
    from mindspore.train import Model
    from mindspore.dataset import GeneratorDataset
    from msprobe.mindspore import MsprobeInitStep
    data = GeneratorDataset([(np.full(2, 0.5, np.float32),) for _ in range(3)], ["x"], shuffle=False)
    Model(net, optimizer=optimizer).train(1, data, callbacks=[MsprobeStep(debugger), MsprobeInitStep()])
    break
""",
    ],
    ids=["stage, service, level", "callbacks"],
)
def test_trainings_that_ask_more_of_the_debugger_are_verified(loop, verify, tmp_path):
    head = TRAINING.partition("for step in range(3):")[0]
    (tmp_path / "train.py").write_text(head + "for step in range(3):" + loop)
    command = [python("mindspore"), "-m", "msprobe", "verify-collection", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("equal: 2 parameters and the random generators"), done.stdout + done.stderr[-3000:]
    assert done.stdout.endswith("at all 3 steps\n")


# ---- what two traces say, without a process --------------------------------------------------------------------------


def trace(*moments, **more):
    return Trace(tuple(Moment(at, step, bits) for at, step, bits in moments), **more)


SEEN = (("start", 0, {"parameter w": "1"}), ("step", 0, {"parameter w": "2"}), ("end", 1, {"parameter w": "2"}))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (trace(*SEEN), ""),
        (trace(*SEEN[:2], ("end", 1, {"parameter w": "3"})), "at the end of the training: parameter w"),
        (trace(SEEN[0], ("step", 0, {"parameter v": "2"})), "at step() of step 0: parameter w, parameter v"),
        (
            trace(SEEN[0], SEEN[2]),
            "the calls differ: one run is at step() of step 0, the other at the end of the training",
        ),
        (trace(SEEN[0]), "at step() of step 0: one run does not reach this step"),
        (trace(SEEN[0], failure="OSError"), ""),
        (
            trace(("start", 0, {"parameter w": "1", **dict.fromkeys("abcd", "1")})),
            "at start() of step 0: a, b, c and 1 more",
        ),
    ],
)
def test_the_first_difference_is_named_where_it_is(other, message):
    assert first_difference(trace(*SEEN), other) == message


def test_a_refusal_of_the_debugger_is_no_difference():
    with pytest.raises(UsageError, match="level: not known"):
        compare_runs(trace(*SEEN), trace(failure="level: not known", is_rejected=True))


def test_the_function_answers_as_the_command_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TRAINING.replace("HERE", "if is_collecting(): net.first[1] = 7.0"))
    found = verify_collection("train.py", steps=1)
    assert not found
    assert found.message == "first difference: at step() of step 0: parameter first"


# ---- the documentation -----------------------------------------------------------------------------------------------


PAGES = [ROOT / "docs" / language / "how-to/collecting/verify-collection.md" for language in ("en", "zh")]


def test_both_languages_show_the_same_command_and_answer():
    english, chinese = ((COMMANDS.findall(text), ANSWER.findall(text)) for text in (p.read_text() for p in PAGES))
    assert english == chinese
    assert all(english)


def test_the_command_of_the_page_says_what_the_page_shows(tmp_path):
    text = PAGES[0].read_text()
    shutil.copytree(ROOT / "examples" / "minimal", tmp_path / "minimal", ignore=shutil.ignore_patterns("out"))
    path = os.pathsep.join([sysconfig.get_path("scripts"), str(Path(sys.executable).parent), os.environ["PATH"]])
    shell = ["bash", "-euo", "pipefail", "-c", "".join(COMMANDS.findall(text))]
    done = subprocess.run(
        shell, cwd=tmp_path / "minimal", env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert ANSWER.findall(done.stdout) == ANSWER.findall(text)[:1]
