"""The operation of a pair of calls, and the amplification that is usual for its kind.

Does noise explain by how much the statistics of an output differ? Judged by those of the inputs, among its kin.

Errors of n elements that are independent move the norm and the mean of a tensor by their relative size over sqrt(n),
and its extremes by the error of one element. So an output's norm and mean may differ by about

    inputs' own differences + (inputs' element error + u) / sqrt(n)

and its extremes by the inputs' element error + u. u is what the kernel adds: the low quantile of what its kin differ
by, since none of them adds more than it shows. What a call amplifies beyond (a softmax of large scores, a difference of
near numbers) all its kin do as well: the same operation, direction and output.
"""

import math
import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from msprobe.base import names
from msprobe.compare.dataflow.events import Event
from msprobe.compare.dataflow.graph import Graph
from msprobe.replay.operations import REFLECTED, Kind, Operation, operation, plain_name
from msprobe.replay.own import APIS, CELLS
from msprobe.store.record import PARTS, TENSOR, VALUE

from .laws import Apart, Seen, Summaries, Summary
from .pairs import Paired

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


LIMIT = 10.0
"""So many times what is explained no clean output was apart, of kinds that do not amplify."""

_QUARTILES = 4.0
"""The limit of a kind that amplifies, in upper quartiles of its kin."""

MOST = 50.0
"""Beyond so many times no kind amplifies noise; measured: up to 21, a softmax of masked scores."""

_LOW = 0.2
"""The quantile of its kin's element errors that is taken for a kernel's own."""

_FEW = 16
"""Tensors of fewer elements tell no element error: their statistics agree by chance."""

_ROUNDING = 2.0
"""A kernel's own error, in units of its output's dtype, at least."""

_ROUNDING_ACROSS = 10.0
"""The same of products of two frameworks, which add up in other orders."""

_APPROXIMATED = 50.0
"""The same of functions for which two frameworks have approximations of their own."""

ACROSS = _APPROXIMATED * 2.0**-23
"""The greatest own error of a kernel in float32 of another framework."""

COARSEST = 6e-3
"""The greatest own error of a kernel that rounds to bfloat16 inside; as in `precision.LOWEST`."""

FINE = 1e-5
"""The greatest own error of a kernel that computes in float32 throughout; as in `precision.FULL`."""


@dataclass(frozen=True, slots=True)
class Change:
    """How one pair of outputs differs. `inputs` are the greatest differences of norm or mean, and `spread` the greatest
    element error, of what it was computed from. `rounds_inside`: a product or convolution, which may round inside.
    `is_constant`: all its elements are one number. `is_exact`: every kernel computes the function to the same bit."""

    kind: Hashable
    output: Apart
    inputs: float
    spread: float
    unit: float
    rounds_inside: bool = False
    is_constant: bool = False
    is_exact: bool = False


@dataclass(frozen=True, slots=True)
class Amplified:
    """By how many times its `explained` difference an output differs, and up to how many that is noise.

    `apart` and `explained` are of that statistic for which the ratio is greatest.
    """

    ratio: float
    limit: float
    apart: float
    explained: float
    own: float

    @property
    def is_wrong(self) -> bool:
        """Whether noise does not explain it."""
        return self.ratio > self.limit


def amplified(changes: Sequence[Change], *, is_across: bool = False) -> list[Amplified]:
    """Judge every pair of outputs among its kin; `is_across`: the two sides are of two frameworks."""
    kin: dict[Hashable, list[int]] = defaultdict(list)
    for n, change in enumerate(changes):
        kin[change.kind].append(n)
    found: list[Amplified | None] = [None] * len(changes)
    for numbers in kin.values():
        mine = [changes[n] for n in numbers]
        own = own_error(mine, _rounding(mine[0], is_across=is_across))
        measured = [_measured(change, own) for change in mine]
        ratios = sorted(one.ratio for one in measured)
        for n, one in zip(numbers, measured, strict=True):
            others = _QUARTILES * _quartile(ratios, one.ratio)
            found[n] = Amplified(one.ratio, min(max(LIMIT, others), MOST), one.apart, one.explained, one.own)
    return [one for one in found if one is not None]


def _rounding(change: Change, *, is_across: bool) -> float:
    if not is_across or change.is_exact:
        return _ROUNDING
    return _ROUNDING_ACROSS if change.rounds_inside else _APPROXIMATED


def own_error(kin: Sequence[Change], rounding: float = _ROUNDING) -> float:
    """The element error that the kernels of a kind add; at least the rounding of the output."""
    if not kin:
        return 0.0
    least = rounding * max(change.unit for change in kin)
    shown = sorted(c.output.spread for c in kin if c.output.size >= _FEW and not c.is_constant)
    if not shown or not kin[0].rounds_inside:
        return least
    return min(max(least, shown[int(_LOW * (len(shown) - 1))]), max(COARSEST, least))


def _measured(change: Change, own: float) -> Amplified:
    """The ratio of the statistic that is furthest beyond what is explained."""
    element = change.spread + own
    moments = change.inputs + element / math.sqrt(change.output.size)
    return max(
        (
            Amplified(found / explained if found else 0.0, LIMIT, found, explained, own)
            for found, explained in ((change.output.moments, moments), (change.output.extremes, element))
        ),
        key=lambda one: one.ratio,
    )


def _quartile(ratios: Sequence[float], own: float) -> float:
    """The upper quartile of the other ratios; 0 where there are none."""
    others = list(ratios)
    others.remove(own)
    return others[(3 * (len(others) - 1) + 3) // 4] if others else 0.0
