"""What refers to a function of the layer may be pickled while its calls are collected, wherever it stands."""

import pickle
from operator import attrgetter

import pytest

msadapter = pytest.importorskip("msadapter", reason="the layer is not before everything else here")

import torch  # noqa: E402  # the layer's

from msprobe.frameworks.mindtorch.functions import functions  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.mindtorch]

PROTOCOL = 2  # that of torch.save
SHOWN = ("nn.functional.gelu", "nn.functional.relu", "relu", "cat", "Tensor.sum")


def test_every_function_loads_as_what_it_would_have_been_without_us(unpickled_alike):
    places = [(owner, name) for owner, name, _ in functions()]
    assert len(places) > 500
    unpickled_alike(places, torch.nn.ReLU(), PROTOCOL)


@pytest.mark.parametrize("name", SHOWN)
def test_what_users_see_loads_too(collecting, name):
    debugger = collecting()
    debugger.start(torch.nn.ReLU())
    meanwhile = attrgetter(name)(torch)
    during = pickle.dumps(meanwhile, PROTOCOL)
    debugger.stop()
    assert pickle.loads(during) is meanwhile is attrgetter(name)(torch)
