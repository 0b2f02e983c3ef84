"""References that PyTorch has no function of its own for, or only one with other arguments; everything in torch.

`OF_PYTORCH` stands in place of PyTorch's function of that plain name; `OWN` is named by the rows of `own.py`.
`recorded` is what the record says of the first output: its shape and dtype.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

Tensor = Any


@dataclass(frozen=True)
class Recorded:
    """Shape and dtype (`float32`) of the first output as recorded."""

    shape: tuple[int, ...]
    dtype: str


def cast(x: Tensor, *_: Any, recorded: Recorded, **__: Any) -> Tensor:
    """x in the recorded dtype; float64 where that is a floating one, for rounding comes last."""
    if "float" in recorded.dtype:
        return x.double() if not x.is_floating_point() else x.clone()
    if recorded.dtype == "bool":
        return x != 0
    return x.to(getattr(torch, recorded.dtype))


def created(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function that makes constants, in float64."""

    def make(*args: Any, recorded: Recorded, **kwargs: Any) -> Tensor:
        kwargs = {key: value for key, value in kwargs.items() if key not in ("dtype", "requires_grad")}
        args = tuple(each for each in args if not isinstance(each, torch.dtype))
        dtype = torch.float64 if "float" in recorded.dtype else getattr(torch, recorded.dtype)
        return function(*args, dtype=dtype, **kwargs)

    return make


def identity(x: Tensor, *_: Any, **__: Any) -> Tensor:
    """x."""
    return x.clone()


def to_recorded_shape(x: Tensor, *_: Any, recorded: Recorded, **__: Any) -> Tensor:
    """x in the shape that was recorded, which holds for any argument of a reshape."""
    return x.reshape(recorded.shape)


def setitem(x: Tensor, index: Any, value: Any) -> Tensor:
    """x with x[index] = value."""
    made = x.clone()
    made[index] = value.to(made.dtype) if isinstance(value, torch.Tensor) else value
    return made


def getitem(x: Tensor, index: Any, *, recorded: Recorded) -> Tensor:
    """x[index]; a record does not tell the tuple (0, 1) from the list [0, 1], but its shape does."""
    try:
        found = x[index]
        if tuple(found.shape) == recorded.shape or not isinstance(index, tuple):
            return found
    except (IndexError, TypeError):
        if not isinstance(index, tuple):
            raise
    return x[list(index)]


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
    """y = (x - mean) / sqrt(var + eps) * weight + bias; the running statistics stay as they are."""
    axes = [0, *range(2, x.dim())]
    shape = [1, -1, *([1] * (x.dim() - 2))]
    if training or running_mean is None:
        mean, var = x.mean(axes), x.var(axes, correction=0)
    else:
        mean, var = running_mean, running_var
    y = (x - mean.reshape(shape)) * torch.rsqrt(var + eps).reshape(shape)
    y = y if weight is None else y * weight.reshape(shape)
    return y if bias is None else y + bias.reshape(shape)


def rms_norm(x: Tensor, weight: Tensor = None, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    """y = x / sqrt(mean(x^2) + eps) * weight over the axes of weight, and 1 / sqrt(mean(x^2) + eps)."""
    axes = list(range(-weight.dim(), 0)) if weight is not None else [-1]
    inverse = torch.rsqrt(x.square().mean(axes, keepdim=True) + eps)
    y = x * inverse
    return (y if weight is None else y * weight), inverse


def torch_rms_norm(x: Tensor, normalized_shape: Any = None, weight: Tensor = None, eps: Any = None) -> Tensor:
    """`rms_norm` with PyTorch's arguments: without eps that of float32."""
    axes = list(range(-len(tuple(normalized_shape)), 0))
    y = x * torch.rsqrt(x.square().mean(axes, keepdim=True) + (eps if eps is not None else 2.0**-23))
    return y if weight is None else y * weight


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


def rotary(x: Tensor, cos: Tensor, sin: Tensor, mode: Any = 0) -> Tensor:
    """x * cos + rotated(x) * sin: mode 0 (`half`) rotates halves of the last axis, mode 1 (`interleave`) neighbours."""
    if mode in (1, "interleave"):
        rotated = torch.stack((-x[..., 1::2], x[..., ::2]), -1).reshape(x.shape)
    else:
        a, b = x.chunk(2, -1)
        rotated = torch.cat((-b, a), -1)
    return x * cos + rotated * sin


def rotary_pair(query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, *_: Any, mode: Any = 0) -> tuple[Tensor, Tensor]:
    """`rotary` of queries and keys."""
    return rotary(query, cos, sin, mode), rotary(key, cos, sin, mode)


def bias_add(x: Tensor, bias: Tensor, data_format: str = "NCHW") -> Tensor:
    """The bias along axis 1, or along the last for NHWC."""
    shape = [1] * x.dim()
    shape[-1 if data_format == "NHWC" else 1] = -1
    return x + bias.reshape(shape)


def matmul(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """a @ b, either transposed in its last two axes."""
    return torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)


def linear(x: Tensor, weight: Tensor, bias: Tensor = None) -> Tensor:
    """x @ weight^T + bias."""
    return functional.linear(x, weight, bias)


def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """A convolution of as many axes as the weight has; `padding` may be a (before, after) for each axis."""
    axes = weight.dim() - 2
    if x.dim() != weight.dim() and weight.dim() == 4 and x.dim() == 3:  # MindSpore's Conv1d
        x, weight, axes = x, weight.squeeze(2), 1
    if isinstance(padding, (tuple, list)) and padding and isinstance(padding[0], (tuple, list)):
        x = functional.pad(x, [n for pair in reversed(padding) for n in pair])
        padding = 0
    function = (functional.conv1d, functional.conv2d, functional.conv3d)[axes - 1]
    return function(x, weight, bias, stride, padding, dilation, groups)


def layer_norm(x: Tensor, gamma: Tensor = None, beta: Tensor = None, eps: float = 1e-5) -> tuple[Tensor, ...]:
    """Layer norm over the axes of gamma, with mean and variance."""
    axes = list(range(-gamma.dim(), 0))
    mean, var = x.mean(axes, keepdim=True), x.var(axes, keepdim=True, correction=0)
    return functional.layer_norm(x, tuple(gamma.shape), gamma, beta, eps), mean, var


def group_norm(x: Tensor, gamma: Tensor, beta: Tensor, groups: int, eps: float = 1e-5) -> Tensor:
    """Group norm."""
    return functional.group_norm(x, groups, gamma, beta, eps)


def max_pool(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[Sequence[int]], ceil_mode: bool = False
) -> Tensor:
    """The maximum of each window; padding is never one."""
    axes = len(kernel)
    padded = functional.pad(x, [n for pair in reversed(padding) for n in pair], value=-math.inf)
    function = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[axes - 1]
    return function(padded, list(kernel), list(stride), ceil_mode=ceil_mode)


def avg_pool(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[Sequence[int]],
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window, with or without the padding."""
    axes = len(kernel)
    around = [n for pair in reversed(padding) for n in pair]
    function: Any = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[axes - 1]
    pooled = function(functional.pad(x, around), list(kernel), list(stride))
    if count_include_pad:
        return pooled
    share = function(functional.pad(torch.ones_like(x), around), list(kernel), list(stride))
    return pooled / share


def adaptive_avg_pool(x: Tensor, *_: Any, recorded: Recorded, **__: Any) -> Tensor:
    """The mean of each of as many windows as the output has."""
    axes = x.dim() - 2
    function: Any = (
        functional.adaptive_avg_pool1d,
        functional.adaptive_avg_pool2d,
        functional.adaptive_avg_pool3d,
    )[axes - 1]
    return function(x, recorded.shape[2:])


def one_hot(indices: Tensor, depth: int, on: Any = 1, off: Any = 0, axis: int = -1) -> Tensor:
    """`on` where the index stands along a new axis, else `off`; rows of an index out of range are `off`."""
    hot = indices.unsqueeze(axis) == torch.arange(depth).reshape(
        [depth if i == axis % (indices.dim() + 1) else 1 for i in range(indices.dim() + 1)]
    )
    return torch.where(hot, torch.as_tensor(on), torch.as_tensor(off))


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


def nan_to_num(x: Tensor, nan: Any = 0.0, posinf: Any = None, neginf: Any = None, *, recorded: Recorded) -> Tensor:
    """Infinities become the greatest numbers of the recorded dtype where nothing else is asked for."""
    limit = torch.finfo(getattr(torch, recorded.dtype)).max
    posinf, neginf = limit if posinf is None else posinf, -limit if neginf is None else neginf
    return torch.nan_to_num(x, nan, posinf, neginf)


def embedding(
    indices: Tensor, weight: Tensor, padding_idx: Any = None, max_norm: Any = None, *_: Any, **__: Any
) -> Any:
    """Rows of the weight; that of `padding_idx` gets no gradient."""
    if max_norm is not None:
        raise ValueError("rows are scaled in place")
    return functional.embedding(indices, weight, padding_idx)


def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Elements of an axis by an index of any shape, whose axes take its place."""
    dim = dim % max(x.dim(), 1)
    return x.index_select(dim, index.reshape(-1)).reshape(*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T scale + mask) v, written out: in float64, and differentiable twice."""
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        times = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(times, -3), value.repeat_interleave(times, -3)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.mT * scale
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    if attn_mask is not None:
        hides = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -math.inf) if hides else scores + attn_mask
    return torch.softmax(scores, -1) @ value


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    heads: int,
    real_shift: Tensor = None,
    mask: Tensor = None,
    scale: float = 1.0,
    layout: str = "BNSD",
    is_causal: bool = False,
) -> Tensor:
    """Attention in the layouts BSH, SBH, BNSD and BSND; the mask is true where nothing is attended to."""

    def inner(x: Tensor, count: int) -> Tensor:
        if layout in ("BSH", "SBH"):
            x = x.transpose(0, 1) if layout == "SBH" else x
            return x.reshape(*x.shape[:2], count, -1).transpose(1, 2)
        return x.transpose(1, 2) if layout == "BSND" else x

    of_keys = heads
    if layout in ("BSH", "SBH"):
        of_keys = key.shape[2] // (query.shape[2] // heads)
    q, k, v = inner(query, heads), inner(key, of_keys), inner(value, of_keys)
    if k.shape[1] != q.shape[1]:
        times = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    scores = q @ k.mT
    scores = (scores if real_shift is None else scores + real_shift) * scale
    if mask is not None:
        scores = scores.masked_fill(mask.bool(), -math.inf)
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    out = torch.softmax(scores, -1) @ v
    if layout in ("BSH", "SBH"):
        out = out.transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)
        return out.transpose(0, 1) if layout == "SBH" else out
    return out.transpose(1, 2) if layout == "BSND" else out


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
    """`lstm_layer` as MindSpore's inner cell has its arguments."""
    y, h, c = lstm_layer(x, state[0], state[1], w_ih, w_hh, b_ih, b_hh)
    return y, (h.unsqueeze(0), c.unsqueeze(0))


def einsum(equation: str, *operands: Any) -> Tensor:
    """`torch.einsum`; operands as one list or by themselves."""
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
    return torch.einsum(equation, *given)


def concatenated(tensors: Sequence[Tensor], *_: Any, axis: int = 0) -> Tensor:
    """The tensors along an axis."""
    return torch.cat(list(tensors), axis)


def stacked(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors along a new axis."""
    return torch.stack(list(tensors), axis)


def split_evenly(x: Tensor, axis: int = 0, count: int = 1) -> tuple[Tensor, ...]:
    """As many equal parts as there are outputs."""
    return tuple(torch.chunk(x, count, axis))


def applied(x: Tensor, function: str, **options: Any) -> Tensor:
    """A function of `torch.nn.functional` (or of `torch`) with options."""
    return getattr(functional, function, getattr(torch, function, None))(x, **options)  # type: ignore[misc]


OWN: Mapping[str, Callable[..., Any]] = {
    name: function for name, function in list(globals().items()) if getattr(function, "__module__", "") == __name__
}

OF_PYTORCH: Mapping[str, Callable[..., Any]] = {
    **{name: cast for name in ("to", "type", "float", "half", "double", "bfloat16", "long", "int", "short", "byte")},
    **{name: cast for name in ("bool", "type_as", "cast")},
    "reshape": to_recorded_shape,
    "view": to_recorded_shape,
    "reshape_as": to_recorded_shape,
    "view_as": to_recorded_shape,
    "contiguous": identity,
    "identity": identity,
    "clone": identity,
    "detach": identity,
    "dropout": identity,
    "setitem": setitem,
    "getitem": getitem,
    "batch_norm": batch_norm,
    "rms_norm": torch_rms_norm,
    "npu_rms_norm": rms_norm,
    "npu_add_rms_norm": add_rms_norm,
    "npu_add_layer_norm": add_layer_norm,
    "npu_swiglu": swiglu,
    "npu_fast_gelu": fast_gelu,
    "npu_rotary_mul": rotary,
    "npu_apply_rotary_pos_emb": rotary_pair,
    "cross_entropy": cross_entropy,
    "nll_loss": nll_loss,
    "nan_to_num": nan_to_num,
    "embedding": embedding,
    "index_select": index_select,
    "scaled_dot_product_attention": attention,
    "einsum": einsum,
    "zeros": created(torch.zeros),
    "ones": created(torch.ones),
    "full": created(torch.full),
    "arange": created(torch.arange),
    "eye": created(torch.eye),
    "linspace": created(torch.linspace),
    "zeros_like": created(torch.zeros_like),
    "ones_like": created(torch.ones_like),
    "full_like": created(torch.full_like),
    "new_zeros": created(torch.Tensor.new_zeros),
    "new_ones": created(torch.Tensor.new_ones),
    "new_full": created(torch.Tensor.new_full),
    "tril_indices": created(torch.tril_indices),
    "triu_indices": created(torch.triu_indices),
}
