"""The cells of a row: names, dtypes, shapes, statistics, differences and measures, as msprobe 8.1 prints them."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import TypeGuard, overload
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from msprobe.base.schema import NAMES
from msprobe.compare.core.measures import Measures
from msprobe.compare.core.standard import canonical
from msprobe.compare.judge.verdict import unravel
from msprobe.compare.match.pairs import Ints, Pair
from msprobe.store.record import NULL, PARTS, TENSOR, VALUE, Columns, Number, row_name

Cell = str | int | float | bool

NOT_APPLICABLE = "N/A"

LONGEST = 32_767  # units of UTF-16 in one cell of a sheet; longer text is cut in its middle
LARGEST = 1 << 1000  # of integers; larger ones are beyond the range of floats and sheets

_NEVER_LONG = LONGEST // 2
_SHORT = 5_000  # characters: several such texts together still fit into a cell

# The beginning of a formula in some spreadsheets, also after a separator of cells or rows: `;`, a tab, a line end.
_FORMULA = re.compile(r"(^\s*|[;\t\r\n][^\S\t\r\n]*)(?=[=+\-@%\uff1d\uff0b\uff0d\uff20\uff05])")
_AFTER_SEPARATOR = re.compile(r";\s*[=+\-@%\uff1d\uff0b\uff0d\uff20\uff05]")
_SUSPECT = frozenset(" =+-@%\uff1d\uff0b\uff0d\uff20\uff05")
_NUMBER = re.compile(r"^[+-]?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|inf|nan)%?$", re.IGNORECASE)
_SHARE = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?%").fullmatch
_NOT_IN_A_SHEET = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def guard(text: str) -> str:
    """Return text of a dump in a harmless form: a formula is preceded by a quote, so that a spreadsheet reads it as
    text.

    Control characters, which sheets cannot contain, become question marks.
    """
    if text.isprintable() and text[:1] not in _SUSPECT and ";" not in text and len(text) <= _NEVER_LONG:
        return text
    text = _cut(text)
    if _NOT_IN_A_SHEET.search(text):
        text = _NOT_IN_A_SHEET.sub("?", text)
    if _FORMULA.search(text) and not _NUMBER.match(text):
        text = _cut(_FORMULA.sub(r"\1'", text))
    return text


def are_plain(texts: Iterable[str]) -> bool:
    """Return whether `guard` does not change these texts; False also if that is unknown."""
    every = list(texts)
    whole = "".join(every)
    if not whole.isprintable() or _AFTER_SEPARATOR.search(whole) or max(map(len, every), default=0) > _SHORT:
        return False
    return _SUSPECT.isdisjoint({text[:1] for text in every})


def guarded(texts: list[str]) -> list[str]:
    """Return `guard` of each text."""
    return texts if are_plain(texts) else list(map(guard, texts))


def _cut(text: str) -> str:
    """Return a text that fits into a cell: the beginning and the end of a longer one, which distinguish similar
    names."""
    if len(text) <= _NEVER_LONG:
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    if len(units) <= 2 * LONGEST:
        return text
    left_out = f"...({len(text)} characters)..."
    kept = (LONGEST - len(left_out)) // 2
    head, tail = units[: 2 * kept], units[len(units) - 2 * kept :]
    return head.decode("utf-16-le", "ignore") + left_out + tail.decode("utf-16-le", "ignore")


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a number; booleans are not, nor are integers beyond the range of floats."""
    return type(value) is float or (type(value) is int and -LARGEST <= value <= LARGEST)


def number(value: object) -> str | int | float | bool:
    """Return a number as it is; one that a sheet cannot contain as text: `Nan`, `inf`, `-inf`, `None`."""
    if type(value) is float:
        if value - value == 0:  # finite; faster than a function call
            return value
        return "Nan" if value != value else "inf" if value > 0 else "-inf"
    if type(value) is bool or is_number(value):
        return value
    return guard(str(value))


def percent(difference: float, golden: float) -> str:
    """Return the difference relative to the golden, in percent, as 8.1 prints it; `N/A` if the golden is 0."""
    if difference != difference:
        return "Nan"
    if golden == 0:
        return NOT_APPLICABLE
    if not difference and math.isfinite(golden):
        return "0.0%"
    share = abs(difference / golden) * 100
    return f"{share}%" if share == share else "Nan"


def share(cell: Cell) -> float | None:
    """Return a text like `12.5%` as a number; None for any other cell, including `inf%`."""
    if type(cell) is str and _SHARE(cell) and (value := float(cell[:-1])) < math.inf:
        return value / 100
    return None


@lru_cache(maxsize=4096)
def shape_text(shape: tuple[int, ...] | None) -> str:
    """Return `[2, 16]`, or `None` for a tensor of unknown shape."""
    return "None" if shape is None else _cut(str(list(shape)))


class Numbers(Sequence[Cell]):
    """A column of floats, with the same text after each.

    `others` are the cells that replace some of them, by position.
    """

    def __init__(self, values: NDArray[np.float64], others: dict[int, Cell], suffix: str = "") -> None:
        self.values, self.others, self.suffix = np.ascontiguousarray(values, np.float64), others, suffix

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> Cell: ...
    @overload
    def __getitem__(self, at: slice) -> list[Cell]: ...
    def __getitem__(self, at: int | slice) -> Cell | list[Cell]:
        return list(self)[at]

    def __iter__(self) -> Iterator[Cell]:
        cells: list[Cell] = self.values.tolist()
        if self.suffix:
            cells = [f"{cell}{self.suffix}" for cell in cells]
        for at, cell in self.others.items():
            cells[at] = cell
        return iter(cells)


Numerals = tuple[Number | str, ...]
"""The statistics of a record in the order of the columns, or replacements for them."""

_COUNT = len(NAMES)


class Side:
    """The records of one side of a comparison, as cells. A row of -1 means no record."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._dtypes = [guard(dtype) for _, dtype, _ in columns.looks]
        self._shapes = [shape_text(shape) for _, _, shape in columns.looks]
        self._statistics = [*columns.numbers.T]

    def names(self, rows: Ints, calls: Ints) -> list[str]:
        """Return the names of records of calls."""
        return self._of_records(rows, calls, self._names)

    def _names(self, rows: Ints, calls: Ints) -> list[str]:
        columns = self._columns
        if self._are_named_by_place:
            called, call_at = np.unique(calls, return_inverse=True)
            codes, code_at = np.unique(self._codes[rows], return_inverse=True)
            prefixes = [columns.names[call] for call in called.tolist()]
            suffixes = [row_name("", code % len(PARTS), columns.paths[code // len(PARTS)]) for code in codes.tolist()]
            # With text after it: `-1` alone is a number, and `-1.x` is not.
            has_more = all(suffix.startswith(".") for suffix in suffixes)
            if has_more and are_plain(f"{prefix}.x" for prefix in prefixes) and are_plain(f"x{s}" for s in suffixes):
                return [prefixes[p] + suffixes[s] for p, s in zip(call_at.tolist(), code_at.tolist(), strict=True)]
        return [guard(columns.row_name(row, call)) for row, call in zip(rows.tolist(), calls.tolist(), strict=True)]

    @cached_property
    def _are_named_by_place(self) -> bool:
        """Return whether all records are named after their call and their place in it."""
        return not self._columns.named and not any(self._columns.file)

    @cached_property
    def _codes(self) -> Ints:
        """Return by row part and path as one number."""
        part, path = np.frombuffer(self._columns.part, np.uint8), np.frombuffer(self._columns.path, np.int32)
        found: Ints = path.astype(np.int64) * len(PARTS) + part
        return found

    @staticmethod
    def _of_records(rows: Ints, others: Ints, made: Callable[[Ints, Ints], list[str]]) -> list[str]:
        """Return the texts of records, `N/A` if there is none."""
        are_there = rows >= 0
        if are_there.all():
            return made(rows, others)
        texts = iter(made(rows[are_there], others[are_there]))
        return [next(texts) if is_there else NOT_APPLICABLE for is_there in are_there.tolist()]

    def dtypes(self, rows: Ints) -> list[str]:
        """Return the dtype of a tensor, the Python type of any other value."""
        return self._of_look(rows, self._dtypes, self._type)

    def shapes(self, rows: Ints) -> list[str]:
        """Return the shape of a tensor, `[]` for a single value."""
        other = {"None": "None", "slice": "(3,)"}
        return self._of_look(rows, self._shapes, lambda row: other.get(self._type(row), "[]"))

    def _of_look(self, rows: Ints, texts: Sequence[str], other: Callable[[int], str]) -> list[str]:
        kind, look = self._columns.kind, self._columns.look

        def of_records(rows: Ints, looks: Ints) -> list[str]:
            if self._are_tensors[rows].all():
                return [texts[at] for at in looks.tolist()]
            return [texts[look[row]] if kind[row] == TENSOR else other(row) for row in rows.tolist()]

        return self._of_records(rows, np.append(np.frombuffer(look, np.int32), 0)[rows], of_records)

    @cached_property
    def _are_tensors(self) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = np.frombuffer(self._columns.kind, np.uint8) == TENSOR
        return found

    def _type(self, row: int) -> str:
        if self._columns.kind[row] == NULL:
            return "None"
        kind = self._columns.looks[self._columns.look[row]][0]
        return kind if kind in ("slice", "ellipsis") else str(type(self._columns.values.get(row)))

    @cached_property
    def is_plain(self) -> NDArray[np.bool_]:
        """Return which rows are tensors whose statistics are all floats."""
        found = self._are_tensors.copy()
        found[list(self._columns.odd)] = False
        return found if len(found) else np.zeros(1, bool)  # row -1 of a side without records is also requested

    def floats(self, rows: Ints) -> list[NDArray[np.float64]]:
        """Return the statistics of rows as columns; arbitrary values if not `is_plain`."""
        return [column[rows] if len(column) else np.zeros(len(rows)) for column in self._statistics]

    def numerals(self, rows: Ints) -> list[Numerals]:
        """Return the statistics of records as msprobe 8.1 has them: a value that is not a tensor is used for all."""
        found: list[Numerals] = list(zip(*(column.tolist() for column in self.floats(rows)), strict=True))
        kind, odd = self._columns.kind, self._columns.odd
        for at, row in enumerate(rows.tolist()):
            if row < 0:
                found[at] = (NOT_APPLICABLE,) * _COUNT
            elif kind[row] != TENSOR:
                value = None if self._type(row) in ("None", "slice") else self._columns.values.get(row)
                found[at] = (value if value is None or isinstance(value, int | float) else str(value),) * _COUNT
            elif row in odd:
                s = odd[row]
                found[at] = (None,) * _COUNT if s is None else s.numbers
        return found

    def optional(self, name: str, rows: Sequence[int]) -> list[Cell]:
        """Return an optional statistic of records, or their layout; empty if there is none."""
        if name == "layout":
            return [str(self._columns.layout.get(row, "")) for row in rows]
        if (column := self._columns.shares.get(name)) is None:
            return [""] * len(rows)
        return ["" if row < 0 or column[row] != column[row] else float(column[row]) for row in rows]

    def digests(self, rows: Sequence[int]) -> list[str]:
        """Return the digests of records; for a value that is not a tensor the CRC-32 of its text, as msprobe does."""
        return [NOT_APPLICABLE if row < 0 else self._digest(row) for row in rows]

    def _digest(self, row: int) -> str:
        if digest := self._columns.digest[row]:
            return guard(digest)
        if self._columns.kind[row] != VALUE:
            return NOT_APPLICABLE
        return f"{crc32(str(self._columns.values.get(row)).encode('utf-8', 'replace')):08x}"


Floats = NDArray[np.float64]

_WARNING = ("Warning", "Need double check api accuracy.")


def statistics_columns(target: Sequence[Floats], golden: Sequence[Floats]) -> list[Numbers | list[Cell]]:
    """Return the differences, relative differences, statistics of both sides, 8.1's result and message, for pairs with
    plain floats."""
    with np.errstate(all="ignore"):
        differences = [t - g for t, g in zip(target, golden, strict=True)]
        shares = [np.abs(d / g) * 100 for d, g in zip(differences, golden, strict=True)]
        warning = np.any([_above_half(*three) for three in zip(differences, target, golden, strict=True)], axis=0)
    columns: list[Numbers | list[Cell]] = [_numbers(d) for d in differences]
    columns += [_percents(*three) for three in zip(shares, differences, golden, strict=True)]
    columns += [_numbers(column) for column in chain(target, golden)]
    columns += [[text if w else "" for w in warning.tolist()] for text in _WARNING]
    return columns


def _numbers(column: Floats) -> Numbers:
    return Numbers(column, {at: number(float(column[at])) for at in np.flatnonzero(~np.isfinite(column)).tolist()})


def _percents(share: Floats, difference: Floats, golden: Floats) -> Numbers:
    special = np.flatnonzero((golden == 0) | ~np.isfinite(share)).tolist()
    return Numbers(share, {at: percent(float(difference[at]), float(golden[at])) for at in special}, "%")


def _above_half(difference: Floats, t: Floats, g: Floats) -> NDArray[np.bool_]:
    """Return whether a statistic differs by more than half, which is the rule of 8.1; NaN on one side is a
    difference."""
    # Python's max(t, g), which is g only if that is greater, NaN or not.
    above = np.abs(difference) / (np.abs(np.where(g > t, g, t)) + 1e-10) > 0.5
    return np.where(np.isnan(difference), np.isnan(t) != np.isnan(g), above)


def statistics_of_rows(target: Side, golden: Side, t: Ints, g: Ints) -> list[Numbers | list[Cell]]:
    """Return the same columns for any pairs of rows, -1 for none: plain floats by column, others individually."""
    columns = statistics_columns(target.floats(t), golden.floats(g))
    special = np.flatnonzero(~(target.is_plain[t] & golden.is_plain[g]) | (t < 0) | (g < 0))
    sides = target.numerals(t[special]), golden.numerals(g[special])
    for at, ours, theirs in zip(special.tolist(), *sides, strict=True):
        is_whole = t[at] >= 0 and g[at] >= 0
        cells = statistics_cells(ours, theirs)
        if not is_whole:
            cells = (*cells[:-2], NOT_APPLICABLE, NO_PARTNER[bool(t[at] >= 0)])
        for column, cell in zip(columns, cells, strict=True):
            (column.others if isinstance(column, Numbers) else column)[at] = cell
    return columns


def statistics_cells(target: Numerals, golden: Numerals) -> tuple[Cell, ...]:
    """Return the same cells for one pair with any statistics; also for a number that is not a tensor, as in 8.1."""
    differences: list[Cell] = [NOT_APPLICABLE] * _COUNT
    shares: list[Cell] = [NOT_APPLICABLE] * _COUNT
    warning = False
    for at, (t, g) in enumerate(zip(target, golden, strict=True)):
        if not (is_number(t) and is_number(g)):
            continue
        difference = t - g
        differences[at], shares[at] = number(difference), percent(difference, g)
        if difference != difference:
            warning = warning or (t != t) != (g != g)
        elif difference:
            warning = warning or abs(difference) / (abs(max(t, g)) + 1e-10) > 0.5
    result = _WARNING if warning else ("", "")
    return (*differences, *shares, *map(number, chain(target, golden)), *result)


_UNSUPPORTED = ("unsupported",) * 6
NO_PARTNER = {True: "No bench data matched.", False: "No NPU data matched."}


def tensor_cells(pair: Pair, found: Measures | None) -> tuple[Cell, ...]:
    """Return six measures, 8.1's verdict and its message."""
    target, golden = pair.target, pair.golden
    if target is None or golden is None:
        return *_UNSUPPORTED, "None", NO_PARTNER[target is not None]
    if target.kind == golden.kind == "tensor" and target.shape != golden.shape:
        return *("shape unmatched",) * 6, "Unmatched", "Shapes of NPU and bench tensor do not match."
    if found is None:
        return *_UNSUPPORTED, "None", "No tensor to measure on one side or both."
    if found.size == 0:
        return *_UNSUPPORTED, "None", "The tensors are empty."
    if found.mismatched:
        return *(NOT_APPLICABLE,) * 6, "No", "The positions of nan or inf do not match."
    absolute, relative = number(round(found.max_absolute, 12)), number(round(found.max_relative, 12))
    if target.shape == ():
        message = "A 0-d tensor has no direction and no ratios."
        return *_UNSUPPORTED[:2], absolute, relative, *_UNSUPPORTED[:2], "None", message
    cosine: Cell = "unsupported"
    if found.size > 1:
        value = round(found.cosine, 12) if math.isfinite(found.cosine) else found.cosine
        cosine = number(round(value, 6) if value > 0.9999 else value)
    is_one_dtype = canonical(target.dtype) == canonical(golden.dtype)
    message = "" if is_one_dtype else "Dtypes of NPU and bench tensor do not match."
    if found.cosine != found.cosine:
        message = "One side is all zeros, the other is not."
    cells = (cosine, number(found.euclid), absolute, relative, found.within_1e_3, found.within_5e_3)
    return *cells, _accuracy(cosine, found), message


def our_measures(found: Measures | None, shape: tuple[int, ...]) -> tuple[Cell, ...]:
    """Return scale error, index of the greatest absolute difference, bias and ULP; empty without measures."""
    if found is None or found.size == 0:
        return ("",) * 4
    index = str(list(unravel(found.max_absolute_at, shape))) if found.max_absolute_at >= 0 else ""
    return number(found.scale_error), index, number(found.bias), number(found.max_ulp)


def _accuracy(cosine: Cell, found: Measures) -> str:
    """Return the result of 8.1's rule. There the text `Nan` of a one-sided zero tensor is above every bound; here it is
    a `No`."""
    if isinstance(cosine, str):
        return "No" if found.cosine != found.cosine else "None"
    if (cosine < 0.99 and found.max_absolute > 0.001) or cosine < 0.9 or found.max_absolute > 1:
        return "No"
    return "Yes"
