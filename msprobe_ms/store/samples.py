"""Samples of the elements of tensors, next to a dump that has no tensors (format.md, page 16).

The positions follow from the name of a record, so that two runs sample the same elements, and so that a sample of
another dump can be taken at the positions of this one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from msprobe.base.digest import crc32c
from msprobe.base.files import open_input, replace_atomically

from .arrow import require_pyarrow
from .columnar.records import damaged

SAMPLES = "samples.parquet"

MOST = 64
"""Elements of a tensor that are stored at most."""

Floats = NDArray[np.float64]
Array = NDArray[Any]

_ADDED = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


@dataclass(frozen=True, slots=True)
class Sample:
    """Elements of one tensor.

    drawn_for : name of the record from which the positions follow: the first one with this tensor.
    count : number of elements of the whole tensor.
    digest : CRC-32C of its bytes.
    elements : those that are stored.
    """

    drawn_for: str
    count: int
    digest: int
    elements: Floats

    @property
    def positions(self) -> NDArray[np.int64]:
        """Return the places of the elements in the tensor, in C order."""
        return positions(self.drawn_for, self.count, len(self.elements))


def positions(name: str, count: int, size: int) -> NDArray[np.int64]:
    """Return the places of `size` elements of a tensor with `count` elements; all of them if there are no more.

    The n-th place is splitmix64(CRC-32 of the name * 2**32 + n) modulo `count`; places may be repeated.
    """
    if count <= size:
        return np.arange(count, dtype=np.int64)
    with np.errstate(over="ignore"):
        mixed = (np.uint64(crc32(name.encode("utf-8", "surrogatepass"))) << np.uint64(32)) + np.arange(
            size, dtype=np.uint64
        )
        mixed = mixed + _ADDED
        mixed = (mixed ^ (mixed >> _SHIFTS[0])) * _FACTORS[0]
        mixed = (mixed ^ (mixed >> _SHIFTS[1])) * _FACTORS[1]
        mixed = mixed ^ (mixed >> _SHIFTS[2])
    return (mixed % np.uint64(count)).astype(np.int64)


def taken(array: Array, at: NDArray[np.int64]) -> Floats:
    """Return some elements of a tensor, by their places in C order, as float64; complex numbers by their magnitude."""
    found = array.reshape(-1)[at]
    return np.asarray(np.abs(found) if np.iscomplexobj(found) else found, np.float64)


def sample_of(name: str, array: Array, size: int = MOST) -> Sample:
    """Return the sample of a tensor."""
    contiguous = np.ascontiguousarray(array)
    elements = taken(contiguous, positions(name, array.size, size))
    return Sample(name, array.size, crc32c(contiguous, 0) if array.size else 0, elements)


def write_samples(folder: Path, samples: Mapping[str, Sample]) -> None:
    """Write the samples of a dump, by the names of their records; OSError if writing fails, DumpError without
    pyarrow."""
    pa = require_pyarrow(f"{folder}: samples are written with pyarrow")
    names = list(samples)
    drawn, place = list[str](), dict[str, int]()
    for sample in samples.values():
        if sample.drawn_for not in place:
            place[sample.drawn_for] = len(drawn)
            drawn.append(sample.drawn_for)
    first = {samples[name].drawn_for: samples[name] for name in reversed(names)}
    stored: Sequence[Sample] = [first[name] for name in drawn]
    sizes = [len(one.elements) for one in stored]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    values = np.concatenate([np.zeros(0), *(one.elements for one in stored)])
    kind = pa.list_(pa.field("element", pa.float64()))
    own = [samples[name].drawn_for == name for name in names]
    lists = pa.ListArray.from_arrays(pa.array(starts), pa.array(values), kind).to_pylist()
    empty: list[float] = []
    table = pa.table(
        {
            "record": pa.array(names, pa.string()),
            "same": pa.array([None if is_own else samples[n].drawn_for for n, is_own in zip(names, own, strict=True)]),
            "count": pa.array([samples[name].count if is_own else 0 for name, is_own in zip(names, own, strict=True)]),
            "digest": pa.array(
                [samples[name].digest if is_own else 0 for name, is_own in zip(names, own, strict=True)], pa.uint32()
            ),
            "elements": pa.array(
                [lists[place[name]] if is_own else empty for name, is_own in zip(names, own, strict=True)], kind
            ),
        }
    )
    with replace_atomically(folder / SAMPLES) as file:
        pa.parquet.write_table(
            table,
            file,
            row_group_size=max(1, len(table)),
            compression="zstd",
            compression_level=9,
            use_dictionary=["same"],
            write_statistics=False,
            column_encoding={
                "record": "DELTA_BYTE_ARRAY",
                "count": "DELTA_BINARY_PACKED",
                "elements.list.element": "BYTE_STREAM_SPLIT",
            },
        )


def read_samples(folder: Path) -> dict[str, Sample]:
    """Return the samples of a dump by the names of their records; empty without any. DumpError if the file is
    damaged."""
    path = folder / SAMPLES
    if not path.is_file():
        return {}
    pa = require_pyarrow(f"{path}: is a Parquet table")
    with damaged(path), open_input(path) as file:
        table = pa.parquet.read_table(file).combine_chunks()
        names, same = table["record"].to_pylist(), table["same"].to_pylist()
        counts, digests = table["count"].to_pylist(), table["digest"].to_pylist()
        elements = table["elements"].to_pylist()
        found: dict[str, Sample] = {}
        for name, other, count, crc, values in zip(names, same, counts, digests, elements, strict=True):
            if other is not None:
                found[name] = found[other]
                continue
            if count < 0 or len(values) > count:
                raise ValueError(f"{name}: a sample has more elements than its tensor")
            found[name] = Sample(name, count, crc, np.array(values, np.float64))
        return found
