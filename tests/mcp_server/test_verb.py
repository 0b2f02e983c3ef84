"""`msprobe mcp` without the library."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "mcp":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
from msprobe.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("language", ["en", "zh"])
def test_without_the_library_the_command_says_what_to_install(language):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "mcp"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env={"MSPROBE_LANG": language},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'msprobe-ms[mcp]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_helps_and_the_other_tools_do_not_need_the_library():
    for words in (["-h"], ["mcp", "-h"], ["explain", "MSP101"], ["completion", "bash"]):
        done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_help_of_msprobe_imports_no_library():
    code = "import sys; from msprobe.cli import main\ntry: main(['-h'])\nfinally: print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert not loaded & {"mcp", "anyio", "pydantic", "numpy", "asyncio"}
