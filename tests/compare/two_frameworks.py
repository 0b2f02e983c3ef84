"""A small network in MindSpore and in PyTorch, by hand, for the tests of comparisons between the two."""

import numpy as np

from msprobe.compare.locate.find import locate
from msprobe.compare.match.user_mapping import user_pairs
from msprobe.compare.run import compare
from msprobe.mapping.user_files import user_mapping

MODES = ["statistics", "tensor"]
GENERATOR = np.random.default_rng(7)
X, W1, H, R, W2, Y = (
    GENERATOR.normal(size=shape).astype(np.float32) for shape in ((3, 4), (5, 4), (3, 5), (3, 5), (2, 5), (3, 2))
)
GRADIENTS = {
    n: GENERATOR.normal(size=shape).astype(np.float32) for n, shape in (("y", (3, 2)), ("w2", (2, 5)), ("r", (3, 5)))
}


def noisy(array, size=1e-7):
    """The array as another kernel rounds it, by at most `size` of its scale."""
    drift = np.random.default_rng(array.size).uniform(-size, size, array.shape) * np.abs(array).max()
    return (array + drift).astype(np.float32)


class Twin:
    """One side of: dense, softmax, normalization as in `spell`, dense; and the backward of the last."""

    def __init__(self, builder, tensor, value, framework, name, mode="statistics", reference=False):
        self.build = builder(name, mode=mode, framework=framework)
        self.value, self.is_ms = value, framework == "mindspore"
        if not reference:
            self.build.extra["format_version"] = 1
        self.dtype = "Float32" if self.is_ms else "torch.float32"
        self.tensor = lambda array, **more: tensor(np.asarray(array), dtype=self.dtype, **more)
        self.fuzz = noisy if self.is_ms else (lambda array: array)

    def run(self, *, axis=None, softmax=R, spell=None, last=Y, first=H, weight=W2, backward=True, keyword=False):
        t, v, f, ms = self.tensor, self.value, self.fuzz, self.is_ms
        cell = "Cell.{}.Dense" if ms else "Module.{}.Linear"
        one, two = cell.format("fc1"), cell.format("out" if ms else "head")
        call = self.build.call
        call(f"{one}.forward.0", [t(X)], [t(f(first))], parameters={"weight": t(W1)})
        axis = (-1 if ms else 1) if axis is None else axis
        given = {"axis" if ms else "dim": v(axis)} if keyword else {}
        call(
            "Functional.softmax.0.forward",
            [t(f(first)), *([] if keyword else [v(axis)])],
            [t(f(softmax))],
            kwargs=given,
        )
        if spell is not None:
            spell(self, f(softmax))
        call(f"{two}.forward.0", [t(f(softmax))], [t(f(last))], parameters={"weight": t(weight)})
        if backward:
            g = {n: t(f(a)) for n, a in GRADIENTS.items()}
            call(f"{two}.backward.0", [g["y"]], [g["r"]])
            self.build.gradients(f"{two}.parameters_grad.0", weight=g["w2"])
        return self.build.dump()


class Side:
    """A side that is written call by call: `side(ms, pt)` is the name that this side has for something."""

    def __init__(self, builder, tensor, value, framework, mode="statistics"):
        twin = Twin(builder, tensor, value, framework, framework, mode)
        self.is_ms, self.tensor, self.build = twin.is_ms, twin.tensor, twin.build
        self.dtype = twin.dtype

    def __call__(self, ms, pt):
        return ms if self.is_ms else pt

    def dense(self, name, given, result, weight, inner=None):
        """A layer with what runs inside it, which only MindSpore spells out."""
        cell = self(f"Cell.{name}.Dense.forward.0", f"Module.{name}.Linear.forward.0")
        t = self.tensor
        if inner is not None and self.is_ms:
            self.build.call(f"Primitive.shape_op.Shape.{inner}.forward", [t(given)], [], parent=cell)
            self.build.call(f"Primitive.matmul.MatMul.{inner}.forward", [t(given), t(weight)], [t(result)], parent=cell)
        elif inner is not None:
            self.build.call(f"Functional.linear.{inner}.forward", [t(given), t(weight)], [t(result)], parent=cell)
        self.build.call(cell, [t(given)], [t(result)], parameters={"weight": t(weight)})


def found(pair, **options):
    comparison = compare(*pair, by_user=user_pairs(user_mapping(options), *pair))
    return comparison, locate(comparison)


def partners(comparison):
    """Target call to golden call, with what made the pair."""
    return {
        c.target.name: (c.golden.name, c.matched_by)
        for c in comparison.pairs
        if c.target is not None and c.golden is not None
    }


def verdict(comparison, name):
    return next(j.verdict for c in comparison.calls for j in c.judged if j.pair.record.name == name)
