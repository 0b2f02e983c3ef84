"""A value becomes a record: what `docs/format.md` 2.2 and 2.3 say of it.

The other implementation of this page's interface would read tensors of another framework.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from mindspore import Tensor
from mindspore.common.dtype import Type

from msprobe.base.log import once
from msprobe.base.statistic import statistic
from msprobe.store.write import Writer

from .host import array_of


class Place(str):
    """Where a tensor stands in a call's arguments or results: `1.mask`."""

    __slots__ = ()


JSON: TypeAlias = Any
"""Nested lists, objects, texts, numbers and None, as the json module takes them."""

Sources: TypeAlias = Callable[[Tensor], str]
"""Answers who produced a tensor, in the words of the format's `from`; empty where that is not known."""

DEPTH = 50
"""Values nested deeper than this are cut, as in the format."""

_PLAIN = (bool, int, float, str)
_PLAIN_TYPES = frozenset((*_PLAIN, type(None)))


def children(value: Any) -> Iterator[tuple[Any, Any]] | None:
    """The members of a container with their keys or positions; None where `value` is not one."""
    kind = type(value)
    if kind is tuple or kind is list:  # nearly always; the questions below are slow
        return iter(enumerate(value))
    if kind in _PLAIN_TYPES:
        return None
    if isinstance(value, Mapping):
        return iter(value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return zip(value._fields, value, strict=True)
    if isinstance(value, (list, tuple)):
        return iter(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
    return None


def is_listed(value: Any) -> bool:
    """Whether a container becomes a JSON list (by position) and not an object (by key)."""
    return isinstance(value, (list, tuple)) and not hasattr(value, "_fields")


Leaf: TypeAlias = tuple[str, Tensor]
"""A tensor inside a call's arguments or results, after its place: ("1.mask", tensor)."""

Skeleton: TypeAlias = Any
"""A nested value with its tensors replaced by their places, everything else by None."""


def leaves(value: Any, place: str = "", found: list[Leaf] | None = None) -> list[Leaf]:
    """Every tensor inside a nested value, depth first, with its place."""
    found = [] if found is None else found
    if isinstance(value, Tensor):
        found.append((place, value))
    elif (inner := children(value)) is not None:
        for k, v in inner:
            leaves(v, f"{place}.{k}" if place else str(k), found)
    return found


def skeleton(value: Any, place: str = "") -> Skeleton:
    """The shape of a nested value, without holding its tensors."""
    if isinstance(value, Tensor):
        return Place(place)
    inner = children(value)
    if inner is None:
        return None
    members = {str(k): skeleton(v, f"{place}.{k}" if place else str(k)) for k, v in inner}
    return list(members.values()) if is_listed(value) else members


def fill(shape: Skeleton, records: dict[str, JSON]) -> JSON:
    """The JSON of a skeleton: its places replaced by `records`, null where there is none."""
    if isinstance(shape, Place):
        return records.get(shape)
    if isinstance(shape, list):
        return [fill(inner, records) for inner in shape]
    if isinstance(shape, dict):
        return {key: fill(inner, records) for key, inner in shape.items()}
    return None


class Describer:
    """Makes records, and writes the npy files of a run that saves tensors."""

    def __init__(self, writer: Writer, saves: bool) -> None:
        self._writer = writer
        self.saves = saves
        self._dtypes: dict[Any, str] = {}

    def value(self, value: Any, call: str, part: str, depth: int = 0, sources: Sources | None = None) -> JSON:
        """The record of any value. `part` is its place in the call, `input.1`; `sources` tells who made a tensor."""
        if isinstance(value, Tensor):
            record = self.tensor(value, call, part)
            if sources is not None and record is not None and (source := sources(value)):
                record["from"] = source
            return record
        if value is None:
            return None
        if isinstance(value, _PLAIN):
            return {"type": type(value).__name__, "value": value}
        inner = children(value)
        if inner is None:
            return self._rare(value, call, part)
        if depth >= DEPTH:
            self.lost(call, part, f"nested deeper than {DEPTH}")
            return None
        if is_listed(value):
            return [self.value(v, call, f"{part}.{k}", depth + 1, sources) for k, v in inner]
        return {str(k): self.value(v, call, f"{part}.{k}", depth + 1, sources) for k, v in inner}

    def _rare(self, value: Any, call: str, part: str) -> JSON:
        if isinstance(value, slice):
            ends = [e if isinstance(e, int) else None for e in (value.start, value.stop, value.step)]
            return {"type": "slice", "value": ends}
        if value is Ellipsis:
            return {"type": "ellipsis", "value": "..."}
        if isinstance(value, Type):
            return {"type": "mindspore.dtype", "value": str(value)}
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            return self.array(value, call, part, "numpy.ndarray", str(value.dtype))
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return {"type": type(value).__name__, "value": value.item()}
        return None

    def tensor(self, tensor: Tensor, call: str, part: str) -> JSON:
        """The record of a tensor; None, with a line in `missing`, where it could not be read."""
        try:
            array = array_of(tensor)
        except Exception as cause:  # a debugger never stops the training because of itself
            self.lost(call, part, reason(cause))
            return None
        return self.array(array, call, part, "mindspore.Tensor", self.dtype(tensor))

    def dtype(self, tensor: Tensor) -> str:
        """The dtype's name as the dump spells it: `Float32`."""
        dtype = tensor.dtype
        text = self._dtypes.get(dtype)
        if text is None:
            text = self._dtypes[dtype] = str(dtype)
        return text

    def array(self, array: np.ndarray[Any, Any], call: str, part: str, kind: str, dtype: str) -> JSON:
        """The record of an array that is read now; the array is neither kept nor changed."""
        s = statistic(array)
        record: dict[str, JSON] = {
            "type": kind,
            "dtype": dtype,
            "shape": list(array.shape),
            "Max": s.max,
            "Min": s.min,
            "Mean": s.mean,
            "Norm": s.norm,
        }
        if s.nan_count:
            record["nan_count"] = s.nan_count
        if s.positive_inf_count:
            record["positive_inf_count"] = s.positive_inf_count
        if s.negative_inf_count:
            record["negative_inf_count"] = s.negative_inf_count
        if self.saves:
            try:
                record["data_name"] = self._writer.tensor(f"{call}.{part}.npy", array)
            except OSError as cause:
                self.lost(call, part, f"the npy could not be written: {cause.strerror or cause}")
        return record

    def lost(self, call: str, part: str, cause: str) -> None:
        """Note once in the log, and each time in the dump, that a value could not be collected."""
        once(f"lost: {cause}", f"{call}.{part} could not be collected: {cause}; the training goes on", logging.WARNING)
        try:
            self._writer.missing(call, part, cause)
        except OSError as error:
            once("journal", f"the journal of the dump cannot be written: {error}; free some space", logging.ERROR)


def reason(cause: BaseException) -> str:
    """An exception as one line: its class and the first line of what it says."""
    said = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {said[0]}" if said else type(cause).__name__
