"""Single saves (page single-save): how `SingleSave` writes a value, and how what is below `data` is read.

```
root/data/{tag}/step{S}/rank{R}[/micro_step{m}]/{key}.npy         a tensor
                                                {key}.{i}.npy     one of a list, by position, or of a dict, by key
                                                {key}.json        {"data": ...}: statistics and shape of each
root/data/{tag}/step{S}/rank{R}/{key}_{dtype}_{id}.npy            a graph save, by `save_data` of RL flows
```

The key is the last part of the tag, which is all of it unless a key has slashes.
"""

import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msprobe.base.files import NAME_LIMIT, make_folder, replace_atomically, safe_name
from msprobe.base.schema import NAMES
from msprobe.store import layout
from msprobe.store.folders import Folder, by_number, walk
from msprobe.store.layout import DATA
from msprobe.store.record import Dump

from .graph_saves import Saved, dump_of, name_and_id, saved_file, saves_in

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
Value: TypeAlias = "Array | list[Array] | dict[str, Array]"
"""What one save of one variable holds: a tensor, or one level of container."""

_MAX_STEM_LENGTH = NAME_LIMIT - len(".json.part")


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a run a value was saved. `micro_step` is None where the caller counts nothing within a step."""

    key: str
    step: int
    rank: int
    micro_step: int | None = None

    def folder(self, root: Path) -> Path:
        """Return the folder of this value and no other."""
        inner = root / DATA / stem_of(self.key) / f"step{self.step}" / f"rank{self.rank}"
        return inner if self.micro_step is None else inner / f"micro_step{self.micro_step}"


def stem_of(key: str) -> str:
    """Return a key as a single, safe component of a path, short enough for a suffix.

    Like `safe_name`; `""`, `.`, `..` and keys of more than 245 bytes are changed too, and end in a digest of the key.
    """
    safe = safe_name(key)
    if safe not in ("", ".", "..") and len(safe.encode()) <= _MAX_STEM_LENGTH:
        return safe
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    cut = safe.encode()[: _MAX_STEM_LENGTH - len(digest) - 1].decode("utf-8", "ignore")
    return f"{cut.strip('.') or '_'}.{digest}"


def write(root: Path, place: Place, value: Value) -> None:
    """Write a value and its JSON; what stood at this place before is replaced, a list's surplus elements too.

    All files are complete under temporary names before the first one takes its own; the JSON comes last, so a JSON that
    is there describes complete files. OSError if writing fails: then what stood there stays.
    """
    from msprobe.store.npy import write_npy  # here: what a path is, is found without numpy

    folder, stem = place.folder(root), stem_of(place.key)
    make_folder(folder)
    if isinstance(value, dict):
        arrays = {safe_name(f"{stem}.{member}.npy"): array for member, array in value.items()}
        text: object = {member: _described(array) for member, array in value.items()}
    elif isinstance(value, (list, tuple)):
        arrays = {safe_name(f"{stem}.{number}.npy"): array for number, array in enumerate(value)}
        text = [_described(array) for array in value]
    else:
        arrays = {f"{stem}.npy": value}
        text = _described(value)
    finals = {folder / f"{number}.part": folder / name for number, name in enumerate(arrays)}
    described = folder / "json.part"
    try:
        for part, array in zip(finals, arrays.values(), strict=True):
            write_npy(str(part), array)
        with replace_atomically(described) as file:
            # NaN and infinities are the bare words that Python's `json` writes and reads.
            file.write(json.dumps({"data": text}, indent=4).encode())
        for old in folder.glob("*.npy"):
            if old.name not in arrays:
                old.unlink()
        for part, final in (finals | {described: folder / f"{stem}.json"}).items():
            os.replace(part, final)
    finally:
        for part in (*finals, described):
            with suppress(OSError):
                part.unlink()


def _described(array: Array) -> dict[str, object]:
    """Return statistics and shape of one tensor.

    Floats, also of integers (rounded beyond 2^53) and of bool, whose elements count as 0 and 1; of complex numbers
    those of their absolute values. An empty tensor has none: null.
    """
    from msprobe.base.statistic import statistic

    s = statistic(array)
    numbers = {name: getattr(s, name) for name in NAMES}
    if array.dtype.kind == "b" and array.size:
        numbers |= {"mean": s.true_count / array.size, "norm": math.sqrt(s.true_count)}
    return {name: None if n is None else float(n) for name, n in numbers.items()} | {"shape": list(array.shape)}


_MICRO_STEP = re.compile(r"micro_step(\d{1,9})")


@dataclass(frozen=True, slots=True)
class ValueFolder:
    """One folder of values of one tag, step and rank; `micro_step` is None outside the folders of micro steps.

    `inside` is its path from `data` on.
    """

    inside: str
    tag: str
    step: int
    rank: int
    micro_step: int | None
    folder: Folder

    @property
    def key(self) -> str:
        """Return the key in the names of the files."""
        return self.tag.rpartition("/")[2]

    @property
    def is_of_graph(self) -> bool:
        """Return whether files are named as graph saves are. SingleSave never leaves values without their JSON."""
        files = self.folder.files
        if layout.SAVES in files or f"{self.key}.json" in files:
            return layout.SAVES in files
        return any(file != f"{self.key}.npy" and name_and_id(file)[1] >= 0 for file in files)


@dataclass(frozen=True, slots=True)
class SingleTree:
    """The content of a folder `data`: the spots, and npy files at unexpected places."""

    data: Path
    spots: tuple[ValueFolder, ...]
    strangers: tuple[Path, ...]


def single_tree(data: Path, *, follow: bool = False) -> SingleTree:
    """Look through a folder `data`, links to folders included with `follow`; DumpError if it cannot be read."""
    spots: list[ValueFolder] = []
    strangers: list[Path] = []
    for folder in walk(data, follow=follow, strict=True):
        spot = _spot(folder, data)
        if spot is not None:
            spots.append(spot)
        else:
            strangers += [folder.path / file for file in folder.files if file.endswith(".npy")]
    return SingleTree(data, tuple(spots), tuple(strangers))


def _spot(folder: Folder, data: Path) -> ValueFolder | None:
    """Return the spot that a folder is by its path, if it is one."""
    inside = parts = folder.path.relative_to(data).parts
    micro_step = _MICRO_STEP.fullmatch(parts[-1]) if parts else None
    if micro_step:
        parts = parts[:-1]
    if len(parts) < 3:
        return None
    step, rank = layout.step_number(parts[-2]), layout.rank_number(parts[-1])
    if step is None or rank is None:
        return None
    number = int(micro_step[1]) if micro_step else None
    return ValueFolder("/".join(inside), "/".join(parts[:-2]), step, rank, number, folder)


def saves_at(spot: ValueFolder, *, by_index: bool = True) -> list[Saved]:
    """Return every save in a spot, in order, their files by their bare names.

    Graph saves are counted by name, in `number`; `by_index` as in `read_saves`. Of others `number` is 0. Nearly all
    have the spot's key for their name; other files have the part before their last dot.
    """
    if spot.is_of_graph:
        return saves_in(spot.folder, key=spot.key, by_index=by_index)
    found = []
    for file in sorted((file for file in spot.folder.files if file.endswith(".npy")), key=by_number):
        name, place = _value_and_place(file.removesuffix(".npy"), spot.key)
        found.append(saved_file(name, 0, file, place, "numpy.ndarray"))
    return found


def _value_and_place(stem: str, key: str) -> tuple[str, tuple[str, ...]]:
    """Return the key of a file's value and the place in it: `key` itself, or `("0",)` for `key.0` and `key0`."""
    rest = stem.removeprefix(key)
    if stem == key:
        return key, ()
    if rest != stem and (rest.isdecimal() or (rest.startswith(".") and rest != ".")):
        return key, (rest.removeprefix("."),)
    name, _, last = stem.rpartition(".")
    return (name, (last,)) if name and last else (stem, ())


def single_dumps(root: Path) -> dict[tuple[int, int], tuple[Path, ...]]:
    """Return the folders of the values of each (step, rank), one for each tag.

    `root` is the folder that holds `data`, or `data` itself; DumpError if it cannot be read.
    """
    data = root if root.absolute().name == DATA else root / DATA
    found: dict[tuple[int, int], list[Path]] = {}
    for folder in walk(data, until=_is_of_rank, strict=True):
        spot = _spot(folder, data)
        if spot is not None:
            found.setdefault((spot.step, spot.rank), []).append(folder.path)
    return {at: tuple(found[at]) for at in sorted(found)}


def _is_of_rank(folder: Path) -> bool:
    return layout.rank_number(folder.name) is not None and layout.step_number(folder.parent.name) is not None


def read_single(folders: Sequence[Path], step: int | None, rank: int | None, *, by_index: bool = True) -> Dump:
    """Return the dump of one step and rank, whose folders `single_dumps` found; DumpError if one cannot be read.

    The k-th call of a tag is its micro step k; where there are none, its k-th save. `by_index` as in `read_saves`.
    """
    data = _data_above(folders)
    spots = [spot for folder in folders for spot in _spots_of(folder, data)]
    saves = [saved for spot in spots for saved in _of_dump(spot, by_index)]
    return dump_of(saves, data, step, rank)


def _data_above(folders: Sequence[Path]) -> Path:
    """Return the lowest folder called `data` that all of the tags lie in."""
    for above in folders[0].parents[2:]:
        if above.absolute().name == layout.DATA and all(above in folder.parents[2:] for folder in folders):
            return above
    return folders[0].parents[2]


def _spots_of(folder: Path, data: Path) -> list[ValueFolder]:
    """Return the spots of one tag, step and rank: its micro steps, then the values outside of them."""
    found = [spot for inner in walk(folder, strict=True) if (spot := _spot(inner, data)) is not None]
    return sorted(found, key=lambda spot: (spot.micro_step is None, spot.micro_step or 0))


def _of_dump(spot: ValueFolder, by_index: bool) -> Iterator[Saved]:
    """Return the saves as they are called in a dump, with paths of files from `data` on."""
    is_of_graph = spot.is_of_graph
    for saved in saves_at(spot, by_index=by_index):
        record = saved.record
        name, number = spot.tag, spot.micro_step or 0
        if is_of_graph:
            name = spot.tag.removesuffix(spot.key) + saved.name
            number = saved.number if spot.micro_step is None else spot.micro_step
        elif saved.name != spot.key:
            record = replace(record, path=(record.file.removesuffix(".npy"),))
        yield Saved(name, number, replace(record, file=f"{spot.inside}/{record.file}" if record.file else ""))
