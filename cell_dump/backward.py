"""One call's backward while its gradients arrive, and the entry that it becomes."""

from collections.abc import Callable, Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import Any, TypeAlias

import numpy as np

from msprobe.base.framework import AnyTensor
from msprobe.base.nested import Leaf, is_tensor
from msprobe.base.statistic import widen

from .describer import Describer

try:
    from . import _gradients  # type: ignore[attr-defined]  # the optional extension, which has no Python source

    extension: Any = _gradients
except ImportError:  # it could not be built here: Python does the same, slower
    extension = None


class Place(str):
    """The place of a tensor in a call's arguments or results: `1.mask`."""

    __slots__ = ()


Skeleton: TypeAlias = Any
"""A tree with its tensors replaced by their places, everything else by None."""

Memo = dict[int, str]
"""Records already made of the gradients of one node, by index: several calls may share a node."""


class Contribution:
    """What arrived so far for one argument: the sum of the parts, in their order of arrival."""

    __slots__ = ("dtype", "parts", "record", "shared", "total")

    def __init__(self) -> None:
        self.parts = 0
        self.shared = False
        self.dtype = ""
        self.record = ""
        self.total: np.ndarray[Any, Any] | None = None
        """The sum, where it was built from arrays."""

    def add(self, array: np.ndarray[Any, Any]) -> None:
        """Add a part."""
        self.total = summed(self.total, array)


def summed(total: np.ndarray[Any, Any] | None, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a sum and one more part, in the sum's own memory where that can be. The first part is copied, since the
    framework may write into its memory again.
    """
    array = widen(array)
    if total is None:
        return array.copy()
    with np.errstate(all="ignore"):  # a sum that overflows is infinite, also where the user has numpy raise
        if total.dtype == array.dtype and total.ndim:
            total += array
            return total
        return total + array  # type: ignore[no-any-return]  # of two scalars numpy says Any


class Backward:
    """A call's backward: what is expected, what has come, and whether the records are wanted.

    It ends, and is written, when everything expected has come and every recorded call inside it has ended; or at the
    end of the whole backward with what has come by then (a result that nobody used sends no gradient).
    """

    __slots__ = (
        *("_above", "_arguments", "_describer", "_expected", "_incoming", "_inner", "_outgoing", "_results"),
        *("_session", "_to_leaves", "_waiting", "at", "begun", "done", "kept", "lowest", "name"),
    )

    def __init__(self, name: str, above: "Backward | None", session: Any, describer: Describer, at: str = "") -> None:
        self.name = name
        self.at = at
        """Where in the step the call stands, as members of its entry; empty at the usual place."""
        self._describer = describer
        self.begun = self.done = self.kept = False
        self.lowest = -1
        """The lowest sequence number among the call's own nodes, where the framework has such."""
        self._above = above
        self._session = session
        self._waiting = 0
        self._inner: list[Backward] = []
        self._incoming: dict[str, str] = {}
        self._outgoing: dict[str, Contribution] = {}
        self._expected: dict[str, int] = {}
        self._to_leaves: set[str] = set()
        self._arguments: Skeleton = None
        self._results: Skeleton = None

    def describe(self, arguments: Skeleton, results: Skeleton) -> None:
        """Take the shape of the forward call's arguments and results, without their tensors."""
        self._arguments, self._results = arguments, results
        if self._waiting and self._above is not None:
            self._above._waiting += 1
            self._above._inner.append(self)

    def expect(self, places: list[str], to_leaf: bool = False) -> None:
        """Expect one more arrival; `places` are the arguments to which it will contribute.

        Whether the gradient of a leaf is wanted at all cannot be known (`to_leaf`).
        """
        self._waiting += 1
        if to_leaf:
            self._to_leaves.update(places)
        for place in places:
            self._expected[place] = self._expected.get(place, 0) + 1

    @property
    def parent(self) -> str | None:
        """Return the name of the enclosing cell's backward."""
        return self._above.name if self._above is not None else None

    def entry(self, incoming: str, outgoing: str) -> str | None:
        """Return the JSON text of its entry; None if nothing of it is recorded."""
        if not self.kept:
            return None
        parts = [f'"input":{incoming}'] if self._session.collects_backward_input else []
        if self._session.collects_backward_output:
            parts.append(f'"output":{outgoing}')
        return f"{{{','.join(parts)}{self.at}}}"

    @property
    def live(self) -> bool:
        """Return whether anything was expected at all."""
        return self._waiting > 0

    def incoming(self, place: str, gradient: AnyTensor, index: int, memo: Memo, shared: bool) -> None:
        """Take the gradient with respect to a result; `shared` if the result is an argument passed through."""
        if self.done:
            self._come_late("input", place)
            return
        if not self.begun:
            self.begun = True
            self.kept = self._session.begin_backward(self)
        if self.kept and self._session.collects_backward_input and gradient is not None:
            record = self._record(gradient, "input", place, index, memo)
            self._incoming[place] = _accumulated(record) if shared else record

    def contribute(self, place: str, gradient: AnyTensor, index: int, memo: Memo, shared: bool) -> None:
        """Take a part of the gradient with respect to an argument."""
        if self.done:
            self._come_late("output", place)
            return
        part = self._outgoing.get(place)
        if part is None:
            part = self._outgoing[place] = Contribution()
        part.shared = part.shared or shared
        if gradient is None:
            return
        part.parts += 1
        if not (self.kept and self._session.collects_backward_output):
            return
        if self._expected.get(place, 1) == 1:
            part.record = self._record(gradient, "output", place, index, memo)
        else:
            part.dtype = self._describer.dtype(gradient)
            part.add(self._describer.elements(gradient))

    def _come_late(self, side: str, place: str) -> None:
        cause = "a gradient arrived after the backward pass of the call had ended, as with a second backward pass"
        self._describer.lost(self.name, f"{side}.{place}", cause)

    def _record(self, gradient: AnyTensor, side: str, place: str, index: int, memo: Memo) -> str:
        describer = self._describer
        if describer.saves:  # its record names a separate file
            return describer.tensor(gradient, self.name, f"{side}.{place}")
        record = memo.get(index)
        if record is None:
            record = memo[index] = describer.tensor(gradient, self.name, f"{side}.{place}")
        return record

    def arrived(self) -> None:
        """Note that one of the expected arrivals is complete."""
        self._waiting -= 1
        if self._waiting == 0 and not self.done:
            self.finish()

    def finish(self) -> None:
        """Write what has come and notify the enclosing call; a second time does nothing."""
        if self.done:
            return
        self.done = True
        if self.begun and self.kept:
            records = {place: self._gradient(place, part) for place, part in self._outgoing.items()}
            incoming, outgoing = fill(self._results, self._incoming), fill(self._arguments, records)
            self._session.end_backward(self, incoming, outgoing)
        elif self.begun:
            self._session.end_backward(self, "", "")
        self._incoming.clear()
        self._outgoing.clear()
        self._inner.clear()
        if self._above is not None:
            self._above.arrived()

    def finish_all(self) -> None:
        """Finish what has begun inside this call, then the call."""
        for inner in reversed(self._inner):
            if inner.begun:
                inner.finish_all()
        self.finish()

    def _gradient(self, place: str, part: Contribution) -> str:
        if place in self._to_leaves and part.parts < self._expected[place]:
            return "null"  # nobody wants this gradient: what came is what some node computed besides
        record = part.record or "null"
        if part.total is not None:
            kind = self._describer.kind
            record = self._describer.array(part.total, self.name, f"output.{place}", kind, part.dtype)
        return _accumulated(record) if part.shared else record


def _accumulated(record: str) -> str:
    """Return a record marked as the sum over every user of the tensor; null stays null."""
    return record if record == "null" else f'{record[:-1]},"gradient":"accumulated"}}'


_PLACES = tuple(Place(i) for i in range(32))


def _skeletons(values: Sequence[Any], tensors: Sequence[Leaf]) -> list[Skeleton]:
    """Return the shape of a call's inputs or outputs, without holding their tensors, the leaves `tensors`."""
    made: list[Skeleton] = []
    places = {place for place, _ in tensors}
    for i, value in enumerate(values):
        if type(value) is list or type(value) is dict:
            made.append(skeleton(value, str(i)))
        else:
            place = _PLACES[i] if i < len(_PLACES) else Place(i)
            made.append(place if place in places else None)
    return made


new_backward: type[Backward] = Backward
skeletons: Callable[[Sequence[Any], Sequence[Leaf]], Skeleton] = _skeletons
if extension is not None:
    new_backward, skeletons = extension.Backward, extension.skeletons


def skeleton(node: Any, place: str = "") -> Skeleton:
    """Return the shape of a tree."""
    kind = type(node)
    if kind is list:
        return [skeleton(inner, f"{place}.{i}" if place else str(i)) for i, inner in enumerate(node)]
    if kind is dict:
        return {key: skeleton(inner, f"{place}.{key}" if place else key) for key, inner in node.items()}
    return Place(place) if is_tensor(node) else None


def fill(shape: Skeleton, records: dict[str, str]) -> str:
    """Return the JSON text of a skeleton: its places replaced by `records`, null if there is none."""
    kind = type(shape)
    if kind is Place:
        return records.get(shape, "null")
    if kind is list:
        made = [records.get(each, "null") if type(each) is Place else fill(each, records) for each in shape]
        return f"[{','.join(made)}]"
    if kind is dict:
        return f"{{{','.join([f'{quote(key)}:{fill(inner, records)}' for key, inner in shape.items()])}}}"
    return "null"
