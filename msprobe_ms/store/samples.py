"""Samples of the elements of tensors, next to a dump that has no tensors (format.md, page 15).

The positions follow from the name of a record, so that two runs sample the same elements, and so that a sample of
another dump can be taken at the positions of this one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from msprobe.base.digest import crc32c
from msprobe.base.files import open_input, replace_atomically

from . import layout
from .arrow import require_pyarrow
from .columnar.records import damaged

MOST = 64
"""Elements of a tensor that are stored at most."""

Floats = NDArray[np.float64]
Array = NDArray[Any]

_LEVEL = 9  # of zstd

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
    rows: dict[int, int] = {}
    same = [_row(rows, sample, number) for number, sample in enumerate(samples.values())]
    own = [sample if other is None else None for sample, other in zip(samples.values(), same, strict=True)]
    starts = np.cumsum([0, *(0 if one is None else len(one.elements) for one in own)])
    elements = np.concatenate([np.zeros(0), *(one.elements for one in own if one is not None)])
    kind = pa.list_(pa.field("element", pa.float64()))
    columns = {
        "record": pa.array(list(samples), pa.string()),
        "drawn_for": pa.array([None if one is None else one.drawn_for for one in own], pa.string()),
        "same": pa.array(same, pa.int32()),
        "count": pa.array([None if one is None else one.count for one in own], pa.int64()),
        "digest": pa.array([None if one is None else one.digest for one in own], pa.uint32()),
        "elements": pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), pa.array(elements), kind),
    }
    with replace_atomically(folder / layout.SAMPLES) as file:
        pa.parquet.write_table(
            pa.table(columns),
            file,
            row_group_size=max(1, len(samples)),
            compression="zstd",
            compression_level=_LEVEL,
            use_dictionary=False,
            write_statistics=False,
            column_encoding={
                **dict.fromkeys(("record", "drawn_for"), "DELTA_BYTE_ARRAY"),
                **dict.fromkeys(("same", "count"), "DELTA_BINARY_PACKED"),
                "elements.list.element": "BYTE_STREAM_SPLIT",
            },
        )


def _row(rows: dict[int, int], sample: Sample, number: int) -> int | None:
    """Return the row that has the same sample; None if there is none, and this one is remembered."""
    first = rows.setdefault(id(sample), number)
    return None if first == number else first


def read_samples(folder: Path) -> dict[str, Sample]:
    """Return the samples of a dump by the names of their records; empty without any. DumpError if the file is
    damaged."""
    path = folder / layout.SAMPLES
    if not path.is_file():
        return {}
    pa = require_pyarrow(f"{path}: is a Parquet table")
    with damaged(path), open_input(path) as file:
        table = pa.parquet.read_table(file)
        names = table["record"].to_pylist()
        found: list[Sample] = []
        rest = (table[key].to_pylist() for key in ("drawn_for", "same", "count", "digest", "elements"))
        for name, drawn_for, same, count, crc, elements in zip(names, *rest, strict=True):
            if same is not None:
                found.append(found[same] if 0 <= same < len(found) else _no_row(name))
                continue
            if count < 0 or len(elements) > count or type(drawn_for) is not str:
                raise ValueError(f"{name}: is not a sample of its tensor")
            found.append(Sample(drawn_for, count, crc, np.array(elements, np.float64)))
        return dict(zip(names, found, strict=True))


def _no_row(name: str) -> Sample:
    raise ValueError(f"{name}: refers to a row that does not come before it")
