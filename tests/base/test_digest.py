"""`base/digest.py`: CRC-32 and CRC-32C of a tensor's bytes, the same numbers with and without anything fast."""

import json
import subprocess
import sys
import zlib

import numpy as np
import pytest
from checksum import crc32_by_hand, crc32c_by_hand
from hypothesis import given
from hypothesis import strategies as st

from msprobe.base import digest as module
from msprobe.base.digest import KINDS, crc32c, digest, has_digest, have_same_kind

pytestmark = pytest.mark.everywhere


class bfloat16(np.void):  # the name is what bfloat16 is known by
    """A numpy type such as frameworks register: two bytes that numpy cannot calculate with."""


BFLOAT16 = np.dtype((bfloat16, 2))


def crc_by_hand(data):
    return f"{crc32_by_hand(data):08x}"


def both_by_hand(data):
    """The digests of some bytes, by kind."""
    return {"md5": crc_by_hand(data), "crc32c": f"crc32c:{crc32c_by_hand(data):08x}"}


def both(array):
    return {kind: digest(array, kind) for kind in KINDS}


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
    assert both(array) == both_by_hand(array.tobytes())


@given(st.integers(0, 5000), st.sampled_from(["u1", "f2", "<f4", ">f4", "f8", "c16"]), st.integers(1, 3))
def test_digest_of_any_size_and_stride(size, dtype, stride):
    array = (
        np.random.default_rng(size).integers(0, 256, size * np.dtype(dtype).itemsize, np.uint8).view(dtype)[::stride]
    )
    assert digest(array) == f"{zlib.crc32(array.tobytes()):08x}"


@pytest.mark.parametrize("dtype", ["i1", "f2", ">f4", "c16", BFLOAT16], ids=str)
@pytest.mark.parametrize("shape", [(64, 1024), (16, 64, 64), (67, 3, 331)])
def test_large_views_of_other_layouts_are_digested_in_c_order(shape, dtype):
    """Of a block (65,536 elements) and more: transposed, strided, backwards and repeated ones."""
    width = np.dtype(dtype).itemsize
    array = np.random.default_rng(0).integers(0, 256, (*shape[:-1], shape[-1] * width), np.uint8).view(dtype)
    views = [array.T, np.moveaxis(array, 0, 1)[::-1], array[::-1, ..., ::-2], np.broadcast_to(array[:1], (70, *shape))]
    for view in views:
        expected = view.tobytes()
        if dtype is BFLOAT16:
            expected = (np.frombuffer(expected, np.uint16).astype(np.uint32) << 16).tobytes()
        assert digest(view) == f"{zlib.crc32(expected):08x}"
        assert digest(view, "crc32c") == digest(np.frombuffer(expected, np.uint8), "crc32c")


def test_reading_leaves_the_array_as_it_was():
    array = np.arange(6.0)
    array.flags.writeable = False
    assert digest(array) == digest(array.copy())


@pytest.mark.parametrize("size", [0, 1, 7, (1 << 17) - 1, 1 << 17, (1 << 18) + 3])
def test_digest_of_bfloat16_is_that_of_float32(size):
    upper = np.random.default_rng(size).integers(0, 1 << 16, size, np.uint16)
    wide = (upper.astype(np.uint32) << 16).view(np.float32)
    assert both(upper.view(BFLOAT16)) == both(wide)
    assert both(upper.view(BFLOAT16)[::2]) == both(wide[::2])


def test_digest_of_a_bfloat16_matrix_and_scalar():
    upper = np.arange(0x3F80, 0x3F80 + 12, dtype=np.uint16).reshape(3, 4)
    wide = (upper.astype(np.uint32) << 16).view(np.float32)
    assert digest(upper.view(BFLOAT16).T) == digest(wide.T.copy()) != digest(wide)
    assert digest(upper.view(BFLOAT16)[1, 2:3].reshape(())) == digest(wide[1, 2])


def test_two_bytes_of_another_kind_are_not_widened():
    for dtype in ("V2", "i2", "f2"):
        array = np.arange(6, dtype=np.uint16).view(dtype)
        assert digest(array) == f"{zlib.crc32(array.tobytes()):08x}"


@pytest.mark.mindspore
def test_bfloat16_of_mindspore():
    mindspore = pytest.importorskip("mindspore", reason="needs MindSpore's own bfloat16")
    values = (np.linspace(-3, 5, 1001).astype("f4").view("u4") & np.uint32(0xFFFF0000)).view("f4")
    assert digest(mindspore.Tensor(values).astype(mindspore.bfloat16).asnumpy()) == digest(values)


def test_objects_have_no_digest():
    with pytest.raises(TypeError, match="pass a numeric array"):
        digest(np.array([None, 1], dtype=object))


# ---- CRC-32C


@pytest.fixture(params=["avx2", "plain", "numpy"])
def way(request, through):
    """By the processor's instruction, by tables in C, and without the extension."""
    through(module, request.param)
    return request.param


_READ = "01c0000000000000000000000000000014000000000004000000001400000018280000000000000002000000" + "00000000"


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"123456789", 0xE3069283),  # the check value of CRC catalogues
        (bytes(32), 0x8A9136AA),  # from here on RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (bytes.fromhex(_READ), 0xD9963A56),
    ],
)
def test_the_known_values_of_crc_32c(data, value, way):
    assert crc32c(np.frombuffer(data, np.uint8), 0) == value == crc32c_by_hand(data)
    assert digest(np.frombuffer(data, np.uint8), "crc32c") == f"crc32c:{value:08x}"


def test_crc_32c_of_every_length_and_from_every_start(way):
    data = np.random.default_rng(3).integers(0, 256, 400, np.uint8)
    for start in range(9):
        for length in range(301):
            assert crc32c(data[start : start + length], 0) == crc32c_by_hand(data[start : start + length].tolist())


@pytest.mark.parametrize("length", [503, 504, 505, 1024, 1025, 4080, 8184, 16367, 16368, 40_001, (1 << 20) + 130])
def test_crc_32c_of_what_goes_in_stretches(length, way):
    data = np.random.default_rng(length).integers(0, 256, length + 3, np.uint8)
    for start in (0, 3):
        part = data[start : start + length]
        whole = crc32c(part, 0)
        assert whole == crc32c_by_hand(part.tolist())
        assert crc32c(part[length // 3 :], crc32c(part[: length // 3], 0)) == whole


def test_a_digest_says_its_kind():
    md5, other = digest(np.arange(3.0)), digest(np.arange(3.0), "crc32c")
    assert have_same_kind(md5, "00000000")
    assert have_same_kind(other, "crc32c:00000000")
    assert not have_same_kind(md5, other)


@pytest.mark.parametrize("kind", KINDS)
def test_elements_have_a_recorded_digest_of_either_kind(kind):
    recorded = digest(np.arange(3.0), kind)
    assert has_digest(np.arange(3.0), recorded)
    assert not has_digest(np.arange(3.0) + 1, recorded)


# ---- the fast library of CRC-32


DIGESTS = """
import json, sys
if sys.argv[1] == "without":
    sys.modules["isal"] = None  # makes its import fail
import numpy as np
from msprobe.base.digest import crc32, digest
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
