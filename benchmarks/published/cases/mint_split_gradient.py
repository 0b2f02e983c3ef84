"""The gradient of `mint.split` reads a transposed gradient as contiguous (MindSpore 2.10 on a CPU, not emulated)."""

from case import Truth
from mindspore import mint, nn, ops, value_and_grad
from on_mindspore import Gpt, initialize, language_loss, tokens

SOURCE = "MindSpore 2.10, mint.split, found by benchmarks/checks"
FRAMEWORK = "mindspore"
HALF = 1
TRUTH = Truth(
    kinds=("computes differently", "structure differs"),
    calls=("*split*", "*getitem*"),
    check=("replay",),
)


class FusedAttention(nn.Cell):
    def __init__(self, splits):
        super().__init__()
        self.qkv, self.out, self.splits = nn.Dense(16, 48), nn.Dense(16, 16), splits

    def construct(self, x):
        fused = self.qkv(x)
        if self.splits:
            q, k, v = mint.split(fused, 16, -1)
        else:
            q, k, v = fused[..., :16], fused[..., 16:32], fused[..., 32:]
        weights = mint.softmax(mint.matmul(q, mint.transpose(k, -1, -2)) / 4, -1)
        return self.out(mint.matmul(weights, v))


def train(run):
    net = Gpt()
    net.attention = FusedAttention(splits=run.buggy)
    initialize(net)
    optimizer = nn.AdamWeightDecay(net.trainable_params(), 1e-2)
    step_of = value_and_grad(lambda ids: language_loss(net, ids), None, net.trainable_params())
    for step in run.steps(net):
        loss, gradients = step_of(tokens(step))
        run.update(optimizer, gradients, loss + ops.zeros_like(loss))
