"""The PyTorch twin of `nets_mindspore/cnn.py`."""

import torch
from torch import nn
from torch.nn import functional

SIZES = {"small": (6, 1), "large": (8, 2)}
CLASSES = 7


def convolution(inside, outside, kernel, stride=1):
    return nn.Conv2d(inside, outside, kernel, stride, padding=kernel // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = convolution(inside, outside, 3, stride)
        self.norm1 = nn.BatchNorm2d(outside, eps=1e-5)
        self.conv2 = convolution(outside, outside, 3)
        self.norm2 = nn.BatchNorm2d(outside, eps=1e-5)
        self.shortcut = convolution(inside, outside, 1, stride)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return torch.relu(y + self.shortcut(x))


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        width, depth = SIZES[size]
        self.stem = convolution(3, width, 3)
        self.norm = nn.BatchNorm2d(width, eps=1e-5)
        self.blocks = nn.ModuleList(
            [Block(width, 2 * width, 2), *[Block(2 * width, 2 * width, 1) for _ in range(depth)]]
        )
        self.head = nn.Linear(2 * width, CLASSES)

    def forward(self, x, labels):
        x = torch.relu(self.norm(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        x = torch.mean(x, (2, 3))
        return functional.cross_entropy(self.head(x), labels, label_smoothing=0.1)


def arguments(pictures, labels):
    return torch.from_numpy(pictures), torch.from_numpy(labels).long()


def optimizer(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3)
