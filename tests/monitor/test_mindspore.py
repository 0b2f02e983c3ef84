"""TrainerMon and MindSpore: every kind of rows against numpy, from what the training itself computed."""

import mindspore as ms
import numpy as np
import pytest
from by_numpy import holds, named
from mindspore import Tensor, mint, nn, ops
from mindspore.experimental import optim

from msprobe.base.errors import UsageError
from msprobe.mindspore import TrainerMon

pytestmark = pytest.mark.mindspore

EVERYTHING = {
    **{"xy_distribution": True, "wg_distribution": True, "mv_distribution": True, "param_distribution": True},
}


@pytest.fixture(autouse=True)
def _pynative():
    ms.set_context(mode=ms.PYNATIVE_MODE)


class Net(nn.Cell):
    def __init__(self, seed=0):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.fc1, self.norm, self.fc2 = nn.Dense(4, 6), nn.LayerNorm((6,)), nn.Dense(6, 3)
        for parameter in self.get_parameters():
            parameter.set_data(Tensor(rng.standard_normal(parameter.shape).astype(np.float32)))
        self.set_train()

    def construct(self, x):
        return self.fc2(ops.relu(self.norm(self.fc1(x))))


def batch(step):
    rng = np.random.default_rng(100 + step)
    return Tensor(rng.standard_normal((5, 4)).astype(np.float32))


class Training:
    """Trains and keeps, as numpy, what a step had at each point."""

    def __init__(self, optimizer, clip=None, net=None):
        self.net = net or Net()
        self.optimizer = optimizer(self.net.trainable_params())
        self.clip = clip
        self.kept = []
        self.gradient = ms.value_and_grad(lambda x: self.net(x).square().mean(), None, self.optimizer.parameters)

    def step(self, number, keeps=True):
        loss, gradients = self.gradient(batch(number))
        own = [g.asnumpy().copy() for g in gradients]
        if self.clip:
            gradients = ops.clip_by_global_norm(gradients, self.clip)
        names = [p.name for p in self.optimizer.parameters]
        before = {p.name: p.asnumpy().copy() for p in self.net.trainable_params()}
        moments = {
            kind: {name: m.asnumpy().copy() for name, m in zip(names, getattr(self.optimizer, place), strict=True)}
            for kind, place in self.moments().items()
        }
        self.optimizer(gradients)
        after = {p.name: p.asnumpy().copy() for p in self.net.trainable_params()}
        reduced = {name: g.asnumpy().copy() for name, g in zip(names, gradients, strict=True)}
        self.kept.append(
            {
                **{"grad_unreduced": dict(zip(names, own, strict=True)), "grad_reduced": reduced},
                **{"param_origin": before, "param_updated": after, **moments},
            }
        )
        return float(loss.asnumpy())

    def moments(self):
        for first, second in (("exp_avg", "exp_avg_sq"), ("moment1", "moment2"), ("moments1", "moments2")):
            if hasattr(self.optimizer, first):
                return {"exp_avg": first, "exp_avg_sq": second}
        return {}


OPTIMIZERS = {
    "nn.Adam": lambda params: nn.Adam(params, 1e-2),
    "nn.AdamWeightDecay": lambda params: nn.AdamWeightDecay(params, 1e-2),
    "nn.Momentum": lambda params: nn.Momentum(params, 1e-2, 0.9),
    "nn.SGD": lambda params: nn.SGD(params, 1e-2),
    "experimental.Adam": lambda params: optim.Adam(params, 1e-2),
    "experimental.AdamW": lambda params: optim.AdamW(params, 1e-2),
    "mint.Adam": lambda params: mint.optim.Adam(params, lr=1e-2),
    "groups": lambda params: nn.Adam([{"params": params[3:], "lr": 1e-3}, {"params": params[:3]}], 1e-2),
}


@pytest.mark.parametrize(
    ("name", "clip"), [*((name, None) for name in OPTIMIZERS), ("nn.Adam", 0.5), ("experimental.AdamW", 0.5)]
)
def test_every_point_of_an_update_has_the_numbers_of_the_training(name, clip, configured, written):
    training = Training(OPTIMIZERS[name], clip)
    monitor = TrainerMon(configured(**EVERYTHING))
    monitor.set_monitor(training.net, training.optimizer)
    for step in range(3):
        training.step(step)
    monitor.stop()
    rows = written()
    count = 0
    for step, kept in enumerate(training.kept):
        for kind, arrays in kept.items():
            for parameter, array in arrays.items():
                assert holds(named(rows[kind], parameter, step), array)
                count += 1
    assert count == 3 * 6 * (4 + len(training.moments()))
    assert ("exp_avg" in rows) == bool(training.moments())
    if clip:
        key = "fc1.weight"
        unclipped, clipped = (float(named(rows[f"grad_{kind}"], key, 0)["norm"]) for kind in ("unreduced", "reduced"))
        assert unclipped > 1.5 * clipped


@pytest.mark.pipeline
def test_the_same_training_has_the_same_bits_with_and_without(configured, written):
    def run(monitored):
        training = Training(OPTIMIZERS["nn.Adam"])
        if monitored:
            monitor = TrainerMon(configured(**EVERYTHING, stack_info=True, monitor_mbs_grad=True))
            monitor.set_monitor(training.net, training.optimizer)
        losses = [training.step(step) for step in range(5)]
        last = training.kept[-1]
        return losses, {(kind, name): a.tobytes() for kind in last for name, a in last[kind].items()}

    assert run(True) == run(False)
    assert len(written()["grad_reduced"]) == 5 * 6


def test_activations_and_their_gradients_by_hand(configured, written):
    class Twice(nn.Cell):
        """y = 2 x + x: of its own input's gradient the cell contributes 2 g, whatever else uses the input."""

        def construct(self, x):
            return x * 2

    class Sum(nn.Cell):
        def __init__(self):
            super().__init__()
            self.twice, self.weight = Twice(), ms.Parameter(Tensor(np.ones(3, np.float32)), "weight")
            self.set_train()

        def construct(self, x):
            scaled = x * self.weight
            return self.twice(scaled) + scaled

    net = Sum()
    optimizer = nn.SGD(net.trainable_params(), 0.0)
    monitor = TrainerMon(configured(xy_distribution=True))
    monitor.set_monitor(net, optimizer)
    x = np.array([[1, -2, 3]], np.float32)
    gradients = ms.grad(lambda x: net(x).sum(), None, optimizer.parameters)(Tensor(x))
    optimizer(gradients)
    rows = written()
    assert [row["name"] for row in rows["actv"]] == ["twice.input", "twice.output"]
    assert holds(rows["actv"][0], x)
    assert holds(rows["actv"][1], 2 * x)
    assert [row["name"] for row in rows["actv_grad"]] == ["twice.output", "twice.input"]
    assert holds(rows["actv_grad"][0], np.ones((1, 3)))
    assert holds(rows["actv_grad"][1], np.full((1, 3), 2))


def test_several_tensors_nested_results_and_keywords_are_numbered(configured, written):
    class Pair(nn.Cell):
        def construct(self, pair, *, scale):
            return {"sum": pair[0] + pair[1], "parts": [pair[0] * scale, 7]}

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.pair, self.weight = Pair(), ms.Parameter(Tensor(np.ones(2, np.float32)), "weight")
            self.set_train()

        def construct(self, x):
            found = self.pair((x * self.weight, x), scale=Tensor(3.0))
            return found["sum"] + found["parts"][0]

    net = Net()
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    monitor = TrainerMon(configured(xy_distribution=True, forward_only=True))
    monitor.set_monitor(net, optimizer)
    x = np.array([1, 2], np.float32)
    optimizer(ms.grad(lambda x: net(x).sum(), None, optimizer.parameters)(Tensor(x)))
    rows = written()
    names = [f"pair.input_{i}" for i in range(3)] + [f"pair.output_{i}" for i in range(2)]
    assert [row["name"] for row in rows["actv"]] == names
    for row, array in zip(rows["actv"], (x, x, np.float32(3), 2 * x, 3 * x), strict=True):
        assert holds(row, array)
    assert "actv_grad" not in rows


def test_micro_steps_are_those_of_the_model(configured, written):
    training = Training(OPTIMIZERS["nn.Adam"])
    monitor = TrainerMon(configured(xy_distribution=True, wg_distribution=True, monitor_mbs_grad=True))
    monitor.set_monitor(training.net, training.optimizer, grad_acc_steps=2)
    for step in range(2):
        parts = [training.gradient(batch(10 * step + micro))[1] for micro in range(2)]
        own = [[g.asnumpy().copy() for g in part] for part in parts]
        total = tuple(a + b for a, b in zip(*parts, strict=True))
        training.optimizer(total)
        rows = written()
        for micro in range(2):
            for parameter, array in zip(training.optimizer.parameters, own[micro], strict=True):
                assert holds(named(rows["grad_unreduced"], parameter.name, step, micro), array)
            assert holds(named(rows["actv"], "fc1.input", step, micro), batch(10 * step + micro).asnumpy())
        for parameter, array in zip(training.optimizer.parameters, total, strict=True):
            assert holds(named(rows["grad_reduced"], parameter.name, step), array.asnumpy())


def test_what_a_step_did_not_refresh_is_not_written_again(configured, written):
    training = Training(OPTIMIZERS["nn.Adam"])
    monitor = TrainerMon(configured(xy_distribution=True, wg_distribution=True))
    monitor.set_monitor(training.net, training.optimizer)
    gradients = training.gradient(batch(0))[1]
    training.optimizer(gradients)
    training.optimizer(gradients)  # without a forward and backward of its own
    rows = written()
    assert {row["step"] for row in rows["grad_reduced"]} == {"0", "1"}
    assert {row["step"] for kind in ("actv", "actv_grad", "grad_unreduced") for row in rows[kind]} == {"0"}


def test_modules_outside_of_training_mode_are_not_measured(configured, written):
    training = Training(OPTIMIZERS["nn.Adam"])
    monitor = TrainerMon(configured(xy_distribution=True))
    monitor.set_monitor(training.net, training.optimizer)
    training.step(0)
    training.net.set_train(False)
    training.net(batch(7))
    training.net.set_train()
    training.step(1)
    assert {row["micro_step"] for row in written()["actv"]} == {"0"}
    assert holds(named(written()["actv"], "fc1.input", 1, 0), batch(1).asnumpy())


def test_the_loss_and_the_norm_of_ones_own_gradients(configured, written):
    training = Training(OPTIMIZERS["nn.Adam"], clip=0.1)
    monitor = TrainerMon(configured(local=True))
    monitor.set_monitor(training.net, training.optimizer)
    monitor.loss(2.5)
    monitor.loss(Tensor([1.0, 2.0]))
    training.step(0)
    rows = written()
    assert set(rows) == {"local"}
    assert [(r["name"], r["micro_step"], float(r["value"])) for r in rows["local"][:2]] == [
        ("loss", "0", 2.5),
        ("loss", "1", 1.5),
    ]
    total = np.sqrt(sum((a.astype(np.float64) ** 2).sum() for a in training.kept[0]["grad_unreduced"].values()))
    assert float(named(rows["local"], "grad_norm", 0)["value"]) == pytest.approx(total, rel=1e-6)


def test_low_precision_and_recomputed_cells(configured, written):
    class Half(nn.Cell):
        def __init__(self):
            super().__init__()
            self.fc = nn.Dense(4, 4).to_float(ms.float16)
            self.block = nn.SequentialCell(nn.Dense(4, 4), nn.ReLU())
            self.block.recompute()
            self.set_train()

        def construct(self, x):
            return self.block(self.fc(x).astype(ms.float32))

    net = Half()
    optimizer = nn.Adam(net.trainable_params(), 1e-2)
    monitor = TrainerMon(configured(xy_distribution=True, wg_distribution=True))
    monitor.set_monitor(net, optimizer)
    for step in range(2):
        optimizer(ms.grad(lambda x: net(x).square().mean(), None, optimizer.parameters)(batch(step)))
    rows = written()
    assert named(rows["actv"], "fc.output", 1, 0)["dtype"] == "Float16"
    assert "lost" not in rows
    assert named(rows["actv"], "block.0.output", 1, 0)["micro_step"] == "0"
    assert len(rows["grad_reduced"]) == 2 * 4


def test_graphs_and_what_is_no_optimizer_are_refused(configured):
    training = Training(OPTIMIZERS["nn.Adam"])
    monitor = TrainerMon(configured(wg_distribution=True))
    with pytest.raises(UsageError, match="pass a mindspore"):
        monitor.set_monitor(object(), training.optimizer)
    with pytest.raises(UsageError, match="pass the optimizer that is called"):
        monitor.set_monitor(training.net, object())
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(UsageError, match="PYNATIVE_MODE"):
        monitor.set_monitor(training.net, training.optimizer)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    monitor.set_monitor(training.net, training.optimizer)
    with pytest.raises(UsageError, match="another TrainerMon"):
        monitor.set_monitor(training.net, training.optimizer)


def test_gradients_that_cannot_be_told_apart_are_said_and_the_training_goes_on(configured, written, logged):
    class Odd(nn.Cell):
        def __init__(self, parameters):
            super().__init__()
            self.parameters = ms.ParameterTuple(parameters)

        def construct(self, gradients):
            for parameter, gradient in zip(self.parameters, gradients[1:], strict=True):
                ops.assign_sub(parameter, gradient * 0.1)

    net = Net()
    optimizer = Odd(net.trainable_params())
    monitor = TrainerMon(configured(wg_distribution=True))
    monitor.set_monitor(net, optimizer)
    for step in range(2):
        gradients = ms.grad(lambda x: net(x).square().mean(), None, optimizer.parameters)(batch(step))
        optimizer((Tensor(0.0), *gradients))
    rows = written()
    assert len(rows["lost"]) == 1
    assert rows["lost"][0]["step"] == "0"
    assert sum("could not be measured" in line for line in logged()) == 1
    assert {row["step"] for row in rows["grad_unreduced"]} == {"0", "1"}
