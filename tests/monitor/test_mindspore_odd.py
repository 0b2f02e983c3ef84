"""TrainerMon and MindSpore: optimizers, parameters and cells that are not the usual ones."""

import json

import mindspore as ms
import numpy as np
import pytest
from by_numpy import holds, named
from mindspore import Parameter, Tensor, mint, nn, ops

from msprobe.mindspore import PrecisionDebugger, TrainerMon

pytestmark = pytest.mark.mindspore

POINTS = {"wg_distribution": True, "mv_distribution": True, "param_distribution": True}
X = np.array([[1, -2, 3]], np.float32)


@pytest.fixture(autouse=True)
def _pynative():
    ms.set_context(mode=ms.PYNATIVE_MODE)


def array(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Tied(nn.Cell):
    """One weight used by two cells, one parameter frozen, one used by nobody."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Dense(4, 4, has_bias=False) for _ in range(2))
        self.first.weight.set_data(Tensor(array((4, 4), 0)))
        self.second.weight = self.first.weight
        self.frozen = Parameter(Tensor(array((4,), 1)), "frozen", requires_grad=False)
        self.unused = Parameter(Tensor(array((3,), 2)), "unused")
        self.set_train()

    def construct(self, x):
        return self.second(self.first(x)) * self.frozen


def tied_gradient(net, x):
    """Of the mean of squares, worked out by numpy."""
    weight, frozen = (p.asnumpy().astype(np.float64) for p in (net.first.weight, net.frozen))
    hidden = x @ weight.T
    out = hidden @ weight.T * frozen
    at_second = 2 * out / out.size * frozen
    return at_second.T @ hidden + (at_second @ weight).T @ x


OPTIMIZERS = {
    "nn.LazyAdam": (lambda p: nn.LazyAdam(p, 1e-2), ("moment1", "moment2")),
    "mint.Adam": (lambda p: mint.optim.Adam(p, lr=1e-2), ("exp_avg", "exp_avg_sq")),
    "nn.Momentum": (lambda p: nn.Momentum(p, 1e-2, 0.9), None),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_tied_frozen_and_unused_parameters_with_other_optimizers(name, configured, written):
    make, places = OPTIMIZERS[name]
    net = Tied()
    optimizer = make(net.trainable_params())
    TrainerMon(configured(**POINTS)).set_monitor(net, optimizer)
    gradient = ms.value_and_grad(lambda x: net(x).square().mean(), None, optimizer.parameters)
    expected = []
    for step in range(2):
        x = array((5, 4), 10 + step)
        moments = {}
        if places:
            of = [p.name for p in optimizer.parameters].index("first.weight")
            moments = {
                kind: getattr(optimizer, place)[of].asnumpy().copy()
                for kind, place in zip(("exp_avg", "exp_avg_sq"), places, strict=True)
            }
        by_hand = tied_gradient(net, x)
        kept = {"grad_unreduced": by_hand, "grad_reduced": by_hand, **moments}
        kept["param_origin"] = net.first.weight.asnumpy().copy()
        optimizer(gradient(Tensor(x))[1])
        expected.append({**kept, "param_updated": net.first.weight.asnumpy().copy()})
    rows = written()
    assert "lost" not in rows
    assert ("exp_avg" in rows) == bool(places)
    for step, kept in enumerate(expected):
        for kind, found in kept.items():
            row = named(rows[kind], "first.weight", step)
            for statistic, value in (("norm", np.linalg.norm(found)), ("max", found.max()), ("mean", found.mean())):
                assert float(row[statistic]) == pytest.approx(value, rel=1e-4, abs=1e-6), (kind, step, statistic)
    assert {row["name"] for row in rows["param_origin"]} == {"first.weight", "unused"}


class Lamb(nn.Lamb):
    """Without its update, which has no kernel on a CPU; what it keeps is its own."""

    def construct(self, gradients):
        return True


class AdamW(mint.optim.AdamW):
    """As above."""

    def construct(self, gradients):
        return True


@pytest.mark.parametrize(
    ("make", "places"),
    [
        (lambda p: Lamb(p, 1e-2), ("moments1", "moments2")),
        (lambda p: AdamW(p, lr=1e-2), ("exp_avg", "exp_avg_sq")),
    ],
)
def test_moments_are_found_where_the_optimizer_keeps_them(make, places, configured, written):
    net = Tied()
    optimizer = make(net.trainable_params()[::-1])
    names = [parameter.name for parameter in optimizer.parameters]
    kept = {}
    for seed, (kind, place) in enumerate(zip(("exp_avg", "exp_avg_sq"), places, strict=True)):
        for number, (name, moment) in enumerate(zip(names, getattr(optimizer, place), strict=True)):
            kept[kind, name] = array(moment.shape, 10 * seed + number)
            moment.set_data(Tensor(kept[kind, name]))
    TrainerMon(configured(**POINTS)).set_monitor(net, optimizer)
    optimizer(tuple(Tensor(np.ones(parameter.shape, np.float32)) for parameter in optimizer.parameters))
    rows = written()
    assert len(rows["exp_avg"]) == len(rows["exp_avg_sq"]) == 2
    assert all(holds(named(rows[kind], name, 0), value) for (kind, name), value in kept.items())


def test_the_optimizer_may_be_called_by_keyword_or_without_some_gradients(configured, written):
    class Dense(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc = nn.Dense(3, 2, weight_init="ones")
            self.set_train()

        def construct(self, x):
            return self.fc(x)

    class Partial(nn.Optimizer):
        """Updates what has a gradient."""

        def construct(self, gradients):
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                if gradient is not None:
                    ops.assign_sub(parameter, gradient * 0.1)
            return True

    net = Dense()
    optimizer = Partial(0.1, net.trainable_params())
    TrainerMon(configured(**POINTS)).set_monitor(net, optimizer)
    gradients = ms.grad(lambda x: net(x).sum(), None, optimizer.parameters)(Tensor(X))
    optimizer(gradients=gradients)
    optimizer([gradients[0], None])
    rows = written()
    assert "lost" not in rows
    assert [(row["name"], row["step"]) for row in rows["grad_reduced"]] == [
        ("fc.weight", "0"),
        ("fc.bias", "0"),
        ("fc.weight", "1"),
    ]
    assert holds(named(rows["grad_reduced"], "fc.weight", 1), np.repeat(X, 2, 0))


def test_gradients_that_do_not_fit_the_optimizer_are_said_and_the_rest_is_measured(configured, written, logged):
    class Forgiving(nn.Optimizer):
        def construct(self, gradients):
            return True

    net = Tied()
    optimizer = Forgiving(0.1, net.trainable_params())
    TrainerMon(configured(**POINTS)).set_monitor(net, optimizer)
    optimizer((Tensor(X),))
    rows = written()
    assert "grad_reduced" not in rows
    assert len(rows["param_origin"]) == len(rows["param_updated"]) == 2
    assert [row["step"] for row in rows["lost"]] == ["0"]
    assert any("cannot be assigned to the parameters" in line for line in logged())


class Weighted(nn.Cell):
    def __init__(self, **cells):
        super().__init__()
        self.weight = Parameter(Tensor(np.ones(3, np.float32)), "weight")
        for name, cell in cells.items():
            setattr(self, name, cell)
        self.set_train()

    def construct(self, x):
        return self.run(x * self.weight)


class Times(nn.Cell):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def construct(self, x):
        return x * self.factor


def watched(net, path, x=X):
    optimizer = nn.SGD(net.trainable_params(), 0.0)
    TrainerMon(path).set_monitor(net, optimizer)
    optimizer(ms.grad(lambda x: net(x).sum(), None, optimizer.parameters)(Tensor(x)))


def all_hold(rows, kind, expected):
    assert sorted(row["name"] for row in rows[kind]) == sorted(expected)
    return all(holds(row, expected[row["name"]]) for row in rows[kind])


def test_a_cell_that_is_called_twice_has_the_numbers_of_its_last_call(configured, written):
    class Twice(Weighted):
        def run(self, x):
            return self.times(self.times(x) * 7)

    watched(Twice(times=Times(2)), configured(xy_distribution=True))
    rows = written()
    assert all_hold(rows, "actv", {"times.input": 14 * X, "times.output": 28 * X})
    assert all_hold(rows, "actv_grad", {"times.output": np.ones((1, 3)), "times.input": np.full((1, 3), 2)})


def test_results_that_nobody_uses_hold_nothing_back(configured, written):
    class Two(nn.Cell):
        def construct(self, x):
            return x * 2, x * 3

    class Outer(Weighted):
        def run(self, x):
            return self.two(x)[0]

    watched(Outer(two=Two()), configured(xy_distribution=True))
    ones = np.ones((1, 3))
    rows = [row for row in written()["actv_grad"] if float(row["norm"])]  # of the other one there may be zeros
    assert all_hold({"actv_grad": rows}, "actv_grad", {"two.output_0": ones, "two.input": 2 * ones})


def test_recomputed_cells_have_one_set_of_rows_with_their_own_numbers(configured, written):
    class Inner(nn.Cell):
        def __init__(self):
            super().__init__()
            self.a, self.b = Times(2), Times(5)

        def construct(self, x):
            return self.b(self.a(x))

    class Outer(Weighted):
        def run(self, x):
            return self.inner(x) * 3

    net = Outer(inner=Inner())
    net.inner.recompute()
    watched(net, configured(xy_distribution=True))
    rows = written()
    assert "lost" not in rows
    expected = {"inner.input": X, "inner.a.input": X, "inner.a.output": 2 * X}
    expected |= {"inner.b.input": 2 * X, "inner.b.output": 10 * X, "inner.output": 10 * X}
    assert all_hold(rows, "actv", expected)
    threes = np.full((1, 3), 3.0)
    inside = {"inner.b.output": threes, "inner.b.input": 5 * threes, "inner.a.output": 5 * threes}
    for row in rows["actv_grad"]:
        expected = {**inside, "inner.a.input": 10 * threes, "inner.output": threes, "inner.input": 10 * threes}
        assert holds(row, expected[row["name"]])
    assert {row["name"] for row in rows["actv_grad"]} >= set(inside)


@pytest.mark.parametrize("dtype", [ms.bfloat16, ms.float16, ms.float64])
def test_other_float_types_are_measured_exactly(dtype, configured, written):
    class Scale(nn.Cell):
        def __init__(self):
            super().__init__()
            self.weight, self.times = Parameter(Tensor(np.ones(3), dtype), "weight"), Times(2)
            self.set_train()

        def construct(self, x):
            return self.times(x * self.weight)

    net = Scale()

    class Nothing(nn.Optimizer):
        def construct(self, gradients):
            return True

    optimizer = Nothing(0.1, net.trainable_params())
    monitor = TrainerMon(configured(**POINTS, xy_distribution=True))
    monitor.set_monitor(net, optimizer)
    monitor.loss(Tensor(1.5, dtype))
    optimizer(ms.grad(net, None, optimizer.parameters)(Tensor(X, dtype)))  # of the sum
    rows = written()
    assert "lost" not in rows
    for kind, name, expected in (
        ("actv", "times.input", X),
        ("actv", "times.output", 2 * X),
        ("grad_unreduced", "weight", 2 * X[0]),
        ("grad_reduced", "weight", 2 * X[0]),
        ("param_origin", "weight", np.ones(3)),
    ):
        row = named(rows[kind], name, 0)
        assert row["dtype"].lower() == str(dtype).lower()
        assert holds(row, expected)
    assert float(rows["local"][0]["value"]) == 1.5


def test_a_forward_that_fails_leaves_nothing_behind(configured, written):
    class Fails(nn.Cell):
        fails = True

        def construct(self, x):
            if self.fails:
                raise ValueError("the training's own")
            return x * 2

    class Outer(Weighted):
        def run(self, x):
            return self.inner(self.before(x))

    net = Outer(before=Times(1), inner=Fails())
    optimizer = nn.SGD(net.trainable_params(), 0.0)
    TrainerMon(configured(xy_distribution=True)).set_monitor(net, optimizer)
    with pytest.raises(ValueError, match="the training's own"):
        net(Tensor(X))
    net.inner.fails = False
    for number in range(2):
        optimizer(ms.grad(lambda x: net(x).sum(), None, optimizer.parameters)(Tensor(X * (number + 1))))
    rows = written()
    assert "lost" not in rows
    last = [row for row in rows["actv"] if row["step"] == "1"]
    assert [row["name"] for row in last] == ["before.input", "before.output", "inner.input", "inner.output"]
    assert holds(last[-1], 4 * X)


@pytest.mark.pipeline
def test_a_debugger_that_collects_at_the_same_time_sees_nothing_of_the_monitor(configured, tmp_path):
    def run(name, monitors):
        net = Tied()
        optimizer = nn.Adam(net.trainable_params(), 1e-2)
        gradient = ms.value_and_grad(lambda x: net(x).square().mean(), None, optimizer.parameters)
        monitor = None
        if monitors:
            monitor = TrainerMon(configured(**POINTS, xy_distribution=True, stack_info=True))
            monitor.set_monitor(net, optimizer)
        debugger = PrecisionDebugger(dump_path=str(tmp_path / name), level="L1", task="statistics")
        losses = []
        for step in range(2):
            debugger.start(net)
            loss, gradients = gradient(Tensor(array((5, 4), 10 + step)))
            if monitor is not None:
                monitor.loss(loss)
            optimizer(gradients)
            debugger.stop()
            debugger.step()
            losses.append(loss.asnumpy().tobytes())
        if monitor is not None:
            monitor.stop()
        dumps = sorted((tmp_path / name).rglob("dump.json"))
        PrecisionDebugger._known.clear()
        PrecisionDebugger._latest = None
        weights = [p.asnumpy().tobytes() for p in (*net.get_parameters(), *optimizer.get_parameters())]
        return losses, weights, [json.loads(path.read_text())["data"] for path in dumps]

    alone, beside = run("alone", False), run("beside", True)
    assert alone[:2] == beside[:2]
    assert len(alone[2]) == 2
    for bare, monitored in zip(alone[2], beside[2], strict=True):
        assert list(bare) == list(monitored)
        assert bare == monitored
