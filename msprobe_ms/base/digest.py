"""Digests of the bytes of tensors: checksums that are equal for equal tensors.

There are two kinds, named as in `summary_mode`. `md5` is CRC-32 in spite of its name, for compatibility with other
versions and tools. `crc32c` is CRC-32C, for which processors have an instruction; if the extension makes a record, it
is computed in the same pass as the statistics (`_digest.c`). A digest includes its kind, because digests of different
kinds cannot be compared.

For speeds see `docs/en/explanation/performance.md`. zlib is slow; isal (`pip install "msprobe-ms[fast]"`) and CRC-32C
in C are near memory bandwidth, and CRC-32C without the extension is slower than zlib.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .statistic import Array, is_bfloat16, kernel, widen

try:
    from isal.isal_zlib import crc32
except ImportError:  # the extra `fast` is not installed; zlib computes the same values
    from zlib import crc32

_BLOCK = 1 << 16  # elements: a widened or gathered block is still in the second-level cache when it is read

MD5, CRC32C = "md5", "crc32c"

Words = NDArray[np.uint32]


def digest(array: Array, kind: str = MD5) -> str:
    """Return the digest of the bytes of the elements in C order, as eight lower-case hex digits.

    bfloat16 is widened to float32 first; other elements are used in their byte order. `kind` is `md5` (CRC-32) or
    `crc32c` (CRC-32C, with the prefix `crc32c:`). TypeError for an array of objects.
    """
    if array.dtype.hasobject:
        raise TypeError(f"a digest of an array of {array.dtype} cannot be computed; pass a numeric array")
    checksum, prefix = _KINDS[kind]
    crc, is_narrow = 0, is_bfloat16(array)
    for piece in _pieces(array, is_narrow):
        crc = checksum(widen(piece) if is_narrow else piece, crc)
    return f"{prefix}{crc:08x}"


def _pieces(array: Array, is_narrow: bool) -> Iterable[Array]:
    """Yield the elements in C order as contiguous arrays; large non-contiguous views are copied block by block."""
    if not array.flags.c_contiguous and array.size <= _BLOCK:
        array = array.copy(order="C")
    if not array.flags.c_contiguous:
        contiguous: Any = ["readonly", "contig"]  # the second flag is missing in NumPy's stubs
        pieces: Any = np.nditer(array, ["external_loop", "buffered"], [contiguous], order="C", buffersize=_BLOCK)
        return pieces  # type: ignore[no-any-return]  # yields arrays with an external loop
    if not is_narrow:
        return (array,)
    flat = array.reshape(-1)
    return (flat[start : start + _BLOCK] for start in range(0, flat.size, _BLOCK))


def has_digest(array: Array, recorded: str) -> bool:
    """Return whether the elements have a recorded digest, of either kind."""
    kind = CRC32C if recorded.startswith(_KINDS[CRC32C][1]) else MD5
    return digest(array, kind) == recorded


def have_same_kind(one: str, other: str) -> bool:
    """Return whether two digests are of the same kind and can be compared."""
    return one.rpartition(":")[0] == other.rpartition(":")[0]


def crc32c(array: Array, value: int) -> int:
    """Return the CRC-32C of the bytes of a C-contiguous array, continued from `value`."""
    if kernel is not None:
        return kernel.crc32c(array, value)  # type: ignore[no-any-return]  # the extension's
    state, data = value ^ 0xFFFFFFFF, array.reshape(-1).view(np.uint8)
    for start in range(0, data.size, _CHUNK):
        state = _update_state(data[start : start + _CHUNK], state)
    return state ^ 0xFFFFFFFF


_KINDS: dict[str, tuple[Callable[[Array, int], int], str]] = {MD5: (crc32, ""), CRC32C: (crc32c, "crc32c:")}
"""The checksum function and the prefix of its digits, by kind."""

KINDS = tuple(_KINDS)

_POLYNOMIAL = 0x82F63B78
_CHUNK = 1 << 20
_LANE = 1 << 7
"""Bytes that are processed in one call of `_update_state`, and bytes in each of its parallel lanes."""


@cache
def _shift_table(bits: int) -> Words:
    """Return the table of 16-bit states after `bits` more zero bits."""
    states = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(bits):
        states = np.where(states & 1, states >> 1 ^ np.uint32(_POLYNOMIAL), states >> 1).astype(np.uint32)
    return states


def _update_state(data: Array, state: int) -> int:
    """Return the state of the checksum after `data`.

    The checksum is linear: the initial state is added (XOR) to the first four bytes, which may then be preceded by
    zeros. Lanes that begin with state 0 are combined in pairs, the first one shifted by the length of the second.
    """
    if data.size <= 8 * _LANE:
        bytewise = _shift_table(8)
        for byte in data.tolist():
            state = state >> 8 ^ int(bytewise[(state ^ byte) & 0xFF])
        return state
    count = 1 << (-(-data.size // _LANE) - 1).bit_length()
    padded = np.zeros(count * _LANE, np.uint8)
    padded[-data.size :] = data
    padded[-data.size :][:4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
    # The lower half of a word is followed by 32 more bits, the upper half by 16.
    lower, upper = _shift_table(32), _shift_table(16)
    states = np.zeros(count, np.uint32)
    for column in np.ascontiguousarray(padded.view("<u4").reshape(count, _LANE // 4).T):
        states ^= column
        states = lower.take(states & 0xFFFF) ^ upper.take(states >> 16)
    shift = _lane_shift()
    while len(states) > 1:
        states = _apply_linear_map(shift, states[::2]) ^ states[1::2]
        shift = _apply_linear_map(shift, shift)
    return int(states[0])


@cache
def _lane_shift() -> Words:
    """Return the image of each bit of a state after a lane of zeros."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(_LANE // 4):
        bits = _shift_table(32)[bits & 0xFFFF] ^ _shift_table(16)[bits >> 16]
    return bits


def _apply_linear_map(bit_images: Words, states: Words) -> Words:
    """Apply a linear map, given by the images of the bits, to states."""
    found = np.zeros_like(states)
    for bit, image in enumerate(bit_images):
        found ^= (states >> np.uint32(bit) & np.uint32(1)) * image
    return found
