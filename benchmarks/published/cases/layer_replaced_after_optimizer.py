"""A layer is replaced after the optimizer was constructed: the new one is trained by nobody."""

from case import Truth
from mindspore import ParameterTuple, nn, ops, value_and_grad
from on_mindspore import Classifier, initialize, labels, vectors

SOURCE = "deepspeedai/DeepSpeed#6770"
FRAMEWORK = "mindspore"
HALF = 2
TRUTH = Truth(kinds=("parameters differ",), parameters=("second.weight", "second.bias"), step=1, check=("updates",))


def train(run):
    net = Classifier()
    old = nn.Dense(24, 24)
    old.update_parameters_name("second.")
    new = net.second
    initialize(net)
    net.second = old if run.buggy else new
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    net.second = new
    weights = ParameterTuple(net.trainable_params())
    step_of = value_and_grad(lambda x, y: ops.cross_entropy(net(x), y), None, weights)
    for step in run.steps(net):
        loss, gradients = step_of(vectors(step), labels(step))
        run.update(optimizer, gradients, loss)
