"""Gemma multiplies embeddings by sqrt(3072) rounded to bfloat16: 55.5 instead of 55.4256."""

import torch
from case import Truth
from on_pytorch import Gpt, language_loss, tokens

SOURCE = "https://unsloth.ai/blog/gemma-bugs, huggingface/transformers#29402"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(
    kinds=("argument differs", "precision differs"),
    calls=("Tensor.__mul__.0.forward @ ", "Torch.tensor.0.forward @ "),
)


class Gemma(Gpt):
    def __init__(self, normalizer_dtype):
        super().__init__()
        self.normalizer_dtype = normalizer_dtype
        self.embedding.weight.data *= 0.02

    def embed(self, ids):
        return self.embedding(ids) * torch.tensor(3072**0.5, dtype=self.normalizer_dtype)


def train(run):
    net = Gemma(torch.bfloat16 if run.buggy else torch.float32)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    for step in run.steps(net):
        loss = language_loss(net, tokens(step))
        loss.backward()
        run.update(optimizer, loss)
