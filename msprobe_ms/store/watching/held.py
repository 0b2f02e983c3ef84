"""A value of a running call that is held, undescribed, until it is known whether the call is written."""

import re
import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from msprobe.base.finite import is_finite
from msprobe.base.statistic import Array
from msprobe.store.describe import beginning, statistics
from msprobe.store.writer import Source, StepFolder

from .front import Front

_HOLE = re.compile(r'\{"held":([0-9]+)\b')


def hole(number: int) -> str:
    """Return the placeholder in an entry for the record of a held value; members may be appended as to any record."""
    return f'{{"held":{number}}}'


def filled(entry: str, records: Sequence[str]) -> str:
    """Return the entry with its holes replaced by records, which are JSON objects."""
    return _HOLE.sub(lambda found: records[int(found[1])][:-1], entry)


class Held:
    """One value: a tensor, or with its dtype's name an array.

    `was_finite` is what a look at the call's beginning showed; None where the value was not looked at then, for nothing
    in the call can change it.
    """

    __slots__ = ("dtype", "kind", "part", "source", "value", "version", "was_finite")

    def __init__(
        self, source: Source, value: Any, part: str, kind: str = "", dtype: str = "", was_finite: bool | None = None
    ) -> None:
        self.source, self.value, self.part = source, value, part
        self.kind, self.dtype, self.was_finite = kind, dtype, was_finite
        self.version = getattr(value, "_version", 0) if was_finite is not None and not dtype else 0

    @property
    def array(self) -> Array:
        """Return the elements, to be read immediately."""
        return self.value if self.dtype else self.source.elements(self.value)

    def is_finite(self) -> bool:
        """Return whether all elements are finite now."""
        return is_finite(self.value) if self.dtype else self.source.is_finite(self.value)

    @property
    def has_changed(self) -> bool:
        """Return whether the call is known to have changed the value since its beginning."""
        if self.was_finite is None or self.dtype:
            return False
        return getattr(self.value, "_version", 0) != self.version or (self.was_finite and not self.is_finite())

    def record(self, call: str) -> str:
        """Return the record, with what it takes to write it."""
        if self.dtype:
            return self.source.described_array(self.value, call, self.part, self.kind, self.dtype)
        return self.source.described(self.value, call, self.part)

    def bare(self) -> str:
        """Return the record without statistics."""
        kind, dtype = self.kind or self.source.kind, self.dtype or str(self.value.dtype)
        return f"{beginning(kind, dtype, tuple(self.value.shape))[:-1]}}}"

    def measured(self) -> str:
        """Return the record with statistics, and without the tensor."""
        return f"{self.bare()[:-1]},{statistics(self.array)}}}"


class HoldingFront(Front):
    """A front to which describers pass the values of a call on; they are held until the call ends."""

    def __init__(self, step: StepFolder) -> None:
        super().__init__(step)
        self.holder = self
        self._lock = threading.RLock()
        self._held: dict[str, list[Held]] = {}

    @abstractmethod
    def hold(self, source: Source, tensor: Any, call: str, part: str) -> str:
        """Hold a tensor; return what represents its record."""

    def hold_array(self, source: Source, array: Array, call: str, part: str, kind: str, dtype: str) -> str:
        """Hold an array, which no other code changes."""
        return self._keep(call, Held(source, array, part, kind, dtype))

    def _keep(self, call: str, one: Held) -> str:
        """Hold a value; return what represents its record."""
        with self._lock:
            held = self._held.setdefault(call, [])
            held.append(one)
            return hole(len(held) - 1)

    def abandon(self, name: str) -> None:
        self._held.pop(name, None)
