"""Calls that one side alone makes and that are no difference, told in the very cell that differs."""

import numpy as np
import pytest

from msprobe.compare.locate.find import locate
from msprobe.compare.run import compare

GENERATOR = np.random.default_rng(23)
X, W1, H, P, Q, W2, Y = (
    GENERATOR.normal(size=shape).astype(np.float32)
    for shape in ((3, 4), (5, 4), (3, 5), (3, 5), (3, 5), (2, 5), (3, 2))
)


class Side:
    """One side, call by call; `side(ms, pt)` is what this side has."""

    def __init__(self, builder, tensor, value, framework, mode):
        self.build = builder(framework, mode=mode, framework=framework)
        self.build.extra["format_version"] = 1
        self.is_ms = framework == "mindspore"
        self._tensor, self.value = tensor, value
        self.inside = None

    def __call__(self, ms, pt):
        return ms if self.is_ms else pt

    def tensor(self, array, source="", width=32):
        return self._tensor(array, source, dtype=self(f"Float{width}", f"torch.float{width}"))

    def layer(self, name, value, source, result, weight):
        name = f"{self('Cell', 'Module')}.{name}.{self('Dense', 'Linear')}.forward.0"
        inputs, weights = [self.tensor(value, source)], {"weight": self.tensor(weight)}
        self.build.call(name, inputs, [self.tensor(result)], parameters=weights, parent=self.inside)
        return f"call {name}.output.0"

    def call(self, name, argument, result, *more, width=32):
        """A function of one tensor, with further arguments; what it gives, as what takes it says."""
        outputs = [self.tensor(result, width=width)]
        self.build.call(f"{name}.forward", [self.tensor(*argument), *more], outputs, parent=self.inside)
        return f"call {name}.forward.output.0"

    def attention(self, right, wrong, spell=None, axis=0):
        """A cell of a layer, softmax and a layer, between two others; MindSpore's softmax has its own axis.

        `spell` writes what only PyTorch does: `(side, what, array, source)` gives what stands for the source behind.
        """
        spell = (lambda side, what, array, source: source) if spell is None or self.is_ms else spell
        found = self(wrong, right)
        source = self.layer("first", X, "", H, W1)
        cell = self("Cell.attn.MyAttention.forward.0", "Module.att.Attention.forward.0")
        self.inside = cell
        source = self.layer(self("attn.query", "att.q"), H, source, P, W2.T[:, :1].repeat(5, 1))
        source = spell(self, "before", P, source)
        axis = self.value(self(axis, -1))
        source = self.call("Functional.softmax.0", (P, source), found, axis)
        source = spell(self, "behind", found, source)
        source = self.layer(self("attn.out", "att.o"), found, source, found * 2, H.T @ H)
        self.inside = None
        self.build.call(cell, [self.tensor(H)], [self.tensor(found * 2)])
        self.layer(self("last", "head"), found * 2, f"call {cell}.output.0", found[:, :2], W2)


@pytest.fixture
def compared(builder, tensor, value):
    """`compared(fill)`: both sides as `fill(side)` writes them, and what is found."""

    def make(fill, mode="statistics"):
        sides = [Side(builder, tensor, value, framework, mode) for framework in ("mindspore", "pytorch")]
        for side in sides:
            fill(side)
        comparison = compare(*(side.build.dump() for side in sides))
        return comparison, locate(comparison)

    return make


def reason(comparison, record):
    return next(j.verdict.reason for c in comparison.calls for j in c.judged if j.pair.record.name == record)


AXIS = [("Functional.softmax.0.forward", "argument differs")]


class TestHandedOn:
    """Casts to the dtype that is there already, `contiguous` of what is contiguous."""

    def casts(self, side, what, array, source):
        """PyTorch knows a tensor that is handed on unchanged by the call that made it."""
        if what == "before":
            side.call("Tensor.float.0", (array, source), array)
            return source
        side.call("Tensor.type_as.0", (array, source), array, side.tensor(P))
        return side.call("Tensor.contiguous.0", (array, source), array)

    @pytest.mark.parametrize("mode", ["statistics", "tensor"])
    def test_in_a_cell_that_differs_the_call_that_differs_is_named(self, compared, mode):
        comparison, located = compared(lambda side: side.attention(Q, Q[::-1] * 3, self.casts), mode)
        assert [(f.name, f.kind.name) for f in located.findings] == AXIS
        for name in ("Tensor.float.0", "Tensor.type_as.0", "Tensor.contiguous.0"):
            assert "unchanged" in reason(comparison, f"{name}.forward.output.0")

    def test_the_way_back_of_such_a_call_is_none_either(self, compared):
        def spell(side, what, array, source):
            if what == "before":
                return side.call("Tensor.contiguous.0", (array, source), array)
            return source

        def fill(side):
            side.attention(Q, Q[::-1] * 3, spell)
            if not side.is_ms:
                side.build.call("Tensor.contiguous.0.backward", [side.tensor(H)], [side.tensor(H)])

        comparison, located = compared(fill)
        assert [(f.name, f.kind.name) for f in located.findings] == AXIS
        assert "unchanged" in reason(comparison, "Tensor.contiguous.0.backward.output.0")

    def test_a_cast_that_rounds_is_a_call_of_its_own(self, compared):
        narrow = Q.astype(np.float16).astype(np.float32)

        def fill(side):
            source = side.layer("first", X, "", P, W1)
            source = side.call("Functional.gelu.0", (P, source), Q)
            if not side.is_ms:
                source = side.call("Tensor.half.0", (Q, source), narrow, width=16)
            side.layer("last", side(Q, narrow), source, Y * side(1, 2), W2)

        _, located = compared(fill)
        assert located.first.name == "Tensor.half.0.forward"

    def test_what_changes_the_order_is_not_taken_for_it_though_all_statistics_agree(self, compared):
        def fill(side):
            source = side.layer("first", X, "", P, W1)
            source = side.call("Functional.gelu.0", (P, source), Q)
            if not side.is_ms:
                source = side.call("Torch.flip.0", (Q, source), Q[::-1].copy())
            side.layer("last", side(Q, Q[::-1].copy()), source, side(Y, Y[::-1].copy()), W2)

        _, located = compared(fill, "tensor")
        assert located.first.name == "Torch.flip.0.forward"


def test_a_stretch_is_explained_by_what_takes_it_though_that_is_given_another_axis(compared):
    def spell(side, what, array, source):
        if what == "before":  # the values come back in other steps
            half = side.call("Torch.square.0", (array, source), array * array)
            side.call("Torch.sqrt.0", (array * array, half), array * np.float32(1 + 2e-7))
            return ""  # and nothing tells what comes of them
        return source

    comparison, located = compared(lambda side: side.attention(Q, Q[::-1] * 3, spell))
    assert [(f.name, f.kind.name) for f in located.findings] == AXIS
    assert reason(comparison, "Torch.square.0.forward.output.0").startswith("Implemented differently")


def test_a_cell_that_only_the_golden_has_says_nothing_beside_the_pair_inside_it(compared):
    """`ops.gelu` against a module that calls it; the layer before differs."""

    def fill(side):
        wrong = np.float32(side(1.5, 1))
        source = side.layer("first", X, "", H * wrong, W1)
        side.inside = side(None, "Module.act.GELU.forward.0")
        made = side.call("Functional.gelu.0", (H * wrong, source), P * wrong)
        if not side.is_ms:
            side.build.call(side.inside, [side.tensor(H * wrong, source)], [side.tensor(P * wrong)])
        side.inside = None
        side.layer("last", P * wrong, made, Y * wrong, W2)

    _, located = compared(fill)
    assert [f.name for f in located.findings] == ["Cell.first.Dense.forward.0"]
