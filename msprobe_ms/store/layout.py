"""Where things are in a dump: the names of its folders and files (`reference/format.md`, pages 1, 6 and 8)."""

import re
from pathlib import Path

DUMP = "dump.json"
DEBUG = "debug.json"
DUMP_TABLE = "dump.parquet"
DEBUG_TABLE = "debug.parquet"
TABLES = (DUMP_TABLE, DEBUG_TABLE)
DATA_FILES = (DUMP, DEBUG, *TABLES)
STACK = "stack.json"
CONSTRUCT = "construct.json"
JOURNAL = "dump.journal"
DAMAGED_JOURNAL = "dump.journal.damaged"
DIGEST = "digest.json"
GOLDEN = ".golden"
SAMPLES = "samples.parquet"
TENSORS = "dump_tensor_data"
NPY = ".npy"
PT = ".pt"
PACK = "tensors.pack"
PACK_INDEX = "tensors.index"
SAVES = "saves.jsonl"
RUN = "run.jsonl"
DATA = "data"
GRADIENTS = "grad_summary_"

FORMAT_VERSION = 1

# Levels whose calls have no enclosing cell in construct.json.
FLAT_LEVELS = ("L1", "L2")

_NUMBERED = re.compile(r"^(step|rank|run)(\d+)$")
_SINGLE = re.compile(r"^(?:rank|proc\d+)$")


def step_folder(root: Path, step: int) -> Path:
    """Return `root/step3`."""
    return root / f"step{step}"


def rank_folder(root: Path, step: int, rank: int | None) -> Path:
    """Return `root/step3/rank1`, or `root/step3/rank` if there is no rank (a single process)."""
    return step_folder(root, step) / ("rank" if rank is None else f"rank{rank}")


def _number(name: str, word: str) -> int | None:
    found = _NUMBERED.match(name)
    return int(found[2]) if found and found[1] == word else None


def step_number(name: str) -> int | None:
    """Return the step in a folder's name; None for any other name."""
    return _number(name, "step")


def rank_number(name: str) -> int | None:
    """Return the rank in a folder's name, 0 for a single process (`rank`, `proc123`); None for any other name."""
    return 0 if _SINGLE.match(name) else _number(name, "rank")


def registers(folder: Path) -> tuple[Path, Path]:
    """Return where the file can be that says which runs wrote to a folder: inside, and next to it."""
    return folder / RUN, folder.parent / f"{folder.name}.{RUN}"


def run_folder(number: int) -> str:
    """Return the folder of a further run inside that of the first, from 2."""
    return f"run{number}"


def run_number(name: str) -> int | None:
    """Return the number of a further run in a folder's name; None for any other name."""
    return _number(name, "run")


def data_file(level: str, columnar: bool = False) -> str:
    """Return the file that holds the entries: `debug.json` for what the user saved, `dump.json` for everything else; a
    table of Parquet in a columnar dump."""
    if columnar:
        return DEBUG_TABLE if level == "debug" else DUMP_TABLE
    return DEBUG if level == "debug" else DUMP
