"""The commands that the examples' READMEs show are run, in their order, in a copy of the example."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.examples]

pytest.importorskip("mindspore", reason="the examples train; without a framework they cannot")

EXAMPLES = Path(__file__).parents[3] / "examples"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(r"^first wrong call: .*$", re.MULTILINE)
PROOF = "\nproven: Tensor.__add__.7.forward (100% of the gap)\n"
MEASURED = re.compile(
    r"\d+\.\d+(e[-+]\d+)?|\d+e-\d+|\d+(?= times| of | pairs judged| unjudged)|\[[\d, ]+\]|(?<= of the norm at )[^;]+"
)
"""What another processor may round otherwise: numbers with a point or an exponent, how often a limit is passed, the
worst element, the record that rounding changed most, and how many pairs are too near to rounding to be judged."""


def without_folders(result):
    """An answer with the path of its source file cut down to the file's name."""
    return re.sub(r"\((?:[^()]*/)?([^/()]+:\d+)\)$", r"(\1)", result)


def answers(text):
    return [without_folders(result) for result in ANSWER.findall(text)]


def blocks(text, language):
    return [block for name, block in BLOCK.findall(text) if name == language]


def lines(text):
    """What is printed, without what may differ from processor to processor, and without folders."""
    return {MEASURED.sub("#", without_folders(line)) for line in text.splitlines()}


def test_every_example_is_explained():
    assert all((folder / "README.md").is_file() for folder in EXAMPLES.iterdir() if folder.is_dir())


@pytest.mark.parametrize("name", sorted(p.parent.name for p in EXAMPLES.glob("*/README.md")))
def test_the_commands_of_an_example_run_and_say_what_it_shows(name, tmp_path):
    shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("out", "__pycache__"))
    readme = (EXAMPLES / name / "README.md").read_text()
    commands = "".join(blocks(readme, "bash"))
    assert commands
    # `python` and `msprobe` of a reader's environment are those of ours
    path = os.pathsep.join([sysconfig.get_path("scripts"), str(Path(sys.executable).parent), os.environ["PATH"]])
    shell = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(
        shell, cwd=tmp_path / name, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shown = lines("".join(blocks(readme, "")))
    assert shown <= lines(done.stdout), "the README shows what is really said"
    if name == "demo":
        pages = [(EXAMPLES.parent / each).read_text() for each in ("README.md", "examples/demo/README.md")]
        assert answers(pages[0])[0] == answers(done.stdout)[0]
        assert [f"{PROOF}```\n" in page for page in pages] == [True, True]
        assert PROOF in done.stdout


def test_the_tutorial_shows_what_the_demo_runs():
    """Its commands are the demo's, which the test above runs; both languages show the same."""
    pages = [
        (EXAMPLES.parent / "docs" / lang / "tutorial/first-wrong-call.md").read_text("utf-8") for lang in ("en", "zh")
    ]
    assert BLOCK.findall(pages[0]) == BLOCK.findall(pages[1])
    demo = (EXAMPLES / "demo" / "README.md").read_text()
    install, activate, *commands = blocks(pages[0], "bash")
    assert (install, activate) == ("make demo\n", "source .venv/bin/activate\ncd examples/demo\n")
    assert set("".join(commands).splitlines()) <= set("".join(blocks(demo, "bash")).splitlines())
    assert answers(pages[0]) == answers(demo)[:1]
