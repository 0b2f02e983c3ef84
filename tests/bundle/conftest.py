"""Run `msprobe bundle` and `msprobe compare` in this process, and read what they say."""

import json
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from msprobe.cli import main

SAMPLES = Path(__file__).parents[1] / "samples"
PATHS = ("target", "golden", "file", "table")  # places on this machine, and names with a time


@dataclass
class Answered:
    """What `msprobe compare` printed, its exit code, and its tables by name without the time."""

    code: int
    lines: list
    tables: dict


def without_paths(value):
    if isinstance(value, dict):
        return {k: without_paths(v) for k, v in value.items() if k not in PATHS}
    return [without_paths(each) for each in value] if isinstance(value, list) else value


class Runs:
    def __init__(self, folder, capsys):
        self.folder, self._capsys, self._count = folder, capsys, 0

    def __call__(self, *words):
        """The exit code and both outputs of a command."""
        self._capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:
            code = end.code
        out, err = self._capsys.readouterr()
        return code, out, err

    def compare(self, *words):
        """The answer of a comparison, without what names places on this machine."""
        self._count += 1
        output = self.folder / f"compared{self._count}"
        code, out, _ = self("compare", *words, "--format", "json", "-o", output)
        tables = {}
        for path in sorted(output.rglob("*.json")):
            if "merged" not in path.parts:
                name = path.relative_to(output).as_posix()
                stem = "_".join(part for part in name[:-5].split("_") if not (part.isdecimal() and len(part) == 14))
                tables[stem] = without_paths(json.loads(path.read_text()))
        return Answered(code, out.splitlines(), tables)

    def bundle(self, *words, code=0, name="b.zip"):
        """Pack into a file, and expect an exit code; gives the file and what was printed."""
        file = self.folder / name
        found, out, err = self("bundle", *words, "-o", file)
        assert found == code, (out, err)
        return file, out


@pytest.fixture
def runs(tmp_path, capsys):
    return Runs(tmp_path, capsys)


@pytest.fixture
def entries():
    """Of a bundle: name -> text."""

    def read(file):
        with zipfile.ZipFile(file) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    return read


@pytest.fixture
def about(entries):
    """The `bundle.json` of a file."""
    return lambda file: json.loads(entries(file)["bundle.json"])


@pytest.fixture
def copied(tmp_path):
    """A copy of a sample dump in a folder of its own, which a test may change."""

    def copy(sample, name):
        shutil.copytree(SAMPLES / sample, tmp_path / name)
        return tmp_path / name

    return copy
