"""The capabilities of all frameworks; `test_contract.py` of each framework tests them against the interface."""

import importlib.util
import sys
from pathlib import Path

import pytest

from msprobe.base.errors import UsageError
from msprobe.frameworks.registry import CAPABILITIES, PACKAGES, Framework, framework

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_has_the_table_of_capabilities(language):
    path = ROOT / "docs/frameworks.py"
    spec = importlib.util.spec_from_file_location("frameworks_table", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / f"docs/{language}/reference/support.md").read_text()
    assert module.BEGIN + module.table(language) + module.END in text, "run python docs/frameworks.py"
    assert set(module.MEANING) == set(CAPABILITIES)
    page = (ROOT / f"docs/{language}/explanation/backends.md").read_text()
    assert [name for name in CAPABILITIES if f"| `{name}` |" not in page] == []


def test_to_find_the_capabilities_imports_no_framework():
    offered = {name: framework(name).offered() for name in PACKAGES}
    absent = {name: set(CAPABILITIES) - set(found) for name, found in offered.items()}
    assert absent == {"mindspore": set(), "pytorch": set(), "mindtorch": {"statistics"}}
    assert not [name for name in ("msprobe.frameworks.mindtorch.modules", "msadapter") if name in sys.modules]


def test_a_missing_capability_is_an_error_that_names_it(tmp_path, monkeypatch):
    (tmp_path / "lean_framework").mkdir()
    (tmp_path / "lean_framework/__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    lean = Framework("lean", "lean_framework")
    assert lean.offered() == ()
    with pytest.raises(UsageError, match="optimizers is not available with lean"):
        _ = lean.optimizers


def test_an_unknown_framework_is_an_error_that_lists_the_known_ones():
    with pytest.raises(UsageError, match="choose one of mindspore, pytorch, mindtorch"):
        framework("tensorflow")
