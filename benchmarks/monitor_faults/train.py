"""One training of a small net with AdamW, its monitor's numbers, and the faults that can be planted in it.

Two ranks are two replicas that train in one process: each computes its own shard, and gradients are averaged between.
"""

from copy import deepcopy
from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops
from nets import CLASSES, NETS

BATCH = 16
STATISTICS = ("norm", "min", "max", "mean")
RATE, DECAY, EPS, BETAS = 2e-3, 0.05, 1e-8, (0.9, 0.98)
KINDS = (
    *("actv", "local", "actv_grad", "grad_unreduced", "grad_reduced"),
    *("exp_avg", "exp_avg_sq", "param_origin", "param_updated", "update_ratio"),
)


@dataclass(frozen=True)
class Fault:
    """What goes wrong from `step` on; `where` is a number that chooses the layer, the parameter or the amount."""

    name: str
    step: int
    where: int = 0
    rank: int = 0


@dataclass(frozen=True)
class Variant:
    """How a correct run differs: samples of a batch in another order, layers in bfloat16, another number of threads in
    a process of its own."""

    permuted: int = 0
    half: bool = False
    threads: int = 0
    process: int = 0


@dataclass(frozen=True, eq=False)
class Trained:
    """What was found in a training, and its state before some steps."""

    found: list
    states: dict


class Run:
    """The programs of a net, compiled once; `train` begins anew each time."""

    def __init__(self, net, ranks=1, half=False):
        self.kind, self.ranks, self.half = NETS[net], ranks, half
        self.nets = [self.kind(np.random.default_rng(0), half) for _ in range(ranks)]
        self.steps = [self._program(each) for each in self.nets]
        self.optimizers = [AdamW(each.trainable_params()) for each in self.nets]
        # Mutable: a plain tuple would be a constant, and the program compiled anew for each step.
        self.probes = ms.mutable(tuple(Tensor(np.zeros((BATCH, *shape), np.float32)) for shape in self.kind.shapes))
        names = [p.name.replace(".layer.", ".") for p in self.nets[0].trainable_params()]
        self.names = [f"{self.kind.layer_of(name)}.{part_of(name)}" for name in names]

    def seeded(self, seed):
        """The same programs with weights and data of a seed."""
        self.seed = seed
        fresh = self.kind(np.random.default_rng(seed), self.half).trainable_params()
        self.begin = [[p.asnumpy().copy() for p in fresh] for _ in range(self.ranks)]
        rng = np.random.default_rng(seed + 1000)
        self.data = rng.standard_normal((1024, *self.kind.inputs)).astype(np.float32)
        teacher = rng.standard_normal((int(np.prod(self.kind.inputs)), CLASSES))
        score = self.data.reshape(1024, -1) @ teacher
        self.labels = (score + 0.5 * rng.standard_normal(score.shape)).argmax(-1).astype(np.int32)
        return self

    @staticmethod
    def _program(net):
        """Loss, outputs, their gradients and those of the parameters, as one flat tensor: fetched at once."""
        gradient = ms.value_and_grad(net_with_scale(net), 2, tuple(net.trainable_params()), has_aux=True)

        @ms.jit
        def program(x, labels, probes, scales, sens):
            (_, loss, given), (of_probes, of_parameters) = gradient(x, labels, probes, scales, sens)
            return flat((loss, *given, *of_probes, *of_parameters))

        return program

    def batch(self, step, rank, variant):
        rng = np.random.default_rng([self.seed, step, rank])
        chosen = rng.choice(len(self.data), BATCH, replace=False)
        if variant.permuted:
            chosen = np.random.default_rng([variant.permuted, step]).permutation(chosen)
        return Tensor(self.data[chosen]), Tensor(self.labels[chosen])

    def train(self, steps, fault=None, variant=Variant(), base=None, kept=()):
        """Rank -> kind -> (names, array of steps x names x statistics).

        A training with a fault goes on from `base`, the one without it, at the fault's step; `kept` are the steps whose
        state such a base keeps.
        """
        kind = self.kind
        optimizers = [self._begin(at) for at in range(self.ranks)]
        found = [{k: [] for k in KINDS} for _ in range(self.ranks)]
        first, states = 0, {}
        if base is not None:
            first = fault.step
            found = [{k: list(rows[:first]) for k, (_, rows) in of_rank.items()} for of_rank in base.found]
            for optimizer, state in zip(optimizers, base.states[first], strict=True):
                optimizer.set(*state)
                optimizer.number = first
        for step in range(first, steps):
            if step in kept:
                states[step] = [deepcopy(each.state) for each in optimizers]
            is_on = fault is not None and step >= fault.step
            is_at = fault is not None and step == fault.step
            gradients = []
            for rank in range(self.ranks):
                is_here = self.ranks == 1 or rank == fault.rank if fault else False
                repeated = is_at and fault.name == "batch" and is_here
                x, labels = self.batch(step - 1 if repeated else step, rank, variant)
                scales = np.ones(len(kind.layers), np.float32)
                if is_on and fault.name == "backward" and is_here:
                    scales[fault.where % len(scales)] = 1.01
                sens = 2.0 if is_on and fault.name == "loss_scale" else 1.0
                values = self.steps[rank](x, labels, self.probes, Tensor(scales), Tensor(np.float32(sens)))
                layers = [(BATCH, *shape) for shape in kind.shapes]
                parts = split(values.asnumpy(), [(), *layers, *layers, *(p.shape for p in self.begin[0])])
                note, count = found[rank], len(layers)
                note["local"].append([[float(parts[0])]])
                note["actv"].append([statistics(part) for part in parts[1 : count + 1]])
                note["actv_grad"].append([statistics(part) for part in parts[count + 1 : 2 * count + 1][::-1]])
                gradients.append(parts[2 * count + 1 :])
                note["grad_unreduced"].append([statistics(g) for g in gradients[-1]])
            reduced = self._reduce(gradients, fault if is_on else None)
            for rank in range(self.ranks):
                self._update(optimizers[rank], rank, reduced[rank], fault, is_at, is_on, found[rank])
        found = [{k: (self._names(k), np.array(rows)) for k, rows in note.items() if len(rows)} for note in found]
        return Trained(found, states)

    def _names(self, kind):
        layers = self.kind.layers
        if kind == "actv":
            return [f"{layer}.output" for layer in layers]
        if kind == "actv_grad":
            return [f"{layer}.output" for layer in layers[::-1]]
        return ["loss"] if kind == "local" else self.names

    def is_decayed(self, at):
        return self.begin[0][at].ndim > 1

    def _begin(self, rank):
        decays = [DECAY if self.is_decayed(at) else 0.0 for at in range(len(self.names))]
        self.optimizers[rank].begin(self.begin[rank], decays)
        return self.optimizers[rank]

    def _reduce(self, gradients, fault):
        """The mean over the ranks; clipped to a norm of 1 on each."""
        mean = [np.mean(each, 0, dtype=np.float32) for each in zip(*gradients, strict=True)]
        reduced = []
        for rank in range(self.ranks):
            own = list(mean)
            if fault is not None and fault.name == "all_reduce":
                left_out = range(len(own)) if fault.where % 2 else [fault.where // 2 % len(own)]
                for at in left_out:
                    own[at] = gradients[rank][at]
            norm = np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in own))
            if fault is not None and fault.name == "clip" and rank == fault.rank:
                own = [(g * np.float32(0.5)).astype(np.float32) for g in own]  # clipped to half of its norm
            reduced.append(own)
            assert np.isfinite(norm)
        return reduced

    def _update(self, optimizer, rank, reduced, fault, is_at, is_on, note):
        name = fault.name if fault else ""
        if is_at and name == "rate":
            optimizer.rate = RATE * (2.0, 1.1, 0.5)[fault.where % 3]
        if is_at and name == "decay":
            optimizer.decays = [DECAY] * len(self.names)
        if is_at and name == "eps":
            optimizer.eps = (1e-6, 1e-5, 1e-4)[fault.where % 3]
        values, *moments = optimizer.state
        if is_at and name == "moments":
            for each in moments[: 1 + fault.where % 2]:
                each[:] = [np.zeros_like(moment) for moment in each]
            optimizer.set(values, *moments)
        for kind, each in zip(("exp_avg", "exp_avg_sq"), moments, strict=True):
            note[kind].append([statistics(moment) for moment in each])
        note["grad_reduced"].append([statistics(g) for g in reduced])
        note["param_origin"].append([statistics(p) for p in values])
        before = optimizer.state[0]
        optimizer.step(reduced)
        note["param_updated"].append([statistics(p) for p in optimizer.state[0]])
        note["update_ratio"].append([change(*each) for each in zip(before, optimizer.state[0], strict=True)])


def part_of(name):
    """A parameter's name inside its layer: `norm1.0.gamma` is `norm1.gamma`, `head.weight` is `weight`."""
    first, *rest = name.split(".")
    inner = first in ("norm1", "norm2", "qkv", "out", "of_input", "of_state")
    return f"{first}.{rest[-1]}" if inner else rest[-1]


def net_with_scale(net):
    def forward(x, labels, probes, scales, sens):
        loss, given = net(x, labels, probes, scales)
        return loss * sens, loss, given

    return forward


def flat(tensors):
    return ops.concat([each.reshape(-1) for each in tensors])


def split(array, shapes):
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(np.split(array, ends[:-1]), shapes, strict=True)]


class AdamW:
    """AdamW as one compiled program, whose settings and moments can be changed between steps."""

    def __init__(self, parameters):
        self.parameters = ms.ParameterTuple(parameters)
        self.exp_avg = self.parameters.clone("m", init="zeros")
        self.exp_avg_sq = self.parameters.clone("v", init="zeros")
        self.shapes = [p.shape for p in parameters]
        self.program = self._program(self.parameters, self.exp_avg, self.exp_avg_sq)
        self.fill = self._fill((*self.parameters, *self.exp_avg, *self.exp_avg_sq))

    def begin(self, values, decays):
        self.rate, self.eps, self.decays, self.number = RATE, EPS, decays, 0
        self.set(values, *([np.zeros_like(value) for value in values] for _ in range(2)))

    def set(self, values, first, second):
        self.state = [list(values), list(first), list(second)]
        self.fill(Tensor(np.concatenate([value.ravel() for each in self.state for value in each])))

    def step(self, gradients):
        self.number += 1
        corrections = 1 - BETAS[0] ** self.number, 1 - BETAS[1] ** self.number
        settings = Tensor(np.array([self.rate, self.eps, *corrections], np.float32))
        given = Tensor(np.concatenate([g.ravel() for g in gradients]))
        after = self.program(given, Tensor(np.array(self.decays, np.float32)), settings).asnumpy()
        parts = split(after, self.shapes * 3)
        self.state = [parts[at * len(self.shapes) :][: len(self.shapes)] for at in range(3)]

    @staticmethod
    def _program(values, first, second):
        (beta1, beta2), places = BETAS, _places(values)
        count = len(places)

        @ms.jit
        def program(gradients, decays, settings):
            rate, eps, correction1, correction2 = settings[0], settings[1], settings[2], settings[3]
            updated, firsts, seconds = (), (), ()
            for at in range(count):
                begin, end, shape = places[at]
                g = gradients[begin:end].reshape(shape)
                m = beta1 * first[at] + (1 - beta1) * g
                v = beta2 * second[at] + (1 - beta2) * g * g
                kept = values[at] * (1 - rate * decays[at])
                w = kept - rate * (m / correction1) / (ops.sqrt(v / correction2) + eps)
                ops.assign(values[at], w)
                ops.assign(first[at], m)
                ops.assign(second[at], v)
                updated, firsts, seconds = (*updated, w), (*firsts, m), (*seconds, v)
            return flat((*updated, *firsts, *seconds))

        return program

    @staticmethod
    def _fill(parameters):
        places = _places(parameters)
        count = len(places)

        @ms.jit
        def program(values):
            for at in range(count):
                begin, end, shape = places[at]
                ops.assign(parameters[at], values[begin:end].reshape(shape))
            return values[0]

        return program


def _places(parameters):
    """Where each parameter lies in a flat tensor: begin, end, shape."""
    ends = np.cumsum([int(np.prod(p.shape)) for p in parameters]).tolist()
    return tuple((begin, end, p.shape) for begin, end, p in zip([0, *ends[:-1]], ends, parameters, strict=True))


def change(before, after):
    """Norm of the change, and that beside the norm of the weight before."""
    before, after = before.astype(np.float64), after.astype(np.float64)
    size, weight = float(np.sqrt(np.square(after - before).sum())), float(np.sqrt(np.square(before).sum()))
    return [size, size / weight if weight else float("nan")]


def statistics(array):
    wide = array.astype(np.float64)
    norm = np.float32(np.sqrt((wide * wide).sum()))
    return [float(norm), float(array.min()), float(array.max()), float(np.float32(wide.mean()))]
