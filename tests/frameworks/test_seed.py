"""`seed_all`: the arguments that it refuses. `tests/frameworks/mindspore/test_seed.py` tests its effect."""

import os
import random

import pytest

from msprobe.base.errors import SettingsError
from msprobe.frameworks.mindspore.seed import seed_all


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed is -1; pass an integer from 0 to 4294967295"),
        ({"seed": 2**32}, "seed is 4294967296; pass an integer from 0 to 4294967295"),
        ({"seed": True}, "seed is True; pass an integer"),
        ({"seed": 1.0}, "seed is 1.0; pass an integer"),
        ({"seed": "1"}, "seed is '1'; pass an integer"),
        ({"seed": None}, "seed is None; pass an integer"),
        ({"mode": "ON"}, "mode is 'ON'; choose True, False, or None"),
        ({"mode": 1}, "mode is 1; choose True, False, or None"),
        ({"rm_dropout": None}, "rm_dropout is None; choose True or False"),
        ({"rm_dropout": 0}, "rm_dropout is 0; choose True or False"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_before_anything_is_seeded(arguments, message):
    before = random.getstate(), dict(os.environ)
    with pytest.raises(SettingsError) as caught:
        seed_all(**arguments)
    assert str(caught.value).startswith("seed_all: ")
    assert message in str(caught.value)
    assert (random.getstate(), dict(os.environ)) == before
