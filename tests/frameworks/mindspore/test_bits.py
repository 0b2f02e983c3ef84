"""The debugger never changes the training: processes with and without it are compared bit by bit.

Of the whole grid (network x level x task x mode of the pipeline, and rows of other kinds, `KINDS` in
tests/training/bits.py; `make verify` runs it and writes docs/en/explanation/bit-identity.md)
one run of each network is taken here by a fixed rule, `covering` in tests/training/bits.py: over all networks every
level meets every task, and both meet both modes. Each run is a process of its own; it is compared with a bare one, and
each step of its dump with a count by hand (tests/training/calls.py).
The bits of every step are compared, so that the first that differs is enough; `make verify` compares with two bare
ones, one in each mode, which must agree, and takes twice the steps, which gives a race more chances.
"""

import importlib
import json
import os
import subprocess
import sys
from concurrent.futures import Future
from itertools import product
from pathlib import Path

import pytest
from preloaded import python

pytestmark = pytest.mark.mindspore

TRAINING = Path(__file__).parents[2] / "training"
sys.path.append(str(TRAINING))  # the files there stand beside each other, as train.py needs them
bits, calls, grid = (importlib.import_module(name) for name in ("bits", "calls", "grid"))
STEPS = 8  # goes beyond Dropout's sixth launch, from which on it would draw other numbers on several threads


@pytest.fixture(scope="module", autouse=True)
def _mindspore_is_imported():
    bits.PYTHON = python("mindspore")
    yield
    bits.PYTHON = sys.executable


@pytest.fixture(scope="module")
def assert_equal():
    """Compares a run with the bare one of its network, which is trained once for all tests."""
    controls = {}

    def judge(run):
        if run.net not in controls:
            controls[run.net] = digested(bits.digest(run.net, STEPS, *bits.MODES[False]))
        outcome = bits.judge(run, STEPS, [controls[run.net]])
        assert (outcome.word, outcome.why) == ("equal", "")

    return judge


@pytest.mark.sample(9)
@pytest.mark.parametrize("run", bits.covering(), ids=lambda run: run.net)
def test_training_is_bit_identical_with_the_debugger(run, assert_equal):
    assert_equal(run)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("net", "asynchronous"),
    [("attention", False), ("micro_batches", True), ("recomputed", False), ("compiled", True)],
)
def test_training_is_bit_identical_with_the_monitor(net, asynchronous, assert_equal):
    assert_equal(bits.Run(net, bits.MONITOR, bits.EVERYTHING, asynchronous))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("net", "task", "asynchronous"),
    [
        ("in_place", "overflow_check", False),
        ("compiled", "overflow_check", True),
        ("attention", "trigger", False),
        ("recomputed", "trigger", True),
        ("raising", "exception_dump", False),
        ("micro_batches", "exception_dump", True),
    ],
)
def test_training_is_bit_identical_where_it_is_watched(net, task, asynchronous, assert_equal):
    assert_equal(bits.Run(net, bits.WATCHING, task, asynchronous))


@pytest.mark.sample(1)
@pytest.mark.parametrize(("net", "asynchronous"), [("attention", True), ("in_place", False), ("chance", True)])
def test_training_is_bit_identical_where_it_is_checked(net, asynchronous, assert_equal):
    assert_equal(bits.Run(net, bits.CHECKS, bits.AT_ONCE, asynchronous))


@pytest.mark.parametrize("net", ["attention", "recomputed"])
def test_training_is_bit_identical_where_the_dump_is_columnar(net, tmp_path):
    bare = bits.digest(net, STEPS)
    how = ("--level", "mix", "--task", "tensor", "--format", "columnar", "--summary", "md5")
    assert bits.digest(net, STEPS, "--collect", str(tmp_path), *how) == bare
    assert len(list(tmp_path.rglob("dump.parquet"))) == STEPS
    assert not list(tmp_path.rglob("*.npy"))


@pytest.mark.parametrize(("net", "asynchronous"), [("attention", False), ("in_place", True)])
def test_training_is_bit_identical_where_tensors_are_packed(net, asynchronous, assert_equal):
    assert_equal(bits.Run(net, bits.PACKED, "tensor", asynchronous))


def test_training_is_bit_identical_where_a_user_saves_in_a_graph(assert_equal):
    assert_equal(bits.Run("graph_convolution", bits.GRAPH, bits.SAVE, False))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("net", "stage", "asynchronous"),
    [
        *(("in_place", "forward", True), ("recomputed", "backward", False), ("recomputed_early", "forward", True)),
        *(("halves", "forward", False), ("chance", "backward", True), ("attention", "backward", False)),
    ],
)
def test_training_is_bit_identical_when_calls_are_run_a_second_time(net, stage, asynchronous, assert_equal):
    assert_equal(bits.Run(net, bits.SECOND_RUNS, stage, asynchronous))


def test_what_is_run_here_covers_the_grid():
    runs = bits.covering()
    assert len(bits.NETS) >= 12
    assert set(runs) <= set(bits.grid())
    assert len(bits.grid()) == len(bits.NETS) * 56 + len(bits.GRAPHS) * 5 + len(bits.RANKS) * 3
    both = (False, True)
    assert [r.net for r in runs] == list(bits.NETS)
    assert {(r.level, r.task) for r in runs} == set(product(bits.LEVELS, bits.TASKS))
    assert {(r.level, r.asynchronous) for r in runs} == set(product(bits.LEVELS, both))
    assert {(r.task, r.asynchronous) for r in runs} == set(product(bits.TASKS, both))


def test_a_full_disk_changes_nothing_but_the_dump(tmp_path):
    """No file may grow beyond 12 kB: every step's journal is refused half-way, and the training does not feel it."""
    done = subprocess.run(
        [python("mindspore"), "-c", FULL_DISK, "branching", "--steps", str(STEPS), "--collect", str(tmp_path)],
        cwd=TRAINING,
        capture_output=True,
        text=True,
        env={**os.environ, "MSPROBE_LOG_LEVEL": "2"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split()[-1] == bits.digest("branching", STEPS)
    logged = [line for line in done.stderr.splitlines() if line.startswith("msprobe")]
    assert logged
    assert len(logged) < 5, "once per cause"
    assert all("Traceback" not in line for line in logged)


FULL_DISK = """
import resource, runpy, sys
import mindspore
resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))
sys.argv[0] = "train.py"
sys.path.insert(0, ".")
runpy.run_path("train.py", run_name="__main__")
"""


# ---- the judge of these tests and of `make verify` -------------------------------------------------------------------


def digested(digest):
    done = Future()
    done.set_result(digest)
    return done


@pytest.fixture
def pretend(monkeypatch):
    """Lets a training be one that gives `digest` and leaves the dump of one forward call of Functional.relu a step."""

    def make(digest, apis=1):
        def train(net, steps, *options):
            folder = Path(options[options.index("--collect") + 1])
            for step in range(steps):
                (folder / f"step{step}" / "rank").mkdir(parents=True)
                data = {f"Functional.relu.{n}.forward": {} for n in range(apis)}
                (folder / f"step{step}" / "rank" / "dump.json").write_text(json.dumps({"data": data}))
            return digest

        monkeypatch.setattr(bits, "digest", train)
        monkeypatch.setitem(bits.CALLS, "one", calls.Calls(apis=(1, 0)))

    return make


@pytest.mark.parametrize(
    ("word", "control", "digest", "apis"),
    [
        ("equal", ("a", "a"), "a", 1),
        ("different", ("a", "a"), "b", 1),
        ("no control", ("a", "b"), "a", 1),
        ("miscounted", ("a", "a"), "a", 2),
        ("miscounted", ("a", "a"), "a", 0),
    ],
)
def test_the_judge_of_bits_tells_each_case(word, control, digest, apis, pretend):
    pretend(digest, apis)
    assert bits.judge(bits.Run("one", "L1", "statistics", False), 3, [digested(each) for each in control]).word == word


def test_a_network_is_trained_once_in_each_mode_without_the_debugger_before_anything_is_collected(monkeypatch):
    trained = []

    def train(net, steps, *options):
        trained.append((net, *options))
        return f"differs {options}"

    monkeypatch.setattr(bits, "digest", train)
    runs = [bits.Run("tied", "L0", "md5", True), bits.Run("tied", "L1", "tensor", False)]
    outcomes = bits.judge_all(runs, 3, 2)
    assert sorted(trained) == [("tied",), ("tied", "--asynchronous")]
    assert [outcomes[run].word for run in runs] == ["no control"] * 2


def test_a_training_that_fails_is_told_with_its_last_words(monkeypatch):
    monkeypatch.setitem(bits.KINDS, "L9", bits.Kind(("--collect", "--level", "L9"), bits.TASKS))
    outcome = bits.judge(bits.Run("shared", "L9", "statistics", False), 1, [digested("a"), digested("a")])
    assert outcome.word == "failed"
    assert "SettingsError" in outcome.why
    assert "\n" not in outcome.why


def test_the_grid_takes_up_what_was_done_under_the_same_header_only(tmp_path):
    results = tmp_path / "results.jsonl"
    run = '{"net": "tied", "level": "L0", "task": "md5", "asynchronous": true}'
    outcome = '{"word": "equal", "seconds": 2.0, "why": ""}'
    results.write_text(f'{{"steps": 20}}\n[{run}, {outcome}]\n[{run[:30]}')
    known = {bits.Run("tied", "L0", "md5", True): bits.Outcome("equal", 2.0)}
    assert grid.done_before(results, {"steps": 20}) == known
    assert grid.done_before(results, {"steps": 10}) == {}
    row = next(line for line in grid.page(known, {"steps": 20}).splitlines() if line.startswith("| tied | L0 |"))
    assert row == "| tied | L0 | not run | not run | not run | equal | not run | not run | not run | not run | 2 |"
