"""Lists of ranks and steps: `[0, "3-5", 4]` means 0, 3, 4 and 5.

An element is a whole number from 0 to 1,000,000, a text `"a-b"` (both ends included), or a text holding one number.
"""

import re
from bisect import bisect_left
from itertools import groupby

from .checks import shown
from .errors import SettingsError, UsageError

LARGEST = 1_000_000
MOST_ELEMENTS = 1_000_000

_NUMBER = re.compile(r"[0-9]+")
_AROUND_DASH = re.compile(r"\s*-\s*")
_RANGE = re.compile(r"([0-9]+)-([0-9]+)")


def numbers(value: object) -> tuple[int, ...]:
    """The numbers that a list means, sorted, each once."""
    if not isinstance(value, list | tuple):
        raise SettingsError(f'{shown(value)} is not a list; write one such as [0, "3-5"], or [] for all')
    if len(value) > MOST_ELEMENTS:
        raise SettingsError(f'the list has {len(value)} elements, more than {MOST_ELEMENTS}; write ranges, "a-b"')
    found: set[int] = set()
    for element in value:
        found.update(_meant(element))
    return tuple(sorted(found))


def numbers_of(option: str, text: str) -> tuple[int, ...]:
    """What an option of the command line means, such as `0,2,5-7`; spaces may stand anywhere around the numbers.

    UsageError where a part is neither a number nor a range, or is empty.
    """
    try:
        return numbers([_AROUND_DASH.sub("-", part.strip()) for part in text.split(",")])
    except SettingsError as err:
        raise UsageError(f"{option}: {err}") from err


def _meant(element: object) -> range:
    if isinstance(element, int) and not isinstance(element, bool):
        first = last = element
    elif isinstance(element, str) and _NUMBER.fullmatch(element):
        first = last = _decimal(element)
    elif isinstance(element, str) and (ends := _RANGE.fullmatch(element)):
        first, last = _decimal(ends[1]), _decimal(ends[2])
    else:
        raise SettingsError(f'{shown(element)} is neither a number nor a range; write numbers such as 2, or "3-5"')
    if not (0 <= first <= LARGEST and 0 <= last <= LARGEST):
        raise SettingsError(f"{shown(element)} is outside 0 to {LARGEST}; choose numbers within")
    if last < first:
        raise SettingsError(f'{shown(element)} runs backwards; write the smaller number first, "{last}-{first}"')
    return range(first, last + 1)


def _decimal(digits: str) -> int:
    """The number, or one that is too large: thousands of digits are more than `int` reads."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= len(str(LARGEST)) else LARGEST + 1


def holds(sorted_numbers: tuple[int, ...], number: int) -> bool:
    """Whether a sorted tuple holds a number; the empty one holds all."""
    at = bisect_left(sorted_numbers, number)
    return not sorted_numbers or (at < len(sorted_numbers) and sorted_numbers[at] == number)


def compact(sorted_numbers: tuple[int, ...]) -> list[int | str]:
    """The shortest list that means these numbers: three or more in a row become a range. `numbers` reads it back."""
    written: list[int | str] = []
    for _, run in groupby(enumerate(sorted_numbers), key=lambda pair: pair[1] - pair[0]):
        row = [number for _, number in run]
        written += [f"{row[0]}-{row[-1]}"] if len(row) > 2 else row
    return written
