"""Train a PyTorch twin for some steps and collect them."""

import torch
import weights
from batches import batch

LEARNING_RATE, MOMENTUM = 0.05, 0.9


def filled(program, parameters, equal=False):
    """The model with its weights."""
    model = program.build()
    own = {n: t for n, t in model.state_dict(keep_vars=True).items() if not n.endswith("num_batches_tracked")}
    values = weights.weights(parameters, {name: tuple(tensor.shape) for name, tensor in own.items()}, equal)
    if own.keys() - values.keys():
        raise ValueError(f"without a weight: {sorted(own.keys() - values.keys())}")
    with torch.no_grad():
        for name, value in values.items():
            own[name].copy_(torch.from_numpy(value))
    return model


def train(program, model, name, steps=1, debugger=None):
    """Losses and gradients of every step, as numpy."""
    micro_batches = getattr(program, "MICRO_BATCHES", 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    history = []
    for step in range(steps):
        if debugger:
            debugger.start(model)
        optimizer.zero_grad()
        losses = []
        for micro_batch in range(micro_batches):
            loss = program.loss_of(model, *(torch.from_numpy(array) for array in batch(name, step, micro_batch)))
            loss.backward()
            losses.append(loss)
        if debugger:
            debugger.stop()
        grads = {n: p.grad.numpy().copy() for n, p in model.named_parameters()}
        optimizer.step()
        if debugger:
            debugger.step()
        history.append(([loss.detach().numpy() for loss in losses], grads))
    return history
