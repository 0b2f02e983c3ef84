"""A program in a forked process runs as one that was started."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from preloaded import python

SHOW = """
import sys
print(sys.argv[1:], __name__, __import__("os").getcwd(), sys.stdin.read(), "decimal" in sys.modules)
"""


def run(*words, **more):
    return subprocess.run([python("decimal"), *words], capture_output=True, text=True, check=False, **more)


@pytest.mark.parametrize("how", ["-c", "-m", "file"])
def test_arguments_folder_input_and_output_are_its_own(how, tmp_path):
    (tmp_path / "show.py").write_text(SHOW)
    words = {"-c": ["-c", SHOW], "-m": ["-m", "show"], "file": ["show.py"]}[how]
    done = run(*words, "a", "b c", cwd=tmp_path, input="typed")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"['a', 'b c'] __main__ {tmp_path} typed True\n"


def test_a_module_beside_the_script_is_found(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "beside.py").write_text("here = 7")
    (tmp_path / "scripts" / "script.py").write_text("import beside; print(beside.here)")
    assert run("scripts/script.py", cwd=tmp_path).stdout == "7\n"


def test_the_environment_is_the_callers():
    code = "import os; print(os.environ.get('CHOSEN'), os.environ.get('HOME'))"
    assert run("-c", code, env={"CHOSEN": "this"}).stdout == "this None\n"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('words')", 1),
        ("raise ValueError('words')", 1),
        (f"import os; os.kill(os.getpid(), {int(signal.SIGTERM)})", -signal.SIGTERM),
        (f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})", -signal.SIGKILL),
    ],
)
def test_it_ends_as_it_would(code, expected):
    done = run("-c", code)
    assert done.returncode == expected
    assert ("words" in done.stderr) == ("words" in code)


def test_what_is_registered_for_the_end_is_called():
    assert run("-c", "import atexit; atexit.register(print, 'end'); print('body')").stdout == "body\nend\n"


def test_random_numbers_are_seeded_anew():
    draw = "import random; print(random.random())"
    assert run("-c", draw).stdout != run("-c", draw).stdout


def test_what_it_starts_itself_is_preloaded():
    inner = "import sys; print('decimal' in sys.modules)"
    assert run("-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])").stdout == "True\n"


def test_options_of_the_interpreter_go_to_one_that_is_started():
    code = "import sys; print(sys.executable, sys.flags.dev_mode)"
    assert run("-X", "dev", "-c", code).stdout == f"{sys.executable} True\n"


def test_whoever_kills_the_caller_kills_the_program():
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen([python("decimal"), "-c", code], stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        process.kill()
    limit = time.monotonic() + 10
    while is_running(pid) and time.monotonic() < limit:
        time.sleep(0.01)
    assert not is_running(pid)


def is_running(pid):
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
