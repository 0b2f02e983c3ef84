"""What a dump, a file or a folder is called cannot steer the terminal, and no terminal is too simple for an answer."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from msprobe.cli import main

ESC = "\x1b]0;owned\x07\x1b[2J\x9b31m"
NAME = "Functional.relu.0.forward"
EVIL = f"Functional.{ESC}.0.forward"


def leaf(**changes):
    plain = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2, 3]}
    return {**plain, "Max": 5.0, "Min": 0.0, "Mean": 2.5, "Norm": 7.4, **changes}


def write(folder, data, **top):
    folder.mkdir(parents=True)
    text = {"task": "statistics", "level": "mix", "framework": "mindspore", "data": data, **top}
    (folder / "dump.json").write_text(json.dumps(text))
    return folder


PLAIN = {NAME: {"input_args": [leaf()], "output": [leaf()]}}
DIFFERENT = {
    EVIL: {
        "input_args": [leaf(), {"type": "str", "value": ESC}],
        "input_kwargs": {ESC: leaf()},
        "output": [leaf(dtype=ESC, md5=ESC)],
    }
}

DUMPS = {
    "names": ({EVIL: PLAIN[NAME]}, {}),
    "values": (DIFFERENT, {}),
    "an entry that is none": ({EVIL: 5}, {}),
    "level and framework": (PLAIN, {"level": ESC, "framework": ESC}),
    "task": (PLAIN, {"task": ESC}),
    "version": (PLAIN, {"format_version": ESC}),
    "what is missing": (PLAIN, {"missing": [{"name": EVIL, "part": ESC, "cause": ESC}], "rebuilt": {"lost_lines": 3}}),
    "nested too deeply": ({EVIL: {"output": json.loads("[" * 150 + "]" * 150)}}, {}),
}


@pytest.mark.parametrize(("data", "top"), DUMPS.values(), ids=DUMPS)
def test_text_of_a_dump_does_not_reach_the_terminal_raw(tmp_path, capsys, data, top):
    target = write(tmp_path / "target", data, **top)
    (target / "construct.json").write_text(json.dumps({EVIL: EVIL, NAME: f"Cell.{ESC}.A.forward.0"}))
    (target / "stack.json").write_text(json.dumps({"0": [[EVIL, NAME], [f"File {ESC}.py, line 1, in f, \n x"]]}))
    golden = write(tmp_path / "golden", {**PLAIN, EVIL: {"input_args": [leaf(Max=9.0)], "output": [None]}})
    code = main(["compare", "-tp", str(target), "-gp", str(golden), "-o", str(tmp_path / "out"), "--format", "csv"])
    harmless(capsys.readouterr(), code)


def harmless(message, code):
    assert code in (0, 1, 2)
    text = message.out + message.err
    assert text
    assert not any(sign in text for sign in "\x1b\x07\x9b")


def test_the_log_of_each_pair_of_tensors_is_harmless(tmp_path, capsys):
    target = write(tmp_path / "target", {NAME: {"output": [leaf(data_name=f"{ESC}.npy")]}}, task="tensor")
    command = ["compare", "-tp", str(target), "-gp", str(target), "-o", str(tmp_path / "out"), "--format", "csv"]
    code = main([*command, "-tensor_log"])
    harmless(capsys.readouterr(), code)


def test_names_of_folders_are_harmless(tmp_path, capsys):
    for rank, data in (("rank0", PLAIN), ("rank1", {EVIL: 5})):
        write(tmp_path / ESC / "step0" / rank, data)
    (tmp_path / ESC / "step0" / ESC).mkdir()
    (tmp_path / ESC / ESC).mkdir()
    for path in (tmp_path / ESC, tmp_path / f"no {ESC}"):
        command = ["compare", "-tp", str(path), "-gp", str(tmp_path / ESC), "-o", str(tmp_path / f"out {ESC}")]
        code = main([*command, "--format", "csv"])
        harmless(capsys.readouterr(), code)


def msprobe(*args, **environment):
    command = [sys.executable, "-m", "msprobe", "compare", *map(str, args), "--format", "csv"]
    done = subprocess.run(command, capture_output=True, timeout=120, env={**os.environ, **environment})
    assert b"Traceback" not in done.stderr
    return done


def test_a_terminal_without_the_characters_of_a_name_gets_the_answer(tmp_path):
    """A pipe in a container without a locale takes ASCII only."""
    name = "Functional.\u6211.0.forward"
    sides = [write(tmp_path / str(top), {name: {"output": [leaf(Max=top)]}}) for top in (5.0, 9.0)]
    done = msprobe("-tp", sides[0], "-gp", sides[1], "-o", tmp_path / "out", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    last = done.stdout.decode("ascii").splitlines()[-1]
    assert last.startswith("first wrong call: Functional.\\u6211.0.forward in ")


def test_names_of_files_that_are_no_text_are_compared_and_said(tmp_path):
    folder = os.fsencode(tmp_path / "npy") + b"/sub\xff\x1b"
    os.makedirs(folder)
    for name in (b"a.npy", b"\xff\x1b.npy"):
        with open(folder + b"/" + name, "wb") as file:
            np.save(file, np.arange(3.0))
    path = tmp_path / "npy"
    os.mkdir(path / "other")
    np.save(path / "other" / "x.npy", np.arange(3.0))
    done = msprobe("-tp", path, "-gp", path, "-o", tmp_path / "out", PYTHONIOENCODING="utf-8")
    assert done.returncode == 0
    assert done.stdout.decode("utf-8").splitlines()[-1] == "no difference: 3 pairs judged, 0 unjudged"
    assert b"\x1b" not in done.stdout + done.stderr
