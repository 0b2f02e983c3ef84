"""Gradients with PyTorch's API on MindSpore."""

from collections.abc import Callable, Sequence
from typing import Any

from mindspore import Tensor

from msprobe.base.errors import UsageError
from msprobe.frameworks.mindspore import gradients


class Gradients(gradients.Gradients):
    """Gradients of MindSpore. Those of one call are not available: computing them ends the recording of gradients,
    which is always on with this layer.
    """

    can_repeat = False

    def vector_jacobian(
        self, function: Callable[..., Any], inputs: Sequence[Tensor], incoming: Sequence[Tensor]
    ) -> Sequence[Tensor]:
        raise UsageError("gradients of one call are not available with PyTorch's API on MindSpore")


CAPABILITY = Gradients()
