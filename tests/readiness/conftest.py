"""Packages that are installed as far as their metadata says, and configurations."""

import json

import pytest

from msprobe.base.settings import Origin
from msprobe.readiness.configuration import examine
from msprobe.readiness.target import Target


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write the metadata of a package where Python looks first."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def write(name, version, *requires, python=""):
        info = site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Python: {python}"] * bool(python) + [f"Requires-Dist: {each}" for each in requires]
        (info / "METADATA").write_text("\n".join(lines) + "\n")

    return write


@pytest.fixture
def found(tmp_path):
    """The findings of a configuration on a target: kind, subject without the file's name, value."""

    def ask(contents, framework="mindspore", **target):
        origin = Origin("c.json")
        contents = {"dump_path": str(tmp_path / "dump"), **contents}
        _, findings = examine(json.loads(json.dumps(contents)), origin, Target(framework, **target))
        return [(each.kind, each.subject.removeprefix("c.json").removeprefix(", "), each.value) for each in findings]

    return ask
