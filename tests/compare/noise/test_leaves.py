"""Leaves that differ: arguments, constants, casts. Exit 0 needs their consequence shown, never assumed.

Pairs of dumps of small programs, computed with numpy.
"""

import json
from math import erf, sqrt

import numpy as np
import pytest
from test_noise import rounded  # beside this file, which is no package

from msprobe.compare.core.noise import State
from msprobe.compare.core.reason import Cause
from msprobe.compare.locate.find import locate
from msprobe.compare.locate.finding import Dataflow, Missing
from msprobe.compare.locate.wording import reason
from msprobe.compare.noise import kernels
from msprobe.compare.run import compare
from msprobe.compare.tables.console import lines
from msprobe.compare.tables.json_file import write_json
from msprobe.findings.catalogue import comparison as kinds

RANDOM = np.random.default_rng(11)
X, W, V, U = (RANDOM.standard_normal(shape).astype(np.float32) / 4 for shape in ((12, 16), (16, 16), (16, 16), (16, 8)))
OTHERS = [(RANDOM.standard_normal((16, 16)) / 4).astype(np.float32) for _ in range(4)]


HELD_ON_BOTH = [pytest.param("tensor", marks=pytest.mark.torch), "statistics"]
"""With tensors, noise is told from a change by executing calls again, which torch does."""


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(erf)(x.astype(np.float64) / sqrt(2)))


def gelu_by_tanh(x):
    wide = x.astype(np.float64)
    return 0.5 * wide * (1 + np.tanh(sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Program:
    """Writes the calls of one side, results in float32; the target adds up its products in another order.

    `rounding` is what each product rounds its result to.
    """

    def __init__(self, build, tensor, value, rounding=None):
        self.build, self.tensor, self.value = build, tensor, value
        self.is_target = build.framework == "mindspore"
        self.dtype = "Float32" if self.is_target else "torch.float32"
        self.rounding = rounding or (lambda array: array)
        self.counts = {}

    def __call__(self, target, golden):
        return target if self.is_target else golden

    def call(self, name, result, *arguments, dtype="", **fields):
        number = self.counts[name] = self.counts.get(name, -1) + 1
        prefix = "" if "." in name else self("Mint.", "Torch.")
        full = f"{prefix}{name}.{number}.forward"
        return self.cell(full, result, *arguments, dtype=dtype, **fields)

    def cell(self, full, result, *arguments, parameters=None, dtype="", parent=None, **fields):
        result = np.asarray(result, np.float32)
        inputs = [
            self.tensor(*each[:2], dtype=each[2] if len(each) > 2 else self.dtype)
            if isinstance(each, tuple)
            else self.value(each)
            for each in arguments
        ]
        values = {key: self.value(each) for key, each in fields.items()}
        output = self.tensor(result, dtype=dtype or self.dtype)
        self.build.call(full, inputs, [output], kwargs=values, parameters=parameters, parent=parent)
        return result, f"call {full}.output.0", dtype or self.dtype

    def product(self, a, weight, name):
        found = a[0][:, ::-1].copy() @ weight[::-1].copy() if self.is_target else a[0] @ weight
        return self.call("matmul", self.rounding(found), a, (weight, f"parameter {name}.weight"))


@pytest.fixture
def compared(builder, tensor, value):
    """`compared(fill)`: `fill(program)` writes each side; the comparison and what was located in it."""

    def make(fill, mode="tensor", level="L1", rounding=None):
        sides = []
        for side, framework in (("target", "mindspore"), ("golden", "pytorch")):
            build = builder(side, mode=mode, level=level, framework=framework)
            build.extra["format_version"] = 1
            fill(Program(build, tensor, value, rounding))
            sides.append(build.dump())
        comparison = compare(*sides)
        return comparison, locate(comparison)

    return make


def row_of(comparison, name):
    return next(n for n in range(len(comparison.grades)) if comparison.pairs.pair(n).record.name == name)


def state_of(comparison, name):
    return State(comparison.noise.states[row_of(comparison, name)])


def kinds_of(located):
    return [(f.name, f.kind) for f in located.findings]


@pytest.fixture
def _replaying():
    """Calls are replayed by torch."""
    pytest.importorskip("torch", reason="calls are replayed")


# Arguments.


def normalized(side, eps):
    """Root mean square normalization, written out; the mean square is near 1, so that eps changes it by eps."""
    h = side.product((X, "leaf"), W, "first")
    scaled = h[0] / np.sqrt((h[0].astype(np.float64) ** 2).mean(-1, keepdims=True))
    h = side.call("reshape", scaled, h, (12, 16))
    square = side.call("mul", h[0] * h[0], h, h)
    mean = side.call("mean", square[0].mean(-1, keepdims=True), square, -1)
    moved = side.call("add", mean[0] + np.float32(eps), mean, eps)
    root = side.call("rsqrt", 1 / np.sqrt(moved[0]), moved)
    h = side.call("mul", h[0] * root[0], h, root)
    side.product(h, U, "head")


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
@pytest.mark.parametrize(("mine", "other"), [(1e-5, 1e-6), (1e-6, 1e-5), (5e-6, 1e-6)])
def test_an_epsilon_whose_effect_is_within_the_noise_of_float32_is_named(compared, mine, other):
    comparison, located = compared(lambda side: normalized(side, side(mine, other)))
    assert kinds_of(located) == [("Mint.add.0.forward", kinds.ARGUMENT)]
    assert not comparison.is_clean


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_an_epsilon_without_an_effect_in_float64_is_harmless_and_listed(compared):
    comparison, located = compared(lambda side: normalized(side, side(1e-9, 1e-8)))
    assert (comparison.is_clean, located.findings) == (True, ())
    assert state_of(comparison, "Mint.add.0.forward.input.1") is State.HARMLESS
    assert comparison.unjudged[Cause.HARMLESS] == 1


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
@pytest.mark.parametrize("layers", [1, 3])
def test_another_approximation_that_bfloat16_hides_is_named(compared, layers):
    def fill(side):
        h = (X * 8, "leaf")
        for n in range(layers):
            h = side.product(h, W if n % 2 else V, str(n))
            function = side(gelu_by_tanh, gelu)
            found = rounded(function(h[0]).astype(np.float32))
            h = side.call("Functional.gelu", found, h, approximate=side("tanh", "none"))
        side.product(h, U, "head")

    comparison, located = compared(fill, rounding=rounded)
    assert kinds_of(located)[0] == ("Functional.gelu.0.forward", kinds.ARGUMENT)
    assert not comparison.is_clean


def test_an_argument_whose_effect_statistics_cannot_show_leaves_the_question_open(compared):
    """Both sides round to bfloat16, so that what the number adds is less than what the statistics differ by."""

    def fill(side):
        h = side.product((X, "leaf"), W, "first")
        h = side.call("frobnicate", rounded(h[0] * np.float32(side(1.003, 1))), h, side(1.003, 1.0))
        side.product(h, U, "head")

    comparison, _ = compared(fill, mode="statistics", rounding=rounded)
    assert not comparison.is_clean


def changed_on_one_side(side, name, function, argument):
    """The target makes a call between two layers, whose products round to bfloat16; the golden hands the tensor on."""
    side.rounding = side(rounded, side.rounding)
    h = side.product((X, "leaf"), W, "first")
    h = side.product(h, V, "second")
    h = side.call("tanh", np.tanh(h[0]), h)
    if side.is_target:
        h = side.call(name, function(h[0]), h, argument)
    h = side.call("reshape", h[0].reshape(12, 16), h, 12, 16)
    side.product(h, U, "head")


@pytest.mark.parametrize("mode", HELD_ON_BOTH)
@pytest.mark.parametrize(
    ("name", "function", "argument"),
    [
        ("div", lambda x: x / np.float32(1.001), 1.001),
        ("add", lambda x: x + np.float32(2e-4), 2e-4),
        ("clamp", lambda x: np.minimum(x, x.max() * np.float32(0.999)), 0.1),
    ],
)
def test_a_call_of_one_side_that_changes_less_than_noise_hides_is_named(compared, mode, name, function, argument):
    """R2: each side is held against itself, so that what products have rounded before does not matter."""
    comparison, located = compared(lambda side: changed_on_one_side(side, name, function, argument), mode)
    assert kinds_of(located)[0] == (f"Mint.{name}.0.forward", kinds.STRUCTURE)
    assert not comparison.is_clean


@pytest.mark.parametrize("mode", HELD_ON_BOTH)
@pytest.mark.parametrize("function", [lambda x: x * np.float32(1), lambda x: x * np.float32(3) / np.float32(3)])
def test_a_call_of_one_side_that_changes_nothing_is_no_finding(compared, mode, function):
    comparison, located = compared(lambda side: changed_on_one_side(side, "mul", function, 1.0), mode)
    assert (comparison.is_clean, located.findings) == (True, ())


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_an_argument_that_says_the_same_in_another_way_is_harmless(compared, mode):
    def fill(side):
        h = side.product((X, "leaf"), W, "first")
        h = side.call("reshape", h[0].reshape(24, 8), h, side(-1, 24), 8)
        side.call("tanh", np.tanh(h[0]), h)

    comparison, located = compared(fill, mode=mode)
    assert (comparison.is_clean, located.findings) == (True, ())


def masked(side, mask):
    """A mask of another form on each side, which one softmax takes out again."""
    h = side.product((X, "leaf"), W, "first")
    hidden = np.where(np.arange(16) < 12, 0, mask).astype(np.float32)
    h = side.call("add", h[0] + hidden, h, (hidden, "leaf"))
    h = side.call("softmax", softmax(h[0]), h, dim=-1)
    side.product(h, U, "head")


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_a_harmless_difference_is_listed_as_such(compared, tmp_path, mode):
    comparison, located = compared(lambda side: masked(side, side(-65504.0, -1e9)), mode=mode)
    assert (comparison.is_clean, located.findings) == (True, ())
    (listed,) = located.harmless
    assert (listed.name, listed.kind) == ("Mint.add.0.forward", kinds.HARMLESS)
    assert listed.evidence.difference.place == "input.1"
    printed = list(lines(comparison, located, 3))
    assert any(line.startswith("  harmless: Mint.add.0.forward in the root: harmless difference: ") for line in printed)
    assert printed[-1].startswith("no difference beyond rounding: ")
    write_json(tmp_path / "found.json", comparison, located, (), ())
    (written,) = json.loads((tmp_path / "found.json").read_text())["harmless"]
    assert (written["kind"], written["evidence"]["type"]) == ("harmless difference", "Harmless")


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_an_argument_without_a_known_effect_is_listed_as_open(compared, monkeypatch):
    """Where the two functions cannot be compared in float64 (other shapes), neither harm nor its absence is claimed."""
    monkeypatch.setattr(kernels, "effect_of_arguments", lambda *_: None)
    comparison, located = compared(lambda side: normalized(side, side(1e-5, 1e-6)))
    assert located.findings == ()
    assert comparison.unjudged[Cause.UNSHOWN] == 1
    (listed,) = located.harmless
    assert (listed.name, listed.kind, listed.evidence.missing) == (
        "Mint.add.0.forward",
        kinds.UNKNOWN,
        Missing.EFFECT,
    )
    assert not comparison.is_clean
    printed = list(lines(comparison, located, 3))
    assert any(line.startswith("  open: Mint.add.0.forward in the root: cannot tell: ") for line in printed)
    assert printed[-1].startswith("no difference in what could be judged: ")


# Answers say what was compared.


def test_code_between_says_how_many_calls_were_compared(builder, tensor):
    """Three calls before it are equal; unrecorded code changed what the fourth is given."""

    def run(name, shift):
        build, source = builder(name), "leaf"
        for n in range(3):
            build.call(f"Mint.exp.{n}.forward", [tensor(float(n), source)], [tensor(n + 1.0)])
            source = f"call Mint.exp.{n}.forward.output.0"
        build.call("Mint.sin.0.forward", [tensor(5.0 + shift, "code")], [tensor(7.0 + shift)])
        return build.dump()

    found = locate(compare(run("t", 1.0), run("g", 0.0))).first
    assert (found.kind, found.evidence.dataflow, found.evidence.agreeing) == (
        kinds.CODE,
        Dataflow.UNRECORDED,
        3,
    )
    assert reason(found).endswith("; no recorded call returned it; 3 calls that were compared before it agree")


@pytest.mark.parametrize("golden_level", ["mix", "L0"])
def test_calls_that_were_compared_are_counted_by_hand_between_frameworks(builder, tensor, value, golden_level):
    """The two layers count, and at level mix the sin inside the second: what only one framework has, or only one level
    records, is no reason to leave out a pair that was compared; a pair with an input that could not be judged is."""

    def run(framework, level, shift):
        build, is_ms = builder(framework, level=level, framework=framework), framework == "mindspore"
        cell, source = "Cell.{}.Dense.forward.0" if is_ms else "Module.{}.Linear.forward.0", "leaf"
        for n, name in enumerate(("first", "second")):
            around = cell.format(name)
            if level == "mix" and n:
                more = {"dtype": value(None)} if is_ms else {}  # an argument that PyTorch does not have
                build.call(
                    "Mint.sin.0.forward" if is_ms else "Torch.sin.0.forward",
                    [tensor(float(n), source)],
                    [tensor(n + 1.0)],
                    kwargs=more,
                    parent=around,
                )
            if level == "mix" and is_ms:
                build.call(f"Primitive.shape_op.Shape.{n}.forward", [tensor(float(n), source)], [], parent=around)
            build.call(around, [tensor(float(n), source)], [tensor(n + 1.0)])
            source = f"call {around}.output.0"
        build.call(cell.format("last"), [tensor(5.0 + shift, "code")], [tensor(7.0 + shift)])
        return build.dump()

    comparison = compare(run("mindspore", "mix", 1.0), run("pytorch", golden_level, 0.0))
    found = locate(comparison).first
    assert (found.kind, found.evidence.dataflow) == (kinds.CODE, Dataflow.UNRECORDED)
    exempt = {cause for cause in comparison.unjudged if cause.is_exempt}
    assert exempt >= ({Cause.INTERNAL} if golden_level == "mix" else {Cause.OTHER_LEVEL})
    assert found.evidence.agreeing == (3 if golden_level == "mix" else 2)


# A difference that dies out.


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_a_difference_does_not_die_out_before_unrecorded_code_that_carries_it(compared, mode):
    """The gate multiplies two layers' outputs outside of any recorded call, as at level L0."""

    def fill(side):
        block = side("Cell.net.mlp.Gated.forward.0", "Module.net.mlp.Gated.forward.0")

        def dense(name, given, weight, parent=None):
            cell = side(f"Cell.net.{name}.Dense.forward.0", f"Module.net.{name}.Linear.forward.0")
            return side.cell(cell, given[0] @ weight.T, given, parameters={"weight": weight}, parent=parent)

        h = dense("one", (X, "leaf"), W)
        norm = side("Cell.net.norm.Norm.forward.0", "Module.net.norm.Norm.forward.0")
        h = side.cell(norm, h[0] * np.float32(side(1.05, 1)), h)
        up, gate = dense("mlp.up", h, OTHERS[0], block), dense("mlp.gate", h, OTHERS[1], block)
        down = dense("mlp.down", (np.tanh(gate[0]) * up[0], "code"), OTHERS[2], block)
        down = side.cell(block, down[0], h)
        dense("head", down, OTHERS[3])

    comparison, located = compared(fill, mode=mode, level="L0")
    assert located.findings
    assert located.first.name == "Cell.net.norm.Norm.forward.0"
    assert located.first.kind is kinds.COMPUTES
    assert len(located.findings) == 1
    assert not comparison.is_clean


def test_the_noise_of_calls_is_not_made_of_an_error_before_the_first_of_them(compared):
    """No product is seen to be coarse whose inputs agree: so nothing says that the code before rounds coarsely."""

    def fill(side):
        around = side("Cell.net.Net.forward.0", "Module.net.Net.forward.0")
        wrong = 1 + 4e-3 * np.random.default_rng(1).choice([-1, 1], X.shape).astype(np.float32) * side(1, 0)
        h = (X * wrong, "code")
        for n, weight in enumerate((W, V, *OTHERS)):
            cell = side(f"Cell.net.{n}.Dense.forward.0", f"Module.net.{n}.Linear.forward.0")
            h = side.cell(cell, h[0] @ weight.T, h, parameters={"weight": weight}, parent=around)
            h = np.tanh(h[0]), "code"
        side.cell(around, h[0], (X, "leaf"))

    comparison, located = compared(fill, mode="statistics", level="L0")
    assert located.first.name == "Cell.net.0.Dense.forward.0"
    assert located.first.kind is kinds.CODE
    assert not comparison.is_clean


def test_a_call_that_takes_a_harmless_difference_does_not_begin_it(compared):
    """No call is both: of what is named, no input is called harmless."""

    def fill(side):
        h = side.product((X, "leaf"), W, "first")
        angles = np.linspace(0, side(1.0, 1.02), 12 * 16, dtype=np.float32).reshape(12, 16)
        h = side.call("mul", h[0] * np.cos(angles), h, (np.cos(angles), "leaf"))
        h = side.product(h, V, "second")
        h = side.call("softmax", softmax(h[0]), h, dim=-1)
        side.product(h, U, "head")

    for mode in ("tensor", "statistics"):
        comparison, located = compared(fill, mode=mode)
        assert kinds_of(located)[0] == ("Mint.mul.0.forward", kinds.ARGUMENT)
        assert Cause.HARMLESS not in comparison.unjudged


# Bounds.


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_verdict_does_not_rest_on_a_bound_beyond_a_tenth(compared):
    """Products of the target round to bfloat16. After them functions without a reference are 0.4 %, 3 % and 25 % off,
    each less than ten times what its input is off."""

    def fill(side):
        side.rounding = side(rounded, side.rounding)
        h = (X, "leaf")
        for n, weight in enumerate(OTHERS):
            h = side.product(h, weight * 4, str(n))
        for n, share in enumerate((4e-3, 3e-2, 0.25)):
            noise = np.random.default_rng(n).standard_normal(X.shape)
            result = np.tanh(h[0])
            if side.is_target:
                result = result + share * noise * np.linalg.norm(result) / np.linalg.norm(noise)
            h = side.call("frobnicate", result, h)
        side.call("frobnicate", np.tanh(h[0]), h)

    comparison, located = compared(fill)
    off = comparison.judged(row_of(comparison, "Mint.frobnicate.2.forward.output.0"))
    assert (off.verdict.grade, off.verdict.cause) == ("unjudged", Cause.WIDE_BOUND)
    near = comparison.judged(row_of(comparison, "Mint.frobnicate.1.forward.output.0"))
    assert near.grade == "pass"
    taken = comparison.judged(row_of(comparison, "Mint.frobnicate.3.forward.input.0"))
    assert taken.verdict.cause is Cause.WIDE_BOUND
    assert located.findings == ()
    assert not comparison.is_clean


# Casts.


def cast(side, wanted, round_trip="bfloat16", both=False, last="float32"):
    """Two layers; where `wanted`, the target's input of the second is rounded to another dtype, and back."""
    float32, dtype = side("Float32", "torch.float32"), side(f"{round_trip.title()}", f"torch.{round_trip}")
    dtype = dtype.replace("Bfloat", "BFloat")
    h = side.product((X, "leaf"), W, "first")
    if wanted if side.is_target else both:
        low = rounded(h[0]) if round_trip == "bfloat16" else h[0].astype(np.float16).astype(np.float32)
        low = h[0] if round_trip == "float64" else low
        name = side("Tensor.astype", "Tensor.to")
        h = side.call(name, low, h, dtype, dtype=dtype)
        h = side.call(name, low, h, float32, dtype=float32)
    h = side.call("tanh", np.tanh(h[0]), h)
    side.product(h, U, "head")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("golden", [False, True])
def test_a_cast_to_fewer_bits_on_one_side_is_named(compared, dtype, golden):
    comparison, located = compared(lambda side: cast(side, not golden, dtype, golden), mode="statistics")
    assert located.first.kind is kinds.PRECISION
    assert (located.first.name, located.first.evidence.side, located.first.evidence.dtype) == (
        ("Tensor.to.0.forward", "golden", dtype) if golden else ("Tensor.astype.0.forward", "target", dtype)
    )
    assert located.first.evidence.other == "float32"
    assert not comparison.is_clean


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_a_cast_that_both_sides_make_is_no_difference(compared, mode):
    comparison, located = compared(lambda side: cast(side, True, "bfloat16", True), mode=mode)
    assert (comparison.is_clean, located.findings) == (True, ())


def test_a_cast_to_more_bits_is_no_difference(compared):
    comparison, located = compared(lambda side: cast(side, True, "float64"), mode="statistics")
    assert (comparison.is_clean, located.findings) == (True, ())


def test_a_cast_that_changes_no_element_is_no_difference(compared):
    def fill(side):
        h = side.call("relu", np.maximum(rounded(X), 0), (rounded(X), "leaf"))
        if side.is_target:
            h = side.call("Tensor.astype", h[0], h, "BFloat16", dtype="BFloat16")
            h = side.call("Tensor.astype", h[0], h, "Float32")
        h = side.call("tanh", np.tanh(h[0]), h)
        side.product(h, U, "head")

    comparison, located = compared(fill, mode="statistics")
    assert (comparison.is_clean, located.findings) == (True, ())


def test_a_layer_that_computes_in_fewer_bits_on_one_side_is_named(compared):
    def fill(side):
        h = side.product((X, "leaf"), W, "first")
        h = side.call("tanh", np.tanh(h[0]), h)
        low = side(rounded(h[0] @ V), h[0] @ V)
        h = side.call("matmul", low, h, (V, "parameter second.weight"), dtype=side("BFloat16", ""))
        h = side.call("softmax", softmax(h[0]), h, dim=-1, dtype=side("Float32", ""))
        h = side.call("tanh", np.tanh(h[0]), h)
        h = side.call("sin", np.sin(h[0]), h)
        side.product(h, U, "head")

    comparison, located = compared(fill, mode="statistics")
    assert (located.first.name, located.first.kind) == ("Mint.matmul.1.forward", kinds.PRECISION)
    assert not comparison.is_clean


# Constants that only calls without a counterpart take.


def rotated(side, target=1e4, golden=1e4):
    """Features times the cosines of angles, which each side computes in its own way from a table of frequencies."""
    frequencies = (side(target, golden) ** (-np.arange(16) / 16)).astype(np.float32)
    places = np.arange(12, dtype=np.float32)
    angles = np.outer(places, frequencies)
    if side.is_target:
        row = side.call("reshape", frequencies.reshape(1, 16), (frequencies, "leaf"), (1, 16))
        column = side.call("Tensor.view", places.reshape(12, 1), (places, "leaf"), (12, 1))
        made = side.call("mul", angles, column, row)
    else:
        made = side.call("outer", angles, (places, "leaf"), (frequencies, "leaf"))
    turned = side.call("cos", np.cos(made[0]), made)
    h = side.product((X, "leaf"), W, "first")
    h = side.call("Tensor.__mul__", h[0] * turned[0], h, turned)
    h = side.product(h, V, "second")
    h = side.call("softmax", softmax(h[0]), h, dim=-1)
    side.product(h, U, "head")


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
@pytest.mark.parametrize("target", [9e3, 5e3, 9.9e3])
def test_a_constant_that_both_sides_take_in_other_calls_is_named(compared, mode, target):
    comparison, located = compared(lambda side: rotated(side, target), mode=mode)
    assert located.first.name in ("Mint.reshape.0.forward", "Torch.outer.0.forward")
    assert located.first.kind is kinds.ARGUMENT
    assert not comparison.is_clean


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_a_constant_that_agrees_is_no_difference_in_whatever_call(compared, mode):
    comparison, located = compared(rotated, mode=mode)
    assert (comparison.is_clean, located.findings) == (True, ())


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_a_constant_without_an_effect_is_no_difference(compared, mode):
    """What is added is the same for all columns, which softmax takes out again."""

    def fill(side):
        shift = np.linspace(0, side(0.5, 0.7), 12, dtype=np.float32).reshape(12, 1)
        h = side.product((X, "leaf"), W, "first")
        if side.is_target:
            h = side.call("add", h[0] + shift, h, (shift, "leaf"))
        else:
            minus = side.call("neg", -shift, (shift, "leaf"))
            h = side.call("sub", h[0] - minus[0], h, minus)
        h = side.call("softmax", softmax(h[0]), h, dim=-1)
        side.product(h, U, "head")

    comparison, located = compared(fill, mode=mode)
    assert (comparison.is_clean, located.findings) == (True, ())
