"""References for fused optimizers: one update of one parameter, from what the kernel receives to what it returns.

Adam: Kingma and Ba 2015, algorithm 1; with decoupled weight decay: Loshchilov and Hutter 2019, algorithm 2; Adamax:
Kingma and Ba, algorithm 2; momentum: Sutskever et al. 2013; RMSprop: Hinton, lecture 6e, with momentum. Where kernels
differ in the place of epsilon or of the bias correction, the formula is that of the kernel's page in MindSpore 2.10.
"""

from typing import Any

import torch

Tensor = Any


def adam(
    var: Tensor,
    m: Tensor,
    v: Tensor,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    eps: Any,
    gradient: Tensor,
    nesterov: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Primitive `Adam`: var - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + eps), and the new moments."""
    m, v = _moments(m, v, beta1, beta2, gradient)
    rate = lr * (1 - beta2_power) ** 0.5 / (1 - beta1_power)
    step = beta1 * m + (1 - beta1) * gradient if nesterov else m
    return var - rate * step / (v.sqrt() + eps), m, v


def adam_weight_decay(
    var: Tensor, m: Tensor, v: Tensor, lr: Any, beta1: Any, beta2: Any, eps: Any, decay: Any, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Primitive `AdamWeightDecay`: var - lr (m / (sqrt(v) + eps) + decay var), without bias correction."""
    m, v = _moments(m, v, beta1, beta2, gradient)
    return var - lr * (m / (v.sqrt() + eps) + decay * var), m, v


def adam_w(
    var: Tensor,
    m: Tensor,
    v: Tensor,
    max_v: Tensor,
    gradient: Tensor,
    step: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    decay: Any,
    eps: Any,
    amsgrad: bool = False,
    maximize: bool = False,
    ahead: int = 0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Primitive `AdamW`: var (1 - lr decay) - lr m' / (sqrt(v') + eps), with m', v' corrected for t = step + ahead."""
    gradient = -gradient if maximize else gradient
    m, v = _moments(m, v, beta1, beta2, gradient)
    t = step + ahead
    corrected = v / (1 - beta2**t)
    if amsgrad:
        corrected = torch.maximum(max_v, corrected)
    return var * (1 - lr * decay) - lr * (m / (1 - beta1**t)) / (corrected.sqrt() + eps), m, v


def adamax(
    var: Tensor, m: Tensor, v: Tensor, beta1_power: Any, lr: Any, beta1: Any, beta2: Any, eps: Any, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Primitive `ApplyAdaMax`: var - lr / (1 - beta1^t) m / (v + eps), where v = max(beta2 v, |g|)."""
    m = beta1 * m + (1 - beta1) * gradient
    v = torch.maximum(beta2 * v, gradient.abs())
    return var - lr / (1 - beta1_power) * m / (v + eps), m, v


def momentum(
    var: Tensor, accumulation: Tensor, lr: Any, gradient: Tensor, momentum: Any, nesterov: bool = False
) -> Tensor:
    """Primitive `ApplyMomentum`: var - lr a, a = momentum accumulation + g; by Nesterov var - lr (g + momentum a)."""
    a = momentum * accumulation + gradient
    return var - lr * (gradient + momentum * a if nesterov else a)


def sgd(
    var: Tensor,
    gradient: Tensor,
    lr: Any,
    accumulation: Tensor,
    momentum: Any,
    stat: Tensor,
    nesterov: bool = False,
) -> Tensor:
    """Primitive `SGD` without dampening and weight decay; where `stat` is positive, nothing was accumulated yet."""
    a = torch.where(stat > 0, gradient, momentum * accumulation + gradient)
    moved = gradient + momentum * a if nesterov else a
    return var - lr * torch.where(torch.as_tensor(momentum) > 0, moved, gradient)


def rmsprop(
    var: Tensor, mean_square: Tensor, moment: Tensor, lr: Any, gradient: Tensor, decay: Any, momentum: Any, eps: Any
) -> Tensor:
    """Primitive `ApplyRMSProp`: var - (momentum moment + lr g / sqrt(s + eps)), where s = decay s + (1 - decay) g^2."""
    s = decay * mean_square + (1 - decay) * gradient.square()
    return var - (momentum * moment + lr * gradient / (s + eps).sqrt())


def _moments(m: Tensor, v: Tensor, beta1: Any, beta2: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
    return beta1 * m + (1 - beta1) * gradient, beta2 * v + (1 - beta2) * gradient.square()
