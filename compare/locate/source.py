"""Where a given came from: a recorded call, a parameter, nothing recorded, or not known.

Our own dumps say it (`from`, docs/format.md page 2.3). For the other tool's dumps, and where nothing tracks it, a value
tells: a given whose digest, or shape, dtype and statistics, equal those of an earlier result of the same dump came from
there.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from msprobe.base import names
from msprobe.compare.judge.standard import canonical
from msprobe.store.columns import PARTS, TENSOR
from msprobe.store.record import Dump, Part, Record

Origin = Literal["call", "parameter", "leaf", "code", "unknown"]

_CALL = re.compile(r"^call (?P<call>.+)\.(?P<part>input|output)(?P<path>(?:\.[^.]+)*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """Where one record came from. `call` and `path` name the result, `text` a parameter."""

    origin: Origin
    call: str = ""
    part: str = ""
    path: tuple[str, ...] = ()
    text: str = ""


UNKNOWN = Source("unknown")
_PARAMETERS = PARTS.index("parameters")


def told(source: str) -> Source:
    """What the dump itself says of a given that is no parameter of its call."""
    if not source:
        return UNKNOWN
    if source in ("leaf", "code"):
        return Source(source)  # type: ignore[arg-type]  # the two words above
    if source.startswith("parameter "):
        return Source("parameter", text=source.removeprefix("parameter "))
    if m := _CALL.match(source):
        return Source("call", m["call"], m["part"], tuple(m["path"].split(".")[1:]))
    return UNKNOWN


def fingerprint(record: Record) -> tuple[object, ...] | None:
    """What two records have in common that hold the same tensor; None where a record has nothing to recognise it by."""
    if record.kind != "tensor":
        return None
    looks = (record.shape, canonical(record.dtype))
    if record.digest:
        return (*looks, record.digest)
    s = record.statistics
    if s is None or s.max is None or s.max != s.max:
        return None
    return (*looks, s.max, s.min, s.mean, s.norm)


class Sources:
    """Finds the sources of one dump's records by what the dump says, else by value; looks values up once asked."""

    def __init__(self, dump: Dump) -> None:
        self._columns = dump.columns

    @cached_property
    def _order(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self._columns.names)}

    @cached_property
    def _results(self) -> dict[tuple[object, ...], list[int]]:
        """Fingerprint and direction -> the rows of such results, rising."""
        columns, found = self._columns, dict[tuple[object, ...], list[int]]()
        for row, mark in self._marked("output"):
            key = (*mark, names.parse(columns.names[self._call(row)]).direction)
            found.setdefault(key, []).append(row)
        return found

    @cached_property
    def _parameters(self) -> dict[tuple[object, ...], list[tuple[str, str]]]:
        """Fingerprint -> the calls that have such a parameter, with its name."""
        columns, found = self._columns, dict[tuple[object, ...], list[tuple[str, str]]]()
        for row, mark in self._marked("parameters"):
            owner = columns.names[self._call(row)]
            text = ".".join(filter(None, (names.parse(owner).path, *columns.paths[columns.path[row]])))
            found.setdefault(mark, []).append((owner, text))
        return found

    def _marked(self, part: Part) -> Iterator[tuple[int, tuple[object, ...]]]:
        """The rows of a part with their fingerprints."""
        wanted = PARTS.index(part)
        for row, code in enumerate(self._columns.part):
            if code == wanted and (mark := self.mark(row)) is not None:
                yield row, mark

    @cached_property
    def _looks(self) -> list[tuple[object, ...]]:
        return [(shape, canonical(dtype)) for _, dtype, shape in self._columns.looks]

    def mark(self, row: int) -> tuple[object, ...] | None:
        """`fingerprint` of a row, without its record where that is like most."""
        columns = self._columns
        if columns.kind[row] != TENSOR:
            return None
        if columns.digest[row] or row in columns.odd:
            return fingerprint(columns.record(row, self._call(row)))
        if (highest := columns.max[row]) != highest:
            return None
        return (*self._looks[columns.look[row]], highest, columns.min[row], columns.mean[row], columns.norm[row])

    def _call(self, row: int) -> int:
        return bisect_right(self._columns.starts, row) - 1

    def of(self, row: int, call: str, parents: tuple[str, ...]) -> Source:
        """The source of a given of `call`, by its row; the call stands inside `parents`."""
        columns = self._columns
        if columns.part[row] == _PARAMETERS:
            path = columns.paths[columns.path[row]]
            return Source("parameter", text=".".join(filter(None, (names.parse(call).path, *path))))
        said = told(columns.source[row])
        if said.origin != "unknown" or (mark := self.mark(row)) is None:
            return said
        given = self._parameters.get(mark, [])
        for owner, text in given:
            if owner in parents:
                return Source("parameter", text=text)
        if earlier := self._earlier(mark, call):
            return earlier
        return Source("parameter", text=given[0][1]) if given else UNKNOWN

    def _earlier(self, mark: tuple[object, ...], call: str) -> Source | None:
        """The latest result of the same direction that looks the same and was there before the call."""
        found = self._results.get((*mark, names.parse(call).direction), [])
        place = bisect_left(found, self._columns.starts[self._order.get(call, 0)])
        if place == 0:
            return None
        row = found[place - 1]
        path = self._columns.paths[self._columns.path[row]]
        return Source("call", self._columns.names[self._call(row)], "output", path)
