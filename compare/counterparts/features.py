"""Features of calls: kinds of operation, shapes, values, arguments and own parameters.

The tables of `mapping` contain the corresponding operations and classes of the frameworks. Those that they do not
contain are compared by the bare word: `ops.matmul`, `torch.matmul` and `Tensor.__matmul__` are one operation.
"""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe.compare.core.tensor import Tensor, Weight
from msprobe.mapping.api import load_table
from msprobe.mapping.layers import counterpart_classes, layers

from .dump_view import Dataflow, Side

CORRESPONDING, MAYBE, UNLIKELY, UNRELATED = 2.0, 0.0, -1.5, float("-inf")
_WORD_ONLY = 1.5

# Different words for one operation in methods, operators, functions and primitives.
_SAME = (
    ("add", "iadd", "radd", "biasadd", "addex", "addext"),
    ("sub", "isub", "rsub", "subtract"),
    ("mul", "imul", "rmul", "multiply"),
    ("div", "truediv", "itruediv", "rtruediv", "realdiv", "divide"),
    ("floordiv", "floordivide", "ifloordiv"),
    ("mod", "remainder", "floormod"),
    ("pow", "rpow", "ipow"),
    ("neg", "negative"),
    ("matmul", "rmatmul", "batchmatmul", "bmm", "mm"),
    ("reshape", "view", "flatten", "unflatten", "viewas", "reshapeas"),
    ("transpose", "permute", "swapaxes", "swapdims", "t"),
    ("cat", "concat"),
    ("unsqueeze", "expanddims"),
    ("expand", "broadcastto", "expandas"),
    ("lt", "less"),
    ("le", "lessequal"),
    ("gt", "greater"),
    ("ge", "greaterequal"),
    ("eq", "equal"),
    ("ne", "notequal"),
    ("to", "type", "astype", "typeas", "cast", "float", "half", "int", "long", "bool"),
    ("linear", "dense"),
    ("mean", "reducemean"),
    ("sum", "reducesum"),
    ("max", "reducemax"),
    ("min", "reducemin"),
    ("getitem", "stridedslice", "tensorscattergetitem"),
    ("masked_fill", "maskedfill"),
    ("scaleddotproductattention", "flashattentionscore"),
    ("unbind", "unstack"),
    ("repeat", "tile"),
    ("clamp", "clip", "clipbyvalue"),
)
INPUTS = 3
"""Number of tensor inputs that are compared; operations rarely have more that distinguish them."""

_GREATEST = 1e300
_MAX_ELEMENTS = 2**63 - 1

WITH_BIAS = frozenset(("conv1d", "conv2d", "conv3d", "linear"))
"""Operations that add a bias on one side, and are followed by an addition on the other."""

_WORD = {operation_word: group[0] for group in _SAME for operation_word in group}


def operations(target: str, golden: str, frameworks: tuple[str, str]) -> float:
    """Return CORRESPONDING, slightly less if only the words agree, or UNRELATED, for the stems of two API calls."""
    ms, pt = (target, golden) if frameworks[0] == "mindspore" else (golden, target)
    if pt == ms if frameworks[0] == frameworks[1] else pt in _listed(ms):
        return CORRESPONDING
    return _WORD_ONLY if operation_word(ms) == operation_word(pt) else UNRELATED


def classes(target: str, golden: str, frameworks: tuple[str, str]) -> float:
    """Return CORRESPONDING for corresponding layers, UNRELATED for layers that do not correspond, MAYBE for two classes
    of the user.

    UNLIKELY for a layer of one framework and a class of the user, who could have used the layer of the other.
    """
    ms, pt = (target, golden) if frameworks[0] == "mindspore" else (golden, target)
    known = () if frameworks[0] == frameworks[1] else counterpart_classes(ms)
    if pt in known:
        return CORRESPONDING
    if frameworks[0] != frameworks[1] and (known or pt in _layers_of_pytorch()):
        return UNRELATED if known and pt in _layers_of_pytorch() else UNLIKELY
    return CORRESPONDING if ms == pt else MAYBE


@lru_cache(maxsize=65536)
def operation_word(stem: str) -> str:
    """Return the bare word of an operation: `Tensor.__add__`, `Functional.add` and `Primitive.add.Add` are `add`."""
    last = stem.rpartition(".")[2].strip("_").replace("_", "").lower()
    return _WORD.get(last, last)


@lru_cache(maxsize=65536)
def _listed(ms: str) -> frozenset[str]:
    return frozenset(found.pt for found in load_table().counterparts(ms))


@lru_cache(maxsize=1)
def _layers_of_pytorch() -> frozenset[str]:
    return frozenset(pt for layer in layers() for pt in layer.pt)


class Operation(NamedTuple):
    """A stem or class, and its number of tensor inputs."""

    called: str
    inputs: int


class Numbers:
    """Numbers for values, the same for both sides: equal values have equal numbers, 0 is for none."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, thing: Hashable) -> int:
        """Return the number of a value."""
        return self._known.setdefault(thing, len(self._known) + 1)


class Features:
    """Columns over all calls of one side; only rows of forward calls are filled.

    `operation` are numbers of stems (for modules: classes), `out_shape` and `out_size` describe the first result,
    `in_shapes` the shapes of all tensor inputs in any order, `ranks` their numbers of axes. `own_shapes`, `own_count`
    and `own_values` describe a module's parameters, `arguments` the numbers among the arguments, `informative` whether
    the first result's values are distinctive. `out` and `ins` are statistics (max, min, mean, norm), NaN if unknown.
    """

    def __init__(self, side: Side, flow: Dataflow, numbers: Numbers) -> None:
        count = len(side)
        self.operation, self.out_shape, self.out_layout, self.in_shapes, self.ranks = np.zeros((5, count), np.int64)
        self.own_count, self.own_shapes, self.own_values, self.arguments = np.zeros((4, count), np.int64)
        self.out_size: NDArray[np.int64] = np.full(count, -1, np.int64)
        self.out: NDArray[np.float64] = np.full((count, 4), np.nan)
        self.ins: NDArray[np.float64] = np.full((count, INPUTS, 4), np.nan)
        self.digests: NDArray[np.int64] = np.zeros((count, 1 + INPUTS), np.int64)
        self.informative: NDArray[np.bool_] = np.zeros(count, bool)
        self.again = np.array(side.again, bool)
        self.operations: dict[int, Operation] = {}
        self._weights = _weights(side, flow)
        for at in side.forward:
            self._fill(side, at, numbers)

    def _fill(self, side: Side, at: int, numbers: Numbers) -> None:
        tensors = side.tensors(at)
        is_module = side.names[at].kind == "cell"
        called = side.class_name(at) if is_module else side.names[at].stem
        inputs = 0 if is_module else len(tensors.inputs)
        self.operation[at] = numbers.of(("operation", is_module, called, inputs))
        self.operations[int(self.operation[at])] = Operation(called, inputs)
        if tensors.outputs:
            first = tensors.outputs[0]
            self.out_shape[at] = numbers.of(first.shape)
            self.out_layout[at] = numbers.of(("layout", *sorted(n for n in first.shape if n != 1 or not is_module)))
            self.out_size[at] = min(first.size, _MAX_ELEMENTS)
            self.out[at] = _numbers(first)
            self.informative[at] = first.is_distinctive
        shapes = sorted(tensor.shape for tensor in tensors.inputs)
        rank = len(tensors.outputs[0].shape) if tensors.outputs else -1
        self.in_shapes[at] = numbers.of(("inputs", *shapes))
        self.ranks[at] = numbers.of(("ranks", *sorted(map(len, shapes)), -1, rank))
        self.own_count[at] = len(tensors.parameters)
        # In any order; a transposed matrix has the same.
        own = sorted(tensor.lengths for tensor in tensors.parameters)
        self.own_shapes[at] = numbers.of(("own", *own)) if own else 0
        known = [tensor.weight for tensor in (tensors.parameters if is_module else tensors.inputs)]
        prints = sorted(str(one) for one in known if one is not None and (is_module or one in self._weights))
        self.own_values[at] = numbers.of(("prints", *prints)) if prints else 0
        numeric = sorted(float(v) for v in tensors.values if _is_number(v))  # type: ignore[arg-type] # checked before
        self.arguments[at] = numbers.of(("arguments", *numeric))
        for k, tensor in enumerate(tensors.inputs[:INPUTS]):
            self.ins[at, k] = _numbers(tensor)
        for k, tensor in enumerate((*tensors.outputs[:1], *tensors.inputs[:INPUTS])):
            place = k if tensors.outputs else k + 1
            if tensor.digest and place <= INPUTS:
                self.digests[at, place] = numbers.of(("digest", tensor.digest, tensor.size))


def _numbers(tensor: Tensor) -> tuple[float, float, float, float]:
    """Return the statistics that `close` compares."""
    return tensor.max, tensor.min, tensor.mean, tensor.norm


def _weights(side: Side, flow: Dataflow) -> set[Weight | None]:
    """Return the weights that are parameters, and those that no call produced."""
    found = {tensor.weight for at in side.forward for tensor in side.tensors(at).parameters}
    for at in side.apis:
        for tensor, is_constant in zip(side.tensors(at).inputs, flow.constant[at], strict=True):
            if is_constant:
                found.add(tensor.weight)
    return found


def _is_number(value: object) -> bool:
    """Return whether an argument is a number in the range of floats; not a bool, or NaN, which has no order."""
    return isinstance(value, int | float) and type(value) is not bool and abs(value) < _GREATEST


def close(mine: NDArray[np.float64], theirs: NDArray[np.float64], within: float) -> NDArray[np.bool_]:
    """Return whether statistics of one tensor equal those of others, to a part of their size; False if they are
    unknown.

    `mine` has 4 numbers, `theirs` 4 in its last axis. Max, min and mean are compared relative to the largest magnitude.
    """
    if theirs.ndim == 2 and len(theirs) <= SINGLY:
        one = mine.tolist()
        return np.array([is_close(one, other, within) for other in theirs.tolist()], bool)
    with np.errstate(invalid="ignore", over="ignore"):
        scale = np.maximum(np.abs(mine[:2]).max(), np.abs(theirs[..., :2]).max(-1))
        apart = np.abs(theirs[..., :3] - mine[:3])
        near = (apart <= within * scale[..., None]) | (theirs[..., :3] == mine[:3])
        near[..., 2] |= np.isnan(theirs[..., 2]) & np.isnan(mine[2])
        norm = (np.abs(theirs[..., 3] - mine[3]) <= within * np.maximum(mine[3], theirs[..., 3])) | (
            np.isnan(theirs[..., 3]) & np.isnan(mine[3])
        )
        return np.asarray(near.all(-1) & (norm | (theirs[..., 3] == mine[3])))


SINGLY = 8
"""Number up to which they are compared individually: numpy takes 60 us for any number of them, Python 1 us for each."""


def is_close(mine: Sequence[float], theirs: Sequence[float], within: float) -> bool:
    """Return `close` for one tensor."""
    high, low, mean, norm = mine
    top, bottom, middle, length = theirs
    if high != high or low != low or top != top or bottom != bottom:
        return False
    limit = within * max(abs(high), abs(low), abs(top), abs(bottom))
    are_extremes = (abs(top - high) <= limit or top == high) and (abs(bottom - low) <= limit or bottom == low)
    is_mean = abs(middle - mean) <= limit or middle == mean or (middle != middle and mean != mean)
    if not (are_extremes and is_mean):
        return False
    return abs(length - norm) <= within * max(norm, length) or length == norm or (length != length and norm != norm)
