"""Faulty kernels: each is a healthy function of PyTorch in which one thing is wrong, forward or backward.

A kernel stands in the place of MindSpore's function while calls are recorded: the debugger sees MindSpore's call, its
inputs, and what the faulty kernel made of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional as f

FLOAT, HALF, BRAIN = torch.float32, torch.float16, torch.bfloat16


@dataclass(frozen=True)
class Fault:
    """`healthy` is the function, `forward` what is executed in its place (given the healthy output and the inputs),
    `backward` what becomes of its gradients (given those, the incoming gradient and the inputs). `shapes` are those of
    the inputs, `numbers` further arguments; `draw` makes the inputs, else they are normal. `where` is what has to be
    called wrong."""

    name: str
    stem: str
    healthy: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    where: str
    forward: Callable[..., Any] | None = None
    backward: Callable[..., Any] | None = None
    dtype: torch.dtype = FLOAT
    numbers: tuple[Any, ...] = ()
    draw: Callable[..., Any] | None = None
    keywords: dict[str, Any] = field(default_factory=dict)


FORWARD = "forward.output.0"
FIRST, SECOND = "backward.output.0", "backward.output.1"
WEIGHT, BIAS = "backward.output.2", "backward.output.3"  # of layer_norm, whose second argument is a shape


def at(y, place, value):
    """y with one element replaced."""
    y = y.clone()
    y.view(-1)[place] = value if not callable(value) else value(y.view(-1)[place])
    return y


def of(index, change):
    """A change of one of the gradients."""
    return lambda grads, g, *x: tuple(change(each, g, *x) if i == index else each for i, each in enumerate(grads))


def half_sums(y, a, b):
    """A product whose partial sums are rounded to float16."""
    total = torch.zeros_like(y)
    for k in range(a.shape[-1]):
        total = total + a[..., k : k + 1] * b[..., k : k + 1, :]
    return total


def truncated(y, x):
    """A cast to bfloat16 that cuts bits off."""
    return (x.float().view(torch.int32) & -65536).view(torch.float32).bfloat16()


def linear_table(y, x):
    """tanh between entries of a table that are 1/16 apart."""
    low = torch.floor(x.float() * 16) / 16
    t = (x.float() - low) * 16
    return (torch.tanh(low) * (1 - t) + torch.tanh(low + 1 / 16) * t).to(y.dtype)


def integers(low, high, *shape):
    return torch.randint(low, high, shape, generator=GENERATOR)


GENERATOR = torch.Generator().manual_seed(3)


def normal(*shape):
    return torch.randn(*shape, generator=GENERATOR)


def norm(eps):
    return lambda y, x, w, b: f.layer_norm(x, x.shape[-1:], w, b, eps)


def layer_norm(x, shape, w, b, eps):
    return f.layer_norm(x, shape, w, b, eps)


def cut_last(y, *_):
    """The tail that does not fill a vector of 8 is not written."""
    flat = y.clone().view(-1)
    flat[flat.numel() // 8 * 8 :] = 0
    return flat.view(y.shape)


def restarted(y, x, dim):
    y = y.clone()
    y[1024:] -= y[1023].clone()
    return y


def unbiased(y, x, mean, var, w, b, training, momentum, eps):
    axes = (0, 2, 3)
    shape = (1, -1, 1, 1)
    scale = torch.rsqrt(x.var(axes) + eps).reshape(shape)
    return (x - x.mean(axes).reshape(shape)) * scale * w.reshape(shape) + b.reshape(shape)


def one_user(grads, g, x, w):
    """The last of the rows with one index alone leaves its gradient."""
    made = torch.zeros_like(w)
    made[x.view(-1)] = g.reshape(-1, w.shape[1])
    return (None, made)


MATRIX = ((24, 24), (24, 24))

FAULTS = [
    Fault(
        "layer_norm: eps is 1e-3",
        "MintFunctional.layer_norm",
        layer_norm,
        ((16, 32), (32,), (32,)),
        FORWARD,
        forward=lambda y, x, s, w, b, eps: f.layer_norm(x, s, w, b, 1e-3),
        numbers=((32,), 1e-5),
    ),
    Fault(
        "layer_norm: eps is 1e-6, small variance",
        "MintFunctional.layer_norm",
        layer_norm,
        ((16, 32), (32,), (32,)),
        FORWARD,
        forward=lambda y, x, s, w, b, eps: f.layer_norm(x, s, w, b, 1e-6),
        numbers=((32,), 1e-5),
        draw=lambda: (normal(16, 32) * 0.05, normal(32), normal(32)),
    ),
    Fault(
        "layer_norm: gradient of the weight misses a row",
        "MintFunctional.layer_norm",
        layer_norm,
        ((16, 32), (32,), (32,)),
        WEIGHT,
        backward=of(1, lambda d, g, x, w, b: d - g[0] * f.layer_norm(x, x.shape[-1:])[0]),
        numbers=((32,), 1e-5),
    ),
    Fault(
        "layer_norm: gradient of the bias is a mean",
        "MintFunctional.layer_norm",
        layer_norm,
        ((16, 32), (32,), (32,)),
        BIAS,
        backward=of(2, lambda d, g, *x: d / 16),
        numbers=((32,), 1e-5),
    ),
    Fault(
        "softmax: along the wrong axis",
        "MintFunctional.softmax",
        f.softmax,
        ((9, 9),),
        FORWARD,
        forward=lambda y, x, dim: f.softmax(x, 0),
        numbers=(-1,),
    ),
    Fault(
        "softmax: backward without its sum",
        "MintFunctional.softmax",
        f.softmax,
        ((9, 12),),
        FIRST,
        backward=of(0, lambda d, g, x: f.softmax(x, -1) * g),
        numbers=(-1,),
    ),
    Fault(
        "softmax, bfloat16: not shifted by the maximum",
        "MintFunctional.softmax",
        f.softmax,
        ((9, 12),),
        FORWARD,
        dtype=BRAIN,
        forward=lambda y, x, dim: x.float().exp().bfloat16() / x.float().exp().bfloat16().sum(dim, keepdim=True),
        numbers=(-1,),
        draw=lambda: (normal(9, 12) * 40,),
    ),
    Fault(
        "matmul, float16: sums in float16",
        "Mint.matmul",
        torch.matmul,
        ((16, 256), (256, 16)),
        FORWARD,
        dtype=HALF,
        forward=half_sums,
    ),
    Fault(
        "matmul, bfloat16: sums in bfloat16",
        "Mint.matmul",
        torch.matmul,
        ((16, 128), (128, 16)),
        FORWARD,
        dtype=BRAIN,
        forward=half_sums,
    ),
    Fault(
        "matmul: inputs rounded to bfloat16",
        "Mint.matmul",
        torch.matmul,
        ((16, 32), (32, 16)),
        FORWARD,
        forward=lambda y, a, b: a.bfloat16().float() @ b.bfloat16().float(),
    ),
    Fault(
        "matmul: one wrong element in 10^6",
        "Mint.matmul",
        torch.matmul,
        ((1000, 4), (4, 1000)),
        FORWARD,
        forward=lambda y, a, b: at(y, 654_321, lambda v: v * 1.01),
    ),
    Fault(
        "matmul: gradient of the second operand transposed",
        "Mint.matmul",
        torch.matmul,
        MATRIX,
        SECOND,
        backward=of(1, lambda d, g, a, b: d.T.contiguous()),
    ),
    Fault(
        "bmm: the last batch is the first",
        "Mint.bmm",
        torch.bmm,
        ((4, 6, 8), (4, 8, 6)),
        FORWARD,
        forward=lambda y, a, b: torch.cat((y[:-1], y[:1])),
    ),
    Fault("add: tail of an odd size", "Mint.add", torch.add, ((67,), (67,)), FORWARD, forward=cut_last),
    Fault(
        "mul: one wrong element in 10^6",
        "Mint.mul",
        torch.mul,
        ((1_000_003,), (1_000_003,)),
        FORWARD,
        forward=lambda y, a, b: at(y, 999_999, lambda v: v * 1.001),
    ),
    Fault(
        "mul: scaled by 1.001", "Mint.mul", torch.mul, MATRIX, FORWARD, forward=lambda y, a, b: (y * 1.001).to(y.dtype)
    ),
    Fault(
        "mul, float16: scaled by 1.001",
        "Mint.mul",
        torch.mul,
        ((64, 64), (64, 64)),
        FORWARD,
        dtype=HALF,
        forward=lambda y, a, b: (a.float() * b.float() * 1.001).half(),
    ),
    Fault(
        "mul, bfloat16: scaled by 1.001",
        "Mint.mul",
        torch.mul,
        ((64, 64), (64, 64)),
        FORWARD,
        dtype=BRAIN,
        forward=lambda y, a, b: (a.float() * b.float() * 1.001).bfloat16(),
    ),
    Fault(
        "mul, bfloat16: results are truncated",
        "Mint.mul",
        torch.mul,
        ((64, 64), (64, 64)),
        FORWARD,
        dtype=BRAIN,
        forward=lambda y, a, b: truncated(y, a.float() * b.float()),
    ),
    Fault(
        "div: an approximate reciprocal",
        "Mint.div",
        torch.div,
        MATRIX,
        FORWARD,
        forward=lambda y, a, b: a * (1 / b.bfloat16().float()) * (2 - b * (1 / b.bfloat16().float())),
    ),
    Fault(
        "rsqrt: 12 bits",
        "Mint.rsqrt",
        torch.rsqrt,
        ((12, 12),),
        FORWARD,
        forward=lambda y, x: (y.view(torch.int32) & -2048).view(FLOAT),
        draw=lambda: (normal(12, 12).abs() + 0.1,),
    ),
    Fault(
        "sub, float16: subnormal results are zero",
        "Mint.sub",
        torch.sub,
        ((32, 32), (32, 32)),
        FORWARD,
        dtype=HALF,
        forward=lambda y, a, b: torch.where(y.abs() < 2**-14, 0, y),
        draw=lambda: (normal(32, 32) * 1e-4, normal(32, 32) * 1e-4),
    ),
    Fault(
        "gelu: by tanh",
        "MintFunctional.gelu",
        f.gelu,
        ((12, 12),),
        FORWARD,
        forward=lambda y, x: f.gelu(x, approximate="tanh"),
    ),
    Fault(
        "silu: backward without its second term",
        "MintFunctional.silu",
        f.silu,
        ((12, 12),),
        FIRST,
        backward=of(0, lambda d, g, x: g * torch.sigmoid(x)),
    ),
    Fault(
        "exp: NaN from 80 on",
        "Mint.exp",
        torch.exp,
        ((8, 8),),
        FORWARD,
        forward=lambda y, x: torch.where(x > 80, torch.nan, y),
        draw=lambda: (at(normal(8, 8), 5, 85.0),),
    ),
    Fault(
        "log: NaN at 0",
        "Mint.log",
        torch.log,
        ((8, 8),),
        FORWARD,
        forward=lambda y, x: torch.where(x == 0, torch.nan, y),
        draw=lambda: (at(normal(8, 8).abs(), 5, 0.0),),
    ),
    Fault(
        "relu: 0 for NaN",
        "MintFunctional.relu",
        f.relu,
        ((8, 8),),
        FORWARD,
        forward=lambda y, x: torch.nan_to_num(y, 0.0),
        draw=lambda: (at(normal(8, 8), 5, torch.nan),),
    ),
    Fault(
        "sigmoid: 0 and 1 beyond 8",
        "Mint.sigmoid",
        torch.sigmoid,
        ((16, 16),),
        FORWARD,
        forward=lambda y, x: torch.where(x.abs() > 8, (x > 0).float(), y),
        draw=lambda: (normal(16, 16) * 5,),
    ),
    Fault(
        "tanh, float16: from a table", "Mint.tanh", torch.tanh, ((64, 64),), FORWARD, dtype=HALF, forward=linear_table
    ),
    Fault(
        "softplus: linear from 5 on",
        "MintFunctional.softplus",
        f.softplus,
        ((16, 16),),
        FORWARD,
        forward=lambda y, x: torch.where(x > 5, x, y),
        draw=lambda: (normal(16, 16) * 4,),
    ),
    Fault(
        "sum: the last of an odd number is left out",
        "Mint.sum",
        torch.sum,
        ((8, 33),),
        FORWARD,
        forward=lambda y, x, dim: x[:, :-1].sum(dim),
        numbers=(1,),
    ),
    Fault(
        "mean: over one less",
        "Mint.mean",
        torch.mean,
        ((8, 33),),
        FORWARD,
        forward=lambda y, x, dim: x.sum(dim) / 32,
        numbers=(1,),
    ),
    Fault(
        "cumsum: begins anew behind 1024",
        "Mint.cumsum",
        torch.cumsum,
        ((1030,),),
        FORWARD,
        forward=restarted,
        numbers=(0,),
    ),
    Fault(
        "std: biased",
        "Mint.std",
        torch.std,
        ((8, 33),),
        FORWARD,
        forward=lambda y, x, dim: x.std(dim, correction=0),
        numbers=(1,),
    ),
    Fault(
        "argmax: one row is off by one",
        "Mint.argmax",
        torch.argmax,
        ((16, 9),),
        FORWARD,
        forward=lambda y, x, dim: at(y, 3, lambda v: (v + 1) % 9),
        numbers=(-1,),
    ),
    Fault(
        "index_select: the last index is taken for the first",
        "Mint.index_select",
        torch.index_select,
        ((12, 5),),
        FORWARD,
        forward=lambda y, x, dim, i: torch.cat((y[:-1], y[:1])),
        draw=lambda: (normal(12, 5),),
        numbers=(0, integers(0, 12, 7)),
    ),
    Fault(
        "embedding: equal indices are not summed up",
        "MintFunctional.embedding",
        f.embedding,
        (),
        SECOND,
        draw=lambda: (integers(0, 6, 4, 8), normal(6, 5)),
        backward=one_user,
    ),
    Fault(
        "conv2d: the right border is not padded",
        "MintFunctional.conv2d",
        f.conv2d,
        ((2, 3, 8, 8), (4, 3, 3, 3)),
        FORWARD,
        forward=lambda y, x, w, b, s, p: torch.cat(
            (y[..., :-1], f.conv2d(f.pad(x, (1, 1, 1, 1), "replicate"), w)[..., -1:]), -1
        ),
        numbers=(None, 1, 1),
    ),
    Fault(
        "conv2d: gradient of the weight misses a tap",
        "MintFunctional.conv2d",
        f.conv2d,
        ((2, 3, 8, 8), (4, 3, 3, 3)),
        SECOND,
        backward=of(1, lambda d, g, x, w: at(d, 7, 0.0)),
        numbers=(None, 1, 1),
    ),
    Fault(
        "batch_norm: unbiased variance",
        "MintFunctional.batch_norm",
        lambda x, m, v, w, b, t, mo, e: f.batch_norm(x, None, None, w, b, True, mo, e),
        ((4, 3, 5, 5), (3,), (3,)),
        FORWARD,
        forward=unbiased,
        numbers=(True, 0.1, 1e-5),
    ),
    Fault(
        "avg_pool2d: backward divides by one less",
        "MintFunctional.avg_pool2d",
        f.avg_pool2d,
        ((2, 3, 8, 8),),
        FIRST,
        backward=of(0, lambda d, g, x: d * 4 / 3),
        numbers=(2,),
    ),
    Fault(
        "where: one condition is inverted",
        "Mint.where",
        torch.where,
        (),
        FORWARD,
        draw=lambda: (normal(12, 12) > 0, normal(12, 12), normal(12, 12)),
        forward=lambda y, c, a, b: torch.where(at(c, 77, lambda v: ~v), a, b),
    ),
    Fault(
        "transpose: one block of 4 x 4 stays",
        "Mint.transpose",
        torch.transpose,
        ((16, 16),),
        FORWARD,
        forward=lambda y, x, *_: torch.cat((torch.cat((x[:4, :4], y[:4, 4:]), 1), y[4:])),
        numbers=(0, 1),
    ),
    Fault(
        "clamp: the upper end is below",
        "Mint.clamp",
        torch.clamp,
        ((12, 12),),
        FORWARD,
        forward=lambda y, x, low, high: x.clamp(low, high - 1e-4),
        numbers=(-0.5, 0.5),
    ),
    Fault(
        "prod: gradient where a factor is 0",
        "Mint.prod",
        torch.prod,
        ((6, 5),),
        FIRST,
        backward=of(0, lambda d, g, x, *_: torch.nan_to_num(x.prod(1, keepdim=True) / x * g.unsqueeze(1), 0.0)),
        numbers=(1,),
        draw=lambda: (at(normal(6, 5), 7, 0.0),),
    ),
]
