"""`base/statistic.py`: CRC-32 of a tensor's bytes, the same number with and without the fast library."""

import json
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base.statistic import digest


class bfloat16(np.void):  # the name is what bfloat16 is known by
    """A numpy type such as frameworks register: two bytes that numpy cannot calculate with."""


BFLOAT16 = np.dtype((bfloat16, 2))


def crc_by_hand(data):
    """CRC-32 bit by bit, from its polynomial alone."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return f"{crc ^ 0xFFFFFFFF:08x}"


def test_the_check_value_of_crc_32():
    assert digest(np.frombuffer(b"123456789", np.uint8)) == "cbf43926"
    assert crc_by_hand(b"123456789") == "cbf43926"


@pytest.mark.parametrize(
    "array",
    [
        np.empty(0, "f4"),
        np.empty((3, 0, 2), "i8"),
        np.array(2.5),
        np.array([True, False]),
        np.array([1 + 2j], "c8"),
        np.arange(12, dtype="f4").reshape(3, 4),
        np.arange(12, dtype="f4").reshape(3, 4).T,
        np.asfortranarray(np.arange(12, dtype="i2").reshape(3, 4)),
        np.arange(40, dtype="f8")[::-3],
        np.arange(9, dtype=">f8"),
        np.arange(60, dtype=">i4").reshape(3, 4, 5)[:, ::2, 1:],
        np.broadcast_to(np.float16(1.5), (4, 5)),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}{array.strides}",
)
def test_digest_is_the_crc_of_the_bytes_in_c_order(array):
    assert digest(array) == crc_by_hand(array.tobytes())


@given(st.integers(0, 5000), st.sampled_from(["u1", "f2", "<f4", ">f4", "f8", "c16"]), st.integers(1, 3))
def test_digest_of_any_size_and_stride(size, dtype, stride):
    array = (
        np.random.default_rng(size).integers(0, 256, size * np.dtype(dtype).itemsize, np.uint8).view(dtype)[::stride]
    )
    assert digest(array) == f"{zlib.crc32(array.tobytes()):08x}"


def test_reading_leaves_the_array_as_it_was():
    array = np.arange(6.0)
    array.flags.writeable = False
    assert digest(array) == digest(array.copy())


@pytest.mark.parametrize("size", [0, 1, 7, (1 << 17) - 1, 1 << 17, (1 << 18) + 3])
def test_digest_of_bfloat16_is_that_of_float32(size):
    upper = np.random.default_rng(size).integers(0, 1 << 16, size, np.uint16)
    wide = (upper.astype(np.uint32) << 16).view(np.float32)
    assert digest(upper.view(BFLOAT16)) == digest(wide)
    assert digest(upper.view(BFLOAT16)[::2]) == digest(wide[::2])


def test_digest_of_a_bfloat16_matrix_and_scalar():
    upper = np.arange(0x3F80, 0x3F80 + 12, dtype=np.uint16).reshape(3, 4)
    wide = (upper.astype(np.uint32) << 16).view(np.float32)
    assert digest(upper.view(BFLOAT16).T) == digest(wide.T.copy()) != digest(wide)
    assert digest(upper.view(BFLOAT16)[1, 2:3].reshape(())) == digest(wide[1, 2])


def test_two_bytes_of_another_kind_are_not_widened():
    for dtype in ("V2", "i2", "f2"):
        array = np.arange(6, dtype=np.uint16).view(dtype)
        assert digest(array) == f"{zlib.crc32(array.tobytes()):08x}"


def test_bfloat16_of_mindspore():
    mindspore = pytest.importorskip("mindspore", reason="needs MindSpore's own bfloat16")
    values = (np.linspace(-3, 5, 1001).astype("f4").view("u4") & np.uint32(0xFFFF0000)).view("f4")
    assert digest(mindspore.Tensor(values).astype(mindspore.bfloat16).asnumpy()) == digest(values)


def test_objects_have_no_digest():
    with pytest.raises(TypeError, match="pass numbers"):
        digest(np.array([None, 1], dtype=object))


DIGESTS = """
import json, sys
if sys.argv[1] == "without":
    sys.modules["isal"] = None  # makes its import fail
import numpy as np
from msprobe.base.statistic import crc32, digest
made = [digest(np.random.default_rng(n).integers(0, 256, n, np.uint8)) for n in (*range(70), 1000, 4097, 100_003)]
print(json.dumps([crc32.__module__, made]))
"""


def digests(which):
    done = subprocess.run([sys.executable, "-c", DIGESTS, which], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_digests_are_the_same_with_and_without_the_fast_library():
    library, without = digests("without")
    assert library == "zlib"
    assert without == [
        crc_by_hand(np.random.default_rng(n).integers(0, 256, n, np.uint8).tobytes())
        for n in (*range(70), 1000, 4097, 100_003)
    ]
    pytest.importorskip("isal", reason="needs the extra `fast`")
    assert digests("with") == ["isal.isal_zlib", without]
