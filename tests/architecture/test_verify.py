"""`make verify`: its parts have every test, and a budget of time leaves the newest results for later."""

import json
import re
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import verify
from selection import satisfies

MARKERS = dict(re.findall(r"^([A-Z]+)_MARKERS := (.*)$", (verify.ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.fixture
def args(tmp_path):
    return Namespace(
        bare=MARKERS["BARE"],
        frameworks=MARKERS["FRAMEWORK"],
        mindtorch=MARKERS["MINDTORCH"],
        bare_python="/bare/python",
        layer="/layer",
        results=tmp_path / "results.jsonl",
        minutes=1,
    )


def test_each_file_is_in_one_part_of_its_environment(args):
    parts = [part for part in verify.parts(args) if ", " in part.name]
    assert len({part.name for part in parts}) == len(parts)
    for file in sorted((verify.ROOT / "tests").rglob("test_*.py")):
        relative = file.relative_to(verify.ROOT)
        found = [
            part.name.rpartition(", ")[2] for part in parts if any(covers(path, relative) for path in part.command)
        ]
        wanted = {
            "without a framework": MARKERS["BARE"],
            "with frameworks": MARKERS["FRAMEWORK"],
            "PyTorch's API on MindSpore": MARKERS["MINDTORCH"],
        }
        assert {name for name, expression in wanted.items() if satisfies(file, expression)} <= {*found}
        assert len({*found}) == len(found)


def covers(path, file):
    return path.startswith("tests") and (Path(path) == file or Path(path) in file.parents)


def test_what_was_run_longest_ago_comes_first_and_what_passed_on_these_sources_not_at_all():
    names = ("passed", "old", "new", "never", "failed")
    every = [verify.Part(name, ()) for name in names]
    last = {
        "passed": verify.Run("passed", verify.PASSED, "now", 5, 1),
        "old": verify.Run("old", verify.PASSED, "before", 10, 1),
        "new": verify.Run("new", verify.PASSED, "before", 20, 1),
        "failed": verify.Run("failed", verify.FAILED, "now", 30, 1),
    }
    assert [part.name for part in verify.in_order(every, last, "now")] == ["never", "old", "new", "failed"]


PROGRAM = "import sys, time; time.sleep(600 if sys.argv[1] == 'long' else 0); sys.exit(sys.argv[1] == 'wrong')"


def run(args, monkeypatch, *names):
    monkeypatch.setattr(
        verify, "parts", lambda _: [verify.Part(name, (sys.executable, "-c", PROGRAM, name)) for name in names]
    )
    monkeypatch.setattr(verify, "in_order", lambda every, *_: every)
    monkeypatch.setattr(verify, "arguments", lambda: args)
    code = verify.main()
    return code, [json.loads(line)["result"] for line in args.results.read_text().splitlines()]


def test_a_part_that_fails_is_named_and_the_others_are_run(args, monkeypatch, capfd):
    args.minutes = 0
    assert run(args, monkeypatch, "quick", "wrong", "after") == (1, [verify.PASSED, verify.FAILED, verify.PASSED])
    assert "failed: wrong" in capfd.readouterr().out


def test_a_part_that_lasts_too_long_is_ended_and_said_not_to_be_reached(args, monkeypatch, capfd):
    args.minutes = 1 / 60
    assert run(args, monkeypatch, "long", "after") == (0, [verify.ENDED])
    said = capfd.readouterr().out
    assert "2 of 2 parts" in said
    assert "after: never run here" in said
