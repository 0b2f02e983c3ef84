"""The tensors of a dump in one file, as they are: those of a call are written together, each content once.

Making a file takes far longer than writing the few bytes of a small tensor. What belongs to a call waits until the
line of the call is written to the journal: first go the bytes, then the lines of the index, then that line. So a
process that dies loses only what no finished call names.
"""

import os
from pathlib import Path

from msprobe.store import layout
from msprobe.store.tensor_file import note_failure

from .chunks import CHUNK
from .index import Array, Index, PackFile, Span, digest_of, elements_of, line_of

_WAITING = 1 << 20
"""Bytes of small tensors that may wait."""
_LARGE = 1 << 16
"""Bytes from which a tensor is not copied to wait: it is written at once."""


class PlainPack:
    """Packs the tensors of one folder, which must be there when the first one comes. `failed` has for each path that
    could not be written the reason.

    Calls follow one another; only a signal handler may come in between, whose tensors follow those of the call that it
    interrupts.
    """

    def __init__(self, folder: Path, failed: dict[str, str]) -> None:
        self._folder, self._failed = folder, failed
        self._pack, self._index = PackFile(os.path.join(folder, layout.PACK)), Index(folder)
        self._end = 0
        # By width and content. Of equal tensors with other shapes or dtypes, too: of views and reshaped ones.
        self._known: dict[tuple[int, str], list[Span]] = {}
        self._waiting: list[tuple[int, bytes]] = []
        self._waiting_bytes = 0
        self._lines: list[tuple[str, bytes]] = []

    def write(self, name: str, array: Array) -> None:
        """Take an array under a name; a later one of the same name counts. Its memory may be used again.

        OSError if writing fails a large one; DumpError for an array of objects or records.
        """
        dtype, raw, width = elements_of(name, array)
        self.add(name, dtype, raw, width, array.shape)

    def add(self, name: str, dtype: str, raw: memoryview, width: int, shape: tuple[int, ...]) -> None:
        """Add a tensor whose elements of `width` bytes are in `raw`; `dtype` is that of the index."""
        digest = digest_of(raw)
        spans = self._known.get((width, digest))
        if spans is None:
            # Taken before it is filled: a signal handler may store another tensor meanwhile.
            at, self._end = self._end, self._end + raw.nbytes
            if raw.nbytes < _LARGE:
                self._waiting.append((at, raw.tobytes()))
                self._waiting_bytes += raw.nbytes
            else:
                self._pack.write(raw, at)
            length = CHUNK // width * width
            spans = [(at + start, min(length, raw.nbytes - start)) for start in range(0, raw.nbytes, length)]
            self._known[width, digest] = spans
        self._lines.append((name, line_of(name, dtype, shape, digest, spans)))
        if self._waiting_bytes > _WAITING:
            self.flush()

    def flush(self) -> None:
        """Hand what waits to the operating system. What it refuses has failed, and waits no longer."""
        if not self._lines:
            return
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        lines, self._lines = self._lines, []
        try:
            for at, data in _stretches(waiting):
                self._pack.write(data, at)
            self._index.append([line for _, line in lines])
        except OSError as cause:
            self._known.clear()  # some of its tensors were not written
            for name, _ in lines:
                note_failure(self._failed, os.path.join(self._folder, name), cause)
        except BaseException:  # an interrupt: the next flush writes all of it once more
            self._waiting, self._lines = waiting + self._waiting, lines + self._lines
            raise

    def write_now(self, path: str, array: Array) -> None:
        """Write immediately under the name of `path`, for callers that do not flush."""
        self.write(os.path.basename(path), array)
        self.flush()

    def close(self) -> None:
        """Close the files; what comes later opens them again."""
        self._pack.close()
        self._index.close()


def _stretches(waiting: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Return the same bytes, with those that lie side by side in one piece."""
    if len(waiting) < 2:
        return waiting
    found: list[tuple[int, list[bytes]]] = []
    end = -1
    for at, data in waiting:
        if at != end:
            found.append((at, []))
        found[-1][1].append(data)
        end = at + len(data)
    return [(at, b"".join(pieces)) for at, pieces in found]
