"""Which calls of a step are kept: a window in the order of execution (`scope`) and patterns in names (`list`).

| level | window | patterns |
|---|---|---|
| L1 | from the call named `scope[0]` to the call named `scope[1]`, both kept | a name that contains one |
| L0 | from the begin of cell call `scope[0]` to the end of cell call `scope[1]` | a name that contains one |
| mix | as L0 where a bound names a cell, as L1 where it names an API | as L1, and everything inside such a cell |

Where both are given, a call must pass both. Forward and backward are one sequence. A call is inside the window where it
begins there.
"""

from threading import get_ident

from .checks import shown
from .log import once
from .names import API_PREFIXES, parse


class Scope:
    """Answers for each call of a step whether its records are kept; told of every call, in the order of execution.

    Cell calls begin and end, other calls are asked for once. `bounds` are the two names of `scope`, or none.
    A forward cell that an exception left tells no end: it counts as ended when the cell around it ends, or at `reset`.
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
        """Nothing is filtered: every answer is yes, and nothing needs to be told."""
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
        """The same call ends, and with it every forward cell that began inside it and never told its end."""
        running = self._running.get(get_ident(), [])
        ended = [name]
        if name in running:
            begun = running.index(name)
            ended = running[begun:]
            del running[begun:]
        for each in ended:
            self._matching.discard(each)
            self._end(each)

    def wants(self, name: str) -> bool:
        """Whether the records of an API, primitive or jit call, or of a cell's parameter gradients, are kept.

        Parameter gradients are also kept where a backward call of their cell was.
        """
        self._begin(name)
        kept = self._open and (self._matches(name) or bool(self._matching))
        self._end(name)
        return kept or self._follows_backward(name)

    def unmatched_patterns(self) -> tuple[str, ...]:
        """Patterns that no call has matched since this scope was made, then bounds that no call has met."""
        return self._unmatched + self._unmet

    def say_unmatched(self) -> None:
        """Say, once for each, which patterns and bounds have matched nothing."""
        for pattern in self.unmatched_patterns():
            what = f'"{pattern}" of list or scope has matched no call so far; see the names in dump.json'
            once(f"unmatched {pattern}", what)

    def _begin(self, name: str) -> None:
        if name == self._first:
            self._open = True
        if name in self._unmet:
            self._unmet = tuple(bound for bound in self._unmet if bound != name)

    def _end(self, name: str) -> None:
        if name == self._last:
            self._open = False

    def _matches(self, name: str) -> bool:
        if self._unmatched:
            self._unmatched = tuple(pattern for pattern in self._unmatched if pattern not in name)
        return not self._patterns or any(pattern in name for pattern in self._patterns)

    def _follows_backward(self, name: str) -> bool:
        if not self._kept_backward:
            return False
        call = parse(name)
        return call.kind == "parameters_grad" and call.stem in self._kept_backward


_CELL_EXAMPLE, _API_EXAMPLE = shown("Cell.fc.Dense.forward.0"), shown("Functional.relu.0.forward")


def wrong_bounds(level: str, bounds: tuple[str, ...]) -> str:
    """What is wrong with the names of `scope` at a level, empty where nothing is."""
    if len(bounds) not in (0, 2):
        return f"{len(bounds)} name(s) stand here; write none, or two: the call to begin with and the call to end with"
    return next((wrong for bound in bounds if (wrong := _wrong_bound(level, bound))), "")


def _wrong_bound(level: str, bound: str) -> str:
    is_cell, is_api = _is_cell(bound), _is_api(bound)
    if level == "L0" and not is_cell:
        hint = "; APIs are collected at level L1 or mix" if is_api else ""
        return f"{shown(bound)} is not a cell's call; write one such as {_CELL_EXAMPLE}{hint}"
    if level == "L1" and not is_api:
        hint = "; cells are collected at level L0 or mix" if is_cell else ""
        return f"{shown(bound)} is not an API's call; write one such as {_API_EXAMPLE}{hint}"
    if level == "mix" and not (is_cell or is_api):
        return f"{shown(bound)} is no call of a cell or API; write one such as {_CELL_EXAMPLE} or {_API_EXAMPLE}"
    return ""


def _is_cell(bound: str) -> bool:
    return parse(bound).kind == "cell"


def _is_api(bound: str) -> bool:
    call = parse(bound)
    prefix, _, rest = call.stem.partition(".")
    return call.kind == "api" and prefix in API_PREFIXES and bool(rest)
