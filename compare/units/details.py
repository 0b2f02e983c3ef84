"""The details of a unit: the records of its calls, within the budget of bytes.

First come all calls that differ, then those around them and next to them in the dataflow, then the others in order.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msprobe.base.phrase import phrase
from msprobe.base.schema import NAMES, NUMBERS
from msprobe.compare.core.reason import Reason
from msprobe.compare.judge.decision import Rule, decision_of, decision_phrases
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.wording import reason_phrase
from msprobe.compare.locate.find import Located
from msprobe.compare.tables.cells import Cell, is_number
from msprobe.compare.tables.columns import columns_of
from msprobe.compare.tables.rows import rows_of
from msprobe.report.document import CallDetails, Record, Tensor
from msprobe.report.embed import packed, text_of
from msprobe.store.record import NO_STATISTICS, PARTS, TENSOR, VALUE, Columns, Statistics

from .calls import UnitCalls
from .links import Link
from .state import SEVERITY, letters

_CHUNK = 150_000
"""Bytes of JSON in one chunk: a page decodes one per click."""

_SAMPLE = 1 << 16

_DIGITS = 9  # digits: for float32 these are all

_LONGEST = 2000  # characters of a value

_LEFT_OUT = frozenset(
    (
        *("NPU Name", "Bench Name", "NPU Dtype", "Bench Dtype", "NPU Tensor Shape", "Bench Tensor Shape"),
        *(f"{side} {each.titles[2]}" for side in ("NPU", "Bench") for each in NUMBERS),
        *("NPU MD5", "BENCH MD5", "NPU_Stack_Info", "Data_name", "Verdict", "Reason"),
    )
)
"""Columns of the sheet that a record displays elsewhere."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A packed chunk of details, and the first call that it may contain."""

    first: int
    packed: bytes


@dataclass(frozen=True, slots=True)
class Budgeted:
    """The chunks of a unit's details, and the number of calls in them."""

    chunks: tuple[Chunk, ...]
    calls: int


def details(order: Iterable[int], of_calls: Callable[[Sequence[int]], Iterator[CallDetails]], budget: int) -> Budgeted:
    """Return the details of calls in their order of importance, up to a number of bytes. `of_calls` yields those of
    some calls."""
    texts: dict[int, bytes] = {}
    size, squeezed = 0, zlib.compressobj(1)
    waiting = bytearray()
    for batch in _batches(order):
        for number, one in zip(batch, of_calls(batch), strict=True):
            texts[number] = text_of(one)
            waiting += texts[number]
            if len(waiting) >= _SAMPLE:
                size += 4 * len(squeezed.compress(bytes(waiting))) // 3
                waiting.clear()
        if size >= budget:
            break
    return Budgeted(tuple(_chunks(texts)), len(texts))


def _batches(order: Iterable[int]) -> Iterator[list[int]]:
    batch: list[int] = []
    for number in order:
        batch.append(number)
        if len(batch) == 64:
            yield batch
            batch = []
    if batch:
        yield batch


def _chunks(texts: Mapping[int, bytes]) -> Iterator[Chunk]:
    held: list[int] = []
    size = 0
    for number in sorted(texts):
        if held and size + len(texts[number]) > _CHUNK:
            yield Chunk(held[0], _packed(texts, held))
            held, size = [], 0
        held.append(number)
        size += len(texts[number])
    if held:
        yield Chunk(held[0], _packed(texts, held))


def _packed(texts: Mapping[int, bytes], numbers: Sequence[int]) -> bytes:
    """Return the calls as one object of `document.Details`."""
    return packed(b'{"calls":[' + b",".join(texts[number] for number in numbers) + b"]}")


def by_importance(verdicts: str, calls: UnitCalls, links: Sequence[Link], first: Sequence[int]) -> Iterator[int]:
    """Yield all calls: `first`, those that differ, those around and next to these in the dataflow, the rest in
    order."""
    differing = [at for at, letter in enumerate(verdicts) if SEVERITY.index(letter) >= SEVERITY.index("n")]
    differing += [at for at, letter in enumerate(verdicts) if letter == "h"]
    chosen = dict.fromkeys((*first, *(around for at in first for around in calls.around(at)), *differing))
    yield from chosen
    near = set(chosen)
    beside = sorted({at for user, _, maker, _ in links if (user in near) != (maker in near) for at in (user, maker)})
    chosen |= dict.fromkeys(around for at in differing for around in calls.around(at))
    chosen |= dict.fromkeys(beside)
    yield from (at for at in chosen if at not in near)
    yield from (at for at in range(len(calls)) if at not in chosen)


class OfComparison:
    """Creates the details of calls of a comparison."""

    def __init__(self, comparison: Comparison, located: Located, calls: UnitCalls) -> None:
        self._comparison, self._located, self._calls = comparison, located, calls
        titles = [column.title for column in columns_of(comparison, False)]
        self._measured = [(at, title) for at, title in enumerate(titles) if title not in _LEFT_OUT]
        self._letters = letters(comparison)

    def __call__(self, numbers: Sequence[int]) -> Iterator[CallDetails]:
        """Yield the details of some calls."""
        pairs = self._comparison.pairs
        parts = [pairs.rows(number) for number in numbers]
        made = rows_of(self._comparison, self._located, parts)
        for number, part in zip(numbers, parts, strict=True):
            records = tuple(self._record(row, next(made)) for row in part)
            yield CallDetails(number, records, *self._stacks(number))

    def _record(self, row: int, cells: tuple[Cell, ...]) -> Record:
        comparison = self._comparison
        pairs = comparison.pairs
        t, g = int(pairs.target_rows[row]), int(pairs.golden_rows[row])
        ours, theirs = comparison.target.columns, comparison.golden.columns
        columns, at = (ours, t) if t >= 0 else (theirs, g)
        described = comparison.described.get(row, (None, None))
        decision = decision_of(comparison, row)
        reasons = decision.reasons
        return Record(
            place_of(columns, at),
            PARTS[columns.part[at]],
            tensor_of(ours, t, described[0]) if t >= 0 else None,
            tensor_of(theirs, g, described[1]) if g >= 0 else None,
            SEVERITY[self._letters[row]],
            {title: _cell(cells[at]) for at, title in self._measured if cells[at] != ""},
            limits_of(reasons),
            tuple(phrase("{reasons}.", reasons=reason_phrase(reason)) for reason in reasons),
            "" if decision.rule is Rule.EQUAL else decision.state,
            decision_phrases(decision),
        )

    def _stacks(self, number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the stacks of both sides; that of the golden only if it differs."""
        ours, theirs = self._calls.stack(number), self._calls.stack(number, of_golden=True)
        return ours, () if theirs == ours else theirs


class OfDump:
    """Creates the details of calls of a single dump."""

    def __init__(self, calls: UnitCalls) -> None:
        self._calls = calls

    def __call__(self, numbers: Sequence[int]) -> Iterator[CallDetails]:
        """Yield the details of some calls."""
        columns = self._calls.target.dump.columns
        for number in numbers:
            call = int(self._calls.target.calls[number])
            records = (
                Record(place_of(columns, row), PARTS[columns.part[row]], tensor_of(columns, row))
                for row in columns.rows(call)
            )
            yield CallDetails(number, tuple(records), self._calls.stack(number))


def place_of(columns: Columns, row: int) -> str:
    """Return the place of a record in its call: `output.0`."""
    return ".".join((PARTS[columns.part[row]], *columns.path_of(row)))


def tensor_of(columns: Columns, row: int, described: Statistics | None = None) -> Tensor:
    """Return one side of a record; `described` are its statistics if the dump does not have them."""
    kind, dtype, shape = columns.looks[columns.look[row]]
    digest = columns.digest[row]
    if columns.kind[row] != TENSOR:
        value = repr(columns.values.get(row)) if columns.kind[row] == VALUE else "None"
        return Tensor(kind, digest=digest, value=value[:_LONGEST])
    s = described or columns.statistics(row)
    numbers = zip(NAMES, (s or NO_STATISTICS).numbers, strict=True)
    of_page = {name: number for name, value in numbers if (number := _number(value, dtype)) is not None}
    return Tensor(dtype, shape, of_page, digest)


def _number(value: object, dtype: str = "") -> float | str | None:
    """Return a number with the digits that its dtype has; one that a page cannot represent as text."""
    if value is None:
        return value
    if type(value) is bool:
        return str(value)  # a page has numbers and texts; it would treat other values as infinite
    if type(value) is float:
        return value if value - value != 0 or "64" in dtype or "128" in dtype else float(f"{value:.{_DIGITS}g}")
    return value if type(value) is int and abs(value) < 1 << 53 else str(value)


def _cell(cell: Cell) -> float | str | None:
    return _number(cell, "64") if is_number(cell) else cell


def limits_of(reasons: Iterable[Reason]) -> str:
    """Return the allowed difference, if a reason has it."""
    found = dict.fromkeys(_allowed(reason) for reason in reasons if reason.allowed)
    return "; ".join(found)


def _allowed(reason: Reason) -> str:
    return f"{reason.allowed:.4g}" if isinstance(reason.allowed, float) else str(reason.allowed)
