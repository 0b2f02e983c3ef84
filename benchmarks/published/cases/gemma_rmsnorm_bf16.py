"""Gemma's RMS norm multiplies by (1 + weight) in bfloat16 instead of float32."""

import torch
from case import Truth
from on_pytorch import Gpt, language_loss, tokens
from torch import nn

SOURCE = "https://unsloth.ai/blog/gemma-bugs, huggingface/transformers#29402"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("precision differs", "structure differs", "argument differs"),
    calls=("* @ blocks.0.norm1", "Module.blocks.0.norm1.*"),
)


class RMSNorm(nn.Module):
    def __init__(self, width, buggy):
        super().__init__()
        self.weight, self.buggy = nn.Parameter(torch.linspace(-0.3, 0.3, width)), buggy

    def forward(self, x):
        wide = x.float()
        normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        if self.buggy:
            return normed.type_as(x) * (1 + self.weight)
        return (normed * (1 + self.weight.float())).type_as(x)


def train(run):
    net = Gpt(norm=lambda width: RMSNorm(width, run.buggy)).bfloat16()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    for step in run.steps(net):
        loss = language_loss(net, tokens(step))
        loss.backward()
        run.update(optimizer, loss)
