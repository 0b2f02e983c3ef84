"""Selection of what is collected: steps and ranks, directions, and calls by window (`scope`) and pattern (`list`).

Lists of ranks and steps: `[0, "3-5", 4]` means 0, 3, 4 and 5. An element is an integer from 0 to 1,000,000, a string
`"a-b"` (including both ends), or a string with one number.

Which calls of a step are collected:

| level | window | patterns |
|---|---|---|
| L1 | from the call named `scope[0]` to the call named `scope[1]`, both kept | a name that contains one |
| L0 | from the begin of cell call `scope[0]` to the end of cell call `scope[1]` | a name that contains one |
| mix | as L0 where a bound names a cell, as L1 where it names an API | as L1, and everything inside such a cell |

With both, a call must satisfy both. Forward and backward calls are one sequence. A call is inside the window if it
begins there.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import groupby
from threading import get_ident

from .checks import quoted, quoted_list, strings
from .errors import SettingsError, UsageError
from .language import translated
from .log import log_once
from .names import API_PREFIXES, parse

MAX_NUMBER = 1_000_000
MAX_ELEMENTS = 1_000_000

_NUMBER = re.compile(r"[0-9]+")
_AROUND_DASH = re.compile(r"\s*-\s*")
_RANGE = re.compile(r"([0-9]+)-([0-9]+)")


def parse_numbers(value: object) -> tuple[int, ...]:
    """Return the numbers of a list, sorted and without duplicates. SettingsError if the list is invalid."""
    if not isinstance(value, list | tuple):
        raise SettingsError(f'{quoted(value)} is not a list; write a list such as [0, "3-5"], or [] for all')
    if len(value) > MAX_ELEMENTS:
        raise SettingsError(f'the list has {len(value)} elements, more than {MAX_ELEMENTS}; write ranges, "a-b"')
    found: set[int] = set()
    for element in value:
        found.update(_range_of(element))
    return tuple(sorted(found))


def parse_number_list(text: str) -> tuple[int, ...]:
    """Return the numbers of a text such as `0,2,5-7`, which may contain spaces.

    SettingsError if a part is empty, or neither a number nor a range.
    """
    return parse_numbers([_AROUND_DASH.sub("-", part.strip()) for part in text.split(",")])


def parse_number_option(option: str, text: str) -> tuple[int, ...]:
    """Return the numbers of a command-line option, as `parse_number_list`. UsageError with the name of the option."""
    try:
        return parse_number_list(text)
    except SettingsError as err:
        raise UsageError(f"{option}: {err}") from err


def _range_of(element: object) -> range:
    if isinstance(element, int) and not isinstance(element, bool):
        first = last = element
    elif isinstance(element, str) and _NUMBER.fullmatch(element):
        first = last = _decimal(element)
    elif isinstance(element, str) and (ends := _RANGE.fullmatch(element)):
        first, last = _decimal(ends[1]), _decimal(ends[2])
    else:
        raise SettingsError(
            translated(
                f'{quoted(element)} is neither a number nor a range; write numbers such as 2, or "3-5"',
                f'{quoted(element)} 既不是数也不是范围；请写 2 这样的数，或 "3-5"',
            )
        )
    if not (0 <= first <= MAX_NUMBER and 0 <= last <= MAX_NUMBER):
        raise SettingsError(
            translated(
                f"{quoted(element)} is out of range; choose numbers from 0 to {MAX_NUMBER}",
                f"{quoted(element)} 超出 0 到 {MAX_NUMBER}；请选择范围内的数",
            )
        )
    if last < first:
        raise SettingsError(
            translated(
                f'{quoted(element)} is a descending range; write the smaller number first, "{last}-{first}"',
                f'{quoted(element)} 前后颠倒；请先写较小的数，即 "{last}-{first}"',
            )
        )
    return range(first, last + 1)


def _decimal(digits: str) -> int:
    """Return the number, or one above the limit for too many digits, which `int` cannot parse."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) <= len(str(MAX_NUMBER)) else MAX_NUMBER + 1


def contains(sorted_numbers: tuple[int, ...], number: int) -> bool:
    """Return whether a sorted tuple contains a number; an empty tuple contains all numbers."""
    at = bisect_left(sorted_numbers, number)
    return not sorted_numbers or (at < len(sorted_numbers) and sorted_numbers[at] == number)


def compact_ranges(sorted_numbers: tuple[int, ...]) -> list[int | str]:
    """Return the shortest list for `parse_numbers` of these numbers, with ranges for three or more in a row."""
    written: list[int | str] = []
    for _, run in groupby(enumerate(sorted_numbers), key=lambda pair: pair[1] - pair[0]):
        row = [number for _, number in run]
        written += [f"{row[0]}-{row[-1]}"] if len(row) > 2 else row
    return written


DATA_MODE_WORDS = ("all", "input", "output", "forward", "backward")
MAX_WORDS = 4


@dataclass(frozen=True)
class DataMode:
    """The directions and parts that are collected.

    For backward calls, `input` are the gradients with respect to the forward outputs, and `output` the gradients with
    respect to the forward inputs.
    """

    forward: bool = True
    backward: bool = True
    input: bool = True
    output: bool = True

    @property
    def parameters_grad(self) -> bool:
        """Return whether parameter gradients are collected: unless only forward is selected."""
        return self.backward

    def described(self) -> list[str]:
        """Return the shortest list of words for this selection."""
        if self.forward and self.backward and self.input and self.output:
            return ["all"]
        sides = [word for word in ("forward", "backward") if getattr(self, word)]
        parts = [word for word in ("input", "output") if getattr(self, word)]
        return (sides if len(sides) == 1 else []) + (parts if len(parts) == 1 else [])


def parse_data_mode(value: object) -> DataMode:
    """Return the selection of a list of words. Without a direction both are selected, without a part both parts."""
    words = strings(value)
    for word in words:
        if word not in DATA_MODE_WORDS:
            raise SettingsError(f"{quoted(word)} is unknown; choose from {quoted_list(DATA_MODE_WORDS)}")
    if len(words) > MAX_WORDS:
        raise SettingsError(f"{len(words)} words are more than {MAX_WORDS}; write each at most once")
    if "all" in words and len(words) > 1:
        raise SettingsError(f'{quoted(value)} combines "all" with other words; write ["all"] or remove "all"')
    any_side = not {"forward", "backward"} & set(words)
    any_part = not {"input", "output"} & set(words)
    return DataMode(
        forward=any_side or "forward" in words,
        backward=any_side or "backward" in words,
        input=any_part or "input" in words,
        output=any_part or "output" in words,
    )


class Scope:
    """Filter that decides for each call of a step whether it is collected; called for all calls in order of execution.

    level, bounds, patterns : level, and the settings `scope` (two names or none) and `list`.

    Use `enter` and `leave` for calls of cells, and `wants` for other calls. `leave` is not called for a forward cell
    that raised, which ends when the enclosing cell ends, or at `reset`. Backward cells may end in any order.
    """

    def __init__(self, level: str, bounds: tuple[str, ...] = (), patterns: tuple[str, ...] = ()) -> None:
        self._expands = level == "mix" and bool(patterns)
        self._first, self._last = bounds or ("", "")
        self._patterns = self._unmatched = tuple(patterns)
        self._unmatched_bounds = tuple(dict.fromkeys(bounds))
        self.reset()

    @property
    def trivial(self) -> bool:
        """Return whether all calls are collected."""
        return not self._first and not self._patterns

    def reset(self) -> None:
        """Reset for the next step: the window is not yet entered, and no cell is running."""
        self._open = not self._first
        self._running: dict[int, list[str]] = {}  # forward cells, outermost first, by thread
        self._matching: set[str] = set()  # running cells whose inner calls are all collected
        self._kept_backward: set[str] = set()  # cells, without direction and number

    def enter(self, name: str) -> bool:
        """Begin a call of a cell; return whether it is collected."""
        call = parse(name)
        if call.direction == "forward":
            self._running.setdefault(get_ident(), []).append(name)
        self._begin(name)
        matches = self._matches(name)
        kept = self._open and (matches or bool(self._matching))
        if matches and self._expands:
            self._matching.add(name)
        if kept and call.direction == "backward":
            self._kept_backward.add(call.stem)
        return kept

    def leave(self, name: str) -> None:
        """End a call of a cell, and all forward cells that began inside it."""
        running = self._running.get(get_ident(), [])
        ended = [name]
        if name in running:
            begun = running.index(name)
            ended = running[begun:]
            del running[begun:]
        self._matching.difference_update(ended)
        if self._last in ended:
            self._open = False

    def wants(self, name: str) -> bool:
        """Return whether an API, primitive or jit call, or the parameter gradients of a cell, are collected.

        Parameter gradients are also collected if a backward call of their cell was.
        """
        self._begin(name)
        kept = self._open and (self._matches(name) or bool(self._matching))
        if name == self._last:
            self._open = False
        if kept or not self._kept_backward:
            return kept
        call = parse(name)
        return call.kind == "parameters_grad" and call.stem in self._kept_backward

    def unmatched_patterns(self) -> tuple[str, ...]:
        """Return the patterns, then the bounds, that no call has matched so far."""
        return self._unmatched + self._unmatched_bounds

    def log_unmatched(self) -> None:
        """Log, once for each, the patterns and bounds that no call has matched."""
        for pattern in self.unmatched_patterns():
            what = f'"{pattern}" of list or scope has not matched any call so far; use the names in dump.json'
            log_once(f"unmatched {pattern}", what)

    def _begin(self, name: str) -> None:
        if name == self._first:
            self._open = True
        if name in self._unmatched_bounds:
            self._unmatched_bounds = tuple(bound for bound in self._unmatched_bounds if bound != name)

    def _matches(self, name: str) -> bool:
        if self._unmatched:
            self._unmatched = tuple(pattern for pattern in self._unmatched if pattern not in name)
        return not self._patterns or any(pattern in name for pattern in self._patterns)


_CELL_EXAMPLE, _API_EXAMPLE = quoted("Cell.fc.Dense.forward.0"), quoted("Functional.relu.0.forward")


def bounds_problem(level: str, bounds: tuple[str, ...]) -> str:
    """Return why the names of `scope` are invalid at a level; empty if they are valid."""
    if len(bounds) not in (0, 2):
        return f"has {len(bounds)} name(s); write none, or two: the first and the last call"
    return next((wrong for bound in bounds if (wrong := _bound_problem(level, bound))), "")


def _bound_problem(level: str, bound: str) -> str:
    call = parse(bound)
    prefix, _, rest = call.stem.partition(".")
    is_cell = call.kind == "cell"
    is_api = call.kind == "api" and prefix in API_PREFIXES and bool(rest)
    if level == "L0" and not is_cell:
        hint = "; APIs are collected at level L1 or mix" if is_api else ""
        return f"{quoted(bound)} is not a call of a cell; write a name such as {_CELL_EXAMPLE}{hint}"
    if level == "L1" and not is_api:
        hint = "; cells are collected at level L0 or mix" if is_cell else ""
        return f"{quoted(bound)} is not a call of an API; write a name such as {_API_EXAMPLE}{hint}"
    if level == "mix" and not (is_cell or is_api):
        return f"{quoted(bound)} is not a call of a cell or API; write a name such as {_CELL_EXAMPLE} or {_API_EXAMPLE}"
    return ""
