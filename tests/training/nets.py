"""The networks by name, with their data and their manner of training. Hand counts of their calls are in calls.py."""

from collections.abc import Callable
from dataclasses import dataclass

import layers
import mindspore as ms
import numpy as np
import structures
from mindspore import Tensor, nn
from parts import WIDTH, batch


def rows(rng):
    """16 rows of numbers."""
    return batch(rng, 16, WIDTH), batch(rng, 16, WIDTH)


def sequences(rng):
    """Two sequences of 8."""
    return batch(rng, 2, 8, WIDTH), batch(rng, 2, 8, WIDTH)


def images(rng):
    """Three pictures of 4 x 4 in two channels."""
    return batch(rng, 3, 2, 4, 4), batch(rng, 3, WIDTH)


def few_ids(rng):
    """16 ids below 5, and what the tied projection gives."""
    return Tensor(rng.integers(0, 5, (16,)), ms.int32), batch(rng, 16, 5)


def many_ids(rng):
    """Two sequences of 6 ids below 11."""
    return Tensor(rng.integers(0, 11, (2, 6)), ms.int32), batch(rng, 2, 6, WIDTH)


@dataclass(frozen=True)
class Case:
    """A network, the data of a step, and how it is trained.

    With `micro_batches` above 1 the gradients of as many calls are summed for one step of the optimizer; the loss is
    multiplied by `loss_scale`, and the gradients divided by it. `one_thread` keeps each kernel on one thread: on
    several, MindSpore's Dropout primitive on the CPU draws other numbers in every process from its sixth launch on,
    whatever the seed, and the training could not be repeated. MindSpore's kernels choose their number of threads by
    measured time, and the last bit of RMSProp's moments depends on that number.
    """

    net: type[nn.Cell]
    data: Callable[[np.random.Generator], tuple[Tensor, Tensor]] = rows
    optimizer: str = "AdamWeightDecay"
    micro_batches: int = 1
    loss_scale: float = 1.0
    one_thread: bool = False


NETS = {
    "branching": Case(structures.Branching),
    "shared": Case(structures.Shared),
    "looking": Case(structures.Looking),
    "in_place": Case(structures.InPlace),
    "dict_outputs": Case(structures.DictOutputs, optimizer="Momentum"),
    "recomputed": Case(structures.Recomputed),
    "recomputed_early": Case(structures.RecomputedEarly, optimizer="SGD"),
    "tied": Case(structures.Tied, few_ids),
    "own_gradient": Case(structures.OwnGradient, optimizer="Adagrad"),
    "named_outputs": Case(structures.NamedOutputs, optimizer="Adam"),
    "raising": Case(structures.Raising, optimizer="RMSProp", one_thread=True),
    "convolution": Case(layers.Convolution, images, optimizer="Momentum"),
    "attention": Case(layers.Attending, sequences, optimizer="Adam"),
    "chance": Case(layers.Chance, optimizer="SGD", one_thread=True),
    "halves": Case(layers.Halves, loss_scale=1024.0),
    "micro_batches": Case(structures.Branching, micro_batches=3),
    "gathered": Case(layers.Gathered, many_ids, optimizer="Adam"),
    "compiled": Case(layers.Compiled, optimizer="Momentum"),
}


def optimizer_of(case, parameters):
    """The optimizer of a case; Momentum has no default of its own."""
    options = {"momentum": 0.9} if case.optimizer == "Momentum" else {}
    return getattr(nn, case.optimizer)(parameters, learning_rate=0.01, **options)


def data(name, step, micro_batch=0):
    """The batch of a step: input and target."""
    return NETS[name].data(np.random.default_rng(1000 + step + 100_000 * micro_batch))
