"""Shards of distributed tensors (`DTensor`), merged by the mesh, placements and offset in their records.

| placement along a dimension of the mesh | the ranks have |
|---|---|
| Shard, StridedShard | blocks of the tensor: statistics are combined, elements are put in their places |
| Replicate | copies, which must be equal |
| Partial | terms of a sum (of a maximum, a mean): elements are reduced, statistics cannot be |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from .values import Record, Shape, are_alike, concatenated, described, distance, shape_of

Array = np.ndarray[Any, Any]

KEY = "shard"


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's part of a distributed tensor. `at` are its coordinates in the mesh, `index` its position among the
    ranks that are merged; `offset` is None if the part is not one block."""

    index: int
    record: Record
    mesh: tuple[int, ...]
    sizes: tuple[int, ...]
    at: tuple[int, ...]
    placements: tuple[str, ...]
    whole: Shape
    offset: Shape | None

    @property
    def block(self) -> tuple[object, ...]:
        """Return a key that is equal for shards of one block of the tensor."""
        if self.offset is not None:
            return self.offset, shape_of(self.record)
        return tuple(at for at, placement in zip(self.at, self.placements, strict=True) if "Shard" in placement)

    @property
    def term(self) -> tuple[int, ...]:
        """Return a key that is equal for copies of one term of a sum."""
        return tuple(
            at for at, placement in zip(self.at, self.placements, strict=True) if placement.startswith("Partial")
        )


def shard_of(record: Record, index: int) -> Shard | None:
    """Return the shard that a record describes; None without a valid description."""
    description = record.get(KEY)
    if not isinstance(description, dict):
        return None
    sizes, at, whole = (_integers(description.get(key)) for key in ("mesh", "at", "shape"))
    placements, offset = description.get("placements"), _integers(description.get("offset"))
    if sizes is None or at is None or whole is None or not isinstance(placements, list):
        return None
    local = shape_of(record)
    if not len(sizes) == len(at) == len(placements) or not all(type(each) is str for each in placements):
        return None
    if len(local) != len(whole) or any(here >= size for here, size in zip(at, sizes, strict=True)):
        return None
    if offset is not None and (
        len(offset) != len(whole) or any(o + n > w for o, n, w in zip(offset, local, whole, strict=True))
    ):
        return None
    mesh = _ranks(description, sizes)
    return None if mesh is None else Shard(index, record, mesh, sizes, at, tuple(placements), whole, offset)


def any_shard(tree: object) -> bool:
    """Return whether a record in an entry describes a shard."""
    if isinstance(tree, dict):
        return KEY in tree or any(map(any_shard, tree.values()))
    return isinstance(tree, list) and any(map(any_shard, tree))


def _integers(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or any(type(n) is not int or n < 0 for n in value):
        return None
    return tuple(value)


_MAX_RANKS = 1 << 20


def _ranks(stored: Mapping[str, Any], sizes: Sequence[int]) -> tuple[int, ...] | None:
    """Return the ranks of the mesh; equal for equal meshes."""
    if "ranks" in stored:
        return _integers(stored["ranks"])
    first, strides = stored.get("first"), stored.get("strides")
    if type(first) is not int or not isinstance(strides, list) or len(strides) != len(sizes):
        return None
    if any(type(stride) is not int for stride in strides) or prod(sizes) > _MAX_RANKS:
        return None
    ranks = [first]
    for size, stride in zip(sizes, strides, strict=True):
        ranks = [rank + at * stride for rank in ranks for at in range(size)]
    return tuple(ranks)


@dataclass(frozen=True)
class Block:
    """One block of a tensor: for each term of a sum the shards of the ranks that have a copy of it."""

    terms: Sequence[Sequence[Shard]]

    @property
    def first(self) -> Shard:
        return self.terms[0][0]

    @property
    def slices(self) -> tuple[slice, ...]:
        """Return the place of the block in the whole tensor; all of the tensor if the block has no place."""
        offset = self.first.offset
        if offset is None:
            return ()
        return tuple(slice(o, o + n) for o, n in zip(offset, shape_of(self.first.record), strict=True))

    @property
    def ranks(self) -> tuple[int, ...]:
        """Return the places of all its shards among the ranks."""
        return tuple(sorted(shard.index for term in self.terms for shard in term))


@dataclass(frozen=True)
class Parts:
    """The blocks of one distributed tensor on one mesh. `is_whole`: they are all of its elements."""

    shape: Shape
    blocks: Sequence[Block] = field(repr=False)
    is_whole: bool

    @property
    def is_sum(self) -> bool:
        """Return whether ranks have terms of a sum."""
        return any(len(block.terms) > 1 for block in self.blocks)

    @property
    def copies_that_differ(self) -> Sequence[Sequence[Shard]]:
        """Return the copies of blocks that are not all equal."""
        terms = [term for block in self.blocks for term in block.terms]
        return [term for term in terms if not are_alike([shard.record for shard in term])]

    def merged(self, trusted: Record | None) -> Record:
        """Return the record of the whole tensor. Of copies that differ, the one that differs most from the others."""
        records = [_most_different(block.terms[0], trusted) for block in self.blocks]
        made = concatenated(records, self.shape)
        return {key: value for key, value in made.items() if key != KEY}

    def bare(self) -> Record:
        """Return the record of the whole tensor without statistics."""
        made = described(self.blocks[0].first.record, self.shape)
        return {key: value for key, value in made.items() if key in ("type", "dtype", "shape")}


def _most_different(copies: Sequence[Shard], trusted: Record | None) -> Record:
    first = copies[0].record
    if len(copies) == 1 or are_alike([shard.record for shard in copies]):
        return first
    return max((shard.record for shard in copies), key=lambda record: distance(record, trusted or first))


def parts_by_mesh(records: Sequence[Record]) -> list[Parts] | None:
    """Return the blocks of a value by mesh; None unless every rank's record describes its shard."""
    shards = [shard_of(record, index) for index, record in enumerate(records)]
    meshes: dict[tuple[object, ...], list[Shard]] = {}
    for shard in shards:
        if shard is None:
            return None
        meshes.setdefault((shard.mesh, shard.placements, shard.whole), []).append(shard)
    return [_parts(each) for each in meshes.values()]


def _parts(shards: Sequence[Shard]) -> Parts:
    blocks: dict[tuple[object, ...], dict[tuple[int, ...], list[Shard]]] = {}
    for shard in shards:
        blocks.setdefault(shard.block, {}).setdefault(shard.term, []).append(shard)
    first = shards[0]
    made = [Block(tuple(terms.values())) for terms in blocks.values()]
    count = sum(prod(shape_of(block.first.record)) for block in made)
    terms = prod(
        size for size, placement in zip(first.sizes, first.placements, strict=True) if placement.startswith("Partial")
    )
    is_whole = count == prod(first.whole) and all(len(block.terms) == terms for block in made)
    return Parts(first.whole, made, is_whole)


_REDUCTIONS = {"sum": np.sum, "avg": np.mean, "max": np.max, "min": np.min}


def assembled(parts: Parts, arrays: Mapping[int, Array]) -> Array | None:
    """Return the whole tensor from the elements of the ranks; None if a block has no place, or its sum is unknown.

    Sums are computed in float64.
    """
    first = arrays[parts.blocks[0].first.index]
    whole = np.zeros(parts.shape, first.dtype)
    for block in parts.blocks:
        shard = block.first
        if shard.offset is None:
            return None
        here = block.slices
        if len(block.terms) == 1:
            whole[here] = arrays[shard.index]
            continue
        placement = next(each for each in shard.placements if each.startswith("Partial"))
        reduce: Any = _REDUCTIONS.get(placement[len("Partial(") : -1])
        if reduce is None:
            return None
        terms = np.stack([arrays[term[0].index].astype(np.float64) for term in block.terms])
        whole[here] = reduce(terms, axis=0).astype(first.dtype)
    return whole


def outside(record: Record, whole: Record) -> float:
    """Return by how much the extremes of a part exceed those of the trusted whole, relative to its range; 0.0 if they
    do not, and if a number is missing."""
    numbers = [each.get(key) for each in (record, whole) for key in ("Max", "Min")]
    if not all(type(n) in (int, float) for n in numbers):
        return 0.0
    top, bottom, highest, lowest = (float(n) for n in numbers if n is not None)
    scale = max(abs(highest), abs(lowest), highest - lowest)
    excess = max(top - highest, lowest - bottom, 0.0)
    return excess / scale if scale else float(excess > 0)
