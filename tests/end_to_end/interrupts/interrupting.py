"""Runs `recovering.py` in a process of its own, and shows what did not hold."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from preloaded import python

HERE = Path(__file__).parent
CASES = [(0, 30), *(pytest.param(seed, 500, marks=pytest.mark.verify) for seed in (1, 2, 3, 4))]
"""Seeds, and how many interrupts a process makes with each, spread over all ways to observe a training."""


def interrupt(framework, seed, count, folder):
    command = [python(framework), HERE / "recovering.py", framework, seed, count, folder / "runs"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=880)
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1])
    shown = "".join(
        f"\n{sys.executable} {HERE / 'recovering.py'} {framework} {seed} 1 FOLDER {each['task']!r} {each.get('number')}"
        f"\n{each['where']}: {each['what']}"
        for each in result["failures"]
    )
    assert not result["failures"], shown
    assert result["interrupts"] == count
