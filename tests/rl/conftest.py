"""What tests of a flow share: a probe that is as it was at the process's begin, and what the log says."""

import pytest

from msprobe.base import log
from msprobe.core import MsProbe


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(MsProbe, "_roots", {})
    monkeypatch.setattr(log, "_logged", set())
    yield
    MsProbe.config_init(None)


@pytest.fixture
def logged(monkeypatch):
    """The warnings of the log, line by line."""
    lines = []
    monkeypatch.setattr(log.logger, "log", lambda level, message: lines.append(message))
    return lines
