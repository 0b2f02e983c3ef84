"""The debugger never changes the training: runs with and without it are compared bit by bit.

Each net is trained twice in this process from one seed, bare and collected, and every step's loss, gradients,
parameters, buffers and random state are digested. The nets are small, and each is there for what it does.
"""

import dataclasses
import hashlib
from functools import partial
from typing import ClassVar, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.torch

STEPS = 3


class Block(nn.Module):
    """Attention and a feed-forward net, with residual connections: most tensors have several users."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)
        self.heads = heads

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        scores = (q @ k.transpose(-2, -1) / k.shape[-1] ** 0.5).masked_fill(~mask, float("-inf"))
        x = x + self.out((self.drop(scores.softmax(-1)) @ v).transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """With tied weights of the embedding and the head."""

    def __init__(self, reentrant=None):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(11, 16), nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(16, 11, bias=False)
        self.head.weight = self.embed.weight
        self.reentrant = reentrant

    def forward(self, _):
        ids = torch.randint(0, 11, (2, 5))
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x) if self.reentrant is None else checkpoint(block, x, use_reentrant=self.reentrant)
        return F.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


class Inside(nn.Module):
    """Inputs are changed in place, also through views; three branches meet in one tensor."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        y = self.a(x)
        y += 1.0
        y[:, 0] = y[:, 1] * 2.0
        view = y[:, 2:4]
        view.mul_(0.5)
        y.relu_()
        return (self.b(y) + y.sin() + y * y.exp() + torch.tanh(y)).square().mean()


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclasses.dataclass
class Made:
    value: torch.Tensor
    more: dict


class Gives(nn.Module):
    def __init__(self, what):
        super().__init__()
        self.fc, self.what = nn.Linear(8, 8), what

    def forward(self, x, *, scale=1.0):
        y = self.fc(x) * scale
        if self.what == "dict":
            return {"y": y, "list": [y.sin(), None], "n": 3}
        return Pair(y, y.cos()) if self.what == "pair" else Made(y, {"z": y.exp()})


class Structured(nn.Module):
    """Modules that give dicts, named tuples, dataclasses, nothing; and one module that is called twice."""

    def __init__(self):
        super().__init__()
        self.d, self.p, self.m = Gives("dict"), Gives("pair"), Gives("dataclass")
        self.again = nn.Linear(8, 8)

    def forward(self, x):
        d, p, m = self.d(x, scale=2.0), self.p(x), self.m(x)
        y = self.again(self.again(d["y"] + d["list"][0] + p.left * p.right + m.value + m.more["z"]))
        return y.square().mean()


class Frozen(nn.Module):
    """Frozen layers, a part without gradients, a detached branch, an unused layer, buffers."""

    def __init__(self):
        super().__init__()
        self.frozen, self.norm, self.fc, self.unused = (
            nn.Linear(8, 8),
            nn.BatchNorm1d(8),
            nn.Linear(8, 8),
            nn.Linear(8, 8),
        )
        self.frozen.requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            teacher = self.fc(x)
        y = self.fc(self.norm(self.frozen(x)))
        return F.mse_loss(y, teacher) + y.detach().mean() + y.mean()


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2, x + 1

    @staticmethod
    def backward(ctx, first, second):
        (x,) = ctx.saved_tensors
        return first * 2 + second * x.sign()


class Hooked(nn.Module):
    """The user's own hooks, on tensors, modules and parameters, which change what they see; own autograd functions."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.a.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        self.a.register_forward_hook(lambda module, args, out: out + 1)
        self.b.register_full_backward_hook(lambda module, into, out: (into[0] * 0.5,))
        self.b.weight.register_hook(lambda gradient: gradient * 3)

    def forward(self, x):
        y = self.a(x)
        y.register_hook(lambda gradient: gradient + 1)
        left, right = Doubling.apply(self.b(y))
        return (left * right).mean()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(8, 8, num_layers=2, dropout=0.2, batch_first=True), nn.Linear(8, 8)

    def forward(self, x):
        y, (h, c) = self.lstm(x.view(2, 2, 8))
        return self.fc(y).square().mean() + h.mean() + c.mean()


class Convolving(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Linear(16, 4)

    def forward(self, x):
        y = F.max_pool2d(F.relu(self.norm(self.conv(x.view(4, 1, 2, 4))), inplace=True), (1, 2))
        return F.cross_entropy(self.fc(y.flatten(1)), torch.arange(4))


class Mixed(nn.Module):
    """Under autocast in bfloat16."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 8))

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.net(x).float().square().mean()


class Penalised(nn.Module):
    """A gradient of a gradient."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, x):
        x = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(self.net(x).sum(), x, create_graph=True)
        return (slope.norm(dim=1) - 1).square().mean()


class Failing(nn.Module):
    """A layer raises at every second call, and the training goes on."""

    def __init__(self):
        super().__init__()
        self.fc, self.bad, self.calls = nn.Linear(8, 8), Bad(), 0

    def forward(self, x):
        y = self.fc(x)
        try:
            y = self.bad(y)
        except ValueError:
            y = y + 1
        return y.square().mean()


class Bad(nn.Module):
    calls = 0

    def forward(self, x):
        self.calls += 1
        if self.calls % 2:
            raise ValueError("no such thing")
        return x.exp()


class Config:
    """Holds a function, as the configurations of many models do."""

    def __init__(self):
        self.act = F.gelu


class Looking(nn.Module):
    """Its code looks at functions before it calls one: attributes, keys, members, defaults, in closures, partials."""

    ACT = staticmethod(F.gelu)
    FUSED: ClassVar = {F.gelu: 2.0, torch.tanh: 3.0}
    SUPPORTED = (F.relu, F.gelu, torch.tanh)
    ADD = torch.Tensor.add

    def __init__(self):
        super().__init__()
        self.first, self.second, self.config = nn.Linear(8, 8), nn.Linear(8, 8), Config()
        held = F.gelu
        self.closed = lambda: held is F.gelu
        self.shifted = partial(F.leaky_relu, negative_slope=0.2)

    def forward(self, x, default=F.gelu):
        found = (
            *(self.config.act is F.gelu, self.ACT is F.gelu, default is F.gelu, self.closed(), F.gelu in self.FUSED),
            *(F.relu in self.SUPPORTED, torch.tanh in self.SUPPORTED, self.shifted.func is F.leaky_relu),
            *(torch.conv2d is F.conv2d, type(self).ADD is torch.Tensor.add),
        )
        y = self.config.act(self.first(x)) * (1.0 + 0.1 * sum(found))
        if self.config.act in (F.relu, F.gelu):
            y = self.shifted(y) * self.FUSED.get(F.gelu, 1.0)
        return self.second(y).square().mean()


NETS = {
    "gpt": Gpt,
    "gpt checkpointed, reentrant": lambda: Gpt(True),
    "gpt checkpointed, by hooks": lambda: Gpt(False),
    "in place": Inside,
    "structured": Structured,
    "frozen": Frozen,
    "hooked": Hooked,
    "recurrent": Recurrent,
    "convolving": Convolving,
    "mixed": Mixed,
    "penalised": Penalised,
    "failing": Failing,
    "looking": Looking,
}

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01),
    "adamw, one by one": lambda p: torch.optim.AdamW(p, 0.01, foreach=False),
}


LATE = "a gradient arrived after the backward pass of the call had ended, as with a second backward pass"
EXPECTED_CAUSES = {"penalised": {LATE}, "failing": {"the call raised ValueError: no such thing"}}


def train(make, optimizer, debugger=None, micro=2, start=None):
    """Train from one seed; a digest of everything after each step."""
    torch.manual_seed(3)
    net = make()
    steps = OPTIMIZERS[optimizer]([p for p in net.parameters() if p.requires_grad])
    lines = []
    for _ in range(STEPS):
        if debugger is not None:
            debugger.start(net if start is None else start)
        losses = []
        for _ in range(micro):  # gradients accumulate
            x = torch.randn(4, 8)
            loss = net(x)
            loss.backward()
            losses.append(loss)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        gradients = [p.grad for p in net.parameters()]
        steps.step()
        if debugger is not None:
            debugger.stop()
        lines.append(digest([*losses, *gradients, *net.state_dict().values(), torch.get_rng_state()]))
        steps.zero_grad()
        if debugger is not None:
            debugger.step()
    return lines


def digest(tensors):
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(b"none" if tensor is None else tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
    return found.hexdigest()


@pytest.mark.parametrize(("level", "task"), [("mix", "statistics"), ("L0", "tensor"), ("L1", "statistics")])
@pytest.mark.parametrize("net", [pytest.param("gpt", marks=pytest.mark.always), *(net for net in NETS if net != "gpt")])
def test_training_is_bit_identical_with_the_debugger(net, level, task, collecting, dumped):
    optimizer = list(OPTIMIZERS)[(list(NETS).index(net) + len(level + task)) % len(OPTIMIZERS)]
    bare = train(NETS[net], optimizer)
    assert train(NETS[net], optimizer) == bare, "the training repeats itself, or nothing can be said"
    debugger = collecting(level=level, task=task)
    assert train(NETS[net], optimizer, debugger) == bare
    data = [dumped(debugger, step).data for step in range(STEPS)]
    assert all(any(".backward" in name for name in step) for step in data)
    assert data[1].keys() == data[2].keys(), "the first step is another one: there the optimizer makes its state"
    expected = set() if (net, level) == ("failing", "L1") else EXPECTED_CAUSES.get(net, set())  # there a module raises
    lost = {m["cause"] for step in range(STEPS) for m in dumped(debugger, step).missing}
    assert lost == expected


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_modules_backward_is_told_by_the_frameworks_own_hooks(level, collecting, dumped):
    """`gradients: "hooks"`: values are the framework's, and here, without residual connections, the same."""
    own, hooks = collecting(level=level), collecting({"gradients": "hooks"}, level=level)
    nets = {d: train(NETS["mixed"], "sgd", d, micro=1) for d in (own, hooks)}
    assert nets[own] == nets[hooks]
    assert dumped(own).data.keys() == dumped(hooks).data.keys()
