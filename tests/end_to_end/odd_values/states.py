"""States of a process that are Python's and numpy's own, and settings of a user that change how they work."""

import contextlib
import random
import warnings

import numpy as np


def python_state():
    """What of the process a training may have set, whatever its framework."""
    return {
        "random": random.getstate(),
        "numpy": [part.tolist() if hasattr(part, "tolist") else part for part in np.random.get_state()],
        "seterr": np.geterr(),
        "printoptions": repr(np.get_printoptions()),
        "filters": list(warnings.filters),
    }


@contextlib.contextmanager
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@contextlib.contextmanager
def _seeded():
    random.seed(3)
    np.random.seed(3)  # the state that old code shares
    yield


PYTHON_SETTINGS = {
    "nothing": contextlib.nullcontext,
    "numpy raises": lambda: np.errstate(all="raise"),
    "warnings are errors": _warnings_are_errors,
    "numpy prints otherwise": lambda: np.printoptions(precision=1, threshold=2),
    "seeded": _seeded,
}
"""Context managers by what the user has set."""
