"""The files of the task `free_benchmark`: a table of inconsistent outputs, of all ranks, and a summary of each rank.

```
{root}/free_benchmark.csv                     appended to, one row an output
{root}/free_benchmark_summary_rank{R}.json    replaced at each stop; without a rank free_benchmark_summary.json
```

The table is there only where something was inconsistent.
"""

import csv
import fcntl
import io
import json
import os
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.base.files import FILE_MODE, NO_FOLLOW, make_folder, open_text, replace_atomically

TABLE = "free_benchmark.csv"
COLUMNS = ("rank", "pert_type", "stage", "step", "api_name", "max_rel", "dtype", "shape", "output_index")
MODE_COLUMNS = ("pert_type", "pert_mode")
"""The names of the second column: of msprobe for MindSpore, and for PyTorch, whose documentation both follow."""

_MAX_CELL_LENGTH = 1 << 20
_FLIPPED = "symbol_flipping"
"""What msprobe for PyTorch writes in the place of a number where a sign flipped; here that is 7.0."""


@dataclass(frozen=True, slots=True)
class Row:
    """One output of a call that a perturbation of its inputs changed too much; `shape` is that of the output.

    `rank` is None where none is known, `output` where the call has one output.
    """

    rank: int | None
    mode: str
    stage: str
    step: int
    api: str
    max_rel: float
    dtype: str
    shape: tuple[int, ...]
    output: int | None


def append(root: Path, rows: Sequence[Row]) -> None:
    """Append rows, and write the header if the table is new. Several processes may. OSError if writing fails."""
    make_folder(root)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        rank, output = ("" if each is None else each for each in (row.rank, row.output))
        shape = str(tuple(row.shape))
        writer.writerow([rank, row.mode, row.stage, row.step, row.api, row.max_rel, row.dtype, shape, output])
    append_only = os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | NO_FOLLOW
    number = os.open(root / TABLE, os.O_WRONLY | append_only, FILE_MODE)
    try:
        with _locked(number):
            header = "" if os.fstat(number).st_size else ",".join(COLUMNS) + "\n"
            left = memoryview((header + text.getvalue()).encode("utf-8", "backslashreplace"))
            while left:
                left = left[os.write(number, left) :]
    finally:
        os.close(number)


@contextmanager
def _locked(number: int) -> Iterator[None]:
    """Hold the table's lock; where the file system has none, several ranks may each write a header."""
    with suppress(OSError):
        fcntl.flock(number, fcntl.LOCK_EX)
    yield  # closing the file gives it back


def read_table(path: Path) -> list[Row]:
    """Return the rows of a table, of this tool or of msprobe, whichever of its two names the second column has.

    DumpError if it cannot be read.
    """
    csv.field_size_limit(_MAX_CELL_LENGTH)
    try:
        with open_text(path, newline="") as file:
            lines = [line for line in csv.reader(file) if line]
    except (OSError, csv.Error) as err:
        raise DumpError(f"{path}: cannot be read ({err}); collect again") from err
    header = tuple(lines[0]) if lines else ()
    if header not in [(COLUMNS[0], mode, *COLUMNS[2:]) for mode in MODE_COLUMNS]:
        raise DumpError(f"{path}: is not a table of free_benchmark, whose columns are {', '.join(COLUMNS)}; remove it")
    rows = []
    for number, line in enumerate(lines[1:], 2):
        if tuple(line) == header:  # of another rank, where files have no locks
            continue
        try:
            rows.append(_row(line))
        except (ValueError, SyntaxError) as err:
            raise DumpError(f"{path}: row {number} cannot be read ({err}); remove it") from err
    return rows


def _row(line: list[str]) -> Row:
    rank, mode, stage, step, api, max_rel, dtype, shape, output = line
    shape = shape.removeprefix("torch.Size")
    size = literal_eval(shape) if shape.strip() else ()
    if not isinstance(size, tuple | list) or not all(isinstance(each, int) for each in size):
        raise ValueError(f"shape {shape}")
    return Row(
        rank=int(rank) if rank else None,
        mode=mode,
        stage=stage,
        step=int(step),
        api=api,
        max_rel=7.0 if max_rel == _FLIPPED else float(max_rel),
        dtype=dtype,
        shape=tuple(size),
        output=int(output) if output else None,
    )


def summary_path(root: Path, rank: int | None) -> Path:
    """Return the summary of one rank."""
    return root / ("free_benchmark_summary.json" if rank is None else f"free_benchmark_summary_rank{rank}.json")


def write_summary(root: Path, rank: int | None, contents: Mapping[str, object]) -> None:
    """Write the summary of a rank in one stroke. OSError if writing fails."""
    make_folder(root)
    with replace_atomically(summary_path(root, rank)) as file:
        file.write(json.dumps(contents, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")
