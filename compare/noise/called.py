"""What one pair of calls computes, as statistics tell it: the operation, and each side's arguments and outputs."""

import math
import re
from collections.abc import Sequence
from functools import cache, cached_property

from msprobe.base import names
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.locate.events import Event
from msprobe.replay.operations import REFLECTED, Kind, Operation, operation, plain_name
from msprobe.replay.own import APIS, CELLS
from msprobe.store.columns import PARTS, TENSOR, VALUE

from .laws import Seen
from .paired import Paired
from .summary import Summaries, Summary

_INPUT, _PARAMETERS, _OUTPUT = (PARTS.index(part) for part in ("input", "parameters", "output"))

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
}
"""MindSpore's names, in words, that are not PyTorch's."""

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
"""Functions of single elements that every kernel computes to the same bit."""

STEEP = frozenset(
    ("softmax", "softmin", "log_softmax", "exp", "expm1", "exp2", "logsumexp", "cross_entropy", "sinh", "cosh")
)
"""Functions of exponentials: the relative error of the output is the absolute one of the input."""

JUMPING = frozenset(
    (
        *("relu", "relu6", "leaky_relu", "elu", "celu", "selu", "prelu", "abs", "hardtanh", "hardsigmoid", "hardswish"),
        *("hardshrink", "softshrink", "threshold", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "amax"),
        *("amin", "max", "min", "topk", "sort", "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool2d"),
    )
)
"""Functions whose derivative jumps."""


@cache
def operation_of(stem: str, is_cell: bool) -> Operation | None:
    """The operation of a function, primitive or layer by its stem; None where none is known."""
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


def rounds_inside(stem: str, is_cell: bool) -> bool:
    """Whether the kernels of a function or layer may round to fewer bits inside than its output has."""
    known = operation_of(stem, is_cell)
    return known is None or known.name in _ROUNDING_INSIDE


def is_exact(operation: Operation | None) -> bool:
    """Whether every kernel computes an operation to the same bit."""
    return operation is not None and (operation.name in _CORRECTLY_ROUNDED or operation.kind is Kind.MOVES)


def inputs_of(paired: Paired, event: Event) -> list[int]:
    """The pairs of records that a call's outputs are computed from: of a backward call also those of its forward."""
    places = (event.place, *event.forwards)
    return [r for place in places for r in paired.rows_of(place) if paired.is_given[r] or place != event.place]


class Called:
    """A pair of innermost calls. `inputs` are the pairs of records that its outputs are computed from."""

    def __init__(self, paired: Paired, sides: Sequence[Summaries], event: Event) -> None:
        self._paired, self._summaries, self.place = paired, sides, event.place
        self.is_backward = event.direction == "backward"
        name = names.parse(event.called)
        self.operation = operation_of(name.stem, event.kind == "cell")
        self.function = self.operation.name if self.operation else name.stem
        self._is_reflected = name.stem.rpartition(".")[2].strip("_") in REFLECTED
        self.inputs = inputs_of(paired, event)

    @property
    def rounds_inside(self) -> bool:
        """Whether its kernel may round to fewer bits inside than its output has."""
        return self.operation is None or self.operation.name in _ROUNDING_INSIDE

    @property
    def is_exact(self) -> bool:
        """Whether every kernel computes it to the same bit."""
        return is_exact(self.operation)

    @property
    def has_one_output(self) -> bool:
        """Whether a law over all outputs is one of each."""
        return len(self._numbers) == 1

    @cached_property
    def sides(self) -> tuple[Seen, Seen]:
        """The call as target and golden recorded it."""
        return self._seen(0), self._seen(1)

    def _seen(self, side: int) -> Seen:
        graph, of = self._paired.graphs[side], self._summaries[side]
        call = int(self._paired.calls[side][self.place])
        forward = call
        if self.is_backward:
            forward = graph.number.get(names.counterpart(graph.columns.names[call], "forward"), -1)
        return Seen(
            self.function,
            self.is_backward,
            _arguments(graph, of, forward) if forward >= 0 else (),
            _outputs(graph, of, call, self.is_backward),
            [found for row in graph.inputs(call) if (found := of.of(row))] if self.is_backward else (),
            self._is_reflected,
        )

    def added(self, row: int) -> float:
        """Of the gradient of a bias: the root mean square that the golden's sum would have, of what it adds up, if
        nothing cancelled out. That of the keys does, before a softmax, and what is left is rounding. Else 0."""
        out = self._summaries[1].of(int(self._paired.rows[1][row]))
        if not self.is_backward or out is None or len(out.shape) != 1:
            return 0.0
        incoming = (one for one in self.sides[1].incoming if one.size > out.size)
        return max((one.rms * math.sqrt(one.size / out.size) for one in incoming), default=0.0)

    def number(self, row: int) -> int:
        """The place of an output among those of `sides`; -1 where it has none there."""
        return self._numbers.get(int(self._paired.rows[0][row]), -1)

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return _places(self._paired.graphs[0], int(self._paired.calls[0][self.place]), self.is_backward)


def _arguments(graph: Graph, of: Summaries, call: int) -> list[Summary | float]:
    """The arguments in order; NaN for what is neither a tensor nor a number."""
    columns, found = graph.columns, list[Summary | float]()
    for row in range(columns.starts[call], columns.starts[call + 1]):
        if columns.part[row] not in (_INPUT, _PARAMETERS):
            continue
        value: object = columns.values.get(row) if columns.kind[row] == VALUE else None
        if columns.kind[row] == TENSOR:
            found.append(of.of(row) or math.nan)
        else:
            found.append(_as_number(value))
    return found


def _as_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number that no float holds
        return math.nan


def _places(graph: Graph, call: int, is_backward: bool) -> dict[int, int]:
    """By row of an output: its place. Gradients stand by the arguments that they are with respect to, as their paths
    count them; where arguments are nested, and of forward calls, in order."""
    columns = graph.columns
    rows = [row for row in range(columns.starts[call], columns.starts[call + 1]) if columns.part[row] == _OUTPUT]
    paths = [columns.paths[columns.path[row]] for row in rows]
    if is_backward and all(len(path) == 1 and path[0].isdigit() for path in paths):
        return {row: int(path[0]) for row, path in zip(rows, paths, strict=True)}
    return {row: place for place, row in enumerate(rows)}


def _outputs(graph: Graph, of: Summaries, call: int, is_backward: bool) -> list[Summary | None]:
    places = _places(graph, call, is_backward)
    found: list[Summary | None] = [None] * (max(places.values(), default=-1) + 1)
    for row, place in places.items():
        if not graph.columns.gradient[row]:  # its own, not the sum of all users'
            found[place] = of.of(row)
    return found
