"""Any tree of npy files, read: each folder that holds some is a dump of its own, its files paired by name and count.

`{name}_{dtype}_{count}.npy` is the count-th value of `name`; any other file is the only value of its whole stem.
"""

from collections import Counter
from collections.abc import Container, Mapping
from pathlib import Path

from . import layout
from .folders import by_number, look, walk
from .record import Dump
from .saved import calls_of, saved_file
from .saved_trees import name_and_id


def npy_dumps(root: Path) -> dict[str, Path]:
    """Relative path -> folder, of every folder from `root` down that holds npy files; `root` itself is `""`."""
    found = {}
    for folder in walk(root):
        if any(name.endswith(".npy") for name in folder.files):
            relative = str(folder.path.relative_to(root))
            found["" if relative == "." else relative] = folder.path
    return dict(sorted(found.items(), key=lambda item: by_number(item[0])))


def names_of(dump: Dump) -> set[str]:
    """The names whose values `read_npys` found, for its `kept`."""
    return {call.name.rsplit(".", 2)[0] for call in dump.calls}


def read_npys(folder: Path, rename: Mapping[str, str] | None = None, kept: Container[str] = ()) -> Dump:
    """The dump of the npy files that lie in a folder itself; DumpError where it cannot be read.

    `rename` says how names of this folder are called in the other one; a name that is in `kept`, because the other
    folder has it too, or whose new name is taken here already, stays.
    """
    files = [file for file in look(folder).files if file.endswith(".npy")]
    here = {name_and_id(file)[0] for file in files}
    numbers: Counter[str] = Counter()
    saves = []
    for file in sorted(files, key=lambda file: (name_and_id(file)[1], by_number(file))):
        name = name_and_id(file)[0]
        new = (rename or {}).get(name, name)
        if name not in kept and new not in here:
            name = new
        saves.append(saved_file(name, numbers[name], file, kind="numpy.ndarray"))
        numbers[name] += 1
    absolute = folder.absolute()
    return Dump(
        where=str(folder),
        folder=str(folder),
        task="tensor",
        level="debug",
        framework="",
        calls=calls_of(saves, folder),
        step=layout.step_number(absolute.parent.name),
        rank=layout.rank_number(absolute.name),
        tensors="",
    )
