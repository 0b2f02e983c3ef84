"""Functions of MindSpore that have no kernel for a CPU, replaced by older operators.

`install` comes before the models and the debugger. A replacement takes the function's place wherever MindSpore refers
to it, so the debugger records the call under the function's own name, with the arguments of the model and with the
results; of what runs inside it records nothing, as of the original. Replaced is nothing but what cannot run otherwise.
"""

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, ops
from mindspore.mint.nn.layer import conv

F = mint.nn.functional


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False):
    rows = _gather(weight, input, 0)
    if padding_idx is not None:  # the row itself has no gradient
        padding_idx = padding_idx % weight.shape[0]
        kept = (input != padding_idx).astype(weight.dtype).expand_dims(-1)
        rows = rows * kept + ops.stop_gradient(rows) * (1 - kept)
    return rows


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    axis = input.ndim - len(normalized_shape)
    weight = ops.ones(tuple(normalized_shape), input.dtype) if weight is None else weight
    bias = ops.zeros(tuple(normalized_shape), input.dtype) if bias is None else bias
    return ops.LayerNorm(axis, axis, eps)(input, weight, bias)[0]


def gelu(input, *, approximate="none"):
    return _gelu(input, approximate)


def log_softmax(input, dim=None, dtype=None):
    return _log_softmax(input if dtype is None else input.astype(dtype), dim)


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    return _cross_entropy(input, target.astype(ms.int32), weight, ignore_index, reduction, label_smoothing)


def dropout(input, p=0.5, training=True, inplace=False):
    if training and p > 0:
        raise NotImplementedError("dropout is off in these trainings")
    return input


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    mode = padding if isinstance(padding, str) else "pad"
    return _conv2d(
        input, weight, bias, _two(stride), mode, _two(padding) if mode == "pad" else 0, _two(dilation), groups
    )


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    stride, padding, dilation = _one(stride), _one(padding), _one(dilation)
    flat = _conv2d(
        input.expand_dims(2), weight.expand_dims(2), bias, (1, stride), "pad", (0, padding), (1, dilation), groups
    )
    return flat.squeeze(2)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    return _batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def adaptive_avg_pool2d(input, output_size):
    if output_size not in (1, (1, 1), [1, 1]):
        raise NotImplementedError(f"adaptive_avg_pool2d to {output_size}")
    return input.mean((2, 3), keep_dims=True)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, *, ceil_mode=False, return_indices=False):
    return _max_pool2d(input, kernel_size, stride or kernel_size, padding, dilation, return_indices, ceil_mode)


def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    return _avg_pool2d(input, kernel_size, stride or kernel_size, padding, ceil_mode, count_include_pad)


def pad(input, pad, mode="constant", value=0.0):
    return _pad(input, list(pad), mode, value if mode == "constant" else None)


def outer(input, vec2):
    return input.expand_dims(1) * vec2.expand_dims(0)


def arange(start=0, end=None, step=1, *, dtype=None):
    start, end = (0, start) if end is None else (start, end)
    values = [v.item() if isinstance(v, Tensor) else v for v in (start, end, step)]
    is_float = any(isinstance(v, float) for v in values)
    return Tensor(np.arange(*values), dtype or (ms.float32 if is_float else ms.int64))


def full(size, fill_value, *, dtype=None):
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    size = (size,) if isinstance(size, int) else tuple(size)
    kind = dtype or {bool: ms.bool_, int: ms.int64, float: ms.float32}[type(fill_value)]
    return Tensor(np.full(size, fill_value), kind)


def full_like(input, fill_value, *, dtype=None):
    return Tensor(np.full(input.shape, fill_value), dtype or input.dtype)


def zeros_like(input, *, dtype=None):
    return Tensor(np.zeros(input.shape), dtype or input.dtype)


def ones_like(input, *, dtype=None):
    return Tensor(np.ones(input.shape), dtype or input.dtype)


def tril(input, diagonal=0):
    return _tril(input, diagonal)


def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    product = _batch_matmul(batch1, batch2)
    product = product * alpha if alpha != 1 else product
    return input * beta + product if beta != 0 else product


def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    product = _matmul(mat1, mat2)
    product = product * alpha if alpha != 1 else product
    return (input * beta if beta != 1 else input) + product


def einsum(equation, *operands):
    """Of two operands, each letter once in each; or a permutation."""
    operands = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    terms, result = equation.replace(" ", "").split("->")
    if len(operands) == 1:
        return operands[0].permute(tuple(terms.index(letter) for letter in result))
    left, right = terms.split(",")
    letters = result + "".join(sorted(set(left + right) - set(result)))
    product = _aligned(operands[0], left, letters) * _aligned(operands[1], right, letters)
    summed = tuple(range(len(result), len(letters)))
    return product.sum(summed) if summed else product


def roll(input, shifts, dims=None):
    return _roll(input, shifts, dims)


def stack(tensors, dim=0):
    return _stack(tensors, dim)


def norm(input, p="fro", dim=None, keepdim=False, *, dtype=None):
    squares = input * input
    return (squares.sum() if dim is None else squares.sum(dim, keepdims=keepdim)).sqrt()


def normalize(input, p=2.0, dim=1, eps=1e-12):
    length = (input * input).sum(dim, keepdims=True).sqrt()
    return input / ops.maximum(length, Tensor(eps, input.dtype))


def argmax(input, dim=None, keepdim=False):
    return _argmax(input, dim, keepdim).astype(ms.int64)


def cumsum(input, dim, *, dtype=None):
    return _cumsum(input if dtype is None else input.astype(dtype), dim)


def repeat_interleave(input, repeats, dim=None, *, output_size=None):
    return _repeat_interleave(input, repeats, dim)


def relu6(input, inplace=False):
    return _relu6(input)


def mse_loss(input, target, reduction="mean"):
    squares = (input - target) * (input - target)
    return squares if reduction == "none" else getattr(squares, reduction)()


def one_hot(tensor, num_classes=-1):
    return Tensor(np.eye(num_classes)[tensor.asnumpy()], ms.int64)


def topk(input, k, dim=-1, largest=True, sorted=True):
    return _topk(input, k, dim, largest, sorted)


def index_select(input, dim, index):
    return _gather(input, index, dim)


def masked_fill_in_place(self, mask, value):
    """As Tensor.masked_fill_; no gradient goes through it in these models."""
    self.set_data(ops.masked_fill(self, mask, Tensor(value, self.dtype)))
    return self


def repeat(self, *repeats):
    repeats = repeats[0] if len(repeats) == 1 and isinstance(repeats[0], (list, tuple)) else repeats
    return _tile(self, tuple(repeats))


# The older operators, taken before a debugger could record them.
_gather, _gelu, _log_softmax, _cross_entropy = ops.gather, ops.gelu, ops.log_softmax, ops.cross_entropy
_max_pool2d, _avg_pool2d, _pad, _tril, _roll = ops.max_pool2d, ops.avg_pool2d, ops.pad, ops.tril, ops.roll
_batch_matmul, _matmul, _stack, _argmax, _cumsum = ops.bmm, ops.matmul, ops.stack, ops.argmax, ops.cumsum
_repeat_interleave, _relu6, _topk, _tile, _batch_norm = (
    ops.repeat_interleave,
    ops.relu6,
    ops.topk,
    ops.tile,
    ops.batch_norm,
)
_conv2d, _rsqrt = ops.conv2d, ops.rsqrt


def rms_norm(x, gamma, epsilon=1e-6):
    reciprocal = _rsqrt((x * x).mean(-1, keep_dims=True) + epsilon)
    return x * reciprocal * gamma, reciprocal


def randn(*size, dtype=None):
    size = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
    return Tensor(np.random.standard_normal(size), dtype or ms.float32)


def rand(*size, dtype=None):
    size = size[0] if len(size) == 1 and isinstance(size[0], (list, tuple)) else size
    return Tensor(np.random.random_sample(size), dtype or ms.float32)


def clone(self):
    return _tile(self, (1,) * self.ndim)


class Conv2d(ops.Primitive):
    """The primitive of `mint.nn.Conv2d`, recorded as a call of it."""

    def __init__(self):
        super().__init__("Conv2DExt")

    def __call__(self, *arguments):
        return conv2d(*arguments)


class Conv1d(ops.Primitive):
    """The primitive of `mint.nn.Conv1d`, recorded as a call of it."""

    def __init__(self):
        super().__init__("Conv1DExt")

    def __call__(self, *arguments):
        return conv1d(*arguments)


FUNCTIONS = {
    ops: (rms_norm,),
    mint: (
        *(arange, argmax, addmm, baddbmm, cumsum, einsum, full, full_like, index_select, norm, ones_like, outer),
        *(rand, randn),
        *(repeat_interleave, roll, stack, topk, tril, zeros_like),
    ),
    F: (
        *(adaptive_avg_pool2d, avg_pool2d, batch_norm, conv1d, conv2d, cross_entropy, dropout, embedding, gelu),
        *(layer_norm, log_softmax, max_pool2d, mse_loss, normalize, one_hot, pad, relu6),
    ),
}
METHODS = {"masked_fill_": masked_fill_in_place, "repeat": repeat, "clone": clone}
PRIMITIVES = {
    **{name: Conv2d for name in ("conv2d_ext_op", "conv2d_padding_op")},
    **{name: Conv1d for name in ("conv1d_ext_op", "conv1d_padding_op")},
}


def install():
    """Put every replacement in its place."""
    for module, functions in FUNCTIONS.items():
        for function in functions:
            _replace(getattr(module, function.__name__), function)
            function.__module__ = module.__name__
    for name, function in METHODS.items():
        function.__name__ = name
        setattr(Tensor, name, function)

    for name, primitive in PRIMITIVES.items():
        if name in vars(conv):
            setattr(conv, name, primitive())


def _replace(old, new):
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "mindspore" and module is not None:
            for attribute, value in list(vars(module).items()):
                if value is old:
                    setattr(module, attribute, new)


def _aligned(tensor, own, letters):
    tensor = tensor.permute(tuple(own.index(letter) for letter in letters if letter in own))
    for axis, letter in enumerate(letters):
        if letter not in own:
            tensor = tensor.expand_dims(axis)
    return tensor


def _one(value):
    return value[0] if isinstance(value, (list, tuple)) else value


def _two(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value, value)
