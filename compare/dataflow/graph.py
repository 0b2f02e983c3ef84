"""The dataflow graph of one dump, over its tensor records: what made each input, and what uses each output.

| edge | from | to | found by |
|---|---|---|---|
| forward | an output | an input of a later call | the dump's `from` (reference/format.md page 2.3), else content |
| alias | an output of a cell | the output of the call inside it that wrote it | content |
| backward | an input gradient of each user of a tensor | the incoming gradient of its maker | forward edges |

Content: an input whose digest, or shape, dtype and statistics, equal those of an earlier result of the same dump came
from there. That serves the other tool's dumps, and inputs that nothing tracked.

A cell inside which calls are recorded makes nothing itself: what uses its output uses the output of the call inside,
and its own use of an input is that of the calls inside. So edges lead between the innermost calls.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from msprobe.base import names
from msprobe.base.names import Name
from msprobe.compare.core.standard import canonical, family
from msprobe.store.record import PARTS, TENSOR, Calls, Dump, Part

Origin = Literal["call", "parameter", "leaf", "code", "unknown"]

Mark = tuple[object, ...]
"""What the records of one tensor have in common."""

_INPUT, _OUTPUT, _PARAMETERS = (PARTS.index(part) for part in ("input", "output", "parameters"))
_CALL = re.compile(r"^call (?P<call>.+)\.(?P<part>input|output)(?P<path>(?:\.[^.]+)*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """Where an input came from. `call`, `part` and `path` name a result, `text` a parameter."""

    origin: Origin
    call: str = ""
    part: str = ""
    path: tuple[str, ...] = ()
    text: str = ""


UNKNOWN = Source("unknown")


def _declared(source: str) -> Source:
    """The source that the dump itself names in `from`."""
    if source in ("leaf", "code"):
        return Source(source)  # type: ignore[arg-type]  # the two words above
    if source.startswith("parameter "):
        return Source("parameter", text=source.removeprefix("parameter "))
    if m := _CALL.match(source):
        return Source("call", m["call"], m["part"], tuple(m["path"].split(".")[1:]))
    return UNKNOWN


class Graph:
    """The dataflow graph of a dump. Rows and calls are places in its columns; values are looked up once asked."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.columns = dump.columns
        self._origins: dict[int, tuple[Origin, int]] = {}
        self._places: dict[int, dict[tuple[str, tuple[str, ...]], int]] = {}
        self._aliases: dict[int, int] = {}

    @cached_property
    def names(self) -> list[Name]:
        """The names of all calls, parsed."""
        return [names.parse(text) for text in self.columns.names]

    @cached_property
    def number(self) -> dict[str, int]:
        """A call's place by its name."""
        return {text: at for at, text in enumerate(self.columns.names)}

    def call_of(self, row: int) -> int:
        """The call that a row belongs to."""
        return bisect_right(self.columns.starts, row) - 1

    def rows(self, call: int) -> range:
        """The rows of a call."""
        return range(self.columns.starts[call], self.columns.starts[call + 1])

    def path(self, row: int) -> tuple[str, ...]:
        """Where a row stands within its part of the call."""
        return self.columns.paths[self.columns.path[row]]

    def tensors(self, call: int, part: int) -> Iterator[int]:
        """The rows of the tensors of one part of a call."""
        columns = self.columns
        return (row for row in self.rows(call) if columns.part[row] == part and columns.kind[row] == TENSOR)

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

    @cached_property
    def _looks(self) -> list[Mark]:
        return [(shape, canonical(dtype)) for _, dtype, shape in self.columns.looks]

    def mark(self, row: int) -> Mark | None:
        """Shape and dtype with the digest or the statistics; None where a record has nothing to recognise it by."""
        columns = self.columns
        if columns.kind[row] != TENSOR:
            return None
        look = self._looks[columns.look[row]]
        if columns.digest[row]:
            return (*look, columns.digest[row])
        four: Mark = (columns.max[row], columns.min[row], columns.mean[row], columns.norm[row])
        if row in columns.odd:
            s = columns.odd[row]
            four = (None,) if s is None else (s.max, s.min, s.mean, s.norm)
        return None if four[0] is None or four[0] != four[0] else (*look, *four)

    def hands_on(self, call: int) -> bool:
        """Whether the one output of a call is, to the bit and with its shape, a tensor that it received."""
        outputs = list(self.outputs(call))
        mark = self.mark(outputs[0]) if len(outputs) == 1 else None
        return mark is not None and any(self.mark(row) == mark for row in self.inputs(call))

    def only_arranges(self, call: int) -> bool:
        """Whether the one output of a call has the elements of an input, by their extremes and their norm."""
        outputs, columns = list(self.outputs(call)), self.columns
        told = [(columns.max[row], columns.min[row], columns.norm[row]) for row in (*outputs, *self.inputs(call))]
        return len(outputs) == 1 and told[0] in told[1:]

    @cached_property
    def parents(self) -> list[int]:
        """By call: the nearest recorded cell around it, -1 at the root."""
        nearest: dict[str | None, int] = {}
        found = []
        for at in range(len(self.columns.names)):
            parent = parent_of(self.dump, at)
            if parent not in nearest:
                around = upwards(parent, self.dump.construct)
                nearest[parent] = next((self.number[cell] for cell in around if cell in self.number), -1)
            found.append(nearest[parent])
        return found

    @cached_property
    def inside(self) -> dict[int, list[int]]:
        """By cell: the calls recorded directly inside it, in order."""
        found: dict[int, list[int]] = defaultdict(list)
        for at, parent in enumerate(self.parents):
            if parent >= 0:
                found[parent].append(at)
        return found

    def around(self, call: int) -> Iterator[int]:
        """The recorded cells around a call, innermost first."""
        seen = {call}
        while (call := self.parents[call]) >= 0 and call not in seen:
            seen.add(call)
            yield call

    def source(self, row: int, call: int = -1) -> Source:
        """Where an input came from: by the dump's `from`, else by content.

        `call` is the call that received it, where that is not the one that its row belongs to.
        """
        call = self.call_of(row) if call < 0 else call
        if self.columns.part[row] == _PARAMETERS:
            return Source("parameter", text=self._parameter_name(row, call))
        declared = _declared(self.columns.source[row])
        if declared.origin != "unknown" or (mark := self.mark(row)) is None:
            return declared
        parameters = [(self.call_of(at), at) for at in self._marked_parameters.get(mark, ())]
        around = set(self.around(call)) if parameters else ()
        if (own := next((at for owner, at in parameters if owner in around), -1)) >= 0:
            return Source("parameter", text=self._parameter_name(own, self.call_of(own)))
        results = self._marked_results.get((self.names[call].direction, mark), [])
        if before := bisect_left(results, self.columns.starts[call]):
            made = results[before - 1]
            return Source("call", self.columns.names[self.call_of(made)], "output", self.path(made))
        return (
            Source("parameter", text=self._parameter_name(parameters[0][1], parameters[0][0]))
            if parameters
            else UNKNOWN
        )

    def _parameter_name(self, row: int, call: int) -> str:
        return ".".join(filter(None, (self.names[call].path, *self.path(row))))

    @cached_property
    def _marked_parameters(self) -> dict[Mark, list[int]]:
        """The rows of the parameters that look alike."""
        found: dict[Mark, list[int]] = defaultdict(list)
        for row, mark in self._marked("parameters"):
            found[mark].append(row)
        return found

    @cached_property
    def _marked_results(self) -> dict[tuple[str, Mark], list[int]]:
        """The rows of the outputs that look alike, by direction, rising."""
        found: dict[tuple[str, Mark], list[int]] = defaultdict(list)
        for row, mark in self._marked("output"):
            found[self.names[self.call_of(row)].direction, mark].append(row)
        return found

    def _marked(self, part: Part) -> Iterator[tuple[int, Mark]]:
        wanted = PARTS.index(part)
        for row, code in enumerate(self.columns.part):
            if code == wanted and (mark := self.mark(row)) is not None:
                yield row, mark

    def origin(self, row: int) -> tuple[Origin, int]:
        """What made an input of a forward call: its kind, and for a call the row of that output, else -1."""
        known = self._origins.get(row)
        if known is None:
            known = self._origins[row] = self._found_origin(row)
        return known

    def _found_origin(self, row: int) -> tuple[Origin, int]:
        source = self.source(row)
        if source.origin != "call":
            return source.origin, -1
        # "code": the call was not recorded, or wrote to its input in place, and the tensor is what that left behind.
        made = -1 if source.part == "input" else self.row_of(source.call, source.part, source.path)
        return ("code", -1) if made < 0 else ("call", self.alias(made))

    def row_of(self, call: str, part: str, path: tuple[str, ...]) -> int:
        """The row of a record by its call and place; -1 where it was not recorded."""
        at = self.number.get(call)
        if at is None:
            return -1
        known = self._places.get(at)
        if known is None:
            known = self._places[at] = {}
            for row in self.rows(at):
                known.setdefault((PARTS[self.columns.part[row]], self.path(row)), row)
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
        if self.names[call].kind == "api" or (mark := self.mark(row)) is None:
            return -1
        direction = self.names[call].direction
        for at in reversed(list(self.below(call))):
            if self.names[at].direction == direction:
                for made in self.outputs(at):
                    if self.mark(made) == mark:
                        return made
        return -1

    def below(self, call: int) -> Iterator[int]:
        """The calls directly inside a cell's call; for gradients of its parameters, of all its backward calls."""
        cells = [call]
        if self.names[call].kind == "parameters_grad":
            cells = self._backward.get(self.names[call].stem, [])
        for cell in cells:
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
        mark, outputs = self.mark(row), list(self.outputs(self.call_of(row)))
        return mark is not None and len(outputs) == 1 and outputs[0] not in found and self.mark(outputs[0]) == mark

    def gradient(self, row: int) -> int:
        """The gradient with respect to an input of a forward call, as its backward call returned it; -1 without one.

        Backward calls return one gradient for each argument: the positional ones in order, then those by keyword.
        """
        call = self.call_of(row)
        back = self.backward(call)
        if back < 0:
            return -1
        tops: dict[str, int] = {}
        for at in self.rows(call):
            if self.columns.part[at] == _INPUT:
                tops.setdefault(self.path(at)[0], len(tops))
        first, *rest = self.path(row)
        return self.row_of(self.columns.names[back], "output", (str(tops[first]), *rest))

    def is_floating(self, call: int) -> bool:
        """Whether a call returns a floating tensor."""
        looks, look = self.columns.looks, self.columns.look
        return any(family(looks[look[row]][1]) in ("float", "complex") for row in self.outputs(call))

    def backward(self, call: int) -> int:
        """The backward call of a forward call; -1 where none was recorded, and for a call that is no forward one."""
        return self._counterpart(call, "backward")

    def forward(self, call: int) -> int:
        """The forward call of a backward call; -1 where none was recorded, and for a call that is no backward one."""
        return self._counterpart(call, "forward")

    def _counterpart(self, call: int, direction: Literal["forward", "backward"]) -> int:
        found = self.number.get(names.counterpart(self.columns.names[call], direction), -1)
        return -1 if found == call else found

    def argument(self, row: int) -> int:
        """The input of the forward call that a gradient of its backward call is with respect to; -1 for none."""
        forward = self.forward(self.call_of(row))
        return -1 if forward < 0 else next((at for at in self.inputs(forward) if self.gradient(at) == row), -1)

    def values(self, call: int) -> Iterator[object]:
        """The arguments of a call, or of the forward of a backward call, that are no tensors."""
        forward = self.forward(call)
        for row in self.rows(call if forward < 0 else forward):
            if self.columns.part[row] == _INPUT and row in self.columns.values:
                yield self.columns.values[row]

    def takers(self, row: int) -> list[int]:
        """Of an incoming gradient: the inputs of forward calls that the tensor is whose gradient it is, also of calls
        that return it itself."""
        return self._every_user.get(self._whose_gradient(row), [])

    def _whose_gradient(self, row: int) -> int:
        """The output of the forward call that an incoming gradient is with respect to; -1 for none."""
        forward = self.forward(self.call_of(row))
        made = -1 if forward < 0 else self.row_of(self.columns.names[forward], "output", self.path(row))
        return -1 if made < 0 else self.alias(made)

    def contributions(self, row: int) -> tuple[list[int], bool]:
        """What an incoming gradient of a backward call is the sum of: the rows of its users' input gradients.

        The second says whether each recorded user has one: then the sum is whole, if nothing unrecorded used the
        tensor.
        """
        found = [self.gradient(user) for user in self.users.get(self._whose_gradient(row), [])]
        is_whole = bool(found) and all(at >= 0 for at in found)
        return [at for at in found if at >= 0 and self.columns.kind[at] == TENSOR], is_whole


def parent_of(dump: Dump, call: int) -> str | None:
    """The cell around a call, without the call's records where they are not made yet."""
    calls = dump.calls
    told = calls.parent(call) if isinstance(calls, Calls) else calls[call].parent
    return told or dump.construct.get(dump.columns.names[call])


def upwards(parent: str | None, construct: Mapping[str, str | None]) -> tuple[str, ...]:
    """A cell's call and those of the cells around it, innermost first."""
    found: dict[str, None] = {}
    while parent and parent not in found:
        found[parent] = None
        parent = construct.get(parent)
    return tuple(found)
