"""A kernel reads the memory of a strided view as if it were contiguous (emulated)."""

import torch
from case import Truth
from on_pytorch import WIDTH, Gpt, aten, faulty_kernel, language_loss, tokens
from torch import nn
from torch.nn import functional as F

SOURCE = "vllm-project/vllm-ascend#95"
FRAMEWORK = "pytorch"
HALF = 1
TRUTH = Truth(kinds=("computes differently",), calls=("Functional.silu.0.forward @ blocks.0.mlp",), check=("replay",))


class SwiGlu(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up, self.down = nn.Linear(WIDTH, 64), nn.Linear(32, WIDTH)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


def as_contiguous(silu, x):
    strides = [x.shape[1] * x.shape[2], x.shape[2], 1]
    return silu(aten.as_strided.default(x, x.shape, strides))


def train(run):
    net = Gpt(mlp=SwiGlu)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    with faulty_kernel(run, aten.silu.default, as_contiguous):
        for step in run.steps(net):
            loss = language_loss(net, tokens(step))
            loss.backward()
            run.update(optimizer, loss)
