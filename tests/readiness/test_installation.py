"""What is installed: by metadata alone."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

from msprobe.findings.catalogue import readiness as kind
from msprobe.readiness import installation

ROOT = Path(__file__).resolve().parents[2]


def found():
    return {(each.kind, each.subject): each for each in installation.examine()}


def test_an_environment_without_a_framework_is_noted_and_fine():
    assert [kind for kind, _ in found()] == [kind.NO_FRAMEWORK]
    assert not any(each.is_wrong for each in installation.examine())


def test_a_framework_that_is_too_old_and_what_it_needs(package):
    package("mindspore", "2.6.0", "numpy>=99")
    what = found()
    own = what[kind.VERSION, "mindspore"]
    assert (own.value, set(own.expected.split(",")), own.reason) == (
        "2.6.0",
        {"<2.11", ">=2.7"},
        "msprobe-ms[mindspore]",
    )
    by_mindspore = [each for each in installation.examine() if each.subject == "numpy" and each.reason == "mindspore"]
    assert [each.expected for each in by_mindspore] == [">=99"]
    by_us = [each for each in installation.examine() if each.subject == "numpy" and each.reason != "mindspore"]
    assert bool(by_us) == (int(numpy.__version__.split(".")[0]) > 1), "MindSpore wants numpy before 2"


def test_python_that_a_framework_refuses(package):
    package("mindspore", "2.10.0", python=">=3.7,<3.8")
    assert found()[kind.VERSION, "Python"].expected == ">=3.7,<3.8"


def test_versions_outside_of_the_tested_ones_are_noted(package):
    package("torch", "2.6.0+cpu")
    each = found()[kind.UNTESTED, "torch"]
    assert (each.value, each.expected, each.is_wrong) == ("2.6.0+cpu", "2.13.0", False)


def test_two_packages_that_bring_torch(package):
    package("torch", "2.13.0")
    package("msadapter", "0.5.0b1")
    assert (kind.TWO_TORCHES, "torch") in found()
    assert found()[kind.MISSING, "ml_dtypes"].reason == "msprobe-ms[mindtorch]"


@pytest.mark.parametrize("name", installation.EXTENSIONS)
def test_an_extension_that_is_not_there(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    assert found()[kind.NO_EXTENSION, name].is_wrong


def test_the_tested_versions_are_those_of_the_page():
    page = (ROOT / "docs/en/reference/support.md").read_text().partition("## Versions")[2].partition("\n## ")[0]
    numbers = {}
    title = ""
    for row in re.findall(r"^\|(.*?)\|(.*?)\|.*\|$", page, re.MULTILINE):
        title = row[0].strip().lower() or title
        numbers.setdefault(title, set()).update(re.findall(r"\d+\.\d+(?:\.\d+)?(?:b\d)?", row[1]))
    names = {"python": "python", "mindspore": "mindspore", "pytorch": "torch", "msadapter": "msadapter"}
    for title, name in names.items():
        parts = sorted(numbers[title], key=lambda each: [int(n) for n in re.findall(r"\d+", each)])
        written = [each for each in parts if title != "msadapter" or "b" in each]
        assert (written[0], written[-1]) == installation.TESTED[name], title


def test_the_command_imports_no_framework(tmp_path):
    (tmp_path / "c.json").write_text(json.dumps({"dump_path": str(tmp_path / "d"), "level": "mix"}))
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        assert name.split(".")[0] not in ("mindspore", "torch"), name
sys.meta_path.insert(0, Refuse())
from msprobe.cli import main
sys.exit(main(sys.argv[1:]))
"""
    words = ["doctor", "--config", "c.json", "--mode", "graph", "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    assert [each["kind"] for each in answer["findings"]] == ["taken as"]
    assert done.stderr == ""
