"""The tensors of a dump in one file, each content once: written one after the other, while they are collected.

A tensor's bytes are handed to the operating system first, then the line of the index that names it: a process that dies
loses the tensor that it was writing, and no other.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from msprobe.store import layout

from .chunks import Chunks, parts
from .index import Elements, Index, PackFile, Span, digest_of, elements_of, line_of, narrow_elements_of


class Pack:
    """Compresses the tensors of one folder, which must be there when the first one comes. DumpError without pyarrow.

    Calls follow one another; only a signal handler may come in between, whose tensors follow those of the call that it
    interrupts.
    """

    def __init__(self, folder: Path) -> None:
        self._pack, self._index = PackFile(os.path.join(folder, layout.PACK)), Index(folder)
        self._chunks = Chunks(f"{folder}: tensors of columnar dumps are compressed with pyarrow")
        self._end = 0
        # By width and content. Of equal tensors with other shapes or dtypes, too: of views and reshaped ones.
        self._known: dict[tuple[int, str], list[Span]] = {}

    def write(self, path: str, array: "np.ndarray[Any, Any]") -> None:
        """Store an array under the name of `path`; a later one of the same name counts.

        OSError if writing fails; DumpError for an array of objects or records.
        """
        self._store(os.path.basename(path), elements_of(path, array), array.shape)

    def write_narrow(self, path: str, array: "np.ndarray[Any, Any]") -> None:
        """Store an array as `write` does; float32 numbers that are all of bfloat16 are stored as bfloat16, and read as
        the same float32."""
        self._store(os.path.basename(path), narrow_elements_of(path, array), array.shape)

    def _store(self, name: str, elements: Elements, shape: tuple[int, ...]) -> None:
        digest = digest_of(elements.raw)
        spans = self._known.get((elements.width, digest))
        if spans is None:
            spans = self._append(elements.raw, elements.width)
        self._index.append([line_of(name, elements.dtype, shape, digest, spans)])
        self._known[elements.width, digest] = spans

    def _append(self, raw: memoryview, width: int) -> list[Span]:
        spans: list[Span] = []
        self._pack.write(b"", 0)  # there is a file, be all tensors empty
        for chunk in parts(np.frombuffer(raw, np.uint8), width):
            stored = self._chunks.packed(chunk, width)
            length = stored.nbytes
            # Taken before it is filled: a signal handler may store another tensor meanwhile.
            at, self._end = self._end, self._end + length
            self._pack.write(stored, at)
            spans.append((at, length))
        return spans

    def close(self) -> None:
        """Close the files; a later `write` opens them again."""
        self._pack.close()
        self._index.close()
