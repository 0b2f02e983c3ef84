"""One rank of a small transformer in Megatron's manner: `megatron_rank.py SETTINGS.json RANK`, by gloo on the CPU.

SETTINGS: `folder`, `tp`, `pp`, `dp`, and `runs`, by the names of their dumps: `vpp`, `task`, `level`, `sequence`
(sequence parallelism), and `faults`: for each step null, or a linear layer (or `norm`) and the tensor parallel rank on
which its result is wrong.
Ranks are numbered tp, then dp, then pp. The weights of the whole model are the same for every layout.
"""

import json
import math
import sys
import zlib
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

# A kernel that is wrong on one rank: it is put in place before the debugger looks at the functions.
linear, spoil = functional.linear, False


def unreliable(x, weight, bias=None):
    return linear(x, weight, bias) * (1.5 if spoil else 1)


functional.linear = unreliable

from msprobe.pytorch import PrecisionDebugger  # noqa: E402

VOCABULARY, HIDDEN, HEADS, LAYERS, LENGTH, BATCH, MICRO = 16, 8, 4, 4, 6, 2, 2

settings = json.loads(Path(sys.argv[1]).read_text())
RANK, TP, PP, DP = int(sys.argv[2]), *(settings[key] for key in ("tp", "pp", "dp"))
VPP, SEQUENCE, FAULT = 1, False, None  # of the run, and of its step
SHARD, REPLICA, STAGE = RANK % TP, RANK // TP % DP, RANK // TP // DP
torch.set_num_threads(1)

if TP * PP * DP > 1:
    dist.init_process_group(
        "gloo", init_method=f"file://{settings['folder']}/meeting", rank=RANK, world_size=TP * PP * DP
    )


def shards(replica, stage):
    return [shard + TP * (replica + DP * stage) for shard in range(TP)]


# Every process makes every group.
GROUPS = {(r, s): dist.new_group(shards(r, s)) for r in range(DP) for s in range(PP)} if TP * PP * DP > 1 else {}
GROUP = GROUPS.get((REPLICA, STAGE))


def weights(name, *shape):
    """The weights of the whole model, by name: whoever needs a part of them makes them all."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randn(*shape, generator=generator) / math.sqrt(shape[-1])


def part(tensor, axis):
    return tensor.chunk(TP, axis)[SHARD].clone()


def summed(x):
    if TP > 1:
        dist.all_reduce(x, group=GROUP)
    return x


def gathered(x, axis):
    if TP == 1:
        return x
    found = [torch.empty_like(x) for _ in range(TP)]
    dist.all_gather(found, x.contiguous(), group=GROUP)
    return torch.cat(found, axis)


class Copy(torch.autograd.Function):
    """Into the tensor parallel region: gradients of all ranks are added."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return summed(gradient.clone())


class Reduce(torch.autograd.Function):
    """Out of the tensor parallel region: results of all ranks are added."""

    @staticmethod
    def forward(ctx, x):
        return summed(x.clone())

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Gather(torch.autograd.Function):
    """The parts of all ranks along an axis; backward each takes its own, or what is added up of it."""

    @staticmethod
    def forward(ctx, x, axis, adds):
        ctx.axis, ctx.adds = axis, adds
        return gathered(x, axis)

    @staticmethod
    def backward(ctx, gradient):
        whole = summed(gradient.clone()) if ctx.adds else gradient
        return part(whole, ctx.axis), None, None


class Scatter(torch.autograd.Function):
    """The sum of all ranks, of which each keeps its part of the sequence."""

    @staticmethod
    def forward(ctx, x):
        return part(summed(x.clone()), 0)

    @staticmethod
    def backward(ctx, gradient):
        return gathered(gradient, 0)


def into(x):
    if TP == 1:
        return x
    return Gather.apply(x, 0, True) if SEQUENCE else Copy.apply(x)


def out_of(x):
    if TP == 1:
        return x
    return Scatter.apply(x) if SEQUENCE else Reduce.apply(x)


def multiplied(name, x, weight, bias=None):
    """The product of a layer, which may have a fault on one rank."""
    global spoil
    spoil = [name, SHARD] == FAULT
    try:
        return functional.linear(x, weight, bias)
    finally:
        spoil = False


class ColumnParallelLinear(nn.Module):
    def __init__(self, name, inputs, outputs):
        super().__init__()
        self.name = name
        self.weight = nn.Parameter(part(weights(f"{name}.weight", outputs, inputs), 0))
        self.bias = nn.Parameter(part(weights(f"{name}.bias", outputs), 0))

    def forward(self, x):
        return multiplied(self.name, into(x), self.weight, self.bias)


class RowParallelLinear(nn.Module):
    def __init__(self, name, inputs, outputs):
        super().__init__()
        self.name = name
        self.weight = nn.Parameter(part(weights(f"{name}.weight", outputs, inputs), 1))
        self.bias = nn.Parameter(weights(f"{name}.bias", outputs))

    def forward(self, x):
        return out_of(multiplied(self.name, x, self.weight)) + self.bias


class VocabParallelEmbedding(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.weight = nn.Parameter(part(weights(f"{name}.weight", VOCABULARY, HIDDEN), 0))

    def forward(self, tokens):
        if TP == 1:
            return functional.embedding(tokens, self.weight)
        size = VOCABULARY // TP
        inside = (tokens >= SHARD * size) & (tokens < (SHARD + 1) * size)
        found = functional.embedding((tokens - SHARD * size).clamp(0, size - 1), self.weight)
        return out_of(found * inside.unsqueeze(-1))


class LayerNorm(nn.LayerNorm):
    def __init__(self):
        super().__init__(HIDDEN)

    def forward(self, x):
        x = super().forward(x)
        if FAULT == ["norm", SHARD]:  # a copy goes astray, behind the back of the debugger
            x.data[0, 0, 0] += 0.5
        return x


class CoreAttention(nn.Module):
    def forward(self, q, k, v):
        q, k, v = (t.permute(1, 2, 0, 3) for t in (q, k, v))
        scores = torch.softmax(torch.matmul(q, k.transpose(2, 3)) / math.sqrt(HIDDEN // HEADS), -1)
        found = torch.matmul(scores, v).permute(2, 0, 1, 3)
        return found.reshape(found.shape[0], found.shape[1], -1)


class SelfAttention(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.linear_qkv = ColumnParallelLinear(f"{name}.linear_qkv", HIDDEN, 3 * HIDDEN)
        self.core_attention = CoreAttention()
        self.linear_proj = RowParallelLinear(f"{name}.linear_proj", HIDDEN, HIDDEN)

    def forward(self, x):
        mixed = self.linear_qkv(x)
        mixed = mixed.view(mixed.shape[0], mixed.shape[1], HEADS // TP, 3 * HIDDEN // HEADS)
        return self.linear_proj(self.core_attention(*mixed.chunk(3, -1)))


class MLP(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.linear_fc1 = ColumnParallelLinear(f"{name}.linear_fc1", HIDDEN, 2 * HIDDEN)
        self.linear_fc2 = RowParallelLinear(f"{name}.linear_fc2", 2 * HIDDEN, HIDDEN)

    def forward(self, x):
        return self.linear_fc2(functional.gelu(self.linear_fc1(x)))


class TransformerLayer(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.input_layernorm = LayerNorm()
        self.self_attention = SelfAttention(f"{name}.self_attention")
        self.pre_mlp_layernorm = LayerNorm()
        self.mlp = MLP(f"{name}.mlp")

    def forward(self, x):
        x = x + self.self_attention(self.input_layernorm(x))
        return x + self.mlp(self.pre_mlp_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, virtual):
        super().__init__()
        count = LAYERS // (PP * VPP)
        self.layers = nn.ModuleList([TransformerLayer(f"layers.{virtual * count + n}") for n in range(count)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.word_embeddings = VocabParallelEmbedding("word_embeddings")

    def forward(self, tokens):
        return self.word_embeddings(tokens)


class Chunk(nn.Module):
    """What one virtual stage has of the model: the first embeds, the last computes the loss."""

    def __init__(self, virtual):
        super().__init__()
        self.virtual = virtual
        if virtual == 0:
            self.embedding = Embedding()
        self.decoder = Decoder(virtual)
        if virtual == PP * VPP - 1:
            self.final_layernorm = LayerNorm()
            self.output_layer = ColumnParallelLinear("output_layer", HIDDEN, VOCABULARY)

    def forward(self, x, labels):
        x = self.decoder(self.embedding(x) if self.virtual == 0 else x)
        if self.virtual < PP * VPP - 1:
            return x
        logits = self.output_layer(self.final_layernorm(x))
        if TP > 1:
            logits = Gather.apply(logits, -1, False)
        return functional.cross_entropy(logits.reshape(-1, VOCABULARY), labels.reshape(-1))


def batch(micro):
    generator = torch.Generator().manual_seed(100 * REPLICA + micro)
    return torch.randint(0, VOCABULARY, (2, LENGTH, BATCH), generator=generator)


def rank_of(virtual):
    return SHARD + TP * (REPLICA + DP * (virtual % PP))


def received(virtual):
    length = LENGTH // TP if SEQUENCE else LENGTH
    x = torch.empty(length, BATCH, HIDDEN)
    dist.recv(x, rank_of(virtual))
    return x


def run(name, vpp=1, task="statistics", level="mix", sequence=False, faults=(None,)):
    """A training of a step for each of the faults; nothing is updated, so that all are the same but for the fault."""
    global VPP, SEQUENCE, FAULT
    VPP, SEQUENCE = vpp, sequence
    chunks = {v * PP + STAGE: Chunk(v * PP + STAGE) for v in range(VPP)}
    debugger = PrecisionDebugger(dump_path=f"{settings['folder']}/{name}", task=task, level=level)
    for fault in faults:
        FAULT = fault
        debugger.start(list(chunks.values()) if VPP > 1 else chunks[STAGE])
        step(chunks)
        debugger.stop()
        debugger.step()


def step(chunks):
    last = PP * VPP - 1
    for micro in range(MICRO):
        tokens, labels = batch(micro)
        kept = {}
        for virtual in range(last + 1):  # all ranks walk through one schedule, so nobody waits for ever
            if virtual not in chunks:
                continue
            x = tokens if virtual == 0 else received(virtual - 1).requires_grad_()
            y = chunks[virtual](x, labels)
            kept[virtual] = x, y
            if virtual < last:
                dist.send(y.detach(), rank_of(virtual + 1))
        for virtual in range(last, -1, -1):
            if virtual not in chunks:
                continue
            x, y = kept[virtual]
            y.backward(None if virtual == last else received(virtual + 1))
            if virtual > 0:
                dist.send(x.grad, rank_of(virtual - 1))


for name, how in settings["runs"].items():
    run(name, **how)
if dist.is_initialized():
    dist.destroy_process_group()
