"""bfloat16, which numpy cannot calculate with, is widened."""

import numpy as np
import pytest
from exact_statistic import BFLOAT16, assert_finite_statistic, round_to

from msprobe.base.statistic import statistic, widen

pytestmark = [pytest.mark.everywhere, pytest.mark.usefixtures("way")]


def test_widen_gives_bfloat16_as_float32():
    every = np.arange(65536, dtype="u2").view(BFLOAT16)
    wide = widen(every)
    assert wide.dtype == np.float32
    assert (wide.view("u4") == np.arange(65536, dtype="u4") * 65536).all()
    some = round_to(BFLOAT16, np.arange(24.0)).reshape(2, 3, 4)
    assert (widen(some.T) == np.arange(24.0).reshape(2, 3, 4).T).all()
    assert (widen(some[:, ::2]) == np.arange(24.0).reshape(2, 3, 4)[:, ::2]).all()
    assert widen(some[0, 0, :1].reshape(())).shape == ()


@pytest.mark.parametrize("dtype", ["f2", "f4", "u2", "i2", "V2", ">f4", "c8", "?"])
def test_widen_leaves_other_arrays_as_they_are(dtype):
    array = np.zeros(3, dtype)
    assert widen(array) is array


@pytest.mark.mindspore
def test_bfloat16_of_mindspore():
    mindspore = pytest.importorskip("mindspore", reason="needs MindSpore's own bfloat16")
    values = np.linspace(-3, 5, 1001).astype("f4").view("u4") & np.uint32(0xFFFF0000)  # what bfloat16 holds
    values = values.view("f4")
    array = mindspore.Tensor(values).astype(mindspore.bfloat16).asnumpy()
    assert array.dtype.type.__name__ == "bfloat16"
    assert (widen(array) == values).all()
    assert_finite_statistic(statistic(array), values.tolist())
    assert_finite_statistic(statistic(array[::3]), values[::3].tolist())
