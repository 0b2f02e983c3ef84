"""Statistics of MindSpore's tensors, computed on their device."""

from collections.abc import Iterable

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, mint, ops

from msprobe.base.statistic import Array
from msprobe.frameworks.interface import OF_NOTHING

from .executors import api
from .reading import DEVICES

_WIDE = mindspore.float32


class Statistics:
    """Statistics of MindSpore's tensors."""

    def is_on_device(self, parameters: Iterable[Parameter]) -> bool:
        return mindspore.get_context("device_target") in DEVICES

    def of(self, tensor: Tensor, eps: float) -> Tensor:
        with api._no_grad():
            wide = tensor.astype(_WIDE).reshape(-1)
            if not wide.size:
                return Tensor(OF_NOTHING, _WIDE)
            size = float(wide.size)
            nans = mint.sum((wide != wide).astype(_WIDE))
            low, high = (  # kernels differ in whether an extreme is NaN if an element is
                ops.where(nans > 0, float("nan"), each.reshape(())) for each in (mint.min(wide), mint.max(wide))
            )
            numbers = (
                mint.sqrt(mint.sum(mint.square(wide))),
                low,
                high,
                mint.sum((mint.abs(wide) < eps).astype(_WIDE)) / size,
                nans,
                mint.mean(wide),
            )
            return ops.stack([each.reshape(()) for each in numbers])

    def copied(self, tensor: Tensor) -> Tensor:
        with api._no_grad():
            return tensor.astype(_WIDE).copy()

    def total(self, copy: Tensor, tensor: Tensor) -> Tensor:
        with api._no_grad():
            return copy + tensor.astype(_WIDE)

    def difference(self, tensor: Tensor, copy: Tensor) -> Tensor:
        with api._no_grad():
            return tensor.astype(_WIDE) - copy

    def same_sign(self, a: Tensor, b: Tensor) -> Tensor:
        with api._no_grad():
            return (mint.sign(a.astype(_WIDE)) == mint.sign(b.astype(_WIDE))).astype(_WIDE)

    def fetch(self, pending: list[Tensor]) -> Array:
        with api._no_grad():
            return np.asarray(ops.stack(pending).asnumpy(), np.float64)


CAPABILITY = Statistics()
