"""Fixtures of tests that save in this very process, and of tests that compare what a program dumped.

MindSpore is imported where it is used: some tests of these folders run without it.
"""

import json
import os
import subprocess

import numpy as np
import pytest
from preloaded import python

from msprobe.base import log
from msprobe.cli import main

MODES = ("graph", "jit", "pynative")


class Saved:
    """What was saved below a folder, in the order of the ids."""

    def __init__(self, folder, tree):
        from msprobe.mindspore import flush

        self.folder, self.tree, self.flush = folder, tree, flush

    def records(self, step=0, rank=0):
        self.flush()
        index = self.folder / f"step{step}" / f"rank{rank}" / "saves.jsonl"
        return [json.loads(line) for line in index.read_text("ascii").splitlines()]

    def array(self, record, step=0, rank=0):
        return np.load(self.folder / f"step{step}" / f"rank{rank}" / record["data_name"])

    def values(self, step=0):
        """(name, count) to the saved values, as lists."""
        return {(r["name"], r["count"]): self.array(r, step).tolist() for r in self.records(step)}

    def files(self):
        self.flush()
        return sorted(
            p.relative_to(self.folder).as_posix()
            for p in self.folder.rglob("*")
            if p.is_file() and p.name != "run.jsonl"
        )


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """What is saved below `saved.folder`, by a process that has saved nothing before."""
    import mindspore as ms

    from msprobe.graph_save import compiled_save
    from msprobe.graph_save import save as saving
    from msprobe.graph_save.tree import SaveTree

    tree = SaveTree()
    for module in (compiled_save, saving):
        monkeypatch.setattr(module, "tree", tree)
    monkeypatch.delenv("MSPROBE_SAVE", raising=False)
    monkeypatch.chdir(tmp_path)  # the compiler leaves what it could not compile in the working directory
    yield Saved(tmp_path / "saved", tree)
    tree.step()
    ms.set_context(mode=ms.PYNATIVE_MODE)


class Mode:
    """One of the three kinds of places where a save may stand."""

    def __init__(self, name):
        self.name = name

    def begin(self):
        import mindspore as ms

        ms.set_context(mode=ms.GRAPH_MODE if self.name == "graph" else ms.PYNATIVE_MODE)

    def ready(self, net, **options):
        """A network as it runs in this mode."""
        import mindspore as ms

        if self.name == "jit":
            net.construct = ms.jit(net.construct, **options)
        return net

    def __str__(self):
        return self.name


@pytest.fixture(params=MODES)
def mode(request, saved):
    chosen = Mode(request.param)
    chosen.begin()
    return chosen


@pytest.fixture(params=MODES[:2])
def compiled(request, saved):
    """The modes in which a graph is compiled."""
    chosen = Mode(request.param)
    chosen.begin()
    return chosen


@pytest.fixture
def logged(capsys):
    """The lines that were said, also those that were said before in this process."""
    log._logged.clear()
    return lambda: [line for line in capsys.readouterr().err.splitlines() if line.startswith("msprobe")]


@pytest.fixture(scope="module")
def dumps(request, tmp_path_factory):
    """The folder in which the `PROGRAM` of a test module has run in a process of its own."""
    root = tmp_path_factory.mktemp("program")
    (root / "program.py").write_text(request.module.PROGRAM)
    done = subprocess.run(
        [python("mindspore"), "program.py"],
        cwd=root,
        env={**os.environ, "GLOG_v": "3"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return root


@pytest.fixture
def compared(tmp_path):
    """`compared(target, golden)`: the exit code, and the table as an object."""

    def make(target, golden):
        out = tmp_path / "out"
        code = main(["compare", str(target), str(golden), "-o", str(out), "--format", "json"])
        return code, json.loads(next(out.rglob("compare_result*.json")).read_text())

    return make
