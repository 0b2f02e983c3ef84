"""Settings of PyTorch."""

from typing import Any

import torch

from msprobe.frameworks.torch_settings import torch_settings


class Environment:
    """Settings of PyTorch."""

    def settings(self) -> dict[str, Any]:
        return torch_settings(torch)


CAPABILITY = Environment()
