"""A small ViT, as ported to MindSpore."""

import mindspore as ms
from mindspore import Parameter, nn, ops

PATCH, CHANNELS, WIDTH, DEPTH, HEADS, INNER, CLASSES, PATCHES = 4, 3, 36, 2, 3, 84, 9, 15


class Patches(nn.Cell):
    """Embeds square patches of pictures."""

    def __init__(self):
        super().__init__()
        self.projection = nn.Conv2d(CHANNELS, WIDTH, PATCH, PATCH, pad_mode="valid", has_bias=True)

    def construct(self, images):
        x = self.projection(images)
        batch, width, rows, columns = x.shape
        x = ops.reshape(x, (batch, width, rows * columns))
        return ops.transpose(x, (0, 2, 1))


class SelfAttention(nn.Cell):
    """Attention of every patch to all."""

    def __init__(self):
        super().__init__()
        self.head_width = WIDTH // HEADS
        self.scale = self.head_width**-0.5
        self.q = nn.Dense(WIDTH, WIDTH)
        self.k = nn.Dense(WIDTH, WIDTH)
        self.v = nn.Dense(WIDTH, WIDTH)
        self.out = nn.Dense(WIDTH, WIDTH)
        self.softmax = nn.Softmax(axis=-1)
        self.matmul = ops.BatchMatMul()
        self.matmul_nt = ops.BatchMatMul(transpose_b=True)

    def construct(self, x):
        batch, places, width = x.shape
        q = ops.transpose(ops.reshape(self.q(x), (batch, places, HEADS, self.head_width)), (0, 2, 1, 3))
        k = ops.transpose(ops.reshape(self.k(x), (batch, places, HEADS, self.head_width)), (0, 2, 1, 3))
        v = ops.transpose(ops.reshape(self.v(x), (batch, places, HEADS, self.head_width)), (0, 2, 1, 3))
        q = ops.mul(q, self.scale)
        scores = self.matmul_nt(q, k)
        weights = self.softmax(scores)
        mixed = ops.transpose(self.matmul(weights, v), (0, 2, 1, 3))
        return self.out(ops.reshape(mixed, (batch, places, width)))


class EncoderLayer(nn.Cell):
    """Attention and a perceptron, each with its norm before and its residual."""

    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm([WIDTH], epsilon=1e-6)
        self.attention = SelfAttention()
        self.ln2 = nn.LayerNorm([WIDTH], epsilon=1e-6)
        self.fc1 = nn.Dense(WIDTH, INNER)
        self.gelu = nn.GELU(approximate=False)
        self.fc2 = nn.Dense(INNER, WIDTH)

    def construct(self, x):
        x = ops.add(x, self.attention(self.ln1(x)))
        y = self.fc1(self.ln2(x))
        y = self.gelu(y)
        y = self.fc2(y)
        return ops.add(x, y)


class ViT(nn.Cell):
    """Scores of the classes of pictures."""

    def __init__(self):
        super().__init__()
        self.patches = Patches()
        self.class_token = Parameter(ops.zeros((1, 1, WIDTH), ms.float32))
        self.position = Parameter(ops.zeros((1, PATCHES + 1, WIDTH), ms.float32))
        self.encoder = nn.SequentialCell([EncoderLayer() for _ in range(DEPTH)])
        self.ln = nn.LayerNorm([WIDTH], epsilon=1e-6)
        self.classifier = nn.Dense(WIDTH, CLASSES)

    def construct(self, images):
        x = self.patches(images)
        token = ops.broadcast_to(self.class_token, (x.shape[0], 1, WIDTH))
        x = ops.concat((token, x), axis=1)
        x = ops.add(x, self.position)
        x = self.encoder(x)
        x = self.ln(x)
        return self.classifier(x[:, 0])


def build():
    """The net as it is trained."""
    return ViT().set_train()


def loss_of(net, images, labels):
    """Mean cross-entropy."""
    criterion = nn.CrossEntropyLoss()
    return criterion(net(images), labels.astype(ms.int32))
