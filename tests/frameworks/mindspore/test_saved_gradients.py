"""The gradients of what the user saves by hand: which come, when, and that nothing of ours stays behind."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from saved_by_hand import GRID, statistics

from msprobe.frameworks.mindspore.autograd import HAS_NODES

pytestmark = pytest.mark.mindspore


class Net(nn.Cell):
    """Saves inside `construct`, in a loop and in a function, a tensor that three others use."""

    def __init__(self, save):
        super().__init__()
        self.save = save
        self.weight = Parameter(Tensor(np.linspace(-1, 1, 16).reshape(4, 4).astype(np.float32)), name="weight")

    def construct(self, x):
        for turn in range(2):
            x = self.layer(x, turn)
        return x.sum()

    def layer(self, x, turn):
        h = ops.tanh(ops.matmul(x, self.weight))
        self.save({"turn": turn, "h": h}, "h")
        return h * h + h + ops.exp(h)


@pytest.mark.pipeline
def test_a_gradient_is_the_sum_over_all_users(running):
    run = running("tensor")
    net = Net(run.save)
    ms.value_and_grad(net, None, net.trainable_params())(Tensor(GRID))
    run.step()
    assert [run.data()[f"h.{n}.debug"]["turn"]["value"] for n in (0, 1)] == [0, 1]
    rest = Net(lambda variable, name: None)
    for turn in (0, 1):
        # the gradient of what follows the saved tensor, asked of the framework
        def scaled(h, turn=turn):
            y = h * h + h + ops.exp(h)
            return y.sum() if turn else rest.layer(y, 1).sum()

        expected = ms.grad(scaled)(Tensor(run.npy(f"h.{turn}.debug.h"))).asnumpy()
        np.testing.assert_allclose(run.npy(f"h_grad.{turn}.debug.h"), expected, rtol=1e-6)


def test_data_and_parameters_have_gradients_where_they_are_asked_for(running):
    run = running("tensor")
    weight = Parameter(Tensor(np.full((2, 4), 3, np.float32)), name="weight")
    fixed = Parameter(Tensor(np.full((2, 4), 5, np.float32)), name="fixed", requires_grad=False)

    def loss(x):
        run.save([x, weight, fixed], "leaves")
        return (x * weight * fixed + x).sum()

    ms.value_and_grad(loss, 0, [weight])(Tensor(GRID))
    run.step()
    assert run.data()["leaves_grad.0.debug"][2] is None
    np.testing.assert_array_equal(run.npy("leaves_grad.0.debug.0"), np.full((2, 4), 16, np.float32))
    np.testing.assert_array_equal(run.npy("leaves_grad.0.debug.1"), GRID * 5)


def test_where_no_gradient_can_come_the_entry_says_null(running):
    run = running()
    run.save({"x": Tensor(GRID), "n": 1}, "outside")
    run.save(Tensor(GRID), "alone")
    run.save(Tensor(GRID), "unwanted", save_backward=False)
    run.step()
    assert list(run.data()) == [
        *("outside.0.debug", "outside_grad.0.debug", "alone.0.debug", "alone_grad.0.debug", "unwanted.0.debug")
    ]
    assert run.data()["outside_grad.0.debug"] == {"x": None, "n": None}
    assert run.data()["alone_grad.0.debug"] is None


@pytest.mark.skipif(not HAS_NODES, reason="MindSpore 2.7.0 does not tell when a backward has ended")
def test_gradients_that_do_not_come_are_null_when_the_backward_has_ended(running):
    run = running()

    def loss(x):
        used, unused = x * 2, x * 3
        run.save([used, unused], "pair")
        run.save(unused, "never")
        return used.sum()

    ms.grad(loss)(Tensor(GRID))
    run.save(1, "after", save_backward=False)
    run.step()
    ones = statistics(np.ones_like(GRID))
    assert run.data()["pair_grad.0.debug"] == [ones, None]
    assert run.data()["never_grad.0.debug"] is None
    assert list(run.data()) == [
        *("pair.0.debug", "never.0.debug", "pair_grad.0.debug", "after.0.debug", "never_grad.0.debug")
    ]


def test_several_backwards_in_one_step_have_numbers_and_a_late_one_changes_nothing(running):
    run = running("tensor")
    weight = Parameter(Tensor(np.ones((2, 4), np.float32)), name="weight")

    def loss(x):
        y = x * weight
        run.save({"y": y, "w": weight}, "var")
        return (y * y).sum()

    gradient = ms.value_and_grad(loss, None, [weight])
    gradient(Tensor(GRID))
    gradient(Tensor(GRID + 1))
    run.step()
    gradients = [name for name in run.data() if "_grad" in name]
    assert gradients == ["var_grad.0.debug", "var_grad.1.debug"]
    for number in (0, 1):
        np.testing.assert_array_equal(run.npy(f"var_grad.{number}.debug.y"), 2 * (GRID + number))
        np.testing.assert_array_equal(run.npy(f"var_grad.{number}.debug.w"), 2 * (GRID + number) ** 2)


def test_hooks_on_parameters_and_data_are_gone_with_their_backward_or_the_step(running):
    run = running()
    weight = Parameter(Tensor(np.ones((2, 4), np.float32)), name="weight")
    x = Tensor(GRID)

    def loss(x):
        run.save([x, weight], "leaves")
        return (x * weight).sum()

    def hooks():
        return [len(tensor.hooks()) for tensor in (x, weight)]

    gradient = ms.value_and_grad(loss, 0, [weight])
    for _ in range(2):
        gradient(x)
    assert hooks() == ([0, 0] if HAS_NODES else [2, 2])
    run.save(weight, "awaited")
    assert hooks() == ([0, 1] if HAS_NODES else [2, 3])
    run.step()
    assert hooks() == [0, 0]


def test_a_backward_behind_the_step_finds_nobody(running):
    run = running()

    def loss(x):
        y = x * 2
        run.save(y, "y")
        run.step()
        return (y * y).sum()

    np.testing.assert_array_equal(ms.grad(loss)(Tensor(GRID)).asnumpy(), GRID * 8)
    assert run.data()["y_grad.0.debug"] is None


@pytest.mark.pipeline
def test_saving_changes_no_bit_of_the_training(running):
    def train(save):
        net = Net(save)
        optimizer = nn.Adam(net.trainable_params(), learning_rate=0.01)
        gradient = ms.value_and_grad(net, None, net.trainable_params())
        bits = []
        for step in range(5):
            loss, grads = gradient(Tensor(np.sin(GRID + step)))
            optimizer(grads)
            bits += [t.asnumpy().tobytes() for t in (loss, *grads, net.weight)]
            if step != 2:
                run.step()
        return bits

    run = running("tensor")
    assert train(lambda variable, name: None) == train(run.save)
    assert list(run.root.iterdir())
