"""All workers of a loader have the same numpy seed: they draw the same augmentation."""

import numpy as np
from case import Truth
from mindspore import Tensor, nn, ops, value_and_grad
from on_mindspore import Classifier, initialize, labels
from training import numbers

SOURCE = "https://stackoverflow.com/q/67180955, pytorch/pytorch#5059"
FRAMEWORK = "mindspore"
HALF = 1
TRUTH = Truth(kinds=("run inputs differ",), calls=("* @ first", "Cell.first.*"), step=0)


def load(step, workers):
    """A batch of which each worker has augmented one half."""
    halves = np.split(numbers(step, 5, shape=(8, 16)), 2)
    return np.concatenate([half + 0.3 * w.standard_normal(half.shape) for half, w in zip(halves, workers, strict=True)])


def train(run):
    net = initialize(Classifier())
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    workers = [np.random.RandomState(0 if run.buggy else 100 + worker) for worker in range(2)]
    step_of = value_and_grad(lambda x, y: ops.cross_entropy(net(x), y), None, net.trainable_params())
    for step in run.steps(net):
        batch = Tensor(load(step, workers).astype(np.float32))
        loss, gradients = step_of(batch, labels(step))
        run.update(optimizer, gradients, loss)
