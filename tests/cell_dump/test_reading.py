"""The statistics in a dump are those of the elements that `asnumpy` gives, whatever the tensor's memory is like.

Contiguous tensors are read at their address, so here is everything that could make an address lie: views with an
offset, memory shared with numpy, results that are still being computed, tensors that change right after.
"""

import math
import threading

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.common.initializer import Normal, One, initializer

RANDOM = np.random.default_rng(3).standard_normal((6, 8)).astype(np.float32)
PLAIN_NUMBERS = [ms.float16, ms.float32, ms.float64, ms.int8, ms.int16, ms.int32, ms.int64, ms.uint8, ms.uint16]
PLAIN_NUMBERS += [ms.uint32, ms.uint64, ms.bfloat16]


@pytest.fixture(params=[True, False], ids=["synchronous", "asynchronous"], autouse=True)
def _pipeline(request, _synchronous):
    ms.set_context(pynative_synchronize=request.param)


class Same(nn.Cell):
    def construct(self, x):
        return x


class Root(nn.Cell):
    """Shows every tensor to a recorded cell as soon as it is made; `after` runs when it has been shown."""

    def __init__(self):
        super().__init__()
        self.same = Same()

    def construct(self, makers):
        shown = []
        for maker in makers:
            made = maker()
            tensor, after = made if isinstance(made, tuple) else (made, None)
            self.same(tensor)
            if after is not None:
                after()
            shown.append(tensor)
        return shown


def by_hand(array):
    """The statistics of an array, by math.fsum and Python's integers."""
    if array.size == 0:
        return {"Max": None, "Min": None, "Mean": None, "Norm": None}
    if array.dtype.kind == "b":
        count = sum(array.ravel().tolist())
        return {"Max": count > 0, "Min": count == array.size, "Mean": None, "Norm": None, "true_count": count}
    values = (np.abs(array) if array.dtype.kind == "c" else array).ravel().tolist()
    whole = array.dtype.kind in "iu"
    mean = (sum(values) if whole else math.fsum(values)) / len(values)
    norm = math.sqrt(sum(v * v for v in values) if whole else math.fsum(v * v for v in values))
    return {"Max": max(values), "Min": min(values), "Mean": mean, "Norm": norm}


def read(tensor):
    """The elements, widened by the framework itself where numpy has no such dtype."""
    return (tensor.astype(ms.float32) if tensor.dtype == ms.bfloat16 else tensor).asnumpy().copy()


def record_of(dump, number):
    return dump.data[f"Cell.same.Same.forward.{number}"]["input_args"][0]


def differences(record, tensor, array):
    """What a record says otherwise than an array."""
    told = {"dtype": str(tensor.dtype), "shape": list(array.shape), **by_hand(array)}
    wrong = {}
    for key, value in told.items():
        close = isinstance(value, float) and key in ("Mean", "Norm")
        tolerance = 1e-6 if array.dtype.kind == "c" else 1e-12  # a complex number's absolute value is rounded
        if record[key] != (pytest.approx(value, rel=tolerance, abs=1e-12) if close else value):
            wrong[key] = (record[key], value)
    return wrong


def check(debugger, dumped, makers, arrays=None):
    """Every maker's tensor is recorded as numpy sees it (`arrays`: or as it is known to be)."""
    net = Root()
    debugger.start(net)
    tensors = net(list(makers.values()))
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    assert "missing" not in dump.dump
    arrays = arrays or [read(t) for t in tensors]
    found = {
        name: differences(record_of(dump, n), tensor, array)
        for n, (name, tensor, array) in enumerate(zip(makers, tensors, arrays, strict=True))
    }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


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


def test_parameters_of_every_origin(collecting, dumped):
    stays = Parameter(initializer(Normal(), [5, 3], ms.float32), name="stays")
    changed = Parameter(Tensor(np.zeros((2, 3), np.float32)), name="changed")
    changed.set_data(Tensor(np.full((2, 3), 7, np.float32)))
    reshaped = Parameter(Tensor(np.zeros((2, 3), np.float32)), name="reshaped")
    reshaped.set_data(Tensor(np.arange(20, dtype=np.float32).reshape(4, 5)), slice_shape=True)
    assigned = Parameter(Tensor(np.zeros((2, 3), np.float32)), name="assigned")
    made = initializer(One(), [3, 4], ms.float32)
    makers = {
        "by an initializer": lambda: stays,
        "view": lambda: stays[2],
        "changed": lambda: changed,
        "of another shape": lambda: reshaped,
        "assigned": lambda: (ops.assign(assigned, Tensor(np.full((2, 3), 4, np.float32))), assigned)[1],
        "tensor by an initializer": lambda: made.init_data(),
    }

    def shown(maker):
        tensor = maker()
        return (tensor, None)

    check(collecting(level="L0"), dumped, {name: (lambda m=m: shown(m)) for name, m in makers.items()})


def test_a_tensor_that_has_no_data_yet_is_told_and_not_read(collecting, dumped):
    """Reading it must neither crash nor make the initializer draw its numbers before the training does."""
    later, net, debugger = initializer(Normal(), [3, 4], ms.float32), Root(), collecting(level="L0")
    assert later.has_init
    debugger.start(net)
    net([lambda: later])
    debugger.stop()
    debugger.step()
    assert later.has_init
    dump = dumped(debugger)
    assert dump.data["Cell.same.Same.forward.0"]["input_args"] == [None]
    assert {m["part"]: m["cause"] for m in dump.dump["missing"]} == dict.fromkeys(
        ("input.0", "output.0"), "the tensor has no data yet, only an initializer"
    )


def test_parameters_that_are_initialised_late_get_the_numbers_that_they_get_without_us(collecting, dumped):
    def weights(run):
        ms.set_seed(5)
        with nn.no_init_parameters():
            net = nn.SequentialCell(nn.Dense(3, 4), nn.Dense(4, 2))
        run(net)
        return [p.asnumpy() for p in net.trainable_params()]

    def collected(net):
        debugger.start(net)
        net(Tensor(np.ones((2, 3), np.float32)))
        debugger.stop()
        debugger.step()

    debugger = collecting(level="L0")
    plain = weights(lambda net: net(Tensor(np.ones((2, 3), np.float32))))
    ours = weights(collected)
    for a, b in zip(plain, ours, strict=True):
        np.testing.assert_array_equal(a, b)
    recorded = dumped(debugger).data["Cell.1.Dense.forward.0"]["parameters"]
    assert recorded["weight"]["Max"] == float(plain[2].max())


def test_memory_shared_with_numpy(collecting, dumped):
    owner = np.arange(24, dtype=np.float32).reshape(4, 6)
    turned = np.arange(24, dtype=np.float32).reshape(4, 6)
    makers = {
        "from_numpy": lambda: Tensor.from_numpy(owner),
        "row from_numpy": lambda: Tensor.from_numpy(owner[2]),
        "turned": lambda: Tensor(turned.T),
        "cut": lambda: Tensor(turned[:, 2:5]),
        "backwards": lambda: Tensor(turned[::-1].copy()),
        "read only": lambda: Tensor(np.broadcast_to(np.float32(3), (2, 3))),
        "whose array is gone": lambda: Tensor.from_numpy(np.full(1000, 5, np.float32)),
    }
    check(collecting(level="L0"), dumped, makers)


def test_an_array_that_numpy_changed_is_read_as_it_is_at_the_call(collecting, dumped):
    owner = np.zeros(6, np.float32)
    tensor = Tensor.from_numpy(owner)

    def changed(to):
        owner[:] = to
        return tensor

    check(
        collecting(level="L0"),
        dumped,
        {"first": lambda: changed(1), "then": lambda: changed(2)},
        [np.full(6, 1, np.float32), np.full(6, 2, np.float32)],
    )


def test_a_change_right_after_the_call_is_not_in_its_record(collecting, dumped):
    shape = (400, 400)
    ready = [Tensor(np.full(shape, 1, np.float32)) for _ in range(4)]
    parameter = Parameter(Tensor(np.full(shape, 1, np.float32)), name="p")
    optimizer = nn.SGD([parameter], 1.0)
    twos = Tensor(np.full(shape, 2, np.float32))
    makers = {
        "copied into": lambda: (ready[0], lambda: ready[0].copy_(twos)),
        "set item": lambda: (ready[1], lambda: ready[1].__setitem__(slice(None), 2.0)),
        "set data": lambda: (ready[2], lambda: ready[2].assign_value(twos)),
        "view of what changes": lambda: (ready[3][3], lambda: ready[3].copy_(twos)),
        "optimized": lambda: (parameter, lambda: optimizer((twos,))),
        "optimized again": lambda: (parameter, lambda: ops.assign(parameter, twos)),
    }
    known = (
        [np.ones(shape, np.float32)] * 3 + [np.ones(400, np.float32)] + [np.full(shape, v, np.float32) for v in (1, -1)]
    )
    check(collecting(level="L0"), dumped, makers, known)


def test_results_that_are_still_being_computed_are_waited_for(collecting, dumped):
    """Heavy work queued before the call: with the asynchronous pipeline nothing of it is done when the call begins."""
    n = 500
    half, two = Tensor(np.full((n, n), 0.5, np.float32)), Tensor(np.full((n, n), 2, np.float32))

    def heavy():
        return ops.matmul(ops.matmul(half, two), two)  # n * 2 * n everywhere

    def into(write):
        target = Tensor(np.zeros((n, n), np.float32))
        view = target[3]
        write(target, view, heavy())
        return target, view

    def through_base(target, view, y):
        target.copy_(y)

    def through_view(target, view, y):
        view[...] = y[0] * 1.0

    parameter = Parameter(Tensor(np.zeros((n, n), np.float32)), name="p")
    makers = {
        "product": heavy,
        "row": lambda: heavy()[3],
        "sum": lambda: ops.sum(heavy()[0]),
        "turned": lambda: heavy().T,
        "base after copy": lambda: (into(through_base)[0], None),
        "view after copy": lambda: (into(through_base)[1], None),
        "base after copy into a view": lambda: (into(through_view)[0], None),
        "parameter": lambda: (ops.assign(parameter, heavy()), (parameter, None))[1],
    }
    full = float(n * 2 * n)
    mixed = np.zeros((n, n), np.float32)
    mixed[3] = full
    square, row = np.full((n, n), full, np.float32), np.full(n, full, np.float32)
    known = [square, row, np.array(full * n, np.float32), square, square, row, mixed, square]
    check(collecting(level="L0"), dumped, makers, known)


def test_results_of_jit_mint_and_legacy_primitives(collecting, dumped):
    base = Tensor(RANDOM)

    @ms.jit
    def several(x):
        return x * 2.0, x[1], ops.transpose(x, (1, 0)), x

    results = several(base)
    makers = {f"jit {n}": (lambda n=n: results[n]) for n in range(4)}
    makers["jit at once"] = lambda: several(base)[2]
    makers["primitive"] = lambda: ops.operations.MatMul()(base, base.T)
    makers["mint"] = lambda: mint.matmul(base, base.T)
    makers["topk"] = lambda: ops.topk(base, 2)[1]
    makers["where"] = lambda: mint.where(base > 0, base, -base)
    check(collecting(level="L0"), dumped, makers)


def test_a_tensor_that_another_thread_made_and_let_go(collecting, dumped):
    made = []

    def work():
        x = Tensor(np.full((300, 300), 3, np.float32))
        made.append((x * 2.0)[7])

    def maker():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return made.pop()

    check(collecting(level="L0"), dumped, {"row": maker}, [np.full(300, 6, np.float32)])


def test_memory_that_is_given_to_one_tensor_after_another(collecting, dumped):
    """Views outlive what they were cut from, while the framework hands freed memory out again."""
    makers = {str(n): (lambda n=n: (Tensor(np.full((64, 64), n, np.float32)) * 1.0)[5]) for n in range(40)}
    check(collecting(level="L0"), dumped, makers, [np.full(64, n, np.float32) for n in range(40)])


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


class Owner(nn.Cell):
    def __init__(self, parameter):
        super().__init__()
        self.p = parameter

    def construct(self, x):
        return x


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_parameter_that_is_still_being_computed_is_waited_for(task, collecting, dumped):
    """As after an optimizer's step: the cell's next call comes while the update is queued behind heavy work."""
    n = 600
    half, two = Tensor(np.full((n, n), 0.5, np.float32)), Tensor(np.full((n, n), 2, np.float32))
    parameter = Parameter(Tensor(np.zeros((n, n), np.float32)), name="p")
    debugger, net = collecting(level="L0", task=task), nn.SequentialCell(Owner(parameter))
    optimizer = nn.SGD([parameter], 1.0)
    known = [-float(n * 2 * n), float(n * 2 * n), 5.0]
    debugger.start(net)
    optimizer((ops.matmul(ops.matmul(half, two), two),))
    net(two)
    ops.assign(parameter, ops.matmul(ops.matmul(half, two), two))
    net(two)
    ops.matmul(ops.matmul(half, two), two)
    parameter[:] = 5.0
    net(two)
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    found = [dump.data[f"Cell.0.Owner.forward.{n}"]["parameters"]["p"] for n in range(3)]
    assert [(r["Min"], r["Max"]) for r in found] == [(value, value) for value in known]
    if task == "tensor":
        for record, value in zip(found, known, strict=True):
            saved = np.load(dump.folder / "dump_tensor_data" / record["data_name"])
            np.testing.assert_array_equal(saved, np.full((n, n), value, np.float32))


class Produces(nn.Cell):
    """Takes no tensor: the first thing that a collection reads of its call is its parameter."""

    def __init__(self):
        super().__init__()
        self.p = Parameter(Tensor(np.ones(4, np.float32)), name="p")

    def construct(self, *_):
        return self.p * 2.0


class Wrong(nn.Cell):
    """Queues something that fails, then calls a cell whose own arguments have nothing to do with it."""

    def __init__(self, arguments):
        super().__init__()
        self.produces, self.arguments = Produces(), arguments

    def construct(self, x):
        beyond = ops.gather(x, Tensor([0, 9]), 0)
        return self.produces(*self.arguments()), beyond


@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize(
    "arguments",
    [list, lambda: [Tensor(RANDOM)], lambda: [Tensor(RANDOM), Tensor(RANDOM)[1]]],
    ids=["none", "new", "view"],
)
def test_the_trainings_own_error_is_not_taken_by_our_reading(arguments, level, collecting):
    debugger, net = collecting(level=level), Wrong(arguments)
    debugger.start(net)
    with pytest.raises((RuntimeError, IndexError), match="9"):
        net(Tensor(RANDOM[:2]))[1].asnumpy()
    debugger.stop()
    debugger.step()
