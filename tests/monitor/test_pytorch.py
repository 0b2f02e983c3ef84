"""TrainerMon and PyTorch: every kind of rows against what the training itself had."""

import numpy as np
import pytest
import torch
from by_numpy import holds, named
from torch_training import batch, network, train

from msprobe.base.errors import UsageError
from msprobe.pytorch import PrecisionDebugger, TrainerMon

pytestmark = pytest.mark.torch

EVERYTHING = {
    **{"xy_distribution": True, "wg_distribution": True, "mv_distribution": True, "param_distribution": True},
}
OPTIMIZERS = {
    "Adam": lambda net: torch.optim.Adam(net.parameters(), 1e-2),
    "AdamW": lambda net: torch.optim.AdamW(net.parameters(), 1e-2),
    "SGD": lambda net: torch.optim.SGD(net.parameters(), 1e-2, momentum=0.9),
    "groups": lambda net: torch.optim.AdamW([{"params": net[3].parameters()}, {"params": net[:2].parameters()}], 1e-2),
}


class Bare:
    """An optimizer without hooks, as mixed-precision wrappers are."""

    def __init__(self, inner):
        self.inner, self.param_groups, self.state = inner, inner.param_groups, inner.state
        self.zero_grad = inner.zero_grad

    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data -= 0.1 * parameter.grad
        return "done"


def arrays(tensors):
    return {name: tensor.detach().numpy().copy() for name, tensor in tensors}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_point_of_an_update_has_the_numbers_of_the_training(name, configured, written):
    net = network()
    optimizer = OPTIMIZERS[name](net)
    monitor = TrainerMon(configured(**EVERYTHING))
    monitor.set_monitor(net, optimizer)
    kept = []

    def keep(step):
        kept.append({"grad_unreduced": arrays((n, p.grad) for n, p in net.named_parameters())})
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        kept[-1]["grad_reduced"] = arrays((n, p.grad) for n, p in net.named_parameters())
        kept[-1]["param_origin"] = arrays(net.named_parameters())
        for kind in ("exp_avg", "exp_avg_sq"):
            state = [(n, optimizer.state[p][kind]) for n, p in net.named_parameters() if kind in optimizer.state[p]]
            kept[-1][kind] = arrays(state)

    for step in range(3):
        train(net, optimizer, start=step, after_backward=keep)
        kept[-1]["param_updated"] = arrays(net.named_parameters())
    rows, count = written(), 0
    for step, points in enumerate(kept):
        for kind, tensors in points.items():
            for parameter, array in tensors.items():
                assert holds(named(rows[kind], parameter, step), array)
                count += 1
    assert count == 3 * 6 * 4 + (0 if name == "SGD" else 2 * 6 * 2)
    assert sum(map(len, (rows.get(kind, ()) for kind in kept[0]))) == count
    unclipped, clipped = (float(named(rows[f"grad_{k}"], "0.weight", 0)["norm"]) for k in ("unreduced", "reduced"))
    assert unclipped > 1.5 * clipped, "clipping in place is between the two"


def test_the_same_training_has_the_same_bits_with_and_without(configured):
    def run(monitored):
        net = network()
        optimizer = OPTIMIZERS["AdamW"](net)
        if monitored:
            monitor = TrainerMon(configured(**EVERYTHING, monitor_mbs_grad=True, stack_info=True))
            monitor.set_monitor(net, optimizer)
        losses = train(net, optimizer, 10, micro=2, clip=0.5)
        state = [t.numpy().tobytes() for p in net.parameters() for t in optimizer.state[p].values()]
        return losses, [p.detach().numpy().tobytes() for p in net.parameters()], state, torch.get_rng_state().tolist()

    assert run(True) == run(False)


def test_micro_steps_and_main_grad(configured, written):
    net = network()
    optimizer = OPTIMIZERS["AdamW"](net)
    monitor = TrainerMon(configured(wg_distribution=True, monitor_mbs_grad=True, xy_distribution=True))
    monitor.set_monitor(net, optimizer)
    own = []
    for number in range(2):
        net(batch(number)).square().mean().backward()
        own.append(arrays((n, p.grad) for n, p in net.named_parameters()))
        if number:
            own[1] = {name: own[1][name] - own[0][name] for name in own[1]}
    for parameter in net.parameters():
        parameter.main_grad = parameter.grad * 3
    main = arrays((n, p.main_grad) for n, p in net.named_parameters())
    optimizer.step()
    rows = written()
    for name in main:
        for micro in range(2):
            row = named(rows["grad_unreduced"], name, 0, micro)
            assert float(row["norm"]) == pytest.approx(np.linalg.norm(own[micro][name]), rel=1e-4)
        assert holds(named(rows["grad_reduced"], name, 0), main[name])
    assert holds(named(rows["actv"], "0.input", 0, 1), batch(1).numpy())


def test_main_grad_is_left_alone_where_that_is_wished(configured, written):
    net = network()
    optimizer = OPTIMIZERS["AdamW"](net)
    monitor = TrainerMon(configured(wg_distribution=True), params_have_main_grad=False)
    monitor.set_monitor(net, optimizer)
    net(batch(0)).square().mean().backward()
    for parameter in net.parameters():
        parameter.main_grad = parameter.grad * 3
    gradient = net[0].weight.grad.numpy().copy()
    optimizer.step()
    assert holds(named(written()["grad_reduced"], "0.weight", 0), gradient)


def test_an_optimizer_without_hooks_is_wrapped_and_given_back(configured, written):
    net = network()
    optimizer = Bare(OPTIMIZERS["SGD"](net))
    monitor = TrainerMon(configured(param_distribution=True))
    monitor.set_monitor(net, optimizer)
    before = net[0].weight.detach().numpy().copy()
    net(batch(0)).square().mean().backward()
    assert optimizer.step() == "done"
    after = net[0].weight.detach().numpy().copy()
    rows = written()
    assert holds(named(rows["param_origin"], "0.weight", 0), before)
    assert holds(named(rows["param_updated"], "0.weight", 0), after)
    monitor.stop()
    assert "step" not in vars(optimizer)
    optimizer.step()
    assert {row["step"] for row in written()["param_origin"]} == {"0"}


def test_frozen_shared_and_unused_parameters(configured, written):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.frozen, self.unused = (torch.nn.Linear(3, 3) for _ in range(3))
            self.tied = torch.nn.Linear(3, 3)
            self.tied.weight = self.one.weight
            self.frozen.requires_grad_(False)

        def forward(self, x):
            return self.tied(self.frozen(self.one(x)))

    net = Net()
    optimizer = torch.optim.SGD((p for p in net.parameters() if p.requires_grad), 0.1)
    monitor = TrainerMon(configured(wg_distribution=True, param_distribution=True))
    monitor.set_monitor(net, optimizer)
    net(torch.ones(2, 3)).sum().backward()
    gradient = net.one.weight.grad.numpy().copy()
    optimizer.step()
    rows = written()
    assert [row["name"] for row in rows["grad_reduced"]] == ["one.weight", "one.bias", "tied.bias"]
    assert holds(named(rows["grad_reduced"], "one.weight", 0), gradient)
    assert {row["name"] for row in rows["param_origin"]} == {
        *("one.weight", "one.bias", "unused.weight", "unused.bias", "tied.bias"),
    }


def test_a_parameter_that_two_models_share_is_that_of_the_first(configured, written):
    """As an embedding and the head of the last pipeline stage in one process."""
    first, second = torch.nn.ModuleDict({"embedding": torch.nn.Linear(3, 3)}), torch.nn.ModuleDict()
    second["head"] = torch.nn.Linear(3, 3, bias=False)
    second["head"].weight = first["embedding"].weight
    optimizer = torch.optim.SGD(first.parameters(), 0.1)
    monitor = TrainerMon(configured(param_distribution=True))
    monitor.set_monitor([first, second], optimizer)
    second["head"](first["embedding"](torch.ones(2, 3))).sum().backward()
    optimizer.step()
    assert [(row["vpp_stage"], row["name"]) for row in written()["param_origin"]] == [
        ("0", "embedding.weight"),
        ("0", "embedding.bias"),
    ]


def test_low_precision_checkpointed_and_empty(configured, written):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.low, self.block = torch.nn.Linear(4, 4, dtype=torch.bfloat16), torch.nn.Linear(4, 4)

        def forward(self, x):
            x = self.low(x.bfloat16()).float()
            return torch.utils.checkpoint.checkpoint(self.block, x, use_reentrant=False)

    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    monitor = TrainerMon(configured(**EVERYTHING))
    monitor.set_monitor(net, optimizer)
    for step in range(2):
        out = net(batch(step))
        (out.square().mean() + net(torch.zeros(0, 4)).sum()).backward()
        weight = net.low.weight.detach().float().numpy().copy()
        optimizer.step()
        optimizer.zero_grad()
    rows = written()
    assert "lost" not in rows
    row = named(rows["param_origin"], "low.weight", 1)
    assert row["dtype"] == "torch.bfloat16"
    assert holds(row, weight)
    empty = named(rows["actv"], "block.output", 1, 1)
    assert (empty["shape"], empty["norm"], empty["nans"]) == ("[0, 4]", "nan", "0.0")
    full = named(rows["actv"], "block.output", 1, 0)
    assert holds(full, out.detach().numpy())


def test_two_monitors_of_two_models(configured, written, tmp_path, monkeypatch):
    pairs = []
    for number in range(2):
        net = network(number)
        optimizer = OPTIMIZERS["AdamW"](net)
        monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / f"out{number}"))
        TrainerMon(configured(param_distribution=True)).set_monitor(net, optimizer)
        pairs.append((net, optimizer, net[0].weight.detach().numpy().copy()))
    for net, optimizer, _ in pairs:
        train(net, optimizer)
    for number, (_, _, weight) in enumerate(pairs):
        rows = written(tmp_path / f"out{number}")
        assert holds(named(rows["param_origin"], "0.weight", 0), weight)


def test_chunks_of_a_pipeline_have_their_number(configured, written):
    class Chunks(torch.nn.Module):
        def __init__(self, chunks):
            super().__init__()
            self.chunks = torch.nn.ModuleList(chunks)

    chunks = [network(0), network(1)]
    optimizer = torch.optim.SGD(Chunks(chunks).parameters(), 0.1)
    monitor = TrainerMon(configured(xy_distribution=True, wg_distribution=True, targets={"1:0": {}, "0:3": {}}))
    monitor.set_monitor(chunks, optimizer)
    for chunk in chunks:
        chunk(batch(0)).sum().backward()
    optimizer.step()
    rows = written()
    assert {(row["vpp_stage"], row["name"]) for row in rows["actv"]} == {
        *(("0", "3.input"), ("0", "3.output"), ("1", "0.input"), ("1", "0.output")),
    }
    assert {(row["vpp_stage"], row["name"]) for row in rows["grad_reduced"]} == {
        *(("0", "3.weight"), ("0", "3.bias"), ("1", "0.weight"), ("1", "0.bias")),
    }


def test_a_debugger_that_collects_at_the_same_time_sees_nothing_of_the_monitor(configured, tmp_path):
    import json

    def names(monitored):
        net = network()
        optimizer = OPTIMIZERS["AdamW"](net)
        if monitored:
            monitor = TrainerMon(configured(**EVERYTHING))
            monitor.set_monitor(net, optimizer)
        debugger = PrecisionDebugger(dump_path=str(tmp_path / f"dump{monitored}"), level="mix")
        for _ in range(2):
            debugger.start(net)
            net(batch(0)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            debugger.stop()
            debugger.step()
        return [
            list(json.loads(path.read_text())["data"])
            for path in sorted(tmp_path.glob(f"dump{monitored}/*/*/dump.json"))
        ]

    plain, monitored = names(False), names(True)
    assert len(plain) == 2
    assert monitored == plain


def test_what_is_no_optimizer_is_refused(configured):
    monitor = TrainerMon(configured(wg_distribution=True))
    with pytest.raises(UsageError, match="without step"):
        monitor.set_monitor(network(), object())
    with pytest.raises(UsageError, match="targets"):
        TrainerMon(configured(wg_distribution=True, targets={"nothing": {}})).set_monitor(
            net := network(), OPTIMIZERS["SGD"](net)
        )
