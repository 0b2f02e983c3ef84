"""Reading a tensor's elements, whatever its layout, without the framework copying them."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

from msprobe.base.statistic import widen
from msprobe.frameworks.mindspore import reading

pytestmark = pytest.mark.mindspore

BASE = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)

VIEWS = {
    "whole": (lambda x: x, lambda a: a),
    "transposed": (lambda x: ops.transpose(x, (2, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    "sliced": (lambda x: x[:, 1:, ::2], lambda a: a[:, 1:, ::2]),
    "split": (lambda x: ops.split(x, 2, axis=2)[1], lambda a: a[:, :, 2:]),
    "one": (lambda x: x[1, 2, 3], lambda a: a[1, 2, 3]),
    "spread": (lambda x: ops.broadcast_to(x[:, :1], (2, 5, 4)), lambda a: np.broadcast_to(a[:, :1], (2, 5, 4))),
    "none": (lambda x: x[:, :0], lambda a: a[:, :0]),
}
DTYPES = [ms.float32, ms.float16, ms.float64, ms.int8, ms.int64, ms.uint8, ms.bool_, ms.bfloat16, ms.complex64]


@pytest.mark.pipeline
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_elements_are_those_of_the_tensor(view, dtype):
    of_tensor, of_array = VIEWS[view]
    kept = Tensor(BASE, dtype)
    array = reading.array_of(of_tensor(kept))
    expected = of_array(BASE != 0 if dtype == ms.bool_ else BASE)
    assert array.shape == expected.shape
    np.testing.assert_array_equal(widen(array).astype(np.complex64), expected.astype(np.complex64))


@pytest.mark.skipif(reading.to_dlpack is None, reason="MindSpore before 2.8 gives views as copies only")
def test_a_view_is_not_copied():
    kept = Tensor(BASE)
    whole, view = reading.array_of(kept), reading.array_of(ops.transpose(kept, (2, 0, 1)))
    assert np.shares_memory(whole, view) or view.strides == (4, 48, 16)


def test_an_array_outlives_its_tensor():
    array = reading.array_of(ops.transpose(Tensor(BASE) + 1.0, (2, 1, 0)))
    [Tensor(BASE) * 3.0 for _ in range(50)]  # would reuse memory that was let go
    np.testing.assert_array_equal(array, (BASE + 1).transpose(2, 1, 0))
