"""The digest of a tensor's bytes: one number, equal for equal tensors.

There are two kinds, called by the words of `summary_mode`. `md5` is CRC-32, whatever the word says: dumps are compared
across versions and with other tools, which use it. `crc32c` is CRC-32C, for which processors have an instruction; where
the extension of the statistics makes a record, it is computed in the same pass (`_digest.h`). A digest says its kind,
for digests of two kinds say nothing about each other.

Speeds are in `docs/en/explanation/performance.md`. zlib is the slowest by far; isal (`pip install "msprobe-ms[fast]"`)
and CRC-32C in C are near the speed of memory, and CRC-32C without the extension is slower than zlib.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .statistic import Array, is_bfloat16, kernel, widen

try:
    from isal.isal_zlib import crc32
except ImportError:  # the extra `fast` is not installed: the same numbers, later
    from zlib import crc32

_BLOCK = 1 << 16  # elements: widened or gathered, they are still in the second-level cache when they are read

MD5, CRC32C = "md5", "crc32c"

Words = NDArray[np.uint32]


def digest(array: Array, kind: str = MD5) -> str:
    """A digest of the elements' bytes in C order, as eight lower-case hex digits; bfloat16 is widened first.

    `kind`: `md5`, CRC-32, or `crc32c`, CRC-32C, before whose digits stands `crc32c:`. Of numbers of every width, in the
    byte order that they have; TypeError for an array of objects.
    """
    if array.dtype.hasobject:
        raise TypeError(f"a digest of an array of {array.dtype} cannot be computed; pass a numeric array")
    checksum, sign = _KINDS[kind]
    crc, is_narrow = 0, is_bfloat16(array)
    for piece in _pieces(array, is_narrow):
        crc = checksum(widen(piece) if is_narrow else piece, crc)
    return f"{sign}{crc:08x}"


def _pieces(array: Array, is_narrow: bool) -> Iterable[Array]:
    """The elements in C order, in contiguous arrays; a large view of another layout is gathered block by block."""
    if not array.flags.c_contiguous and array.size <= _BLOCK:
        array = array.copy(order="C")
    if not array.flags.c_contiguous:
        contiguous: Any = ["readonly", "contig"]  # numpy's stub does not know the second word
        pieces: Any = np.nditer(array, ["external_loop", "buffered"], [contiguous], order="C", buffersize=_BLOCK)
        return pieces  # type: ignore[no-any-return]  # with an external loop it gives arrays
    if not is_narrow:
        return (array,)
    flat = array.reshape(-1)
    return (flat[start : start + _BLOCK] for start in range(0, flat.size, _BLOCK))


def are_of_one_kind(one: str, other: str) -> bool:
    """Whether two digests say whether their tensors are equal."""
    return one.rpartition(":")[0] == other.rpartition(":")[0]


def crc32c(array: Array, value: int) -> int:
    """CRC-32C of the bytes of a C-contiguous array, behind bytes whose CRC-32C is `value`."""
    if kernel is not None:
        return kernel.crc32c(array, value)  # type: ignore[no-any-return]  # the extension's
    state, data = value ^ 0xFFFFFFFF, array.reshape(-1).view(np.uint8)
    for start in range(0, data.size, _CHUNK):
        state = _state(data[start : start + _CHUNK], state)
    return state ^ 0xFFFFFFFF


_KINDS: dict[str, tuple[Callable[[Array, int], int], str]] = {MD5: (crc32, ""), CRC32C: (crc32c, "crc32c:")}
"""By kind: the checksum, and what stands before its digits."""

KINDS = tuple(_KINDS)

_POLYNOMIAL = 0x82F63B78
_CHUNK = 1 << 20
_LANE = 1 << 7
"""Bytes that are taken at once, and of these in each of the lanes that go side by side."""


@cache
def _after_bits(bits: int) -> Words:
    """What a state of up to 16 bits is after as many further bits of zeros, by the state."""
    states = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(bits):
        states = np.where(states & 1, states >> 1 ^ np.uint32(_POLYNOMIAL), states >> 1).astype(np.uint32)
    return states


def _state(data: Array, state: int) -> int:
    """The state of the checksum behind some bytes.

    The checksum is linear. So the state that it begins with is added to the first four bytes, and then zeros may stand
    before them; lanes that begin with 0 are added up two by two, each as it is behind the zeros of the other's length.
    """
    if data.size <= 8 * _LANE:
        bytewise = _after_bits(8)
        for byte in data.tolist():
            state = state >> 8 ^ int(bytewise[(state ^ byte) & 0xFF])
        return state
    count = 1 << (-(-data.size // _LANE) - 1).bit_length()
    padded = np.zeros(count * _LANE, np.uint8)
    padded[-data.size :] = data
    padded[-data.size :][:4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
    # Half a word is 16 bits: the lower half is followed by 32 bits, the upper one by 16.
    lower, upper = _after_bits(32), _after_bits(16)
    states = np.zeros(count, np.uint32)
    for column in np.ascontiguousarray(padded.view("<u4").reshape(count, _LANE // 4).T):
        states ^= column
        states = lower.take(states & 0xFFFF) ^ upper.take(states >> 16)
    beyond = _beyond_a_lane()
    while len(states) > 1:
        states = _applied(beyond, states[::2]) ^ states[1::2]
        beyond = _applied(beyond, beyond)
    return int(states[0])


@cache
def _beyond_a_lane() -> Words:
    """What each bit of a state is behind a lane of zeros."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(_LANE // 4):
        bits = _after_bits(32)[bits & 0xFFFF] ^ _after_bits(16)[bits >> 16]
    return bits


def _applied(map_of_bits: Words, states: Words) -> Words:
    """A linear map, said by what it makes of each bit, of many states."""
    found = np.zeros_like(states)
    for bit, image in enumerate(map_of_bits):
        found ^= (states >> np.uint32(bit) & np.uint32(1)) * image
    return found
