"""Where in a step a call stands: inside which calls, in which run of which model, in a first or a second run."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msprobe.store.describe import place_of_run

from .forward import Forward

_SECOND = ',"is_recompute":true'


class Position:
    """The open calls of cells, and what the entries of calls made now say of their place in the step."""

    def __init__(self, own_backward: str) -> None:
        """`own_backward` is the method by which a user writes a cell's backward; "" where there is none."""
        self._own_backward = own_backward
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

    def leave(self, call: Forward) -> None:
        """It has ended, and with it whatever an exception left open inside."""
        while self._open and self._open.pop() is not call:
            pass
        if self._own_backward and call.backward is not None and hasattr(call.cell, self._own_backward):
            self._backwards.setdefault(id(call.cell), []).append(call)

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
