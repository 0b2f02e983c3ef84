r"""Split the text of an entry into a template, which many calls share, and the values of this call.

| mark | stands for | kept as |
|---|---|---|
| `\x01` | the call's own name at the beginning of a file's name | nothing: the call has it |
| `\x02` | the statistics of a tensor | a place in the table of statistics |
| `\x03` | the eight digits of a digest | a place in the table of digests |
| `\x04` | the call that produced an input | its distance in rows before this one |
| `\x05` | the parameter that an input is | its name |

Entries are ASCII without control characters, so that a mark never is part of one. Whatever cannot be restored digit by
digit stays in the template.
"""

import math
import re
from array import array
from collections.abc import Iterable, Iterator

from msprobe.base import schema

NAME, STATISTICS, DIGEST, CALL, PARAMETER = "\x01", "\x02", "\x03", "\x04", "\x05"
MARKS = re.compile("[\x01-\x05]")

# Whole members of a record. A text between quotes contains none, because quotes inside a text are escaped.
_PARTS = re.compile(
    "("
    + ",".join(f'"{re.escape(key)}":[^,}}]+' for key in schema.KEYS)
    + rf'|"{schema.DIGEST.key}":"(?:crc32c:)?[0-9a-f]{{8}}"'
    r'|"from":"call [^"\\]*(?=\.output)'
    r'|"from":"parameter [^"\\]*")'
)
_STATISTICS, _DIGEST = f'"{schema.KEYS[0]}":', f'"{schema.DIGEST.key}":'
_CALL, _PARAMETER = '"from":"call ', '"from":"parameter '


def statistics_text(numbers: Iterable[float]) -> str:
    """Return the statistics of a tensor as an entry has them."""
    return schema.members(tuple(map(_number_text, numbers)))


def _number_text(number: float) -> str:
    if math.isfinite(number):
        return repr(number)
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _numbers(text: str) -> tuple[float, ...] | None:
    """Return the floats in a text of statistics; None if they would not give the same text."""
    try:
        made = tuple([float(member.partition(":")[2]) for member in text.split(",")])
    except ValueError:
        return None
    return made if statistics_text(made) == text else None


class Lists:
    """One list for each row: those of row r are `of[starts[r]:starts[r + 1]]`."""

    def __init__(self, of: "array[int] | array[float] | list[str]") -> None:
        self.of = of
        self.starts = array("i", (0,))

    def end_row(self) -> None:
        """End a row, which has the members added since the previous one."""
        self.starts.append(len(self.of))


class Splitter:
    """Splits entries, one after the other in the order of their rows; `rows` has the row of each call.

    `statistics` and `digests` have 0 for the next new member of a table, else the distance back to the same one
    in the table; the new members are in `numbers`, one list for each statistic, and in `digest`. `calls` are rows back.
    """

    def __init__(self, rows: dict[str, int]) -> None:
        self._rows, self._row = rows, 0
        self._known: dict[str, int] = {}
        self._bad: set[str] = set()
        self.statistics, self.digests, self.calls = (Lists(array("i")) for _ in range(3))
        self.digest = Lists(array("L"))
        self.numbers = [Lists(array("d")) for _ in schema.NUMBERS]
        self.parameters = Lists([])
        self._all = (self.statistics, self.digests, self.calls, self.digest, *self.numbers, self.parameters)

    def split(self, name: str, text: str) -> str:
        """Return the template of an entry."""
        own = f'"data_name":"{name}.'
        pieces = _PARTS.split(text.replace(own, f'"data_name":"{NAME}.'))
        for at in range(1, len(pieces), 2):
            part = pieces[at]
            place = self._known.get(part)
            if part.startswith(_STATISTICS):
                pieces[at] = self._statistics(part, place)
            elif part.startswith(_DIGEST):
                pieces[at] = self._digest(part, place)
            elif part.startswith(_CALL):
                call = part[len(_CALL) :]
                if call in self._rows:
                    self.calls.of.append(self._row - self._rows[call])  # type: ignore[arg-type]  # an array of int
                    pieces[at] = f"{_CALL}{CALL}"
            else:
                self.parameters.of.append(part[len(_PARAMETER) : -1])  # type: ignore[arg-type]  # a list of texts
                pieces[at] = f'{_PARAMETER}{PARAMETER}"'
        return "".join(pieces)

    def _statistics(self, part: str, place: int | None) -> str:
        count = len(self.numbers[0].of)
        if place is None:
            if part in self._bad:
                return part
            if (numbers := _numbers(part)) is None:
                self._bad.add(part)
                return part
            for column, number in zip(self.numbers, numbers, strict=True):
                column.of.append(number)  # type: ignore[arg-type]  # an array of float
            self._known[part] = count
        self.statistics.of.append(0 if place is None else count - place)  # type: ignore[arg-type]  # an array of int
        return STATISTICS

    def _digest(self, part: str, place: int | None) -> str:
        count = len(self.digest.of)
        if place is None:
            self._known[part] = count
            self.digest.of.append(int(part[-9:-1], 16))  # type: ignore[arg-type]  # an array of int
        self.digests.of.append(0 if place is None else count - place)  # type: ignore[arg-type]  # an array of int
        return f'{part[:-9]}{DIGEST}"'

    def end_row(self) -> None:
        """Continue with the entry of the next row."""
        self._row += 1
        for lists in self._all:
            lists.end_row()


def joined(template: str, name: str, parts: Iterator[str]) -> str:
    """Return the text of an entry again; `parts` are the texts of its marks other than `NAME`, in their order."""
    return MARKS.sub(lambda mark: name if mark[0] == NAME else next(parts), template)
