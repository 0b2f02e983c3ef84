"""The last calls of a training, with copies of their tensors, until it is known whether they are written."""

import json
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii as quote
from typing import Any

from msprobe.base.files import safe_name
from msprobe.base.names import counterpart
from msprobe.base.statistic import Array
from msprobe.store.stacks_and_construct import user_line
from msprobe.store.writer import StepFolder

from .findings import Caught
from .front import Front, Opened
from .ring import Ring, Slot

_NOTES = 64
"""Lines about what could not be collected that are kept for calls that may be written."""

_OVERWRITTEN = 'it was removed from memory to make room for later calls; increase "memory"'


@dataclass(slots=True)
class Kept:
    """One call that may be written; `files` are its tensors by the names of their files."""

    name: str
    parent: str | None
    stack: int | None
    entry: str
    members: dict[str, Any]
    files: dict[str, Slot] = field(default_factory=dict)


class LastCalls(Front):
    """Keeps the last calls of a step, and passes to the writer what its subclass asks for.

    The tensors of all steps are in one ring; those of calls that have begun and not ended are in it, too.
    """

    def __init__(self, step: StepFolder, ring: Ring, calls: int) -> None:
        super().__init__(step)
        self._ring = ring
        self._opened = Opened(step)
        self._lock = threading.RLock()
        self._last: deque[Kept] = deque(maxlen=calls)
        self._files: dict[str, Slot] = {}
        self._stacks: dict[str, int] = {}
        self._notes: deque[tuple[str, str, str]] = deque(maxlen=_NOTES)
        self._findings: list[Caught] = []
        self._is_seen = False

    @abstractmethod
    def _consider(self, kept: Kept) -> None:
        """Write a complete call, or keep it among the last ones."""

    @property
    @abstractmethod
    def _is_over(self) -> bool:
        """Return whether nothing more is to be written in this run."""

    # ---- what the writer would receive -----------------------------------------------------------------------------

    def stack(self, frames: Sequence[str]) -> int:
        with self._lock:
            return self._opened.number(frames)

    def tensor(self, data_name: str, array: Array) -> str:
        with self._lock:
            name = safe_name(data_name)
            self._files[name] = self._ring.hold(array)
            return name

    def missing(self, name: str, part: str, cause: str) -> None:
        with self._lock:
            self._notes.append((name, part, cause))

    def call(self, name: str, parent: str | None, stack: int | None, entry: str | None) -> None:
        with self._lock:
            if not self._is_seen:
                self._is_seen = True
                self._see()
            if stack is not None:
                self._stacks[name] = stack
            if entry is None or self._is_over:
                return
            kept = Kept(name, parent, stack, entry, json.loads(entry))
            for file in _files_of(kept.members):
                if slot := self._files.pop(file, None):
                    kept.files[file] = slot
            self._consider(kept)

    def assemble(self) -> None:
        if self._opened.is_open:
            self._opened.writer.assemble()

    def close(self) -> None:
        self._last.clear()
        self._files.clear()
        if self._opened.is_open:
            for note in [note for note in self._notes if note[0] == "step"]:
                self._opened.writer.missing(*note)
                self._notes.remove(note)
            self._opened.writer.close()

    # ---- what is written -------------------------------------------------------------------------------------------

    def _write(self, kept: Sequence[Kept]) -> None:
        for one in kept:
            self._write_one(one)

    def _write_one(self, kept: Kept) -> None:
        writer, entry = self._opened.writer, kept.entry
        for file in _files_of(kept.members):
            slot = kept.files.get(file)
            array = None if slot is None else slot.array
            if array is not None and writer.tensor(file, array):
                continue
            entry = entry.replace(f',"data_name":{quote(file)}', "")
            if array is None:
                writer.missing(kept.name, file.removeprefix(f"{kept.name}.").removesuffix(self.suffix), _OVERWRITTEN)
        for name, part, cause in self._notes:
            if name == kept.name:
                writer.missing(name, part, cause)
        writer.call(kept.name, kept.parent, self._opened.stack(kept.stack), entry)

    def _line(self, name: str) -> tuple[str, int | None]:
        """Return the user's line of a call; of a backward call that of its forward."""
        number = self._stacks.get(name, self._stacks.get(counterpart(name, "forward"), -1))
        line = user_line(self._opened.frames(number)) if number >= 0 else None
        return (line.file, line.number) if line else ("", None)


def _files_of(node: Any) -> list[str]:
    """Return the names of files in an entry, in order."""
    if isinstance(node, list):
        return [name for inner in node for name in _files_of(inner)]
    if not isinstance(node, dict):
        return []
    name = node.get("data_name")
    if isinstance(name, str) and isinstance(node.get("type"), str):
        return [name]
    return [name for inner in node.values() for name in _files_of(inner)]
