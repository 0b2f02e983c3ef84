"""A forward call between its begin and its end, its entry, and its position in a step.

A call's position: inside which calls, in which run of which model, in a first or a second run.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from json.encoder import encode_basestring_ascii as quote
from threading import get_ident
from typing import Any, NamedTuple

from msprobe.base.framework import AnyModule
from msprobe.base.nested import Leaf, Lost, is_tuple, key_names
from msprobe.base.scope import DataMode
from msprobe.store.describe import place_of_run

from .backward import Backward
from .describer import Describer, Sources


class Forward:
    """A forward call between its begin and its end."""

    __slots__ = (
        *("arguments", "backward", "cell", "describer", "first_node", "floor", "kept", "lost", "mode", "name"),
        *("parent", "parts", "stack", "stem", "tail", "tensors", "wanted"),
    )

    def __init__(
        self,
        stem: str,
        name: str,
        parent: "Forward | None",
        cell: AnyModule,
        describer: Describer,
        mode: DataMode,
        tail: str,
    ) -> None:
        self.stem, self.name, self.parent, self.cell = stem, name, parent, cell
        self.describer, self.mode = describer, mode
        self.tail = tail
        """Members that say where in the step the call stands; empty at the usual place."""
        self.kept = True
        """Whether anything of it is recorded, its place in the nesting apart."""
        self.stack: int | None = None
        self.parts: list[str] = []
        self.arguments: Sequence[Any] = ()
        """The inputs as trees, keyword arguments behind the others."""
        self.tensors: Sequence[Leaf] = ()
        """The tensors among them."""
        self.lost: list[tuple[str, Lost]] = []
        """What was left out of inputs and outputs, each with its part: `input.0.mask`."""
        self.wanted: Any = None
        self.floor = -1
        self.first_node = 0
        """The number of the first node of the graph that it may have made, where the framework has such."""
        self.backward: Backward | None = None

    @property
    def parent_name(self) -> str | None:
        """Return the name of the enclosing cell's call."""
        return self.parent.name if self.parent is not None else None

    def run_back(self) -> "Forward":
        """Return the place of calls that this call's backward itself makes."""
        name = self.backward.name if self.backward is not None else self.name
        return Forward(self.stem, name, None, self.cell, self.describer, self.mode, self.tail)

    def release(self) -> None:
        """Hold the inputs no longer: a recomputation may remember the call, but not its inputs."""
        self.arguments = self.tensors = ()
        self.wanted = None

    def describe_inputs(
        self, lost: Sequence[Lost], keywords: Sequence[str], sources: Sources, shown: Sequence[Any] | None = None
    ) -> None:
        """Record the inputs as they are now, the last of them arguments of these `keywords`, and a cell's own
        parameters.

        `lost` is what was left out of them when they were read; `shown` are the inputs where some are no values.
        """
        name, values = self.name, self.arguments if shown is None else shown
        first = len(values) - len(keywords)
        for each in lost:
            number, dot, rest = each.place.partition(".")
            i = int(number)
            part = f"input.{i}" if i < first else f"kwargs.{key_names(keywords, values[first:])[i - first]}"
            self.lost.append((f"{part}{dot}{rest}", each))
        if not self.mode.forward:
            return
        if self.mode.input:
            listed = self.describer.values(values[:first] if keywords else values, name, "input", sources)
            named = self._named_inputs(values[first:], key_names(keywords, values[first:]), sources) if keywords else ""
            self.parts.append(f'"input_args":{listed},"input_kwargs":{{{named}}}')
        if self.cell is not None and (parameters := self.describer.parameters_of(self.cell)) is not None:
            own = [
                f"{quote(key)}:{self.describer.tensor(parameter, name, f'parameters.{key}')}"
                for key, parameter in parameters
            ]
            self.parts.append(f'"parameters":{{{",".join(own)}}}')

    def _named_inputs(self, values: Sequence[Any], keywords: Sequence[str], sources: Sources) -> str:
        return ",".join(
            f"{quote(k)}:{self.describer.value(v, self.name, f'kwargs.{k}', sources)}"
            for k, v in zip(keywords, values, strict=True)
        )

    def name_lost(self) -> None:
        """Record in the dump what was omitted, now that it contains the call."""
        for part, each in self.lost:
            self.describer.lost(self.name, part, each.cause, each.kind)
        self.lost.clear()

    def describe_outputs(self, results: Sequence[Any], lost: Sequence[Lost]) -> None:
        """Record the results as they are now; `lost` is what was left out of them."""
        if lost:
            self.lost.extend((f"output.{each.place}", each) for each in lost)
        self.parts.append(f'"output":{self.describer.values(results, self.name, "output")}')

    def entry(self, more: str = "") -> str | None:
        """Return the JSON text of what was recorded, with `more` members; None if nothing was."""
        return f"{{{','.join(self.parts)}{more}{self.tail}}}" if self.parts and self.kept else None


Begin = Callable[[str, int], tuple[str, str]]
"""Makes a call's names, forward and backward, of stem and number."""


def outcome(args: tuple[Any, ...], result: Any) -> Any:
    """Return the result of a call, or the tensor that it changed in place when it returns nothing (`x[0] = 1`)."""
    return args[0] if result is None and args else result


def results_of(result: Any) -> tuple[Any, ...]:
    """Return a call's result as a tuple of results; one with named fields (a named tuple) is a single one."""
    if type(result) is tuple:
        return result
    if not issubclass(type(result), tuple):
        return (result,)
    # torch.return_types, of torch.max(x, dim=1) for values and indices, is a tuple without `_fields`
    return tuple(tuple.__iter__(result)) if is_tuple(result) else (result,)


_SECOND = ',"is_recompute":true'


class _Made(NamedTuple):
    """The nodes of the graph that a cell's call made, by their numbers, and those that represent its backward."""

    first: int
    end: int
    backward: Backward
    place: Forward


class Position:
    """The open calls of cells, and what the entries of calls made now say of their place in the step."""

    def __init__(self, own_backward: str, next_node: Callable[[], int] | None) -> None:
        """`own_backward` is the method by which a user writes a cell's backward, "" if there is none; `next_node` the
        number of the graph's next node, None if a user writes no backward of a node.
        """
        self._own_backward = own_backward
        self._next_node = next_node
        self._made: dict[int, list[_Made]] = {}  # by thread, for each numbers its own nodes
        self._open: list[Forward] = []
        self._tail = ""
        self._runs: dict[int, int] = {}
        self._recomputed = 0
        self._turn = 0
        """Changes when `keep` says what is open: what ends later, and began before, changes nothing then."""
        self._first_runs: dict[int, list[Forward | None]] = {}
        self._backwards: dict[int, list[Forward]] = {}

    @property
    def innermost(self) -> Forward | None:
        """Return the cell's call that runs now."""
        return self.here[0]

    @property
    def here(self) -> tuple[Forward | None, str]:
        """Return the cell's call that runs now, and the tail of a call made now: asked at each call."""
        calls = self._open
        return calls[-1] if calls else None, f"{_SECOND}{self._tail}" if self._recomputed else self._tail

    @property
    def running(self) -> list[str]:
        """Return the names of the cells' calls that run now, the outermost first."""
        return [call.name for call in self._open]

    @property
    def tail(self) -> str:
        """Return the members for the entry of a call made now; empty at the usual place."""
        return self.here[1]

    @property
    def is_inside(self) -> bool:
        """Return whether calls made now have another place than those of a step's outermost code."""
        return bool(self._open or self._tail or self._recomputed)

    def keep(self, calls: Sequence[Forward], *, is_inside: bool) -> None:
        """Keep of the open calls those among `calls`; without `is_inside` calls made now are of the outermost code."""
        self._turn += 1
        if calls or not is_inside:
            self._open = [call for call in self._open if call in calls]
        if not is_inside:
            self._tail, self._recomputed = "", 0

    def enter(self, call: Forward) -> None:
        """Enter a cell's call."""
        self._open.append(call)
        if self._next_node is not None:
            call.first_node = self._next_node()

    def leave(self, call: Forward) -> None:
        """Leave a cell's call, and all calls inside it that an exception left open."""
        if call in self._open:  # `keep` may have forgotten it
            while self._open.pop() is not call:
                pass
        if self._own_backward and call.backward is not None and hasattr(call.cell, self._own_backward):
            self._backwards.setdefault(id(call.cell), []).append(call)
        if self._next_node is not None and call.backward is not None and (end := self._next_node()) > call.first_node:
            made = _Made(call.first_node, end, call.backward, call.run_back())
            self._made.setdefault(get_ident(), []).append(made)

    @contextmanager
    def backward_of(self, cell: AnyModule) -> Iterator[None]:
        """Record the calls of the block, which the user's own backward of `cell` makes, inside that backward.

        Of several calls it is the one to which a gradient has come. Where none has, the dump holds no such backward.
        """
        calls = self._backwards.get(id(cell), [])
        begun = [call for call in calls if call.backward is not None and call.backward.begun and not call.backward.done]
        if not begun:
            yield
            return
        call = begun[-1]
        calls.remove(call)
        before, turn = (self._open, self._tail), self._turn
        self._open, self._tail = [call.run_back()], call.tail
        try:
            yield
        finally:
            if turn == self._turn:
                self._open, self._tail = before

    @contextmanager
    def backward_of_node(self, number: int) -> Iterator[None]:
        """Record the calls of the block, which the user's own backward of a node makes, inside the backward of the call
        that made the node, or of the nearest enclosing one that has received a gradient.
        """
        made = self._made.get(get_ident(), [])
        ended = range(bisect_right(made, number, key=lambda each: each.end), len(made))
        around = (made[at] for at in ended if made[at].first <= number and made[at].backward.begun)
        if (found := next(around, None)) is None:
            yield
            return
        before, turn = (self._open, self._tail, self._recomputed), self._turn
        self._open, self._tail, self._recomputed = [found.place], found.place.tail, 0
        try:
            yield
        finally:
            if turn == self._turn:
                self._open, self._tail, self._recomputed = before

    @contextmanager
    def run_of(self, model: int) -> Iterator[None]:
        """Record the calls of the block as one run of a model: they have the model and the run if there are several."""
        run = self._runs.get(model, 0)
        self._runs[model] = run + 1
        before, turn, self._tail = self._tail, self._turn, place_of_run(run, model)
        try:
            yield
        finally:
            if turn == self._turn:
                self._tail = before

    def first_run(self, owner: Any) -> None:
        """Note that `owner` runs a block that a recomputation will run again; the runs of one object are a stack."""
        self._first_runs.setdefault(id(owner), []).append(self.innermost)

    @contextmanager
    def second_run(self, owner: Any) -> Iterator[None]:
        """Record the calls of the block as a recomputation, inside the call that enclosed the first run."""
        runs = self._first_runs.get(id(owner))
        base = runs.pop() if runs else None
        before, turn = (self._open, self._tail), self._turn
        self._open = [] if base is None else [base]
        self._tail = "" if base is None else base.tail.removeprefix(_SECOND)
        self._recomputed += 1
        try:
            yield
        finally:
            if turn == self._turn:
                self._recomputed -= 1
                self._open, self._tail = before
