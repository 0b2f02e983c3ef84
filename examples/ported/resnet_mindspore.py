"""The port: the same ResNet in MindSpore. `FAULTS` are mistakes that such ports have had; `fault` plants one."""

from mindspore import nn, ops

FAULTS = {
    "momentum": "one BatchNorm has PyTorch's momentum of 0.1, which in MindSpore's convention is 0.9",
    "padding": "the second block's downsampling convolution pads by one",
}


def conv(channels, out, size, stride=1, padding=0):
    return nn.Conv2d(channels, out, size, stride, pad_mode="pad", padding=padding, has_bias=False)


class Block(nn.Cell):
    def __init__(self, channels, out, stride, padding=0):
        super().__init__()
        self.conv1 = conv(channels, out, 3, stride, 1)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = conv(out, out, 3, 1, 1)
        self.norm2 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU()
        self.down_sample = None
        if stride != 1 or channels != out:
            self.down_sample = nn.SequentialCell([conv(channels, out, 1, stride, padding), nn.BatchNorm2d(out)])

    def construct(self, x):
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        if self.down_sample is not None:
            x = self.down_sample(x)[:, :, : y.shape[2], : y.shape[3]]
        return self.relu(x + y)


class Net(nn.Cell):
    def __init__(self, fault=""):
        super().__init__()
        self.stem = conv(3, 8, 3, 1, 1)
        self.stem_norm = nn.BatchNorm2d(8, momentum=0.1 if fault == "momentum" else 0.9)
        self.relu = nn.ReLU()
        self.stage1 = Block(8, 8, 1)
        self.stage2 = Block(8, 16, 2, padding=1 if fault == "padding" else 0)
        self.classifier = nn.Dense(16, 7)

    def construct(self, images):
        x = self.relu(self.stem_norm(self.stem(images)))
        x = self.stage2(self.stage1(x))
        return self.classifier(ops.mean(x, (2, 3)))


RENAMED = (
    ("layer1.", "stage1."),
    ("layer2.", "stage2."),
    ("fc.", "classifier."),
    ("downsample.0.", "down_sample.0."),
    ("downsample.1.weight", "down_sample.1.gamma"),
    ("downsample.1.bias", "down_sample.1.beta"),
    ("bn1.weight", "norm1.gamma"),
    ("bn1.bias", "norm1.beta"),
    ("bn2.weight", "norm2.gamma"),
    ("bn2.bias", "norm2.beta"),
)
"""How a parameter of the original is called here; the stem has names of its own."""


def loaded(weights, fault=""):
    """The original's weights under the names of the port."""
    here = {}
    for name, array in weights.items():
        for theirs, ours in RENAMED:
            name = name.replace(theirs, ours)
        if name.startswith(("conv1.", "norm1.")):
            name = name.replace("conv1.", "stem.").replace("norm1.", "stem_norm.")
        here[name] = array
    return here


def loss_of(net, batch, labels):
    return ops.cross_entropy(net(batch), labels)
