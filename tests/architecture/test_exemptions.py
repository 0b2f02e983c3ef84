"""The one table of exemptions: its functions and tests exist, its page is current, and nothing is exempt without it."""

import ast
import importlib.util
import subprocess
import sys

import pytest

from msprobe.compare.core.exemptions import TABLE, Outcome, Stage, lines
from msprobe.compare.core.reason import Cause


def test_every_exemption_has_a_name_and_reasons_of_its_own():
    names = [row.name for row in TABLE]
    assert len(names) == len(set(names))
    assert all(row.reasons and row.relations for row in TABLE)


def test_the_table_is_in_the_order_of_the_stages():
    stages = list(Stage)
    found = [stages.index(row.stage) for row in TABLE]
    assert found == sorted(found)
    assert set(found) == set(range(len(stages)))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_the_function_of_an_exemption_exists(row):
    assert callable(row.function)
    assert row.function.__doc__


def test_the_test_of_every_exemption_exists(root):
    files = sorted({row.test.partition("::")[0] for row in TABLE})
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-n",
        "0",
        "--all-cases",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run([*command, *files], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    collected = set(done.stdout.splitlines())
    collected |= {name.partition("[")[0] for name in collected}
    assert [row.name for row in TABLE if row.test not in collected] == []


def test_every_cause_that_is_exempt_has_a_row():
    assert {row.cause for row in TABLE if row.outcome is Outcome.EXEMPT} == {c for c in Cause if c.is_exempt}


def test_only_the_table_exempts(modules):
    """No module gives a verdict with a cause that is exempt by itself."""
    exempt = {cause.name for cause in Cause if cause.is_exempt}
    found = [
        f"{module.name}:{node.lineno}"
        for module in modules
        if module.name.startswith("msprobe.compare.")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) in ("unjudged", "Verdict")
        and exempt & {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    ]
    assert found == [], "add a row to msprobe.compare.core.exemptions"


def test_the_table_is_printed():
    command = [sys.executable, "-m", "msprobe.compare.core.exemptions"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == list(lines())
    assert done.stderr == ""


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_reference_page_is_that_of_the_table(language, root):
    spec = importlib.util.spec_from_file_location("exemptions_page", root / "docs/exemptions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (root / "docs" / language / "reference/exemptions.md").read_text(encoding="utf-8")
    assert page == module.page(language), "run python docs/exemptions.py"
