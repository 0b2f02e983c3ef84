"""One folder for each run: the first run that writes to a folder owns it, every other one gets a folder inside it.

`run.jsonl` in the folder has a line for each process of the run (`format.md`, page 1). Nothing of another run is
ever removed, replaced or mixed with. For a dump that may hold nothing but steps, as msprobe 8.1 requires, the
file is next to the folder: `{folder}.run.jsonl`. Which processes are of one run is decided by the variables of their
launchers and by when they began. A folder is free again when its user has removed what was in it.
"""

import json
import os
import platform
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from msprobe.base import redaction
from msprobe.base.errors import UsageError
from msprobe.base.files import NAME_LIMIT, make_folder, open_text
from msprobe.base.log import logger

from . import layout
from .lock import claim
from .rl_roots import NAME as CONFIGURATIONS

NAMED = "MSPROBE_RUN"
"""The environment variable by which users name the run of a process themselves."""

# What is the same for all processes of a launch, and differs between launches that go on at the same time.
_LAUNCH = (
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT", "WORLD_SIZE"),
    *("MS_SCHED_PORT", "MS_WORKER_NUM", "RANK_SIZE", "PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_RESTART_COUNT"),
)
_RAY = "RAY_JOB_ID"  # its workers begin at any time, and each group of them has another port
_PATIENCE = 5.0  # seconds for another process to write its line
_SKEW = 60.0  # seconds between the clocks of two machines

_lock = threading.RLock()
_taken: "dict[tuple[Path, str, int | None], _Entry]" = {}
_reached: dict[Path, int] = {}
_pid = 0


@dataclass(frozen=True)
class Process:
    """One process, and what it writes: in the folder `place` of a run's folder, as `rank`."""

    run: str
    place: str
    rank: int | None
    host: str
    pid: int
    ticks: int
    """When the process began, by the clock of its machine's boot: two processes of one number differ in it."""
    time: float
    named: str = ""
    launch: str = ""
    machine: str = ""
    """The boot and the space of process numbers in which `pid` means this process; empty where they are unknown."""

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.time))
        return f"process {self.pid} on {self.host}, {when}"


@dataclass(frozen=True)
class RunFolder:
    """A run's folder, and the run's identity, which each of its dumps contains."""

    folder: Path
    run: str


@dataclass
class _Entry:
    """This process's line in a run.jsonl, and the state of the file when the line was last seen in it."""

    own: RunFolder
    line: str
    file: Path
    seen: tuple[int, ...] = ()

    def is_current(self) -> bool:
        """Return whether the line is still there: a user may remove a folder at any time, and another run may take it
        then."""
        try:
            found = os.stat(self.file)
            state = found.st_ino, found.st_size, found.st_mtime_ns
            if state != self.seen:
                if self.line not in _lines(self.file):
                    return False
                self.seen = state
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # a file system that has a bad moment
            pass
        return True


def register_of(folder: Path, is_outside: bool = False) -> Path:
    """Return the file that says which processes write to a folder: the one that is there, or where it is to be made."""
    inside, outside = layout.registers(folder)
    if len(os.fsencode(outside.name)) > NAME_LIMIT or inside.exists():
        return inside
    if is_outside and (not folder.parent.exists() or os.access(folder.parent, os.W_OK)):
        return outside
    return outside if outside.exists() else inside


def run_folder(
    root: Path, rank: int | None, place: str = "", strict: bool = False, is_outside: bool = False
) -> RunFolder:
    """Return the folder of this process's run: `root`, or `run2`, `run3`... in it where others have been there.

    With `is_outside` its `run.jsonl` is made next to the folder instead of inside, where that can be written. With
    `strict`, UsageError if a process of the same launch writes the same place at this time, which is the user's
    mistake. OSError if nothing can be written.
    """
    global _pid
    root = root.absolute()
    with _lock:
        if _pid != os.getpid():  # a forked child is another process
            _pid = os.getpid()
            _taken.clear()
        key = root, place, rank
        entry = _taken.get(key)
        if entry is None or not entry.is_current():
            entry = _taken[key] = _find(
                root, _this_process(place, rank, entry.own.run if entry else ""), strict, is_outside, entry
            )
        return entry.own


def stage_folder(path: Path, root: Path, rank: int | None, is_outside: bool = False) -> RunFolder:
    """Return the folder of this process's run for `path`, which is `root`, a stage inside it, or somewhere else.
    Strict."""
    root = root if path.is_relative_to(root) else path
    inside = path.relative_to(root)
    own = run_folder(root, rank, "" if path == root else inside.as_posix(), True, is_outside)
    return RunFolder(own.folder / inside, own.run)


def leave(path: Path, root: Path) -> None:
    """Begin another run: the following steps of this process in this folder, which may have the same numbers, belong to
    it."""
    root = (root if path.is_relative_to(root) else path).absolute()
    with _lock:
        for key in [key for key in _taken if key[0] == root]:
            del _taken[key]


def newest(root: Path, further: Iterable[str]) -> tuple[Path, list[str]]:
    """Return the folder of the run that began last, of those in `root` and in its folders `further`; those later than
    root's.

    Not by their numbers: a folder that was removed is taken by the next run.
    """
    began = dict.fromkeys(("", *further), 0.0)
    for name in began:
        with suppress(OSError):
            began[name] = min((each.time for each in _processes(register_of(root / name))), default=0.0)
    later = [name for name in began if name and began[name] >= began[""]]
    return root / max(later, key=lambda name: began[name], default=""), later


def _find(root: Path, me: Process, strict: bool, is_outside: bool, before: _Entry | None) -> _Entry:
    first: Process | None = None
    number = _reached.get(root, 1) if register_of(root).exists() else 1
    while True:
        folder = root if number == 1 else root / layout.run_folder(number)
        is_back = before is not None and before.own.folder == folder
        found = _enter(folder, register_of(folder, is_outside), me, strict, is_back)
        if isinstance(found, _Entry):
            break
        first = first or found
        number += 1
    if _reached.get(root) != number and number > 1:
        what = f"contains files of another run ({first})" if first else "contains dumps of another run"
        logger.warning("%s %s; it is not changed, this run is written to %s", root, what, folder)
    _reached[root] = number
    return found


def _enter(folder: Path, file: Path, me: Process, strict: bool, is_back: bool) -> _Entry | Process | None:
    """Add this process's line to the `file` of a folder of its run; if that belongs to another run, return its first
    process if known."""
    if layout.run_number(folder.name) is not None and folder.exists() and not folder.is_dir():
        return None
    # of a version without such files, or of another tool; but what was there when the file was removed may be ours
    # The file comes before any dump, so it is looked for last: another rank of this run may be at work here.
    if not is_back and holds_dumps(folder) and not file.exists():
        return None
    make_folder(folder)
    with _held(file) as number:
        others = _processes(file)
        if others and all(map(_is_dead, others)):
            places = {"", *(other.place for other in others)}
            if not (folder / CONFIGURATIONS).exists() and not any(holds_dumps(folder / place) for place in places):
                os.ftruncate(number, 0)  # what they wrote was removed, or they died before they wrote anything
                others = []
        if others:
            clash = next((other for other in others if (other.place, other.rank) == (me.place, me.rank)), None)
            is_of_launch = clash is not None and bool(me.launch) and me.launch == clash.launch and me.pid != clash.pid
            if clash is not None and strict and me.rank is None and is_of_launch and _began_before(me, clash):
                raise UsageError(
                    f"{folder}: another process of this launch writes here ({clash}). Start the debugger after "
                    "communication is initialized, so that each rank has its own folder, or give each process "
                    "its own dump_path"
                )
            if clash is not None or not _is_of_one_run(others, me):
                return others[0]
        run = others[0].run if others else me.run or secrets.token_hex(6)
        line = json.dumps({**asdict(me), "run": run}, separators=(",", ":"))
        os.write(number, f"{line}\n".encode("ascii"))
        return _Entry(RunFolder(folder, run), line, file)


def _is_of_one_run(others: list[Process], me: Process) -> bool:
    """Return whether a process that writes elsewhere in a folder is of the run that has it."""
    first = others[0]
    if me.named or first.named:
        return me.named == first.named
    if me.launch and first.launch and me.launch != first.launch:
        return False
    above = os.getppid()
    own = ((me.host, me.pid, me.ticks), (me.host, above, _ticks(above)))
    if any((other.host, other.pid, other.ticks) in own for other in others):
        return True
    return _RAY in os.environ or _began_before(me, first)


def _began_before(me: Process, other: Process) -> bool:
    """Return whether this one was there when the other one wrote its line; those of one launch all are, before any
    writes."""
    return other.time >= _began() - (0.0 if other.host == me.host else _SKEW)


def _this_process(place: str, rank: int | None, run: str) -> Process:
    ray = os.environ.get(_RAY)
    held = {name: redaction.variable(name, os.environ[name]) for name in (NAMED, _RAY, *_LAUNCH) if name in os.environ}
    named = held.get(NAMED, "")
    launch = " ".join(f"{name}={held[name]}" for name in (_LAUNCH if ray is None else [_RAY]) if name in held)
    pid = os.getpid()
    return Process(run, place, rank, platform.node(), pid, _ticks(pid), time.time(), named, launch, _machine())


@lru_cache(1)
def _machine() -> str:
    """Return where a process number means one process; empty if that cannot be known."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii", "replace").strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    return ""


def _is_dead(other: Process) -> bool:
    """Return whether a process has certainly ended; of another machine or container no other code can tell."""
    if not other.ticks or not other.machine or other.machine != _machine():
        return False
    try:
        os.kill(other.pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, TypeError, OverflowError):  # of another user, who may be hidden from us; no number
        pass
    return _ticks(other.pid) not in (0, other.ticks)


def _ticks(pid: int) -> int:
    """Return when a process of this machine began; 0 if that is unknown."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


_LOADED = time.time()


def _began() -> float:
    """Return when this process began, in seconds of its clock, or when this module was loaded."""
    ticks = _ticks(os.getpid())
    if not ticks:
        return _LOADED
    return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK"))


@contextmanager
def _held(file: Path) -> Iterator[int]:
    """Return the open file, to ourselves. Who holds it only writes a line: after a while it is taken for dead."""
    until = time.monotonic() + _PATIENCE
    while (number := claim(file, create=True)) is None and time.monotonic() < until:
        time.sleep(0.005)
    if number is None:
        number = os.open(file, os.O_RDWR | os.O_APPEND)
    try:
        yield number
    finally:
        os.close(number)


def _processes(file: Path) -> list[Process]:
    """Return the processes of a file's lines, without what was cut off or is not ours; of later versions what is
    known."""
    found = []
    for line in _lines(file):
        with suppress(ValueError, TypeError, AttributeError, OverflowError, OSError):
            keys = json.loads(line).items()
            each = Process(**{key: value for key, value in keys if key in Process.__dataclass_fields__})
            texts = each.run, each.place, each.host, each.named, each.launch, each.machine
            numbers = each.pid, each.ticks, each.time
            if all(type(text) is str for text in texts) and all(type(number) in (int, float) for number in numbers):
                str(each)  # the time is one
                found.append(each)
    return found


def _lines(file: Path) -> list[str]:
    with open_text(file) as text:
        return text.read().splitlines()


def holds_dumps(folder: Path) -> bool:
    """Return whether dumps, saves or tables of gradients lie in a folder, in its stages, or among its key data."""
    for steps in ("step*", "*/step*", "data/*/step*"):
        for step in folder.glob(steps):
            is_of_another_run = layout.run_number(step.relative_to(folder).parts[0]) is not None
            if layout.step_number(step.name) is None or is_of_another_run:
                continue
            with suppress(OSError):
                if any(layout.rank_number(name) is not None for name in os.listdir(step)):
                    return True
    tables = (path for inner in ("", "*/") for path in folder.glob(f"{inner}rank*/{layout.GRADIENTS}*.csv"))
    return any(layout.run_number(path.relative_to(folder).parts[0]) is None for path in tables)
