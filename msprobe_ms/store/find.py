"""Which file a path means: a dump's own file, the folder of its rank, or a step's folder with one rank in it."""

from collections.abc import Iterable
from pathlib import Path

from msprobe.base.errors import DumpError

from . import layout

# So many names stand in a message; the folder holds the others.
_NAMED = 8


def find(path: Path) -> Path:
    """The `dump.json` or `debug.json` that `path` means; DumpError, with what is there instead, where it means none."""
    try:
        if path.is_file():
            file = path
        elif path.is_dir():
            file = _in_folder(path)
        else:
            raise DumpError(f"{path}: there is no such file or folder; give a dump.json or the folder that holds it")
    except (OSError, ValueError) as err:  # ValueError: a path that no file can have
        raise DumpError(f"{path}: cannot be opened ({err}); check the path and its permissions") from err
    if file.name == layout.JOURNAL:
        raise DumpError(_unfinished(file.parent))
    return file


def _in_folder(folder: Path) -> Path:
    for name in (layout.DUMP, layout.DEBUG):
        if (folder / name).is_file():
            return folder / name
    if (folder / layout.JOURNAL).is_file():
        raise DumpError(_unfinished(folder))
    inner = [entry.name for entry in folder.iterdir() if entry.is_dir()]
    ranks = sorted((name for name in inner if layout.rank_number(name) is not None), key=_by_number)
    if len(ranks) == 1:
        return _in_folder(folder / ranks[0])
    if ranks:
        raise DumpError(f"{folder}: holds {len(ranks)} ranks; give one of {_few(ranks)}")
    steps = sorted((name for name in inner if layout.step_number(name) is not None), key=_by_number)
    if steps:
        raise DumpError(f"{folder}: holds steps; give one of {_few(steps)}")
    beside = f"; there are the folders {_few(sorted(inner))}" if inner else ""
    raise DumpError(f"{folder}: holds no {layout.DUMP}{beside}; give the folder of a step or of a rank")


def _unfinished(folder: Path) -> str:
    return f"{folder}: holds only the journal of an unfinished dump; run `msprobe doctor {folder}` to make it readable"


def _by_number(name: str) -> tuple[int, str]:
    return (layout.rank_number(name) or layout.step_number(name) or 0, name)


def _few(names: Iterable[str]) -> str:
    names = list(names)
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
