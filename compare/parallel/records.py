"""The entry of a call of the whole model, from those of the tensor parallel ranks: record by record.

| the ranks' values | the merged one |
|---|---|
| shards of a distributed tensor, which their records describe | see `shards.py` |
| parts of a whole | their concatenation; if the axis is unknown, stacked along a new one |
| copies of a whole, equal | the copy |
| copies of a whole, not equal | a finding; the copy that differs most from the other side's |
| parts of a sum, and an exchange adds them up | the result of the exchange |
| any others | a tensor without statistics, and a finding with the reason |
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from msprobe.base import names
from msprobe.compare.core.tensor import source_of
from msprobe.findings.catalogue import parallel as kinds
from msprobe.findings.kind import Kind
from msprobe.store.describe import statistics

from .cuts import UNKNOWN, Cut, TakenAs, by_class, by_shapes, stacked
from .exchanges import Exchanges
from .shards import Array, Parts, assembled, outside, parts_by_mesh
from .stages import Part, Placed
from .tensors import Tensors, joined_axis
from .values import (
    Record,
    Shape,
    are_alike,
    concatenated,
    described,
    different_ones,
    distance,
    is_tensor,
    odd_ones,
    settled,
    shape_of,
    without_statistics,
)


@dataclass(frozen=True, slots=True)
class MergeNote:
    """One finding while ranks are merged, of a kind of `msprobe.findings.catalogue.parallel`.

    distance : by how much copies differ, as a share of the larger norm; or a shard from its part of the golden.
    ranks : the ranks that differ from the others.
    """

    kind: Kind
    call: str
    place: str = ""
    distance: float = 0.0
    ranks: tuple[int, ...] = ()


@dataclass
class Tally:
    """The values of one dump, counted by how they were merged (`counts`), and the findings."""

    findings: list[MergeNote] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, how: str) -> None:
        self.counts[how] = self.counts.get(how, 0) + 1


_PARTS = {"input_args": "input", "input_kwargs": "kwargs", "input": "input", "parameters": "parameters"}
_TREES = (*_PARTS, "output")


@dataclass(frozen=True, slots=True)
class _At:
    """A place in an entry: the part of the call, and the path in it."""

    part: str
    path: tuple[str, ...] = ()

    def inside(self, key: object) -> "_At":
        return _At(self.part, (*self.path, str(key)))

    @property
    def text(self) -> str:
        part = () if self.part == "parameters_grad" else (_PARTS.get(self.part, self.part),)
        return ".".join((*part, *self.path))


class EntryMerger:
    """Merges the entries of calls.

    `ranks` are the numbers of the ranks; `tensors` reads and writes elements, None if only statistics are merged.
    `is_golden`: they are of the trusted side; `is_ours`: their statistics were summed in float64. `has_shards`: tensors
    are distributed, according to their records; `shares_batch`: each rank has its share of the batch.
    """

    def __init__(
        self,
        exchanges: Exchanges,
        renamed: Mapping[Part, str],
        ranks: Sequence[int],
        tensors: Tensors | None,
        *,
        has_shards: bool,
        is_golden: bool,
        is_ours: bool,
    ) -> None:
        self.exchanges, self.is_golden, self.is_ours = exchanges, is_golden, is_ours
        self.ranks, self.tensors = ranks, tensors
        self.has_shards = has_shards
        self.shares_batch = False
        self._renamed = renamed
        self._has_stages = any(part.stage for part in renamed)
        self.tally = Tally()

    def merged(
        self, call: Placed, entries: Sequence[Mapping[str, Any]], others: Sequence[Any] | None, whole: Any
    ) -> dict[str, Any]:
        """Return the entry of a call. `others` are those of the same call on the ranks of the other side, None without
        another side; `whole` is the merged entry of the golden."""
        one = _Call(self, call, entries, is_alone=others is None)
        made: dict[str, Any] = {}
        is_gradient = names.parse(call.name).kind == "parameters_grad"
        for key, first in entries[0].items():
            if key == "missing":
                parts = [part for entry in entries for part in entry.get(key, ()) if type(part) is str]
                made[key] = list(dict.fromkeys(parts))
            elif is_gradient or key in _TREES:
                at = _At("parameters_grad", (key,)) if is_gradient else _At(key)
                theirs = [other.get(key) for other in others or () if isinstance(other, dict)]
                golden = whole.get(key) if isinstance(whole, dict) else None
                made[key] = one.tree([entry.get(key) for entry in entries], theirs, golden, at)
            else:
                made[key] = first
        return made

    def source(self, text: object, stage: int) -> str | None:
        """Return the producer of a value by its name in the whole model; None if that is not a call of it."""
        if not isinstance(text, str):
            return None
        found = source_of(text)
        if found.origin == "parameter":
            # A stage numbers the layers in names of parameters separately.
            return None if self._has_stages else text
        if found.origin != "call":
            return text
        renamed = self._renamed.get(Part(stage, found.call))
        return f"call {'.'.join((renamed, found.part, *found.path))}" if renamed else None


class _Call:
    """Merges the trees of one call."""

    def __init__(
        self, merger: EntryMerger, call: Placed, entries: Sequence[Mapping[str, Any]], *, is_alone: bool
    ) -> None:
        self._is_alone = is_alone
        self._merger, self._tally, self._call = merger, merger.tally, call
        self._first = entries[0]
        self._has_lost_inputs = False
        self._is_cell = names.parse(call.name).kind != "api"

    def tree(self, trees: Sequence[Any], others: Sequence[Any], whole: Any, at: _At) -> Any:
        """Return the merged value at a place, from the ranks of this side, and those of the other side if they
        correspond."""
        first = trees[0]
        if is_tensor(first) and all(map(is_tensor, trees)):
            trusted = whole if is_tensor(whole) else None
            made = self._tensor(trees, [other for other in others if is_tensor(other)], at, trusted)
            return settled(made, whole, is_ours=self._merger.is_ours) if len(trees) > 1 and is_tensor(whole) else made
        if isinstance(first, dict) and "type" not in first and all(_keys(tree) == _keys(first) for tree in trees):
            inside = {key: ([t[key] for t in trees], [o[key] for o in others if key in _keys(o)]) for key in first}
            inner = whole if isinstance(whole, dict) else {}
            return {key: self.tree(*both, inner.get(key), at.inside(key)) for key, both in inside.items()}
        if isinstance(first, list) and all(_length(tree) == len(first) for tree in trees):
            alike = [other for other in others if _length(other) == len(first)]
            golden = whole if _length(whole) == len(first) else [None] * len(first)
            # The list around the only record of a gradient is not a place.
            is_wrapper = at.part == "parameters_grad" and len(first) == 1 and len(at.path) == 1
            return [
                self.tree([t[n] for t in trees], [o[n] for o in alike], golden[n], at if is_wrapper else at.inside(n))
                for n in range(len(first))
            ]
        return self._value(trees, others, at)

    def _value(self, trees: Sequence[Any], others: Sequence[Any], at: _At) -> Any:
        """Return a value that is not a tensor. A size that is the sum of the parts on the other side is split like its
        tensor."""
        first = trees[0]
        if any(tree != first for tree in trees):
            types = {tree.get("type") if isinstance(tree, dict) else type(tree) for tree in trees}
            self._found(kinds.VALUES_DIFFER if len(types) == 1 else kinds.STRUCTURES_DIFFER, at)
            self._tally.count("not merged")
            return None
        other = others[0] if others else None
        size, theirs = (node.get("value") if isinstance(node, dict) else None for node in (first, other))
        if len(others) == 1 < len(trees) and type(size) is type(theirs) is int and size * len(trees) == theirs > 0:
            return {**first, "value": theirs}
        return first

    def _tensor(self, records: Sequence[Record], others: Sequence[Record], at: _At, trusted: Record | None) -> Record:
        if (theirs := parts_by_mesh(others)) and all(each.is_whole for each in theirs):
            others = [each.bare() if each.is_sum else each.merged(None) for each in theirs]
        if others and at.part == "parameters_grad" and _is_sum(records) != _is_sum(others):
            return self._unmerged(kinds.ACCUMULATED, records[0], at, shape_of(others[0]))
        tensors = self._merger.tensors
        arrays = tensors.all(records) if tensors is not None else None
        parts = parts_by_mesh(records)
        if parts is None:
            return self._plain(records, others, at, arrays)
        by_rank = None if arrays is None else dict(enumerate(arrays))
        if not all(each.is_whole for each in parts):
            return self._unmerged(kinds.SHARDS_ABSENT, records[0], at, parts[0].shape)
        wholes, elements = [], []
        for each in parts:
            array = None if by_rank is None else assembled(each, by_rank)
            if each.is_sum and array is None:
                return self._unmerged(kinds.PARTIAL, records[0], at, each.shape)
            self._note_copies(each, at)
            if array is not None and each.is_sum:
                wholes.append(each.bare() | json.loads(f"{{{statistics(array)}}}"))
            else:
                wholes.append(each.merged(trusted))
            elements.append(array)
            if trusted is not None and not self._merger.is_golden:
                self._note_suspects(each, array, trusted, at)
        known = [array for array in elements if array is not None]
        if len(parts) > 1:
            return self._plain(wholes, others, at, known if len(known) == len(parts) else None)
        self._tally.count("put together from shards")
        made = self._described({**wholes[0], "from": records[0].get("from")}, parts[0].shape)
        return self._saved(made, at, elements[0])

    def _note_copies(self, parts: Parts, at: _At) -> None:
        for copies in parts.copies_that_differ:
            records = [shard.record for shard in copies]
            apart = max(distance(record, records[0]) for record in records)
            ranks = tuple(self._merger.ranks[copies[n].index] for n in odd_ones(records))
            self._tally.findings.append(MergeNote(kinds.REPLICAS_DIFFER, self._call.name, at.text, apart, ranks))

    def _note_suspects(self, parts: Parts, array: Array | None, trusted: Record, at: _At) -> None:
        """Note the blocks that differ from the golden far more than the others, with the ranks that have them."""
        if shape_of(trusted) != parts.shape or parts.is_sum:
            return
        golden = None
        if array is not None and self._merger.tensors is not None:
            golden = self._merger.tensors.trusted(trusted)
        if array is not None and golden is not None and golden.shape == array.shape:
            apart = [_relative(array[block.slices], golden[block.slices]) for block in parts.blocks]
        else:
            apart = [outside(block.first.record, trusted) for block in parts.blocks]
        usual = sorted(apart)[(len(apart) - 1) // 2]
        for block, far in zip(parts.blocks, apart, strict=True):
            if far > max(_FAR, _FARTHER * usual):
                ranks = tuple(self._merger.ranks[index] for index in block.ranks)
                self._tally.findings.append(MergeNote(kinds.SHARD_DIFFERS, self._call.name, at.text, far, ranks))

    def _plain(
        self, records: Sequence[Record], others: Sequence[Record], at: _At, arrays: Sequence[Array] | None
    ) -> Record:
        """Merge values without descriptions of shards, or those of several meshes."""
        if self._merger.has_shards:
            records, others, arrays = self._without_copies(records, others, arrays)
        shapes = [shape_of(record) for record in records]
        are_equal = are_alike(records)
        cut = self._cut(shapes, others, at, are_equal)
        if at.part == "output" and self._has_lost_inputs:
            # Each rank computes something different from the whole model.
            return self._unmerged(kinds.INPUTS_NOT_MERGED, records[0], at, cut.shape or shapes[0])
        if self._is_of_share(cut, records, at):
            return self._unmerged(kinds.SHARE_OF_BATCH, records[0], at, cut.shape or shapes[0])
        if cut.taken_as in (TakenAs.PARTS, TakenAs.STACK):
            self._tally.count("concatenated")
            made = self._described({**concatenated(records, cut.shape), "from": records[0].get("from")}, cut.shape)
            return self._saved(made, at, _joined(arrays, cut))
        if are_equal:
            self._tally.count("equal on all ranks")
            return self._saved(self._described(records[0], shapes[0]), at, arrays[0] if arrays else None)
        if sums := self._merger.exchanges.sum_of(records):
            self._tally.count("reduced over ranks")
            # Each rank keeps a part of a reduce-scatter.
            numbers = sums[0] if are_alike(sums) else concatenated(sums, shapes[0])
            return self._described({**numbers, "from": records[0].get("from")}, shapes[0])
        if self._merger.shares_batch and at.part not in ("parameters", "parameters_grad"):
            return self._unmerged(kinds.SHARE_OF_BATCH, records[0], at, shapes[0])
        if cut.taken_as is TakenAs.UNKNOWN and self._is_alone:
            self._found(kinds.SIDE_BY_SIDE, at)
            self._tally.count("side by side")
            whole = stacked(shapes).shape
            return self._described(concatenated(records, whole), whole)
        if cut.taken_as is TakenAs.UNKNOWN:
            return self._unmerged(kinds.NOT_KNOWN, records[0], at, shapes[0])
        if not self._is_copy(at):
            return self._unmerged(kinds.PART_OF_A_SUM, records[0], at, shapes[0])
        return self._most_different_copy(records, others, at, arrays)

    def _without_copies(
        self, records: Sequence[Record], others: Sequence[Record], arrays: Sequence[Array] | None
    ) -> tuple[Sequence[Record], Sequence[Record], Sequence[Array] | None]:
        """Return the values of a distributed model that are not copies of each other, on both sides, if these fit
        together.

        Ranks of one tensor-parallel group have the same share of the batch.
        """
        mine, theirs = different_ones(records), different_ones(others)
        if len(mine) == 1 or not theirs or (len(mine), len(theirs)) == (len(records), len(others)):
            return records, others, arrays
        ours, golden = [records[n] for n in mine], [others[n] for n in theirs]
        if len(ours) != len(golden) and by_shapes([*map(shape_of, ours)], [*map(shape_of, golden)]) == UNKNOWN:
            return records, others, arrays
        return ours, golden, None if arrays is None else [arrays[n] for n in mine]

    def _is_of_share(self, cut: Cut, records: Sequence[Record], at: _At) -> bool:
        """Return whether a value is a gradient of the loss of a rank's own share of the batch: its relation to that of
        the whole batch depends on how the loss is averaged."""
        merger, name = self._merger, names.parse(self._call.name)
        if not merger.has_shards or len(records) < 2 or cut.taken_as is not TakenAs.PARTS:
            return False
        if name.direction != "backward":
            is_batch = at.part in ("input_args", "input_kwargs") and records[0].get("from") in (None, "leaf")
            merger.shares_batch = merger.shares_batch or is_batch
            return False
        return merger.shares_batch and name.kind != "parameters_grad"

    def _saved(self, record: Record, at: _At, array: Array | None) -> Record:
        """Return a record with its elements written, if they are known."""
        if array is None or self._merger.tensors is None:
            return record
        return {**record, "data_name": self._merger.tensors.save(f"{self._call.name}.{at.text}", array)}

    def _cut(self, shapes: Sequence[Shape], others: Sequence[Record], at: _At, are_equal: bool) -> Cut:
        if others and (cut := by_shapes(shapes, [shape_of(other) for other in others])) != UNKNOWN:
            return cut
        opposite = self._opposite(at.part)
        cut = by_class(self._call.name, at.part, at.path, shapes, are_equal=are_equal, opposite=opposite)
        if cut != UNKNOWN:
            return cut
        if len(others) == len(shapes) > 1:
            # Both sides are cut alike, so that parts of a sum can be compared as they are. The golden decides.
            trusted_are_equal = are_equal if self._merger.is_golden else are_alike(others)
            return Cut(TakenAs.WHOLE, shapes[0]) if trusted_are_equal else stacked(shapes)
        if are_equal:
            return Cut(TakenAs.WHOLE, shapes[0])
        # Cells do not pass on parts of sums.
        return stacked(shapes) if self._is_cell and at.part != "parameters_grad" else UNKNOWN

    def _opposite(self, part: str) -> Shape:
        tree = self._first.get("output" if part != "output" else "input_args", self._first.get("input"))
        node: Any = tree[0] if isinstance(tree, list) and tree else None
        return shape_of(node) if is_tensor(node) else ()

    def _is_copy(self, at: _At) -> bool:
        """Return whether each rank must have the same value if the whole is not split: arguments, results and
        parameters of cells. Gradients of parameters, and results of functions inside a cell, may still be added up."""
        return self._is_cell and at.part != "parameters_grad"

    def _most_different_copy(
        self, records: Sequence[Record], others: Sequence[Record], at: _At, arrays: Sequence[Array] | None
    ) -> Record:
        """Return the copy that differs most from the other side, so that a comparison reports it."""
        trusted = others[0] if others and not self._merger.is_golden else records[0]
        worst = max(records, key=lambda record: distance(record, trusted))
        apart = max(distance(record, records[0]) for record in records)
        odd = odd_ones(records) if len(records) == len(self._merger.ranks) else ()
        ranks = tuple(self._merger.ranks[n] for n in odd)
        self._tally.findings.append(MergeNote(kinds.REPLICAS_DIFFER, self._call.name, at.text, apart, ranks))
        self._tally.count("copies that differ")
        place = next(n for n, record in enumerate(records) if record is worst)
        return self._saved(self._described(worst, shape_of(worst)), at, arrays[place] if arrays else None)

    def _unmerged(self, kind: Kind, record: Record, at: _At, shape: Shape) -> Record:
        self._found(kind, at)
        self._tally.count("not merged")
        self._has_lost_inputs |= not self._is_cell and at.part in ("input_args", "input_kwargs", "input")
        return without_statistics(record, shape)

    def _described(self, record: Record, shape: Shape) -> Record:
        made = described(record, shape)
        if source := self._merger.source(record.get("from"), self._call.parts[0].stage):
            made["from"] = source
        return made

    def _found(self, kind: Kind, at: _At) -> None:
        self._tally.findings.append(MergeNote(kind, self._call.name, at.text))


def _is_sum(records: Sequence[Record]) -> bool:
    """Return whether gradients are sums with those of earlier backward passes."""
    return records[0].get("gradient") == "accumulated"


_FAR, _FARTHER = 1e-3, 10
"""A shard is suspicious if its relative distance from its part of the golden is more than `_FAR`, and more than
`_FARTHER` times that of the median shard. A difference within the rounding of float16 is not."""


def _relative(array: Array, golden: Array) -> float:
    """Return the norm of the difference relative to the golden's norm; infinity if one is not finite and they
    differ."""
    mine, theirs = array.astype(np.float64), golden.astype(np.float64)
    if np.array_equal(mine, theirs, equal_nan=True):
        return 0.0
    with np.errstate(all="ignore"):
        found = float(np.linalg.norm(mine - theirs) / max(np.linalg.norm(theirs), np.finfo(np.float64).tiny))
    return found if math.isfinite(found) else math.inf


def _joined(arrays: Sequence[Array] | None, cut: Cut) -> Array | None:
    """Return the elements of all parts; None if they, or the axis, are unknown."""
    if not arrays:
        return None
    if cut.taken_as is TakenAs.STACK:
        is_stack = all(cut.shape == (len(arrays), *array.shape) for array in arrays)
        return np.stack(arrays) if is_stack else None
    axis = joined_axis([array.shape for array in arrays], cut.shape)
    return None if axis is None else np.concatenate(arrays, axis)


def _keys(tree: Any) -> list[str]:
    return list(tree) if isinstance(tree, dict) else []


def _length(tree: Any) -> int:
    return len(tree) if isinstance(tree, list) else -1
