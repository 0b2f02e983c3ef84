"""The kernel's record of a tensor is the JSON of its statistic behind the record's beginning."""

import json
import math
from operator import attrgetter

import numpy as np
import pytest
from checksum import crc32c_by_hand
from hypothesis import example, given
from hypothesis import strategies as st

from msprobe.base import statistic as module
from msprobe.base.schema import SHARES
from msprobe.base.statistic import shares, statistic

pytestmark = pytest.mark.everywhere

HEAD = '{"x":1,'


class Tensor:
    """What a framework's tensor tells of the elements of an array."""

    def __init__(self, array, letter=None, offset=0, is_in_place=True, has_digest=False, extra=()):
        self.has_digest = has_digest
        self.shares = tuple((f',"{each.key}":', each.limit, each.is_below, "i" in each.dtypes) for each in extra)
        self.dtype = array.dtype.char if letter is None else letter
        self.shape, self.is_in_place = array.shape, is_in_place
        self.array, self.address = array, array.ctypes.data + offset

    @property
    def reader(self):
        head = (HEAD, self.array.size, self.dtype, self.dtype)
        asked = [attrgetter(name) for name in ("dtype", "shape", "is_in_place", "address")]
        return (Tensor, *asked, {(id(self.dtype), self.shape): head}, self.has_digest, self.shares)


@pytest.fixture
def kernel(way):
    if module.kernel is None:
        pytest.skip("without the extension nothing makes such texts")
    return module.kernel


def record(kernel, *what, **more):
    tensor = Tensor(*what, **more)
    return kernel.record(tensor, tensor.reader)


@pytest.mark.parametrize("letter", "fdebBhHiIq?")
def test_the_record_has_the_shares_that_are_asked_for(letter, kernel):
    array = (np.random.default_rng(1).standard_normal(1000) * 0.01 + [0, 1] * 500).astype(letter)
    array[::7] = 0
    found = json.loads(record(kernel, array, letter, extra=SHARES))
    expected = {each.key: share for each, share in zip(SHARES, shares(array, SHARES), strict=True) if share is not None}
    assert {key: found[key] for key in found if key in {each.key for each in SHARES}} == expected
    assert len(expected) == (len(SHARES) if letter in "fde" else 1)
    assert 0 < expected["zeros"] < 1


@pytest.mark.parametrize("letter", "fdebBhHiIq")
def test_the_record_is_the_json_of_the_statistic(letter, kernel):
    array = (np.random.default_rng(1).standard_normal(1000) * 40).astype(letter)
    found = statistic(array)
    expected = {"x": 1, "Max": found.max, "Min": found.min, "Mean": found.mean, "Norm": found.norm}
    assert record(kernel, array, letter) == json.dumps(expected, separators=(",", ":"))


def test_the_record_of_what_is_not_finite_and_of_bools(kernel):
    counts = '"nan_count":1,"positive_inf_count":1,"negative_inf_count":2}'
    odd = np.float32([math.nan, math.inf, -math.inf, -math.inf])
    assert record(kernel, odd) == f'{HEAD}"Max":NaN,"Min":NaN,"Mean":NaN,"Norm":NaN,{counts}'
    assert record(kernel, np.float64([3, -math.inf])) == (
        HEAD + '"Max":3.0,"Min":-Infinity,"Mean":-Infinity,"Norm":Infinity,"negative_inf_count":1}'
    )
    mask = np.array([True, False, True])
    assert record(kernel, mask) == HEAD + '"Max":true,"Min":false,"Mean":null,"Norm":null,"true_count":2}'


def test_the_digest_of_a_record_is_that_of_all_bytes_whatever_the_blocks(kernel):
    for size in (1, 7, 1000, 4096, 5000, 16384, 33_333):
        bits = np.random.default_rng(size).integers(0, 256, 8 * size, np.uint8)
        for letter in "fdebBhHiIq":
            array = (bits[: size * np.dtype(letter).itemsize] & 0x3F).view(letter)  # finite, and no sum cancels
            plain, digested = record(kernel, array), record(kernel, array, has_digest=True)
            assert digested == f'{plain[:-1]},"md5":"crc32c:{crc32c_by_hand(array.tobytes()):08x}"}}', (letter, size)
    mask = np.array([True, False, True])
    assert record(kernel, mask, has_digest=True).endswith(f',"md5":"crc32c:{crc32c_by_hand(mask.tobytes()):08x}"}}')
    narrow = np.arange(0x3F80, 0x3F80 + 9000, dtype=np.uint16)
    wide = (narrow.astype(np.uint32) << 16).view(np.float32)
    found = record(kernel, narrow, letter="E", has_digest=True)
    assert found.endswith(f',"md5":"crc32c:{crc32c_by_hand(wide.tobytes()):08x}"}}')


def test_there_is_none_where_the_kernel_cannot_say(kernel):
    cancelling = np.float64([1e300, 1.0, -1e300])
    assert record(kernel, cancelling) is None
    assert record(kernel, np.float64([])) is None
    assert record(kernel, np.float64([1, 2, 3])[:2], offset=1) is None
    assert record(kernel, np.float64([1, 2]), letter="F") is None
    assert record(kernel, np.float64([1, 2]), letter="") is None
    assert record(kernel, np.float64([1, 2]), is_in_place=False) is None
    tensor = Tensor(np.float64([1, 2]))
    assert kernel.record("no tensor", tensor.reader) is None
    tensor.address = 0
    assert kernel.record(tensor, tensor.reader) is None


def test_an_exception_of_the_framework_is_left_to_whoever_reads_the_tensor(kernel):
    class Raises(Tensor):
        is_in_place = property(lambda self: 1 // 0, lambda self, value: None)

    tensor = Raises(np.float64([1, 2]))
    assert kernel.record(tensor, tensor.reader) is None

    class Interrupted(Tensor):
        @property
        def is_in_place(self):
            raise KeyboardInterrupt

        @is_in_place.setter
        def is_in_place(self, value):
            pass

    tensor = Interrupted(np.float64([1, 2]))
    with pytest.raises(KeyboardInterrupt):
        kernel.record(tensor, tensor.reader)


def test_the_records_of_a_call_name_their_sources(kernel):
    tensors = [Tensor(np.float64([1, 3])), Tensor(np.float64([2, 2]))]
    *asked, heads, has_digest = tensors[0].reader
    reader = (*asked, heads | tensors[1].reader[-2], has_digest)
    first, none, second = kernel.records([tensors[0], 7, tensors[1]], reader, {id(tensors[1]): '"parameter w"'})
    assert json.loads(first) == {"x": 1, "Max": 3, "Min": 1, "Mean": 2, "Norm": math.sqrt(10)}
    assert none is None
    assert json.loads(second) == {"x": 1, "Max": 2, "Min": 2, "Mean": 2, "Norm": math.sqrt(8), "from": "parameter w"}


@given(st.floats(min_value=-1e150, max_value=1e150).filter(bool))
@example(1e15)
@example(1e16)
@example(9.999e22)
@example(1e-4)
@example(9.99e-5)
@example(5e-324)
@example(-1.7976931348623157e150)
@example(100.0)
def test_numbers_are_written_as_python_writes_them(number):
    if module.kernel is None:
        pytest.skip("without the extension nothing makes such texts")
    assert f'"Max":{number!r},' in record(module.kernel, np.array([number]))
