"""The kernels that stand below recorded calls compute the same function, in other last bits."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops

pytestmark = pytest.mark.mindspore

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture
def kernels(bench):
    import kernels

    ms.set_context(mode=ms.PYNATIVE_MODE)
    return kernels


@pytest.mark.parametrize(
    ("precision", "value", "expected"),
    [
        ("bf16", 1.00390625, 1.0),  # 1 + 2**-8: half of a step of bfloat16, to the even neighbour
        ("bf16", 1.01171875, 1.015625),  # 1 + 3 * 2**-8: half again, and the even neighbour is above
        ("tf32", 1.00048828125, 1.0),  # 1 + 2**-11
        ("tf32", 1.0009765625, 1.0009765625),  # 1 + 2**-10 is a number of ten bits
        ("fp16", 1.00048828125, 1.0),
        ("", 1.00048828125, 1.00048828125),
    ],
)
def test_inputs_are_rounded_to_the_nearest_even(kernels, precision, value, expected):
    rounded = kernels.Inside(precision=precision).rounded(np.array([value], np.float32))
    assert rounded.dtype == np.float32
    assert rounded.tolist() == [expected]


@pytest.mark.parametrize("order", ["strided", "reversed", "shuffled"])
@pytest.mark.parametrize("count", [1, 2, 7, 16])
def test_pieces_hold_every_term_once(kernels, order, count):
    pieces = kernels.Inside(order=order).pieces(count)
    assert sorted(np.concatenate(pieces).tolist()) == list(range(count))


def gradients(function, *arrays):
    """The value and the gradients of the squares of a function, by MindSpore."""
    tensors = [Tensor(array) for array in arrays]
    value = ms.value_and_grad(lambda *inputs: ops.square(function(*inputs)).sum(), tuple(range(len(arrays))))
    loss, grads = value(*tensors)
    return [float(loss.asnumpy()), *(grad.asnumpy() for grad in grads)]


def layer_norm(x, gamma, beta):
    """By its formula: the framework's own function has no kernel on CPUs."""
    centred = x - ops.mean(x, -1, True)
    return centred / ops.sqrt(ops.mean(ops.square(centred), -1, True) + 1e-5) * gamma + beta


@pytest.mark.parametrize("inside", [{"order": "shuffled"}, {"order": "strided"}])
@pytest.mark.parametrize(
    ("own", "theirs", "arrays"),
    [
        (
            lambda k, i: lambda a, b: k.MatMul.apply(a, b, False, True, i),
            lambda a, b: ops.matmul(a, ops.transpose(b, (1, 0))),
            (drawn(5, 12), drawn(4, 12)),
        ),
        (
            lambda k, i: lambda a, b: k.MatMul.apply(a, b, False, False, i),
            ops.matmul,
            (drawn(2, 3, 5, 12), drawn(2, 3, 12, 4)),
        ),
        (lambda k, i: lambda a, b: k.MatMul.apply(a, b, False, False, i), ops.matmul, (drawn(2, 5, 12), drawn(12, 4))),
        (
            lambda k, i: lambda x, w: k.Conv2D.apply(x, w, 2, 1, i),
            lambda x, w: ops.conv2d(x, w, None, 2, "pad", 1),
            (drawn(2, 3, 8, 8), drawn(4, 3, 3, 3)),
        ),
        (
            lambda k, i: lambda x, w: k.Conv2D.apply(x, w, 2, 0, i),
            lambda x, w: ops.conv2d(x, w, None, 2, "pad", 0),
            (drawn(2, 3, 8, 8), drawn(4, 3, 1, 1)),
        ),
        (
            lambda k, i: lambda x: k.Sum.apply(x, (0, 2), True, 6.0, i),
            lambda x: ops.mean(x, (0, 2), True),
            (drawn(2, 4, 3),),
        ),
        (lambda k, i: lambda x: k.Softmax.apply(x, -1, i), lambda x: ops.softmax(x, -1), (drawn(3, 9),)),
        (
            lambda k, i: lambda x, g, b: k.LayerNorm.apply(x, g, b, 1e-5, i)[0],
            layer_norm,
            (drawn(2, 5, 12), drawn(12), drawn(12)),
        ),
    ],
    ids=["dense", "batched", "batch by matrix", "convolution", "one by one", "mean", "softmax", "layer norm"],
)
def test_another_order_gives_the_same_value_and_gradients(kernels, own, theirs, arrays, inside):
    ours = gradients(own(kernels, kernels.Inside(**inside)), *arrays)
    for found, wanted in zip(ours, gradients(theirs, *arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5)
    product = kernels.Inside(**inside).product(arrays[0], np.swapaxes(arrays[0], -1, -2))
    exact = np.matmul(arrays[0].astype(np.float64), np.swapaxes(arrays[0], -1, -2).astype(np.float64))
    np.testing.assert_allclose(product, exact, rtol=1e-4, atol=1e-5)
