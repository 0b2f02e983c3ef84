"""The files of the task `grad_probe`: a table of each step, and the sign of each element of a gradient.

```
{root}/rank{R}/grad_summary_{step}.csv
{root}/rank{R}/step{step}/{parameter}.npy      bool, true where the gradient is greater than 0
```

A table is written after the files of its step, and in one stroke: where there is a table, the step is complete.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.base.files import make_folder, open_text, replace_atomically, safe_name
from msprobe.store.layout import GRADIENTS
from msprobe.store.npy import Array, load_npy, write_npy
from msprobe.store.torch_files import load_pt

RANK = re.compile(r"^rank(\d{1,9})$")
SUMMARY = re.compile(rf"^{GRADIENTS}(\d{{1,18}})\.csv$")

_NAME = "param_name"
_MAX_CELL_LENGTH = 1 << 20


def rank_folder(root: Path, rank: int) -> Path:
    """Return the folder of one rank."""
    return root / f"rank{rank}"


def summary_path(folder: Path, step: int) -> Path:
    """Return the table of one step, in the folder of a rank."""
    return folder / f"{GRADIENTS}{step}.csv"


def direction_path(folder: Path, step: int, name: str, suffix: str = ".npy") -> Path:
    """Return the file with the signs of one parameter's gradient; a name that no file can have is replaced, and stays
    unique.

    Names such as `..` or `/tmp/x` stay inside the folder.
    """
    return folder / f"step{step}" / safe_name(f"{name}{suffix}")


def write_direction(folder: Path, step: int, name: str, positive: Array) -> None:
    """Write the signs of one gradient. OSError if writing fails."""
    path = direction_path(folder, step, name)
    make_folder(path.parent)
    write_npy(str(path), positive)


def write_summary(folder: Path, step: int, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write the table of a step in one stroke. OSError if writing fails."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    make_folder(folder)
    with replace_atomically(summary_path(folder, step)) as file:
        file.write(text.getvalue().encode("utf-8-sig", "backslashreplace"))


def read_summary(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return the header of a table and its rows, whose first cell is the parameter's name.

    Of this tool, and of msprobe in both its spellings (`param_name`, `Param_name`). DumpError if it cannot be read.
    """
    csv.field_size_limit(_MAX_CELL_LENGTH)
    try:
        with open_text(path, newline="") as file:
            lines = [line for line in csv.reader(file) if line]
    except (OSError, csv.Error) as err:
        raise DumpError(f"{path}: cannot be read ({err}); collect this step again") from err
    if not lines or lines[0][0].lower() != _NAME:
        raise DumpError(f"{path}: is not a table of gradients, whose first column is {_NAME}; remove it")
    return lines[0], lines[1:]


def ranks_in(root: Path) -> dict[int, Path]:
    """Return the folders of ranks below a folder, by rank."""
    return _numbered(root, RANK, is_folder=True)


def steps_in(folder: Path) -> dict[int, Path]:
    """Return the tables in the folder of a rank, by step."""
    return _numbered(folder, SUMMARY, is_folder=False)


def _numbered(folder: Path, pattern: "re.Pattern[str]", is_folder: bool) -> dict[int, Path]:
    try:
        entries = list(folder.iterdir())
    except OSError as err:
        raise DumpError(f"{folder}: cannot be read ({err.strerror or err}); check the path") from err
    found = {int(match[1]): path for path in entries if (match := pattern.match(path.name))}
    return {number: found[number] for number in sorted(found) if found[number].is_dir() == is_folder}


def read_direction(folder: Path, step: int, name: str) -> Array:
    """Return the signs of one gradient, from a file of numpy or, of msprobe's tool for PyTorch, of torch.

    DumpError if there is none, or it cannot be read.
    """
    path = direction_path(folder, step, name)
    as_pt = direction_path(folder, step, name, ".pt")
    if not path.exists() and as_pt.exists():
        return load_pt(as_pt)
    if not path.exists():
        raise DumpError(f"{path}: the signs of this gradient are missing; collect both sides with grad_level L1 or L2")
    return load_npy(path)


def merged(known: Mapping[str, Sequence[object]], rows: Iterable[Sequence[object]]) -> Iterator[Sequence[object]]:
    """Return the rows of a table that exists, replaced and followed by others of the same step."""
    replaced = {str(row[0]): row for row in rows}
    yield from (row for name, row in known.items() if name not in replaced)
    yield from replaced.values()
