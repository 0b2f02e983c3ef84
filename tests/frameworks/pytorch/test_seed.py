"""`seed_all` for PyTorch: equal numbers, deterministic operators, no dropout."""

import os
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from msprobe.base.errors import SettingsError
from msprobe.frameworks.pytorch.seed import restore_dropout
from msprobe.pytorch import seed_all

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    monkeypatch.setenv("HCCL_DETERMINISTIC", "")
    cudnn = torch.backends.cudnn
    before = torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark, cudnn.enabled
    yield
    restore_dropout()
    torch.use_deterministic_algorithms(before[0])
    _, cudnn.deterministic, cudnn.benchmark, cudnn.enabled = before


def drawn():
    return random.random(), np.random.rand(), torch.rand(1).item()


def test_the_same_seed_gives_the_same_numbers():
    seed_all(7, mode=None)
    first = drawn()
    seed_all(7, mode=None)
    assert drawn() == first
    seed_all(8, mode=None)
    assert all(a != b for a, b in zip(drawn(), first, strict=True))
    seed_all(2**32 - 1, mode=None)


@pytest.mark.parametrize("mode", [True, False])
def test_mode_switches_deterministic_operators(mode):
    seed_all(mode=not mode)
    seed_all(mode=mode)
    assert torch.are_deterministic_algorithms_enabled() is mode
    assert os.environ["HCCL_DETERMINISTIC"] == str(mode), "collectives of NPUs, as in msprobe"
    seed_all(mode=None)
    assert torch.are_deterministic_algorithms_enabled() is mode
    assert os.environ["HCCL_DETERMINISTIC"] == str(mode)


@pytest.mark.parametrize("mode", [True, False])
def test_cudnn_is_deterministic_in_both_modes_as_the_reference_documents(mode):
    cudnn = torch.backends.cudnn
    cudnn.deterministic, cudnn.benchmark = False, True
    seed_all(mode=mode)
    assert (cudnn.deterministic, cudnn.benchmark, cudnn.enabled) == (True, False, True)


def test_mode_none_leaves_every_flag_of_determinism_alone():
    cudnn = torch.backends.cudnn
    for flags in [(False, True), (True, False)]:
        cudnn.deterministic, cudnn.benchmark = flags
        seed_all(mode=None)
        assert (cudnn.deterministic, cudnn.benchmark) == flags


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Dropout(0.5), nn.Dropout1d(0.5), nn.AlphaDropout(0.5), nn.Dropout2d(0.9)])
        self.attend = nn.MultiheadAttention(8, 2, dropout=0.9, batch_first=True)

    def forward(self, x):
        for layer in self.layers[:3]:
            x = layer(x)
        x = self.layers[3](x.unsqueeze(0))[0]
        x = F.scaled_dot_product_attention(x, x, x, None, 0.9) + F.dropout(x, 0.9, training=True)
        return self.attend(x, x, x)[0]


def test_no_dropout_is_left_and_no_random_number_is_drawn_for_it():
    torch.manual_seed(0)
    net, x = Dropping(), torch.ones(2, 3, 8)
    assert not torch.equal(net(x), net.eval()(x)), "there is something to remove"
    wanted = F.scaled_dot_product_attention(x, x, x) + x
    wanted = net.attend(wanted, wanted, wanted)[0]
    net.train()
    seed_all(1, rm_dropout=True)
    before = torch.get_rng_state()
    torch.testing.assert_close(net(x), wanted)
    assert torch.equal(torch.get_rng_state(), before)
    lstm = nn.LSTM(4, 4, num_layers=2, dropout=0.9)
    assert torch.equal(lstm(torch.ones(2, 1, 4))[0], lstm(torch.ones(2, 1, 4))[0])
    seed_all(1)
    restore_dropout()
    assert F.dropout(torch.ones(100), 0.5).eq(0).any()


def test_dropout_stays_when_it_is_not_to_be_removed():
    seed_all(1, rm_dropout=False)
    assert F.dropout(torch.ones(100), 0.5).eq(0).any()


def test_removed_dropout_is_recorded_under_its_name(collecting, dumped):
    seed_all(1)
    debugger, x = collecting(level="L1"), torch.ones(4)
    debugger.start()
    F.dropout(x, 0.5)
    debugger.stop()
    debugger.step()
    entry = dumped(debugger).data["Functional.dropout.0.forward"]
    assert entry["output"][0]["Norm"] == entry["input_args"][0]["Norm"]


@pytest.mark.parametrize(
    "arguments", [{"seed": -1}, {"seed": True}, {"seed": 2**32}, {"mode": 1}, {"rm_dropout": None}]
)
def test_a_value_that_does_not_fit_is_refused(arguments):
    with pytest.raises(SettingsError, match="seed_all: "):
        seed_all(**arguments)
