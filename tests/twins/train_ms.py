"""Train a MindSpore twin for some steps and collect them."""

import functools
import operator

import mindspore as ms
import weights
from batches import batch
from mindspore import Tensor, nn

LEARNING_RATE, MOMENTUM = 0.05, 0.9


def filled(program, parameters, equal=False, loading=None):
    """The net with its weights; `loading` says what a porter's loading did wrong: names to skip, or to transpose."""
    net, loading = program.build(), loading or {}
    own = {parameter.name: parameter for parameter in net.get_parameters()}
    values = weights.weights(parameters, {name: tuple(p.shape) for name, p in own.items()}, equal)
    unknown = own.keys() - values.keys()
    if unknown and not loading:
        raise ValueError(f"without a weight: {sorted(unknown)}")
    for name, value in values.items():
        if name in loading.get("skip", ()):
            value = weights.weight(f"initial {name}", value.shape)
        elif name in loading.get("transpose", ()):
            value = value.T.copy()
        elif name in loading.get("instead", {}):
            value = values[loading["instead"][name]]
        own[name].set_data(Tensor(value))
    return net


def train(program, net, name, steps=1, debugger=None):
    """Losses and gradients of every step, as numpy."""
    micro_batches = getattr(program, "MICRO_BATCHES", 1)
    trained = net.trainable_params()
    optimizer = nn.SGD(trained, learning_rate=LEARNING_RATE, momentum=MOMENTUM)
    gradient = ms.value_and_grad(lambda *data: program.loss_of(net, *data), None, trained)
    history = []
    for step in range(steps):
        if debugger:
            debugger.start(net)
        losses, shares = [], []
        for micro_batch in range(micro_batches):
            loss, grads = gradient(*(Tensor(array) for array in batch(name, step, micro_batch)))
            losses.append(loss)
            shares.append(grads)
        if debugger:
            debugger.stop()
        total = [functools.reduce(operator.add, grads) for grads in zip(*shares, strict=True)]
        optimizer(tuple(total))
        if debugger:
            debugger.step()
        history.append(
            ([loss.asnumpy() for loss in losses], {p.name: g.asnumpy() for p, g in zip(trained, total, strict=True)})
        )
    return history
