"""Memory that nothing has written yet: the results of `empty`, and views of them, are not values.

What such memory holds differs from run to run. It is known by its address from the call that gave it until something
writes it: the version of the tensor rises, or, where it does not (a collective, a write through `data` or numpy),
some of its bytes change. Then it is forgotten, and read like any other. So is memory that no tensor holds any more.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from msprobe.base.framework import AnyTensor
from msprobe.base.nested import Leaf, is_tensor
from msprobe.base.statistic import Array

_SAMPLE = 4096
"""Bytes that are remembered of a memory, spread evenly over it."""


class Memory(NamedTuple):
    """The memory that a tensor looks into, as a whole."""

    address: int
    bytes: int
    version: int | None
    """Rises with each operation that writes it; the same number where there is none, None where it is not known."""


class Unwritten:
    """A tensor whose elements are not values, in a tree of arguments or results."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: AnyTensor) -> None:
        self.tensor = tensor


class _Known(NamedTuple):
    memory: Memory
    sample: bytes
    is_held: Callable[[], bool]


class Blanks:
    """The memory of one step that was allocated and not written.

    `memory_of` returns None where this is unknown. `holds` returns a function that returns whether any object still
    holds a tensor's memory.
    """

    def __init__(self, memory_of: Callable[[Any], Memory | None], holds: Callable[[Any], Callable[[], bool]]) -> None:
        self._memory_of, self._holds = memory_of, holds
        self._known: dict[int, _Known] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def note(self, tensors: Sequence[Leaf]) -> None:
        """Note tensors that were made of uninitialized memory."""
        for _, tensor in tensors:
            memory = self._memory_of(tensor)
            if memory is not None:
                self.note_memory(memory, self._holds(tensor))

    def note_memory(self, memory: Memory, is_held: Callable[[], bool]) -> None:
        """Note uninitialized memory."""
        self._known[memory.address] = _Known(memory, _sample(memory), is_held)

    def has(self, tensor: AnyTensor) -> bool:
        """Return whether nothing has written the memory that a tensor looks into."""
        memory = self._memory_of(tensor)
        known = self._known.get(memory.address) if memory is not None else None
        if known is None or memory is None:
            return False
        version = known.memory.version
        is_same = known.memory.bytes == memory.bytes and (version is None or version == memory.version)
        if is_same and known.is_held() and _sample(memory) == known.sample:
            if version is None:
                self._known[memory.address] = known._replace(memory=memory)
            return True
        del self._known[memory.address]
        return False

    def mark_unwritten(self, nodes: Sequence[Any]) -> list[Any]:
        """Return trees in which such tensors are marked as `Unwritten`."""
        return [self._shown(node) for node in nodes]

    def _shown(self, node: Any) -> Any:
        if type(node) is list:
            return [self._shown(each) for each in node]
        if type(node) is dict:
            return {key: self._shown(each) for key, each in node.items()}
        return Unwritten(node) if is_tensor(node) and self.has(node) else node


def all_unwritten(node: Any) -> Any:
    """Return a tree all of whose tensors are marked: a call writes them, and reads nothing of them."""
    if type(node) is list:
        return [all_unwritten(each) for each in node]
    if type(node) is dict:
        return {key: all_unwritten(each) for key, each in node.items()}
    return Unwritten(node) if is_tensor(node) else node


def _sample(memory: Memory) -> bytes:
    lying: Any = (ctypes.c_ubyte * memory.bytes).from_address(memory.address)  # not a buffer in numpy's stubs
    every: Array = np.frombuffer(lying, np.uint8)
    return every[:: max(1, memory.bytes // _SAMPLE)].tobytes()
