"""Read trees of graph saves, and of any npy files: tensors that were saved by name become calls of a dump.

The calls are named `{name}.{k}.debug`, like those of a debug.json, with k counting the saves of the name within a step
and rank; what was saved as a list or dict is one call, with a record for each element.

Graph saves are `{save_dir}/step{n}/rank{r}/{name}_{dtype}_{id}.npy`, and an index where there is one (`format.md`,
page 8). The id counts all saves of a process, and another run, or the framework on a device, counts otherwise; so saves
are matched by name and order.

In any other tree, each folder that contains npy files is a separate dump. `{name}_{dtype}_{count}.npy` is the count-th
value of `name`; any other file is the only value of its whole stem.
"""

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msprobe.base.errors import DumpError
from msprobe.base.files import MAX_TABLE_BYTES, read_input
from msprobe.base.log import logger
from msprobe.store import layout
from msprobe.store.flatten import ColumnsBuilder
from msprobe.store.folders import Folder, by_number, is_file, look, printable, walk
from msprobe.store.kernel_dump.values import spelled
from msprobe.store.reader import may_have_halves, tensor_file, with_whole_characters
from msprobe.store.record import Call, Calls, Dump, Record


@dataclass(frozen=True, slots=True)
class Saved:
    """One saved tensor: its name, the number of the save of this name, and its record, which has no name yet.

    dtype and shape of a record may be left for `calls_of` to read from the file.
    """

    name: str
    number: int
    record: Record


def saved_file(name: str, number: int, file: str, place: tuple[str, ...] = (), kind: str = "mindspore.Tensor") -> Saved:
    """Return a saved tensor by its file's name, before it is opened; `file` is its path in the folder of the dump."""
    return Saved(name, number, Record("", "debug", place, "tensor", kind, file=file))


def calls_of(saves: Iterable[Saved], folder: Path) -> Calls:
    """Return the calls, in the order of their first record; `folder` is what the paths of the files begin at.

    Two tensors at one place of one call do not replace each other: the later one counts as the next save of its name.
    """
    made: dict[str, dict[tuple[str, ...], Record]] = {}
    last: dict[tuple[str, tuple[str, ...]], int] = {}
    for saved in saves:
        name = printable(saved.name) or "_"
        path = tuple(map(printable, saved.record.path))
        number = saved.number
        if path in made.get(f"{name}.{number}.debug", ()):
            number = last[name, path] + 1
        last[name, path] = max(number, last.get((name, path), 0))
        call = f"{name}.{number}.debug"
        record = _with_header(saved.record, folder)
        made.setdefault(call, {})[path] = replace(record, name=".".join((call, *path)), path=path)
    return Calls.of(Call(call, tuple(records.values())) for call, records in made.items())


def _with_header(record: Record, folder: Path) -> Record:
    """Return the record with dtype and shape of its file's header, where it has neither.

    One whose file cannot be read stays as it is: the comparison opens it again, and says what is wrong.
    """
    if record.dtype or record.shape is not None or not record.file:
        return record
    from msprobe.store.npy import examine  # here: what a path is, is found without numpy

    try:
        header = examine(tensor_file(folder, record.file, ""))
    except DumpError:
        return record
    dtype = header.dtype.name
    return replace(record, dtype=spelled(dtype) if record.type == "mindspore.Tensor" else dtype, shape=header.shape)


_DTYPE = r"(?:bool|(?:bfloat|bf|float|fp|hifloat|f|uint|u|int|i|complex|c)\d{1,3}(?:_e\dm\d[a-z\d]*)?)"
_FILE = re.compile(rf"(?P<name>.+)_{_DTYPE}_(?P<id>\d{{1,18}})\.npy", re.DOTALL)
_GRAD = "_grad"
_MAX_NUMBER = 10**9  # saves of one name in a step; a larger number is damage


def name_and_id(file: str) -> tuple[str, int]:
    """Return `x` and 7 for `x_float32_7.npy`; the whole stem and -1 for any other file."""
    found = _FILE.fullmatch(file)
    return (found["name"], int(found["id"])) if found else (file.removesuffix(".npy"), -1)


def saved_dumps(root: Path) -> dict[tuple[int, int], Path]:
    """Return the folder of the files of each (step, rank), in numeric order.

    `root` is the `save_dir`, a step's folder in it, or a rank's; DumpError if it cannot be read.
    """
    rank = layout.rank_number(root.absolute().name)
    step = layout.step_number(root.absolute().name)
    if rank is not None:
        return {(layout.step_number(root.absolute().parent.name) or 0, rank): root}
    steps = {root: step} if step is not None else {root / name: layout.step_number(name) for name in look(root).folders}
    found: dict[tuple[int, int], Path] = {}
    for folder, number in steps.items():
        for name in look(folder).folders if number is not None else ():
            rank = layout.rank_number(name)
            if number is None or rank is None:
                continue
            if (number, rank) in found:
                logger.warning("%s: has the same rank as %s and is skipped", folder / name, found[number, rank])
            found.setdefault((number, rank), folder / name)
    return dict(sorted(found.items()))


def is_indexed(folder: Path | Folder) -> bool:
    """Return whether there is an index of the files of this folder, which counts the saves of each name itself."""
    if isinstance(folder, Path):
        return is_file(folder / layout.SAVES)
    return layout.SAVES in folder.files and is_indexed(folder.path)


def read_saves(folder: Path, step: int | None = None, rank: int | None = None, *, by_index: bool = True) -> Dump:
    """Return the dump of one step and rank; DumpError if the folder cannot be read.

    Names count by the index where there is one: a gradient then has the number of its `save_grad` call. Two folders of
    which only one has an index are both to be read with `by_index=False`, which counts by the order of the files' ids.
    """
    return dump_of(saves_in(look(folder), by_index=by_index), folder, step, rank, "mindspore")


def dump_of(saves: Sequence[Saved], folder: Path, step: int | None, rank: int | None, framework: str = "") -> Dump:
    """Return the dump of saves whose files are named from `folder` on."""
    return Dump(
        where=str(folder),
        folder=str(folder),
        task="tensor" if any(saved.record.file for saved in saves) else "statistics",
        level="debug",
        framework=framework,
        calls=calls_of(saves, folder),
        step=step,
        rank=rank,
        tensors="",
    )


def saves_in(folder: Folder, *, key: str = "", by_index: bool = True) -> list[Saved]:
    """Return every save in a folder, in order, their files by their bare names.

    `key` is the name that all of them were saved by, where that is known: dots in it say no positions.
    """
    found: list[Saved] = []
    if by_index and is_indexed(folder):
        found = _index(folder.path / layout.SAVES, key)
    indexed = {saved.record.file for saved in found}
    files = [file for file in folder.files if file.endswith(".npy") and file not in indexed]
    counters: dict[str, _Counter] = {}
    for file in sorted(files, key=lambda file: (name_and_id(file)[1] < 0, name_and_id(file)[1], file)):
        name, place = _name_and_place(name_and_id(file)[0], key)
        found.append(saved_file(name, counters.setdefault(name, _Counter()).number(place), file, place))
    return found


def _name_and_place(name: str, key: str) -> tuple[str, tuple[str, ...]]:
    """Return the name that was saved and the place in its value: `responses` and `("0",)` of `responses.0`.

    Where the key is not known, a dot in it may also be one before a position; pairs are the same either way.
    """
    whole = name.removesuffix(_GRAD)
    if key and not _belongs_to(key, whole) and _belongs_to(key, name):
        whole = name
    first = key if key and _belongs_to(key, whole) else whole.partition(".")[0]
    place = whole[len(first) :].split(".")[1:]
    return (first + name[len(whole) :], tuple(place)) if first and all(place) else (name, ())


def _belongs_to(key: str, name: str) -> bool:
    return f"{name}.".startswith(f"{key}.")


class _Counter:
    """Counts the saves of one name: the elements of one list or dict are one save, as long as their places rise."""

    def __init__(self) -> None:
        self._number = -1
        self._last: tuple[str, ...] = ()
        self._seen: set[tuple[str, ...]] = set()

    def number(self, place: tuple[str, ...]) -> int:
        """Return the number of the save that an element at this place belongs to."""
        if self._number < 0 or place in self._seen or _is_before(place, self._last):
            self._number += 1
            self._seen.clear()
        self._seen.add(place)
        self._last = place
        return self._number


def _is_before(place: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether a list holds one place before the other; keys of dicts have no order."""
    for a, b in zip(place, other, strict=False):
        if a != b:
            return a.isdecimal() and b.isdecimal() and int(a[:18]) < int(b[:18])
    return False


def _index(path: Path, key: str) -> list[Saved]:
    """Return the saves that the index names, in the order of their ids; lines that say none are left out and
    counted."""
    try:
        lines = read_input(path, MAX_TABLE_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, MemoryError) as err:
        logger.warning("%s: cannot be read (%s); the file names are used instead", path, err)
        return []
    nodes = [node for line in lines if (node := _saved_node(line))]
    if len(nodes) < len(lines):
        lost = len(lines) - len(nodes)
        logger.warning("%s: %d lines are incomplete and are skipped; the file may be truncated", path, lost)
    nodes.sort(key=lambda node: node["id"])
    builder = ColumnsBuilder()  # a line is a record as in a dump.json, and read by the same rules
    for node in nodes:
        builder.add("x.0.debug", node)
    columns = builder.columns()
    found = []
    for at, node in enumerate(nodes):
        name, place = _name_and_place(node["name"], key)
        found.append(Saved(name, node["count"], replace(columns.record(at, at), path=place)))
    return found


def _saved_node(line: str) -> dict[str, Any]:
    """Return the object in a line of the index; an empty one where the line says no save."""
    wanted = {"name": str, "count": int, "id": int, "type": str}
    try:
        made = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(made, dict) or any(type(made.get(key)) is not kind for key, kind in wanted.items()):
        return {}
    if may_have_halves(line):
        made = with_whole_characters(made)
    return made if 0 <= made["count"] <= _MAX_NUMBER else {}


def npy_dumps(root: Path) -> dict[str, Path]:
    """Return every folder in `root` that has npy files, by relative path; `root` itself is `""`."""
    found = {}
    for folder in walk(root):
        if any(name.endswith(".npy") for name in folder.files):
            relative = str(folder.path.relative_to(root))
            found["" if relative == "." else relative] = folder.path
    return dict(sorted(found.items(), key=lambda item: by_number(item[0])))


def names_of(dump: Dump) -> set[str]:
    """Return the names whose values `read_npys` found, for its `kept`."""
    return {call.name.rsplit(".", 2)[0] for call in dump.calls}


def read_npys(folder: Path, rename: Mapping[str, str] | None = None, kept: Container[str] = ()) -> Dump:
    """Return the dump of the npy files that lie in a folder itself; DumpError if it cannot be read.

    `rename` says how names of this folder are called in the other one; a name that is in `kept`, because the other
    folder has it too, or whose new name is taken here already, stays.
    """
    files = [file for file in look(folder).files if file.endswith(".npy")]
    own_names = {name_and_id(file)[0] for file in files}
    numbers: Counter[str] = Counter()
    saves = []
    for file in sorted(files, key=lambda file: (name_and_id(file)[1], by_number(file))):
        name = name_and_id(file)[0]
        new = (rename or {}).get(name, name)
        if name not in kept and new not in own_names:
            name = new
        saves.append(saved_file(name, numbers[name], file, kind="numpy.ndarray"))
        numbers[name] += 1
    absolute = folder.absolute()
    return dump_of(saves, folder, layout.step_number(absolute.parent.name), layout.rank_number(absolute.name))
