"""The expected outputs of a recorded call: values in float64, each with its sensitivity.

`replay.references` computes them, `replay.replay` measures recorded outputs against them; who has outputs of another
execution of the call (`with_outputs`) judges them by the same values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from .operations import Operation
from .recorded import Array, Leaf, Path, RecordedCall

WHOLE = 1 << 20
"""Elements of all tensors of a call up to which it is replayed whole by default."""


@dataclass(frozen=True, eq=False)
class Reference:
    """The expected value of one output or gradient.

    `record` is the recorded output, or the part of it to which the value belongs: its `array` is judged.
    `value` is float64, or int64 and bool. `sensitivity` has the shape of the value (`reference.sensitivity`); None
    where the value is not floating. `source` is what integers are positions in, along some axis; None for others.
    """

    record: Leaf
    value: Array
    sensitivity: Array | None = None
    source: Array | None = None


@dataclass(frozen=True)
class References:
    """The references of a call under one candidate of what the record does not tell.

    `moves_data` as in `Replayed`: the value is rounded to the dtype of the record. `is_exhaustive` as in `Replayed`.
    `terms` is about how many products or elements one element of an output sums up, 1 for an elementwise function.
    `coarsest`: the floating dtype of fewest bits among the inputs, empty without any. `is_lowered`: an output of the
    forward has fewer bits than the widest floating input, so that the call computed in fewer, as under autocast.
    """

    operation: Operation
    moves_data: bool
    label: str
    outputs: tuple[Reference, ...]
    is_exhaustive: bool
    terms: float
    coarsest: str = ""
    is_lowered: bool = False


@dataclass(frozen=True, eq=False)
class Results:
    """The results of a call under one candidate: computed in float64 and rounded to the dtypes of the records, or
    integers and bools.

    `values` are by part and path: the outputs of a forward call by those of their records, the gradients of a backward
    call by those of the arguments and parameters that they belong to. `is_exhaustive` as in `Replayed`.
    """

    label: str
    is_exhaustive: bool
    values: Mapping[tuple[str, Path], Array]


@dataclass(frozen=True, eq=False)
class Given(Leaf):
    """A tensor that was not read from the dump: drawn, or computed by another execution; bfloat16 as float32."""

    content: Array

    @cached_property
    def array(self) -> Array:
        """Return the elements."""
        return self.content

    def loaded(self) -> Array:
        """Return the same: there is no file."""
        return self.content


def given(leaf: Leaf, content: Array, dtype: str = "") -> Given:
    """Return a leaf with other elements in the place of a recorded one."""
    record = replace(leaf.record, shape=tuple(content.shape), dtype=dtype or leaf.record.dtype, file="")
    return Given(leaf.dump, record, content)


def with_outputs(call: RecordedCall, outputs: Mapping[Path, Leaf], gradients: Sequence[Leaf | None]) -> RecordedCall:
    """Return a call with the outputs of another execution; `gradients` of a backward call are in its order."""
    if not call.is_backward:
        return replace(call, outputs=dict(outputs))
    pairs = zip(call.gradients, gradients, strict=True)
    return replace(call, gradients=tuple((of, found) for (of, _), found in pairs if found is not None))
