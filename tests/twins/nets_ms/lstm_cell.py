"""A language model by an LSTM written out in gates, as ported to MindSpore."""

import mindspore as ms
from mindspore import nn, ops

VOCABULARY, FEATURES, HIDDEN = 43, 20, 28


class GatedCell(nn.Cell):
    """One step: gates from the input and the last output, then the new memory and output."""

    def __init__(self):
        super().__init__()
        self.from_input = nn.Dense(FEATURES, 4 * HIDDEN)
        self.from_hidden = nn.Dense(HIDDEN, 4 * HIDDEN)

    def construct(self, x, hidden, memory):
        gates = ops.add(self.from_input(x), self.from_hidden(hidden))
        inputs, forget, new, output = ops.split(gates, HIDDEN, axis=1)
        memory = ops.sigmoid(forget) * memory + ops.sigmoid(inputs) * ops.tanh(new)
        hidden = ops.sigmoid(output) * ops.tanh(memory)
        return hidden, memory


class LanguageModel(nn.Cell):
    """Logits of the next token at every place."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, FEATURES)
        self.gated = GatedCell()
        self.projection = nn.Dense(HIDDEN, VOCABULARY)

    def construct(self, tokens):
        batch, length = tokens.shape
        features = self.embedding(tokens)
        hidden = memory = ops.zeros((batch, HIDDEN), ms.float32)
        outputs = []
        for place in range(length):
            hidden, memory = self.gated(features[:, place], hidden, memory)
            outputs.append(hidden)
        return self.projection(ops.stack(outputs, axis=1))


def build():
    """The net as it is trained."""
    net = LanguageModel()
    net.set_train()
    return net


def loss_of(net, tokens, following):
    """Mean cross-entropy; -1 marks places that do not count."""
    logits = net(tokens)
    return ops.cross_entropy(logits.reshape(-1, VOCABULARY), following.reshape(-1), ignore_index=-1)
