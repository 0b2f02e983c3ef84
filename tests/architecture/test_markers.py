"""The markers of the files of tests, by which the Makefile chooses where each is run."""

import ast
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from selection import FRAMEWORKS, evaluate, markers, sampled, satisfies

ROOT = Path(__file__).parents[2]
RUNS = dict(re.findall(r"^([A-Z]+)_MARKERS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
"""The Makefile's expressions of markers."""


@pytest.fixture(scope="module")
def tests(files, root):
    return [file for file in files if re.search(r"^tests/.*test_\w+\.py$", file.relative_to(root).as_posix())]


def imported_at_the_top(tree):
    """Return the packages that importing the module imports."""
    statements = list(tree.body)
    for node in statements:
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.partition(".")[0]


def test_a_file_that_imports_a_framework_has_its_marker(tests, root):
    wrong = []
    for file in tests:
        imported = {*imported_at_the_top(ast.parse(file.read_text()))} & {*FRAMEWORKS}
        own, _ = markers(file)
        if "mindtorch" in own:  # there `torch` is MindSpore's, and whoever finds out looks for both
            imported -= {"torch"} if "mindspore" in own else {*FRAMEWORKS}
        if missing := imported - own:
            wrong.append(f"{file.relative_to(root)}: pytestmark lacks {', '.join(sorted(missing))}")
    assert not wrong


def test_each_file_is_run_by_the_makefile(tests, root):
    assert len(RUNS) == 5
    assert not [str(file.relative_to(root)) for file in tests if not any(satisfies(file, run) for run in RUNS.values())]


def test_a_file_without_a_framework_is_run_once(tests, root):
    """Only `everywhere` asks for more than one environment."""
    bare = [file for file in tests if not markers(file)[0]]
    assert len(bare) > 200
    assert not [str(file.relative_to(root)) for file in bare if evaluate(RUNS["FRAMEWORK"], markers(file)[0])]
    assert evaluate(RUNS["BARE"], {"everywhere"})
    assert evaluate(RUNS["FRAMEWORK"], {"everywhere"})


@pytest.mark.parametrize(("count", "of"), [(1, 7), (3, 10), (10, 10), (4, 3), (17, 100)])
def test_a_sample_has_as_many_cases_as_asked_for_and_another_commit_others(count, of):
    cases = list(range(of))
    taken = [sampled(count, cases, seed, "test") for seed in range(200)]
    assert {len(each) for each in taken} == {min(count, of)}
    assert all(each == sorted({*each}) for each in taken)
    assert {case for each in taken for case in each} == {*cases}
    assert sampled(count, cases, 3, "test") == taken[3]


PARTS = """
import pytest

pytestmark = pytest.mark.part(3)

@pytest.mark.parametrize("number", range(7))
def test_many(number):
    pass

def test_one():
    pass

@pytest.mark.sample(2)
@pytest.mark.parametrize("number", range(4))
def test_sampled(number):
    pass
"""


GRIDS = """
import pytest

@pytest.mark.parametrize("number", range(8))
def test_few(number):
    pass

@pytest.mark.parametrize("first", range(6))
@pytest.mark.parametrize("second", range(5))
def test_grid(first, second):
    pass

@pytest.mark.always
@pytest.mark.parametrize("number", range(20))
def test_all(number):
    pass
"""


@pytest.mark.slow
@pytest.mark.turns("selection", 1)
def test_a_part_of_a_file_is_one_test_in_three_and_another_commit_has_others(tmp_path, root):
    """Eight tests without a marker of their own, of which three are run, and two of the four that are sampled."""
    run = partial(collected, tmp_path, root, PARTS)
    assert len(run("--all-cases")[0]) == 12
    taken = [run("--sample-seed", seed) for seed in "abc"]
    for names, _ in taken:
        assert (len(names), names.count("test_sampled")) == (5, 2)
    assert len({case for _, cases in taken for case in cases if "sampled" not in case}) > 3


@pytest.mark.slow
@pytest.mark.turns("selection", 1)
def test_of_a_grid_a_third_is_run_and_another_commit_has_others(tmp_path, root):
    run = partial(collected, tmp_path, root, GRIDS)
    assert len(run("--all-cases")[0]) == 58
    taken = [run("--sample-seed", seed) for seed in "abcd"]
    for names, _ in taken:
        assert [names.count(f"test_{name}") for name in ("few", "grid", "all")] == [8, 10, 20]
    assert len({case for _, cases in taken for case in cases if "grid" in case}) > 10


def collected(folder, root, tests, *options):
    """Return the names of the tests that a run of a file selects, without and with their cases."""
    (folder / "test_it.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "--collect-only", "-q"]
    done = subprocess.run(
        [*command, "--rootdir", str(folder), *options, "test_it.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(root / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return re.findall(r"::(test_\w+)", done.stdout), re.findall(r"::(test_\S+)", done.stdout)
