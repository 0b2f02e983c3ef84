"""Reduces a call as long as it remains wrong: shorter axes, then simpler values.

Each step is executed on the device and judged again; a call that the framework or the reference rejects is not a step.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from msprobe.replay.operations import Operation
from msprobe.replay.recorded import Array, CannotReplay, Leaf, RecordedCall, leaves, mapped
from msprobe.replay.references import given, with_outputs

from .check import Direction, judged_call
from .executor import CannotRun, Executor
from .judge import Status
from .measures import to_bfloat16

MOST = 400
"""Executions."""


@dataclass
class _Budget:
    left: int = MOST


def executed_alone(call: RecordedCall, executor: Executor) -> tuple[RecordedCall, Direction] | None:
    """Return the call with the outputs of an execution, of any shape, and the verdicts; None without outputs."""
    try:
        found = executor.run(call)
        outputs = {path: leaf for path, leaf in found.outputs.items() if path in call.outputs}
        made = with_outputs(call, call.outputs if call.is_backward else outputs, found.gradients)
        if not call.is_backward and not outputs:
            return None
        return made, judged_call(made, "", is_recorded=False)
    except (CannotRun, CannotReplay):
        return None


def reduced(call: RecordedCall, operation: Operation, executor: Executor) -> RecordedCall:
    """Return the smallest wrong call that was found; the call itself if it is not wrong on this device."""
    budget = _Budget()

    def is_wrong(smaller: RecordedCall) -> RecordedCall | None:
        budget.left -= 1
        found = executed_alone(smaller, executor) if budget.left >= 0 else None
        return found[0] if found is not None and found[1].status is Status.ERROR else None

    best = is_wrong(call)
    if best is None:
        return call
    while budget.left > 0:
        step = next((made for each in _shorter(best) if (made := is_wrong(each)) is not None), None)
        if step is None:
            break
        best = step
    for each in _simpler(best):
        best = is_wrong(each) or best
    return best


def _tensors(call: RecordedCall) -> list[Leaf]:
    return list(dict.fromkeys([*leaves([call.args, call.kwargs]), *call.incoming.values()]))


def _shorter(call: RecordedCall) -> Iterator[RecordedCall]:
    """Yield calls with half of an axis: of all axes of one length together, then of single tensors."""
    found = _tensors(call)
    sizes = sorted({n for leaf in found for n in leaf.shape if n > 1}, reverse=True)
    for size in sizes:
        half = size // 2
        for places in (slice(0, half), slice(size - half, size), slice(0, size - 1), slice(1, size)):
            lengths = size, len(range(*places.indices(size)))
            yield _with(call, partial(_cut, size=size, places=places, axis=None), lengths)
            for axis in range(max((len(leaf.shape) for leaf in found), default=0)):
                yield _with(call, partial(_cut, size=size, places=places, axis=axis), lengths)


def _cut(leaf: Leaf, size: int, places: slice, axis: int | None) -> Array:
    """Places of the axes of that size, or of that one axis."""
    index = (places if n == size and axis in (None, i) else slice(None) for i, n in enumerate(leaf.shape))
    part: Array = leaf.array[tuple(index)]
    return part


def _simpler(call: RecordedCall) -> Iterator[RecordedCall]:
    """Yield calls with values of fewer digits."""
    for digits in (3, 2, 1, 0):
        yield _with(call, partial(_rounded, digits=digits))


def _rounded(leaf: Leaf, digits: int) -> Array:
    return np.round(leaf.array, digits) if leaf.is_floating else leaf.array


def _with(call: RecordedCall, change: Callable[[Leaf], Array], sizes: tuple[int, int] | None = None) -> RecordedCall:
    """Return a call with changed tensors; a number in a tuple that is the old length becomes the new one."""
    made: dict[Leaf, Leaf] = {}

    def leaf_of(leaf: Leaf) -> Leaf:
        if leaf not in made:
            content = np.ascontiguousarray(change(leaf)).reshape(np.shape(change(leaf)))
            made[leaf] = given(leaf, to_bfloat16(content) if leaf.dtype == "bfloat16" else content)
        return made[leaf]

    def value_of(value: Any) -> Any:
        if isinstance(value, Leaf):
            return leaf_of(value)
        is_size = sizes is not None and type(value) is int and value == sizes[0]
        return sizes[1] if is_size and sizes is not None else value

    args = tuple(mapped(arg, value_of) if isinstance(arg, (Leaf, tuple)) else arg for arg in call.args)
    kwargs = {
        key: mapped(value, value_of) if isinstance(value, (Leaf, tuple)) else value
        for key, value in call.kwargs.items()
    }
    return replace(
        call,
        args=args,
        kwargs=kwargs,
        incoming={path: leaf_of(leaf) for path, leaf in call.incoming.items()},
        gradients=tuple((made.get(of, of), record) for of, record in call.gradients),
    )
