"""Whatever a layer or a function is given, the training goes on bit for bit, and the dump names what it lacks."""

import csv
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading

import named
import numpy as np
import pytest
from odd import LARGE, ODD

from msprobe.store.reader import read

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.part(5)]

# Something of these is null, and named.
NULL = (
    *("cycle", "mapped cycle", "deep", "deeper than Python"),
    *("unset field", "field without end", "hostile array", "huge number"),
)


@pytest.mark.parametrize(
    ("level", "task"),
    [
        *(("L0", "statistics"), ("L1", "md5"), ("mix", "tensor"), ("mix", "structure")),
    ],
)
def test_the_training_goes_on_and_the_dump_names_what_it_lacks(level, task, training, taken, ending, tmp_path):
    values = {word: odd for word, odd in taken.items() if task == "statistics" or word not in LARGE}
    config = tmp_path / "config.json"
    md5 = {"task": "statistics", "statistics": {"summary_mode": "md5"}} if task == "md5" else {"task": task}
    config.write_text(json.dumps({"level": level, "dump_path": str(tmp_path / "dump"), **md5}))
    debugger = training.debugger_class(str(config))
    ending.append(debugger)
    debugger.register_custom_api(training.Custom, "passing", "Custom")
    try:
        parameters = training.run([odd.make for odd in values.values()], debugger)
    finally:
        debugger.restore_custom_api(training.Custom, "passing")
    assert parameters == training.run([odd.make for odd in values.values()])
    dump = read(tmp_path / "dump" / "step0" / "rank", structure=True)
    if task == "structure":
        assert len(dump.construct) >= len(values)
        return
    calls = [training.name + ".inner.Inner.forward.{}"] if level != "L1" else []
    calls += ["Custom.passing.{}.forward"] if level != "L0" else []
    named.check(dump, values, *calls)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_dump_of_odd_values_compared_with_itself_has_no_difference(is_lost, training, taken, ending, tmp_path):
    """Clean without those of which something is null because it could not be read: nobody knows whether that agrees."""
    debugger = training.debugger_class(dump_path=str(tmp_path / "dump"), level="L0", task="statistics")
    ending.append(debugger)
    words = [word for word in taken if word not in LARGE and (is_lost or word not in NULL)]
    training.run([taken[word].make for word in words], debugger)
    rank = str(tmp_path / "dump" / "step0" / "rank")
    arguments = [
        "compare",
        "-tp",
        rank,
        "-gp",
        rank,
        "-o",
        str(tmp_path / "tables"),
        "--format",
        "csv",
        "--workers",
        "1",
    ]
    done = subprocess.run([sys.executable, "-m", "msprobe", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == is_lost, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    (table,) = (tmp_path / "tables").rglob("*.csv")
    with open(table, newline="", encoding="utf-8") as file:
        rows = {row["NPU Name"]: row for row in csv.DictReader(file)}
    assert len(rows) > len(taken)
    unjudged = {name: row["Reason"] for name, row in rows.items() if row["Verdict"] != "pass"}
    assert all(reason.startswith("Could not be collected on either side") for reason in unjudged.values())
    lacking = {int(name.split(".forward.")[1].partition(".")[0]) for name in unjudged if ".inner.Inner." in name}
    assert lacking == {number for number, word in enumerate(words) if word in NULL}
    last = done.stdout.splitlines()[-1]
    assert last.endswith(f"{len(unjudged)} that could not be collected on either side") == is_lost
    assert not list((tmp_path / "tables").rglob("*.xlsx"))


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")  # torch, of inputs without gradients
def test_hooked_gradients_and_a_stage_take_odd_values(training, taken, ending, tmp_path):
    """With `dispatch` too."""
    makes = [odd.make for word, odd in taken.items() if word not in LARGE]
    config = tmp_path / "config.json"
    settings = {"level": "mix", "task": "statistics", "gradients": "hooks", "dispatch": True, "statistics": {}}
    config.write_text(json.dumps({**settings, "dump_path": str(tmp_path / "dump")}))
    debugger = training.debugger_class(str(config))
    ending.append(debugger)
    stage = debugger.stage("odd")

    class Staged:
        start, stop, step = stage.start, stage.stop, debugger.step

    # Hooks insert nodes, which may change the last bits, as documented.
    collected, bare = (np.frombuffer(b"".join(training.run(makes, each)), np.float32) for each in (Staged, None))
    assert np.allclose(collected, bare)
    (folder,) = tmp_path.rglob("rank")
    dump = read(folder)
    calls = [call.name for call in dump.calls if ".inner.Inner.forward." in call.name]
    assert len(calls) == len(makes)
    words = [odd.named for word, odd in taken.items() if word not in LARGE and odd.named]
    assert all(any(word in line for line in dump.missing) for word in words)


def test_members_with_one_text_are_all_there(training, ending, tmp_path):
    """Two keys with one text, and two places with one name, keep a record and a file each, forward and backward."""
    debugger = training.debugger_class(dump_path=str(tmp_path), level="L0", task="tensor")
    ending.append(debugger)
    training.run([ODD["one text twice"].make, ODD["dots"].make], debugger)
    data = json.loads((tmp_path / "step0" / "rank" / "dump.json").read_text())["data"]
    twice, dots = (data[f"{training.name}.inner.Inner.forward.{i}"]["input_args"][1] for i in range(2))
    assert list(twice) == ["1#2", "1", "1.5#2", "1.5"]
    assert twice["1"]["Max"] == 2 * twice["1#2"]["Max"] == 2.0
    assert (twice["1.5#2"]["value"], twice["1.5"]["value"]) == (2, 3)
    assert list(dots) == ["a_b#2", "a", "a_0#2"]
    assert dots["a"]["b"]["Max"] == 2 * dots["a_b#2"]["Max"] == 2.0
    files = [twice["1"], twice["1#2"], dots["a"]["b"], dots["a_b#2"]]
    assert len({record["data_name"] for record in files}) == 4


def _nothing(step, call):
    """Nothing happens."""


def _other_threads(step, call):
    # One call at a time: under load MindSpore's own matmul fails in threads that compute at once ("could not execute a
    # primitive").
    alone = threading.Lock()

    def calling():
        with alone:
            call()

    threads = [threading.Thread(target=calling) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _no_folder(step, call):
    gone = tempfile.mkdtemp()
    os.chdir(gone)
    os.rmdir(gone)


def _collected(step, call):
    gc.collect()


EVENTS = {"threads": _other_threads, "folder": _no_folder, "garbage": _collected}


@pytest.mark.parametrize("event", EVENTS)
def test_what_happens_around_a_step_does_not_stop_it(event, training, ending, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # and back
    makes = [lambda x: 1, lambda x: 2]
    wanted = training.run(makes, None, 2, _nothing)
    debugger = training.debugger_class(dump_path=str(tmp_path / "dump"), level="mix", task="tensor")
    ending.append(debugger)
    assert training.run(makes, debugger, 2, EVENTS[event]) == wanted
    os.chdir(tmp_path)
    for step in range(2):
        dump = read(tmp_path / "dump" / f"step{step}" / "rank")
        assert sum(".inner.Inner.forward." in call.name for call in dump.calls) == 2
        threads = [line for line in dump.missing if line.startswith("step threads")]
        assert len(threads) == len(dump.missing) == (event == "threads")


def test_a_step_without_free_descriptors_is_missing_and_the_others_are_there(training, ending, tmp_path):
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []

    def event(step, _):
        if step == 1 and not taken:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 5, most[1]))
            try:
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                return
        if step == 2 and taken:
            while taken:
                os.close(taken.pop())
            resource.setrlimit(resource.RLIMIT_NOFILE, most)

    makes = [lambda x: 1, lambda x: 2]
    wanted = training.run(makes, None, 4, _nothing)
    debugger = training.debugger_class(dump_path=str(tmp_path), level="L0", task="tensor")
    ending.append(debugger)
    try:
        parameters = training.run(makes, debugger, 4, event)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
    assert parameters == wanted
    for step in (0, 3):
        assert read(tmp_path / f"step{step}" / "rank").missing == ()
    assert not (tmp_path / "step1" / "rank" / "dump.json").exists()
