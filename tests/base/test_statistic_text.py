"""The kernel's text of what lies at an address is the JSON of its statistic."""

import json
import math

import numpy as np
import pytest

from msprobe.base import statistic as module
from msprobe.base.statistic import statistic


@pytest.fixture
def kernel(way):
    if module.kernel is None:
        pytest.skip("without the extension nothing makes such texts")
    return module.kernel


@pytest.mark.parametrize("letter", "fdebBhHiIq")
def test_the_text_is_the_json_of_the_statistic(letter, kernel):
    array = (np.random.default_rng(1).standard_normal(1000) * 40).astype(letter)
    message = kernel.text('{"x":1,', array.ctypes.data, array.size, letter)
    found = statistic(array)
    expected = {"x": 1, "Max": found.max, "Min": found.min, "Mean": found.mean, "Norm": found.norm}
    assert f"{message}}}" == json.dumps(expected, separators=(",", ":"))


def test_the_text_of_what_is_not_finite_and_of_bools(kernel):
    odd = np.float32([math.nan, math.inf, -math.inf, -math.inf])
    text = kernel.text("{", odd.ctypes.data, 4, "f")
    counts = '"nan_count":1,"positive_inf_count":1,"negative_inf_count":2'
    assert text == f'{{"Max":NaN,"Min":NaN,"Mean":NaN,"Norm":NaN,{counts}'
    odd = np.float64([3, -math.inf])
    assert kernel.text("", odd.ctypes.data, 2, "d") == (
        '"Max":3.0,"Min":-Infinity,"Mean":-Infinity,"Norm":Infinity,"negative_inf_count":1'
    )
    mask = np.array([True, False, True])
    text = kernel.text("", mask.ctypes.data, 3, "?")
    assert text == '"Max":true,"Min":false,"Mean":null,"Norm":null,"true_count":2'


def test_the_text_is_none_where_the_kernel_cannot_say(kernel):
    cancelling = np.float64([1e300, 1.0, -1e300])
    assert kernel.text("", cancelling.ctypes.data, 3, "d") is None
    assert kernel.text("", cancelling.ctypes.data, 0, "d") is None
    assert kernel.text("", cancelling.ctypes.data + 1, 2, "d") is None
    assert kernel.text("", 0, 3, "d") is None
    assert kernel.text("", cancelling.ctypes.data, 3, "F") is None
