"""What refers to a function of PyTorch may be pickled while its calls are collected: a whole model by `torch.save`."""

import io
import pickle
import subprocess
import sys

import pytest
import torch

from msprobe.frameworks.pytorch.functions import functions

pytestmark = pytest.mark.torch


class Net(torch.nn.Module):
    """Keeps functions, as many models do."""

    def __init__(self):
        super().__init__()
        self.act = torch.nn.functional.gelu
        self.acts = {"relu": torch.nn.functional.relu, "sum": torch.Tensor.sum}

    def forward(self, x):
        return self.acts["sum"](self.acts["relu"](self.act(x)))


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])  # 2 is that of torch.save
def test_every_function_loads_as_what_it_would_have_been_without_us(unpickled_alike, protocol):
    places = [(owner, name) for owner, name, _ in functions()]
    assert len(places) > 1000
    assert unpickled_alike(places, torch.nn.ReLU(), protocol) < 50


def test_a_whole_model_is_saved_and_loaded(collecting):
    debugger = collecting()
    model = Net()
    debugger.start(model)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    meanwhile = torch.load(file, weights_only=False)
    assert meanwhile.act is torch.nn.functional.gelu
    debugger.stop()
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert loaded.act is torch.nn.functional.gelu
    assert loaded.acts == {"relu": torch.nn.functional.relu, "sum": torch.Tensor.sum}
    assert loaded(torch.tensor([-100.0, 0.0, 100.0])) == 100


def test_a_process_without_us_has_the_functions_of_the_framework(collecting):
    debugger = collecting()
    debugger.start(torch.nn.ReLU())
    held = pickle.dumps([torch.nn.functional.gelu, torch.Tensor.sum, torch.conv2d, torch.linalg.norm])
    debugger.stop()
    script = (
        "import pickle, sys; held = pickle.load(sys.stdin.buffer); import torch;"
        "print(held == [torch.nn.functional.gelu, torch.Tensor.sum, torch.conv2d, torch.linalg.norm],"
        "'msprobe' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], input=held, capture_output=True, check=True)
    assert done.stdout.decode().split() == ["True", "False"]
