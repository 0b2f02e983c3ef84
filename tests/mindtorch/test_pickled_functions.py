"""What refers to a function of the layer may be pickled while its calls are collected, wherever it stands."""

import pickle
from operator import attrgetter

import pytest

msadapter = pytest.importorskip("msadapter", reason="the layer is not before everything else here")

import torch  # noqa: E402  # the layer's

from msprobe.cell_dump.mindtorch_side.api import functions  # noqa: E402

SHOWN = ("nn.functional.gelu", "nn.functional.relu", "relu", "cat", "Tensor.sum")


def pickled(function):
    """The bytes, as `torch.save` has them; None for a function that pickle refuses."""
    try:
        return pickle.dumps(function, 2)
    except Exception:  # which exception is the layer's affair
        return None


def test_every_function_loads_as_what_it_would_have_been_without_us(collecting):
    places = [(owner, name) for owner, name, _ in functions()]
    outside = [pickled(getattr(*place)) for place in places]
    debugger = collecting()
    debugger.start(torch.nn.ReLU())
    inside = [pickled(getattr(*place)) for place in places]
    debugger.stop()
    assert len(places) > 500
    for place, before, during in zip(places, outside, inside, strict=True):
        if before is not None:
            assert during is not None, place
            assert pickle.loads(during) is pickle.loads(before), place


@pytest.mark.parametrize("name", SHOWN)
def test_what_users_see_loads_too(collecting, name):
    debugger = collecting()
    debugger.start(torch.nn.ReLU())
    ours = attrgetter(name)(torch)
    during = pickled(ours)
    debugger.stop()
    assert hasattr(ours, "__wrapped__")
    assert pickle.loads(during) is attrgetter(name)(torch)
