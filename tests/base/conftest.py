"""Fixtures of tests that read settings, and of those that go every way through the statistic of a tensor."""

import json
import sys
from pathlib import Path

import pytest

from msprobe.base import log, statistic
from msprobe.base.errors import SettingsError
from msprobe.base.settings import load

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other
pytest.register_assert_rewrite("exact_statistic")


@pytest.fixture
def configs():
    """The folder of configurations that users have."""
    return Path(__file__).parents[1] / "samples" / "configs"


@pytest.fixture
def config(tmp_path):
    """Writes a configuration file, with a dump_path where none is given; its path."""

    def write(**contents):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"dump_path": "./dump", **contents}), encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def notes(monkeypatch, capsys):
    """What was noted on standard error, as lines; every cause is new again."""
    monkeypatch.setattr(log, "_logged", set())
    return lambda: capsys.readouterr().err.splitlines()


@pytest.fixture
def refusal():
    """`refusal(path, level="L9")`: what `load` says when it refuses."""

    def refused(*args, **kwargs):
        with pytest.raises(SettingsError) as caught:
            load(*args, **kwargs)
        return str(caught.value)

    return refused


@pytest.fixture(params=["avx2", "plain", "numpy"])
def way(request, through):
    """The way through the statistic: the C passes for each instruction set, and the numpy passes."""
    through(statistic, request.param)
    return request.param
