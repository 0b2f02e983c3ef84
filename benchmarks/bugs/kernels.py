"""Kernels in NumPy that stand below MindSpore's calls: another order of sums, or inputs rounded to fewer bits.

Each is an autograd function of its own, so forward and backward are both computed here, and the debugger, which
records the call around it, sees nothing but other last bits.
"""

import zlib
from dataclasses import dataclass

import mindspore
import numpy as np
from mindspore import Tensor

KEPT_BITS = {"bf16": 7, "tf32": 10}


@dataclass(frozen=True)
class Inside:
    """How a call computes inside: `order` of its sums (see `pieces`), `precision` of a product's inputs."""

    order: str = ""
    precision: str = ""

    def rounded(self, array):
        """The array as the products see it, still float32."""
        if self.precision == "fp16":
            return array.astype(np.float16).astype(np.float32)
        if not self.precision:
            return array
        dropped = np.uint32(23 - KEPT_BITS[self.precision])
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        half = np.uint32((1 << (int(dropped) - 1)) - 1) + ((bits >> dropped) & np.uint32(1))
        return (((bits + half) >> dropped) << dropped).view(np.float32)

    def pieces(self, count):
        """The index sets into which a sum over `count` terms is cut, in the order in which they are added."""
        if self.order == "reversed":
            return [np.arange(count)[::-1][at : at + 3] for at in range(0, count, 3)]
        if self.order == "strided":
            width = min(4, count)
            return [np.arange(start, count, width) for start in range(width)]
        if self.order == "shuffled":
            mixed = np.random.default_rng(zlib.crc32(b"order") + count).permutation(count)
            return [mixed[at : at + 5] for at in range(0, count, 5)]
        return [np.arange(count)]

    def product(self, a, b):
        """a @ b of float32, with inputs rounded and the sum in pieces."""
        a, b = self.rounded(a), self.rounded(b)
        total = None
        for piece in self.pieces(a.shape[-1]):
            part = np.matmul(a[..., piece], b[..., piece, :], dtype=np.float32)
            total = part if total is None else total + part
        return total

    def total(self, array, axes, keep=False):
        """The sum over axes, in pieces of the flattened axes."""
        axes = tuple(axis % array.ndim for axis in axes)
        rest = [axis for axis in range(array.ndim) if axis not in axes]
        flat = np.transpose(array, (*rest, *axes)).reshape([array.shape[axis] for axis in rest] + [-1])
        total = np.zeros(flat.shape[:-1], np.float32)
        for piece in self.pieces(flat.shape[-1]):
            part = np.zeros_like(total)
            for at in piece:
                part = part + flat[..., at]
            total = total + part
        return total.reshape([1 if axis in axes else n for axis, n in enumerate(array.shape)]) if keep else total


def _numpy(tensor):
    return tensor.asnumpy()


def _needed(ctx, *gradients):
    """The gradients as tensors; None where nothing leads to a parameter, as the framework's own kernels do."""
    return [Tensor(g) if needed else None for g, needed in zip(gradients, ctx.needed, strict=True)]


def _swapped(array):
    return np.swapaxes(array, -1, -2)


class MatMul(mindspore._Function):
    """a @ b, either of them transposed; the second may be a matrix beside a batch of the first."""

    @staticmethod
    def forward(ctx, a, b, first, second, inside, needed=(True, True)):
        ctx.save_for_backward(a, b)
        ctx.needed = needed
        ctx.how = first, second, inside
        a, b = _numpy(a), _numpy(b)
        return Tensor(inside.product(_swapped(a) if first else a, _swapped(b) if second else b))

    @staticmethod
    def backward(ctx, grad):
        a, b = map(_numpy, ctx.saved_tensors)
        first, second, inside = ctx.how
        a, b, grad = (_swapped(a) if first else a), (_swapped(b) if second else b), _numpy(grad)
        of_a = inside.product(grad, _swapped(b))
        if b.ndim == 2 and a.ndim > 2:
            of_b = inside.product(a.reshape(-1, a.shape[-1]).T, grad.reshape(-1, grad.shape[-1]))
        else:
            of_b = inside.product(_swapped(a), grad)
        of_a, of_b = (_swapped(of_a) if first else of_a), (_swapped(of_b) if second else of_b)
        return *_needed(ctx, of_a, of_b), *[None] * 4


class Conv2D(mindspore._Function):
    """A convolution of NCHW with equal padding on all sides, as a product of unfolded pictures."""

    @staticmethod
    def forward(ctx, x, w, stride, padding, inside, needed=(True, True)):
        ctx.save_for_backward(x, w)
        ctx.needed = needed
        ctx.how = stride, padding, inside
        x, w = _numpy(x), _numpy(w)
        columns, (height, width) = _unfolded(x, w.shape[2:], stride, padding)
        out = inside.product(columns, w.reshape(w.shape[0], -1).T)
        return Tensor(np.ascontiguousarray(out.reshape(x.shape[0], height, width, -1).transpose(0, 3, 1, 2)))

    @staticmethod
    def backward(ctx, grad):
        x, w = map(_numpy, ctx.saved_tensors)
        stride, padding, inside = ctx.how
        columns, _ = _unfolded(x, w.shape[2:], stride, padding)
        rows = _numpy(grad).transpose(0, 2, 3, 1).reshape(-1, w.shape[0])
        of_w = inside.product(rows.T, columns.reshape(rows.shape[0], -1)).reshape(w.shape)
        spread = inside.product(rows, w.reshape(w.shape[0], -1))
        return *_needed(ctx, _folded(spread, x.shape, w.shape[2:], stride, padding), of_w), *[None] * 4


def _windows(shape, kernel, stride, padding):
    height, width = ((n + 2 * padding - k) // stride + 1 for n, k in zip(shape[2:], kernel, strict=True))
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            yield row, column, slice(row, row + stride * height, stride), slice(column, column + stride * width, stride)


def _unfolded(x, kernel, stride, padding):
    padded = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    parts = [padded[:, :, rows, columns] for _, _, rows, columns in _windows(x.shape, kernel, stride, padding)]
    stacked = np.stack(parts, 2).transpose(0, 3, 4, 1, 2)  # batch, height, width, channel, place in the kernel
    return stacked.reshape(*stacked.shape[:3], -1), stacked.shape[1:3]


def _folded(spread, shape, kernel, stride, padding):
    padded = np.zeros((*shape[:2], shape[2] + 2 * padding, shape[3] + 2 * padding), np.float32)
    windows = list(_windows(shape, kernel, stride, padding))
    _, _, rows, columns = windows[0]
    height, width = len(range(*rows.indices(padded.shape[2]))), len(range(*columns.indices(padded.shape[3])))
    parts = spread.reshape(shape[0], height, width, shape[1], -1).transpose(4, 0, 3, 1, 2)
    for part, (_, _, rows, columns) in zip(parts, windows, strict=True):
        padded[:, :, rows, columns] += part
    end = -padding or None
    return np.ascontiguousarray(padded[:, :, padding:end, padding:end])


class Sum(mindspore._Function):
    """The sum over axes, divided by `over`."""

    @staticmethod
    def forward(ctx, x, axes, keep, over, inside):
        ctx.how = x.shape, axes, over
        total = inside.total(_numpy(x), axes, keep)
        return Tensor(np.asarray(total / np.float32(over), np.float32))

    @staticmethod
    def backward(ctx, grad):
        shape, axes, over = ctx.how
        kept = [1 if axis in {a % len(shape) for a in axes} else n for axis, n in enumerate(shape)]
        spread = np.broadcast_to(_numpy(grad).reshape(kept) / np.float32(over), shape)
        return Tensor(np.ascontiguousarray(spread, np.float32)), None, None, None, None


class Softmax(mindspore._Function):
    """Softmax over one axis."""

    @staticmethod
    def forward(ctx, x, axis, inside):
        x = _numpy(x)
        powers = np.exp(x - x.max(axis, keepdims=True))
        out = powers / inside.total(powers, (axis,), keep=True)
        ctx.how = out, axis, inside
        return Tensor(out)

    @staticmethod
    def backward(ctx, grad):
        out, axis, inside = ctx.how
        grad = _numpy(grad)
        return Tensor(out * (grad - inside.total(grad * out, (axis,), keep=True))), None, None


class LayerNorm(mindspore._Function):
    """LayerNorm over the last axis; gives mean and variance too, as the primitive does."""

    @staticmethod
    def forward(ctx, x, gamma, beta, epsilon, inside):
        x, count = _numpy(x), np.float32(x.shape[-1])
        mean = inside.total(x, (-1,), keep=True) / count
        variance = inside.total(np.square(x - mean), (-1,), keep=True) / count
        factor = np.float32(1) / np.sqrt(variance + np.float32(epsilon))
        normal = (x - mean) * factor
        ctx.how = normal, factor, _numpy(gamma), inside
        return Tensor(normal * _numpy(gamma) + _numpy(beta)), Tensor(mean), Tensor(variance)

    @staticmethod
    def backward(ctx, grad, *_):
        normal, factor, gamma, inside = ctx.how
        grad, count = _numpy(grad), np.float32(normal.shape[-1])
        scaled, rows = grad * gamma, tuple(range(grad.ndim - 1))
        first = inside.total(scaled, (-1,), keep=True) / count
        second = inside.total(scaled * normal, (-1,), keep=True) / count
        of_x = factor * (scaled - first - normal * second)
        return Tensor(of_x), Tensor(inside.total(grad * normal, rows)), Tensor(inside.total(grad, rows)), None, None


class BatchNorm(mindspore._Function):
    """The first output of BatchNorm over NCHW in training mode."""

    @staticmethod
    def forward(ctx, x, gamma, beta, epsilon, inside):
        x, axes = _numpy(x), (0, 2, 3)
        count = np.float32(x.size / x.shape[1])
        mean = inside.total(x, axes, keep=True) / count
        variance = inside.total(np.square(x - mean), axes, keep=True) / count
        factor = np.float32(1) / np.sqrt(variance + np.float32(epsilon))
        normal = (x - mean) * factor
        gamma, beta = (_numpy(p).reshape(1, -1, 1, 1) for p in (gamma, beta))
        ctx.how = normal, factor, gamma, inside
        return Tensor(normal * gamma + beta)

    @staticmethod
    def backward(ctx, grad):
        normal, factor, gamma, inside = ctx.how
        grad, axes = _numpy(grad), (0, 2, 3)
        count = np.float32(grad.size / grad.shape[1])
        of_gamma, of_beta = inside.total(grad * normal, axes, keep=True), inside.total(grad, axes, keep=True)
        of_x = gamma * factor * (grad - of_beta / count - normal * of_gamma / count)
        return Tensor(of_x), Tensor(of_gamma.reshape(-1)), Tensor(of_beta.reshape(-1)), None, None
