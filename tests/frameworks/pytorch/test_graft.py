"""Task `graft` with PyTorch: values of a golden run in the place of those that the calls of a training compute.

Each training runs three times from one seed: bare (the golden), collected with task tensor (its dump), and with a
planted fault and the dump's values in place. Losses, gradients and parameters of the first and the last are compared
bit by bit.
"""

import json
import logging
from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from msprobe.base.errors import SettingsError, UsageError
from msprobe.pytorch import PrecisionDebugger
from msprobe.store.graft_plan import GoldenValue, GraftedCall, GraftedStep, GraftPlan, write_plan
from msprobe.store.reader import load_tensor, read

pytestmark = [pytest.mark.torch, pytest.mark.part(2)]

ALL = ["forward", "backward", "inputs", "incoming", "parameters", "update"]
STEPS = 3


class Faulty(nn.Module):
    """A factor between the parts of the nets: 1 in the golden run."""

    factor = 1.0

    def wrong(self, x):
        return x * self.factor


class Dropped(Faulty):
    """The mask of the dropout differs, since the generator has another state where there is a fault."""

    def __init__(self):
        super().__init__()
        self.a, self.drop, self.b = nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1)

    def forward(self, x):
        if self.factor != 1.0:
            torch.manual_seed(5)
        return self.b(self.drop(self.wrong(self.a(x)))).square().mean()


class InPlace(Faulty):
    """Tensors are changed in place, also through views; three branches meet in one tensor."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        y = self.wrong(self.a(x))
        y += 1.0
        y[:, 0] = y[:, 1] * 2.0
        y[:, 2:4].mul_(0.5 * self.factor)
        y.relu_()
        out = torch.empty(0)
        with torch.no_grad():
            torch.mul(y, self.factor, out=out)
        return (self.b(y) + y.sin() + y * y.exp() + torch.tanh(y) + out).square().mean()


class Views(Faulty):
    """Views of a tensor that all have users, one of which is changed in place later."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.wrong(self.qkv(x)).view(-1, 3, 8).unbind(1)
        scores = (q @ k.transpose(0, 1) / self.factor).softmax(-1)
        y = (scores @ v).reshape(-1, 2, 4).permute(0, 2, 1)
        first = y[:, 0]
        first.mul_(2.0)
        return self.out(y.flatten(1)).square().mean()


@dataclass
class Made:
    value: torch.Tensor
    more: dict


class Gives(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.fc, self.kind, self.factor = nn.Linear(8, 8), kind, 1.0

    def forward(self, x, *, scale=1.0):
        y = self.fc(x) * (scale * self.factor)
        if self.kind == "tuple":
            return y, [y.cos(), None]
        if self.kind == "dict":
            return {"y": y, "list": [y.sin(), None], "n": 3}
        return Made(y, {"z": y.exp()})


class Structured(Faulty):
    """Modules that return tuples, dicts and dataclasses; a function that returns two tensors."""

    def __init__(self):
        super().__init__()
        self.t, self.d, self.m = Gives("tuple"), Gives("dict"), Gives("dataclass")

    def forward(self, x):
        self.d.factor = self.factor
        (t, (cos, _)), d, m = self.t(x), self.d(x, scale=2.0), self.m(x)
        values, _ = torch.max(self.wrong(t), dim=1)
        return (values.sum() + cos * d["y"] + d["list"][0] + m.value * m.more["z"]).square().mean()


class Shared(Faulty):
    """One weight that two calls use, and one module that is called twice."""

    def __init__(self):
        super().__init__()
        self.embed, self.again = nn.Embedding(11, 8), nn.Linear(8, 8)

    def forward(self, x):
        ids = x.abs().mul(5).long() % 11
        y = self.again(self.wrong(self.again(self.embed(ids[:, 0]))))
        return F.cross_entropy(y @ self.embed.weight.T, ids[:, 1])


class Block(Faulty):
    """Functions of several nodes that use their argument twice, with residual connections: sums of three parts."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        x = x + self.down(F.gelu(self.wrong(self.up(self.norm(x)))))
        return x + F.normalize(x) * x.sigmoid()


class Blocks(Faulty):
    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Block(), Block()]), nn.Linear(8, 1)

    def forward(self, x):
        for block in self.blocks:
            block.factor = self.factor
            x = block(x)
        return self.head(x).square().mean()


NETS = [Dropped, InPlace, Views, Structured, Shared, Blocks]


def train(make, debugger=None, factor=1.0, steps=STEPS, micro=1, data=1.0):
    """Train a net; return the bits of each step's losses, gradients and parameters."""
    torch.manual_seed(0)
    net = make()
    net.factor = factor
    optimizer = torch.optim.Adam(net.parameters(), 0.05)
    batches = np.random.default_rng(1).standard_normal((steps, micro, 4, 8)).astype(np.float32)
    found = []
    for step in range(steps):
        if debugger is not None:
            debugger.start(net)
        losses = []
        for batch in batches[step]:
            loss = net(torch.tensor(batch) * data)
            loss.backward()
            losses.append(loss.detach().numpy().tobytes())
        if debugger is not None:
            debugger.stop()
        gradients = [p.grad.numpy().tobytes() for p in net.parameters()]
        optimizer.step()
        optimizer.zero_grad()
        if debugger is not None:
            debugger.step()
        found.append((losses, gradients, [p.detach().numpy().tobytes() for p in net.parameters()]))
    return found


@pytest.fixture
def golden(tmp_path, monkeypatch):
    """Makes the dump of a training without a fault: `golden(make, level)`."""
    monkeypatch.chdir(tmp_path)

    def make_dump(make, level="mix", summary="statistics", **how):
        folder, path = tmp_path / "golden", tmp_path / "golden.json"
        contents = {"task": "tensor", "level": level, "dump_path": str(folder), "tensor": {"summary_mode": summary}}
        path.write_text(json.dumps(contents))
        train(make, PrecisionDebugger(path), **how)
        return folder

    return make_dump


@pytest.fixture
def grafted(tmp_path):
    """Makes a debugger that grafts: `grafted(golden, level, calls=...)`."""
    numbers, made = iter(range(100)), []

    def make_debugger(golden, level="mix", **section):
        number = next(numbers)
        path = tmp_path / f"config{number}.json"
        contents = {
            **{"task": "graft", "level": level, "dump_path": str(tmp_path / f"grafted{number}")},
            "graft": {"golden": str(golden), **section},
        }
        path.write_text(json.dumps(contents))
        made.append(PrecisionDebugger(path))
        return made[-1]

    yield make_debugger
    for debugger in made:
        debugger.stop()
        debugger.step()


def dump_of(tmp_path, number=0, step=0):
    return read(tmp_path / f"grafted{number}/step{step}/rank")


def header(tmp_path, number=0, step=0):
    return json.loads((tmp_path / f"grafted{number}/step{step}/rank/dump.json").read_text())


@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("make", NETS)
def test_a_run_in_which_everything_is_grafted_equals_the_golden_bitwise(make, micro, golden, grafted, tmp_path):
    without = train(make, micro=micro)
    assert train(make, factor=1.5, micro=micro) != without, "the fault has an effect"
    folder = golden(make, micro=micro)
    assert train(make, grafted(folder, calls="*", what=ALL), 1.5, micro=micro) == without
    found = header(tmp_path)["run"]["grafted"]
    assert found["values"] > found["changed"] > 0
    assert found["skipped"] == 0


@pytest.mark.parametrize(("level", "make"), [("L0", Blocks), ("L1", Blocks), ("L1", Views)])
def test_modules_or_functions_alone_are_enough(level, make, golden, grafted):
    folder = golden(make, level)
    assert train(make, grafted(folder, level, calls="*", what=ALL), 1.5) == train(make)


def test_a_run_without_a_fault_is_not_changed_and_the_header_says_so(golden, grafted, tmp_path):
    folder = golden(Blocks)
    assert train(Blocks, grafted(folder, calls="*", what=ALL)) == train(Blocks)
    found = header(tmp_path)["run"]["grafted"]
    assert (found["changed"], found["skipped"]) == (0, 0)
    assert found["values"] > 50


@pytest.mark.parametrize("summary", ["md5", "crc32c"])
def test_with_digests_only_values_that_differ_are_read(summary, golden, grafted, tmp_path):
    folder = golden(Blocks, summary=summary)
    for file in folder.rglob("*.npy"):
        if file.name.startswith("Functional.layer_norm"):  # the same in both runs
            file.unlink()
    assert train(Blocks, grafted(folder, calls="*"), 1.5) == train(Blocks)
    assert header(tmp_path)["run"]["grafted"]["skipped"] == 0


def test_the_faulty_call_alone_closes_the_gap_and_another_does_not(golden, grafted):
    folder = golden(Dropped)
    wrong = "Tensor.__mul__.1"
    # the state of the generator differs in the faulty run: the dropout is grafted too
    names = [wrong, "Functional.dropout.0"]
    assert train(Dropped, grafted(folder, calls=names), 1.5) == train(Dropped)
    assert train(Dropped, grafted(folder, calls=["Tensor.square.0"], what=["forward"]), 1.5) != train(Dropped)


class Times(nn.Module):
    """y = factor * (w + shift) * x, and the loss is the sum of y * y. Without a shift the product takes w itself."""

    factor, shift = 3.0, 0.0

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, 2.0]))

    def forward(self, x):
        y = torch.mul(self.w + self.shift if self.shift else self.w, x)
        z = torch.mul(y, self.factor)
        return torch.sum(torch.mul(z, z))


X = torch.tensor([5.0, 7.0])


def run_once(debugger, factor=3.0, x=X, w=None, shift=0.0):
    net = Times()
    net.factor, net.shift = factor, shift
    if w is not None:
        net.w.data = torch.tensor(w)
    debugger.start(net)
    loss = net(x)
    loss.backward()
    debugger.stop()
    debugger.step()
    return float(loss.detach()), net.w.grad.tolist(), net


@pytest.fixture
def times(tmp_path, monkeypatch):
    """The golden: z = 3 w x = [15, 42], loss 225 + 1764 = 1989."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "golden"
    loss, gradient, _ = run_once(PrecisionDebugger(task="tensor", level="mix", dump_path=folder))
    assert (loss, gradient) == (1989.0, [2 * 15.0 * 3 * 5, 2 * 42.0 * 3 * 7])
    return folder


def test_a_result_has_the_value_of_the_golden_and_the_derivative_of_the_target(times, grafted):
    loss, gradient, _ = run_once(grafted(times, calls=["Torch.mul.1"], what=["forward"]), factor=2.0)
    assert (loss, gradient) == (1989.0, [2 * 15.0 * 2 * 5, 2 * 42.0 * 2 * 7])


def test_a_gradient_is_that_of_the_golden_and_the_result_is_not(times, grafted):
    """z = 2 w x = [10, 28]; the golden's gradient of y is 2 z 3 = [90, 252]."""
    loss, gradient, _ = run_once(grafted(times, calls=["Torch.mul.1"], what=["backward"]), factor=2.0)
    assert (loss, gradient) == (100.0 + 784.0, [90.0 * 5, 252.0 * 7])


def test_an_arriving_gradient_is_that_of_the_golden(times, grafted):
    """What arrives at y in the golden run is 2 z 3 = [90, 252]."""
    _, gradient, _ = run_once(grafted(times, calls=["Torch.mul.0"], what=["incoming"]), factor=2.0)
    assert gradient == [90.0 * 5, 252.0 * 7]


def test_inputs_are_replaced_for_the_call_only_and_parameters_are_not(times, grafted):
    """With x = [5, 7] of the golden in the place of [1, 1], and the own w = [2, 2]: z = 3 w x = [30, 42]."""
    own = torch.ones(2)
    debugger = grafted(times, calls=["Torch.mul.0"], what=["inputs"])
    loss, gradient, net = run_once(debugger, x=own, w=[2.0, 2.0])
    assert loss == 900.0 + 1764.0
    assert gradient == [2 * 30.0 * 3 * 5, 2 * 42.0 * 3 * 7]
    assert own.tolist() == [1.0, 1.0]
    assert net.w.tolist() == [2.0, 2.0]


def test_an_input_that_is_a_parameter_in_the_golden_alone_is_replaced(times, grafted):
    debugger = grafted(times, calls=["Torch.mul.0"], what=["inputs"])
    loss, gradient, net = run_once(debugger, shift=1.0)
    assert (loss, gradient) == (1989.0, [2 * 15.0 * 3 * 5, 2 * 42.0 * 3 * 7])
    assert net.w.tolist() == [1.0, 2.0]


def test_parameters_are_written_when_the_step_begins(times, grafted):
    loss, _, net = run_once(grafted(times, calls="*", what=["parameters"]), w=[2.0, 2.0])
    assert loss == 1989.0
    assert net.w.tolist() == [1.0, 2.0]
    loss, _, net = run_once(grafted(times, calls=["w"], what=["parameters"]), w=[2.0, 2.0])
    assert net.w.tolist() == [1.0, 2.0]


def test_updates_are_parameters_of_every_step_but_the_first(golden, grafted, tmp_path):
    folder = golden(Blocks)
    debugger = grafted(folder, calls="*", what=["update"])
    found, without = train(Blocks, debugger, 1.5), train(Blocks)
    assert found[0] == train(Blocks, factor=1.5)[0]
    counts = [header(tmp_path, step=step)["run"]["grafted"] for step in range(STEPS)]
    names = len(list(Blocks().parameters()))
    assert [each["values"] for each in counts] == [0, names, names]
    assert found[1] != without[1], "only the parameters are the golden's"


def test_only_some_steps_are_grafted(golden, grafted, tmp_path):
    folder = golden(Blocks)
    found = train(Blocks, grafted(folder, calls="*", what=ALL, steps=[1]), 1.5)
    faulty, without = train(Blocks, factor=1.5), train(Blocks)
    assert found[0] == faulty[0]
    assert found[1][0] == without[1][0]
    assert found[1][1] == without[1][1]
    assert "grafted" not in header(tmp_path, step=0)["run"]
    assert "grafted" in header(tmp_path, step=1)["run"]


def test_the_dump_is_an_ordinary_one_with_the_values_that_the_training_used(golden, grafted, tmp_path):
    folder = golden(Blocks)
    train(Blocks, grafted(folder, calls="*", what=ALL, record="tensor"), 1.5)
    target, other = dump_of(tmp_path), read(folder / "step0/rank")
    assert target.task == "tensor"
    assert target.columns.names == other.columns.names
    outputs = 0
    for call in range(len(other.columns.names)):
        for mine, theirs in zip(target.columns.records(call), other.columns.records(call), strict=True):
            if mine.kind == "tensor" and mine.part == "output":
                outputs += 1
                assert np.array_equal(load_tensor(target, mine), load_tensor(other, theirs)), mine.name
                assert mine.source == theirs.source
    assert outputs > 50


def test_the_statistics_of_a_grafted_run_are_those_of_the_golden(golden, grafted, tmp_path):
    folder = golden(Views)
    train(Views, grafted(folder, calls="*", what=ALL), 1.5)
    target, other = dump_of(tmp_path), read(folder / "step0/rank")
    assert target.task == "statistics"
    is_output = [part == 2 for part in other.columns.part]  # inputs may be what a Python number made of a fault
    assert np.array_equal(target.columns.numbers[is_output], other.columns.numbers[is_output], equal_nan=True)


def test_a_module_is_grafted_with_its_gradient(golden, grafted):
    """The fault is inside the first block, and the module's own call is grafted: the rest is as in the golden."""
    folder = golden(Blocks, steps=1)
    found = train(Blocks, grafted(folder, calls=["Module.blocks.0.Block.forward.0", "Module.blocks.1.Block.0"]), 1.5, 1)
    without = train(Blocks, steps=1)
    assert found[0][0] == without[0][0]
    assert found[0][1] == without[0][1], "the gradients of the parameters inside are the golden's"


class Doubled(Faulty):
    """A module in which one node (`Wrong`) or several (`Block`) compute the gradient of the argument."""

    def __init__(self):
        super().__init__()
        self.first, self.wrong_one, self.block = nn.Linear(8, 8), Wrong(), Block()

    def forward(self, x):
        self.wrong_one.factor = self.block.factor = self.factor
        return self.block(self.wrong_one(self.first(x))).square().mean()


class Wrong(Faulty):
    def forward(self, x):
        return torch.sin(self.wrong(x))


def test_the_gradient_of_a_module_is_recorded_as_it_was_replaced(golden, grafted, tmp_path):
    """Also where a function inside has its nodes, and where the golden's gradient is the sum of several parts."""
    folder = golden(Doubled, steps=1)
    modules = ["Module.wrong_one.Wrong", "Module.block.Block"]
    debugger = grafted(folder, calls=[f"{each}.forward.0" for each in modules], what=["backward"], record="tensor")
    train(Doubled, debugger, 1.5, 1)
    target, other = dump_of(tmp_path), read(folder / "step0/rank")
    for module in modules:
        name = f"{module}.backward.0"
        found = [
            load_tensor(dump, record)
            for dump in (target, other)
            for record in dump.columns.records(dump.place[name])
            if record.part == "output"
        ]
        assert found[0] == pytest.approx(found[1], rel=1e-6, abs=1e-9), name
    arrived = [
        load_tensor(dump, dump.columns.records(dump.place["Module.first.Linear.backward.0"])[0])
        for dump in (target, other)
    ]
    assert np.array_equal(*arrived)


def test_more_calls_than_the_golden_has_keep_their_values(golden, grafted, tmp_path):
    class Longer(Dropped):
        def forward(self, x):
            loss = super().forward(x)
            return loss if self.factor == 1.0 else loss + self.b(self.a(x)).square().mean()

    folder = golden(Longer, steps=1)
    found = train(Longer, grafted(folder, calls="*", what=["forward"]), 1.5, 1)
    assert found[0][1] != train(Longer, steps=1)[0][1], "the gradients of the further calls are in those of the weights"
    assert header(tmp_path)["run"]["grafted"]["skipped"] > 0


# ---- plans ---------------------------------------------------------------------------------------------------------


def plan_of(tmp_path, golden, calls=None, parameters=None):
    path = tmp_path / "plan.json"
    write_plan(path, GraftPlan(str(golden), {0: GraftedStep(calls or {}, parameters or {})}))
    return path


class Dense(nn.Module):
    """y = x w' of a weight of shape (3, 2), by a matmul in one layout or the other."""

    def __init__(self, is_transposed=False):
        super().__init__()
        self.is_transposed = is_transposed
        w = torch.arange(6.0).reshape(3, 2)
        self.w = nn.Parameter(w.T.clone() if is_transposed else w)

    def forward(self, x):
        y = torch.mm(self.w, x.T) if self.is_transposed else torch.mm(x, self.w)
        return torch.sum(torch.square(y))


def run_dense(net, debugger, x):
    debugger.start(net)
    loss = net(x)
    loss.backward()
    debugger.stop()
    debugger.step()
    return float(loss.detach()), net.w.grad


def test_a_plan_maps_layouts(tmp_path, monkeypatch, grafted):
    monkeypatch.chdir(tmp_path)
    x = torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]])
    folder = tmp_path / "golden"
    loss, gradient = run_dense(Dense(), PrecisionDebugger(task="tensor", level="L1", dump_path=folder), x)
    values = {"output.0": GoldenValue("output.0", permute=(1, 0))}
    backward = {"output.0": GoldenValue("output.1", permute=(1, 0))}
    plan = plan_of(
        tmp_path,
        folder,
        {
            "Torch.mm.0.forward": GraftedCall("Torch.mm.0.forward", values),
            "Torch.mm.0.backward": GraftedCall("Torch.mm.0.backward", backward),
        },
        {"w": GoldenValue("w", permute=(1, 0), reshape=(2, 3))},
    )
    net = Dense(is_transposed=True)
    net.w.data = net.w.data + 1.0
    debugger = grafted(plan, level="L1", calls="*", what=["forward", "backward", "parameters"])
    found, own = run_dense(net, debugger, x)
    assert found == loss
    assert own.tolist() == gradient.T.tolist()
    assert net.w.tolist() == Dense().w.T.tolist()


class Repeated(nn.Module):
    """y = w x, z = y as often as `times`, and the loss is the sum of z * z."""

    def __init__(self, times):
        super().__init__()
        self.w, self.times = nn.Parameter(torch.tensor([1.0, 2.0])), times

    def forward(self, x):
        return torch.tile(self.w * x, (self.times,)).square().sum()


def test_a_result_of_another_shape_is_replaced_if_a_plan_says_so(tmp_path, monkeypatch, grafted):
    """y = [5, 14]; the loss is 2 (25 + 196), the gradient of y 2 * 2 y, and that of w 4 y x."""
    monkeypatch.chdir(tmp_path)
    folder, (forward, backward) = tmp_path / "golden", ("Torch.tile.0.forward", "Torch.tile.0.backward")
    golden = PrecisionDebugger(task="tensor", level="L1", dump_path=folder)
    assert run_dense(Repeated(2), golden, X)[0] == 442.0
    result = {forward: GraftedCall(forward, {"output.0": GoldenValue("output.0", is_resized=True)})}
    debugger = grafted(plan_of(tmp_path, folder, result, {}), level="L1", calls="*", what=["forward", "backward"])
    loss, gradient = run_dense(Repeated(1), debugger, X)
    assert (loss, gradient.tolist()) == (442.0, [0.0, 0.0])
    both = {**result, backward: GraftedCall(backward, {"output.0": GoldenValue("output.0")})}
    debugger = grafted(plan_of(tmp_path, folder, both, {}), level="L1", calls="*", what=["forward", "backward"])
    loss, gradient = run_dense(Repeated(1), debugger, X)
    assert (loss, gradient.tolist()) == (442.0, [4 * 5.0 * 5, 4 * 14.0 * 7])


# ---- errors at start -----------------------------------------------------------------------------------------------


def refused(debugger, net=None):
    with pytest.raises((SettingsError, UsageError)) as raised:
        debugger.start(net if net is not None else Times())
    return str(raised.value)


def test_what_the_golden_does_not_have_is_an_error_at_start(times, grafted):
    text = refused(grafted(times, calls=["Torch.mull.0"]))
    assert "Torch.mull.0" in text
    assert "Torch.mul.0" in text
    assert "step 1" in refused(grafted(times, calls="*", steps=[1]))
    assert "parameter" in refused(grafted(times, calls=["w"], what=["forward"]))
    assert "call" in refused(grafted(times, calls=["Torch.mul.0"], what=["parameters"]))


def test_a_golden_of_statistics_is_an_error_at_start(tmp_path, monkeypatch, grafted):
    monkeypatch.chdir(tmp_path)
    run_once(PrecisionDebugger(task="statistics", level="mix", dump_path=tmp_path / "golden"))
    for calls in ("*", ["Torch.mul.0"]):
        assert "task tensor" in refused(grafted(tmp_path / "golden", calls=calls))


def test_parameters_need_the_model_and_its_shapes(times, grafted):
    debugger = grafted(times, level="L1", calls="*", what=["parameters"])
    with pytest.raises(UsageError, match=r"start\(net\)"):
        debugger.start()

    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))

    assert "(3,)" in refused(grafted(times, calls=["w"], what=["parameters"]), Other())


def test_a_parameter_of_another_shape_is_left_where_all_are_grafted(times, grafted, tmp_path):
    debugger, net = grafted(times, calls="*", what=["parameters"]), Times()
    net.w.data = torch.ones(1)
    debugger.start(net)
    net(X)
    debugger.stop()
    debugger.step()
    assert net.w.tolist() == [1.0]
    assert header(tmp_path)["run"]["grafted"]["skipped"] == 1


def test_a_plan_that_does_not_fit_is_an_error_at_start(tmp_path, times, grafted):
    values = {"output.0": GoldenValue("output.0", reshape=(5,))}
    plan = plan_of(tmp_path, times, {"Torch.mul.0.forward": GraftedCall("Torch.mul.0.forward", values)})
    assert "reshape" in refused(grafted(plan, calls=["Torch.mul.0"], what=["forward"]))
    values = {"output.0": GoldenValue("output.7")}
    plan = plan_of(tmp_path, times, {"Torch.mul.0.forward": GraftedCall("Torch.mul.0.forward", values)})
    assert "output.7" in refused(grafted(plan, calls=["Torch.mul.0"], what=["forward"]))


def test_a_result_of_another_shape_stays_and_is_noted(times, grafted, tmp_path):
    debugger = grafted(times, calls=["Torch.mul.1"], what=["forward"])
    net = Times()
    net.w.data = torch.ones(1)
    debugger.start(net)
    net(torch.ones(1)).backward()
    debugger.stop()
    debugger.step()
    found = header(tmp_path)
    assert found["run"]["grafted"]["skipped"] == 1
    assert [item["part"] for item in found["missing"]] == ["graft"]
    assert "shape" in found["missing"][0]["cause"]


def test_the_training_is_announced_as_changed(times, grafted, caplog):
    with caplog.at_level(logging.WARNING):
        run_once(grafted(times, calls=["Torch.mul.1"]))
    assert any("CHANGES THIS TRAINING" in each.getMessage() for each in caplog.records)
