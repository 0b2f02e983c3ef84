"""Second runs of functions of PyTorch's API on MindSpore, whose tensors and execution are MindSpore's.

To be imported where `torch_on_mindspore()` holds, for it imports `torch`.
"""

from typing import Any

from mindspore import Tensor

from msprobe.cell_dump.backends.mindtorch.framework import FRAMEWORK
from msprobe.perturb.finding import Stage

from .mindspore import MindSpore

_SPACES = {"Functional": "torch.nn.functional", "Tensor": "torch.Tensor", "NPU": "torch_npu"}


class MindTorch(MindSpore):
    """The layer's functions, by PyTorch's names.

    Forward only: the layer's own recording of gradients is always on, and what ours would do to it was not tested.
    """

    stages = (Stage.FORWARD,)

    framework = FRAMEWORK

    @classmethod
    def public_name(cls, owner: Any, name: str, stem: str) -> str:
        prefix = stem.partition(".")[0]
        if owner is Tensor or prefix in _SPACES:
            return f"{_SPACES.get(prefix, 'torch.Tensor')}.{name}"
        inner = getattr(owner, "__name__", "").rpartition(".")[2]
        return f"torch.{inner}.{name}" if inner in ("linalg", "fft", "special") else f"torch.{name}"
