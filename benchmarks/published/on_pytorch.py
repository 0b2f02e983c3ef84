"""Tiny PyTorch trainings: the run, data, a transformer, tensor and data parallelism, and kernels with faults."""

import math
from contextlib import contextmanager

import torch
import torch._dynamo  # here once; otherwise each forked process imports it
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from training import Run, integers, numbers

from msprobe.pytorch import PrecisionDebugger

VOCABULARY, WIDTH, LENGTH, BATCH = 29, 16, 12, 4
aten = torch.ops.aten


class TorchRun(Run):
    """One rank of a PyTorch training."""

    debugger_class = PrecisionDebugger

    def update(self, optimizer, loss):
        """Stop recording, keep the loss, and let the optimizer use the gradients."""
        self.log(loss.detach())
        optimizer.step()
        optimizer.zero_grad()


def tokens(step, rank=0, batch=BATCH, length=LENGTH):
    """Token ids [batch, length + 1]: inputs and, shifted by one, labels."""
    return torch.from_numpy(integers(step, rank, 7, shape=(batch, length + 1), below=VOCABULARY))


def vectors(step, rank=0, shape=(8, WIDTH)):
    """A batch of normal numbers."""
    return torch.from_numpy(numbers(step, rank, 11, shape=shape))


def labels(step, rank=0, count=8, below=5):
    """A class for each sample."""
    return torch.from_numpy(integers(step, rank, 13, shape=count, below=below))


class Attention(nn.Module):
    """Causal attention; `rotate` is applied to queries and keys."""

    def __init__(self, width=WIDTH, heads=2, rotate=None):
        super().__init__()
        self.heads, self.rotate = heads, rotate
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def split(self, x):
        """[batch, length, width] as [batch, heads, length, size]."""
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, mask=None):
        q, k, v = (self.split(project(x)) for project in (self.query, self.key, self.value))
        if self.rotate is not None:
            q, k = self.rotate(q), self.rotate(k)
        return self.out(self.attend(q, k, v, mask).transpose(1, 2).reshape(x.shape))

    def attend(self, q, k, v, mask=None):
        """Weights from queries and keys, applied to values."""
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        hidden = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).triu(1)
        if mask is not None:
            hidden = hidden | mask
        return torch.softmax(scores.masked_fill(hidden, max(-1e9, torch.finfo(scores.dtype).min)), -1) @ v


class Mlp(nn.Module):
    """Two linear layers."""

    def __init__(self, width=WIDTH, activation=F.gelu):
        super().__init__()
        self.up, self.down, self.activation = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), activation

    def forward(self, x):
        return self.down(self.activation(self.up(x)))


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, attention=Attention, mlp=Mlp, norm=nn.LayerNorm):
        super().__init__()
        self.norm1, self.attention, self.norm2, self.mlp = norm(WIDTH), attention(), norm(WIDTH), mlp()

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """Two blocks between an embedding and a head. `parts` are those of Block."""

    def __init__(self, **parts):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block(**parts) for _ in range(2))
        self.norm, self.head = parts.get("norm", nn.LayerNorm)(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def embed(self, ids):
        """The input of the first block."""
        return self.embedding(ids)

    def forward(self, ids, mask=None):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


class Classifier(nn.Module):
    """A small perceptron."""

    def __init__(self, width=WIDTH, classes=5):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.head = nn.Linear(width, 24), nn.Linear(24, 24), nn.Linear(24, classes)

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.relu(self.first(x)))))


def language_loss(net, ids, **arguments):
    """Cross entropy of the next token."""
    return F.cross_entropy(net(ids[:, :-1], **arguments).flatten(0, 1), ids[:, 1:].flatten())


def average_gradients(net, run, skip=()):
    """Data parallelism: the mean of the gradients of all ranks."""
    for name, p in net.named_parameters():
        if p.grad is not None and name not in skip:
            dist.all_reduce(p.grad)
            p.grad /= run.ranks


class Copy(torch.autograd.Function):
    """The input of a column-parallel layer: its gradient is the sum over the ranks."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad


class Reduce(torch.autograd.Function):
    """The output of a row-parallel layer: the sum over the ranks."""

    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad.clone()


class Gather(torch.autograd.Function):
    """Parts of all ranks along one axis; the gradient is the part of this rank, of the sum over the ranks."""

    @staticmethod
    def forward(ctx, x, axis):
        ctx.axis, ctx.size = axis, x.shape[axis]
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, axis)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous().clone()
        dist.all_reduce(grad)
        return grad.narrow(ctx.axis, dist.get_rank() * ctx.size, ctx.size), None


class Kernel(TorchDispatchMode):
    """Replaces kernels below the recorded functions: `{aten.mm.default: replacement(original, *arguments)}`."""

    def __init__(self, replacements):
        super().__init__()
        self.replacements = replacements

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        replacement = self.replacements.get(func)
        if replacement is None:
            return func(*args, **(kwargs or {}))
        return replacement(func, *args, **(kwargs or {}))


@contextmanager
def faulty_kernel(run, kernel, replacement):
    """Compute a kernel by a replacement, in the buggy variant."""
    with Kernel({kernel: replacement} if run.buggy else {}):
        yield


def other_order():
    """Kernels that compute the same results with sums in another order: products and softmax from the last term.

    They call operations of ATen, which are not recorded, also in the backward pass.
    """

    def reverse(x, *axes):
        return aten.clone.default(aten.flip.default(x, axes or list(range(x.dim()))))

    def mm(original, a, b):
        return original(reverse(a, -1), reverse(b, -2))

    def addmm(original, bias, a, b, **scales):
        return original(bias, reverse(a, -1), reverse(b, -2), **scales)

    def reduced(original, x, axes=None, *rest, **options):
        return original(reverse(x, *(axes or ())), axes, *rest, **options)

    def total(original, x, **options):
        return original(aten.reshape.default(reverse(x), [-1, 1]), **options)

    def along(original, x, axis, *rest):
        return reverse(original(reverse(x, axis), axis, *rest), axis)

    products = {aten.mm.default: mm, aten.bmm.default: mm, aten.addmm.default: addmm}
    sums = {aten.sum.dim_IntList: reduced, aten.mean.dim: reduced, aten.sum.default: total, aten.mean.default: total}
    return Kernel({**products, **sums, aten._softmax.default: along, aten._log_softmax.default: along})


def execute(case, run, noise):
    """Train one rank of a case."""
    torch.set_num_threads(1)
    if run.ranks > 1:
        meeting = f"file://{run.folder}/meeting"
        dist.init_process_group("gloo", init_method=meeting, rank=run.rank, world_size=run.ranks)
    if noise:
        with other_order():
            case.train(run)
    else:
        case.train(run)
    if run.ranks > 1:
        dist.barrier()
        dist.destroy_process_group()
