"""`configurations.json`: with what a run was configured, as far as JSON can hold it."""

import json
from collections.abc import Mapping
from pathlib import Path

from msprobe.base.files import make_folder, replacing

NAME = "configurations.json"

_DEPTH = 50


def write_configurations(root: Path, data: object) -> None:
    """Write `root/configurations.json`, in place of the one that is there. OSError when the disk refuses.

    Every rank of a run may write the same root at the same time: the file is always that of one of them.
    """
    text = json.dumps(plain(data), indent=4)
    make_folder(root)
    with replacing(root / NAME) as file:
        file.write(text.encode())


def plain(value: object, depth: int = 0) -> object:
    """A value in the types of JSON: what JSON has no type for, and what is nested deeper than 50, becomes its text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth < _DEPTH:
        if isinstance(value, Mapping):
            return {_key(key): plain(inner, depth + 1) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain(inner, depth + 1) for inner in value]
    return _text(value)


def _key(key: object) -> str | int | float | None:
    return key if key is None or isinstance(key, bool | int | float | str) else _text(key)


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # foreign code: whatever it raises, the rest of the configuration is to be had
        return f"<{type(value).__name__}>"
