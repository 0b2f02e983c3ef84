"""A small ResNet, as ported to MindSpore."""

from mindspore import nn, ops

CLASSES = 7


def conv(inputs, outputs, size, stride=1):
    """A convolution that keeps the size of the picture, but for its stride."""
    return nn.Conv2d(inputs, outputs, size, stride=stride, pad_mode="pad", padding=size // 2, has_bias=False)


def norm(channels):
    """The batch norm: MindSpore's momentum is the share that stays."""
    return nn.BatchNorm2d(channels, eps=1e-5, momentum=0.9)


class ResidualBlock(nn.Cell):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv_a = conv(inputs, outputs, 3, stride)
        self.norm_a = norm(outputs)
        self.conv_b = conv(outputs, outputs, 3)
        self.norm_b = norm(outputs)
        self.activation = nn.ReLU()
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.SequentialCell(conv(inputs, outputs, 1, stride), norm(outputs))

    def construct(self, x):
        shortcut = x if self.shortcut is None else self.shortcut(x)
        y = self.conv_a(x)
        y = self.norm_a(y)
        y = self.activation(y)
        y = self.conv_b(y)
        y = self.norm_b(y)
        return self.activation(ops.add(y, shortcut))


class ResNet(nn.Cell):
    """Scores of the classes of pictures."""

    def __init__(self):
        super().__init__()
        self.stem = conv(3, 10, 5)
        self.stem_norm = norm(10)
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2, pad_mode="pad", padding=1)
        self.stage1 = nn.SequentialCell(ResidualBlock(10, 10), ResidualBlock(10, 10))
        self.stage2 = nn.SequentialCell(ResidualBlock(10, 18, stride=2), ResidualBlock(18, 18))
        self.classifier = nn.Dense(18, CLASSES)

    def construct(self, images):
        x = ops.relu(self.stem_norm(self.stem(images)))
        x = self.pool(x)
        x = self.stage2(self.stage1(x))
        x = ops.mean(x, axis=(2, 3))
        return self.classifier(x)


def build():
    """The net as it is trained: batch norms follow the batches."""
    net = ResNet()
    net.set_train(True)
    return net


def loss_of(net, images, labels):
    """Mean cross-entropy with smoothed labels."""
    scores = net(images)
    return ops.cross_entropy(scores, labels, label_smoothing=0.1)
