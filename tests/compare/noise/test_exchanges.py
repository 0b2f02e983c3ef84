"""Results of exchanges between ranks: errors of what other ranks contribute explain them, faults are not explained."""

import numpy as np
import pytest

from msprobe.cli import main

INPUTS = np.array([[1.0, 2.0], [-3.0, 4.0]], np.float32), np.array([[2.0, -1.0], [5.0, 1.5]], np.float32)
SHARES = np.array([[7.0, 2.5], [6.0, -4.0]], np.float32), np.array([[3.0, -8.0], [2.0, 9.0]], np.float32)


@pytest.fixture
def ranks(builder, tensor, tmp_path):
    """`ranks(side, error, wrong)`: two ranks compute their shares by two calls, and add them up; those of rank 1 have a
    relative error, an eighth of it after the first call."""

    def write(side, error=0.0, wrong=0.0, written=(0, 1)):
        first = INPUTS[0] * 2, INPUTS[1] * np.float32(2 + error / 4)
        shares = SHARES[0], SHARES[1] * np.float32(1 + error)
        total = (shares[0] + shares[1]) * np.float32(1 + wrong)
        for rank in written:
            made = builder(side, mode="tensor")
            made.folder = tmp_path / side / "step0" / f"rank{rank}"
            made.call("Functional.mine.0.forward", [tensor(INPUTS[rank])], [tensor(first[rank])])
            made.call("Functional.mine.1.forward", [tensor(first[rank])], [tensor(shares[rank])])
            made.call("Distributed.all_reduce.0.forward", [tensor(shares[rank])], [tensor(total)])
            made.write()
        return str(tmp_path / side)

    return write


@pytest.fixture
def compared(tmp_path, capsys):
    def run(target, golden):
        code = main(["compare", target, golden, "-o", str(tmp_path / "out")])
        return code, capsys.readouterr().out.splitlines()[-1]

    return run


def test_the_error_of_another_rank_explains_a_sum(ranks, compared):
    code, line = compared(ranks("t", error=4e-6), ranks("g"))
    assert (code, line.split(":")[0]) == (0, "no difference beyond rounding"), line


def test_without_the_other_rank_nothing_explains_it(ranks, compared):
    code, line = compared(ranks("t", error=4e-6, written=[0]), ranks("g", written=[0]))
    assert code == 1
    assert line.startswith("first wrong call: Distributed.all_reduce.0.forward")


def test_a_wrong_sum_is_not_explained(ranks, compared):
    code, line = compared(ranks("t", error=4e-6, wrong=1e-3), ranks("g"))
    assert code == 1
    assert line.startswith("first wrong call: Distributed.all_reduce.0.forward")


def test_a_fault_of_another_rank_is_no_noise_of_this_one(ranks, compared, tmp_path):
    target, golden = ranks("t", error=0.5), ranks("g")
    code, line = compared(target, golden)
    assert code == 1
    assert line.startswith("first wrong call: Functional.mine.")
    code, line = compared(f"{target}/step0/rank0/dump.json", f"{golden}/step0/rank0/dump.json")
    assert code == 1, line


def test_what_is_rounding_is_rounding_after_an_exchange(builder, tensor, compared, tmp_path):
    """The gradient of a bias that has no effect: other orders of its sum give other numbers, and all of them are zero.

    It is judged at the scale of what it sums up, which is not known after the exchange.
    """
    random = np.random.default_rng(0)
    x, w, b = (random.standard_normal(shape).astype(np.float32) for shape in ((256, 8), (4, 8), 4))
    incoming = random.standard_normal((256, 4)).astype(np.float32)
    for side in ("t", "g"):
        rest = (1e-7 * random.standard_normal(4)).astype(np.float32)
        g = incoming * (1 + (side == "t") * 1e-7 * random.standard_normal(incoming.shape)).astype(np.float32)
        for rank in (0, 1):
            made = builder(side)
            made.folder = tmp_path / side / "step0" / f"rank{rank}"
            made.call("Functional.linear.0.forward", [tensor(x), tensor(w), tensor(b)], [tensor(x @ w.T + b)])
            gradients = [tensor(g @ w), tensor(g.T @ x), tensor(rest)]
            made.call("Functional.mine.0.backward", [], [tensor(g)])
            made.call("Functional.linear.0.backward", [tensor(g)], gradients)
            made.call("Distributed.all_reduce.0.forward", [tensor(rest)], [tensor(2 * rest)])
            made.write()
    code, line = compared(str(tmp_path / "t"), str(tmp_path / "g"))
    assert (code, line.split(":")[0]) == (0, "no difference beyond rounding"), line


def noisy(array, error):
    return (array * (1 + error * np.cos(1e3 * array))).astype(np.float32)


@pytest.fixture
def stages(builder, tensor, tmp_path):
    """`stages(side, error, lost)`: rank 1 receives a tensor from rank 0, and multiplies it by the weight of a cell that
    it does not call; a share of the gradient of this weight is lost."""
    random = np.random.default_rng(1)
    sent, weight, incoming = (random.standard_normal(shape).astype(np.float32) for shape in ((64, 8), (8, 4), (64, 4)))

    def write(side, error=0.0, lost=0.0):
        hidden = noisy(sent, error)
        made = builder(side, mode="tensor")
        made.folder = tmp_path / side / "step0" / "rank0"
        made.call("Functional.mine.0.forward", [tensor(sent, "leaf")], [tensor(hidden)])
        made.call("Distributed.send.0.forward", [tensor(hidden)], [tensor(hidden)])
        made.write()
        made = builder(side, mode="tensor")
        made.folder = tmp_path / side / "step0" / "rank1"
        empty, gradient = np.zeros_like(hidden), (hidden.T @ incoming * (1 - lost)).astype(np.float32)
        made.call("Distributed.recv.0.forward", [tensor(empty)], [tensor(hidden)])
        given = [tensor(hidden, "leaf"), tensor(weight, "code")]
        made.call("Tensor.__matmul__.0.forward", given, [tensor(hidden @ weight)])
        made.call("Tensor.__matmul__.0.backward", [tensor(incoming)], [tensor(incoming @ weight.T), tensor(gradient)])
        made.gradients("Cell.tied.Embedding.parameters_grad", weight=tensor(np.ascontiguousarray(gradient.T)))
        made.write()
        return str(tmp_path / side)

    return write


def test_what_is_received_may_require_a_gradient(stages, compared):
    """It is a leaf then, and the result of the exchange all the same. The gradient of the weight follows from it."""
    code, line = compared(stages("t", error=4e-7), stages("g"))
    assert (code, line.split(":")[0]) == (0, "no difference beyond rounding"), line


def test_a_gradient_of_a_cell_without_calls_may_be_wrong(stages, compared):
    code, line = compared(stages("t", error=4e-7, lost=1e-2), stages("g"))
    assert code == 1
    assert line.startswith("first wrong call: Tensor.__matmul__.0.backward")
