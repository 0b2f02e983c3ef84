"""The configuration that `monitor compare` writes collects, in each framework, what the answer is about."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import mindspore as ms
import numpy as np
import pytest
import torch
import torch.distributed as dist
from mindspore import nn as ms_nn

from msprobe.cli import main

STEPS, FAULTY = 8, 5
ACTIVATIONS = {"xy_distribution": True, "wg_distribution": True}
GRADIENTS = {"wg_distribution": True}


class Faulty(torch.nn.Module):
    """A module whose backward is wrong while `is_wrong`."""

    is_wrong = False

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x)
        if self.is_wrong:
            y.register_hook(lambda gradient: gradient * 1.5)
        return y


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.o, self.prenorm = Faulty(), torch.nn.LayerNorm(4)

    def forward(self, x):
        return self.o(self.prenorm(x))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.i, self.layers = torch.nn.Linear(4, 4), torch.nn.ModuleList(Block() for _ in range(2))
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x):
        x = self.i(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


@contextmanager
def one_rank(tmp_path):
    dist.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meeting{np.random.bytes(4).hex()}", rank=0, world_size=1
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def replicated(net):
    return torch.nn.parallel.DistributedDataParallel(net)


pytestmark = [
    pytest.mark.mindspore,
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
    pytest.mark.part(3),
]  # torch.compile's


def compiled_blocks(net):
    net.layers[1].o.linear = torch.compile(net.layers[1].o.linear, backend="eager")
    return net


WRAPPED = {
    "plain": lambda net: net,
    "replicated": replicated,
    "compiled": lambda net: torch.compile(net, backend="eager"),
    "compiled inside": compiled_blocks,
}


def train_torch(folder, is_wrong, monitored=None, wrapped="plain", config=None, v2=None):
    """One training with PyTorch, monitored or dumped."""
    from msprobe.core.monitor_v2.trainer import TrainerMonitorV2
    from msprobe.pytorch import PrecisionDebugger, TrainerMon

    torch.manual_seed(0)
    net = Net()
    model = WRAPPED[wrapped](net)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    watching = SimpleNamespace(stop=lambda: None)
    if monitored is not None:
        watching = TrainerMon(monitored)
        watching.set_monitor(model, optimizer)
    if v2 is not None:
        watching = TrainerMonitorV2(v2)
        watching.start(model, optimizer)
    debugger = PrecisionDebugger(config_path=str(config), dump_path=str(folder)) if config else None
    for step in range(STEPS):
        net.layers[1].o.is_wrong = is_wrong and step >= FAULTY
        if debugger:
            debugger.start(model=model)
        torch.manual_seed(100 + step)
        model(torch.randn(3, 4)).square().mean().backward()
        if debugger:
            debugger.stop()
            debugger.step()
        optimizer.step()
        optimizer.zero_grad()
    watching.stop()


class MsFaulty(ms_nn.Cell):
    is_wrong = False

    def __init__(self):
        super().__init__()
        self.linear = ms_nn.Dense(4, 4)

    def construct(self, x):
        y = self.linear(x)
        return y * 1.5 - ms.ops.stop_gradient(y * 0.5) if self.is_wrong else y


class MsBlock(ms_nn.Cell):
    def __init__(self):
        super().__init__()
        self.o, self.prenorm = MsFaulty(), ms_nn.LayerNorm((4,))

    def construct(self, x):
        return self.o(self.prenorm(x))


class MsNet(ms_nn.Cell):
    def __init__(self):
        super().__init__()
        self.i, self.layers = ms_nn.Dense(4, 4), ms_nn.CellList([MsBlock() for _ in range(2)])
        self.head = ms_nn.Dense(4, 2)

    def construct(self, x):
        x = self.i(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def train_mindspore(folder, is_wrong, monitored=None, wrapped="plain", config=None, v2=None):
    """The same training with MindSpore."""
    from msprobe.core.monitor_v2.trainer import TrainerMonitorV2
    from msprobe.mindspore import PrecisionDebugger, TrainerMon

    assert wrapped == "plain"
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net = MsNet()
    rng = np.random.default_rng(0)
    for parameter in net.get_parameters():
        parameter.set_data(ms.Tensor(rng.normal(0, 0.5, parameter.shape).astype(np.float32)))
    net.set_train()
    optimizer = ms_nn.SGD(net.trainable_params(), 0.05)
    gradient = ms.value_and_grad(lambda x: net(x).square().mean(), None, optimizer.parameters)
    watching = SimpleNamespace(stop=lambda: None)
    if monitored is not None:
        watching = TrainerMon(monitored)
        watching.set_monitor(net, optimizer)
    if v2 is not None:
        watching = TrainerMonitorV2(v2)
        watching.start(net, optimizer)
    debugger = PrecisionDebugger(config_path=str(config), dump_path=str(folder)) if config else None
    for step in range(STEPS):
        net.layers[1].o.is_wrong = is_wrong and step >= FAULTY
        if debugger:
            debugger.start(net)
        x = ms.Tensor(np.random.default_rng(100 + step).standard_normal((3, 4)).astype(np.float32))
        _, gradients = gradient(x)
        if debugger:
            debugger.stop()
            debugger.step()
        optimizer(gradients)
    watching.stop()


TRAIN = {"pytorch": train_torch, "mindspore": train_mindspore}


def advised(train, tmp_path, monkeypatch, settings, wrapped="plain", form="v1"):
    """Both trainings monitored and compared: the object of monitor_compare.json."""
    for side, is_wrong in (("a", True), ("b", False)):
        path = tmp_path / f"{side}.json"
        if form == "v1":
            monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / side))
            path.write_text(json.dumps({"step_count_per_record": STEPS, **settings}))
            train(None, is_wrong, monitored=path, wrapped=wrapped)
        else:
            monitors = {"module": {"enabled": True}, "weight_grad": {"enabled": True}}
            path.write_text(json.dumps({"output_dir": str(tmp_path / side), "monitors": monitors}))
            train(None, is_wrong, v2=path, wrapped=wrapped)
    sides = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(["monitor", "compare", *sides, "-o", str(tmp_path / "found")]) == 1
    return json.loads((tmp_path / "found" / "monitor_compare.json").read_text())


def collected(train, tmp_path, wrapped="plain"):
    """Both trainings with the configuration that was written; the names of the records of each side."""
    names = []
    for side, is_wrong in (("a", True), ("b", False)):
        train(tmp_path / f"dump_{side}", is_wrong, wrapped=wrapped, config=tmp_path / "found" / "next_dump.json")
        (path,) = (tmp_path / f"dump_{side}").rglob("dump.json")
        assert path.parent.parent.name == f"step{FAULTY}"
        names.append(list(json.loads(path.read_text())["data"]))
    return names


@pytest.mark.parametrize("form", ["v1", "v2"])
@pytest.mark.parametrize("settings", [ACTIVATIONS, GRADIENTS], ids=["activations", "gradients"])
@pytest.mark.parametrize("framework", TRAIN)
def test_the_advice_collects_records_of_the_module_and_their_comparison_names_the_fault(
    framework, settings, form, tmp_path, monkeypatch, capsys
):
    if form == "v2" and settings is GRADIENTS:
        settings = ACTIVATIONS
    train = TRAIN[framework]
    found = advised(train, tmp_path, monkeypatch, settings, form=form)
    first = found["findings"][0]
    assert first["place"]["step"] == FAULTY
    assert first["fields"]["modules"][0].startswith("layers.1.o")
    (pattern, *_) = found["details"]["next_dump"]["tensor"]["list"]
    for names in collected(train, tmp_path):
        assert any("layers.1.o" in name and name.startswith(("Cell.", "Module.")) for name in names)
        assert not any("layers.0." in name or ".i." in name for name in names), pattern
    assert main(["compare", *(str(tmp_path / f"dump_{side}") for side in "ab"), "-o", str(tmp_path / "out")]) == 1
    capsys.readouterr()


@pytest.mark.parametrize(
    ("wrapped", "settings"),
    [*((name, GRADIENTS) for name in WRAPPED if name != "plain"), ("replicated", ACTIVATIONS)],
)
def test_the_advice_fits_a_training_that_is_wrapped_otherwise(wrapped, settings, tmp_path, monkeypatch):
    """The monitor was given the wrapped model, the debugger is given it too, or the model itself."""
    with one_rank(tmp_path):
        found = advised(train_torch, tmp_path, monkeypatch, settings, wrapped)
        assert "layers.1.o" in found["findings"][0]["fields"]["modules"][0]
        for given in (wrapped, "plain"):
            (tmp_path / given).mkdir()
            (tmp_path / given / "found").symlink_to(tmp_path / "found")
            for names in collected(train_torch, tmp_path / given, given):
                assert any("layers.1.o" in name for name in names), (given, names)
                assert not any("layers.0." in name for name in names)
