"""A small LLaMA, as ported to MindSpore."""

import math

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops

VOCAB, WIDTH, LAYERS, HEADS, KV_HEADS, INNER, LONGEST, BASE = 61, 48, 2, 6, 2, 80, 24, 10000.0
HEAD_WIDTH = WIDTH // HEADS


class RMSNorm(nn.Cell):
    """Division by the root of the mean square."""

    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = Parameter(ops.ones(width, ms.float32))

    def construct(self, x):
        variance = ops.mean(ops.pow(x, 2), axis=-1, keep_dims=True)
        return x * ops.rsqrt(variance + self.eps) * self.weight


class RotaryEmbedding(nn.Cell):
    """Turns pairs of features by angles that grow with the place."""

    def __init__(self):
        super().__init__()
        frequency = 1.0 / (BASE ** (np.arange(0, HEAD_WIDTH, 2, dtype=np.float32) / HEAD_WIDTH))
        angles = np.outer(np.arange(LONGEST, dtype=np.float32), frequency)
        angles = np.concatenate((angles, angles), axis=-1)
        self.cos = Tensor(np.cos(angles), ms.float32)
        self.sin = Tensor(np.sin(angles), ms.float32)

    def construct(self, x):
        length = x.shape[2]
        first, second = ops.chunk(x, 2, axis=-1)
        turned = ops.cat((-second, first), axis=-1)
        return x * self.cos[:length] + turned * self.sin[:length]


class GroupedAttention(nn.Cell):
    """Causal attention in which several query heads share a key and value head."""

    def __init__(self):
        super().__init__()
        self.wq = nn.Dense(WIDTH, HEADS * HEAD_WIDTH, has_bias=False)
        self.wk = nn.Dense(WIDTH, KV_HEADS * HEAD_WIDTH, has_bias=False)
        self.wv = nn.Dense(WIDTH, KV_HEADS * HEAD_WIDTH, has_bias=False)
        self.wo = nn.Dense(HEADS * HEAD_WIDTH, WIDTH, has_bias=False)
        self.rotary = RotaryEmbedding()

    def construct(self, x, mask):
        batch, length, _ = x.shape
        query = self.wq(x).reshape(batch, length, HEADS, HEAD_WIDTH).transpose(0, 2, 1, 3)
        key = self.wk(x).reshape(batch, length, KV_HEADS, HEAD_WIDTH).transpose(0, 2, 1, 3)
        value = self.wv(x).reshape(batch, length, KV_HEADS, HEAD_WIDTH).transpose(0, 2, 1, 3)
        query = self.rotary(query)
        key = self.rotary(key)
        key = ops.repeat_interleave(key, HEADS // KV_HEADS, axis=1)
        value = ops.repeat_interleave(value, HEADS // KV_HEADS, axis=1)
        scores = ops.matmul(query, key.transpose(0, 1, 3, 2)) / math.sqrt(HEAD_WIDTH)
        scores = ops.add(scores, mask)
        weights = ops.softmax(scores.astype(ms.float32), axis=-1).astype(query.dtype)
        mixed = ops.matmul(weights, value)
        mixed = mixed.transpose(0, 2, 1, 3).reshape(batch, length, WIDTH)
        return self.wo(mixed)


class SwiGLU(nn.Cell):
    """A feed-forward whose inner values are gated."""

    def __init__(self):
        super().__init__()
        self.w1 = nn.Dense(WIDTH, INNER, has_bias=False)
        self.w2 = nn.Dense(INNER, WIDTH, has_bias=False)
        self.w3 = nn.Dense(WIDTH, INNER, has_bias=False)

    def construct(self, x):
        gate = mint.nn.functional.silu(self.w1(x))
        return self.w2(ops.mul(gate, self.w3(x)))


class Layer(nn.Cell):
    """Attention and feed-forward, each with its norm before and its residual."""

    def __init__(self):
        super().__init__()
        self.attention_norm = RMSNorm(WIDTH)
        self.attention = GroupedAttention()
        self.ffn_norm = RMSNorm(WIDTH)
        self.feed_forward = SwiGLU()

    def construct(self, x, mask):
        x = x + self.attention(self.attention_norm(x), mask)
        x = x + self.feed_forward(self.ffn_norm(x))
        return x


class Llama(nn.Cell):
    """Logits of the next token at every place."""

    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.CellList([Layer() for _ in range(LAYERS)])
        self.norm = RMSNorm(WIDTH)
        self.output = nn.Dense(WIDTH, VOCAB, has_bias=False)

    def construct(self, tokens):
        length = tokens.shape[1]
        hidden = self.tok_embeddings(tokens)
        mask = ops.triu(ops.full((length, length), -1e9, dtype=ms.float32), diagonal=1)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        hidden = self.norm(hidden)
        return self.output(hidden)


def build():
    """The net as it is trained."""
    net = Llama()
    net.set_train()
    return net


def loss_of(net, tokens, labels):
    """Mean cross-entropy; -1 marks places that do not count."""
    logits = net(tokens)
    return ops.cross_entropy(ops.reshape(logits, (-1, VOCAB)), ops.reshape(labels, (-1,)), ignore_index=-1)
