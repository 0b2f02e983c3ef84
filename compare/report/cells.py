"""The text of single cells, the same in every kind of file."""

import math
import re
from functools import lru_cache
from typing import TypeGuard

Cell = str | int | float | bool

NOT_APPLICABLE = "N/A"

LONGEST = 32_767  # units of UTF-16 in one cell of a sheet; longer text is cut in its middle
LARGEST = 1 << 1000  # of whole numbers; what is larger no float can hold, and no sheet

_NEVER_LONG = LONGEST // 2

# What begins a formula in one spreadsheet or another, also behind what separates cells or rows for some of them: the
# `;` of some languages, a tab, the end of a line.
_FORMULA = re.compile(r"(^\s*|[;\t\r\n][^\S\t\r\n]*)(?=[=+\-@%\uff1d\uff0b\uff0d\uff20\uff05])")
_SUSPECT = frozenset(" =+-@%\uff1d\uff0b\uff0d\uff20\uff05")
_NUMBER = re.compile(r"^[+-]?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|inf|nan)%?$", re.IGNORECASE)
_SHARE = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?%").fullmatch
_NOT_IN_A_SHEET = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


def guard(text: str) -> str:
    """Text out of a dump, made harmless: what a spreadsheet would run gets a quote before it, so that it stays text.

    Control characters, which no sheet can hold, become question marks.
    """
    if text.isprintable() and text[:1] not in _SUSPECT and ";" not in text and len(text) <= _NEVER_LONG:
        return text
    text = _cut(text)
    if _NOT_IN_A_SHEET.search(text):
        text = _NOT_IN_A_SHEET.sub("?", text)
    if _FORMULA.search(text) and not _NUMBER.match(text):
        text = _cut(_FORMULA.sub(r"\1'", text))
    return text


def _cut(text: str) -> str:
    """A text that a cell can hold: of a longer one the beginning and the end, which tell alike names apart."""
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
    """Whether a value is counted with; booleans are not, nor are numbers that no float can hold."""
    return type(value) is float or (type(value) is int and -LARGEST <= value <= LARGEST)


def number(value: object) -> str | int | float | bool:
    """A number as it is; what a sheet has no number for as text: `Nan`, `inf`, `-inf`, `None`."""
    if type(value) is float:
        if value - value == 0:  # finite; quicker than asking for it
            return value
        return "Nan" if value != value else "inf" if value > 0 else "-inf"
    if type(value) is bool or is_number(value):
        return value
    return guard(str(value))


def percent(difference: float, golden: float) -> str:
    """The difference relative to the golden, in percent, as 8.1 prints it; `N/A` where the golden is 0."""
    if difference != difference:
        return "Nan"
    if golden == 0:
        return NOT_APPLICABLE
    if not difference and math.isfinite(golden):
        return "0.0%"
    share = abs(difference / golden) * 100
    return f"{share}%" if share == share else "Nan"


def share(cell: Cell) -> float | None:
    """The part of 1 that a text like `12.5%` says; None for any other cell, words like `inf%` among them."""
    if type(cell) is str and _SHARE(cell) and (value := float(cell[:-1])) < math.inf:
        return value / 100
    return None


@lru_cache(maxsize=4096)
def shape_text(shape: tuple[int, ...] | None) -> str:
    """`[2, 16]`, or `None` for a tensor whose shape the dump does not tell."""
    return "None" if shape is None else _cut(str(list(shape)))
