"""The last tensors of a training, copied into one piece of memory that is used again and again.

A copy, because the training may change a tensor in place, or free it, before it is known whether it is to be written.
The memory is taken from the system page by page as it is first used, never more than the limit.
"""

from collections import deque
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_LINE = 64  # bytes: each tensor begins at a line of the cache, which suits every dtype


class Slot:
    """One tensor in a ring; `array` is None once its place was needed for a later one, or where it never had one."""

    __slots__ = ("array", "end", "start")

    def __init__(self, array: Array | None, start: int = 0, end: int = 0) -> None:
        self.array, self.start, self.end = array, start, end


class Ring:
    """Copies of the last tensors, at most `limit` bytes; the newest replaces the oldest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._memory: Array | None = None
        self._head = 0
        self._slots: deque[Slot] = deque()

    def hold(self, array: Array) -> Slot:
        """Return a copy of a tensor; without an array where it is larger than the whole ring, or its dtype holds
        objects."""
        size = max(-(-array.nbytes // _LINE), 1) * _LINE
        if size > self._limit or array.dtype.hasobject:
            return Slot(None)
        if self._memory is None:
            self._memory = np.empty(self._limit + _LINE, np.uint8)
            self._memory = self._memory[-self._memory.ctypes.data % _LINE :][: self._limit]
        start = self._place(size)
        copy = self._memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(copy, array)
        slot = Slot(copy, start, start + size)
        self._slots.append(slot)
        return slot

    def _place(self, size: int) -> int:
        """Return the place for the next `size` bytes, whose content is lost. The oldest slot follows the head."""
        start = self._head
        if start + size > self._limit:
            while self._slots and self._slots[0].start >= start:
                self._drop()
            start = 0
        while self._slots and self._slots[0].start < start + size and self._slots[0].end > start:
            self._drop()
        self._head = start + size
        return start

    def _drop(self) -> None:
        self._slots.popleft().array = None
