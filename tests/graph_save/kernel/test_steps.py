"""Level L2 from the debugger to the first wrong kernel, with the steps that the pages kernel-dump and gather show."""

import contextlib
import io
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from preloaded import python

from msprobe.cli import main
from msprobe.store.reader import read
from msprobe.store.stacks_and_construct import user_line

pytestmark = pytest.mark.mindspore

TRAINING = Path(__file__).parents[2] / "training"
NETS = TRAINING / "graph_nets.py"
RUNS = {
    "transformer": ("transformer",),
    "convolution": ("convolution",),
    "flow": ("flow",),
    "faulty": ("transformer", "faulty"),
    "model": ("transformer", "listed", "model"),
}
STEPS = {name: (0, 2) for name in RUNS} | {"model": (5, 7)}


class Run:
    """One training: its files, what the process said, and what gathering them said and left."""

    def __init__(self, root, name):
        self.raw, self.out, self.log = root / f"{name}_raw", root / f"{name}_out", root / f"{name}.log"
        self.steps = STEPS[name]
        command = [
            python("mindspore"),
            str(TRAINING / "kernel_steps.py"),
            RUNS[name][0],
            str(self.raw),
            *RUNS[name][1:],
        ]
        environment = {**os.environ, "MSPROBE_LOG_LEVEL": "2", "GLOG_v": "3"}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True)

    def finish(self):
        printed, _ = self.process.communicate(timeout=300)
        self.said = self.log.read_text()
        assert self.process.returncode == 0, self.said
        self.losses = json.loads(printed.splitlines()[-1])
        with contextlib.redirect_stdout(io.StringIO()) as lines:
            self.code = main(["gather", str(self.raw), "-o", str(self.out)])
        self.lines = lines.getvalue().splitlines()

    def dumps(self):
        return [read(self.out / f"step{step}") for step in self.steps]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Every run, finished and gathered; two of them train at a time."""
    root = tmp_path_factory.mktemp("steps")
    made = {}
    for pair in (("transformer", "faulty"), ("convolution", "flow"), ("model",)):
        made |= {name: Run(root, name) for name in pair}
        for name in pair:
            made[name].finish()
    return made


def kernels(dump):
    """Call -> what the framework calls the kernel."""
    entries = json.loads(Path(dump.where).read_text())["data"]
    return {call: entry["kernel"] for call, entry in entries.items() if "kernel" in entry}


def counted(line, words):
    """How many names a line of gather has behind some words: three are written out, the others counted."""
    found = re.search(rf"{words} ([^;]*?)(?: and (\d+) more)?(?:;|$)", line)
    return found[1].count(", ") + 1 + int(found[2] or 0) if found else 0


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", RUNS)
def test_the_steps_asked_for_and_no_others_are_gathered_as_statistics(name, runs):
    run = runs[name]
    assert {folder.name for folder in run.out.iterdir()} == {f"step{step}" for step in run.steps}
    assert list(run.out.rglob("*.npy")) == [], "the debugger was asked for statistics"
    for dump in run.dumps():
        assert (dump.level, dump.task, dump.missing) == ("L2", "statistics", ())
        assert all(r.statistics for call in dump.calls for r in call.records if r.kind == "tensor" and r.shape != (0,))


@pytest.mark.parametrize("name", ["transformer", "convolution", "flow"])
def test_every_kernel_of_a_training_step_is_gathered(name, runs):
    run = runs[name]
    orders = run.raw.glob("rank_0/execution_order/ms_execution_order_graph_*.csv")
    planned = [line for order in orders for line in order.read_text().splitlines()[1:] if line]
    for step, dump, line in zip(run.steps, run.dumps(), run.lines, strict=True):
        found = {kernel["name"] for kernel in kernels(dump).values()}
        assert found == set(planned) if name != "flow" else found < set(planned), "of a branch not taken there is none"
        files = [file.name for file in run.raw.glob(f"rank_0/Net/*/{step}/*.npy")]
        assert f"{len(kernels(dump))} kernels of " in line
        assert f" {len(files)} values" in line
        records = [record for call in dump.calls for record in call.records if record.kind == "tensor"]
        entries = json.loads(Path(dump.where).read_text())["data"].values()
        assert len(records) + sum(len(entry.get("unread", ())) for entry in entries) == len(files)


@pytest.mark.parametrize("name", ["transformer", "convolution", "flow"])
def test_a_kernel_has_a_line_of_the_users_or_is_counted_among_those_without(name, runs):
    run = runs[name]
    for dump, line in zip(run.dumps(), run.lines, strict=True):
        stacks = {call.name: call.stack for call in dump.calls}
        named = kernels(dump)
        lines = {kernel["name"]: user_line(stacks[call]) for call, kernel in named.items()}
        stackless = {kernel["name"] for call, kernel in named.items() if not stacks[call]}
        foreign = {full for full, found in lines.items() if found is None} - stackless
        assert {found.file for found in lines.values() if found} == {str(NETS)}
        assert counted(line, "the graph has no source line for") == len(stackless)
        assert counted(line, "only source lines of the framework for") == len(foreign) > 0
        assert all(full.startswith("Default/optimizer-") for full in foreign), "nn.TrainOneStepCell calls it"
        assert len(stackless) <= (2 if name == "flow" else 0), "what the framework moves between two graphs"


@pytest.mark.parametrize(
    ("name", "call", "text"),
    [
        ("transformer", "b1-Block.Softmax.1", "ops.matmul(ops.softmax(scores, -1), v)"),
        ("transformer", "emb-Embedding.Gather.0", "ids_to(self.emb, ids)"),
        ("convolution", "bn-BatchNorm2d.BatchNorm.0", "self.bn(self.conv(x))"),
        ("convolution", "pool-MaxPool2d.MaxPool.0", "self.pool(self.relu("),
        ("flow", "a-Dense.MatMul.0", "x = self.a(x)"),
        ("flow", "head-Dense.MatMul.0", "return self.head(x)"),
    ],
)
def test_the_line_is_the_one_that_calls(name, call, text, runs):
    source = NETS.read_text().splitlines()
    net = name.capitalize()
    for dump in runs[name].dumps():
        (stack,) = [c.stack for c in dump.calls if c.name == f"Kernel.Default.network-Loss.net-{net}.{call}.forward"]
        assert text in source[user_line(stack).number - 1]


def test_the_first_wrong_call_of_a_faulty_run_is_the_kernel_with_the_users_line(runs, tmp_path, capsys):
    for step in STEPS["transformer"][:1]:
        sides = [str(runs[name].out / f"step{step}") for name in ("faulty", "transformer")]
        assert main(["compare", "-tp", sides[0], "-gp", sides[1], "-o", str(tmp_path)]) == 1
        last = capsys.readouterr().out.splitlines()[-1]
        kernel = "Kernel.Default.network-Loss.net-Transformer.b1-Block.n2-LayerNorm.LayerNorm.0.forward"
        assert last.startswith(f"first wrong call: {kernel} in the root: argument differs: input.5 differs ")
        number = int(re.search(rf"\({re.escape(str(NETS))}:(\d+)\)$", last)[1])
        assert "self.n2(x)" in NETS.read_text().splitlines()[number - 1]


def test_a_mistyped_kernel_is_told_at_the_end_of_the_process_and_by_gather(runs):
    run = runs["model"]
    assert run.said.count("did not match any kernel") == 1
    assert 'level L2: "LayerNrom" in list did not match any kernel; did you mean "LayerNorm"?' in run.said
    assert run.code == 1
    assert run.lines[-1] == f"{run.raw}/rank_0: kernels: 'LayerNrom' matches no kernel; did you mean LayerNorm?"
    assert [run.code for name, run in runs.items() if name != "model"] == [0, 0, 0, 0]


def test_a_model_trained_with_the_callbacks_is_dumped_by_its_own_steps_alone(runs):
    """The network also runs behind each step and, resumed, before the first: none of that is in the dump."""
    wanted = {"Softmax": "Softmax", "LayerNorm": "n2-LayerNorm/LayerNorm"}

    def chosen(dump):
        """Type and statistics of the kernels that were listed, in the order in which they ran; and their graphs."""
        named = kernels(dump)
        calls = [
            c for c in dump.calls if c.name in named and wanted.get(named[c.name]["type"], "?") in named[c.name]["name"]
        ]
        values = [(named[call.name]["type"], [r.statistics for r in call.records]) for call in calls]
        return values, {named[call.name]["graph"] for call in calls}

    golden = [chosen(dump)[0] for dump in runs["transformer"].dumps()]
    for dump, same in zip(runs["model"].dumps(), golden, strict=True):
        found, graphs = chosen(dump)
        assert [kind for kind, _ in found] == ["Softmax", "LayerNorm"] * 2
        assert found == same, "bit by bit what the other loop gives"
        assert graphs == {1}, "graph 0 is the network alone"
        assert len(kernels(dump)) == 4


def test_the_training_is_the_same_whatever_is_dumped_and_whoever_loops(runs):
    assert runs["model"].losses == runs["transformer"].losses
    assert runs["faulty"].losses != runs["transformer"].losses
