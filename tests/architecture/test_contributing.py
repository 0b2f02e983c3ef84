"""What contributors follow matches the repository: commands, paths, changelog fragments, hooks and workflows."""

import importlib.util
import re
import subprocess
import sys

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # towncrier needs it there, too

PAGES = ("CONTRIBUTING.md", "README.md", "README.zh-CN.md", "SECURITY.md", ".github/pull_request_template.md")
INTERNAL = re.compile(r"run-.*|coverage-folder|help|suite|bare|smoke|mindtorch")
"""Targets that other targets call, or that are parts of `make test`."""


@pytest.fixture(scope="module")
def makefile(root):
    return (root / "Makefile").read_text()


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text())


def targets_of(makefile):
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))


def phony_of(makefile):
    joined = makefile.replace("\\\n", " ")
    return {name for names in re.findall(r"^\.PHONY:(.*)$", joined, re.MULTILINE) for name in names.split()}


def test_help_lists_every_target_that_a_contributor_uses(makefile):
    listed = re.findall(r"^#   make ([a-z-]+)  ", makefile, re.MULTILINE)
    assert len(listed) == len(set(listed)), "one line each"
    assert set(listed) == {name for name in phony_of(makefile) if not INTERNAL.fullmatch(name)}


def test_every_line_of_the_help_is_about_one_target(makefile):
    lines = re.findall(r"^#   (.*)", makefile, re.MULTILINE)
    assert all(line.startswith("make ") for line in lines)


def test_every_target_that_makes_no_file_of_its_name_is_phony(makefile):
    assert targets_of(makefile) == phony_of(makefile)


def test_every_make_command_is_a_target(root, makefile):
    files = [root / page for page in PAGES]
    files += [*(root / ".github").rglob("*.yml"), *(root / ".devcontainer").glob("*.json")]
    files += [root / ".pre-commit-config.yaml", root / ".ci" / "run", *(root / "docs").rglob("architecture.md")]
    named = {
        (file.name, target)
        for file in files
        for line in re.findall(r"`make [^`\n]*`|^[\s\w:|-]*\bmake [a-z].*$|\"make .*\"", file.read_text(), re.MULTILINE)
        for target in re.findall(r"\bmake ([a-z][a-z-]*)\b", line)
    }
    assert len(named) > 15
    unknown = {(file, target) for file, target in named if target not in targets_of(makefile)}
    assert not unknown


def test_every_path_for_contributors_exists(root, roots):
    pages = ("CONTRIBUTING.md", "SECURITY.md", *(f"docs/{lang}/explanation/architecture.md" for lang in ("en", "zh")))
    text = "".join((root / page).read_text() for page in pages)
    tops = (*roots, "tests", "docs", "benchmarks", "examples", ".devcontainer")
    named = {path for path in re.findall(r"`([\w./*-]+)`", text) if path.split("/")[0] in tops and "/" in path}
    assert len(named) > 60
    missing = {path for path in named if "NAME" not in path and not list(root.glob(path.rstrip("/")))}
    assert not missing


def test_the_changelog_has_the_text_of_every_fragment(root):
    """A fragment with a wrong name or in a wrong folder would be refused, or left out, at the release."""
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "0"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    draft = " ".join(done.stdout.split())
    fragments = [f for f in (root / "changes").rglob("*") if f.is_file() and f.name != "README.md"]
    assert [f for f in fragments if " ".join(f.read_text().split()) not in draft] == []


def test_the_hook_knows_the_sections_and_kinds_of_the_changelog(root, project):
    config = project["tool"]["towncrier"]
    hooks = (root / ".pre-commit-config.yaml").read_text()
    sections, kinds = re.search(r"exclude: \^changes/.*\|\(([\w|]+)\)/.*\\\.\(([\w|]+)\)\\\.md", hooks).groups()
    assert sections.split("|") == [section["path"] for section in config["section"]]
    assert kinds.split("|") == [kind["directory"] for kind in config["type"]]


def test_hooks_and_environments_have_one_version_of_ruff(root):
    (pinned,) = re.findall(r"^ruff==(.*)$", (root / "tests/constraints.txt").read_text(), re.MULTILINE)
    assert set(re.findall(r"ruff==([\d.]+)", (root / ".pre-commit-config.yaml").read_text())) == {pinned}


def test_workflows_run_the_supported_versions_of_python(root, project):
    supported = {c.rpartition(" ")[2] for c in project["project"]["classifiers"] if "Python :: 3." in c}
    matrices = re.findall(r"python: (\[.*\])", (root / ".github/workflows/ci.yml").read_text())
    assert [set(re.findall(r"[\d.]+", matrix)) for matrix in matrices] == [supported, supported], "check and test"


def test_the_report_of_coverage_counts_lines_per_package(root):
    spec = importlib.util.spec_from_file_location("coverage_report", root / "tests/support/coverage_report.py")
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    files = [
        {"filename": "compare/measure/block.py", "line_covered": 3, "line_total": 4},
        {"filename": "compare/measure/deep/inner.py", "line_covered": 1, "line_total": 1},
        {"filename": "compare/measure/_measure.c", "line_covered": 1, "line_total": 8},
        {"filename": "compare/run.py", "line_covered": 0, "line_total": 5},
    ]
    table = report.packages(files)
    assert list(table) == ["compare", "compare/measure", "total"]
    assert table["compare/measure"] == {"python_covered": 4, "python_lines": 5, "c_covered": 1, "c_lines": 8}
    assert table["total"] == {"python_covered": 4, "python_lines": 10, "c_covered": 1, "c_lines": 8}
    shown = report.lines(table)
    assert shown[1].split() == ["compare", "5", "0.0%"]
    assert shown[2].split() == ["compare/measure", "5", "80.0%", "8", "12.5%"]
