"""What a user can see besides the training's numbers is as without the debugger: random states, modes, settings."""

import contextlib
import json

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from states import PYTHON_SETTINGS, python_state

pytestmark = pytest.mark.mindspore


class Net(nn.Cell):
    """Values of many kinds: infinite ones, half precision, integers, and numbers that are drawn."""

    def __init__(self):
        super().__init__()
        weight = Tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
        self.first = nn.Dense(3, 4, weight_init=weight, bias_init="zeros")
        self.norm, self.dropout = nn.LayerNorm((4,)), nn.Dropout(p=0.5)

    def construct(self, x):
        x = ops.relu(self.norm(self.first(x)))
        huge = Tensor([3e38] * 3, ms.float32) * Tensor([1.0, 10.0, float("nan")], ms.float32)
        ops.cast(huge, ms.float16)
        ops.arange(5).sum()
        return x * ops.standard_normal(x.shape) + ops.cast(ops.cast(x, ms.bfloat16), ms.float32)


X = Tensor(np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3))


def step(make, debugger=None):
    ms.set_seed(5)
    net = make()
    if debugger is not None:
        debugger.start(net)
    loss, gradients = ms.value_and_grad(lambda x: ops.square(net(x)).sum(), None, net.trainable_params())(X)
    if debugger is not None:
        debugger.stop()
        debugger.step()
    return [loss.asnumpy().tobytes(), *(gradient.asnumpy().tobytes() for gradient in gradients)]


CONTEXT = ("mode", "device_target", "deterministic", "pynative_synchronize", "enable_compile_cache", "save_graphs")


def state():
    """Everything of the process that a training may have set."""
    return {
        **python_state(),
        "seed": ms.get_seed(),
        "generator": (ms.initial_seed(), ms.get_rng_state().asnumpy().tolist()),
        "context": {name: ms.get_context(name) for name in CONTEXT},
        "jit": ms.get_context("jit_level"),
    }


@contextlib.contextmanager
def context(name, value):
    before = ms.get_context(name)
    ms.set_context(**{name: value})
    yield
    ms.set_context(**{name: before})


def amp(level):
    return lambda: ms.amp.auto_mixed_precision(Net(), level)


SETTINGS = {
    **{name: (manner, Net) for name, manner in PYTHON_SETTINGS.items()},
    "deterministic": (lambda: context("deterministic", "ON"), Net),
    "amp O2": (contextlib.nullcontext, amp("O2")),
    "amp auto": (contextlib.nullcontext, amp("auto")),
}


@pytest.mark.pipeline
@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_the_user_change_neither_the_dump_nor_by_it(name, collecting, dumped):
    """Under each setting the dump holds everything, the gradients have the same bits, and no state is another."""
    manner, make = SETTINGS[name]
    debugger = collecting({"task": "tensor", "level": "mix", "tensor": {}})
    with manner():
        bare = step(make)
        before = state()
        collected = step(make, debugger)
        assert state() == before
    assert collected == bare
    dump = dumped(debugger)
    assert list(dump.missing) == []
    assert len([call for call in dump.names if "forward" in call]) > 10
    assert len([call for call in dump.names if "backward" in call]) > 5
    text = json.dumps(dump.data)
    assert '"positive_inf_count": ' in text
    assert '"nan_count": ' in text


def test_the_mode_may_change_between_two_steps(collecting, dumped, tmp_path, monkeypatch):
    """PyNative, a graph, PyNative again: each step is in the dump, and the mode is the user's."""
    monkeypatch.chdir(tmp_path)
    modes = (ms.PYNATIVE_MODE, ms.GRAPH_MODE, ms.PYNATIVE_MODE)

    def train(debugger=None):
        net, seen = nn.SequentialCell(nn.Dense(3, 4, weight_init="ones", bias_init="zeros")), []
        for mode in modes:
            ms.set_context(mode=mode)
            if debugger is not None:
                debugger.start(net)
            seen.append(ms.value_and_grad(net, None, net.trainable_params())(X)[1][0].asnumpy().tobytes())
            if debugger is not None:
                debugger.stop()
                debugger.step()
            assert ms.get_context("mode") == mode
        return seen

    try:
        debugger = collecting(level="L0", task="statistics")
        assert train(debugger) == train()
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
    names = [set(dumped(debugger, number).names) for number in range(3)]
    assert all(any(".forward.0" in name for name in each) for each in names)
