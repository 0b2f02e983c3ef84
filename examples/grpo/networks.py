"""The networks: a small causal transformer, and the cells that make of it a rollout, an actor and a critic.

Shapes: B sequences of L tokens, each a prompt padded on the left and a response padded on the right; R is the length
of the longest response.
`fault` plants one of `FAULTS` of `train.py`.
"""

import mindspore as ms
import numpy as np
from mindspore import nn, ops
from task import LONGEST_PROMPT, LONGEST_RESPONSE, VOCABULARY

WIDTH, HEADS, BLOCKS = 32, 2, 2
TEMPERATURE = 0.7


class Attention(nn.Cell):
    """Attention of several heads; `hidden` [B, 1, L, L] is true where a position is not to be seen."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Dense(WIDTH, WIDTH) for _ in range(4))

    def construct(self, x, hidden):
        shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
        q, k, v = (ops.swapaxes(project(x).reshape(shape), 1, 2) for project in (self.query, self.key, self.value))
        scores = ops.matmul(q, ops.swapaxes(k, -1, -2)) / (WIDTH // HEADS) ** 0.5
        weights = ops.softmax(ops.masked_fill(scores, hidden, -1e9), -1)
        return self.out(ops.swapaxes(ops.matmul(weights, v), 1, 2).reshape(x.shape))


class Block(nn.Cell):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, epsilon=1e-5, approximate=False):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm((WIDTH,), epsilon=epsilon), Attention()
        self.norm2, self.up = nn.LayerNorm((WIDTH,), epsilon=1e-5), nn.Dense(WIDTH, 4 * WIDTH)
        self.gelu, self.down = nn.GELU(approximate=approximate), nn.Dense(4 * WIDTH, WIDTH)

    def construct(self, x, hidden):
        x = x + self.attention(self.norm1(x), hidden)
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class Transformer(nn.Cell):
    """Tokens [B, L] and their mask (1 token, 0 padding) to [B, L, outputs]; `block` are options of the last block."""

    def __init__(self, outputs, **block):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LONGEST_PROMPT + LONGEST_RESPONSE, WIDTH)
        self.blocks = nn.CellList([*(Block() for _ in range(BLOCKS - 1)), Block(**block)])
        self.norm = nn.LayerNorm((WIDTH,), epsilon=1e-5)
        self.head = nn.Dense(WIDTH, outputs)

    def construct(self, ids, mask):
        length = ids.shape[1]
        position = ops.maximum(ops.cumsum(mask, 1) - 1, 0)  # padding on the left moves no position
        future = ms.Tensor(np.triu(np.ones((length, length), bool), 1))
        hidden = ops.logical_or(future, (mask == 0).reshape((-1, 1, 1, length)))
        x = self.tokens(ids) + self.positions(position)
        for block in self.blocks:
            x = block(x, hidden)
        return self.head(self.norm(x))


class LogProbs(nn.Cell):
    """Logits [..., vocabulary] to log-probabilities at a temperature."""

    def __init__(self, temperature=TEMPERATURE):
        super().__init__()
        self.temperature = temperature

    def construct(self, logits):
        return ops.log_softmax(logits / self.temperature, -1)


class Rollout(nn.Cell):
    """The generating side, with weights of its own: log-probabilities [B, vocabulary] of the next token."""

    def __init__(self, fault=""):
        super().__init__()
        self.policy = Transformer(VOCABULARY)
        self.sampler = LogProbs(1.0 if fault == "generate-temperature" else TEMPERATURE)

    def construct(self, ids, mask):
        return self.sampler(self.policy(ids, mask)[:, -1])

    def take_weights_of(self, actor):
        """What is called weight synchronisation where the two live on different devices."""
        for ours, theirs in zip(self.get_parameters(), actor.get_parameters(), strict=True):
            ours.set_data(ms.Tensor(theirs.asnumpy()))  # a copy, or it would be the actor's own memory


class Actor(nn.Cell):
    """The training side, and the reference: log-probabilities [B, R] of the tokens of the responses."""

    def __init__(self, **block):
        super().__init__()
        self.policy = Transformer(VOCABULARY, **block)
        self.log_probs = LogProbs()

    def construct(self, ids, mask):
        of_all = self.log_probs(self.policy(ids, mask)[:, LONGEST_PROMPT - 1 : -1])
        return ops.gather_elements(of_all, 2, ids[:, LONGEST_PROMPT:].expand_dims(-1)).squeeze(-1)


class Critic(nn.Cell):
    """What it expects the reward to be, [B, R]: one value before each token of the response."""

    def __init__(self, fault=""):
        super().__init__()
        self.values = Transformer(1, approximate=fault == "critic-gelu")

    def construct(self, ids, mask):
        return self.values(ids, mask)[:, LONGEST_PROMPT - 1 : -1, 0]


def initialised(net, seed):
    """First weights of a numpy generator, so that they do not depend on the version of the framework."""
    draw = np.random.default_rng(seed)
    for parameter in net.get_parameters():
        if len(parameter.shape) == 2:
            array = draw.normal(0, parameter.shape[1] ** -0.5, parameter.shape)
        else:
            array = np.full(parameter.shape, parameter.name.endswith("gamma"))
        parameter.set_data(ms.Tensor(array.astype(np.float32)))
    return net
