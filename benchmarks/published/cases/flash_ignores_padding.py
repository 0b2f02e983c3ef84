"""A patch that replaces attention by a fused kernel forgets the padding mask."""

import torch
from case import Truth
from on_pytorch import LENGTH, Attention, Gpt, tokens
from torch.nn import functional as F

SOURCE = "LLM-Workshop#1"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("argument differs", "structure differs"),
    calls=("Functional.scaled_dot_product_attention.0.forward @ blocks.0.attention",),
)


class FlashAttention(Attention):
    ignores_padding = False

    def attend(self, q, k, v, mask=None):
        if self.ignores_padding:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def train(run):
    FlashAttention.ignores_padding = run.buggy
    net = Gpt(attention=FlashAttention)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    padded = torch.arange(LENGTH) < torch.tensor([0, 2, 4, 5])[:, None]  # on the left
    causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
    visible = (causal & ~padded[:, None]) | torch.eye(LENGTH, dtype=torch.bool)
    for step in run.steps(net):
        ids = tokens(step)
        wanted = ids[:, 1:].masked_fill(padded, -100)
        loss = F.cross_entropy(net(ids[:, :-1], visible[:, None]).flatten(0, 1), wanted.flatten())
        loss.backward()
        run.update(optimizer, loss)
