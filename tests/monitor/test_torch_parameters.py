"""TrainerMon and PyTorch: gradients, weights and moments against what an identical training had without a monitor."""

import numpy as np
import pytest
import torch
from by_numpy import holds, named
from kept_training import Net, Training, batch, copied, filled
from torch import nn

from msprobe.pytorch import TrainerMon

pytestmark = pytest.mark.torch

POINTS = {"wg_distribution": True, "mv_distribution": True, "param_distribution": True}
STEPS = 3


class StepsOnly:
    """An optimizer with nothing but `step` and `param_groups`, as frameworks around PyTorch have them."""

    def __init__(self, parameters):
        self.param_groups = [{"params": list(parameters), "lr": 0.1}]

    def step(self):
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter -= 0.1 * parameter.grad


def groups(parameters):
    first, *rest = parameters
    return torch.optim.Adam([{"params": rest[::-1], "lr": 0.01}, {"params": [first]}], lr=0.1)


OPTIMIZERS = {
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "AMSGrad": lambda parameters: torch.optim.Adam(parameters, lr=0.01, amsgrad=True, foreach=True),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "groups in another order": groups,
    "step alone": StepsOnly,
}


def monitored(training, path, **kwargs):
    monitor = TrainerMon(path)
    monitor.set_monitor(training.net, training.optimizer, **kwargs)
    return monitor


def everything_holds(rows, kept):
    """Every row is what the training had, and there is no other; returns how many there are."""
    expected = {
        (kind, name, step): array
        for step, kinds in enumerate(kept)
        for kind, arrays in kinds.items()
        for name, array in arrays.items()
    }
    kinds = {kind for kind, _, _ in expected}
    found = {(kind, row["name"], int(row["step"])): row for kind in kinds for row in rows.get(kind, ())}
    assert set(found) == set(expected)
    assert sum(len(rows.get(kind, ())) for kind in kinds) == len(found)
    assert all(holds(row, expected[key]) for key, row in found.items())
    return len(found)


@pytest.mark.parametrize(
    ("name", "clip"), [*((name, None) for name in OPTIMIZERS), ("AdamW", 0.1), ("step alone", 0.1)]
)
def test_every_point_of_an_update_has_the_numbers_of_a_training_without_monitor(name, clip, configured, written):
    """Clipping is in place: the unreduced gradient is that before, the reduced one that after it."""
    bare, training = (Training(OPTIMIZERS[name], clip=clip) for _ in range(2))
    monitored(training, configured(**POINTS))
    for step in range(STEPS):
        bare.step(step)
        training.step(step)
    has_moments = name not in ("SGD", "step alone")
    count = everything_holds(written(), bare.kept)
    assert count == 5 * (STEPS * 4 + (2 * (STEPS - 1) if has_moments else 0))  # before the first there are none


def test_micro_batches_have_each_their_own_gradient_and_the_update_their_sum(configured, written):
    training = Training(OPTIMIZERS["SGD"])
    monitored(training, configured(wg_distribution=True, monitor_mbs_grad=True), grad_acc_steps=3)
    own = {}
    for step in range(2):
        total = {}
        for micro in range(3):
            training.backward(10 * step + micro)
            now = training.gradients()
            own[step, micro] = {name: array - total.get(name, 0) for name, array in now.items()}
            total = now
        training.update()
    rows = written()
    assert len(rows["grad_unreduced"]) == 2 * 3 * 5
    for (step, micro), arrays in own.items():
        for name, array in arrays.items():
            assert holds(named(rows["grad_unreduced"], name, step, micro), array)
    for step, kept in enumerate(training.kept):
        assert "micro_step" not in rows["grad_reduced"][0]
        assert all(holds(named(rows["grad_reduced"], n, step), a) for n, a in kept["grad_reduced"].items())


@pytest.mark.parametrize("wanted", [True, False])
def test_main_grad_is_the_reduced_gradient_where_it_is_wanted(wanted, configured, written):
    training = Training(OPTIMIZERS["SGD"])
    monitor = TrainerMon(configured(wg_distribution=True), params_have_main_grad=wanted)
    monitor.set_monitor(training.net, training.optimizer)
    training.backward(0)
    parameters = dict(training.net.named_parameters())
    parameters["fc1.weight"].main_grad = torch.full((6, 4), 7.0)
    training.update()
    kept = training.kept[0]["grad_reduced"]
    if wanted:
        kept["fc1.weight"] = np.full((6, 4), 7.0)
    assert all(holds(named(written()["grad_reduced"], name, 0), array) for name, array in kept.items())


def test_float32_copies_that_the_optimizer_updates_count_as_the_models_parameters(configured, written):
    """Mixed precision as Megatron has it: `main_grad` at the model's parameters, `main_param` in the optimizer."""
    net = Net().bfloat16()
    copies = []
    for parameter in net.parameters():
        parameter.main_param = parameter.detach().clone().float()
        parameter.main_grad = torch.zeros_like(parameter.main_param)
        copies.append(parameter.main_param)
    optimizer = torch.optim.Adam(copies, lr=0.01)
    monitor = TrainerMon(configured(**POINTS))
    monitor.set_monitor(net, optimizer)
    kept = []
    for step in range(2):
        net(batch(step).bfloat16()).square().mean().backward()
        for parameter in net.parameters():
            parameter.main_grad.add_(parameter.grad.float())
            parameter.main_param.grad = parameter.main_grad
        named_copies = [(name, p.main_param) for name, p in net.named_parameters()]
        kept.append(
            {
                "grad_reduced": copied((name, p.main_grad) for name, p in net.named_parameters()),
                **{
                    kind: copied((n, optimizer.state[p][kind]) for n, p in named_copies if p in optimizer.state)
                    for kind in ("exp_avg", "exp_avg_sq")
                },
                "param_origin": copied(net.named_parameters()),
            }
        )
        optimizer.step()
    assert everything_holds(written(), kept) == 5 * (2 + 2 + 2)


def test_parameters_without_a_gradient_have_no_gradient_rows(configured, written):
    """One is frozen, one is used by nobody."""
    training = Training(OPTIMIZERS["Adam"])
    training.net.fc1.bias.requires_grad_(False)
    training.net.register_parameter("unused", nn.Parameter(torch.ones(2)))
    training.optimizer.add_param_group({"params": [training.net.unused]})
    monitored(training, configured(**POINTS))
    for step in range(2):
        training.step(step)
    rows = written()
    used = {"fc1.weight", "norm.weight", "norm.bias", "fc2.weight"}
    for kind in ("grad_unreduced", "grad_reduced", "exp_avg", "exp_avg_sq"):
        assert {row["name"] for row in rows[kind]} == used
    for kind in ("param_origin", "param_updated"):
        assert {row["name"] for row in rows[kind]} == {*used, "unused"}
    assert "lost" not in rows


def test_a_parameter_of_another_optimizer_has_its_weights_and_its_own_gradient(configured, written):
    training = Training(lambda parameters: torch.optim.SGD(list(parameters)[:2], lr=0.1))
    monitored(training, configured(**POINTS))
    training.step(0)
    rows = written()
    assert {row["name"] for row in rows["grad_reduced"]} == {"fc1.weight", "fc1.bias"}
    assert len(rows["grad_unreduced"]) == len(rows["param_origin"]) == len(rows["param_updated"]) == 5
    assert named(rows["param_origin"], "fc2.weight", 0)["norm"] == named(rows["param_updated"], "fc2.weight", 0)["norm"]


class Tied(nn.Module):
    """One weight used by two modules."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        filled(self)

    def forward(self, x):
        return self.second(self.first(x))


@pytest.mark.parametrize("each", [True, False])
def test_a_tied_parameter_has_one_row_with_the_whole_gradient(each, configured, written):
    training = Training(OPTIMIZERS["Adam"], Tied())
    monitored(training, configured(**POINTS, monitor_mbs_grad=each))
    training.step(0)
    weight, x = training.kept[0]["param_origin"]["first.weight"].astype(np.float64), batch(0).numpy()
    hidden = x @ weight.T
    at_output = 2 * (hidden @ weight.T) / hidden.size
    gradient = at_output.T @ hidden + (at_output @ weight).T @ x
    rows = written()
    for kind in ("grad_unreduced", "grad_reduced"):
        (row,) = rows[kind]
        assert row["name"] == "first.weight"
        assert float(row["norm"]) == pytest.approx(np.linalg.norm(gradient), rel=1e-5)


def test_two_models_with_an_optimizer_each_have_a_monitor_each(configured, written, tmp_path):
    path = configured(**POINTS)
    trainings = [Training(OPTIMIZERS["Adam"], Net(seed)) for seed in range(2)]
    for training in trainings:
        monitored(training, path)
    for step in range(2):
        for number, training in enumerate(trainings):
            training.step(10 * number + step)
    folders = list((tmp_path / "out").iterdir())
    assert len(folders) == 2
    first_norms = [named(written(folder)["param_origin"], "fc1.weight", 0)["norm"] for folder in folders]
    expected = [float(np.linalg.norm(each.kept[0]["param_origin"]["fc1.weight"])) for each in trainings]
    assert sorted(map(float, first_norms)) == pytest.approx(sorted(expected), rel=1e-5)
    for folder in folders:
        index = (
            0
            if float(named(written(folder)["param_origin"], "fc1.weight", 0)["norm"])
            == pytest.approx(expected[0], rel=1e-5)
            else 1
        )
        everything_holds(written(folder), trainings[index].kept)


def test_two_monitors_of_one_training_write_the_same(configured, written, tmp_path):
    training, path = Training(OPTIMIZERS["Adam"]), configured(**POINTS, xy_distribution=True)
    first, second = monitored(training, path), monitored(training, path)
    training.step(0)
    first.stop()
    training.step(1)
    second.stop()
    training.step(2)
    small, large = sorted(
        (written(f) for f in (tmp_path / "out").iterdir()), key=lambda rows: len(rows["grad_reduced"])
    )
    assert {row["step"] for row in large["param_updated"]} == {"0", "1"}
    assert small == {kind: [r for r in rows if r["step"] == "0"] for kind, rows in large.items() if kind in small}


def test_not_a_number_and_infinities_are_counted_and_shown(configured, written):
    training = Training(OPTIMIZERS["SGD"], loss=lambda y: (y * torch.tensor([1.0, torch.nan, 0.0])).sum())
    monitored(training, configured(wg_distribution=True))
    training.step(0)
    row = named(written()["grad_reduced"], "fc2.weight", 0)
    array = training.kept[0]["grad_reduced"]["fc2.weight"]
    assert float(row["nans"]) == np.isnan(array).sum() == 6
    assert float(row["zeros"]) == pytest.approx((np.abs(array) < 1e-8).mean(), abs=1e-6)
    assert [row[name] for name in ("norm", "min", "max", "mean")] == ["nan"] * 4


def test_a_sparse_gradient_neither_stops_the_training_nor_others(configured, written):
    net = nn.Sequential(nn.Embedding(5, 3, sparse=True), nn.Linear(3, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor = TrainerMon(configured(wg_distribution=True))
    monitor.set_monitor(net, optimizer)
    net(torch.tensor([1, 1, 2])).square().mean().backward()
    dense = net[0].weight.grad.to_dense().numpy().copy()
    optimizer.step()
    rows = written()
    for kind in ("grad_unreduced", "grad_reduced"):
        assert len(rows[kind]) == 3, rows.get("lost")
        assert holds(named(rows[kind], "0.weight", 0), dense)


def test_an_update_with_a_closure_is_one_step(configured, written):
    training = Training(OPTIMIZERS["SGD"])
    monitored(training, configured(wg_distribution=True, param_distribution=True))
    found = []

    def closure():
        training.optimizer.zero_grad()
        training.backward(0)
        found.append(training.gradients())
        return torch.tensor(1.0)

    before = copied(training.net.named_parameters())
    training.optimizer.step(closure)
    rows = written()
    assert all(holds(named(rows["grad_unreduced"], name, 0), array) for name, array in found[0].items())
    assert all(holds(named(rows["param_origin"], name, 0), array) for name, array in before.items())


def test_the_norm_of_ones_own_gradients_is_that_before_clipping(configured, written):
    training = Training(OPTIMIZERS["SGD"], clip=0.01)
    monitor = monitored(training, configured(local=True))
    for number, value in enumerate((2, np.float32(0.5), torch.tensor([1.0, 2.0]), np.array([3.0]))):
        monitor.loss(value)
        assert number < 4
    training.step(0)
    rows = written()
    assert set(rows) == {"local"}
    losses = [float(row["value"]) for row in rows["local"] if row["name"] == "loss"]
    assert losses == [2.0, 0.5, 1.5, 3.0]
    norm = np.sqrt(sum((a.astype(np.float64) ** 2).sum() for a in training.kept[0]["grad_unreduced"].values()))
    assert float(named(rows["local"], "grad_norm", 0)["value"]) == pytest.approx(norm, rel=1e-5)
