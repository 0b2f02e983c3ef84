"""The operation of a call by its name, and a pair of calls as summaries of their records."""

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from functools import cache, cached_property
from typing import Protocol

import numpy as np

from msprobe.base import names
from msprobe.compare.dataflow.events import Event
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.match.pairs import Ints
from msprobe.replay.operations import REFLECTED, Kind, Operation, operation, plain_name
from msprobe.replay.own import APIS, CELLS
from msprobe.store.record import INPUT, OUTPUT, PARAMETERS, TENSOR, VALUE, Columns

from .identities import CallSummary
from .pairs import AlignedGraphs
from .summary import Summaries, Summary, SummaryColumns

_OTHER_NAMES = {
    "astype": "cast",
    "reduce_mean": "mean",
    "reduce_sum": "sum",
    "reduce_max": "amax",
    "reduce_min": "amin",
    "real_div": "div",
    "gather_elements": "gather",
    "batch_mat_mul": "bmm",
    "conv2_d": "conv2d",
    "conv3_d": "conv3d",
    "dense": "linear",
    "expand_dims": "unsqueeze",
}
"""Names of MindSpore, as separate words, that differ from PyTorch's."""

_ROUNDING_INSIDE = frozenset(
    (
        *("matmul", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "einsum"),
        *("outer", "tensordot", "kron", "linear", "attention", "addmm", "addmv", "addbmm", "baddbmm", "bilinear"),
        *("lstm", "gru", "lstm_cell", "gru_cell"),
    )
)
"""Operations whose kernels may round the operands of products to fewer bits."""

_CORRECTLY_ROUNDED = frozenset(
    ("add", "sub", "mul", "div", "neg", "abs", "sqrt", "relu", "relu6", "clamp", "maximum", "minimum", "sign", "square")
)
"""Elementwise functions for which all kernels give bitwise equal results."""

STEEP = frozenset(
    (
        *("softmax", "softmin", "log_softmax", "exp", "expm1", "exp2", "logsumexp", "cross_entropy", "sinh", "cosh"),
        *("sin", "cos", "tan"),
    )
)
"""Functions of exponentials and of angles: the relative error of the output is the absolute one of the input."""

JUMPING = frozenset(
    (
        *("relu", "relu6", "leaky_relu", "elu", "celu", "selu", "prelu", "abs", "hardtanh", "hardsigmoid", "hardswish"),
        *("hardshrink", "softshrink", "threshold", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "amax"),
        *("amin", "max", "min", "topk", "sort", "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool2d"),
    )
)
"""Functions whose derivative has jumps."""


def operation_of(name: names.Name) -> Operation | None:
    """Return the operation of a call of a function, primitive or layer; None if it is unknown."""
    return _operation(name.stem, name.kind == "cell")


@cache
def _operation(stem: str, is_cell: bool) -> Operation | None:
    name = stem.rpartition(".")[2]
    if is_cell:
        row = CELLS.get(name)
        return None if row is None else operation(row.operation)
    first = stem.partition(".")[0]
    key = f"Primitive.{name}" if first == "Primitive" else stem
    if key in APIS:
        return operation(APIS[key].operation)
    plain = plain_name(name)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()
    for known in (plain, words, plain.lower(), _OTHER_NAMES.get(words, "")):
        if found := operation(known):
            return found
    return None


def rounds_inside(known: Operation | None) -> bool:
    """Return whether the kernels of an operation may internally round to fewer bits than its output has."""
    return known is None or known.name in _ROUNDING_INSIDE


def shares_errors(known: Operation | None) -> bool:
    """Return whether the elements of a channel of an operation's output share one rounding error: a normalization over
    a batch multiplies all of them by one factor."""
    return known is not None and known.name == "batch_norm"


def is_exact(known: Operation | None) -> bool:
    """Return whether all kernels give bitwise equal results for an operation."""
    return known is not None and (known.name in _CORRECTLY_ROUNDED or known.kind is Kind.MOVES)


class SummariesOf(Protocol):
    """The summaries of rows: of one call, or of all calls of one form."""

    def of(self, row: int) -> Summary | None:
        """Return the summary of a row; None if it has none."""


@cache
def _function_of(stem: str, is_cell: bool) -> tuple[Operation | None, str, bool]:
    """Return the operation of a call, the name of its function, and whether its operands are exchanged."""
    known = _operation(stem, is_cell)
    name = stem.rpartition(".")[2] if is_cell else stem  # cells of one class at other places are alike
    return known, known.name if known else name, stem.rpartition(".")[2].strip("_") in REFLECTED


class CallSummaries:
    """A pair of innermost calls as summaries. `inputs` are the pairs of records from which its outputs are computed."""

    def __init__(self, aligned: AlignedGraphs, summaries: Sequence[SummariesOf], event: Event) -> None:
        self._aligned, self._summaries, self.place = aligned, summaries, event.place
        self.is_backward = event.direction == "backward"
        name = aligned.graphs[0].names[aligned.calls[0][event.place]]
        self.operation, self.function, self._is_reflected = _function_of(name.stem, name.kind == "cell")
        self.inputs = aligned.inputs_of(event)

    @property
    def has_one_output(self) -> bool:
        """Return whether a law over all outputs is a law of each."""
        return len(self._outputs[0]) == 1

    @cached_property
    def _outputs(self) -> list[dict[int, tuple[int, Summary | None]]]:
        sides = zip(self._aligned.graphs, self._summaries, self._aligned.calls, strict=True)
        return [_outputs(graph, of, calls[self.place], self.is_backward) for graph, of, calls in sides]

    def position(self, at: int) -> int:
        """Return the position, among those of `sides`, of the output in this row of the target; -1 if it is not
        there."""
        return self._outputs[0].get(at, (-1, None))[0]

    @cached_property
    def sides(self) -> tuple[CallSummary, CallSummary]:
        """Return the call as target and golden recorded it."""
        return self._side(0), self._side(1)

    def _side(self, side: int) -> CallSummary:
        graph, of, found = self._aligned.graphs[side], self._summaries[side], self._outputs[side].values()
        call = forward = self._aligned.calls[side][self.place]
        if self.is_backward:
            forward = graph.dump.counterpart(call, "forward")
        known = {at: summary for at, summary in found if summary is not None}
        return CallSummary(
            self.function,
            self.is_backward,
            _arguments(graph, of, forward) if forward >= 0 else (),
            [known.get(at) for at in range(max((at for at, _ in found), default=-1) + 1)],
            [one for row in graph.inputs(call) if (one := of.of(row))] if self.is_backward else (),
            self._is_reflected,
        )

    def form(self, forms: Sequence["Forms"]) -> Hashable:
        """Return the key of calls for which all laws are the same except for the values of the statistics."""
        found: list[Hashable] = [self.function, self.is_backward, self._is_reflected]
        for graph, calls, of in zip(self._aligned.graphs, self._aligned.calls, forms, strict=True):
            call = calls[self.place]
            forward = graph.dump.counterpart(call, "forward") if self.is_backward else -1
            found += [of.of_call(call), of.of_call(forward) if forward >= 0 else -1]
        return tuple(found)

    def offsets(self, row: int) -> tuple[int, int]:
        """Return the positions of the records of a pair among those of their calls."""
        t, g = (
            rows[row] - graph.columns.starts[calls[self.place]]
            for rows, graph, calls in zip(self._aligned.rows, self._aligned.graphs, self._aligned.calls, strict=True)
        )
        return t, g

    def added(self, row: int) -> tuple[float, float]:
        """Return, for a sum, the root mean square of the golden's result if its terms did not cancel out, and the
        relative rounding error of that; zeros for any other output.

        Sums are the gradient of a bias, and a sum or mean in forward. The gradient of a bias of keys cancels out before
        a softmax, and so does the mean of numbers that were normalized: the remainder is rounding. If n numbers are
        added one after the other, the partial sums are as large as the root of their number, so that their rounding
        errors of u / 2 add up to about u / 2 * sqrt(n / 2) of the sum.
        """
        out, side = self._summaries[1].of(self._aligned.rows[1][row]), self.sides[1]
        if self.is_backward:
            is_sum, terms = out is not None and len(out.shape) == 1, side.incoming
        else:
            is_sum, terms = self.function in ("sum", "mean"), side.tensors
        if out is None or not is_sum:
            return 0.0, 0.0
        sums = ((one.rms * math.sqrt(one.size / out.size), one.size / out.size) for one in terms if one.size > out.size)
        size, number = max(sums, default=(0.0, 0.0))
        is_mean = self.function == "mean" and not self.is_backward
        return size / number if number and is_mean else size, out.unit / 2 * math.sqrt(number / 2)


class Forms:
    """By row of one dump: a number that is equal for rows that laws treat alike, except for the values of the
    statistics."""

    def __init__(self, columns: Columns, of: Summaries) -> None:
        self._starts = columns.starts
        are_constant = columns.column("max") == columns.column("min")
        codes = np.frombuffer(columns.look, np.int32).astype(np.int64) * max(len(columns.paths), 1)
        codes += np.frombuffer(columns.path, np.int32)
        for column in (columns.part, columns.kind, columns.gradient):
            codes = codes * 8 + np.frombuffer(column, np.uint8)
        codes = codes * 4 + are_constant * 2 + of.are_known
        known: dict[Hashable, int] = {}
        for row in columns.values:
            key = columns.part[row], columns.kind[row], columns.path[row], repr(_number_of(columns, row))
            codes[row] = -1 - known.setdefault(key, len(known))
        self._codes = codes.data
        self._known: dict[bytes, int] = {}

    def of_call(self, call: int) -> int:
        """Return one number for the numbers of all rows of a call."""
        codes = self._codes[self._starts[call] : self._starts[call + 1]].tobytes()
        return self._known.setdefault(codes, len(self._known))


class ManySummaries:
    """`Summaries` of the first of many calls of one form, with the values of all of them as columns.

    `calls` are these calls and those that belong to them (their forwards): each a column, whose first item represents
    all.
    """

    def __init__(self, of: Summaries, graph: Graph, calls: Iterable[Ints]) -> None:
        self._of, self._graph = of, graph
        starts = np.asarray(graph.columns.starts)
        self._starts = {column.item(0): starts[column] for column in calls}

    def of(self, row: int) -> Summary | None:
        """Return the summaries of a row of the first call and of the same rows of all others."""
        if (first := self._of.of(row)) is None:
            return None
        starts = self._starts[self._graph.call_of[row]]
        found = self._of.statistics(starts + (row - starts[0]))
        return SummaryColumns(*found, *first[4:])  # type: ignore[arg-type]  # columns instead of numbers


def _arguments(graph: Graph, of: SummariesOf, call: int) -> list[Summary | float]:
    """Return the arguments in order; NaN for one that is neither a tensor nor a number."""
    columns, found = graph.columns, list[Summary | float]()
    part, kind = columns.part, columns.kind
    for row in columns.rows(call):
        if part[row] not in (INPUT, PARAMETERS):
            continue
        if kind[row] == TENSOR:
            found.append(of.of(row) or math.nan)
            continue
        found.append(_number_of(columns, row) if kind[row] == VALUE else math.nan)
    return found


def _number_of(columns: Columns, row: int) -> float:
    """Return a value that is a number; NaN for any other value."""
    value = columns.values.get(row)
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:  # an integer beyond the range of floats
        return math.nan


def _outputs(graph: Graph, of: SummariesOf, call: int, is_backward: bool) -> dict[int, tuple[int, Summary | None]]:
    """Return position and summary by row of an output. Gradients have the positions of the arguments that they are with
    respect to, by their paths; if arguments are nested, and for forward calls, their order."""
    columns = graph.columns
    part, gradient = columns.part, columns.gradient
    rows = [row for row in columns.rows(call) if part[row] == OUTPUT]
    places = list(range(len(rows)))
    if is_backward:
        paths = [columns.path_of(row) for row in rows]
        if all(len(path) == 1 and path[0].isdigit() for path in paths):
            places = [int(path[0]) for path in paths]
    # A gradient may be the sum over all users.
    return {row: (at, None if gradient[row] else of.of(row)) for row, at in zip(rows, places, strict=True)}
