"""The page on the ways of saving: each of its programs runs as it stands, and leaves what the page says."""

import json
import os
import re
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from preloaded import python

pytestmark = pytest.mark.mindspore

pytest.importorskip("mindspore", reason="the programs of the page train with it")

DOCS = Path(__file__).parents[2] / "docs"


def sections(page):
    """Heading to the blocks below it, (language, text), of the sections that have a program."""
    found = {}
    for section in re.split(r"^## ", (DOCS / page).read_text(), flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        if blocks := re.findall(r"^```(\w*)\n(.*?)^```\n", body, re.MULTILINE | re.DOTALL):
            found[heading] = [(language, re.sub(r" *#.*$", "", text, flags=re.MULTILINE)) for language, text in blocks]
    return found


PROGRAMS = sections("en/how-to/collecting/which-save.md")


def run(command, folder):
    # `msprobe` of a reader's environment is ours
    path = os.pathsep.join([str(python("mindspore").parent), sysconfig.get_path("scripts"), os.environ["PATH"]])
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "GLOG_v": "3"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def load(folder, pattern):
    (file,) = folder.rglob(pattern)
    return np.load(file).tolist()


def keys(dump):
    return set(json.loads(dump.read_text())["data"])


def few(folder):
    """y = 2x, and d(sum y^2)/dy = 2y."""
    assert load(folder, "y.0.debug.npy") == [2.0, 4.0]
    assert load(folder, "y_grad.0.debug.npy") == [4.0, 8.0]


def graph(folder):
    """y = 2x, and d(sum y^2)/dy = 2y."""
    assert load(folder, "y_float32_0.npy") == [2.0, 4.0]
    assert load(folder, "y_grad_float32_1.npy") == [4.0, 8.0]


def cells(folder):
    named = keys(folder / "cells/step0/rank/dump.json")
    assert {"Cell.fc.Dense.forward.0", "Cell.fc.Dense.backward.0"} <= named


def kernels(folder):
    named = keys(folder / "gathered/step0/rank0/dump.json")
    assert any(".Exp." in name for name in named), named
    assert any(".Mul." in name for name in named), named


def host(folder):
    assert [load(folder, f"loss/step{s}/rank0/micro_step0/loss.npy") for s in (0, 1)] == [5.0, 5.0]


LEFT = dict(zip(PROGRAMS, (few, graph, cells, kernels, host), strict=True))


@pytest.mark.parametrize("heading", PROGRAMS)
def test_each_program_runs_and_leaves_what_the_page_says(heading, tmp_path):
    for language, text in PROGRAMS[heading]:
        if language:
            (tmp_path / "train.py").write_text(text)  # the graph compiler reads the source
            command = (
                [python("mindspore"), "train.py"] if language == "python" else ["bash", "-euo", "pipefail", "-c", text]
            )
            ended = run(command, tmp_path)
            assert ended.returncode == 0, ended.stdout[-1000:] + ended.stderr[-3000:]
    ((_, listed),) = [block for block in PROGRAMS[heading] if not block[0]]
    missing = [name for name in listed.split() if not (tmp_path / name).is_file()]
    assert not missing, sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    LEFT[heading](tmp_path)


def test_both_languages_have_the_same_programs():
    assert list(sections("zh/how-to/collecting/which-save.md").values()) == list(PROGRAMS.values())
