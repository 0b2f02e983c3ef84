"""Trainings with a planted fault, run once a session; and what `overflow_check` finds in their dumps."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from preloaded import python

from msprobe.checks.dumps import dumps_of
from msprobe.checks.nonfinite.search import search

HERE = Path(__file__).parent
sys.path.append(str(HERE))  # the modules of this folder stand beside each other


@pytest.fixture(scope="session")
def with_pytorch(made_once):
    """The folder of all cases on so many ranks, by gloo."""

    def made(ranks):
        def train(folder):
            folder.mkdir()
            script = HERE / "planted_pytorch.py"
            commands = [[sys.executable, script, str(rank), str(ranks), folder] for rank in range(ranks)]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
            running = [subprocess.Popen(c, stderr=subprocess.PIPE, text=True, env=environment) for c in commands]
            errors = [process.communicate(timeout=300)[1] for process in running]
            assert not any(process.returncode for process in running), "\n".join(errors)

        return made_once(f"planted_pytorch{ranks}", train)

    return made


@pytest.fixture(scope="session")
def with_mindspore(made_once, msrun):
    """The folder of all cases on so many ranks, by msrun."""

    def made(ranks):
        def train(folder):
            folder.mkdir()
            script = HERE / "planted_mindspore.py"
            if ranks == 1:
                subprocess.run([python("mindspore"), script, folder], check=True, capture_output=True, timeout=300)
            else:
                msrun(script, folder, folder=folder, count=ranks)

        return made_once(f"planted_mindspore{ranks}", train)

    return made


@pytest.fixture
def last_answer():
    """The answer of the last step that was looked at."""
    return lambda folder: list(search(dumps_of(folder), workers=1))[-1]
