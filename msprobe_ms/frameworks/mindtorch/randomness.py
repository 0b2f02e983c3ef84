"""Random numbers of PyTorch's API on MindSpore."""

from msprobe.frameworks.mindspore import randomness
from msprobe.frameworks.torch_settings import RANDOM_FUNCTIONS


class Random(randomness.Random):
    """The generators of MindSpore, and the functions of PyTorch's API."""

    functions = RANDOM_FUNCTIONS


CAPABILITY = Random()
