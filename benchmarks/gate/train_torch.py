"""Train a small GPT in PyTorch for a few steps, with a harmless change or a fault on request.

    python train_torch.py [--change NAME] [--steps N]

The script uses PrecisionDebugger as any training does; `msprobe gate` replaces its settings.
"""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from msprobe.pytorch import PrecisionDebugger, seed_all

WIDTH, HEADS, WORDS, LENGTH, BATCH, BLOCKS = 64, 4, 256, 32, 4, 4

OTHER_KERNELS = {
    "cpu-default": "the kernels of PyTorch for processors without AVX",
    "cpu-avx2": "those for processors with AVX2, without AVX-512",
    "onednn-avx2": "the kernels of oneDNN for processors with AVX2",
    "mkl-compatible": "MKL computes as on any processor (MKL_CBWR=COMPATIBLE)",
    "no-onednn": "oneDNN is switched off",
    "numpy-2": "numpy 2 instead of numpy 1.26",
}
"""Changes of the environment, which `run.py` makes: kernels of other processors, as on another machine."""

HARMLESS = {
    "none": "nothing is changed",
    "threads-1": "one thread",
    "threads-2": "two threads",
    "threads-4": "four threads",
    "order": "the products of the MLP sum up in another order",
    "fused": "attention by scaled_dot_product_attention",
    "addmm": "the layers of the MLP by addmm instead of linear",
    "einsum": "the products of attention by einsum",
    "checkpoint": "the blocks are computed again in backward (torch.utils.checkpoint)",
    "foreach": "Adam updates all parameters together (foreach)",
    "fused-adam": "Adam updates each parameter by one kernel (fused)",
    "split": "the batch in two micro batches, whose gradients are added",
    "split-4": "the batch in four micro batches, whose gradients are added",
    **OTHER_KERNELS,
    "compile-eager": "torch.compile, backend eager",
    "compile-inductor": "torch.compile, backend inductor",
}
FAULTS = {
    "scale": "one layer scales its output by 1.02",
    "eps": "the epsilon of a LayerNorm is 1e-3",
    "gelu": "the MLP of one layer uses the tanh approximation of gelu",
    "mask": "the causal mask is off by one",
    "lr": "the learning rate is 10 % larger",
    "beta2": "beta2 of Adam is 0.95",
    "transpose": "two heads of one layer are swapped",
    "weight": "one weight is initialized with 1.05 times its value",
    "no-backward": "backward is never called",
    "no-update": "the optimizer is never called",
    "no-train": "the training ends before its first step",
    "fails": "the training raises an exception",
}


class Attention(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.qkv, self.out, self.change = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), change

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, w // HEADS).permute(2, 0, 3, 1, 4)
        if self.change == "einsum":
            scores = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(w // HEADS)
            hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
            mixed = torch.einsum("bhij,bhjd->bhid", torch.softmax(scores.masked_fill(hidden, float("-inf")), -1), v)
        elif self.change == "fused":
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            hidden = torch.ones(t, t, dtype=torch.bool).triu(2 if self.change == "mask" else 1)
            scores = (q @ k.transpose(-2, -1) / math.sqrt(w // HEADS)).masked_fill(hidden, float("-inf"))
            mixed = torch.softmax(scores, -1) @ v
        if self.change == "transpose":
            mixed = mixed[:, [1, 0, 2, 3]]
        return self.out(mixed.transpose(1, 2).reshape(b, t, w))


class Mlp(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.up, self.down, self.change = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), change

    def forward(self, x):
        if self.change == "addmm":
            rows = F.gelu(torch.addmm(self.up.bias, x.flatten(0, 1), self.up.weight.t()))
            return torch.addmm(self.down.bias, rows, self.down.weight.t()).view_as(x)
        x = F.gelu(self.up(x), approximate="tanh" if self.change == "gelu" else "none")
        if self.change == "order":  # the same product, with its terms in another order
            order = torch.arange(4 * WIDTH - 1, -1, -1)
            return F.linear(x[..., order], self.down.weight[:, order], self.down.bias)
        return self.down(x)


class Block(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.mlp, self.change = Attention(change), Mlp(change), change
        if change == "eps":
            self.norm2.eps = 1e-3

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y = self.mlp(self.norm2(x))
        return x + (y * 1.02 if self.change == "scale" else y)


class Gpt(nn.Module):
    def __init__(self, change):
        super().__init__()
        inner = change if change in ("order", "fused", "einsum", "addmm", "mask") else None
        self.change = change
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(change if at == 1 else inner) for at in range(BLOCKS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.change == "checkpoint" else block(x)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--change", default="none", choices=[*HARMLESS, *FAULTS])
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    change = args.change
    seed_all(7, mode=False)
    torch.set_num_threads(int(change.partition("threads-")[2] or torch.get_num_threads()))
    model = Gpt(change)
    if change == "weight":
        with torch.no_grad():
            model.blocks[2].mlp.up.weight *= 1.05
    rate, beta2 = 1e-3 * (1.1 if change == "lr" else 1), 0.95 if change == "beta2" else 0.999
    torch.backends.mkldnn.enabled = change != "no-onednn"
    kernels = {"foreach": {"foreach": True}, "fused-adam": {"fused": True}}.get(change, {"foreach": False})
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.9, beta2), **kernels)
    forward = model
    if change.startswith("compile"):
        forward = torch.compile(model, backend=change.partition("-")[2])
    debugger = PrecisionDebugger(dump_path="./dump", task="statistics", level="mix")
    numbers = torch.Generator().manual_seed(3)
    for _ in range(0 if change == "no-train" else args.steps):
        ids = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=numbers)
        debugger.start(model=model)
        parts = {"split": 2, "split-4": 4}.get(change, 1)
        for part in ids.chunk(parts):
            logits = forward(part[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten())
            if change != "no-backward":
                (loss / parts if parts > 1 else loss).backward()
        debugger.stop()
        if change != "no-update":
            optimizer.step()
        optimizer.zero_grad()
        debugger.step()
        print(f"loss {loss.item():.6f}")
        if change == "fails":
            raise RuntimeError("the data loader failed")


if __name__ == "__main__":
    main()
