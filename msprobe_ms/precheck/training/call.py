"""A call of the running training as a recorded one: what was held of it, in memory, in the place of files."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from msprobe.precheck.turns import Shape
from msprobe.replay.recorded import Array, Leaf, RecordedCall, call_of, mapped
from msprobe.replay.references import Given, given
from msprobe.store.flatten import ColumnsBuilder
from msprobe.store.record import Calls, Dump
from msprobe.store.watching.held import Held, filled
from msprobe.store.writer import Source


@dataclass(slots=True)
class Kept:
    """One direction of a call with copies of its tensors, for its check and for the dump of what is wrong."""

    name: str
    parent: str | None
    stack: int | None
    entry: str
    held: list[Held] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, parent: str | None, stack: int | None, entry: str, held: Iterable[Held]) -> "Kept":
        """Return values with a copy of each tensor."""
        return cls(name, parent, stack, entry, [copied(one) for one in held])

    @property
    def size(self) -> int:
        """Return the size of the copies in bytes."""
        return sum(one.value.nbytes for one in self.held)

    def as_text(self) -> str:
        """Return the entry with the record of each tensor, written to the dump."""
        return filled(self.entry, [one.record(self.name) for one in self.held])


def copied(one: Held) -> Held:
    """Return a held tensor as a separate array."""
    if one.dtype:
        return one
    source: Source = one.source
    elements = source.elements(one.value)
    return Held(source, np.array(elements, order="C"), one.part, source.kind, str(one.value.dtype))


def shapes_of(held: Iterable[Held]) -> tuple[Shape, ...]:
    """Return place, dtype and shape of the tensors among the arguments of a call."""
    return tuple(
        (one.part, one.dtype or str(one.value.dtype), tuple(one.value.shape))
        for one in held
        if one.part[:6] != "output"
    )


def size_of(held: Iterable[Held]) -> int:
    """Return the size of elements in bytes, at most eight for each, before they are copied."""
    return sum(8 * int(np.prod(tuple(one.value.shape))) for one in held)


def recorded(directions: Sequence[Kept], framework: str) -> RecordedCall:
    """Return the last direction as a call with its tensors; a backward follows its forward.

    Raises CannotReplay as `call_of`.
    """
    builder = ColumnsBuilder()
    arrays: dict[str, Array] = {}
    for kept in directions:
        builder.add(kept.name, json.loads(filled(kept.entry, [one.bare() for one in kept.held])))
        arrays |= {f"{kept.name}.{one.part}": _plain(one.value) for one in kept.held}
    missing = {at: tuple(parts) for at, parts in builder.missing.items()}
    calls = Calls(builder.columns(), {}, {}, missing, frozenset(builder.recomputed), {})
    dump = Dump("the training", "", "tensor", "L1", framework, calls)
    return _filled(call_of(dump, len(directions) - 1), arrays)


def _plain(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _filled(call: RecordedCall, arrays: Mapping[str, Array]) -> RecordedCall:
    made: dict[Leaf, Given] = {}  # an argument is in the call, and next to its gradient

    def fill(value: Any) -> Any:
        if not isinstance(value, Leaf) or value.record.name not in arrays:
            return value
        if value not in made:
            made[value] = given(value, arrays[value.record.name])
        return made[value]

    return replace(
        call,
        args=mapped(call.args, fill),
        kwargs=mapped(call.kwargs, fill),
        outputs={path: fill(leaf) for path, leaf in call.outputs.items()},
        incoming={path: fill(leaf) for path, leaf in call.incoming.items()},
        gradients=tuple((fill(of), fill(record)) for of, record in call.gradients),
    )
