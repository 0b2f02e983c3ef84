"""What refers to a function of the framework may be pickled while its calls are collected."""

import pickle
import subprocess
import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops

from msprobe.frameworks.mindspore.functions import functions

pytestmark = pytest.mark.mindspore

X = Tensor(np.array([-1.0, 2.0], np.float32))


class Holding:
    """Code of a user that keeps a function; not a cell, so its reference is one to the function itself."""

    def __init__(self, function):
        self.function = function


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])  # 2 is that of torch.save
def test_every_function_loads_as_what_it_would_have_been_without_us(unpickled_alike, protocol):
    places = [(owner, name) for owner, name, _ in functions()]
    assert len(places) > 1000
    assert unpickled_alike(places, nn.ReLU(), protocol) < 10


def test_a_function_that_stands_in_several_modules_loads_from_each(collecting):
    assert mint.nn.functional.relu is ops.relu
    debugger = collecting()
    debugger.start(nn.ReLU())
    held = pickle.dumps([ops.relu, mint.nn.functional.relu, Holding(ops.gelu).function, Tensor.sum])
    debugger.stop()
    assert pickle.loads(held) == [ops.relu, ops.relu, ops.gelu, Tensor.sum]


def test_a_process_without_us_has_the_functions_of_the_framework(collecting):
    debugger = collecting()
    debugger.start(nn.ReLU())
    held = pickle.dumps([ops.relu, Tensor.sum, mint.linalg.inv])
    debugger.stop()
    script = (
        "import pickle, sys; held = pickle.load(sys.stdin.buffer); import mindspore as ms;"
        "print(held == [ms.ops.relu, ms.Tensor.sum, ms.mint.linalg.inv], 'msprobe' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], input=held, capture_output=True, check=True)
    assert done.stdout.decode().split() == ["True", "False"]


def test_the_compiler_takes_a_function_that_was_taken_meanwhile(collecting):
    debugger = collecting()
    debugger.start(nn.ReLU())
    relu, total = ops.relu, Tensor.sum

    @ms.jit
    def meanwhile(x):
        return relu(x) + 1

    assert total(X).asnumpy() == 1
    assert meanwhile(X).asnumpy().tolist() == [1, 3]
    debugger.stop()

    @ms.jit
    def afterwards(x):
        return relu(x) * 3

    assert afterwards(X).asnumpy().tolist() == [0, 6]
