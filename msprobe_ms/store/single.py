"""Single saves on disk: where the values of one variable stand, and how one is written.

```
root/data/{key}/step{S}/rank{R}[/micro_step{m}]/{key}.npy         a tensor
                                                {key}.{i}.npy     one of a list, by position, or of a dict, by key
                                                {key}.json        {"data": ...}: statistics and shape of each
```

`docs/single-save.md` says the rest.
"""

import json
import math
import os
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from msprobe.base.files import NAME_LIMIT, make_folder, replacing, safe_name
from msprobe.base.statistic import statistic

from .layout import DATA
from .npy import write_npy

Array = np.ndarray[Any, Any]
Value: TypeAlias = Array | list[Array] | dict[str, Array]
"""What one save of one variable holds: a tensor, or one level of container."""

_LONGEST_STEM = NAME_LIMIT - len(".json.part")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a run a value was saved. `micro_step` is None where the caller counts nothing within a step."""

    key: str
    step: int
    rank: int
    micro_step: int | None = None

    @property
    def stem(self) -> str:
        """The key as its folder and its files are called."""
        return stem_of(self.key)

    def of_rank(self, root: Path) -> Path:
        """The folder of everything that was saved under this key, in this step, by this rank."""
        return root / DATA / self.stem / f"step{self.step}" / f"rank{self.rank}"

    def folder(self, root: Path) -> Path:
        """The folder of this value alone."""
        inner = self.of_rank(root)
        return inner if self.micro_step is None else inner / f"micro_step{self.micro_step}"


def stem_of(key: str) -> str:
    """A key as one component of a path that leads nowhere else, with room behind it for a suffix.

    Like `safe_name`; `""`, `.`, `..` and keys of more than 245 bytes are changed too, and end in a digest of the key.
    """
    safe = safe_name(key)
    if safe not in ("", ".", "..") and len(safe.encode()) <= _LONGEST_STEM:
        return safe
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    cut = safe.encode()[: _LONGEST_STEM - len(digest) - 1].decode("utf-8", "ignore")
    return f"{cut.strip('.') or '_'}.{digest}"


def write(root: Path, place: Place, value: Value) -> None:
    """Write a value and its JSON; what stood at this place before is replaced, a list's surplus elements too.

    All files are complete under temporary names before the first one takes its own; the JSON comes last, so a JSON that
    is there speaks of complete files. OSError when the disk refuses: then what stood there stays.
    """
    folder, stem = place.folder(root), place.stem
    make_folder(folder)
    arrays = {f"{stem}.npy": value} if isinstance(value, np.ndarray) else _of_container(stem, value)
    finals = {folder / f"{number}.part": folder / name for number, name in enumerate(arrays)}
    described = folder / "json.part"
    try:
        for part, array in zip(finals, arrays.values(), strict=True):
            write_npy(str(part), array)
        with replacing(described) as file:
            file.write(_text(value).encode())
        for old in folder.glob("*.npy"):
            if old.name not in arrays:
                old.unlink()
        for part, final in (finals | {described: folder / f"{stem}.json"}).items():
            os.replace(part, final)
    finally:
        for part in (*finals, described):
            with suppress(OSError):
                part.unlink()


def _of_container(stem: str, value: list[Array] | dict[str, Array]) -> dict[str, Array]:
    members = value.items() if isinstance(value, dict) else enumerate(value)
    return {safe_name(f"{stem}.{member}.npy"): array for member, array in members}


def _text(value: Value) -> str:
    """The JSON text of a value; NaN and infinities are the bare words that Python's `json` writes and reads."""
    made: object
    if isinstance(value, np.ndarray):
        made = _described(value)
    elif isinstance(value, dict):
        made = {member: _described(array) for member, array in value.items()}
    else:
        made = [_described(array) for array in value]
    return json.dumps({"data": made}, indent=4)


def _described(array: Array) -> dict[str, object]:
    """Statistics and shape of one tensor.

    Floats, also of integers (rounded beyond 2^53) and of bool, whose elements count as 0 and 1; of complex numbers
    those of their absolute values. An empty tensor has none: null.
    """
    s = statistic(array)
    mean, norm = s.mean, s.norm
    if array.dtype.kind == "b" and array.size:
        mean, norm = s.true_count / array.size, math.sqrt(s.true_count)
    four = {"max": s.max, "min": s.min, "mean": mean, "norm": norm}
    return {name: None if n is None else float(n) for name, n in four.items()} | {"shape": list(array.shape)}
