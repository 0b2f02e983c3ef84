"""Where things are in a dump: the names of its folders and files (`docs/format.md`, pages 1, 6 and 8)."""

import re
from pathlib import Path

DUMP = "dump.json"
DEBUG = "debug.json"
STACK = "stack.json"
CONSTRUCT = "construct.json"
JOURNAL = "dump.journal"
TENSORS = "dump_tensor_data"
SAVES = "saves.jsonl"
RUN = "run.jsonl"
DATA = "data"

FORMAT_VERSION = 1

# Levels whose calls have no enclosing cell in construct.json.
FLAT_LEVELS = ("L1", "L2")

_STEP = re.compile(r"^step(\d+)$")
_RANK = re.compile(r"^(?:rank(\d*)|proc(\d+))$")
_RUN = re.compile(r"^run(\d+)$")


def step_folder(root: Path, step: int) -> Path:
    """`root/step3`."""
    return root / f"step{step}"


def rank_folder(root: Path, step: int, rank: int | None) -> Path:
    """`root/step3/rank1`; `root/step3/rank` where no rank is known (a single process)."""
    return step_folder(root, step) / ("rank" if rank is None else f"rank{rank}")


def step_number(name: str) -> int | None:
    """The step that a folder's name says; None for any other name."""
    m = _STEP.match(name)
    return int(m[1]) if m else None


def rank_number(name: str) -> int | None:
    """The rank that a folder's name says, 0 for a single process (`rank`, `proc123`); None for any other name."""
    m = _RANK.match(name)
    if m is None:
        return None
    return int(m[1]) if m[1] else 0


def run_folder(number: int) -> str:
    """The folder of a further run inside that of the first, from 2."""
    return f"run{number}"


def run_number(name: str) -> int | None:
    """The number of a further run that a folder's name says; None for any other name."""
    m = _RUN.match(name)
    return int(m[1]) if m else None


def data_file(level: str) -> str:
    """The file that holds the entries: `debug.json` for what the user saved, `dump.json` for everything else."""
    return DEBUG if level == "debug" else DUMP
