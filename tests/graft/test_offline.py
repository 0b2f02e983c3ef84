"""Options of estimates, and what they say where calls cannot be replayed because torch is not installed."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from msprobe.base.errors import UsageError
from msprobe.cli import main
from msprobe.graft.gap import BIT_EQUAL, RunGap, closure_of_largest, gap_of_parts
from msprobe.graft.verb import Options

RUNS = Path(__file__).parents[1] / "gate" / "runs"
EPS, BASE = RUNS / "eps", RUNS / "base"


def options(**more):
    return Options(target=EPS, golden=BASE, **more)


def test_an_estimate_needs_no_command_and_takes_none():
    options(offline=True).check()
    with pytest.raises(UsageError, match=r"--offline: runs no training.*'python'"):
        options(offline=True, command=("--", "python", "train.py")).check()
    with pytest.raises(UsageError, match="--offline: makes no runs that -o could keep"):
        options(offline=True, output=Path("runs")).check()
    with pytest.raises(UsageError, match="after --, or --offline"):
        options().check()


def test_the_closure_of_an_estimate_is_that_of_what_both_runs_reached():
    before = gap_of_parts({"loss": (4.0, 4.0), "a": (9.0, 9.0), "b": (16.0, 9.0)})
    assert (before.loss, before.gradients) == (1.0, (25 / 18) ** 0.5)
    after = RunGap(loss=1.0, gradients=0.9, parts={"a": (0.0, 9.0)})
    assert before.among(after) == RunGap(gradients=1.0)
    assert closure_of_largest(before, after, BIT_EQUAL) == 1.0
    assert RunGap(0.5, 0.25).among(RunGap(0.125)) == RunGap(0.5, 0.25)


@pytest.mark.skipif(find_spec("torch") is not None, reason="with torch, calls are executed again")
def test_without_torch_nothing_is_judged(capsys):
    assert main(["graft", str(EPS), str(BASE), "--offline", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    (grafted, *_) = found["details"]["grafts"]
    assert (grafted["verdict"], grafted["estimate"]["replayed"]) == ("not judged", 0)
    assert {stop["reason"] for stop in grafted["estimate"]["stops"]} == {"no_library"}
    assert found["details"]["rest"]["share"] == 1.0
    assert found["details"]["estimate"] is True
    assert [finding["code"] for finding in found["findings"]][-1] == "MSP876"
