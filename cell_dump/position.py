"""Where in a step a call stands: inside which calls, in which run of which model, in a first or a second run."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, NamedTuple

from msprobe.store.describe import place_of_run

from .backward import Backward
from .forward import Forward

_SECOND = ',"is_recompute":true'


class _Made(NamedTuple):
    """The nodes of the graph that a cell's call made, by their numbers, and what stands for its backward."""

    first: int
    end: int
    backward: Backward
    place: Forward


class Position:
    """The open calls of cells, and what the entries of calls made now say of their place in the step."""

    def __init__(self, own_backward: str, next_node: Callable[[], int] | None) -> None:
        """`own_backward` is the method by which a user writes a cell's backward, "" where there is none; `next_node`
        the number of the graph's next node, None where a user writes no backward of a node.
        """
        self._own_backward = own_backward
        self._next_node = next_node
        self._made: dict[int, list[_Made]] = {}  # by thread, for each numbers its own nodes
        self._open: list[Forward] = []
        self._tail = ""
        self._runs: dict[int, int] = {}
        self._recomputed = 0
        self._first_runs: dict[int, list[Forward | None]] = {}
        self._backwards: dict[int, list[Forward]] = {}

    @property
    def innermost(self) -> Forward | None:
        """The cell's call that runs now."""
        return self._open[-1] if self._open else None

    @property
    def tail(self) -> str:
        """Members for the entry of a call made now; empty at the usual place."""
        return f"{_SECOND}{self._tail}" if self._recomputed else self._tail

    def enter(self, call: Forward) -> None:
        """A cell's call runs now."""
        self._open.append(call)
        if self._next_node is not None:
            call.first_node = self._next_node()

    def leave(self, call: Forward) -> None:
        """It has ended, and with it whatever an exception left open inside."""
        while self._open and self._open.pop() is not call:
            pass
        if self._own_backward and call.backward is not None and hasattr(call.cell, self._own_backward):
            self._backwards.setdefault(id(call.cell), []).append(call)
        if self._next_node is not None and call.backward is not None and (end := self._next_node()) > call.first_node:
            made = _Made(call.first_node, end, call.backward, call.run_back())
            self._made.setdefault(get_ident(), []).append(made)

    @contextmanager
    def backward_of(self, cell: Any) -> Iterator[None]:
        """Calls made meanwhile are what the user's own backward of `cell` calls, and stand inside that backward.

        Of several calls it is the one to which a gradient has come. Where none has, the dump holds no such backward.
        """
        calls = self._backwards.get(id(cell), [])
        begun = [call for call in calls if call.backward is not None and call.backward.begun and not call.backward.done]
        if not begun:
            yield
            return
        call = begun[-1]
        calls.remove(call)
        before = self._open, self._tail
        self._open, self._tail = [call.run_back()], call.tail
        try:
            yield
        finally:
            self._open, self._tail = before

    @contextmanager
    def backward_of_node(self, number: int) -> Iterator[None]:
        """Calls made meanwhile are what the user's own backward of a node calls, and stand inside the backward of the
        call that made it, or of the nearest around that one to which a gradient has come.
        """
        made = self._made.get(get_ident(), [])
        ended = range(bisect_right(made, number, key=lambda each: each.end), len(made))
        around = (made[at] for at in ended if made[at].first <= number and made[at].backward.begun)
        if (found := next(around, None)) is None:
            yield
            return
        before = self._open, self._tail, self._recomputed
        self._open, self._tail, self._recomputed = [found.place], found.place.tail, 0
        try:
            yield
        finally:
            self._open, self._tail, self._recomputed = before

    @contextmanager
    def run_of(self, model: int) -> Iterator[None]:
        """One run of a model: the calls made meanwhile say which model and which run it is, where there are several."""
        run = self._runs.get(model, 0)
        self._runs[model] = run + 1
        before, self._tail = self._tail, place_of_run(run, model)
        try:
            yield
        finally:
            self._tail = before

    def first_run(self, owner: Any) -> None:
        """What `owner` runs now will be run again by a recomputation; the runs of one object are a stack."""
        self._first_runs.setdefault(id(owner), []).append(self.innermost)

    @contextmanager
    def second_run(self, owner: Any) -> Iterator[None]:
        """Calls made meanwhile are a recomputation, inside the call that enclosed the first run."""
        runs = self._first_runs.get(id(owner))
        base = runs.pop() if runs else None
        before = self._open, self._tail
        self._open = [] if base is None else [base]
        self._tail = "" if base is None else base.tail.removeprefix(_SECOND)
        self._recomputed += 1
        try:
            yield
        finally:
            self._recomputed -= 1
            self._open, self._tail = before
