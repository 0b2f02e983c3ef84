"""What a user can see besides the training's numbers is as without the debugger: modes, states, warnings."""

import contextlib
import json
import warnings

import numpy as np
import pytest
import torch
from states import PYTHON_SETTINGS, python_state
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.torch


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(getattr(function, "__name__", str(function)))
        return function(*args, **(kwargs or {}))


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(str(function))
        return function(*args, **(kwargs or {}))


class Net(nn.Module):
    """Values of many kinds: huge ones, bfloat16, complex, strided, empty, shared, integers, a double use."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2)

    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        x = self.last(x).to(torch.bfloat16).t().float()
        huge = torch.full((3,), 3e38) * torch.tensor([1.0, 10.0, float("nan")])
        wave = torch.fft.fft(x.detach().double())
        torch.cat([huge, huge * 0]).half()
        torch.arange(5).sum() + torch.empty(0).sum()
        return x + x * wave.real.float() + wave.conj().imag.float()


def step(net, x, debugger=None):
    net.zero_grad(set_to_none=True)
    if debugger is not None:
        debugger.start(net)
    out = net(x)
    (out * out).sum().backward()
    if debugger is not None:
        debugger.stop()
        debugger.step()
    return [parameter.grad.tolist() for parameter in net.parameters()]


@pytest.fixture
def net():
    torch.manual_seed(1)
    return Net()


X = torch.linspace(-1, 1, 15).reshape(5, 3)


@pytest.mark.parametrize("dispatch", [False, True])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_users_mode_sees_the_training_alone(level, task, dispatch, collecting, dumped, net):
    if dispatch and level == "L0":
        pytest.skip("dispatch is for levels L1 and mix")
    debugger = collecting({"task": task, "level": level, "dispatch": dispatch, task: {}}, level=level)
    step(net, X)  # from here on every gradient has been there once
    for kind in (Functions, Operations):
        with kind() as bare:
            step(net, X)
        with kind() as mode:
            step(net, X, debugger)
        assert mode.seen == bare.seen
        assert len(bare.seen) > 10
    calls = [set(dumped(debugger, number).names) for number in (0, 1)]
    assert calls[0] == calls[1]
    assert len(calls[0]) > 5


def state():
    """Everything of the process that a training may have set."""
    return {
        **python_state(),
        "torch": torch.get_rng_state().tolist(),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "deterministic": (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,
        ),
        "threads": (torch.get_num_threads(), torch.get_float32_matmul_precision()),
        "anomaly": (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
    }


@contextlib.contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    yield
    torch.set_default_dtype(before)


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


SETTINGS = {
    **PYTHON_SETTINGS,
    "default dtype": lambda: default_dtype(torch.float64),
    "device": lambda: torch.device("cpu"),
    "deterministic": deterministic,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_the_user_change_neither_the_dump_nor_by_it(name, collecting, dumped, net):
    """Under each setting the dump holds everything, the gradients have the same bits, and no state is another."""
    debugger = collecting({"task": "tensor", "tensor": {}})
    with SETTINGS[name]():
        bare = step(net, X)
        before = state()
        collected = step(net, X, debugger)
        assert state() == before
    assert collected == bare
    dump = dumped(debugger)
    assert dump.missing == []
    assert len([name for name in dump.names if "forward" in name]) > 20
    assert len([name for name in dump.names if "backward" in name]) > 5
    text = json.dumps(dump.data)
    parts = ('"positive_inf_count": ', '"nan_count": ', "torch.complex128", "torch.bfloat16")
    assert all(part in text for part in parts)


def test_hooks_of_ours_bring_no_warning_of_the_framework(collecting, dumped, net):
    """It warns where a hooked module's inputs need no gradient; a warning that is an error would end the backward."""
    debugger = collecting({"task": "statistics", "gradients": "hooks"})
    filters = list(warnings.filters)
    with PYTHON_SETTINGS["warnings are errors"]():
        step(net, X)
        step(net, X, debugger)
        assert "Module.first.Linear.backward.0" in dumped(debugger).names
        own = net.first.register_full_backward_hook(lambda *_: None)
        for hooked in (None, debugger):  # for hooks of the user the warning stays
            with pytest.raises(UserWarning, match="no inputs require gradients"):
                step(net, X, hooked)
        own.remove()
        debugger.stop()
    assert warnings.filters == filters
    assert torch.utils.hooks.warnings is warnings


def test_numpy_that_raises_changes_no_record(collecting, dumped, net):
    both = [collecting(), collecting()]
    for debugger, manner in zip(both, ("warn", "raise"), strict=True):
        with np.errstate(all=manner), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step(net, X, debugger)
    one, other = (dumped(debugger).data for debugger in both)
    assert json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
