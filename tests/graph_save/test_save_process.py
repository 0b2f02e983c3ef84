"""`save` in processes of their own: the programs of the page, the end of a process, and several ranks."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from preloaded import python

pytestmark = pytest.mark.mindspore

DOCS = Path(__file__).parents[2] / "docs"
SCRIPT = Path(__file__).parents[1] / "training" / "saves.py"
ENVIRONMENT = {**os.environ, "MSPROBE_LOG_LEVEL": "2", "GLOG_v": "3"}
HEADING = {
    "en/how-to/collecting/saving.md": "# In graphs, and everywhere else",
    "zh/how-to/collecting/saving.md": "# 在图中以及其他任何地方",
}


def blocks(page, language):
    """The blocks of a language below the heading of `save`."""
    text = (DOCS / page).read_text("utf-8").partition(HEADING[page])[2]
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [block for spoken, block in found if spoken == language]


def run(*command, cwd):
    done = subprocess.run(
        [python("mindspore"), *map(str, command)], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def files(folder):
    return sorted(
        p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.suffix == ".npy" or p.name == "saves.jsonl"
    )


SAVE, SAVE_GRAD, STEPS, READ = blocks("en/how-to/collecting/saving.md", "python")
(LISTED,) = blocks("en/how-to/collecting/saving.md", "")


@pytest.mark.parametrize("mode", ["GRAPH_MODE", "PYNATIVE_MODE"])
@pytest.mark.parametrize(
    ("program", "file", "value"),
    [(SAVE, "x_float32_0.npy", [1.0, 2.0]), (SAVE_GRAD, "z_grad_float32_0.npy", [3.0, 8.0])],
    ids=["save", "save_grad"],
)
def test_the_first_programs_of_the_page_in_both_modes(program, file, value, mode, tmp_path):
    (tmp_path / "train.py").write_text(program.replace("GRAPH_MODE", mode))  # the compiler reads the source
    run("train.py", cwd=tmp_path)
    assert files(tmp_path) == [f"test_dump/step0/rank0/{name}" for name in sorted((file, "saves.jsonl"))]
    array = np.load(tmp_path / "test_dump/step0/rank0" / file)
    assert (array.dtype, array.tolist()) == (np.float32, value)


def test_the_other_programs_of_the_page(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(STEPS)
    run("train.py", cwd=tmp_path)
    assert files(tmp_path) == sorted(LISTED.split())
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(READ, found)
    values = {call: array.tolist() for call, array in found["one"].items()}
    assert values == {
        **{("x.value", 0): [2.0], ("x.more.1", 0): [3.0]},
        **{("x.value", 1): [4.0], ("x.more.1", 1): [5.0]},
    }


@pytest.mark.parametrize("language", ["python", ""])
def test_both_languages_have_the_same_programs(language):
    assert blocks("zh/how-to/collecting/saving.md", language) == blocks("en/how-to/collecting/saving.md", language)


def test_a_thousand_saves_are_complete_when_the_process_ends_right_after(tmp_path):
    run(SCRIPT, "loop", tmp_path / "saved", cwd=tmp_path)
    folder = tmp_path / "saved/step0/rank0"
    records = [json.loads(line) for line in (folder / "saves.jsonl").read_text().splitlines()]
    assert [r["id"] for r in records] == list(range(1000))
    for record in records:
        number, is_gradient = record["count"], record["name"] == "y_grad"
        assert np.load(folder / record["data_name"]).tolist() == [number * (4.0 if is_gradient else 2.0)] * 4
    assert len({(r["name"], r["count"]) for r in records}) == 1000


def test_what_the_framework_still_has_in_hand_is_waited_for(tmp_path):
    run(SCRIPT, "jit", tmp_path / "saved", cwd=tmp_path)
    assert len(files(tmp_path)) == 40 + 1


def test_nothing_is_saved_in_a_traced_graph_and_it_is_said_once(tmp_path):
    done = run(SCRIPT, "trace", tmp_path / "saved", cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "[[2.0], [4.0]]"
    assert done.stderr.count("have no effect in a graph captured by tracing") == 1
    assert files(tmp_path) == []


def test_the_index_of_a_killed_process_has_whole_lines_only(tmp_path):
    index = tmp_path / "saved/step0/rank0/saves.jsonl"
    with subprocess.Popen(
        [sys.executable, SCRIPT, "endless", tmp_path / "saved"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None and not (index.exists() and index.stat().st_size > 50_000):
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        process.send_signal(signal.SIGKILL)
    lines = index.read_bytes().split(b"\n")
    assert lines.pop() == b""
    records = [json.loads(line) for line in lines]
    assert [r["id"] for r in records] == list(range(len(records)))
    assert np.load(index.parent / records[0]["data_name"]).tolist() == [2.0] * 1000


@pytest.mark.turns("ranks", 2)
def test_every_rank_has_a_folder(tmp_path, msrun):
    msrun(SCRIPT, "ranks", tmp_path / "saved", folder=tmp_path)
    for rank in (0, 1):
        for step in (0, 1):
            folder = tmp_path / f"saved/step{step}/rank{rank}"
            records = [json.loads(line) for line in (folder / "saves.jsonl").read_text().splitlines()]
            values = {r["name"]: np.load(folder / r["data_name"]).tolist() for r in records}
            assert values == {"own": [10.0**step * (rank + 1)] * 2, "sum": [10.0**step * 3] * 2}
            assert [r["id"] for r in records] == [2 * step, 2 * step + 1]
