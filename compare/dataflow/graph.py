"""The dataflow graph of one dump, over its tensor records: what made each input, and what uses each output.

| edge | from | to | found by |
|---|---|---|---|
| forward | an output | an input of a later call | the dump's `from`, else content (`source.py`) |
| alias | an output of a cell | the output of the call inside it that wrote it | content |
| backward | an input gradient of each user of a tensor | the incoming gradient of its maker | forward edges |

A cell inside which calls are recorded makes nothing itself: what uses its output uses the output of the call inside,
and its own use of an input is that of the calls inside. So edges lead between the innermost calls.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from functools import cached_property
from typing import Literal

from msprobe.base import names
from msprobe.compare.core.standard import family
from msprobe.store.record import PARTS, TENSOR, Dump

from .events import Sources, parent_of

Origin = Literal["call", "parameter", "leaf", "code", "unknown"]

_INPUT, _OUTPUT = (PARTS.index(part) for part in ("input", "output"))


class Graph:
    """The dataflow graph of a dump. Rows and calls are places in its columns."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.columns = dump.columns
        self.names = [names.parse(text) for text in self.columns.names]
        self._sources = Sources(dump)
        self._origins: dict[int, tuple[Origin, int]] = {}
        self._places: dict[int, dict[tuple[str, tuple[str, ...]], int]] = {}
        self._aliases: dict[int, int] = {}

    def call_of(self, row: int) -> int:
        """The call that a row belongs to."""
        return bisect_right(self.columns.starts, row) - 1

    def tensors(self, call: int, part: int) -> Iterator[int]:
        """The rows of the tensors of one part of a call."""
        columns = self.columns
        for row in range(columns.starts[call], columns.starts[call + 1]):
            if columns.part[row] == part and columns.kind[row] == TENSOR:
                yield row

    def inputs(self, call: int) -> Iterator[int]:
        """The rows of the tensors that a call received: arguments, incoming gradients."""
        return self.tensors(call, _INPUT)

    def outputs(self, call: int) -> Iterator[int]:
        """The rows of the tensors that a call returned: results, gradients with respect to its inputs."""
        return self.tensors(call, _OUTPUT)

    def has_inputs(self, call: int) -> bool:
        """Whether a call received a tensor."""
        return next(self.inputs(call), -1) >= 0

    def has_outputs(self, call: int) -> bool:
        """Whether a call returned a tensor."""
        return next(self.outputs(call), -1) >= 0

    def mark(self, row: int) -> Hashable | None:
        """What the records of one tensor have in common (`locate.source.fingerprint`); None where nothing tells it."""
        return self._sources.mark(row)

    def hands_on(self, call: int) -> bool:
        """Whether the one output of a call is, to the bit and with its shape, the tensor that it was given."""
        outputs = list(self.outputs(call))
        mark = self.mark(outputs[0]) if len(outputs) == 1 else None
        return mark is not None and any(self.mark(row) == mark for row in self.inputs(call))

    def only_arranges(self, call: int) -> bool:
        """Whether the one output of a call has the elements of an input, by their extremes and their norm."""
        outputs, columns = list(self.outputs(call)), self.columns
        told = [(columns.max[row], columns.min[row], columns.norm[row]) for row in (*outputs, *self.inputs(call))]
        return len(outputs) == 1 and told[0] in told[1:]

    @cached_property
    def number(self) -> dict[str, int]:
        """A call's place by its name."""
        return {text: at for at, text in enumerate(self.columns.names)}

    @cached_property
    def parents(self) -> list[int]:
        """By call: the nearest recorded cell around it, -1 at the root."""
        found = []
        for at in range(len(self.names)):
            parent, seen = parent_of(self.dump, at), set[str]()
            while parent and parent not in self.number and parent not in seen:
                seen.add(parent)
                parent = self.dump.construct.get(parent)
            found.append(self.number.get(parent, -1) if parent else -1)
        return found

    @cached_property
    def inside(self) -> dict[int, list[int]]:
        """By cell: the calls recorded directly inside it, in order."""
        found: dict[int, list[int]] = defaultdict(list)
        for at, parent in enumerate(self.parents):
            if parent >= 0:
                found[parent].append(at)
        return found

    def origin(self, row: int) -> tuple[Origin, int]:
        """What made an input of a forward call: its kind, and for a call the row of that output, else -1."""
        known = self._origins.get(row)
        if known is None:
            known = self._origins[row] = self._found_origin(row)
        return known

    def _found_origin(self, row: int) -> tuple[Origin, int]:
        call = self.call_of(row)
        parents = tuple(self.columns.names[at] for at in self.around(call))
        source = self._sources.of(row, self.columns.names[call], parents)
        if source.origin != "call":
            return source.origin, -1
        made = self._row(source.call, source.part, source.path)
        if made < 0:
            return "code", -1  # the call is not among the records
        if PARTS[self.columns.part[made]] == "input":  # written to in place: the tensor is what that call left behind
            return "code", -1
        return "call", self.alias(made)

    def around(self, call: int) -> Iterator[int]:
        """The recorded cells around a call, innermost first."""
        seen = {call}
        while (call := self.parents[call]) >= 0 and call not in seen:
            seen.add(call)
            yield call

    def _row(self, call: str, part: str, path: tuple[str, ...]) -> int:
        at = self.number.get(call)
        if at is None:
            return -1
        known = self._places.get(at)
        if known is None:
            columns = self.columns
            known = self._places[at] = {}
            for row in range(columns.starts[at], columns.starts[at + 1]):
                known.setdefault((PARTS[columns.part[row]], columns.paths[columns.path[row]]), row)
        return known.get((part, path), -1)

    def alias(self, row: int) -> int:
        """The innermost record of the tensor that a cell returned, also as a gradient; the row itself for any other."""
        known = self._aliases.get(row)
        if known is None:
            known, seen = row, {row}
            while (inner := self._inner(known)) >= 0 and inner not in seen:
                seen.add(inner)
                known = inner
            self._aliases[row] = known
        return known

    def _inner(self, row: int) -> int:
        """The output of a call inside a cell that an output of the cell is, by content."""
        call = self.call_of(row)
        if self.names[call].kind == "api" or (mark := self._sources.mark(row)) is None:
            return -1
        direction = self.names[call].direction
        for at in reversed(list(self.below(call))):
            if self.names[at].direction == direction:
                for made in self.outputs(at):
                    if self._sources.mark(made) == mark:
                        return made
        return -1

    def below(self, call: int) -> Iterator[int]:
        """The calls directly inside a cell's call; for gradients of its parameters, of all its backward calls."""
        if self.names[call].kind != "parameters_grad":
            yield from self.inside.get(call, ())
            return
        for cell in self._backward.get(self.names[call].stem, ()):
            yield from self.inside.get(cell, ())

    @cached_property
    def _backward(self) -> dict[str, list[int]]:
        """By stem of a cell: its backward calls."""
        found: dict[str, list[int]] = defaultdict(list)
        for at, name in enumerate(self.names):
            if name.kind == "cell" and name.direction == "backward":
                found[name.stem].append(at)
        return found

    @cached_property
    def users(self) -> dict[int, list[int]]:
        """By output of a forward call: the inputs of innermost forward calls that it is.

        A call that returns its input itself (a dropout that is off) has no user of its own: the tensor's users are told
        of the call that made it, and the gradient passes this one by.
        """
        every = self._every_user
        return {
            made: [row for row in rows if not self._returns_itself(row, every)] or rows if len(rows) > 1 else rows
            for made, rows in every.items()
        }

    @cached_property
    def _every_user(self) -> dict[int, list[int]]:
        """As `users`, with calls that return their input itself."""
        found: dict[int, list[int]] = defaultdict(list)
        for call, name in enumerate(self.names):
            if name.direction != "forward" or call in self.inside:
                continue
            for row in self.inputs(call):
                kind, made = self.origin(row)
                if kind == "call":
                    found[made].append(row)
        return found

    def _returns_itself(self, row: int, found: Mapping[int, list[int]]) -> bool:
        mark, outputs = self._sources.mark(row), list(self.outputs(self.call_of(row)))
        return (
            mark is not None
            and len(outputs) == 1
            and outputs[0] not in found
            and self._sources.mark(outputs[0]) == mark
        )

    def gradient(self, row: int) -> int:
        """The gradient with respect to an input of a forward call, as its backward call returned it; -1 without one.

        Backward calls return one gradient for each argument: the positional ones in order, then those by keyword.
        """
        call = self.call_of(row)
        back = self.backward(call)
        if back < 0:
            return -1
        columns = self.columns
        tops: dict[str, int] = {}
        for at in range(columns.starts[call], columns.starts[call + 1]):
            if columns.part[at] == _INPUT:
                tops.setdefault(columns.paths[columns.path[at]][0], len(tops))
        path = columns.paths[columns.path[row]]
        return self._row(columns.names[back], "output", (str(tops[path[0]]), *path[1:]))

    def is_floating(self, call: int) -> bool:
        """Whether a call returns a floating tensor."""
        looks, look = self.columns.looks, self.columns.look
        return any(family(looks[look[row]][1]) in ("float", "complex") for row in self.outputs(call))

    def backward(self, call: int) -> int:
        """The backward call of a forward call; -1 where none was recorded, and for a call that is no forward one."""
        back = self.number.get(names.counterpart(self.columns.names[call], "backward"), -1)
        return -1 if back == call else back

    def argument(self, row: int) -> int:
        """The input of the forward call that a gradient of its backward call is with respect to; -1 for none."""
        call = self.call_of(row)
        forward = self.number.get(names.counterpart(self.columns.names[call], "forward"), call)
        if forward == call:
            return -1
        return next((at for at in self.inputs(forward) if self.gradient(at) == row), -1)

    def values(self, call: int) -> Iterator[object]:
        """The arguments of a call, or of the forward of a backward call, that are no tensors."""
        forward = self.number.get(names.counterpart(self.columns.names[call], "forward"), call)
        for row in range(self.columns.starts[forward], self.columns.starts[forward + 1]):
            if self.columns.part[row] == _INPUT and row in self.columns.values:
                yield self.columns.values[row]

    def takers(self, row: int) -> list[int]:
        """Of an incoming gradient: the inputs of forward calls that the tensor is whose gradient it is, also of calls
        that return it itself."""
        made = self._whose_gradient(row)
        return [] if made < 0 else self._every_user.get(made, [])

    def _whose_gradient(self, row: int) -> int:
        """The output of the forward call that an incoming gradient is with respect to; -1 for none."""
        call = self.call_of(row)
        forward = self.number.get(names.counterpart(self.columns.names[call], "forward"))
        if forward is None or forward == call:
            return -1
        made = self._row(self.columns.names[forward], "output", self.columns.paths[self.columns.path[row]])
        return -1 if made < 0 else self.alias(made)

    def contributions(self, row: int) -> tuple[list[int], bool]:
        """What an incoming gradient of a backward call is the sum of: the rows of its users' input gradients.

        The second says whether each recorded user has one: then the sum is whole, if nothing unrecorded used the
        tensor.
        """
        made = self._whose_gradient(row)
        users = [] if made < 0 else self.users.get(made, [])
        found = [self.gradient(user) for user in users]
        is_whole = bool(users) and all(at >= 0 for at in found)
        return [at for at in found if at >= 0 and self.columns.kind[at] == TENSOR], is_whole
