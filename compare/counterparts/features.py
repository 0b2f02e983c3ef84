"""What speaks for or against a pair, as numbers by call: shapes, values, arguments, own parameters."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .flow import Flow
from .side import Side, Tensor, Tensors

INPUTS = 3
"""Tensor inputs that are looked at; operations rarely have more that tell them apart."""

_GREATEST = 1e300


@dataclass(frozen=True, slots=True)
class Operation:
    """A stem or class, and how many tensors an operation is given."""

    called: str
    given: int


Fingerprint = tuple[tuple[int, ...], str | tuple[float, float]]
"""The lengths of a parameter's axes, sorted, and its digest, or its greatest and smallest element."""


class Numbers:
    """Numbers for things, the same for both sides: equal things get equal numbers, 0 is for nothing."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, thing: Hashable) -> int:
        """The number of a thing."""
        return self._known.setdefault(thing, len(self._known) + 1)


class Features:
    """Columns over all calls of one side; only rows of forward calls are filled.

    `operation` numbers stems (of modules: classes), `out_shape` and `out_size` tell the first result, `in_shapes` the
    shapes of all tensor inputs whatever their order, `ranks` how many axes each has. `own_shapes`, `own_count` and
    `own_values` tell a module's parameters, `arguments` the numbers among the arguments, `telling` whether the first
    result's values say anything. `out` and `ins` are statistics (max, min, mean, norm), NaN where unknown.
    """

    def __init__(self, side: Side, flow: Flow, numbers: Numbers) -> None:
        count = len(side)
        self.operation: NDArray[np.int64] = np.zeros(count, np.int64)
        self.again = np.array(side.again, bool)
        self.out_shape: NDArray[np.int64] = np.zeros(count, np.int64)
        self.out_layout: NDArray[np.int64] = np.zeros(count, np.int64)
        self.out_size: NDArray[np.int64] = np.full(count, -1, np.int64)
        self.in_shapes: NDArray[np.int64] = np.zeros(count, np.int64)
        self.ranks: NDArray[np.int64] = np.zeros(count, np.int64)
        self.own_count: NDArray[np.int64] = np.zeros(count, np.int64)
        self.own_shapes: NDArray[np.int64] = np.zeros(count, np.int64)
        self.own_values: NDArray[np.int64] = np.zeros(count, np.int64)
        self.arguments: NDArray[np.int64] = np.zeros(count, np.int64)
        self.out: NDArray[np.float64] = np.full((count, 4), np.nan)
        self.ins: NDArray[np.float64] = np.full((count, INPUTS, 4), np.nan)
        self.digests: NDArray[np.int64] = np.zeros((count, 1 + INPUTS), np.int64)
        self.telling: NDArray[np.bool_] = np.zeros(count, bool)
        self.operations: dict[int, Operation] = {}
        self._weights = _weights(side, flow)
        for at in side.forward:
            self._fill(side, at, numbers)

    def _fill(self, side: Side, at: int, numbers: Numbers) -> None:
        tensors = side.tensors(at)
        is_module = side.names[at].kind == "cell"
        called = side.class_name(at) if is_module else side.names[at].stem
        given = 0 if is_module else len(tensors.inputs)
        self.operation[at] = numbers.of(("operation", is_module, called, given))
        self.operations[int(self.operation[at])] = Operation(called, given)
        if tensors.outputs:
            first = tensors.outputs[0]
            self.out_shape[at] = numbers.of(first.shape)
            self.out_layout[at] = numbers.of(("layout", *sorted(n for n in first.shape if n != 1 or not is_module)))
            self.out_size[at] = int(np.prod(first.shape, dtype=np.int64))
            self.out[at] = first.statistics
            self.telling[at] = first.says_something
        self.in_shapes[at] = numbers.of(("inputs", *sorted(tensor.shape for tensor in tensors.inputs)))
        self.ranks[at] = numbers.of(
            ("ranks", *sorted(len(tensor.shape) for tensor in tensors.inputs), -1, _rank(tensors))
        )
        self.own_count[at] = len(tensors.parameters)
        self.own_shapes[at] = _layouts(numbers, tensors.parameters)
        known = [fingerprint(tensor) for tensor in (tensors.parameters if is_module else tensors.inputs)]
        prints = sorted(str(one) for one in known if one is not None and (is_module or one in self._weights))
        self.own_values[at] = numbers.of(("prints", *prints)) if prints else 0
        told = sorted(float(v) for v in tensors.values if _is_number(v))  # type: ignore[arg-type]  # asked before
        self.arguments[at] = numbers.of(("arguments", *told))
        for k, tensor in enumerate(tensors.inputs[:INPUTS]):
            self.ins[at, k] = tensor.statistics
        for k, tensor in enumerate((*tensors.outputs[:1], *tensors.inputs[:INPUTS])):
            place = k if tensors.outputs else k + 1
            if tensor.digest and place <= INPUTS:
                self.digests[at, place] = numbers.of(("digest", tensor.digest, int(np.prod(tensor.shape))))


def _weights(side: Side, flow: Flow) -> set[Fingerprint | None]:
    """Fingerprints of parameters, and of tensors with several axes or elements that no call made."""
    found = {fingerprint(tensor) for at in side.forward for tensor in side.tensors(at).parameters}
    for at in side.apis:
        for tensor, is_constant in zip(side.tensors(at).inputs, flow.constant[at], strict=True):
            if is_constant:
                found.add(fingerprint(tensor))
    return found


def _is_number(value: object) -> bool:
    """Whether an argument is a number that a float can hold; a bool is none, and no order has a NaN."""
    return isinstance(value, int | float) and type(value) is not bool and abs(value) < _GREATEST


def _rank(tensors: Tensors) -> int:
    return len(tensors.outputs[0].shape) if tensors.outputs else -1


def _layouts(numbers: Numbers, tensors: Iterable[Tensor]) -> int:
    """A number for the shapes of parameters whatever their order, 0 for none; a transposed matrix has the same."""
    shapes = sorted(tuple(sorted(n for n in tensor.shape if n != 1)) for tensor in tensors)
    return numbers.of(("own", *shapes)) if shapes else 0


def fingerprint(tensor: Tensor) -> Fingerprint | None:
    """What a parameter is known by in both frameworks, None where its values say nothing.

    Equal weights have equal digests; a transposed or permuted one still has the same greatest and smallest element,
    exactly, and the same lengths in some order.
    """
    if not tensor.says_something:
        return None
    lengths = tuple(sorted(n for n in tensor.shape if n != 1))
    return (lengths, tensor.digest or tensor.statistics[:2])


def close(mine: NDArray[np.float64], theirs: NDArray[np.float64], within: float) -> NDArray[np.bool_]:
    """Whether statistics of one tensor are those of others, to a part of their size; never where they are unknown.

    `mine` has 4 numbers, `theirs` 4 in its last axis. Max, min and mean are held against the largest magnitude.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        scale = np.maximum(np.abs(mine[:2]).max(), np.abs(theirs[..., :2]).max(-1))
        apart = np.abs(theirs[..., :3] - mine[:3])
        near = (apart <= within * scale[..., None]) | (theirs[..., :3] == mine[:3])
        near[..., 2] |= np.isnan(theirs[..., 2]) & np.isnan(mine[2])
        norm = (np.abs(theirs[..., 3] - mine[3]) <= within * np.maximum(mine[3], theirs[..., 3])) | (
            np.isnan(theirs[..., 3]) & np.isnan(mine[3])
        )
        return np.asarray(near.all(-1) & (norm | (theirs[..., 3] == mine[3])))
