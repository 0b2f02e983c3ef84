"""Directions of gradients, sizes of updates, and features of attention, linear and router layers: by numpy, beside the
files of mindstudio-probe 26.2.0, and with both frameworks."""

import csv
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
import torch
from by_numpy import named
from feature_training import train, training
from mindspore import Tensor, nn

from msprobe.base.brief import measure_all
from msprobe.base.errors import UsageError
from msprobe.frameworks.mindspore import statistics as of_mindspore
from msprobe.frameworks.pytorch import statistics as of_torch
from msprobe.mindspore import TrainerMon as OfMindSpore
from msprobe.monitor import features
from msprobe.monitor.backend import Backend
from msprobe.pytorch import TrainerMon

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

SAMPLES = Path(__file__).parents[1] / "samples" / "monitor" / "26.2.0" / "features"
TARGETS = {
    "attention_hook": ["0:core"],
    "linear_hook": ["fc", "q"],
    "moe_router_weight_hook": ["router"],
    "moe_router_logit_hook": ["0:router"],
}
FEATURES = {"recording_l2_features": True, "l2_targets": TARGETS}


def of_sample(name):
    with (SAMPLES / name).open(newline="") as file:
        table = csv.DictReader(file)
        return list(table), table.fieldnames


def monitored(path, net, optimizer):
    monitor = TrainerMon(path)
    monitor.set_monitor(net, optimizer)
    return monitor


def numbers(rows, *columns):
    return {(row["name"], int(row["step"])): tuple(float(row[each]) for each in columns) for row in rows}


def test_features_have_the_columns_rows_and_numbers_of_msprobe(configured, tmp_path):
    """But for the spectral norm, which the reference takes from a random vector: a lower bound of the right one."""
    net, optimizer = training()
    monitored(configured(**FEATURES), net, optimizer)
    train(net, optimizer)
    (folder,) = (tmp_path / "out").iterdir()
    names = sorted(path.name for path in SAMPLES.glob("*_hook_*"))
    assert sorted(path.name for path in folder.iterdir()) == names
    assert len(names) == 12
    for name in names:
        golden, head = of_sample(name)
        with (folder / name).open(newline="") as file:
            table = csv.DictReader(file)
            mine = list(table)
        assert table.fieldnames == head
        for ours, theirs in zip(sorted(mine, key=str), sorted(golden, key=str), strict=True):
            for column in ("vpp_stage", "name", "step", *(["micro_step"] if "micro_step" in head else [])):
                assert ours[column] == theirs[column]
            if not name.startswith("linear"):
                for column in head[3:]:
                    assert float(ours[column]) == pytest.approx(float(theirs[column]), rel=3e-6)
                continue
            whole = [float(row["sr"]) * float(row["kernel_norm"]) for row in (ours, theirs)]
            assert whole[0] == pytest.approx(whole[1], rel=3e-6)
            assert float(ours["kernel_norm"]) > float(theirs["kernel_norm"])


def test_the_spectral_norm_is_the_greatest_singular_value(configured, written):
    net, optimizer = training()
    weights = {name: getattr(net, name).weight.detach().double().numpy().copy() for name in ("fc", "q")}
    monitored(configured(**FEATURES), net, optimizer)
    train(net, optimizer, 1)
    for name, (ratio, norm) in numbers(written()["linear_hook"], "sr", "kernel_norm").items():
        weight = weights[name[0].partition(".")[0]]
        assert norm == pytest.approx(np.linalg.svd(weight)[1][0], rel=2e-6)
        assert ratio == pytest.approx(np.linalg.norm(weight) / norm, rel=2e-6)


@pytest.mark.parametrize("shape", [(300, 400), (400, 300), (300, 8), (1, 1), (5, 3, 2, 2)])
def test_spectral_norms_of_any_weight(shape):
    weight = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    ratio, norm = features.linear(weight)
    singular = np.linalg.svd(weight.reshape(shape[0], -1).astype(np.float64))[1]
    assert norm == pytest.approx(singular[0], rel=1e-4)
    assert ratio == pytest.approx(np.sqrt((singular**2).sum()) / singular[0], rel=1e-4)


def test_features_of_what_has_none_are_nan():
    assert np.isnan(features.linear(np.zeros((3, 4)))[0])
    assert np.isnan(features.linear(np.full((3, 4), np.nan))).all()
    assert np.isnan(features.router_weight(np.ones((1, 4)))).all()
    assert np.isnan(features.router_logit(np.ones((0, 4)))).all()
    assert np.isnan(features.attention(np.ones((0, 1, 1, 4)), np.ones((0, 1, 1, 4)), "s,b,h,d")).all()


@pytest.mark.parametrize(("order", "axes"), [("s,b,h,d", (0, 1, 2, 3)), ("b,s,h,d", (1, 0, 2, 3))])
def test_attention_is_causal_and_of_the_first_sample_and_head(order, axes):
    """600 queries: more than are in memory at once."""
    rng = np.random.default_rng(2)
    q, k = (rng.standard_normal((600, 2, 3, 4)).astype(np.float32) for _ in range(2))
    entropy, greatest = [], []
    for at in range(600):
        powers = np.exp(k[: at + 1, 0, 0].astype(np.float64) @ q[at, 0, 0].astype(np.float64) / 2)
        weights = powers / powers.sum()
        entropy.append(-(weights * np.log(weights)).sum())
        greatest.append(weights.max())
    found = features.attention(q.transpose(axes), k.transpose(axes), order)
    assert found == pytest.approx([np.mean(entropy), np.mean(greatest)], rel=1e-12)


def test_router_rows_in_opposite_directions_have_a_negative_similarity():
    assert features.router_weight(np.array([[1.0, 0], [-2, 0], [0, 3]])) == pytest.approx([-1 / 3])


def test_sa_order_decides_which_axis_is_the_sequence(configured, written):
    net, optimizer = training()
    monitored(configured(**FEATURES, sa_order="b,s,h,d"), net, optimizer)
    train(net, optimizer, 1)
    (row,) = written()["attention_hook"]
    assert float(row["entropy"]) == pytest.approx(0.337993, rel=3e-6)  # as 26.2.0 with this setting
    assert float(row["softmax_max"]) == pytest.approx(0.796183, rel=3e-6)


def test_features_of_every_micro_step_and_none_without_the_switch(configured, written, tmp_path):
    net, optimizer = training()
    monitored(configured(l2_targets=TARGETS, wg_distribution=True), net, optimizer)
    train(net, optimizer, 1)
    assert "attention_hook" not in written()
    net, optimizer = training()
    monitored(configured(**FEATURES), net, optimizer)
    net(torch.ones(6, 2, 8))
    net(torch.ones(6, 2, 8))
    optimizer.step()
    rows = written()
    assert [int(row["micro_step"]) for row in rows["attention_hook"]] == [0, 1]
    assert [int(row["micro_step"]) for row in rows["moe_router_logit_hook"]] == [0, 1]
    assert len(rows["linear_hook"]) == 2


def test_a_module_without_what_is_asked_for_is_logged_once_and_a_name_without_module_refused(configured, logged):
    net, optimizer = training()
    monitored(configured(recording_l2_features=True, l2_targets={"linear_hook": ["core"]}), net, optimizer)
    train(net, optimizer, 2)
    (line,) = [line for line in logged() if "linear_hook of core" in line]
    assert "has no weight" in line
    with pytest.raises(UsageError, match="no module nothing"):
        monitored(configured(recording_l2_features=True, l2_targets={"linear_hook": ["nothing"]}), *training())


POINTS = ("xy_distribution", "wg_distribution", "mv_distribution", "param_distribution")


def test_a_device_gives_the_rows_that_the_host_gives(configured, written, monkeypatch, tmp_path):
    """All kinds and statistics, up to float32."""
    found = []
    for where in ("host", "device"):
        monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / where))
        if where == "device":
            on_device(monkeypatch)
        net, optimizer = training()
        monitored(configured(**dict.fromkeys(POINTS, True)), net, optimizer)
        train(net, optimizer, 2)
        found.append(written(tmp_path / where))
    host, device = found
    assert host.keys() == device.keys()
    assert len(host) == 9
    for kind in host:
        for ours, theirs in zip(host[kind], device[kind], strict=True):
            for column, text in ours.items():
                if column in ("norm", "min", "max", "mean", "value"):
                    # one unit of the last digit that is written, in numbers that are not exact in binary
                    assert float(theirs[column]) == pytest.approx(float(text), rel=3e-6, abs=1.001e-6), (kind, ours)
                else:
                    assert theirs[column] == text, (kind, ours)


ODD = [
    *(np.array(values, np.float32) for values in ([1, np.nan, 0], [np.inf, 1], [np.inf, -np.inf], [[3.0]], [])),
    *(np.array([1, -3, 0, 4e4], dtype) for dtype in (np.float16, np.int32)),
    np.array(5.0, np.float32),
]


@pytest.mark.parametrize("array", ODD, ids=str)
def test_odd_tensors_have_on_a_device_the_statistics_of_the_host(array):
    expected = measure_all([array], 1e-8)[0]
    for module, tensor in ((of_torch, torch.from_numpy(array.copy())), (of_mindspore, Tensor(array))):
        found = module.CAPABILITY.fetch([module.CAPABILITY.of(tensor, 1e-8)])[0]
        assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-6, nan_ok=True)


def on_device(monkeypatch):
    """The statistics are computed by the framework, as on a device; here that is the processor."""
    monkeypatch.setattr(Backend, "check", lambda self, *_: setattr(self, "on_device", True))


@pytest.mark.parametrize("where", ["host", "device"])
def test_directions_are_the_share_of_equal_signs_of_gradient_and_moment(where, configured, written, monkeypatch):
    if where == "device":
        on_device(monkeypatch)
    net, optimizer = training()
    monitored(configured(mg_direction=True), net, optimizer)
    expected = {}

    def note():
        for name, p in net.named_parameters():
            if p in optimizer.state:
                equal = np.sign(p.grad.numpy()) == np.sign(optimizer.state[p]["exp_avg"].numpy())
                expected[name, note.step] = (float(equal.mean()),)
        note.step += 1

    note.step = 0
    train(net, optimizer, after_backward=note)
    rows = written()
    assert list(rows) == ["mg_direction"]
    found = numbers(rows["mg_direction"], "same_sign")
    assert found.keys() == expected.keys()
    assert len(found) == 2 * 9  # before the first update there are no moments
    assert all(found[key] == pytest.approx(value, rel=2e-6) for key, value in expected.items())


def test_directions_are_those_of_msprobe(configured, written):
    """The gradient of the bias of k is noise: the softmax cancels it."""
    net, optimizer = training()
    monitored(configured(mg_direction=True), net, optimizer)
    train(net, optimizer)
    found = numbers(written()["mg_direction"], "same_sign")
    golden = {}
    for step in (1, 2):
        golden |= numbers(of_sample(f"other_{step}-{step}.csv")[0], "mean")
    assert found.keys() == golden.keys()
    assert all(found[key] == golden[key] for key in found if key[0] != "k.bias")


@pytest.mark.parametrize("where", ["host", "device"])
def test_updates_are_as_large_as_what_they_changed(where, configured, written, monkeypatch):
    if where == "device":
        on_device(monkeypatch)
    net, optimizer = training()
    monitored(configured(ur_distribution=True), net, optimizer)
    expected, steps = {}, iter(range(3))

    def update(step):
        before = {name: p.detach().double().numpy().copy() for name, p in net.named_parameters()}
        step()
        number = next(steps)
        for name, p in net.named_parameters():
            change = np.linalg.norm(p.detach().double().numpy() - before[name])
            size = np.linalg.norm(before[name])
            expected[name, number] = (change, change / size if size else np.nan)  # the bias of a norm begins as 0

    train(net, optimizer, update=update)
    rows = written()
    assert list(rows) == ["update_ratio"]
    found = numbers(rows["update_ratio"], "update_norm", "ratio")
    assert found.keys() == expected.keys()
    assert all(found[key] == pytest.approx(value, rel=2e-5, nan_ok=True) for key, value in expected.items())


class Mixed(nn.Cell):
    """The same layers with MindSpore."""

    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(3)
        self.fc, self.router = nn.Dense(4, 4), nn.Dense(4, 3, has_bias=False)
        self.core = Core()
        for parameter in self.get_parameters():
            parameter.set_data(Tensor(rng.standard_normal(parameter.shape).astype(np.float32)))
        self.set_train()

    def construct(self, x):
        y = self.fc(x)
        q = y.reshape(5, 2, 2, 2)
        return self.router(self.core(q, q + 1).reshape(5, 2, 4))


class Core(nn.Cell):
    def construct(self, q, k):
        return q * k


@pytest.mark.parametrize("where", ["host", "device"])
def test_all_of_it_with_mindspore(where, configured, written, monkeypatch):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    if where == "device":
        monkeypatch.setattr(of_mindspore, "DEVICES", ("CPU",))
    net = Mixed()
    optimizer = nn.AdamWeightDecay(net.trainable_params(), 1e-2)
    settings = {**FEATURES, "l2_targets": {**TARGETS, "linear_hook": ["fc"]}}
    monitor = OfMindSpore(configured(**settings, mg_direction=True, ur_distribution=True))
    monitor.set_monitor(net, optimizer)
    gradient = ms.value_and_grad(lambda x: net(x).square().mean(), None, optimizer.parameters)
    kept = []
    for step in range(2):
        x = Tensor(np.random.default_rng(step).standard_normal((5, 2, 4)).astype(np.float32))
        _, gradients = gradient(x)
        before = {p.name: p.asnumpy().astype(np.float64) for p in optimizer.parameters}
        signs = {
            p.name: float((np.sign(g.asnumpy()) == np.sign(m.asnumpy())).mean())
            for p, g, m in zip(optimizer.parameters, gradients, optimizer.moments1, strict=True)
        }
        optimizer(gradients)
        after = {p.name: p.asnumpy().astype(np.float64) for p in optimizer.parameters}
        kept.append((x.asnumpy().astype(np.float64), before, after, signs))
    rows = written()
    for step, (x, before, after, signs) in enumerate(kept):
        for name in before:
            change = np.linalg.norm(after[name] - before[name])
            row = named(rows["update_ratio"], name, step)
            assert float(row["update_norm"]) == pytest.approx(change, rel=2e-5)
            assert float(row["ratio"]) == pytest.approx(change / np.linalg.norm(before[name]), rel=2e-5)
            assert float(named(rows["mg_direction"], name, step)["same_sign"]) == pytest.approx(signs[name], abs=1e-6)
        norm = np.linalg.svd(before["fc.weight"])[1][0]
        assert float(named(rows["linear_hook"], "fc.linear", step)["kernel_norm"]) == pytest.approx(norm, rel=2e-6)
        y = x @ before["fc.weight"].T + before["fc.bias"]
        q = y.reshape(5, 2, 2, 2)
        logits = (q * (q + 1)).reshape(-1, 4) @ before["router.weight"].T
        weights = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        entropy = -(weights * np.log(weights)).sum(-1).mean()
        row = named(rows["moe_router_logit_hook"], "router.moe_router", step, 0)
        assert float(row["per_token_expert_entropy"]) == pytest.approx(entropy, rel=2e-5)
        found = named(rows["attention_hook"], "core.attention", step, 0)
        assert float(found["entropy"]) == pytest.approx(features.attention(q, q + 1, "s,b,h,d")[0], rel=2e-5)
        assert "moe_router_weight_hook" in rows
