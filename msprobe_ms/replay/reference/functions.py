"""References that PyTorch has no function for, or one with other arguments; everything in torch.

`OF_PYTORCH` replaces PyTorch's function of that plain name; `OWN` is named by the rows of `own`. A function
with a parameter `recorded` gets the shape and dtype of the first recorded output.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

from . import attention, indexing, optimizers, routing
from .indexing import Recorded

Tensor = Any


def cross_entropy(x: Tensor, target: Tensor, weight: Tensor = None, *args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's function, without deprecated arguments."""
    options = _loss_options(args, kwargs)
    smoothing = options.pop("label_smoothing", 0.0)
    if weight is None or target.is_floating_point():
        return functional.cross_entropy(x, target, weight, label_smoothing=smoothing, **options)
    axis = 1 if x.dim() > 1 else 0
    log_p = torch.log_softmax(x, axis)
    picked = nll_loss(log_p, target, weight, **options)
    if not smoothing:
        return picked
    shape = [-1 if i == axis else 1 for i in range(x.dim())]
    ignored = target == options.get("ignore_index", -100)
    uniform = (-(log_p * weight.reshape(shape)).sum(axis)).masked_fill(ignored, 0.0) / x.shape[axis]
    weights = weight[target.masked_fill(ignored, 0)].masked_fill(ignored, 0.0)
    return (1 - smoothing) * picked + smoothing * _reduced(uniform, weights, options.get("reduction", "mean"))


def nll_loss(log_p: Tensor, target: Tensor, weight: Tensor = None, *args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's function, by its formula, because its weight has no derivative there; a mean is weighted."""
    options = _loss_options(args, kwargs)
    axis = 1 if log_p.dim() > 1 else 0
    ignored = target == options.get("ignore_index", -100)
    safe = target.masked_fill(ignored, 0)
    weights = torch.ones(log_p.shape[axis], dtype=torch.float64) if weight is None else weight
    of_targets = weights[safe].masked_fill(ignored, 0.0)
    loss = -log_p.gather(axis, safe.unsqueeze(axis)).squeeze(axis) * of_targets
    return _reduced(loss, of_targets, options.get("reduction", "mean"))


def _loss_options(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = ("size_average", "ignore_index", "reduce", "reduction", "label_smoothing")
    options = dict(zip(names, args, strict=False)) | dict(kwargs)
    return {key: value for key, value in options.items() if key not in ("size_average", "reduce") and value is not None}


def _reduced(loss: Tensor, weights: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    return loss.sum() / weights.sum() if reduction == "mean" else loss.sum()


def cast(x: Tensor, *_: Any, recorded: Recorded, **__: Any) -> Tensor:
    """x in the recorded dtype; float64 for a floating one, because only results are rounded."""
    if "float" in recorded.dtype:
        return x.double() if not x.is_floating_point() else x.clone()
    if recorded.dtype == "bool":
        return x != 0
    return x.to(getattr(torch, recorded.dtype))


def created(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return a function that makes constants, in float64."""

    def make(*args: Any, recorded: Recorded, **kwargs: Any) -> Tensor:
        kwargs = {key: value for key, value in kwargs.items() if key not in ("dtype", "requires_grad")}
        args = tuple(each for each in args if not isinstance(each, torch.dtype))
        dtype = torch.float64 if "float" in recorded.dtype else getattr(torch, recorded.dtype)
        return function(*args, dtype=dtype, **kwargs)

    return make


def identity(x: Tensor, *_: Any, **__: Any) -> Tensor:
    """x."""
    return x.clone()


def shape_of(x: Tensor) -> tuple[Tensor, ...]:
    """Return the length of each axis."""
    return tuple(torch.tensor(length) for length in x.shape)


def to_recorded_shape(x: Tensor, *_: Any, recorded: Recorded, **__: Any) -> Tensor:
    """x in the shape that was recorded, which holds for any argument of a reshape."""
    return x.reshape(recorded.shape)


def batch_norm(
    x: Tensor,
    running_mean: Tensor = None,
    running_var: Tensor = None,
    weight: Tensor = None,
    bias: Tensor = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """y = (x - mean) / sqrt(var + eps) * weight + bias; the running statistics are not changed."""
    axes = [0, *range(2, x.dim())]
    shape = [1, -1, *([1] * (x.dim() - 2))]
    if training or running_mean is None:
        mean, var = x.mean(axes), x.var(axes, correction=0)
    else:
        mean, var = running_mean, running_var
    y = (x - mean.reshape(shape)) * torch.rsqrt(var + eps).reshape(shape)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def rms_norm(x: Tensor, weight: Tensor = None, eps: float = 1e-6, axes: Any = None) -> tuple[Tensor, Tensor]:
    """y = x / sqrt(mean(x^2) + eps) * weight and 1 / sqrt(mean(x^2) + eps), over axes which default to the weight's."""
    if axes is None:
        axes = list(range(-weight.dim(), 0)) if weight is not None else [-1]
    inverse = torch.rsqrt(x.square().mean(axes, keepdim=True) + eps)
    y = x * inverse
    return (y if weight is None else y * weight), inverse


def torch_rms_norm(x: Tensor, normalized_shape: Any = None, weight: Tensor = None, eps: Any = None) -> Tensor:
    """`rms_norm` with PyTorch's arguments: without eps that of float32."""
    axes = list(range(-len(tuple(normalized_shape)), 0))
    return rms_norm(x, weight, 2.0**-23 if eps is None else eps, axes)[0]


def add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    """`rms_norm` of a sum, and the sum."""
    y, inverse = rms_norm(x1 + x2, gamma, epsilon)
    return y, inverse, x1 + x2


def add_layer_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor, epsilon: float = 1e-5, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Layer norm of a sum, its mean and inverse deviation, and the sum."""
    x = x1 + x2
    mean = x.mean(-1, keepdim=True)
    inverse = torch.rsqrt(x.var(-1, keepdim=True, correction=0) + epsilon)
    return functional.layer_norm(x, gamma.shape, gamma, beta, epsilon), mean, inverse, x


def swiglu(x: Tensor, dim: int = -1) -> Tensor:
    """silu(a) * b for the halves a and b of x."""
    a, b = x.chunk(2, dim)
    return functional.silu(a) * b


def fast_gelu(x: Tensor) -> Tensor:
    """x * sigmoid(1.702 x)."""
    return x * torch.sigmoid(1.702 * x)


def bias_add(x: Tensor, bias: Tensor, data_format: str = "NCHW") -> Tensor:
    """Return the bias along axis 1, or along the last for NHWC."""
    shape = [1] * x.dim()
    shape[-1 if data_format == "NHWC" else 1] = -1
    return x + bias.reshape(shape)


def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """A convolution with the axes of the weight; `padding` may be a (before, after) for each axis."""
    axes = weight.dim() - 2
    if weight.dim() == 4 and x.dim() == 3:  # MindSpore's Conv1d
        weight, axes = weight.squeeze(2), 1
    if isinstance(padding, (tuple, list)) and padding and isinstance(padding[0], (tuple, list)):
        x, padding = _padded(x, padding), 0
    function = (functional.conv1d, functional.conv2d, functional.conv3d)[axes - 1]
    return function(x, weight, bias, stride, padding, dilation, groups)


def layer_norm(x: Tensor, gamma: Tensor = None, beta: Tensor = None, eps: float = 1e-5) -> tuple[Tensor, ...]:
    """Layer norm over the axes of gamma, with mean and variance."""
    axes = list(range(-gamma.dim(), 0))
    mean, var = x.mean(axes, keepdim=True), x.var(axes, keepdim=True, correction=0)
    return functional.layer_norm(x, tuple(gamma.shape), gamma, beta, eps), mean, var


def _padded(x: Tensor, padding: Sequence[Sequence[int]], value: float = 0.0) -> Tensor:
    """x with (before, after) of its last axes."""
    return functional.pad(x, [n for pair in reversed(padding) for n in pair], value=value)


def max_pool(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[Sequence[int]], ceil_mode: bool = False
) -> Tensor:
    """Return the maximum of each window; padding is never one."""
    function = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[len(kernel) - 1]
    return function(_padded(x, padding, -math.inf), list(kernel), list(stride), ceil_mode=ceil_mode)


def avg_pool(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[Sequence[int]],
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window, with or without the padding."""
    function: Any = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[len(kernel) - 1]
    pooled = function(_padded(x, padding), list(kernel), list(stride))
    if count_include_pad:
        return pooled
    return pooled / function(_padded(torch.ones_like(x), padding), list(kernel), list(stride))


def adaptive_avg_pool(x: Tensor, *_: Any, recorded: Recorded, **__: Any) -> Tensor:
    """The mean of each window, of which there is one for each output element."""
    functions = (functional.adaptive_avg_pool1d, functional.adaptive_avg_pool2d, functional.adaptive_avg_pool3d)
    function: Any = functions[x.dim() - 3]
    return function(x, recorded.shape[2:])


def nan_to_num(x: Tensor, nan: Any = 0.0, posinf: Any = None, neginf: Any = None, *, recorded: Recorded) -> Tensor:
    """Infinities become the greatest numbers of the recorded dtype by default."""
    limit = torch.finfo(getattr(torch, recorded.dtype)).max
    posinf, neginf = limit if posinf is None else posinf, -limit if neginf is None else neginf
    return torch.nan_to_num(x, nan, posinf, neginf)


def hinge_embedding_loss(x: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's function; targets are 1 or -1, also when inputs are changed slightly."""
    return functional.hinge_embedding_loss(x, target.round(), *args, **kwargs)


def cosine_embedding_loss(x1: Tensor, x2: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """PyTorch's function, with the same targets."""
    return functional.cosine_embedding_loss(x1, x2, target.round(), *args, **kwargs)


def lstm_layer(
    x: Tensor, h: Tensor, c: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor = None, b_hh: Tensor = None
) -> tuple[Tensor, ...]:
    """One layer of an LSTM over x of shape [time, batch, features]; gates in PyTorch's order i, f, g, o."""
    found = []
    for row in x.unbind(0):
        gates = functional.linear(row, w_ih, b_ih) + functional.linear(h, w_hh, b_hh)
        i, f, g, o = gates.chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        found.append(h)
    return torch.stack(found), h, c


def dynamic_lstm(
    x: Tensor, state: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor = None, b_hh: Tensor = None
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """`lstm_layer` with the arguments of MindSpore's inner cell."""
    y, h, c = lstm_layer(x, state[0], state[1], w_ih, w_hh, b_ih, b_hh)
    return y, (h.unsqueeze(0), c.unsqueeze(0))


def einsum(equation: str, *operands: Any) -> Tensor:
    """`torch.einsum`; operands as one list or separate arguments."""
    is_list = len(operands) == 1 and isinstance(operands[0], (tuple, list))
    return torch.einsum(equation, *(operands[0] if is_list else operands))


def _named(function: str) -> Any:
    return getattr(functional, function, None) or getattr(torch, function)


def activated_linear(x: Tensor, weight: Tensor, bias: Tensor = None, *, function: str, **options: Any) -> Tensor:
    """Return an activation of x weight^T + bias."""
    return _named(function)(functional.linear(x, weight, bias), **options)


_RENAMED: Mapping[str, Callable[..., Any]] = {
    "matmul": lambda a, b, transpose_a=False, transpose_b=False: torch.matmul(
        a.mT if transpose_a else a, b.mT if transpose_b else b
    ),
    "linear": lambda x, weight, bias=None: functional.linear(x, weight, bias),
    "group_norm": lambda x, gamma, beta, groups, eps=1e-5: functional.group_norm(x, groups, gamma, beta, eps),
    "concatenated": lambda tensors, *_, axis=0: torch.cat(list(tensors), axis),
    "stacked": lambda tensors, axis=0: torch.stack(list(tensors), axis),
    "split_evenly": lambda x, axis=0, count=1: tuple(torch.chunk(x, count, axis)),
    "applied": lambda x, function, **options: _named(function)(x, **options),
}
"""Functions of PyTorch by the arguments of `own`; `applied` is any function of one tensor with options."""

OWN: Mapping[str, Callable[..., Any]] = {
    **{
        name: function
        for module in (attention, indexing, optimizers, routing, sys.modules[__name__])
        for name, function in vars(module).items()
        if getattr(function, "__module__", "") == module.__name__
    },
    **_RENAMED,
}

_CASTS = "to type float half double bfloat16 long int short byte bool type_as cast"
_CREATE = """
    zeros ones full arange eye linspace zeros_like ones_like full_like tril_indices triu_indices logspace
    bartlett_window blackman_window hamming_window hann_window kaiser_window
"""

OF_PYTORCH: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(_CASTS.split(), cast),
    **dict.fromkeys(("reshape", "view", "reshape_as", "view_as"), to_recorded_shape),
    **dict.fromkeys(("contiguous", "identity", "clone", "detach", "dropout"), identity),
    **{name: created(getattr(torch, name)) for name in _CREATE.split()},
    **{name: created(getattr(torch.Tensor, name)) for name in ("new_zeros", "new_ones", "new_full")},
    "setitem": indexing.setitem,
    "getitem": indexing.getitem,
    "batch_norm": batch_norm,
    "rms_norm": torch_rms_norm,
    "npu_rms_norm": rms_norm,
    "npu_add_rms_norm": add_rms_norm,
    "npu_add_layer_norm": add_layer_norm,
    "npu_swiglu": swiglu,
    "npu_fast_gelu": fast_gelu,
    "npu_rotary_mul": attention.rotary,
    "npu_apply_rotary_pos_emb": attention.rotary_pair,
    "npu_moe_token_permute": routing.moe_token_permute,
    "npu_moe_token_unpermute": routing.moe_token_unpermute,
    "npu_moe_gating_top_k_softmax": routing.moe_gating_top_k_softmax,
    "npu_moe_finalize_routing": routing.moe_finalize_routing,
    "npu_grouped_matmul": routing.npu_grouped_matmul,
    "cross_entropy": cross_entropy,
    "hinge_embedding_loss": hinge_embedding_loss,
    "cosine_embedding_loss": cosine_embedding_loss,
    "nll_loss": nll_loss,
    "nan_to_num": nan_to_num,
    "embedding": indexing.embedding,
    "index_select": indexing.index_select,
    "scaled_dot_product_attention": attention.attention,
    "npu_fusion_attention": attention.npu_fusion_attention,
    "einsum": einsum,
}
