"""The tensors of a dump in one file, each content once: written one after the other, while they are collected.

A tensor's bytes are handed to the operating system first, then the line of the index that names it: a process that dies
loses the tensor that it was writing, and no other.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.files import FILE_MODE, NO_LINK
from msprobe.base.statistic import is_bfloat16
from msprobe.store import layout
from msprobe.store.tensor_file import is_storable

from .chunks import BFLOAT16, CHUNK, Bytes, Chunks

INDEX_LINE = 400
"""Bytes that a tensor takes beside its elements, about."""

Span = tuple[int, int]
"""Where a chunk begins in the file, and its length."""


class Pack:
    """Writes the tensors of one folder, which must be there when the first one comes. DumpError without pyarrow.

    One call after the other; only a signal handler may come in between, whose tensors go behind those of the call that
    it interrupts.
    """

    def __init__(self, folder: Path) -> None:
        self._pack, self._index = os.path.join(folder, layout.PACK), os.path.join(folder, layout.PACK_INDEX)
        self._chunks = Chunks(f"{folder}: tensors of a columnar dump are compressed through pyarrow")
        self._end = 0
        self._torn = False
        # By width and content. Of equal tensors with other shapes or dtypes, too: of views and reshaped ones.
        self._known: dict[tuple[int, bytes], list[Span]] = {}

    def write(self, path: str, array: "np.ndarray[Any, Any]") -> None:
        """Store an array under the name of `path`; a later one of the same name counts.

        OSError when the disk refuses; DumpError for an array of objects or records.
        """
        if not is_storable(array):
            raise DumpError(f"{path}: an array of {array.dtype} cannot be stored as a tensor; pass numbers")
        dtype = BFLOAT16 if is_bfloat16(array) else array.dtype.str
        raw: Bytes = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._store(os.path.basename(path), dtype, array.shape, raw, array.itemsize)

    def write_narrow(self, path: str, array: "np.ndarray[Any, Any]") -> None:
        """The same; float32 numbers that are all of bfloat16 are stored as such, and read again as the same float32."""
        if array.dtype == np.float32:
            words = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
            if not (words & 0xFFFF).any():
                raw: Bytes = (words >> 16).astype(np.uint16).view(np.uint8)
                self._store(os.path.basename(path), BFLOAT16, array.shape, raw, 2)
                return
        self.write(path, array)

    def _store(self, name: str, dtype: str, shape: tuple[int, ...], raw: Bytes, width: int) -> None:
        digest = hashlib.sha256(raw.data).digest()[:16]
        spans = self._known.get((width, digest))
        if spans is None:
            spans = self._append(raw, width)
        fields = (json.dumps(name), dtype, json.dumps(shape), digest.hex(), json.dumps(spans, separators=(",", ":")))
        line = ("\n" * self._torn + "\t".join(fields) + "\n").encode("ascii")
        number = _open(self._index, os.O_APPEND)
        try:
            done = os.write(number, line)
            self._torn = done < len(line)
            if self._torn:
                _write_on(number, memoryview(line)[done:])
                self._torn = False
        finally:
            os.close(number)
        self._known[width, digest] = spans

    def _append(self, raw: Bytes, width: int) -> list[Span]:
        spans: list[Span] = []
        number = _open(self._pack)
        try:
            for chunk in _parts(raw, width):
                stored = self._chunks.packed(chunk, width)
                length = stored.nbytes
                # Taken before it is filled: a signal handler may store another tensor meanwhile.
                at, self._end = self._end, self._end + length
                _write_on(number, stored, at)
                spans.append((at, length))
        finally:
            os.close(number)
        return spans


def _open(path: str, flags: int = 0) -> int:
    # Anew for each tensor: a training may close descriptors that it does not know, and their numbers are used again.
    return os.open(path, os.O_WRONLY | os.O_CREAT | NO_LINK | getattr(os, "O_CLOEXEC", 0) | flags, FILE_MODE)


def _write_on(number: int, rest: memoryview, at: int | None = None) -> None:
    while rest.nbytes:
        done = os.write(number, rest) if at is None else os.pwrite(number, rest, at)
        rest, at = rest[done:], None if at is None else at + done


def _parts(raw: Bytes, width: int) -> Iterator[Bytes]:
    length = CHUNK // width * width
    for start in range(0, raw.size, length):
        yield raw[start : start + length]
