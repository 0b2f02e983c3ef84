"""The dataflow graph of one dump, over its tensor records: the producer of each input, and the users of each output.

| edge | from | to | found by |
|---|---|---|---|
| forward | an output | an input of a later call | the dump's `from` (reference/format.md page 2.3), otherwise content |
| alias | an output of a cell | the output of the call inside it that wrote it | content |
| backward | an input gradient of each user of a tensor | the incoming gradient of its producer | forward edges |

Content: an input whose digest, or shape, dtype and statistics, equal those of an earlier result of the same dump comes
from there. This is for dumps of mindstudio-probe, and for inputs that were not tracked.

A cell inside which calls are recorded does not produce anything itself: users of its output use the output of the call
inside, and its own use of an input is that of the calls inside. So edges connect the innermost calls.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from msprobe.base.memo import cached_by_identity
from msprobe.compare.core.exchanges import word_of
from msprobe.compare.core.standard import family
from msprobe.compare.core.tensor import UNKNOWN, Identity, Origin, Source, exact_numbers, source_of, tensor_of
from msprobe.store.record import INPUT, OUTPUT, PARAMETERS, PARTS, TENSOR, Dump

Ints = NDArray[np.int64]

_DIRECTIONS = ("forward", "backward", "")

_NO_ROW, _ASK = -1, -2
"""Special values in columns of rows: there is no row, or it has to be looked up individually."""

_UNKNOWN_ORIGIN: tuple[Origin, int] = ("unknown", -1)

_MAX_DEPTH = 256
"""Maximum depth of nested cells that are followed together; a reader cuts deeper ones."""


_Node = TypeVar("_Node", bound=Hashable)


def traverse(start: Iterable[_Node], following: Callable[[_Node], Iterable[_Node]]) -> Iterator[_Node]:
    """Yield nodes, and all that follow from them, each once; the last ones that were found come first."""
    waiting = list(dict.fromkeys(start))
    seen = set(waiting)
    while waiting:
        yield (node := waiting.pop())
        for one in following(node):
            if one not in seen:
                seen.add(one)
                waiting.append(one)


@cached_by_identity
def _numbers(dump: Dump) -> Ints:
    return exact_numbers(dump.columns)


@cached_by_identity
def _made_by_content(dump: Dump) -> NDArray[np.int32]:
    return Graph(dump)._find_made_by_content()


class Graph:
    """The dataflow graph of a dump. Rows and calls are positions in its columns; values are looked up on first use."""

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.columns, self.names = dump.columns, dump.names
        # An element of a memoryview is read faster than one of an array, and is a Python number.
        self.call_of = np.repeat(np.arange(len(dump.names)), np.diff(dump.columns.starts)).data
        self._origins: dict[int, tuple[Origin, int]] = {}
        self._places: dict[int, dict[tuple[str, tuple[str, ...]], int]] = {}
        self._aliases: dict[int, int] = {}
        self._gradients: dict[int, dict[int, int]] = {}  # by call
        self._contributions: dict[int, tuple[list[int], bool]] = {}

    def inputs(self, call: int) -> Iterator[int]:
        """Return the rows of the tensors that a call received: arguments, incoming gradients."""
        return self.columns.tensors(call, INPUT)

    def outputs(self, call: int) -> Iterator[int]:
        """Return the rows of the tensors that a call returned: results, gradients with respect to its inputs."""
        return self.columns.tensors(call, OUTPUT)

    def has_inputs(self, call: int) -> bool:
        """Return whether a call received a tensor."""
        return next(self.inputs(call), -1) >= 0

    def has_outputs(self, call: int) -> bool:
        """Return whether a call returned a tensor."""
        return next(self.outputs(call), -1) >= 0

    def mark(self, row: int) -> Identity | None:
        """Return a key that is equal for the records of this dump that are one tensor."""
        tensor = tensor_of(self.columns, row)
        return None if tensor is None else tensor.exact

    @cached_property
    def numbers(self) -> "memoryview[int]":
        """Return the marks of all rows as numbers; -1 for tensors that are unique."""
        return _numbers(self.dump).data

    def passes_through(self, call: int) -> bool:
        """Return whether the only output of a call is bitwise equal, with its shape, to a tensor that it received."""
        outputs = list(self.outputs(call))
        mark = self.numbers[outputs[0]] if len(outputs) == 1 else -1
        return mark >= 0 and any(self.numbers[row] == mark for row in self.inputs(call))

    def only_arranges(self, call: int) -> bool:
        """Return whether the only output of a call has the elements of an input, by their extremes and their norm."""
        outputs, columns = list(self.outputs(call)), self.columns
        values = [(columns.max[row], columns.min[row], columns.norm[row]) for row in (*outputs, *self.inputs(call))]
        return len(outputs) == 1 and values[0] in values[1:]

    @cached_property
    def inside(self) -> dict[int, list[int]]:
        """Return by cell the calls recorded directly inside it, in order."""
        found: dict[int, list[int]] = defaultdict(list)
        for at, parent in enumerate(self.dump.parents):
            if parent >= 0:
                found[parent].append(at)
        return found

    def around(self, call: int) -> Iterator[int]:
        """Yield the recorded cells around a call, innermost first."""
        seen = {call}
        while (call := self.dump.parents[call]) >= 0 and call not in seen:
            seen.add(call)
            yield call

    def source(self, row: int, call: int = -1) -> Source:
        """Return the origin of an input: by the dump's `from`, otherwise by content.

        `call` is the call that received it, if that is not the one that its row belongs to.
        """
        columns = self.columns
        if call in (-1, self.call_of[row]) and self._made_by_content[row] == _NO_ROW:
            return UNKNOWN
        if columns.part[row] == PARAMETERS:
            return self._parameter(row)
        declared = source_of(columns.source[row])
        if declared.origin not in ("unknown", "leaf") or (mark := self.numbers[row]) < 0:
            return declared
        is_own, call = call in (-1, self.call_of[row]), self.call_of[row] if call < 0 else call
        if declared.origin == "leaf":
            # A tensor that was received from another rank, and then requires a gradient, is a leaf.
            made = self._made[row]
            is_received = made >= 0 and word_of(columns.names[self.call_of[made]])
            return self._result(made) if is_received else declared
        # Zeros and ones do not identify a parameter.
        is_constant = self._names_parameters and columns.max[row] == columns.min[row]
        parameters = [] if is_constant else self._parameters.get(mark, [])
        around = set(self.around(call)) if parameters else ()
        if (own := next((at for at in parameters if self.call_of[at] in around), -1)) >= 0:
            return self._parameter(own)
        made = self._made[row] if is_own else int(self._made_before(np.array([row]), np.array([call]))[0])
        if made >= 0:
            return self._result(made)
        return self._parameter(parameters[0]) if parameters else UNKNOWN

    def _result(self, row: int) -> Source:
        """Return the output of a call as the source of an input."""
        return Source("call", self.columns.names[self.call_of[row]], "output", self.columns.path_of(row))

    def _parameter(self, row: int) -> Source:
        return Source("parameter", text=self.dump.parameter_name(row))

    @cached_property
    def _names_parameters(self) -> bool:
        """Return whether the dump has the sources of inputs that are parameters; other inputs are buffers or constants
        then, although they may have the elements of a parameter."""
        return any(source.startswith("parameter ") for source in set(self.columns.source))

    @cached_property
    def _parameters(self) -> dict[int, list[int]]:
        """Return by mark the parameters that are one tensor, in increasing order."""
        found: dict[int, list[int]] = defaultdict(list)
        for row in np.flatnonzero(np.frombuffer(self.columns.part, np.uint8) == PARAMETERS).tolist():
            found[self.numbers[row]].append(row)
        return found

    def _made_before(self, rows: Ints, calls: Ints) -> Ints:
        """Return for each row with a mark the last output with that mark, of a call of the same direction before a
        call; -1 for none."""
        if not len(self._results):
            return np.full(len(rows), -1)
        size, keys = len(self.columns), self._keys(rows, calls)
        bounds = keys * size + np.asarray(self.columns.starts)[calls]
        at = np.searchsorted(self._results, bounds) - 1
        made, found = np.divmod(self._results[at], size)
        return np.where((at >= 0) & (made == keys), found, -1)

    @cached_property
    def _made(self) -> "memoryview[int]":
        """Return by row the last output before its call that has its mark; -1 for none."""
        found, rows = np.full(len(self.columns), -1), np.flatnonzero(np.asarray(self.numbers) >= 0)
        found[rows] = self._made_before(rows, np.asarray(self.call_of)[rows])
        return found.data

    def _keys(self, rows: Ints, calls: Ints) -> Ints:
        """Return the keys of rows: their marks with the directions of their calls."""
        return np.asarray(self.numbers)[rows] * len(_DIRECTIONS) + self._directions[calls]

    @cached_property
    def _directions(self) -> Ints:
        """Return by call the position of its direction in `_DIRECTIONS`."""
        return np.array([_DIRECTIONS.index(name.direction) for name in self.names], np.int64)

    @cached_property
    def _results(self) -> Ints:
        """Return for every output that has a mark its key and its row, as one number, in increasing order."""
        rows = np.flatnonzero((np.frombuffer(self.columns.part, np.uint8) == OUTPUT) & (np.asarray(self.numbers) >= 0))
        return np.sort(self._keys(rows, np.asarray(self.call_of)[rows]) * len(self.columns) + rows)

    def origin(self, row: int) -> tuple[Origin, int]:
        """Return the producer of an input of a forward call: its kind, and for a call the row of that output, otherwise
        -1."""
        made = self._made_by_content[row]
        if made == _NO_ROW:
            return _UNKNOWN_ORIGIN
        if made >= 0:
            return "call", self.alias(made)
        known = self._origins.get(row)
        if known is None:
            known = self._origins[row] = self._told_origin(row)
        return known

    def is_untraced(self, row: int) -> bool:
        """Return whether code that was not recorded produced an input of a forward call."""
        return self.origin(row)[0] in ("unknown", "code")

    @cached_property
    def untraced_inputs(self) -> dict[int, list[int]]:
        """Return by forward call, in order, its inputs that `is_untraced`; without calls that have none."""
        forward = (call for call, name in enumerate(self.names) if name.direction == "forward")
        found = ((call, [row for row in self.inputs(call) if self.is_untraced(row)]) for call in forward)
        return {call: rows for call, rows in found if rows}

    @cached_property
    def _made_by_content(self) -> "memoryview[int]":
        """Return the result of `_find_made_by_content`, which is computed once for a dump."""
        return _made_by_content(self.dump).data

    def _find_made_by_content(self) -> NDArray[np.int32]:
        """Return by row the output that is the same tensor by content alone, `_NO_ROW` for none; `_ASK` if the dump
        contains more."""
        columns = self.columns
        are_told = np.frombuffer(columns.part, np.uint8) == PARAMETERS
        are_told |= np.fromiter(map(bool, columns.source), bool, len(columns))
        are_told |= np.isin(np.asarray(self.numbers), list(self._parameters))
        return np.where(are_told, _ASK, np.asarray(self._made)).astype(np.int32)

    def are_of_unknown_origin(self, rows: Ints) -> NDArray[np.bool_]:
        """Return whether neither the dump nor the content of inputs shows their origin: their `source` is unknown."""
        found: NDArray[np.bool_] = np.asarray(self._made_by_content)[rows] == _NO_ROW
        return found

    def _told_origin(self, row: int) -> tuple[Origin, int]:
        source = self.source(row)
        if source.origin != "call":
            return source.origin, -1
        # "code": the call was not recorded, or wrote to its input in place, and the tensor is the result of that.
        made = -1 if source.part == "input" else self.row_of(source.call, source.part, source.path)
        return ("code", -1) if made < 0 else ("call", self.alias(made))

    def row_of(self, call: str, part: str, path: tuple[str, ...]) -> int:
        """Return the row of a record by its call and place; -1 if it was not recorded."""
        at = self.dump.place.get(call)
        if at is None:
            return -1
        known = self._places.get(at)
        if known is None:
            known = self._places[at] = {}
            for row in self.columns.rows(at):
                known.setdefault((PARTS[self.columns.part[row]], self.columns.path_of(row)), row)
        return known.get((part, path), -1)

    def alias(self, row: int) -> int:
        """Return the innermost record of the tensor that a cell returned, also as a gradient; the row itself for any
        other."""
        if (found := self._by_cells[row]) >= 0:
            return found
        known = self._aliases.get(row)
        if known is None:
            known, seen = row, {row}
            while (inner := self._inner(known)) >= 0 and inner not in seen:
                seen.add(inner)
                known = inner
            self._aliases[row] = known
        return known

    def aliases(self, rows: Ints) -> Ints:
        """Return `alias` of many rows."""
        found: Ints = np.asarray(self._by_cells)[rows]
        for at in np.flatnonzero(found < 0).tolist():
            found[at] = self.alias(int(rows[at]))
        return found

    @cached_property
    def _by_cells(self) -> "memoryview[int]":
        """Return by row `alias`, as far as it depends on cells alone; `_ASK` for all others."""
        inner, found = np.array(self._returned_inside), np.arange(len(self.columns))
        are_gradients = np.array([name.kind == "parameters_grad" for name in self.names] or [False])
        inner[are_gradients[np.asarray(self.call_of)]] = _ASK
        for _ in range(_MAX_DEPTH):
            following = inner[found]
            if not (are_inside := following >= 0).any():
                break
            found = np.where(are_inside, following, found)
        found[inner[found] != _NO_ROW] = _ASK
        return found.data

    def _inner(self, row: int) -> int:
        """Return the output of a call inside a cell that is the same tensor as an output of the cell, by content."""
        call = self.call_of[row]
        if self.names[call].kind != "parameters_grad":
            return self._returned_inside[row]
        if (mark := self.numbers[row]) < 0:
            return -1
        direction = self.names[call].direction
        for at in reversed(list(self.below(call))):
            if self.names[at].direction == direction:
                for made in self.outputs(at):
                    if self.numbers[made] == mark:
                        return made
        return -1

    @cached_property
    def _returned_inside(self) -> "memoryview[int]":
        """Return by row the first output with its mark of the last call that has one.

        Only calls directly inside its own, in the same direction; -1 for none.
        """
        size, marks, calls = len(self.columns), np.asarray(self.numbers), np.asarray(self.call_of)
        found = np.full(size, -1)
        cells = np.array(self.dump.parents, np.int64)[calls]
        are_outputs = (np.frombuffer(self.columns.part, np.uint8) == OUTPUT) & (marks >= 0)
        made = np.flatnonzero(are_outputs & (cells >= 0))
        # In the order of calls, and for one call from its last row to the first: the last one is the result.
        made = made[np.lexsort((-made, calls[made]))]
        are_apis = np.array([name.kind == "api" for name in self.names] or [True])
        rows = np.flatnonzero((marks >= 0) & ~are_apis[calls])
        if not len(made) or not len(rows):
            return found.data
        count = len(self.names)

        def key(rows: Ints, cells: Ints) -> Ints:
            """Return cell, mark and direction as one number."""
            whole: Ints = (marks[rows] * count + cells) * len(_DIRECTIONS) + self._directions[calls[rows]]
            return whole

        keys = key(made, cells[made])
        order = np.argsort(keys, kind="stable")
        keys, wanted = keys[order], key(rows, calls[rows])
        at = np.searchsorted(keys, wanted, side="right") - 1
        found[rows] = np.where((at >= 0) & (keys[at] == wanted), made[order[at]], -1)
        return found.data

    def below(self, call: int) -> Iterator[int]:
        """Yield the calls directly inside a cell's call; for gradients of its parameters, of all its backward calls."""
        cells = [call]
        if self.names[call].kind == "parameters_grad":
            cells = self._backward.get(self.names[call].stem, [])
        for cell in cells:
            yield from self.inside.get(cell, ())

    @cached_property
    def _backward(self) -> dict[str, list[int]]:
        """Return by stem of a cell its backward calls."""
        found: dict[str, list[int]] = defaultdict(list)
        for at, name in enumerate(self.names):
            if name.kind == "cell" and name.direction == "backward":
                found[name.stem].append(at)
        return found

    @cached_property
    def users(self) -> dict[int, list[int]]:
        """Return by output of a forward call the inputs of innermost forward calls that are the same tensor.

        A call that returns its input itself (a disabled dropout) has no users: the users of the tensor are listed for
        the call that produced it, and the gradient bypasses this call.
        """
        every = self._every_user
        return {
            made: [row for row in rows if not self._returns_itself(row, every)] or rows if len(rows) > 1 else rows
            for made, rows in every.items()
        }

    @cached_property
    def _every_user(self) -> dict[int, list[int]]:
        """Return `users`, including calls that return their input itself."""
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
        mark, outputs = self.numbers[row], list(self.outputs(self.call_of[row]))
        return mark >= 0 and len(outputs) == 1 and outputs[0] not in found and self.numbers[outputs[0]] == mark

    def gradient(self, row: int) -> int:
        """Return the gradient with respect to an input of a forward call, as its backward call returned it; -1 without
        one.

        Backward calls return one gradient for each argument: the positional ones in order, then those by keyword.
        """
        call = self.call_of[row]
        if (back := self._backward_of[call]) < 0:
            return -1
        if (known := self._gradients.get(call)) is None:
            known = self._gradients[call] = self._gradients_of(call, back)
        return known.get(row, -1)

    @cached_property
    def has_backward(self) -> bool:
        """Return whether any call has a backward call."""
        return max(self._backward_of, default=-1) >= 0

    @cached_property
    def _backward_of(self) -> Sequence[int]:
        """Return by call its backward call, -1 for none."""
        return self.dump.counterparts("backward")

    @cached_property
    def forwards(self) -> Ints:
        """Return by call its forward call; the call itself for any other, and if that was not recorded."""
        found = np.array(self.dump.counterparts("forward"), np.int64)
        return np.where(found < 0, np.arange(len(found)), found)

    def _gradients_of(self, call: int, back: int) -> dict[int, int]:
        """Return by input of a forward call its gradient; without those that were not recorded."""
        columns, found = self.columns, dict[int, int]()
        tops: dict[str, int] = {}
        name = columns.names[back]
        for row in columns.rows(call):
            if columns.part[row] == INPUT:
                first, *rest = columns.path_of(row)
                place = tops.setdefault(first, len(tops))
                if (at := self.row_of(name, "output", (str(place), *rest))) >= 0:
                    found[row] = at
        return found

    def is_floating(self, call: int) -> bool:
        """Return whether a call returns a floating-point tensor."""
        return any(family(self.columns.dtype(row)) in ("float", "complex") for row in self.outputs(call))

    def argument(self, row: int) -> int:
        """Return the input of the forward call that a gradient of its backward call is with respect to; -1 for none."""
        forward = self.dump.counterpart(self.call_of[row], "forward")
        return -1 if forward < 0 else next((at for at in self.inputs(forward) if self.gradient(at) == row), -1)

    def values(self, call: int) -> Iterator[object]:
        """Yield the arguments of a call, or of the forward of a backward call, that are not tensors."""
        forward = self.dump.counterpart(call, "forward")
        for row in self.columns.rows(call if forward < 0 else forward):
            if self.columns.part[row] == INPUT and row in self.columns.values:
                yield self.columns.values[row]

    def takers(self, row: int) -> list[int]:
        """Of an incoming gradient: the inputs of forward calls that the tensor is whose gradient it is, also of calls
        that return it itself."""
        return self._every_user.get(self._owner_of_gradient(row), [])

    def _owner_of_gradient(self, row: int) -> int:
        """Return the output of the forward call that an incoming gradient is with respect to; -1 for none."""
        forward = self.dump.counterpart(self.call_of[row], "forward")
        made = -1 if forward < 0 else self.row_of(self.columns.names[forward], "output", self.columns.path_of(row))
        return -1 if made < 0 else self.alias(made)

    @cached_property
    def constant_calls(self) -> frozenset[int]:
        """Return the forward calls whose results do not depend on data: on parameters, or on leaves with different
        elements."""
        columns, found = self.columns, set[int]()

        def is_constant(row: int) -> bool:
            kind, made = self.origin(row)
            if kind == "call":
                return self.call_of[made] in found
            return kind != "parameter" and bool(columns.max[row] == columns.min[row])

        for call, name in enumerate(self.names):
            if name.direction == "forward" and call not in self.inside and all(map(is_constant, self.inputs(call))):
                found.add(call)
        return frozenset(found)

    def receiver_of_gradient(self, row: int) -> tuple[int, int]:
        """Return the output of a forward call that an input gradient is with respect to, and the backward call that
        receives it; -1 for each that is not recorded."""
        argument = self.argument(row)
        kind, made = self.origin(argument) if argument >= 0 else _UNKNOWN_ORIGIN
        return (made, self.dump.counterpart(self.call_of[made], "backward")) if kind == "call" else (-1, -1)

    def incoming(self, made: int, back: int) -> Iterator[int]:
        """Return the incoming gradients of a backward call that are with respect to an innermost output of its
        forward."""
        return (row for row in self.inputs(back) if self._owner_of_gradient(row) == made)

    def contributions(self, row: int) -> tuple[list[int], bool]:
        """Return the rows of the input gradients of which an incoming gradient of a backward call is the sum.

        The second value is whether each recorded user has one: then the sum is complete, if no unrecorded operation
        used the tensor.
        """
        if (known := self._contributions.get(row)) is None:
            known = self._contributions[row] = self._found_contributions(row)
        return known

    def _found_contributions(self, row: int) -> tuple[list[int], bool]:
        found = [self.gradient(user) for user in self.users.get(self._owner_of_gradient(row), [])]
        is_whole = bool(found) and all(at >= 0 for at in found)
        return [at for at in found if at >= 0 and self.columns.kind[at] == TENSOR], is_whole
