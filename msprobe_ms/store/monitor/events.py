"""TensorBoard's event files (extra `monitor`): every statistic of every row as a scalar.

tensorboardX gives messages and checksums. Its writer is not used, since it cleans tags, warns of NaN, and waits for the
disk at every flush: a step is one record, which goes to the system in one `write`, so that it survives a kill.
"""

import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from msprobe.base.errors import UsageError
from msprobe.base.files import FILE_MODE, NO_FOLLOW, make_folder

from .layout import TEXTS, statistics_of, tag
from .writer import Row

_LIBRARY = "tensorboardX"
_FILE_NUMBER = count()  # of this process; two files of one folder may be begun in the same second


class Scalar(NamedTuple):
    """One number of one series."""

    tag: str
    step: int
    value: float


class EventFile:
    """One event file; OSError where it cannot be written, UsageError where tensorboardX is missing."""

    def __init__(self, folder: Path):
        self._event = _event_class()
        make_folder(folder)
        now = time.time()
        name = f"events.out.tfevents.{int(now):010}.{socket.gethostname()}.{os.getpid()}.{next(_FILE_NUMBER)}"
        flags = os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | NO_FOLLOW
        self.path = folder / name
        self._number = os.open(self.path, os.O_WRONLY | flags, FILE_MODE)
        os.fchmod(self._number, FILE_MODE)
        self._append([self._event(wall_time=now, file_version="brain.Event:2")])

    def add(self, scalars: Iterable[Scalar]) -> None:
        """Append scalars, those of one step in a record, with the present time."""
        now = time.time()
        events: dict[int, Any] = {}
        for tag_name, step, value in scalars:
            if step not in events:
                events[step] = self._event(wall_time=now, step=step)
            events[step].summary.value.add(tag=tag_name.encode("utf-8", "replace").decode(), simple_value=value)
        self._append(list(events.values()))

    def _append(self, events: Sequence[Any]) -> None:
        if self._number < 0:
            raise ValueError(f"{self.path}: is closed")
        left = memoryview(b"".join([_record(event.SerializeToString()) for event in events]))
        while left:
            left = left[os.write(self._number, left) :]

    def close(self) -> None:
        """Close the file; it takes nothing more."""
        if self._number >= 0:
            os.close(self._number)
            self._number = -1


class EventWriter:
    """What `RowWriter` writes as tables, as event files: tag `{vpp}:{name}[:{micro}]/rank{R}/{kind}_{statistic}`."""

    def __init__(self, folder: Path, operations: Sequence[str], rank: int):
        self.folder = folder
        self._operations = tuple(operation for operation in operations if operation not in TEXTS)
        self._rank = rank
        self._file: EventFile | None = None
        _event_class()  # a missing library is reported before the first step

    def write(self, step: int, rows: Mapping[str, Sequence[Row]]) -> None:
        """Append the rows of a step, by kind; a missing value is left out."""
        scalars = []
        for kind, of_kind in rows.items():
            statistics = statistics_of(kind, self._operations)
            for row in of_kind:
                series = tag(row.vpp_stage, row.name, self._rank, kind, row.micro_step)
                scalars += [
                    Scalar(f"{series}_{statistic}", step, float(value))
                    for statistic, value in zip(statistics, row.values, strict=True)
                    if value is not None
                ]
        if scalars:
            self._file = self._file or EventFile(self.folder)
            self._file.add(scalars)

    def close(self) -> None:
        """Close the file; the next step begins another one."""
        if self._file is not None:
            self._file.close()
            self._file = None


@cache
def _event_class() -> Any:
    try:
        return _library("proto.event_pb2").Event
    except ImportError as err:
        raise UsageError(
            "event files of TensorBoard require tensorboardX, which is not installed; run `pip install "
            '"msprobe-ms[monitor]"`, or use format csv'
        ) from err


def _library(module: str) -> Any:
    """Return a module of tensorboardX without the rest of it: that imports torch wherever torch is installed, and a
    training with another framework must not get torch from us."""
    if _LIBRARY in sys.modules:
        return import_module(f"{_LIBRARY}.{module}")
    spec = find_spec(_LIBRARY)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"there is no package {_LIBRARY}")
    bare = ModuleType(_LIBRARY)
    bare.__path__ = list(spec.submodule_search_locations)
    sys.modules[_LIBRARY] = bare
    try:
        return import_module(f"{_LIBRARY}.{module}")
    finally:
        if sys.modules.get(_LIBRARY) is bare:
            del sys.modules[_LIBRARY]


@cache
def _checksum() -> Callable[[bytes], int]:
    found: Callable[[bytes], int] = _library("record_writer").masked_crc32c
    return found


def _record(message: bytes) -> bytes:
    """Return a message as a record of an event file: length, its checksum, message, its checksum."""
    checksum = _checksum()
    length = struct.pack("<Q", len(message))
    return length + struct.pack("<I", checksum(length)) + message + struct.pack("<I", checksum(message))
