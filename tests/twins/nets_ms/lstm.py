"""A language model of a two-layer LSTM, as ported to MindSpore."""

from mindspore import nn, ops

VOCABULARY, FEATURES, HIDDEN, LAYERS = 43, 20, 28, 2
MICRO_BATCHES = 2


class LanguageModel(nn.Cell):
    """Logits of the next token at every place."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, FEATURES)
        self.lstm = nn.LSTM(FEATURES, HIDDEN, num_layers=LAYERS, batch_first=True)
        self.layer_norm = nn.LayerNorm((HIDDEN,), epsilon=1e-5)
        self.projection = nn.Dense(HIDDEN, VOCABULARY)

    def construct(self, tokens):
        features = self.embedding(tokens)
        hidden, _ = self.lstm(features)
        hidden = self.layer_norm(hidden)
        return self.projection(hidden)


def build():
    """The net as it is trained."""
    net = LanguageModel()
    net.set_train()
    return net


def loss_of(net, tokens, following):
    """Mean cross-entropy of a micro-batch, as its share of the step."""
    logits = net(tokens)
    loss = ops.cross_entropy(logits.reshape(-1, VOCABULARY), following.reshape(-1), ignore_index=-1)
    return loss / MICRO_BATCHES
