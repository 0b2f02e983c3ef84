"""A small residual network with BatchNorm in training mode that classifies pictures; trained by SGD with momentum."""

from mindspore import Tensor, nn, ops
from mindspore.experimental import optim

SIZES = {"small": (6, 1), "large": (8, 2)}
CLASSES = 7


def convolution(inside, outside, kernel, stride=1):
    return nn.Conv2d(inside, outside, kernel, stride, pad_mode="pad", padding=kernel // 2)


class Block(nn.Cell):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = convolution(inside, outside, 3, stride)
        self.norm1 = nn.BatchNorm2d(outside, eps=1e-5)
        self.conv2 = convolution(outside, outside, 3)
        self.norm2 = nn.BatchNorm2d(outside, eps=1e-5)
        self.shortcut = convolution(inside, outside, 1, stride)

    def construct(self, x):
        y = ops.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return ops.relu(y + self.shortcut(x))


class Net(nn.Cell):
    def __init__(self, size):
        super().__init__()
        width, depth = SIZES[size]
        self.stem = convolution(3, width, 3)
        self.norm = nn.BatchNorm2d(width, eps=1e-5)
        self.blocks = nn.CellList([Block(width, 2 * width, 2), *[Block(2 * width, 2 * width, 1) for _ in range(depth)]])
        self.head = nn.Dense(2 * width, CLASSES)
        self.set_train()

    def construct(self, x, labels):
        x = ops.relu(self.norm(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        x = ops.mean(x, (2, 3))
        return ops.cross_entropy(self.head(x), labels, label_smoothing=0.1)


def arguments(pictures, labels):
    return Tensor(pictures), Tensor(labels)


def optimizer(parameters):
    return optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3)
