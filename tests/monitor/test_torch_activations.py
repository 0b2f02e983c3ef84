"""TrainerMon and PyTorch: activations and their gradients, worked out by hand, of modules of every kind."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from by_numpy import holds, named
from kept_training import Net, batch, filled
from torch import nn
from torch.utils.checkpoint import checkpoint

from msprobe.pytorch import TrainerMon

pytestmark = pytest.mark.torch

X = np.array([[1, -2, 3]], np.float32)


class Weighted(nn.Module):
    """The input times a weight of ones, so that a gradient flows."""

    def __init__(self, **modules):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x):
        return self.run(x * self.weight)


class Times(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


@pytest.fixture
def watched(configured, written):
    """Watches one step of a model: `watched(net, work, **settings)`; gives the rows."""

    def watch(net, work=None, **settings):
        optimizer = torch.optim.SGD((net if isinstance(net, nn.Module) else net[0]).parameters(), lr=0.0)
        monitor = TrainerMon(configured(**{"xy_distribution": True, **settings}))
        monitor.set_monitor(net, optimizer)
        (work or (lambda: net(torch.from_numpy(X)).sum().backward()))()
        optimizer.step()
        monitor.stop()
        return written()

    return watch


def names(rows, kind="actv"):
    return [row["name"] for row in rows.get(kind, ())]


def all_hold(rows, kind, expected):
    assert {row["name"] for row in rows[kind]} == set(expected)
    for row in rows[kind]:
        assert holds(row, expected[row["name"]]), row
    return True


def test_a_module_contributes_its_own_part_to_the_gradient_of_its_input(watched):
    class Residual(Weighted):
        def run(self, x):
            return self.twice(x) + x * 5

    rows = watched(Residual(twice=Times(2)))
    assert all_hold(rows, "actv", {"twice.input": X, "twice.output": 2 * X})
    assert all_hold(rows, "actv_grad", {"twice.output": np.ones((1, 3)), "twice.input": np.full((1, 3), 2)})


def test_an_input_used_twice_inside_is_the_sum_of_both_uses(watched):
    class Both(nn.Module):
        def forward(self, x):
            return x * x + 3 * x

    class Outer(Weighted):
        def run(self, x):
            return self.both(x)

    rows = watched(Outer(both=Both()))
    assert all_hold(rows, "actv_grad", {"both.output": np.ones((1, 3)), "both.input": 2 * X + 3})


class Pair(NamedTuple):
    left: object
    right: object


class Nested(nn.Module):
    def forward(self, pair, index, *, scale=None, unused=None):
        left, right = pair["first"], pair["rest"][0]
        return Pair(left * scale, {"sum": left + right, "index": index, "text": "no tensor"})


def test_containers_keywords_and_integers_are_numbered_in_their_order(watched):
    class Outer(Weighted):
        def run(self, x):
            pair = {"first": x, "rest": [x * 2, None]}
            found = self.nested(pair, torch.tensor([4, 5]), scale=torch.tensor(3.0))
            return found.left + found.right["sum"]

    rows = watched(Outer(nested=Nested()))
    expected = {"input_0": X, "input_1": 2 * X, "input_2": np.array([4, 5]), "input_3": np.float32(3)}
    expected |= {"output_0": 3 * X, "output_1": 3 * X, "output_2": np.array([4, 5])}
    assert all_hold(rows, "actv", {f"nested.{name}": array for name, array in expected.items()})
    assert named(rows["actv"], "nested.input_2", 0, 0)["dtype"] == "torch.int64"
    ones = np.ones((1, 3))
    gradients = {"output_0": ones, "output_1": ones, "input_0": 4 * ones, "input_1": ones}
    assert all_hold(rows, "actv_grad", {f"nested.{name}": array for name, array in gradients.items()})


def test_a_module_that_is_called_twice_has_the_numbers_of_its_last_call(watched):
    """Its gradients are those of the same call as its activations, although the first call's arrive later."""

    class Twice(Weighted):
        def run(self, x):
            return self.times(self.times(x) * 7)

    rows = watched(Twice(times=Times(2)))
    assert all_hold(rows, "actv", {"times.input": 14 * X, "times.output": 28 * X})
    assert all_hold(rows, "actv_grad", {"times.output": np.ones((1, 3)), "times.input": np.full((1, 3), 2)})
    assert len(rows["actv"]) == len(rows["actv_grad"]) == 2


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_recomputed_module_has_one_set_of_rows(reentrant, watched):
    class Outer(Weighted):
        def run(self, x):
            return checkpoint(self.inner, x, use_reentrant=reentrant) * 3

    rows = watched(Outer(inner=nn.Sequential(Times(2), Times(5))))
    expected = {"inner.input": X, "inner.0.input": X, "inner.0.output": 2 * X}
    expected |= {"inner.1.input": 2 * X, "inner.1.output": 10 * X, "inner.output": 10 * X}
    assert all_hold(rows, "actv", expected)
    threes = np.full((1, 3), 3.0)
    expected = {"inner.output": threes, "inner.1.output": threes, "inner.1.input": 5 * threes}
    expected |= {"inner.0.output": 5 * threes, "inner.0.input": 10 * threes, "inner.input": 10 * threes}
    assert all_hold(rows, "actv_grad", expected)
    assert {row["micro_step"] for row in rows["actv"]} == {"0"}
    assert len(rows["actv"]) == len(rows["actv_grad"]) == 6
    assert "lost" not in rows


def test_modules_in_evaluation_are_left_out_one_by_one(watched):
    class Outer(Weighted):
        def run(self, x):
            return self.b(self.a(x))

    net = Outer(a=Times(2), b=Times(3))
    net.a.eval()
    assert names(watched(net)) == ["b.input", "b.output"]


@pytest.mark.parametrize(
    ("settings", "kinds"),
    [
        ({}, {"actv", "actv_grad"}),
        ({"forward_only": True}, {"actv"}),
        ({"backward_only": True}, {"actv_grad"}),
        ({"forward_only": True, "backward_only": True, "wg_distribution": True}, set()),
        ({"xy_distribution": False, "all_xy": True, "wg_distribution": True}, set()),
    ],
)
def test_one_direction_can_be_chosen(settings, kinds, watched):
    rows = watched(filled(nn.Sequential(nn.Linear(3, 2))), **settings)
    assert {kind for kind in rows if kind.startswith("actv")} == kinds


@pytest.mark.parametrize(
    ("settings", "modules", "parameters"),
    [
        ({"targets": {"fc1": {}}}, {"fc1"}, {"fc1.weight", "fc1.bias"}),
        ({"targets": {"fc": {}, "norm": {"input": "tuple[1]:0"}}}, {"norm"}, None),
        ({"targets": {"0:fc2": {}}}, {"fc2"}, {"fc2.weight"}),
        ({"targets": {"fc2": {}}, "all_xy": True}, {"fc1", "norm", "fc2"}, {"fc2.weight"}),
        ({"targets": {}}, {"fc1", "norm", "fc2"}, None),
    ],
)
def test_targets_are_whole_names_of_modules_and_beginnings_of_parameters(settings, modules, parameters, watched):
    net = Net()
    rows = watched(net, lambda: net(batch(0)).sum().backward(), wg_distribution=True, **settings)
    assert {row["name"].rpartition(".")[0] for row in rows["actv"]} == modules
    assert {row["name"] for row in rows["grad_reduced"]} == (parameters or {name for name, _ in net.named_parameters()})


def test_chunks_of_a_virtual_pipeline_are_told_apart_by_their_number(watched):
    chunks = [Net(0), Net(1)]

    def work():
        (chunks[0](batch(0)).sum() + chunks[1](batch(1)).sum()).backward()

    rows = watched(chunks, work, targets={"0:fc1": {}, "1:norm": {}}, param_distribution=True)
    found = {(row["vpp_stage"], row["name"]) for row in rows["actv"]}
    assert found == {(v, f"{n}.{s}") for v, n in (("0", "fc1"), ("1", "norm")) for s in ("input", "output")}
    stages = {(row["vpp_stage"], row["name"]) for row in rows["param_origin"]}
    assert stages == {("0", "fc1.weight"), ("0", "fc1.bias"), ("1", "norm.weight"), ("1", "norm.bias")}
    first = next(row for row in rows["actv"] if row["name"] == "fc1.input")
    assert holds(first, batch(0).numpy())


def test_a_model_whose_modules_are_called_one_by_one_counts_their_calls(watched):
    net = Net()

    def work():
        for number in range(2):
            net.fc2(torch.relu(net.norm(net.fc1(batch(number))))).sum().backward()

    rows = watched(net, work)
    for micro in range(2):
        assert holds(named(rows["actv"], "fc1.input", 0, micro), batch(micro).numpy())
    assert len(rows["actv"]) == 2 * 3 * 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_float_types_are_measured_exactly(dtype, configured, written):
    net = filled(nn.Sequential(nn.Linear(3, 2, bias=False))).to(dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    TrainerMon(configured(xy_distribution=True, wg_distribution=True)).set_monitor(net, optimizer)
    x = torch.from_numpy(X).to(dtype)
    out = net(x)
    out.sum().backward()
    optimizer.step()
    rows = written()
    wide = out.detach().double().numpy()
    for kind, name, array in (("actv", "0.input", X), ("actv", "0.output", wide), ("grad_reduced", "0.weight", None)):
        row = next(row for row in rows[kind] if row["name"] == name)
        assert row["dtype"] == str(dtype)
        assert holds(row, np.repeat(X, 2, 0) if array is None else array)


def test_a_forward_that_fails_leaves_nothing_behind(configured, written):
    class Fails(nn.Module):
        fails = True

        def forward(self, x):
            if self.fails:
                raise ValueError("the training's own")
            return x * 2

    class Outer(Weighted):
        def run(self, x):
            return self.inner(self.first(x))

    net = Outer(first=Times(1), inner=Fails())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    monitor = TrainerMon(configured(xy_distribution=True))
    monitor.set_monitor(net, optimizer)
    with pytest.raises(ValueError, match="the training's own"):
        net(torch.from_numpy(X))
    net.inner.fails = False
    for number in range(2):
        net(torch.from_numpy(X * (number + 1))).sum().backward()
        optimizer.step()
    rows = written()
    last = [row for row in rows["actv"] if row["step"] == "1"]
    assert [row["name"] for row in last] == ["first.input", "first.output", "inner.input", "inner.output"]
    assert holds(last[-1], 4 * X)
    first = next(row for row in rows["actv"] if row["name"] == "inner.output")
    assert float(first["norm"]) == pytest.approx(np.linalg.norm(2 * X), rel=1e-6)
    assert "lost" not in rows


def test_what_works_in_place_is_measured_as_it_was(watched):
    class Outer(Weighted):
        def run(self, x):
            return self.relu(self.times(x))

    rows = watched(Outer(times=Times(2), relu=nn.ReLU(inplace=True)))
    expected = {"times.input": X, "times.output": 2 * X, "relu.input": 2 * X, "relu.output": np.maximum(2 * X, 0)}
    assert all_hold(rows, "actv", expected)


def test_results_that_nobody_uses_have_no_gradient_and_hold_nothing_back(watched):
    class Two(nn.Module):
        def forward(self, x):
            return x * 2, x * 3

    class Outer(Weighted):
        def run(self, x):
            return self.two(x)[0]

    rows = watched(Outer(two=Two()))
    expected = {"two.output_0": np.ones((1, 3)), "two.input": np.full((1, 3), 2)}
    assert all_hold(rows, "actv_grad", expected)


def test_without_a_gradient_there_are_activations_alone(watched):
    net = filled(nn.Sequential(nn.Linear(3, 2)))

    def work():
        with torch.no_grad():
            net(torch.from_numpy(X))

    rows = watched(net, work)
    assert names(rows) == ["0.input", "0.output"]
    assert "actv_grad" not in rows
