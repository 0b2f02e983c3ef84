"""Harmless rewrites: another way to compute the same, put into the golden side's program.

A rewrite replaces names that a net's module uses (`ops`, `nn`), so that the module makes other calls and returns the
same values but for rounding. The target keeps the program as it is, with its fault.
"""

import types

from mindspore import nn, ops

TUNING = ("split", "norm", "plus0", "mask", "signature")
HELD_OUT = ("softmax", "slices", "extra")
REWRITES = TUNING + HELD_OUT


def apply(module: types.ModuleType, rewrite: str) -> None:
    """Let a net's module compute by another program; ValueError for a rewrite that is not known."""
    if rewrite not in REWRITES:
        raise ValueError(f"unknown rewrite {rewrite!r}; known are {', '.join(REWRITES)}")
    functions, layers = _FUNCTIONS.get(rewrite, {}), _LAYERS.get(rewrite, {})
    if functions:
        module.ops = _Replacing(ops, functions)
    if layers:
        module.nn = _Replacing(nn, layers)


class _Replacing:
    """A module in which some names are replaced; the others are looked up when they are used, as a debugger replaces
    them while it collects."""

    def __init__(self, module, replaced):
        self._module, self._replaced = module, replaced

    def __getattr__(self, name):
        return self._replaced.get(name) or getattr(self._module, name)


class _Split(nn.Dense):
    """A layer whose outputs are computed in two halves."""

    def construct(self, x):
        half = self.out_channels // 2
        parts = []
        for begin, size in ((0, half), (half, self.out_channels - half)):
            part = ops.matmul(x, ops.swapaxes(ops.narrow(self.weight, 0, begin, size), 0, 1))
            parts.append(part + ops.narrow(self.bias, 0, begin, size) if self.has_bias else part)
        return ops.concat(parts, -1)


class _PlusZero(nn.Dense):
    """A layer whose weight goes through an addition of zero."""

    def construct(self, x):
        out = ops.matmul(x, ops.swapaxes(self.weight + 0.0, 0, 1))
        return out + self.bias if self.has_bias else out


class _WrittenOut(nn.LayerNorm):
    """A layer norm as its formula."""

    def construct(self, x):
        centered = x - ops.mean(x, -1, True)
        variance = ops.mean(centered * centered, -1, True)
        return centered * ops.rsqrt(variance + self.epsilon) * self.gamma + self.beta


def _named(layer, name):
    """The layer under the name of the class that it replaces: cells are called by their class."""
    return type(name, (layer,), {})


def _rsqrt(x):
    return ops.div(1.0, ops.sqrt(x))


def _masked_fill(x, mask, value):
    return ops.where(mask, ops.full_like(x, value), x)


def _where(condition, x, y):
    keep = condition.astype(x.dtype)
    return x * keep + y * (1 - keep)


def _softmax_by_keyword(x, axis=-1):
    return ops.softmax(x, axis=axis)


def _mean_by_keyword(x, axis=None, keep_dims=False):
    return ops.mean(x, axis=axis, keep_dims=keep_dims)


def _reshape_by_keyword(x, shape):
    return ops.reshape(x, shape=shape)


def _softmax_written_out(x, axis=-1):
    powers = ops.exp(x - ops.stop_gradient(ops.amax(x, axis, True)))
    return ops.div(powers, ops.sum(powers, axis, True))


def _split_by_slices(x, size, axis=0):
    axis = axis % x.ndim
    return tuple(ops.narrow(x, axis, at, size) for at in range(0, x.shape[axis], size))


def _unbind_by_slices(x, dim=0):
    return tuple(x[at] for at in range(x.shape[0])) if dim == 0 else ops.unbind(x, dim)


def _matmul_with_more(a, b):
    return ops.reshape(ops.matmul(a * 1.0, b), (*a.shape[:-1], b.shape[-1]))


def _square_with_more(x):
    ops.mean(x)  # a value that nothing uses
    return ops.square(x)


_FUNCTIONS = {
    "norm": {"rsqrt": _rsqrt},
    "mask": {"masked_fill": _masked_fill, "where": _where},
    "signature": {"softmax": _softmax_by_keyword, "mean": _mean_by_keyword, "reshape": _reshape_by_keyword},
    "softmax": {"softmax": _softmax_written_out},
    "slices": {"split": _split_by_slices, "unbind": _unbind_by_slices},
    "extra": {"matmul": _matmul_with_more, "square": _square_with_more},
}

_LAYERS = {
    "split": {"Dense": _named(_Split, "Dense")},
    "plus0": {"Dense": _named(_PlusZero, "Dense")},
    "norm": {"LayerNorm": _named(_WrittenOut, "LayerNorm")},
}
