"""Pages that are written by the commands, and read back: every chunk by its number."""

import sys
from pathlib import Path

import pytest

from msprobe.report import file

sys.path.append(str(Path(__file__).parent))  # the modules of this folder stand beside each other

SAMPLES = Path(__file__).parents[1] / "samples"


@pytest.fixture(autouse=True)
def _page(monkeypatch, tmp_path_factory):
    """Where the built page is no part of this installation, one that has its mark alone."""
    if not file.PAGE.exists():
        page = tmp_path_factory.mktemp("page") / "page.html"
        page.write_text(f"<!doctype html><html><body>{file.MARK}</body></html>")
        monkeypatch.setattr(file, "PAGE", page)


@pytest.fixture
def samples():
    return SAMPLES
