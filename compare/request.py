"""What a command line asks for, checked and in one value."""

import json
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from msprobe.base.errors import UsageError
from msprobe.base.log import logger

Format = Literal["xlsx", "csv", "json"]

_KNOWN = ("npu_path", "bench_path", "stack_path", "is_print_compare_log")
_NOT_HERE = {
    "rank_id": "the comparison of kernel dumps of static graphs",
    "step_id": "the comparison of kernel dumps of static graphs",
    "common": "the comparison of plain npy folders",
    "map_dict": "the comparison of plain npy folders",
}


@dataclass(frozen=True)
class Request:
    """Two sides, where the answer goes, and in which form.

    `stack_file` is a stack.json that lies elsewhere. `with_stack` shows the column of call stacks; None shows it where
    the target has stacks.
    """

    target: Path
    golden: Path
    output: Path
    format: Format = "xlsx"
    with_stack: bool | None = False
    stack_file: Path | None = None
    top: int = 10
    exit_zero: bool = False


@dataclass(frozen=True)
class Sides:
    """The two sides as a compare.json names them."""

    target: Path
    golden: Path
    stack: Path | None = None


def read_compare_json(file: Path) -> Sides:
    """Read msprobe 8.1's compare.json; UsageError, with what to write instead, where it cannot be meant."""
    try:
        given: Any = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as err:
        raise UsageError(f"{file}: cannot be read ({err.strerror}); check the path") from err
    except ValueError as err:
        raise UsageError(f"{file}: is no JSON ({err}); write an object with npu_path and bench_path") from err
    if not isinstance(given, dict):
        raise UsageError(f"{file}: must hold a JSON object with npu_path and bench_path")
    for key, what in _NOT_HERE.items():
        if key in given and given[key] not in (None, False):
            raise UsageError(f"{file}: {key} asks for {what}, which this version does not have; remove the key")
    for key in given:
        if key not in (*_KNOWN, *_NOT_HERE):
            near = get_close_matches(key, _KNOWN, 1)
            logger.warning("%s: unknown key %r is ignored%s", file, key, f"; did you mean {near[0]!r}?" if near else "")
    sides = [_path(file, given, key) for key in ("npu_path", "bench_path")]
    stack = _path(file, given, "stack_path") if given.get("stack_path") else None
    return Sides(sides[0], sides[1], stack)


def _path(file: Path, given: dict[str, Any], key: str) -> Path:
    """A path of the file: from where the command runs, as 8.1 has it, else from beside the file."""
    value = given.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{file}: {key} must be the path of a dump.json or of its folder, as a text")
    path = Path(value)
    beside = file.parent / path
    return beside if not path.is_absolute() and not path.exists() and beside.exists() else path
