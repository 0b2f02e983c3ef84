"""Where a given came from: a recorded call, a parameter, nothing recorded, or not known.

Our own dumps say it (`from`, docs/format.md page 2.3). For the other tool's dumps, and where nothing tracks it, a value
tells: a given whose digest, or shape, dtype and statistics, equal those of an earlier result of the same dump came from
there.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal

from msprobe.base import names
from msprobe.compare.standard import canonical
from msprobe.store.record import Call, Record

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


def told(record: Record) -> Source:
    """What the dump itself says."""
    if record.part == "parameters":
        return Source("parameter", text=record.path[-1] if record.path else record.name)
    if not record.source:
        return UNKNOWN
    if record.source in ("leaf", "code"):
        return Source(record.source)  # type: ignore[arg-type]  # the two words above
    if record.source.startswith("parameter "):
        return Source("parameter", text=record.source.removeprefix("parameter "))
    if m := _CALL.match(record.source):
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
    """Finds the sources of one dump's records by what the dump says, else by value."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self._order: dict[str, int] = {}
        self._results: dict[tuple[object, ...], list[tuple[int, str, Record]]] = {}  # places rise
        self._parameters: dict[tuple[object, ...], list[tuple[str, str]]] = {}
        for at, call in enumerate(calls):
            self._order[call.name] = at
            for record in call.records:
                if record.part not in ("output", "parameters") or (mark := fingerprint(record)) is None:
                    continue
                if record.part == "output":
                    key = (*mark, names.parse(call.name).direction)
                    self._results.setdefault(key, []).append((at, call.name, record))
                else:
                    cell = names.parse(call.name).path
                    text = ".".join(filter(None, (cell, *record.path)))
                    self._parameters.setdefault(mark, []).append((call.name, text))

    def of(self, record: Record, call: str, parents: tuple[str, ...]) -> Source:
        """The source of a given of `call`, which stands inside `parents`."""
        said = told(record)
        if record.part == "parameters":
            return Source("parameter", text=".".join(filter(None, (names.parse(call).path, *record.path))))
        mark = fingerprint(record)
        if said.origin != "unknown" or mark is None:
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
        place = bisect_left(found, self._order.get(call, 0), key=itemgetter(0))
        if place == 0:
            return None
        _, name, record = found[place - 1]
        return Source("call", name, record.part, record.path)
