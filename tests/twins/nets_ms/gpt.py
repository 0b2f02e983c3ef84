"""A small GPT, as ported to MindSpore."""

import math

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

VOCABULARY, CONTEXT, LAYERS, HIDDEN, HEADS, INNER = 53, 16, 3, 40, 5, 112


class Attention(nn.Cell):
    """Causal self-attention of several heads."""

    def __init__(self):
        super().__init__()
        self.head_dim = HIDDEN // HEADS
        self.query = nn.Dense(HIDDEN, HIDDEN)
        self.key = nn.Dense(HIDDEN, HIDDEN)
        self.value = nn.Dense(HIDDEN, HIDDEN)
        self.output = nn.Dense(HIDDEN, HIDDEN)
        self.dropout = nn.Dropout(p=0.1)
        self.future = Tensor(np.triu(np.ones((1, 1, CONTEXT, CONTEXT)), 1), ms.bool_)

    def construct(self, x):
        batch, length, _ = x.shape
        q = self.query(x).reshape(batch, length, HEADS, self.head_dim).swapaxes(1, 2)
        k = self.key(x).reshape(batch, length, HEADS, self.head_dim).swapaxes(1, 2)
        v = self.value(x).reshape(batch, length, HEADS, self.head_dim).swapaxes(1, 2)
        scores = ops.matmul(q, k.swapaxes(-2, -1)) / math.sqrt(self.head_dim)
        scores = ops.masked_fill(scores, self.future[:, :, :length, :length], float("-inf"))
        weights = self.dropout(ops.softmax(scores, axis=-1))
        mixed = ops.matmul(weights, v).swapaxes(1, 2).reshape(batch, length, HIDDEN)
        return self.output(mixed)


class FeedForward(nn.Cell):
    """Two dense layers with gelu between."""

    def __init__(self):
        super().__init__()
        self.enlarge = nn.Dense(HIDDEN, INNER)
        self.reduce = nn.Dense(INNER, HIDDEN)
        self.dropout = nn.Dropout(p=0.1)

    def construct(self, x):
        x = ops.gelu(self.enlarge(x), approximate="tanh")
        return self.dropout(self.reduce(x))


class Block(nn.Cell):
    """Attention and feed-forward, each with its norm before and its residual."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm((HIDDEN,), epsilon=1e-5)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm((HIDDEN,), epsilon=1e-5)
        self.feed_forward = FeedForward()

    def construct(self, x):
        x = x + self.attention(self.norm1(x))
        x = x + self.feed_forward(self.norm2(x))
        return x


class GPT(nn.Cell):
    """Logits of the next token at every place."""

    def __init__(self):
        super().__init__()
        self.token_embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.position_embedding = nn.Embedding(CONTEXT, HIDDEN)
        self.dropout = nn.Dropout(p=0.1)
        self.blocks = nn.CellList([Block() for _ in range(LAYERS)])
        self.final_norm = nn.LayerNorm((HIDDEN,), epsilon=1e-5)
        self.head = nn.Dense(HIDDEN, VOCABULARY, has_bias=False)

    def construct(self, tokens):
        positions = ops.arange(tokens.shape[1])
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.final_norm(x))


def build():
    """The net as it is fine-tuned: dropout off."""
    net = GPT()
    net.set_train(False)
    return net


def loss_of(net, tokens, following):
    """Mean cross-entropy; the end of a sequence is marked by -1."""
    logits = net(tokens)
    return ops.cross_entropy(logits.reshape(-1, VOCABULARY), following.reshape(-1), ignore_index=-1)
