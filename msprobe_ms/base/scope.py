"""What is collected: steps and ranks, forward or backward, and calls by window (`scope`) and pattern (`list`).

Lists of ranks and steps: `[0, "3-5", 4]` means 0, 3, 4 and 5. An element is a whole number from 0 to 1,000,000, a text
`"a-b"` (both ends included), or a text holding one number.

Which calls of a step are collected:

| level | window | patterns |
|---|---|---|
| L1 | from the call named `scope[0]` to the call named `scope[1]`, both kept | a name that contains one |
| L0 | from the begin of cell call `scope[0]` to the end of cell call `scope[1]` | a name that contains one |
| mix | as L0 where a bound names a cell, as L1 where it names an API | as L1, and everything inside such a cell |

With both, a call must pass both. Forward and backward are one sequence. A call is inside the window where it
begins there.
"""

import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import groupby
from threading import get_ident

from .checks import listed, shown, texts
from .errors import SettingsError, UsageError
from .language import translated
from .log import once
from .names import API_PREFIXES, parse

LARGEST = 1_000_000
MOST_ELEMENTS = 1_000_000

_NUMBER = re.compile(r"[0-9]+")
_AROUND_DASH = re.compile(r"\s*-\s*")
_RANGE = re.compile(r"([0-9]+)-([0-9]+)")


def numbers(value: object) -> tuple[int, ...]:
    """The numbers that a list means, sorted, each once."""
    if not isinstance(value, list | tuple):
        raise SettingsError(f'{shown(value)} is not a list; write a list such as [0, "3-5"], or [] for all')
    if len(value) > MOST_ELEMENTS:
        raise SettingsError(f'the list has {len(value)} elements, more than {MOST_ELEMENTS}; write ranges, "a-b"')
    found: set[int] = set()
    for element in value:
        found.update(_range_of(element))
    return tuple(sorted(found))


def numbers_of_text(text: str) -> tuple[int, ...]:
    """The numbers that a text such as `0,2,5-7` means; spaces may be around the numbers.

    SettingsError where a part is neither a number nor a range, or is empty.
    """
    return numbers([_AROUND_DASH.sub("-", part.strip()) for part in text.split(",")])


def numbers_of(option: str, text: str) -> tuple[int, ...]:
    """As `numbers_of_text`, of the option of a command line; UsageError names the option."""
    try:
        return numbers_of_text(text)
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
                f'{shown(element)} is neither a number nor a range; write numbers such as 2, or "3-5"',
                f'{shown(element)} 既不是数也不是范围；请写 2 这样的数，或 "3-5"',
            )
        )
    if not (0 <= first <= LARGEST and 0 <= last <= LARGEST):
        raise SettingsError(
            translated(
                f"{shown(element)} is out of range; choose numbers from 0 to {LARGEST}",
                f"{shown(element)} 超出 0 到 {LARGEST}；请选择范围内的数",
            )
        )
    if last < first:
        raise SettingsError(
            translated(
                f'{shown(element)} is a descending range; write the smaller number first, "{last}-{first}"',
                f'{shown(element)} 前后颠倒；请先写较小的数，即 "{last}-{first}"',
            )
        )
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


WORDS = ("all", "input", "output", "forward", "backward")
MOST_WORDS = 4


@dataclass(frozen=True)
class DataMode:
    """Two directions times two parts; a part is collected where both its direction and its word are set.

    `input` of a forward call are its arguments, of a backward call the gradients with respect to the forward outputs;
    `output` of a backward call are the gradients with respect to the forward inputs.
    """

    forward: bool = True
    backward: bool = True
    input: bool = True
    output: bool = True

    @property
    def parameters_grad(self) -> bool:
        """Parameter gradients: left out only where the user asked for forward alone."""
        return self.backward

    def described(self) -> list[str]:
        """The shortest list of words that means this."""
        if self.forward and self.backward and self.input and self.output:
            return ["all"]
        sides = [word for word in ("forward", "backward") if getattr(self, word)]
        parts = [word for word in ("input", "output") if getattr(self, word)]
        return (sides if len(sides) == 1 else []) + (parts if len(parts) == 1 else [])


def parts(value: object) -> DataMode:
    """What a list of words means. A side that is not named at all is completed: `["input"]` is both directions."""
    words = texts(value)
    for word in words:
        if word not in WORDS:
            raise SettingsError(f"{shown(word)} is unknown; choose from {listed(WORDS)}")
    if len(words) > MOST_WORDS:
        raise SettingsError(f"{len(words)} words are more than {MOST_WORDS}; write each at most once")
    if "all" in words and len(words) > 1:
        raise SettingsError(f'{shown(value)} combines "all" with other words; write ["all"] or remove "all"')
    any_side = not {"forward", "backward"} & set(words)
    any_part = not {"input", "output"} & set(words)
    return DataMode(
        forward=any_side or "forward" in words,
        backward=any_side or "backward" in words,
        input=any_part or "input" in words,
        output=any_part or "output" in words,
    )


class Scope:
    """Decides for each call of a step whether its records are collected; sees every call, in the order of execution.

    Cell calls are entered and left, other calls are asked for once. `bounds` are the two names of `scope`, or none.
    A forward cell that raised is not left: it counts as ended when the cell around it ends, or at `reset`.
    Backward cells may end in any order.
    """

    def __init__(self, level: str, bounds: tuple[str, ...] = (), patterns: tuple[str, ...] = ()) -> None:
        self._expands = level == "mix" and bool(patterns)
        self._first, self._last = bounds or ("", "")
        self._patterns = self._unmatched = tuple(patterns)
        self._unmet = tuple(dict.fromkeys(bounds))
        self.reset()

    @property
    def trivial(self) -> bool:
        """Nothing is filtered: every call is collected."""
        return not self._first and not self._patterns

    def reset(self) -> None:
        """Forget the step: the window is as before its first call, and no cell is running."""
        self._open = not self._first
        self._running: dict[int, list[str]] = {}  # forward cells, outermost first, by thread
        self._matching: set[str] = set()  # running cells that keep everything inside
        self._kept_backward: set[str] = set()  # cells, without direction and number

    def enter(self, name: str) -> bool:
        """A cell call begins; whether its records are kept."""
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
        """The same call ends, and with it every forward cell that began inside it and was not left."""
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
        """Whether the records of an API, primitive or jit call, or of a cell's parameter gradients, are kept.

        Parameter gradients are also kept where a backward call of their cell was.
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
        """Patterns that no call has matched since this scope was made, then bounds that no call has met."""
        return self._unmatched + self._unmet

    def log_unmatched(self) -> None:
        """Log, once for each, which patterns and bounds have matched nothing."""
        for pattern in self.unmatched_patterns():
            what = f'"{pattern}" of list or scope has not matched any call so far; use the names in dump.json'
            once(f"unmatched {pattern}", what)

    def _begin(self, name: str) -> None:
        if name == self._first:
            self._open = True
        if name in self._unmet:
            self._unmet = tuple(bound for bound in self._unmet if bound != name)

    def _matches(self, name: str) -> bool:
        if self._unmatched:
            self._unmatched = tuple(pattern for pattern in self._unmatched if pattern not in name)
        return not self._patterns or any(pattern in name for pattern in self._patterns)


_CELL_EXAMPLE, _API_EXAMPLE = shown("Cell.fc.Dense.forward.0"), shown("Functional.relu.0.forward")


def wrong_bounds(level: str, bounds: tuple[str, ...]) -> str:
    """What is wrong with the names of `scope` at a level, empty where nothing is."""
    if len(bounds) not in (0, 2):
        return f"has {len(bounds)} name(s); write none, or two: the first and the last call"
    return next((wrong for bound in bounds if (wrong := _wrong_bound(level, bound))), "")


def _wrong_bound(level: str, bound: str) -> str:
    call = parse(bound)
    prefix, _, rest = call.stem.partition(".")
    is_cell = call.kind == "cell"
    is_api = call.kind == "api" and prefix in API_PREFIXES and bool(rest)
    if level == "L0" and not is_cell:
        hint = "; APIs are collected at level L1 or mix" if is_api else ""
        return f"{shown(bound)} is not a call of a cell; write a name such as {_CELL_EXAMPLE}{hint}"
    if level == "L1" and not is_api:
        hint = "; cells are collected at level L0 or mix" if is_cell else ""
        return f"{shown(bound)} is not a call of an API; write a name such as {_API_EXAMPLE}{hint}"
    if level == "mix" and not (is_cell or is_api):
        return f"{shown(bound)} is not a call of a cell or API; write a name such as {_CELL_EXAMPLE} or {_API_EXAMPLE}"
    return ""
