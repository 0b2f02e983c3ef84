"""Two runs that differ by rounding, and by faults among it: pairs of dumps of small networks computed with numpy.

What needs the replay of calls needs torch; the last tests are of comparing without it.
"""

import sys

import numpy as np
import pytest

from msprobe.compare.core.noise import KernelPrecision, NoConsequence, Sign, State
from msprobe.compare.core.reason import Cause, Why
from msprobe.compare.locate.find import locate
from msprobe.compare.locate.wording import reason
from msprobe.compare.run import compare

LAYERS = 4


def plain(a, b):
    return a @ b


def other_order(a, b):
    """The same products, added up from the last one to the first."""
    return np.ascontiguousarray(a[:, ::-1]) @ np.ascontiguousarray(b[::-1])


def bf16(a, b):
    """Operands rounded to bfloat16, the sum in float32."""
    return rounded(a) @ rounded(b)


def rounded(a):
    """To bfloat16 and back, to nearest: its 16 upper bits."""
    bits = np.ascontiguousarray(a, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


class Network:
    """Layers of matmul, add, tanh and sub, a masked softmax and a head; written as a dump of task `tensor`, level L1.

    `change(call, result)` may replace what a call gives; what follows is computed from that. `mask` is added to a
    quarter of the columns before the softmax, None adds none. The sub of layer `swapped` has its operands in the other
    order. `saved` is a second output, which nobody uses, of a function that no reference knows; None leaves it out.
    `looks_at_saved`: one more call takes it, whose result nothing takes.
    """

    def __init__(
        self,
        build,
        tensor,
        value,
        product=plain,
        change=None,
        mask=None,
        swapped=None,
        saved=None,
        looks_at_saved=False,
    ):
        self.build, self.tensor, self.value = build, tensor, value
        self.change = change or (lambda _, result: result)
        self.prefix = {"mindspore": "Mint", "pytorch": "Torch"}[build.framework]
        random = np.random.default_rng(3)
        h = random.standard_normal((16, 32)).astype(np.float32), "leaf"
        weights = [(random.standard_normal((32, 32)) / 6).astype(np.float32) for _ in range(LAYERS + 1)]
        biases = [random.standard_normal(32).astype(np.float32) for _ in range(LAYERS)]
        for n in range(LAYERS):
            inputs, w, b = h, (weights[n], f"parameter {n}.weight"), (biases[n], f"parameter {n}.bias")
            h = self.call(f"matmul.{n}", product(h[0], w[0]), h, w)
            h = self.call(f"add.{n}", h[0] + b[0], h, b)
            h = self.call(f"tanh.{n}", np.tanh(h[0]), h)
            pair = (inputs, h) if swapped == n else (h, inputs)
            h = self.call(f"sub.{n}", pair[0][0] - pair[1][0], *pair)
        if mask is not None:
            hidden = np.where(np.arange(32) < 24, 0, mask).astype(np.float32)
            h = self.call(f"add.{LAYERS}", h[0] + hidden, h, (hidden, "leaf"))
        if saved is not None:
            h = self.call(
                "fused_norm.0", h[0] / np.linalg.norm(h[0]), h, parent="Cell.norm.Norm.forward.0", saved=saved
            )
        if looks_at_saved:
            cell, taken = "Cell.norm.Norm.forward.0", self.tensor(saved, "call Mint.fused_norm.0.forward.output.1")
            around = self.build.data.pop(cell)
            self.build.call("Mint.abs.0.forward", [taken], [np.abs(saved)], parent=cell)
            self.build.data[cell] = around
        e = np.exp(h[0] - h[0].max(-1, keepdims=True))
        h = self.call("softmax.0", e / e.sum(-1, keepdims=True), h, dim=-1)
        head = weights[-1], "parameter head.weight"
        self.call(f"matmul.{LAYERS}", product(h[0], head[0]), h, head)

    def call(self, name, result, *arguments, parent=None, saved=None, **fields):
        result = np.asarray(self.change(name, result), np.float32)
        name = f"{self.prefix}.{name}.forward"
        values = {key: self.value(each) for key, each in fields.items()}
        inputs, outputs = [self.tensor(*each) for each in arguments], [result, *([] if saved is None else [saved])]
        self.build.call(name, inputs, outputs, kwargs=values, parent=parent)
        if parent:
            self.build.call(parent, inputs, [result])
        return result, f"call {name}.output.0"


@pytest.fixture
def judged(builder, tensor, value):
    """`judged(product=bf16)`: a target against the plain network; the comparison and what was located in it."""

    def make(framework="mindspore", golden=None, **target):
        sides = []
        for side, of, settings in (("target", "mindspore", target), ("golden", framework, golden or {})):
            build = builder(side, mode="tensor", level="L1", framework=of)
            Network(build, tensor, value, **settings)
            sides.append(build.dump())
        comparison = compare(*sides)
        return comparison, locate(comparison)

    return make


@pytest.fixture
def _replaying():
    """Calls are replayed by torch."""
    pytest.importorskip("torch", reason="calls are replayed")


@pytest.fixture
def _without_torch(monkeypatch):
    """Comparing where torch is not installed, also where it is."""
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("msprobe.replay.reference")]:
        monkeypatch.delitem(sys.modules, name)


def row_times(factor, called="matmul.2"):
    """One row of a result is wrong by a factor."""

    def change(name, result):
        result = np.array(result)
        if name == called:
            result[3] *= factor
        return result

    return change


def one_ulp(name, result):
    return np.nextafter(result, np.float32(np.inf)) if name == "matmul.2" else result


def row_of(comparison, name):
    """The pair of records with this name."""
    return next(n for n in range(len(comparison.grades)) if comparison.pairs.pair(n).record.name == name)


def whys(comparison):
    return {reason.why for reasons in comparison.reasons.values() for reason in reasons}


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_another_order_of_sums_is_noise(judged):
    comparison, located = judged(product=other_order)
    assert comparison.is_clean
    assert not located.findings
    assert comparison.counts["pass"] == len(comparison.grades)
    assert not comparison.noise.is_exact
    assert comparison.noise.classes == ()
    assert not comparison.noise.differs().any()
    assert State.NOISE in set(comparison.noise.states.tolist())


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_device_that_rounds_inside_its_products_is_one_precision_class(judged):
    comparison, located = judged(product=bf16)
    assert comparison.is_clean
    assert not located.findings
    (found,) = comparison.noise.classes
    assert (found.side, found.is_of, found.operations, found.calls) == (
        "target",
        KernelPrecision.BRAIN,
        ("matmul",),
        LAYERS + 1,
    )
    assert whys(comparison) == {Why.NOISE, Why.NOISE_BEFORE}
    row = row_of(comparison, "Mint.matmul.1.forward.output.0")
    (reason,) = comparison.reasons_at(row)
    # Two operands, each rounded by up to 2^-9 of itself: 2^-9 / sqrt(3) rms each, of a sensitivity of sqrt(2) of it.
    assert 1e-3 < reason.amount < 2.3e-3
    assert reason.excess < 1e-6
    assert comparison.noise.evidence[row].is_of is KernelPrecision.BRAIN


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_golden_that_rounds_is_its_class(judged):
    comparison, located = judged(golden={"product": bf16})
    assert comparison.is_clean
    assert not located.findings
    assert [(found.side, found.is_of) for found in comparison.noise.classes] == [("golden", KernelPrecision.BRAIN)]


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
@pytest.mark.parametrize(
    ("product", "factor", "sign"),
    [
        (other_order, 1.01, Sign.COARSER_THAN_OTHER_LAYERS),
        (bf16, 1.03, Sign.BEYOND_KIN),
        (bf16, 2.0, Sign.ONE_SIDED),
    ],
)
def test_a_wrong_call_stands_out_of_its_kin(judged, product, factor, sign):
    comparison, located = judged(product=product, change=row_times(factor))
    assert not comparison.is_clean
    assert [finding.name for finding in located.findings] == ["Mint.matmul.2.forward"]
    row = row_of(comparison, "Mint.matmul.2.forward.output.0")
    assert comparison.noise.diverging()[row]
    assert comparison.noise.evidence[row].sign is sign
    assert Why.RESIDUAL in {reason.why for reason in comparison.reasons_at(row)}
    after = row_of(comparison, "Mint.softmax.0.forward.output.0")
    assert comparison.noise.states[after] == State.PROPAGATED


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
@pytest.mark.parametrize("product", [other_order, bf16])
def test_operands_that_changed_places_are_wired_otherwise(judged, product):
    comparison, located = judged(product=product, swapped=2)
    assert [finding.name for finding in located.findings] == ["Mint.sub.2.forward"]
    assert not comparison.is_clean


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_mask_of_another_value_is_harmless(judged):
    """exp(-65504) and exp(-1e9) are both zero."""
    comparison, located = judged(product=other_order, mask=-65504, golden={"mask": -1e9})
    assert comparison.is_clean
    assert not located.findings
    assert comparison.unjudged == {Cause.HARMLESS: 3}, "the mask, the masked, and what the softmax is given"
    (origin,) = comparison.noise.harmless
    assert comparison.pairs.pair(origin).record.name == "Mint.add.4.forward.input.1"
    assert comparison.reasons_at(origin)[0].why is Why.DIES_OUT
    assert located.harmless[0].evidence.ground is NoConsequence.AGREES
    assert reason(located.harmless[0]).endswith("; what recorded calls compute from it agrees")


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
@pytest.mark.parametrize("product", [other_order, bf16])
def test_a_mask_that_is_too_weak_is_named(judged, product):
    comparison, located = judged(product=product, mask=-5, golden={"mask": -1e9})
    assert not comparison.is_clean
    assert [finding.name for finding in located.findings] == ["Mint.add.4.forward"]


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_second_output_that_nobody_uses_is_harmless(judged):
    saved = np.arange(16, dtype=np.float32)
    comparison, located = judged(product=other_order, saved=saved[::-1].copy(), golden={"saved": saved})
    assert comparison.is_clean
    assert not located.findings
    assert comparison.unjudged == {Cause.HARMLESS: 1}
    (listed,) = located.harmless
    assert listed.evidence.ground is NoConsequence.UNUSED
    assert reason(listed).endswith("; no recorded call uses it")


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_difference_that_nothing_compared_is_computed_from_is_harmless_and_the_answer_says_so(judged):
    """R5: one side alone uses the second output, for a result that nothing takes."""
    saved = np.arange(16, dtype=np.float32)
    golden = {"saved": saved}
    _, located = judged(product=other_order, saved=saved[::-1].copy(), looks_at_saved=True, golden=golden)
    assert not located.findings
    (listed,) = located.harmless
    assert listed.evidence.ground is NoConsequence.UNCOMPARED
    assert reason(listed).endswith("; nothing that recorded calls compute from it is compared")


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_mask_does_not_hide_what_was_wrong_before(judged):
    """Beside -1e9 the wrong scores are small, and they are what the softmax is about."""
    comparison, located = judged(product=bf16, change=row_times(2.0), mask=-1e9, golden={"mask": -1e9})
    assert not comparison.is_clean
    assert located.first.name == "Mint.matmul.2.forward"


@pytest.mark.parametrize("door", [pytest.param("_replaying", marks=pytest.mark.torch), "_without_torch"])
def test_one_ulp_is_rounding_and_no_wrong_call(judged, request, door):
    """R1: all else is equal to the bit, and the difference stays within tolerance."""
    request.getfixturevalue(door)
    comparison, located = judged(change=one_ulp)
    assert comparison.is_clean
    assert not located.findings
    row = row_of(comparison, "Mint.matmul.2.forward.output.0")
    assert comparison.noise.states[row] == State.NOISE
    left = comparison.noise.rounding_left
    assert left.name.startswith("Mint.")
    assert 0 < left.largest < 1e-6
    assert left.largest < left.hidden <= left.most


@pytest.mark.parametrize("door", [pytest.param("_replaying", marks=pytest.mark.torch), "_without_torch"])
def test_the_first_error_is_named_and_not_the_first_bit(judged, request, door):
    """R1: one call rounds otherwise before another is wrong."""
    request.getfixturevalue(door)

    def change(call, result):
        return one_ulp(call.replace("matmul.0", "matmul.2"), result) if call == "matmul.0" else wrong(call, result)

    wrong = row_times(1.01)
    _, located = judged(change=change)
    assert located.first.name == "Mint.matmul.2.forward"


@pytest.mark.usefixtures("_without_torch")
def test_one_ulp_that_grows_into_an_error_is_the_head(judged):
    """Two runs are equal to the bit up to it, and no call after it is beyond ten times what it received."""
    growing = {"tanh.2": 1e-6, "sub.2": 8e-6, "matmul.3": 6e-5, "add.3": 4e-4}

    def change(call, result):
        return one_ulp(call, result) if call == "matmul.2" else result * (1 + growing.get(call, 0.0))

    comparison, located = judged(change=change)
    assert not comparison.is_clean
    assert located.first.name == "Mint.matmul.2.forward"


def test_nothing_is_replayed_where_nothing_differs(judged):
    comparison, located = judged()
    assert comparison.noise is None
    assert comparison.is_clean
    assert not located.findings


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_saved_value_counts_whatever_uses_it(builder, tensor, value):
    sides = []
    for side, settings in (("target", {"product": other_order}), ("golden", {})):
        build = builder(side, mode="tensor", level="L1")
        Network(build, tensor, value, **settings)
        saved = np.full((2, 3), 1.5 if side == "target" else 1.25, np.float32)
        build.data["reward.0.debug"] = build._record("reward.0.debug", saved)
        sides.append(build.dump())
    comparison = compare(*sides)
    assert not comparison.is_clean
    assert State(comparison.noise.states[row_of(comparison, "reward.0.debug")]) in (State.DIVERGENT, State.PROPAGATED)
    assert [finding.name for finding in locate(comparison).findings] == ["reward.0.debug"]


@pytest.mark.usefixtures("_without_torch")
def test_without_torch_another_order_of_sums_is_rounding(judged):
    comparison, located = judged(product=other_order)
    assert comparison.is_clean
    assert not located.findings
    assert comparison.noise.rounding_left is not None
    assert comparison.noise.replayed == 0
    assert set(comparison.noise.not_replayed) == {"torch is not installed"}


@pytest.mark.usefixtures("_without_torch")
@pytest.mark.parametrize(("product", "factor", "before"), [(other_order, 1.01, 0), (bf16, 2.0, 1)])
def test_without_torch_a_wrong_call_is_beyond_its_inputs(judged, product, factor, before):
    """What rounds as one call in float32 does is no divergence; what is coarser may be one."""
    comparison, located = judged(product=product, change=row_times(factor))
    assert not comparison.is_clean
    named = ["Mint.matmul.0.forward"] * before + ["Mint.matmul.2.forward"]
    assert [finding.name for finding in located.findings] == named
    row = row_of(comparison, "Mint.matmul.2.forward.output.0")
    found = comparison.noise.evidence[row]
    assert found.sign is Sign.AMPLIFIED
    # The greatest relative error among its inputs is that of layer 1, ten times of which is explained.
    inputs = row_of(comparison, "Mint.matmul.2.forward.input.0")
    measured = comparison.measures[inputs]
    norm = comparison.pairs.pair(inputs).golden.statistics.norm
    assert found.explained == pytest.approx(10 * measured.euclid / norm)
    assert found.apart > found.explained
    assert Why.BEYOND_INPUTS in {reason.why for reason in comparison.reasons_at(row)}


def test_two_frameworks_are_judged_as_one_is(judged):
    comparison, located = judged("pytorch", product=other_order)
    assert comparison.is_clean
    assert not located.findings
    _, located = judged("pytorch", product=other_order, change=row_times(1.01))
    assert [finding.name for finding in located.findings] == ["Mint.matmul.2.forward"]
