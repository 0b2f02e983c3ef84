"""References for losses by class, written out: in PyTorch the weights of the classes have no derivative."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

Tensor = Any


def cross_entropy(x: Tensor, target: Tensor, weight: Tensor = None, *args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's, without the arguments that it deprecates."""
    told = _loss_options(args, kwargs)
    smoothing = told.pop("label_smoothing", 0.0)
    if weight is None or target.is_floating_point():
        return functional.cross_entropy(x, target, weight, label_smoothing=smoothing, **told)
    axis = 1 if x.dim() > 1 else 0
    log_p = torch.log_softmax(x, axis)
    picked = nll_loss(log_p, target, weight, **told)
    if not smoothing:
        return picked
    shape = [-1 if i == axis else 1 for i in range(x.dim())]
    ignored = target == told.get("ignore_index", -100)
    uniform = (-(log_p * weight.reshape(shape)).sum(axis)).masked_fill(ignored, 0.0) / x.shape[axis]
    weights = weight[target.masked_fill(ignored, 0)].masked_fill(ignored, 0.0)
    return (1 - smoothing) * picked + smoothing * _reduced(uniform, weights, told.get("reduction", "mean"))


def nll_loss(log_p: Tensor, target: Tensor, weight: Tensor = None, *args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's, written out, for there the weight has no derivative; a mean is weighted."""
    told = _loss_options(args, kwargs)
    axis = 1 if log_p.dim() > 1 else 0
    ignored = target == told.get("ignore_index", -100)
    safe = target.masked_fill(ignored, 0)
    weights = torch.ones(log_p.shape[axis], dtype=torch.float64) if weight is None else weight
    of_targets = weights[safe].masked_fill(ignored, 0.0)
    loss = -log_p.gather(axis, safe.unsqueeze(axis)).squeeze(axis) * of_targets
    return _reduced(loss, of_targets, told.get("reduction", "mean"))


def _loss_options(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = ("size_average", "ignore_index", "reduce", "reduction", "label_smoothing")
    told = dict(zip(names, args, strict=False)) | dict(kwargs)
    return {key: value for key, value in told.items() if key not in ("size_average", "reduce") and value is not None}


def _reduced(loss: Tensor, weights: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    return loss.sum() / weights.sum() if reduction == "mean" else loss.sum()
