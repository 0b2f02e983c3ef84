"""The statistics in a dump are those of the elements that `asnumpy` gives, whatever the tensor's memory is like.

Contiguous tensors are read at their address, so here is what could make an address lie: views with an offset, every
dtype, elements that are not finite, tensors without elements.
"""

import math

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, nn, ops
from shown_tensors import RANDOM, Root, check, differences, record_of

pytestmark = [pytest.mark.mindspore, pytest.mark.pipeline]

PLAIN_NUMBERS = [ms.float16, ms.float32, ms.float64, ms.int8, ms.int16, ms.int32, ms.int64, ms.uint8, ms.uint16]
PLAIN_NUMBERS += [ms.uint32, ms.uint64, ms.bfloat16]

VIEWS = {
    "row": lambda t: t[2],
    "last row": lambda t: t[-1],
    "rows": lambda t: t[1:3],
    "columns": lambda t: t[:, 1:3],
    "every other row": lambda t: t[::2],
    "one element": lambda t: t[2, 3],
    "part of a row": lambda t: t[2][3:5],
    "transposed": lambda t: t.T,
    "transposed twice": lambda t: t.T.T,
    "one row transposed": lambda t: t[2:3].T,
    "one column transposed": lambda t: t[:, 3:4].T,
    "second half": lambda t: ops.split(t, 3)[1],
    "second half of mint": lambda t: mint.split(t, 3)[1],
    "split by columns": lambda t: mint.split(t, 4, 1)[1],
    "chunk": lambda t: ops.chunk(t, 2)[1],
    "unbound": lambda t: mint.unbind(t)[4],
    "narrow": lambda t: mint.narrow(t, 0, 1, 2),
    "selected": lambda t: mint.select(t, 0, 2),
    "expanded": lambda t: t[2:3].expand((3, 8)),
    "broadcast": lambda t: ops.broadcast_to(t[2:3], (4, 8)),
    "reshaped rows": lambda t: t[1:3].reshape(16),
    "view of rows": lambda t: t[1:3].view(16),
    "new axis": lambda t: t[2:3][None],
    "last column": lambda t: t[..., -1],
    "gathered": lambda t: t[[4, 1]],
    "diagonal": lambda t: mint.diagonal(t) if hasattr(mint, "diagonal") else ops.diagonal(t),
    "no rows": lambda t: t[3:3],
    "permuted": lambda t: t.reshape(2, 3, 8).permute(2, 0, 1),
    "permuted and cut": lambda t: t.reshape(2, 3, 8).permute(2, 0, 1)[3],
    "row of transposed": lambda t: t.T[1],
}


def served(make, base):
    """Whether this version of the framework has the operation on the CPU."""
    try:
        make(base).asnumpy()
    except RuntimeError as cause:
        if "Not found op" in str(cause) or "unregistered" in str(cause):
            return False
        raise
    return True


@pytest.mark.parametrize("kind", ["made of numpy", "result", "parameter"])
def test_views_of_every_kind_are_read_where_they_are(kind, collecting, dumped):
    base = Tensor(RANDOM) if kind == "made of numpy" else Tensor(RANDOM) * 2.0
    base = Parameter(base, name="p") if kind == "parameter" else base
    makers = {name: (lambda make=make: make(base)) for name, make in VIEWS.items() if served(make, base)}
    assert len(makers) >= len(VIEWS) - 4
    check(collecting(level="L0"), dumped, makers)


def test_every_dtype_is_read_as_numpy_reads_it_also_in_views(collecting, dumped):
    whole = np.array([[0, 1, 2, 3], [100, 5, 6, 7], [8, 9, 127, 11]])
    makers = {}
    for dtype in PLAIN_NUMBERS:
        base = Tensor(whole, dtype)
        makers[f"{dtype}"] = lambda base=base: base
        makers[f"{dtype} row"] = lambda base=base: base[1]
        makers[f"{dtype} element"] = lambda base=base: base[1, 2]
        makers[f"{dtype} columns"] = lambda base=base: base[:, 1:3]
    check(collecting(level="L0"), dumped, makers)


def test_extremes_of_integers_keep_every_digit(collecting, dumped):
    extremes = {
        ms.int64: [2**63 - 1, -(2**63), 3],
        ms.uint64: [2**64 - 1, 2**53 + 1, 0],
        ms.int32: [2**31 - 1, -(2**31), 7],
        ms.uint32: [2**32 - 1, 0, 7],
        ms.int8: [127, -128, 0],
    }
    tensors = {str(d): Tensor(np.array(v, ms.dtype_to_nptype(d))) for d, v in extremes.items()}
    check(collecting(level="L0"), dumped, {name: (lambda t=t: t) for name, t in tensors.items()})


def test_bools_tell_how_many_are_true(collecting, dumped):
    base = Tensor(RANDOM)
    makers = {
        "some": lambda: base > 0.3,
        "all": lambda: base > -100.0,
        "none": lambda: base > 100.0,
        "row": lambda: (base > 0.3)[2],
        "columns": lambda: (base > 0.3)[:, 2:5],
        "one": lambda: (base > 0.3)[2, 2],
        "of numpy": lambda: Tensor(np.array([True, False, True])),
        "empty": lambda: (base > 0)[3:3],
    }
    check(collecting(level="L0"), dumped, makers)


def test_complex_zero_dimensional_and_empty_tensors(collecting, dumped):
    base = Tensor(RANDOM)
    numbers = (RANDOM + 1j * RANDOM[::-1]).astype(np.complex64)
    makers = {
        "complex": lambda: Tensor(numbers),
        "complex row": lambda: Tensor(numbers)[2],
        "complex128": lambda: Tensor(numbers.astype(np.complex128)),
        "sum": lambda: ops.sum(base),
        "scalar": lambda: Tensor(2.5),
        "integer scalar": lambda: Tensor(7),
        "empty": lambda: ops.zeros((0, 4)),
        "empty int": lambda: Tensor(np.zeros((3, 0), np.int32)),
    }
    check(collecting(level="L0"), dumped, makers)


def test_not_finite_elements_are_counted_in_views_too(collecting, dumped):
    values = RANDOM.copy()
    values[2, :5] = [np.nan, np.inf, -np.inf, np.inf, 1.0]
    base, net, debugger = Tensor(values), Root(), collecting(level="L0")
    debugger.start(net)
    net([lambda: base[2], lambda: base[3], lambda: base[2, 1:4:2], lambda: base[2].astype(ms.bfloat16)])
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    counts = ("nan_count", "positive_inf_count", "negative_inf_count")
    assert [[record_of(dump, n).get(c, 0) for c in counts] for n in range(4)] == [
        [1, 2, 1],
        [0] * 3,
        [0, 2, 0],
        [1, 2, 1],
    ]
    assert math.isnan(record_of(dump, 0)["Max"])
    assert record_of(dump, 2)["Mean"] == math.inf


def test_a_large_tensor_is_read_to_its_end(collecting, dumped):
    size = 3_000_001
    values = np.zeros(size, np.float32)
    values[-1], values[0] = 9.0, -4.0
    base = Tensor(values)
    check(collecting(level="L0"), dumped, {"whole": lambda: base, "without the first": lambda: base[1:]})


def test_gradients_that_are_views_or_expanded(collecting, dumped):
    """The gradient of a sum is one number spread over the shape; that of a transpose is transposed."""
    debugger, net = collecting(level="L0"), nn.SequentialCell(nn.Tanh())
    debugger.start(net)
    ms.grad(lambda x: ops.sum(net(x.T)[1:3]))(Tensor(RANDOM))
    debugger.stop()
    debugger.step()
    entry = dumped(debugger).data["Cell.0.Tanh.backward.0"]
    incoming = np.zeros((8, 6), np.float32)
    incoming[1:3] = 1
    outgoing = incoming * (1 - np.tanh(RANDOM.T.astype(np.float64)) ** 2)
    assert differences(entry["input"][0], Tensor(incoming), incoming) == {}
    record = entry["output"][0]
    assert record["Norm"] == pytest.approx(np.sqrt((outgoing**2).sum()), rel=1e-5)
    assert record["Max"] == pytest.approx(outgoing.max(), rel=1e-5)
