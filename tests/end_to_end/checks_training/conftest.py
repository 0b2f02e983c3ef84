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
def asked(request):
    """`asked("with_pytorch", 4)`: the task and the case of each test of this run, which may be a sample of all, that
    has this fixture and so many ranks."""

    def of(fixture, ranks):
        tests = [each.callspec.params for each in request.session.items if fixture in each.fixturenames]
        every = [f"{test.get('task', 'statistics')}/{test['case']}" for test in tests if test.get("ranks", 1) == ranks]
        return list(dict.fromkeys(every))

    return of


@pytest.fixture(scope="session")
def with_pytorch(made_once, asked):
    """The folder of the cases that are asked for on so many ranks, by gloo."""

    def made(ranks):
        def train(folder):
            folder.mkdir()
            wanted = [str(ranks), str(folder), *asked("with_pytorch", ranks)]
            script = HERE / "planted_pytorch.py"
            commands = [[python("torch", "torch._dynamo"), script, str(rank), *wanted] for rank in range(ranks)]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
            running = [subprocess.Popen(c, stderr=subprocess.PIPE, text=True, env=environment) for c in commands]
            errors = [process.communicate(timeout=300)[1] for process in running]
            assert not any(process.returncode for process in running), "\n".join(errors)

        return made_once(f"planted_pytorch{ranks}", train)

    return made


@pytest.fixture(scope="session")
def with_mindspore(made_once, msrun, asked):
    """The folder of the cases that are asked for on so many ranks, by msrun."""

    def made(ranks):
        def train(folder):
            folder.mkdir()
            wanted = [HERE / "planted_mindspore.py", folder, *asked("with_mindspore", ranks)]
            if ranks == 1:
                subprocess.run([python("mindspore"), *wanted], check=True, capture_output=True, timeout=300)
            else:
                msrun(*wanted, folder=folder, count=ranks)

        return made_once(f"planted_mindspore{ranks}", train)

    return made


@pytest.fixture
def last_answer():
    """The answer of the last step that was looked at."""
    return lambda folder: list(search(dumps_of(folder), workers=1))[-1]
