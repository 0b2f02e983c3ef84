"""Fixtures of tests that gather the files of a kernel dump, without MindSpore."""

import sys
from pathlib import Path

import pytest

from msprobe.cli import main

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
from kernel_files import CPU


@pytest.fixture
def raw(tmp_path):
    """A copy of the sample that a test may break."""
    copy = tmp_path / "raw"
    for file in CPU.rglob("*"):
        if file.is_file():
            target = copy / file.relative_to(CPU)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    return copy


@pytest.fixture
def gather(tmp_path, capsys):
    """Run the command into `out`; gives its exit code and its lines."""

    def run(raw, *words):
        code = main(["gather", str(raw), "-o", str(tmp_path / "out"), *words])
        return code, capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"
