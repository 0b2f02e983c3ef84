"""A small network in PyTorch whose layers are one or several, each with faults that can be planted in a part."""

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LENGTH, BATCH, CLASSES = 16, 4, 6, 3, 5

REWRITES = ("gate_up", "conv", "kv", "reordered", "interleaved")
"""Gate and projection of an MLP in one layer, under the name of the latter; output channels of a convolution in two;
key and value in one layer; query, key and value in one layer in another order; and head by head."""

FAULTS = ("weight", "frozen", "scale", "gate")
"""The key's weights 1.02 times as large; the key not trained; a scale of 1.02 times; another activation."""


class Attention(nn.Module):
    def __init__(self, rewrites, fault):
        super().__init__()
        self.rewrites, self.fault = rewrites, fault
        if "kv" in rewrites:
            self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        elif {"reordered", "interleaved"} & set(rewrites):
            self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        else:
            self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def parts(self, x):
        if "kv" in self.rewrites:
            return self.q(x), *self.kv(x).chunk(2, -1)
        if "reordered" in self.rewrites:
            v, q, k = self.qkv(x).chunk(3, -1)
            return q, k, v
        if "interleaved" in self.rewrites:
            whole = self.qkv(x).view(*x.shape[:2], HEADS, 3, -1)
            return tuple(part.reshape(x.shape) for part in whole.unbind(3))
        return self.q(x), self.k(x), self.v(x)

    def forward(self, x):
        q, k, v = (part.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for part in self.parts(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) * (0.51 if self.fault == "scale" else 0.5)
        return self.out(torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2).reshape(x.shape))


class Mlp(nn.Module):
    def __init__(self, rewrites, fault):
        super().__init__()
        self.is_fused, self.act = "gate_up" in rewrites, nn.GELU() if fault == "gate" else nn.SiLU()
        if not self.is_fused:
            self.gate = nn.Linear(WIDTH, 2 * WIDTH)
        self.up = nn.Linear(WIDTH, (4 if self.is_fused else 2) * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        if self.is_fused:
            gate, up = self.up(x).chunk(2, -1)
            return self.down(self.act(gate) * up)
        return self.down(self.act(self.gate(x)) * self.up(x))


class Net(nn.Module):
    def __init__(self, rewrites=(), fault=""):
        super().__init__()
        self.is_split = "conv" in rewrites
        if self.is_split:
            self.low, self.high = nn.Conv1d(4, 6, 3, padding=1), nn.Conv1d(4, WIDTH - 6, 3, padding=1)
        else:
            self.conv = nn.Conv1d(4, WIDTH, 3, padding=1)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.attention, self.mlp = Attention(rewrites, fault), Mlp(rewrites, fault)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, labels):
        x = torch.cat((self.low(x), self.high(x)), 1) if self.is_split else self.conv(x)
        x = x.transpose(1, 2)
        x = x + self.attention(self.norms[0](x))
        x = x + self.mlp(self.norms[1](x))
        return functional.cross_entropy(self.head(self.norms[2](x).mean(1)).float(), labels)


def weights(rewrites, fault):
    """The same values for every way to write the network."""
    generator = torch.Generator().manual_seed(1)
    plain = {name: torch.randn(value.shape, generator=generator) / 3 for name, value in Net().state_dict().items()}
    if fault == "weight":
        plain["attention.k.weight"] *= 1.02
    for kind in ("weight", "bias"):
        named = {part: f"attention.{part}.{kind}" for part in "qkv"}
        if "gate_up" in rewrites:
            plain[f"mlp.up.{kind}"] = torch.cat((plain.pop(f"mlp.gate.{kind}"), plain[f"mlp.up.{kind}"]))
        if "conv" in rewrites:
            whole = plain.pop(f"conv.{kind}")
            plain[f"low.{kind}"], plain[f"high.{kind}"] = whole[:6], whole[6:]
        if "kv" in rewrites:
            plain[f"attention.kv.{kind}"] = torch.cat([plain.pop(named[part]) for part in "kv"])
        if "reordered" in rewrites:
            plain[f"attention.qkv.{kind}"] = torch.cat([plain.pop(named[part]) for part in "vqk"])
        if "interleaved" in rewrites:
            parts = [plain.pop(named[part]) for part in "qkv"]
            heads = [part.view(HEADS, -1, *part.shape[1:]) for part in parts]
            plain[f"attention.qkv.{kind}"] = torch.stack(heads, 1).reshape(-1, *parts[0].shape[1:])
    return plain


def train(debugger, rewrites=(), fault="", steps=3, dtype=torch.float32):
    """Some steps with Adam, which a debugger collects."""
    net = Net(rewrites, fault)
    net.load_state_dict(weights(rewrites, fault))
    net = net.to(dtype)
    if fault == "frozen":
        net.attention.k.requires_grad_(False)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(BATCH, 4, LENGTH, generator=generator).to(dtype)
    labels = torch.randint(0, CLASSES, (BATCH,), generator=generator)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(steps):
        debugger.start(net)
        net(x, labels).backward()
        debugger.stop()
        debugger.step()
        optimizer.step()
        optimizer.zero_grad()
