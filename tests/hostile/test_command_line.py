"""Odd command lines, outputs that cannot be written, interrupts: one line and exit code 2, never a traceback."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from msprobe.cli import main

pytestmark = pytest.mark.slow

DUMPS = Path(__file__).parents[1] / "samples" / "8.1.1" / "dumps"
OURS = [sys.executable, "-m", "msprobe"]
# As a shell starts it, whatever the environment of the tests.
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two dumps `t` and `g`, a folder `dir`, a file `file`, a choice `api.yaml`."""
    made = tmp_path_factory.mktemp("odd")
    for name, source in (("t", "msp_mix_stat"), ("g", "ms_mix_stat")):
        shutil.copytree(DUMPS / source, made / name)
    (made / "dir").mkdir()
    (made / "file").write_text("x")
    (made / "api.yaml").write_text("api: [a]")
    return made


def run(folder, *words, **options):
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": BUFFERED, **options}
    return subprocess.run([*OURS, *words], cwd=folder, timeout=120, check=False, **options)


WRONG = {
    "compare": [
        *("t g -o file", "t g -o file/x", "t g -o /dev/null", "t g -o /proc/x", f"t g -o {'x' * 300}", "t g -o EMPTY"),
        *(
            "EMPTY g",
            "-tp EMPTY -gp g",
            "-tp t -gp",
            "-i",
            "-i EMPTY",
            "-i file",
            "-i dir",
            "t g --rank=",
            "t g --rank",
        ),
        *("t g --top x", "t g --top EMPTY", "t g --workers 1.5", "t g --workers -1", "t g --scheduler EMPTY"),
        *(
            "t g --scheduler",
            "t g --format EMPTY",
            "t g -m EMPTY",
            "t g -am EMPTY",
            "t g -dm",
            "t g -cm dir",
            "t g -lm file",
        ),
        *(
            "t",
            "-x",
            "t g h",
            "t g --framework x",
            "file g",
            "dir g",
            "/dev/null g",
            f"{'x' * 5000} g",
            "t\x01 g",
            "-- t",
        ),
    ],
    "bundle": [
        *("", "t", "t EMPTY", "t g h", "t g -x", "t g -o EMPTY", "t g -o o", "nope g", "t g --scramble", "t file"),
        *("t g -o file/x.zip", "t g --noise nope", "t g --rank x", "t g --step 99", "t g -dm nope", "t g --workers 0"),
    ],
    "digest": ["", "EMPTY", "file", "nope", "dir", "-x", "dir --workers 0", "dir --workers 1 --scheduler x"],
    "doctor": ["EMPTY", "file", "nope", "-x", "--config nope", "--config dir", "--ranks x", "dir --config file"],
    "gather": ["", "EMPTY -o o", "dir -o EMPTY", "dir -o file", "dir -o o --step ,", "dir -o o --workers 0", "t -o o"],
    "merge_result": [
        *("", "-i dir -o o -config api.yaml", "-i EMPTY -o o -config api.yaml", "-i file -o o -config api.yaml"),
        *("-i dir -o o -config dir", "-i nope -o o -config api.yaml", "-i dir -o o -config api.yaml --format pdf"),
    ],
    "config_check": [
        "",
        "-c",
        "-c file file",
        "-c dir dir",
        "-c EMPTY EMPTY",
        "file",
        "-c nope nope",
        "-d nope.sh",
        "-d file",
        "-d dir",
        "-d -o o",
        "-d -o file/x.zip",
        "-c a.zip b.zip",
        "-d x.sh -c a b",
        "-c a.zip dir",
    ],
    "mapping": ["", "t g", "suggest", "suggest EMPTY g", "suggest t g -o file", "suggest t g -o EMPTY"],
    "rollout_check": ["", "file file", "EMPTY file", "dir dir -o file", "/dev/null /dev/null -o o"],
    "code_mapping": ["", "x", "--ir file", "--ir EMPTY --dump_data dir", "--ir dir --dump_data dir --output file"],
    "verify-collection": ["", "nope.py", "dir", "--steps x file", "--steps -1 file", "--steps"],
    "": ["-x", "-f", "-f x compare", "Compare", "-"],
}


@pytest.mark.parametrize("verb", WRONG)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(folder, verb, capfd, monkeypatch):
    monkeypatch.chdir(folder)
    outputs = {}
    for words in WRONG[verb]:
        argv = [verb] * bool(verb) + ["" if word == "EMPTY" else word for word in words.split(" ") if word]
        try:
            code = main(argv)
        except SystemExit as err:  # as argparse ends
            code = err.code
        out, err = capfd.readouterr()
        lines = [line for line in err.splitlines() if " INFO: " not in line]
        if (code, out, len(lines)) != (2, "", 1) or not lines[0].startswith("msprobe"):
            outputs[words] = code, lines
    assert outputs == {}


FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device that is always full is one of Linux")


@FULL
@pytest.mark.parametrize("words", ["compare t g -o out --format csv", "doctor t", "-h", "--version", "compare -h"])
def test_a_standard_output_that_is_full_or_closed_is_no_traceback(folder, words):
    with open("/dev/full", "wb") as full:
        done = run(folder, *words.split(), stdout=full)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[-1].endswith("standard output: No space left on device")
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(folder, *words.split(), stdout=writer)
    finally:
        os.close(writer)
    assert done.returncode == 1
    assert [line for line in done.stderr.decode().splitlines() if " INFO: " not in line] == []


@FULL
def test_a_standard_error_that_is_full_leaves_the_exit_code(folder):
    with open("/dev/full", "wb") as full:
        assert run(folder, "compare", "t", "nope", stderr=full).returncode == 2


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "environment",
    [
        {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"COLUMNS": "1"},
    ],
    ids=["ascii", "POSIX", "one column"],
)
def test_no_locale_and_no_terminal_breaks_an_answer(folder, environment):
    name = "t\u00fc\u6211"
    if not (folder / name).exists():
        shutil.copytree(folder / "t", folder / name)
    environment = BUFFERED | environment
    whole = run(folder, "compare", "t", "g", "-o", "out", "--format", "csv")
    done = run(folder, "compare", name, "g", "-o", "out\u00fc", "--format", "csv", env=environment)
    assert (done.returncode, answered(done)) == (1, answered(whole))
    done = run(folder, "compare", f"{name}x", "g", env=environment)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, b"", 1)
    assert run(folder, "compare", "-h", env=environment).returncode == 0


def answered(done):
    """The lines of an answer but for paths that were given, and the table, whose name has the time."""
    return [line for line in done.stdout.splitlines() if not line.startswith((b"  written: ", b"  do next: "))]


def test_an_output_inside_a_dump_leaves_the_dump_as_it_was(folder):
    first = run(folder, "compare", "t", "g", "-o", "t/step0", "--format", "csv")
    again = run(folder, "compare", "t", "g", "-o", "out", "--format", "csv")
    assert (first.returncode, answered(first)) == (again.returncode, answered(again))


INTERRUPTED = """
import os, signal, sys
from importlib import abc

class Stop(abc.MetaPathFinder):
    def find_spec(self, name, *rest):
        module, _, turned = sys.argv[1].partition(" ")
        if name == module:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1000):
                    pass
            except KeyboardInterrupt:
                if turned:
                    raise ImportError("initialization failed")
                raise

sys.meta_path.insert(0, Stop())
from msprobe.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("module", ["numpy.linalg", "numpy.linalg turned", "msprobe.compare.jobs.run", "openpyxl"])
def test_an_interrupt_while_modules_are_imported_is_one_line(folder, module):
    """Also where it is turned into another error, as numpy does when its C modules are imported."""
    command = [sys.executable, "-c", INTERRUPTED, module, "compare", "t", "g", "-o", "out"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=False)
    assert [line for line in done.stderr.decode().splitlines() if " INFO: " not in line] == ["msprobe compare: stopped"]
    # Python kills itself by the signal where code in `exec` was interrupted; a shell calls both 130.
    assert done.returncode in (130, -signal.SIGINT)


def test_an_interrupt_at_any_time_is_one_line(folder):
    for wait in (0.3, 0.5, 0.8):
        command = [*OURS, "compare", "t", "g", "-o", "out", "--scheduler", "tcp://127.0.0.1:1"]
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        time.sleep(wait)
        os.killpg(process.pid, signal.SIGINT)
        _, output = process.communicate(timeout=60)
        # Before `main` runs the interrupt is Python's own.
        assert b"Traceback" not in output or b"in main" not in output, output
