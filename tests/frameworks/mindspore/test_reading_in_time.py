"""A tensor is read as it is at its call: what is still being computed is waited for, what changes after is not seen."""

import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, nn, ops
from shown_tensors import RANDOM, check

pytestmark = [pytest.mark.mindspore, pytest.mark.pipeline]


def test_the_pipeline_is_the_one_that_was_asked_for(request):
    """Else half of these tests show nothing: an error that the shapes show surfaces at the call, or when one looks."""
    surfaced = "at the call"
    with pytest.raises(RuntimeError, match="shape"):  # noqa: PT012  # which of both raises is the question
        product = mint.matmul(Tensor(np.ones((3, 4), np.float32)), Tensor(np.ones((7, 7), np.float32)))
        surfaced = "later"
        product.asnumpy()
    assert surfaced == ("later" if request.config.getoption("--asynchronous") else "at the call")


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
        "view of the code that changes": lambda: (ready[3][3], lambda: ready[3].copy_(twos)),
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
