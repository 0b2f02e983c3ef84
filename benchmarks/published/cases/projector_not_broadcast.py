"""Each rank initializes the projector with random numbers of its own."""

from case import Truth
from mindspore import nn, ops, value_and_grad
from on_mindspore import Classifier, average_gradients, initialize, labels, vectors

SOURCE = "haotian-liu/LLaVA#1440"
FRAMEWORK = "mindspore"
RANKS = 2
HALF = 2
TRUTH = Truth(kinds=("parameters differ",), parameters=("second.weight",), step=0, rank=1, check=("equal-parameters",))


def train(run):
    net = initialize(Classifier())
    initialize(net.second, seed=1 + (run.rank if run.buggy else 0))
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    step_of = value_and_grad(lambda x, y: ops.cross_entropy(net(x), y), None, net.trainable_params())
    for step in run.steps(net):
        loss, gradients = step_of(vectors(step, run.rank), labels(step, run.rank))
        gradients = average_gradients(gradients, run)
        run.update(optimizer, gradients, loss)
