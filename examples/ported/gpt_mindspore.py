"""The port: the same GPT in MindSpore. `FAULTS` are mistakes that such ports have had; `fault` plants one."""

import math

import mindspore as ms
from mindspore import nn, ops

VOCABULARY, LENGTH, WIDTH, HEADS, BLOCKS = 61, 10, 48, 4, 2

FAULTS = {
    "eps": "the first block's first LayerNorm has an epsilon of 1e-6, where PyTorch's has 1e-5",
    "gelu": "the second block's GELU is the approximation by tanh",
    "scale": "the second block's scores are not divided by the root of the head's size",
    "transposed": "one square weight was loaded transposed",
}


class Attention(nn.Cell):
    def __init__(self, scaled=True):
        super().__init__()
        self.q_proj = nn.Dense(WIDTH, WIDTH)
        self.k_proj = nn.Dense(WIDTH, WIDTH)
        self.v_proj = nn.Dense(WIDTH, WIDTH)
        self.o_proj = nn.Dense(WIDTH, WIDTH)
        self.scaled = scaled

    def construct(self, x):
        batch, length, _ = x.shape
        shape = (batch, length, HEADS, WIDTH // HEADS)
        q = ops.transpose(self.q_proj(x).reshape(shape), (0, 2, 1, 3))
        k = ops.transpose(self.k_proj(x).reshape(shape), (0, 2, 1, 3))
        v = ops.transpose(self.v_proj(x).reshape(shape), (0, 2, 1, 3))
        scores = ops.matmul(q, ops.swapaxes(k, -1, -2))
        if self.scaled:
            scores = scores / math.sqrt(WIDTH // HEADS)
        future = ops.triu(ops.ones((length, length), ms.float32), 1).astype(ms.bool_)
        weights = ops.softmax(ops.masked_fill(scores, future, float("-inf")), axis=-1)
        mixed = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3)).reshape((batch, length, WIDTH))
        return self.o_proj(mixed)


class Block(nn.Cell):
    def __init__(self, scaled=True, approximate=False, epsilon=1e-5):
        super().__init__()
        self.input_norm = nn.LayerNorm((WIDTH,), epsilon=epsilon)
        self.attn = Attention(scaled)
        self.post_norm = nn.LayerNorm((WIDTH,), epsilon=1e-5)
        self.up = nn.Dense(WIDTH, 4 * WIDTH)
        self.gelu = nn.GELU(approximate=approximate)
        self.down = nn.Dense(4 * WIDTH, WIDTH)

    def construct(self, x):
        x = x + self.attn(self.input_norm(x))
        return x + self.down(self.gelu(self.up(self.post_norm(x))))


class Net(nn.Cell):
    def __init__(self, fault=""):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(LENGTH, WIDTH)
        first = {"epsilon": 1e-6} if fault == "eps" else {}
        last = {"scaled": fault != "scale", "approximate": fault == "gelu"}
        self.layers = nn.CellList([Block(**first), *(Block() for _ in range(BLOCKS - 2)), Block(**last)])
        self.norm = nn.LayerNorm((WIDTH,), epsilon=1e-5)
        self.lm_head = nn.Dense(WIDTH, VOCABULARY, has_bias=False)

    def construct(self, ids):
        x = self.wte(ids) + self.wpe(ops.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


RENAMED = (
    ("tokens.weight", "wte.embedding_table"),
    ("positions.weight", "wpe.embedding_table"),
    ("blocks.", "layers."),
    ("ln_1.weight", "input_norm.gamma"),
    ("ln_1.bias", "input_norm.beta"),
    ("ln_2.weight", "post_norm.gamma"),
    ("ln_2.bias", "post_norm.beta"),
    ("ln_f.weight", "norm.gamma"),
    ("ln_f.bias", "norm.beta"),
    ("attention.query", "attn.q_proj"),
    ("attention.key", "attn.k_proj"),
    ("attention.value", "attn.v_proj"),
    ("attention.out", "attn.o_proj"),
    ("fc_in", "up"),
    ("fc_out", "down"),
    ("head.", "lm_head."),
)
"""How a parameter of the original is called here."""


def loaded(weights, fault=""):
    """The original's weights under the names of the port."""
    here = {}
    for name, array in weights.items():
        for theirs, ours in RENAMED:
            name = name.replace(theirs, ours)
        here[name] = array
    if fault == "transposed":
        here["layers.1.attn.v_proj.weight"] = here["layers.1.attn.v_proj.weight"].T.copy()
    return here


def loss_of(net, batch, labels):
    logits = net(batch)
    return ops.cross_entropy(logits.reshape((-1, VOCABULARY)), labels.reshape((-1,)))
