"""A training with PyTorch whose layers, functions and saves are given odd values goes on as without the debugger."""

import pytest

torch = pytest.importorskip("torch", reason="its trainings are what is collected here")

from odd import ODD  # noqa: E402  # beside this file, which is no package
from torch import nn  # noqa: E402
