"""Which files of tests a run needs, told from their markers without importing them.

A file states with `pytestmark` what all of its tests need; a single test may state more with a decorator. A file that
needs MindSpore cannot be imported without it, and importing hundreds of files of which no test is run takes longer
than many of the runs.
"""

import re
import subprocess
from functools import cache
from importlib.util import find_spec
from itertools import chain, combinations
from pathlib import Path
from zlib import crc32

ROOT = Path(__file__).parents[2]

FRAMEWORKS = ("mindspore", "torch")
"""Markers that are the names of modules without which a test cannot run."""

_MARKER = re.compile(r"\bmark\.(\w+)")
_OF_THE_FILE = re.compile(r"^pytestmark *=.*(?:\n[ \t\])].*)*", re.MULTILINE)


class _Names(dict):
    """The names of an expression of markers: true for those that are there."""

    def __missing__(self, name):
        return False


@cache
def markers(file):
    """Return the markers that all tests of the file have, and those that only some may have."""
    source = file.read_text("utf-8")
    own = {name for each in _OF_THE_FILE.findall(source) for name in _MARKER.findall(each)}
    return own, set(_MARKER.findall(source)) - own


def evaluate(expression, names):
    """Return whether a test with these markers satisfies the expression."""
    return bool(eval(expression, {}, _Names.fromkeys(names, True)))


def satisfies(file, expression):
    """Return whether a test of the file may satisfy the expression of markers."""
    own, other = markers(file)
    names = sorted(name for name in other if re.search(rf"\b{name}\b", expression))
    subsets = chain.from_iterable(combinations(names, count) for count in range(len(names) + 1))
    return any(evaluate(expression, {*own, *some}) for some in subsets)


@cache
def missing_frameworks():
    return {name for name in FRAMEWORKS if find_spec(name) is None}


def may_run(file, expression=""):
    """Return whether a test of the file can be run here and may satisfy the expression, if there is one."""
    if markers(file)[0] & missing_frameworks():
        return False
    return not expression or satisfies(file, expression)


@cache
def folder_may_run(folder, expression=""):
    """Return whether any file of tests below the folder may; true for a folder without tests."""
    files = list(folder.rglob("test_*.py"))
    return not files or any(may_run(file, expression) for file in files)


def commit():
    """Return the commit of the working tree; "0" outside of a repository."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "0"


def sampled(count, cases, seed, name):
    """Return `count` of the cases, spread evenly; which ones follows from the seed and the name of the test.

    The cases lie in `count` sections of equal length, and the one at the same place of each section is taken.
    """
    if count >= len(cases):
        return list(cases)
    offset = crc32(f"{seed} {name}".encode()) / 2**32
    return [cases[int((section + offset) * len(cases) / count)] for section in range(count)]
