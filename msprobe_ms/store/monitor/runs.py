"""Which folders under a path are one run of a monitor, by rank."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msprobe.base.errors import DumpError, reason
from msprobe.base.log import join_names

from .layout import (
    FILE,
    FOLDER,
    GRADIENT_FILE,
    GRADIENT_FOLDER,
    KINDS,
    SCOPED_FILE,
    SCOPED_FOLDER,
    folders_between,
    parse_time,
)
from .lines import Cause, Notes, Source, first_step

_DAYS = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)  # before each month, of a leap year
_YEAR = 366 * 86400


@dataclass(frozen=True)
class Form:
    """A form of output: how its folders and files are called."""

    name: str
    folder: re.Pattern[str]
    rank_group: int
    file: re.Pattern[str]


FORMS = (
    Form("v1", FOLDER, 2, FILE),
    Form("v2", SCOPED_FOLDER, 1, SCOPED_FILE),
    Form("grad_probe", GRADIENT_FOLDER, 1, GRADIENT_FILE),
)

_MONITORS = {kind.monitor for kind in KINDS.values()}


@dataclass(frozen=True)
class Folder:
    """A folder with files of one process: its files by kind (form v1) or monitor, in the order of their steps."""

    path: Path
    rank: int
    files: dict[str, tuple[Source, ...]]
    time: int = 0

    def first_step(self) -> int | None:
        """Return the first step that any of its files has."""
        steps = [step for files in self.files.values() if (step := first_step(files[0])) is not None]
        return min(steps, default=None)


def find_runs(
    path: Path, notes: Notes, start: str | None = None, end: str | None = None
) -> tuple[Form, dict[int, tuple[Folder, ...]]]:
    """Return the form of what is under a path, and for each rank the folders of its newest run, the oldest first.

    With a `start` or an `end`, only the folders of TrainerMon whose time is between them, both included. DumpError
    if there is nothing that a monitor wrote, ValueError for a time that cannot be read.
    """
    chosen = None if start is None and end is None else {folder for _, folder in folders_between(path, start, end)}
    try:
        if not path.is_dir():
            what = "is not a folder" if path.exists() else "no such folder"
            raise DumpError(f"{path}: {what}; give the output folder of a monitor")
        for form in FORMS:
            own = _folder(path, form, notes) if chosen is None else None
            if own is not None:
                return form, {own.rank: (own,)}
        inner = sorted(entry for entry in path.iterdir() if entry.is_dir() and (chosen is None or entry in chosen))
    except (OSError, ValueError) as err:  # ValueError: a path that no file can have
        raise DumpError(f"{path}: cannot be opened ({reason(err)}); check the path and its permissions") from err
    found = {form.name: _folders(inner, form, notes) for form in FORMS}
    first = next((form for form in FORMS if found[form.name]), None)
    if first is None:
        if event := next((each for each in (path, *inner) if _has_events(each)), None):
            raise DumpError(
                f"{event}: contains event files of TensorBoard, which cannot be compared; use the monitor with "
                "format csv"
            )
        there = f"; it contains the folders {join_names([entry.name for entry in inner])}" if inner else ""
        raise DumpError(
            f"{path}: contains no output of a monitor{there}; give the folder with one folder per process, such "
            "as monitor_output"
        )
    for other in FORMS:
        if other is not first:
            for folder in found[other.name]:
                notes.add(Cause.OTHER_FORM, folder.path)
    of_form = found[first.name]
    return first, _newest_runs(of_form, notes) if first.name == "v1" else _by_rank(of_form)


def _has_events(path: Path) -> bool:
    try:
        return any("tfevents" in entry.name for entry in path.iterdir())
    except OSError:
        return False


def _folders(inner: Sequence[Path], form: Form, notes: Notes) -> list[Folder]:
    found: list[Folder] = []
    empty = []
    for path in inner:
        if form.folder.match(path.name) is None:
            continue
        try:
            folder = _folder(path, form, notes)
        except OSError as err:
            notes.add(Cause.UNREADABLE, f"{path} ({err.strerror or reason(err)})")
            continue
        if folder is not None:
            found.append(folder)
        else:
            empty.append(path)
    if found or form.name == "v1":  # folders of the other forms are called as others are, too
        for path in empty:
            notes.add(Cause.EMPTY, path)
    return found


def _folder(path: Path, form: Form, notes: Notes) -> Folder | None:
    """Return a folder with its files of a form; None if it has none."""
    named: dict[str, list[tuple[tuple[int, int, str], Source]]] = {}
    unknown = []
    known = KINDS if form.name == "v1" else _MONITORS
    for entry in path.iterdir():
        found = form.file.match(entry.name)
        if found is None:
            continue
        if form.name == "grad_probe":
            step = int(found[1])
            named.setdefault("grad_reduced", []).append(((step, 0, entry.name), Source(entry, step)))
        elif found[1] in known:
            beside = entry.name.count(".") - 1
            key = (int(found[2]), int(entry.name.split(".")[1]) if beside else 0, entry.name)
            named.setdefault(found[1], []).append((key, Source(entry)))
        else:
            unknown.append(entry)
    if not named:
        return None
    for entry in unknown:
        notes.add(Cause.UNKNOWN_KIND, entry)
    files = {series: tuple(source for _, source in sorted(of_one, key=_key)) for series, of_one in named.items()}
    name = form.folder.match(path.name)
    return Folder(path, int(name[form.rank_group]) if name else 0, files)


def _key(named: tuple[tuple[int, int, str], Source]) -> tuple[int, int, str]:
    return named[0]


def _by_rank(folders: Sequence[Folder]) -> dict[int, tuple[Folder, ...]]:
    ranks: dict[int, tuple[Folder, ...]] = {}
    for folder in folders:
        ranks[folder.rank] = (*ranks.get(folder.rank, ()), folder)
    return dict(sorted(ranks.items()))


def _newest_runs(folders: Sequence[Folder], notes: Notes) -> dict[int, tuple[Folder, ...]]:
    """Return the folders of the newest run of each rank.

    A folder that begins at the first step of those before it, or earlier, begins another run; one that begins later
    goes on. A rank that the newest run does not have is left out: its folders are nearer in time to those of the run
    before.
    """
    kept: dict[int, tuple[Folder, ...]] = {}
    older: list[Folder] = []
    borders = []
    for rank, of_rank in _by_rank(_in_time(folders)).items():
        run: list[Folder] = []
        first: int | None = None
        for folder in of_rank:
            begins = folder.first_step()
            if run and begins is not None and (first is None or begins <= first):
                borders.append((run[-1].time + folder.time) / 2)
                older += run
                run = []
            run.append(folder)
            first = begins if len(run) == 1 else first
        kept[rank] = tuple(run)
    border = max(borders, default=None)
    for rank, run_of_rank in list(kept.items()):
        if border is not None and run_of_rank[-1].time < border:
            older += kept.pop(rank)
    for folder in older:
        notes.add(Cause.OTHER_RUN, folder.path)
    return kept


def _in_time(folders: Sequence[Folder]) -> list[Folder]:
    """Return folders in the order of the times in their names, which have no year: the longest gap is before the
    first."""
    timed = sorted((replace(folder, time=_seconds(folder.path)) for folder in folders), key=_order)
    if len(timed) < 2:
        return timed
    gaps = [(timed[at].time - timed[at - 1].time) + (0 if at else _YEAR) for at in range(len(timed))]
    start = gaps.index(max(gaps))
    return [*timed[start:], *(replace(folder, time=folder.time + _YEAR) for folder in timed[:start])]


def _order(folder: Folder) -> tuple[int, float, str]:
    try:
        changed = folder.path.stat().st_mtime
    except OSError:
        changed = 0.0
    return folder.time, changed, folder.path.name


def _seconds(path: Path) -> int:
    """Return the seconds since the beginning of the year in a folder's name; 0 if it has no time."""
    name = FOLDER.match(path.name)
    when = parse_time(name[1]) if name else None
    if when is None:
        return 0
    month, day, hour, minute, second = when
    return ((_DAYS[month - 1] + day - 1) * 24 + hour) * 3600 + minute * 60 + second
