"""A small network in MindSpore and in PyTorch, by hand: what pairs, what is judged, and which call is named."""

import numpy as np
import pytest

from msprobe.base.errors import MappingError
from msprobe.compare.locate.find import locate
from msprobe.compare.match.given import given_by
from msprobe.compare.report.console import lines
from msprobe.compare.run import compare
from msprobe.mapping.user import user_mapping

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
    """One side of: dense, softmax, normalisation as in `spell`, dense; and the backward of the last."""

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


@pytest.fixture
def twins(builder, tensor, value):
    """`twins(ms={...}, pt={...})`: both sides, MindSpore's first."""

    def make(ms=None, pt=None, mode="statistics", reference=False):
        sides = ("mindspore", ms or {}, False), ("pytorch", pt or {}, reference)
        return tuple(Twin(builder, tensor, value, f, f, mode, r).run(**changes) for f, changes, r in sides)

    return make


def found(pair, **options):
    comparison = compare(*pair, given=given_by(user_mapping(options), *pair))
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


@pytest.mark.parametrize("mode", MODES)
class TestClean:
    def test_rounding_is_no_difference(self, twins, mode):
        comparison, located = found(twins(mode=mode))
        assert located.findings == ()
        assert comparison.is_clean
        assert comparison.counts["pass"] >= 12

    def test_either_side_may_be_the_target(self, twins, mode):
        comparison, located = found(tuple(reversed(twins(mode=mode))))
        assert located.findings == ()
        assert comparison.is_clean

    def test_calls_of_other_names_are_pairs_with_a_confidence_and_a_reason(self, twins, mode):
        comparison, _ = found(twins(mode=mode))
        assert partners(comparison)["Cell.out.Dense.forward.0"] == ("Module.head.Linear.forward.0", "structure")
        assert partners(comparison)["Functional.softmax.0.forward"] == ("Functional.softmax.0.forward", "name")
        guesses = comparison.pairs.notes.guesses
        assert all(0 < guess.confidence <= 1 and guess.reason for guess in guesses.values())
        assert len(guesses) == len(partners(comparison))

    def test_errors_that_grow_slowly_begin_nowhere(self, twins, mode):
        # Each call makes the error of what it was given less than ten times greater; the last is beyond the tolerance.
        slowly = {
            "first": H * np.float32(1 + 1e-6),
            "softmax": R * np.float32(1 + 8e-6),
            "last": Y * np.float32(1 + 7e-5),
        }
        comparison, located = found(twins(ms={**slowly, "backward": False}, pt={"backward": False}, mode=mode))
        assert located.findings == ()
        assert comparison.is_clean


@pytest.mark.parametrize("mode", MODES)
class TestFirstWrongCall:
    def test_what_rounding_does_not_explain_is_named_though_it_is_small(self, twins, mode):
        # 1e-5 of the scale is within any tolerance between two frameworks; but all givens agree to 1e-7.
        comparison, located = found(twins(ms={"softmax": R * np.float32(1 + 1e-5)}, mode=mode))
        assert (located.first.name, located.first.kind) == ("Functional.softmax.0.forward", "computes differently")
        assert verdict(comparison, "Functional.softmax.0.forward.output.0").grade == "warning"
        assert not comparison.is_clean

    def test_an_axis_is_the_same_from_the_front_and_from_behind(self, twins, mode):
        comparison, located = found(twins(ms={"axis": -1}, pt={"axis": 1}, mode=mode))
        assert verdict(comparison, "Functional.softmax.0.forward.input.1").grade == "pass"
        assert located.findings == ()

    def test_an_argument_that_differs_is_named_by_its_value(self, twins, mode):
        _, located = found(twins(ms={"axis": 0, "softmax": R[::-1].copy()}, pt={"axis": 1}, mode=mode))
        assert (located.first.name, located.first.kind) == ("Functional.softmax.0.forward", "argument differs")
        assert "is 0, golden 1" in located.first.reason

    def test_a_keyword_on_one_side_is_a_position_on_the_other(self, twins, mode):
        comparison, located = found(twins(ms={"keyword": True, "axis": 0}, pt={"axis": 1}, mode=mode))
        assert located.first.kind == "argument differs"
        comparison, located = found(twins(ms={"keyword": True}, mode=mode))
        assert comparison.is_clean

    def test_a_parameter_that_differs_is_named(self, twins, mode):
        _, located = found(twins(ms={"weight": W2 + np.float32(0.01), "last": Y + np.float32(0.05)}, mode=mode))
        assert (located.first.name, located.first.kind) == ("Cell.out.Dense.forward.0", "parameters differ")

    def test_a_call_that_only_one_side_makes_is_named_where_what_follows_differs(self, twins, mode):
        def scaled(twin, given):
            t = twin.tensor
            twin.build.call("Tensor.__mul__.0.forward", [t(given), twin.value(2.0)], [t(given * 2)])

        _, located = found(
            twins(pt={"spell": scaled, "softmax": R, "last": Y}, ms={"last": Y * 3, "softmax": R}, mode=mode)
        )
        assert located.first is not None
        assert located.first.name in ("Tensor.__mul__.0.forward", "Cell.out.Dense.forward.0")


def test_a_result_that_cancels_out_is_all_rounding(builder, tensor, value):
    """The gradient of a bias before a softmax is zero; each framework has its own rounding there."""
    dumps = []
    for framework, cell, sign in (("mindspore", "Cell.k.Dense", 1), ("pytorch", "Module.k.Linear", -1)):
        side = Twin(builder, tensor, value, framework, framework)
        t = side.tensor
        side.build.call(f"{cell}.forward.0", [t(X)], [t(H)], parameters={"weight": t(W1), "bias": t(W1[:, 0])})
        side.build.call(f"{cell}.backward.0", [t(H)], [t(X)])
        noise = np.float32([1, -2, 3, 1, -1]) * np.float32(sign * 1e-9)
        side.build.gradients(f"{cell}.parameters_grad.0", weight=t(W1), bias=t(noise))
        dumps.append(side.build.dump())
    comparison, located = found(tuple(dumps))
    assert comparison.is_clean
    assert located.findings == ()


class TestWrittenDifferently:
    """MindSpore has one call for what PyTorch spells out; both inside a cell."""

    def sides(self, builder, tensor, value, result=R, mode="statistics"):
        dumps = []
        for framework in ("mindspore", "pytorch"):
            side = Twin(builder, tensor, value, framework, framework, mode)
            t, v, ms = side.tensor, value, side.is_ms
            norm = "Cell.norm.RMSNorm.forward.0" if ms else "Module.norm.RMSNorm.forward.0"
            out = result if ms else R
            call = side.build.call
            call(
                "Cell.a.Dense.forward.0" if ms else "Module.a.Linear.forward.0",
                [t(X)],
                [t(H)],
                parameters={"weight": t(W1)},
            )
            if ms:
                call("Functional.rms_norm.0.forward", [t(H), t(H[0])], [t(out), t(H[:, :1])], parent=norm)
            else:
                square, mean = H * H, (H * H).mean(axis=1, keepdims=True)
                call("Tensor.pow.0.forward", [t(H), v(2)], [t(square)], parent=norm)
                call("Tensor.mean.0.forward", [t(square), v(-1)], [t(mean)], parent=norm)
                call("Torch.rsqrt.0.forward", [t(mean)], [t(1 / np.sqrt(mean))], parent=norm)
                call("Tensor.__mul__.0.forward", [t(H), t(1 / np.sqrt(mean))], [t(H / np.sqrt(mean))], parent=norm)
            call(norm, [t(H)], [t(out)], parameters={"weight": t(H[0])})
            last = "Cell.b.Dense.forward.0" if ms else "Module.b.Linear.forward.0"
            call(last, [t(out)], [t(Y)], parameters={"weight": t(W2)})
            dumps.append(side.build.dump())
        return tuple(dumps)

    def test_a_stretch_in_a_cell_that_agrees_is_explained_row_by_row(self, builder, tensor, value):
        comparison, located = found(self.sides(builder, tensor, value))
        assert located.findings == ()
        assert comparison.is_clean
        said = verdict(comparison, "Torch.rsqrt.0.forward.output.0")
        assert said.grade == "unjudged"
        assert "Cell.norm.RMSNorm.forward.0" in said.reason or "No counterpart" in said.reason

    def test_where_it_does_not_agree_the_cell_is_named(self, builder, tensor, value):
        comparison, located = found(self.sides(builder, tensor, value, result=R * np.float32(1.01)))
        assert not comparison.is_clean
        assert located.first.name in ("Cell.norm.RMSNorm.forward.0", "Functional.rms_norm.0.forward")
        assert located.first.kind in ("computes differently", "different call")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("apart", "findings"), [(True, 0), (False, 1)])
def test_errors_that_norm_and_mean_average_out_are_errors_of_what_was_given(written, mode, apart, findings):
    """3e-6 of every element, which leaves norm and mean alike, explains 5e-6 of a result; equal elements do not."""
    drift = np.random.default_rng(4).normal(size=H.shape)
    for direction in (np.ones(H.size), H.reshape(-1) - H.mean()):
        drift -= ((drift.reshape(-1) @ direction) / (direction @ direction) * direction).reshape(H.shape)
    drift *= 3e-6 * np.linalg.norm(H) / np.linalg.norm(drift)
    moved = (H + drift).astype(np.float32)
    assert abs(moved.min() - H.min()) > 1e-6 * np.abs(H).max()  # else no statistic shows any of it

    def fill(side):
        t = side.tensor
        given, result = (moved if apart else H, Y * np.float32(1 + 5e-6)) if side.is_ms else (H, Y)
        cell = side("Cell.b.Dense.{}.0", "Module.b.Linear.{}.0")
        side.build.call(cell.format("forward"), [t(given)], [t(result)], parameters={"weight": t(W2)})

    comparison, located = written(fill, mode)
    assert len(located.findings) == findings
    assert comparison.is_clean == (not findings)


class TestLayouts:
    def dumps(self, builder, tensor, value, mode, ms, pt):
        made = []
        for framework, weight in (("mindspore", ms), ("pytorch", pt)):
            side = Twin(builder, tensor, value, framework, framework, mode)
            t = side.tensor
            name = "Cell.fc.Dense.forward.0" if side.is_ms else "Module.fc.Linear.forward.0"
            side.build.call(name, [t(X)], [t(H)], parameters={"weight": t(weight)})
            made.append(side.build.dump())
        return tuple(made)

    def row(self, transform):
        ours, theirs = "Cell.fc.Dense.forward.0.parameters.weight", "Module.fc.Linear.forward.0.parameters.weight"
        return {ours: {"to": theirs, "transform": transform} if transform else theirs}

    @pytest.mark.parametrize("mode", MODES)
    def test_a_declared_transform_is_done_before_anything_is_measured(self, builder, tensor, value, mode):
        pair = self.dumps(builder, tensor, value, mode, W1.T.copy(), W1)
        comparison, _ = found(pair, data_mapping=self.row("transpose(1, 0)"))
        assert verdict(comparison, "Cell.fc.Dense.forward.0.parameters.weight").grade == "pass"
        comparison, _ = found(pair, data_mapping=self.row(""))
        assert verdict(comparison, "Cell.fc.Dense.forward.0.parameters.weight").grade == "error"

    def test_the_elements_are_those_of_the_transformed_tensor(self, builder, tensor, value):
        wrong = W1.T.copy()
        wrong[1, 3] += 1
        pair = self.dumps(builder, tensor, value, "tensor", wrong, W1)
        comparison, _ = found(pair, data_mapping=self.row("transpose(1, 0)"))
        (measures,) = [comparison.measures[row] for row in comparison.pairs.notes.views]
        assert measures.max_absolute == pytest.approx(1)
        assert np.unravel_index(measures.max_absolute_at, (5, 4)) == (3, 1)

    @pytest.mark.parametrize("text", ["reshape(3, 7)", "transpose(9, 0)", "squeeze(0)", "split(0, 0, 3)"])
    def test_a_transform_that_does_not_fit_is_refused_with_its_row_and_the_shape(self, builder, tensor, value, text):
        pair = self.dumps(builder, tensor, value, "statistics", W1.T.copy(), W1)
        with pytest.raises(MappingError) as refused:
            found(pair, data_mapping=self.row(text))
        for said in ("Cell.fc.Dense.forward.0.parameters.weight", "[4, 5]", repr(text)):
            assert said in str(refused.value)

    def test_a_transform_of_what_is_no_tensor_is_refused(self, twins):
        rule = {"to": "Functional.softmax.0.forward.input.1", "transform": "negate"}
        with pytest.raises(MappingError, match=r"softmax\.0\.forward\.input\.1: transform 'negate' .* no tensor"):
            found(twins(), data_mapping={"Functional.softmax.0.forward.input.1": rule})


class TestFused:
    """q, k and v are one layer in PyTorch."""

    @pytest.fixture
    def dumps(self, builder, tensor, value):
        def make(mode, wrong=None):
            weights = {n: noisy(W1 * (at + 1) + np.float32(at), 0) for at, n in enumerate("qkv")}
            outs = {n: H * (at + 1) - np.float32(at) for at, n in enumerate("qkv")}
            ms, pt = (Twin(builder, tensor, value, f, f, mode) for f in ("mindspore", "pytorch"))
            for n in "qkv":
                scale = np.float32(1.5 if n == wrong else 1)
                ms.build.call(
                    f"Cell.attention.{n}.Dense.forward.0",
                    [ms.tensor(X)],
                    [ms.tensor(outs[n])],
                    parameters={"weight": ms.tensor(weights[n] * scale)},
                )
            pt.build.call(
                "Module.attention.qkv.Linear.forward.0",
                [pt.tensor(X)],
                [pt.tensor(np.concatenate([outs[n] for n in "qkv"], axis=1))],
                parameters={"weight": pt.tensor(np.concatenate([weights[n] for n in "qkv"]))},
            )
            for side in (ms, pt):
                out = "Cell.o.Dense.forward.0" if side.is_ms else "Module.o.Linear.forward.0"
                side.build.call(out, [side.tensor(R)], [side.tensor(Y)], parameters={"weight": side.tensor(W2)})
            return ms.build.dump(), pt.build.dump()

        return make

    @pytest.mark.parametrize("mode", MODES)
    def test_each_part_is_held_against_its_slice(self, dumps, mode):
        comparison, _ = found(dumps(mode))
        views = {
            comparison.pairs.pair(row).target.name: view.golden for row, view in comparison.pairs.notes.views.items()
        }
        assert views["Cell.attention.k.Dense.forward.0.parameters.weight"] == "slice(0, 5, 10)"
        assert views["Cell.attention.v.Dense.forward.0.output.0"] == "slice(1, 10, 15)"
        for n in "qkv":
            assert verdict(comparison, f"Cell.attention.{n}.Dense.forward.0.parameters.weight").grade == "pass"
            assert verdict(comparison, f"Cell.attention.{n}.Dense.forward.0.output.0").grade == "pass"

    @pytest.mark.parametrize("mode", MODES)
    def test_the_whole_may_be_the_target(self, dumps, mode):
        comparison, located = found(tuple(reversed(dumps(mode))))
        assert located.findings == ()
        assert comparison.is_clean
        assert len(comparison.pairs.notes.views) == 6
        assert all(view.target.startswith("slice(") for view in comparison.pairs.notes.views.values())

    @pytest.mark.parametrize("mode", MODES)
    def test_a_part_that_is_wrong_is_an_error(self, dumps, mode):
        comparison, _ = found(dumps(mode, wrong="k"))
        assert verdict(comparison, "Cell.attention.k.Dense.forward.0.parameters.weight").grade == "error"
        others = verdict(comparison, "Cell.attention.q.Dense.forward.0.parameters.weight").grade
        assert others == ("pass" if mode == "tensor" else "error")

    def test_statistics_judge_the_parts_together_and_say_so(self, dumps):
        comparison, _ = found(dumps("statistics"))
        assert "together" in verdict(comparison, "Cell.attention.q.Dense.forward.0.parameters.weight").reason


class TestReferenceOfPyTorch:
    """msprobe's dumps of PyTorch hand the gradients of an inner node back, in its order."""

    @pytest.mark.parametrize("wrong", [False, True])
    def test_gradients_are_paired_by_shape_and_what_is_no_gradient_of_an_argument_is_not_judged(
        self, builder, tensor, value, wrong
    ):
        dumps = []
        for framework in ("mindspore", "pytorch"):
            side = Twin(builder, tensor, value, framework, framework, reference=True)
            t = side.tensor
            call = side.build.call
            call(
                "Functional.softmax.0.forward",
                [t(H), value(1)],
                [t(R)],
            )
            call("Functional.matmul.0.forward" if side.is_ms else "Torch.matmul.0.forward", [t(R), t(W2.T)], [t(Y)])
            back = [t(R), t(W2.T)]
            if not side.is_ms:
                back = [t(W2.T * (3 if wrong else 1)), t(R)]
            call("Functional.matmul.0.backward" if side.is_ms else "Torch.matmul.0.backward", [t(Y)], back)
            dumps.append(side.build.dump())
        comparison, located = found(tuple(dumps))
        assert located.findings == ()
        said = verdict(comparison, "Functional.matmul.0.backward.output.1")
        assert said.grade == ("unjudged" if wrong else "pass")
        assert ("inner node" in said.reason) == wrong


class TestDigests:
    def sides(self, builder, tensor, value, statistics):
        dumps = []
        for framework, out in (("mindspore", noisy(H)), ("pytorch", H)):
            side = Twin(builder, tensor, value, framework, framework, "digest")
            t = side.tensor
            name = "Cell.fc.Dense.forward.0" if side.is_ms else "Module.fc.Linear.forward.0"
            side.build.call(name, [t(X)], [t(out)], parameters={"weight": t(W1)})
            if not statistics:
                for part in side.build.data.values():
                    for record in (*part["input_args"], *part["parameters"].values(), *part["output"]):
                        record.update(dict.fromkeys(("Max", "Min", "Mean", "Norm")))
            dumps.append(side.build.dump())
        return found(tuple(dumps))[0]

    def test_equal_digests_are_equal_and_others_leave_it_to_the_statistics(self, builder, tensor, value):
        comparison = self.sides(builder, tensor, value, statistics=True)
        assert verdict(comparison, "Cell.fc.Dense.forward.0.output.0").grade == "pass"

    def test_without_statistics_another_digest_says_nothing(self, builder, tensor, value):
        comparison = self.sides(builder, tensor, value, statistics=False)
        assert verdict(comparison, "Cell.fc.Dense.forward.0.input.0").grade == "pass"
        said = verdict(comparison, "Cell.fc.Dense.forward.0.output.0")
        assert said.grade == "unjudged"
        assert "Digests differ" in said.reason


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


@pytest.fixture
def written(builder, tensor, value):
    """`written(fill)`: both sides as `fill(side)` writes them, compared."""

    def make(fill, mode="statistics", **options):
        sides = [Side(builder, tensor, value, framework, mode) for framework in ("mindspore", "pytorch")]
        for side in sides:
            fill(side)
        return found(tuple(side.build.dump() for side in sides), **options)

    return make


class TestLayersOfTheFrameworks:
    def test_what_runs_inside_is_their_own_and_the_layer_is_named(self, written):
        def fill(side):
            side.dense("a", X, H, W1, 0)
            wrong = np.float32(0.01 if side.is_ms else 0)
            side.dense("b", H, Y + wrong * 3, W2 + wrong, 1)

        _, located = written(fill)
        assert located.first.kind == "parameters differ"
        assert located.first.name in ("Cell.b.Dense.forward.0", "Primitive.matmul.MatMul.1.forward")

    def test_statistics_that_pytorch_keeps_in_buffers_are_no_difference(self, written):
        def fill(side):
            t, v = side.tensor, np.abs(X[0])
            names = side(("gamma", "beta", "moving_mean", "moving_variance"), ("weight", "bias"))
            given = {name: t(array) for name, array in zip(names, (X[0], X[1], X[2], v), strict=False)}
            name = side("Cell.bn.BatchNorm1d.forward.0", "Module.bn.BatchNorm1d.forward.0")
            side.build.call(name, [t(X)], [t(X * 2)], parameters=given)
            side.dense("b", H, Y, W2)

        comparison, located = written(fill)
        assert located.findings == ()
        assert comparison.is_clean
        assert "buffer" in verdict(comparison, "Cell.bn.BatchNorm1d.forward.0.parameters.moving_mean").reason
        assert verdict(comparison, "Cell.bn.BatchNorm1d.forward.0.parameters.gamma").grade == "pass"


class TestArguments:
    def test_cells_may_take_their_arguments_in_another_order_as_shapes_show(self, written):
        mask = np.tril(np.ones((3, 3), np.float32))

        def fill(side):
            t = side.tensor
            name = side("Cell.attn.MyAttention.forward.0", "Module.attn.Attention.forward.0")
            side.dense("a", X, H, W1)
            given = side([t(H), t(mask)], [t(H), t(W2), t(mask)])
            side.build.call(name, given, [t(R)])
            side.dense("b", R, Y, W2)

        comparison, located = written(fill)
        assert located.findings == ()
        assert comparison.is_clean
        row = next(
            p
            for c in comparison.pairs
            for p in c.pairs
            if p.target and p.target.name.endswith("attn.MyAttention.forward.0.input.1")
        )
        assert row.golden.name.endswith("input.2")

    def test_a_range_may_leave_its_start_out(self, written, value):
        count = np.arange(7).astype(np.float32)

        def fill(side):
            given = side([value(7)], [value(0), value(7)])
            side.build.call(side("Functional.arange.0.forward", "Torch.arange.0.forward"), given, [side.tensor(count)])
            side.dense("b", H, Y, W2)

        comparison, located = written(fill)
        assert verdict(comparison, "Functional.arange.0.forward.input.0").grade == "pass"
        assert located.findings == ()

    def test_a_primitive_may_have_been_built_to_transpose(self, written):
        def fill(side):
            t = side.tensor
            other = side(t(W2[None]), t(np.swapaxes(W2[None], 1, 2)))
            name = side("Primitive.mm.BatchMatMul.0.forward", "Torch.matmul.0.forward")
            side.dense("a", X, H, W1)
            side.build.call(name, [t(H[None]), other], [t(Y[None])])
            side.dense("b", R, Y, W2)

        comparison, located = written(fill)
        assert verdict(comparison, "Primitive.mm.BatchMatMul.0.forward.input.1").grade == "pass"
        assert located.findings == ()


class TestWidths:
    """Float16 against float32: a finding where it is one call, the custom of a run where it is all of them."""

    def run(self, written, tensor, narrow):
        def fill(side):
            def given(array, name):
                is_narrow = side.is_ms and (narrow == "all" or name == narrow)
                rounded = array.astype(np.float16).astype(np.float32) if is_narrow else array
                return tensor(rounded, dtype="Float16" if is_narrow else side.dtype)

            call = side.build.call
            call(
                side("Cell.a.Dense.forward.0", "Module.a.Linear.forward.0"),
                [given(X, "x")],
                [given(H, "h")],
                parameters={"weight": given(W1, "w1")},
            )
            call("Functional.gelu.0.forward", [given(H, "in")], [given(R, "out")])
            call(
                side("Cell.b.Dense.forward.0", "Module.b.Linear.forward.0"),
                [given(R, "r")],
                [given(Y, "y")],
                parameters={"weight": given(W2, "w2")},
            )

        return written(fill)

    def test_one_of_many_is_found(self, written, tensor):
        comparison, located = self.run(written, tensor, "out")
        assert located.first.name == "Functional.gelu.0.forward"
        assert not comparison.is_clean

    def test_all_of_them_are_held_against_the_coarser_one(self, written, tensor):
        comparison, located = self.run(written, tensor, "all")
        assert located.findings == ()
        assert comparison.is_clean


class TestAlone:
    def stretch(self, side, wrong=0.0):
        """Between two layers MindSpore computes at once what PyTorch does in two calls."""
        t = side.tensor
        side.dense("a", X, H, W1)
        scale = np.float32(1 + wrong)
        if side.is_ms:
            side.build.call(
                "Functional.addcmul.0.forward", [t(H, source="call Cell.a.Dense.forward.0.output.0")], [t(R * scale)]
            )
        else:
            side.build.call(
                "Torch.square.0.forward", [t(H, source="call Module.a.Linear.forward.0.output.0")], [t(H * H)]
            )
            side.build.call(
                "Torch.sqrt.0.forward",
                [t(H * H, source="call Torch.square.0.forward.output.0")],
                [t(R[::-1].copy() * 3)],
            )
        given = t(
            R * scale if side.is_ms else R,
            source=side("call Functional.addcmul.0.forward.output.0", "call Torch.sqrt.0.forward.output.0"),
        )
        name = side("Cell.b.Dense.forward.0", "Module.b.Linear.forward.0")
        result = Y * scale if side.is_ms else Y
        side.build.call(name, [given], [t(result)], parameters={"weight": t(W2)})

    def test_a_stretch_between_calls_that_agree_is_explained(self, written):
        comparison, located = written(self.stretch)
        assert located.findings == ()
        assert comparison.is_clean
        said = verdict(comparison, "Torch.square.0.forward.output.0").reason
        assert "Cell.a.Dense.forward.0" in said
        assert "Cell.b.Dense.forward.0" in said

    def test_where_what_follows_differs_the_stretch_is_named(self, written):
        comparison, located = written(lambda side: self.stretch(side, 0.01 if side.is_ms else 0.0))
        assert not comparison.is_clean
        assert located.first.kind == "different call"
        assert located.first.name in ("Functional.addcmul.0.forward", "Torch.square.0.forward")


class TestSaved:
    """Values that were saved by name have no givens to be held against: the tolerance alone decides."""

    @pytest.mark.parametrize(("size", "grade"), [(1e-5, "pass"), (1e-2, "error")])
    def test_saved_tensors_are_held_against_the_tolerance(self, builder, tensor, size, grade):
        dumps = []
        for framework, array in (("mindspore", H * np.float32(1 + size)), ("pytorch", H)):
            side = Twin(builder, tensor, None, framework, framework)
            side.build.gradients("hidden.0.debug", value=side.tensor(array))
            dumps.append(side.build.dump())
        comparison, located = found(tuple(dumps))
        assert comparison.counts == {grade: 1}
        assert bool(located.findings) == (grade != "pass")


class TestMasks:
    """MindSpore makes its mask of floats and casts it, PyTorch makes it of booleans."""

    def attention(self, side, tensor, value, mask=None, shrink=True):
        """Two layers; between them a division that one side may leave out, and a mask."""
        t, flag = side.tensor, np.ones((3, 5), bool) if mask is None else mask
        boolean = tensor(flag, dtype=side("Bool", "torch.bool"))
        side.dense("a", X, H, W1)
        first = side("Cell.a.Dense.forward.0", "Module.a.Linear.forward.0")
        masked = t(H if shrink else H * 2, source=f"call {first}.output.0")
        if shrink:
            side.build.call("Tensor.__truediv__.0.forward", [t(H * 2, source=f"call {first}.output.0")], [t(H)])
            masked = t(H, source="call Tensor.__truediv__.0.forward.output.0")
        if side.is_ms:
            side.build.call("Functional.ones.0.forward", [value(3), value("Float32")], [t(np.ones((3, 5)))])
            given = [t(np.ones((3, 5))), value("Bool")]
            side.build.call("Tensor.astype.0.forward", given, [boolean])
        else:
            side.build.call("Torch.ones.0.forward", [value(3)], [boolean], kwargs={"dtype": value("torch.bool")})
        name = side("Functional.masked_fill.0.forward", "Tensor.masked_fill.0.forward")
        size = 1 if shrink else 2
        side.build.call(name, [masked, boolean, value(0.0)], [t(R * size)])
        given = t(R * size, source=f"call {name}.output.0")
        last = side("Cell.b.Dense.forward.0", "Module.b.Linear.forward.0")
        side.build.call(last, [given], [t(Y * size)], parameters={"weight": t(W2)})

    def test_calls_that_give_other_numbers_are_no_pair(self, written, tensor, value):
        comparison, located = written(lambda side: self.attention(side, tensor, value))
        assert "Functional.ones.0.forward" not in partners(comparison)
        assert partners(comparison)["Functional.masked_fill.0.forward"][0] == "Tensor.masked_fill.0.forward"
        assert located.findings == ()
        assert comparison.is_clean

    def test_another_mask_is_a_difference(self, written, tensor, value):
        wrong = np.zeros((3, 5), bool)
        comparison, located = written(lambda side: self.attention(side, tensor, value, wrong if side.is_ms else None))
        assert not comparison.is_clean
        assert located.first.grade == "error"

    def test_beside_a_mask_a_division_that_is_missing_is_named(self, written, tensor, value):
        _, located = written(lambda side: self.attention(side, tensor, value, shrink=not side.is_ms))
        assert [(f.name, f.kind) for f in located.findings] == [("Tensor.__truediv__.0.forward", "different call")]


class TestWhatIsHandedOn:
    def test_a_call_of_which_no_given_was_compared_hides_nothing(self, written, value):
        """The second call's result is as wrong as the first's, by less; what was said of neither given is no excuse."""

        def fill(side):
            t, wrong = side.tensor, np.float32(1 + (0.01 if side.is_ms else 0))
            slightly = np.float32(1 + (1e-3 if side.is_ms else 0))
            side.build.call(side("Mint.exp.0.forward", "Torch.exp.0.forward"), [t(H)], [t(H * wrong)])
            source = side("call Mint.exp.0.forward.output.0", "call Torch.exp.0.forward.output.0")
            name = side("Tensor.astype.0.forward", "Tensor.float.0.forward")
            side.build.call(name, [t(H * wrong, source=source), *side([value("Float32")], [])], [t(R * slightly)])
            last = side("Cell.b.Dense.forward.0", "Module.b.Linear.forward.0")
            given = t(R * slightly, source=f"call {name}.output.0")
            side.build.call(last, [given], [t(Y * slightly)], parameters={"weight": t(W2)})

        comparison, located = written(fill)
        assert partners(comparison)["Tensor.astype.0.forward"][0] == "Tensor.float.0.forward"
        assert [f.name for f in located.findings] == ["Mint.exp.0.forward"]
        assert verdict(comparison, "Tensor.astype.0.forward.output.0").grade == "error"

    def test_a_given_is_judged_as_the_result_that_it_is(self, written, value):
        """1e-4 of a result is 1e-6 of the greater tensor that it was computed from, and no more where it is given."""

        def fill(side):
            t, slightly = side.tensor, np.float32(1 + (1e-4 if side.is_ms else 0))
            side.dense("a", X, H * 100, W1)
            first = side("Cell.a.Dense.forward.0", "Module.a.Linear.forward.0")
            kept = {"approximate": value(side("tanh", "none"))}
            given = t(H * 100, source=f"call {first}.output.0")
            side.build.call("Functional.gelu.0.forward", [given], [t(R * slightly)], kwargs=kept)
            given = t(R * slightly, source="call Functional.gelu.0.forward.output.0")
            last = side("Cell.b.Dense.forward.0", "Module.b.Linear.forward.0")
            side.build.call(last, [given], [t(Y)], parameters={"weight": t(W2)})

        comparison, located = written(fill)
        assert [(f.name, f.kind) for f in located.findings] == [("Functional.gelu.0.forward", "argument differs")]
        assert verdict(comparison, "Cell.b.Dense.forward.0.input.0").grade == "pass"

    def test_what_a_lonely_call_gives_goes_back_to_what_it_was_made_of(self, written):
        """Neither the result of `addcmul` nor that of `square` is compared; the layer before them differs."""

        def fill(side):
            t, wrong = side.tensor, np.float32(1 + (0.01 if side.is_ms else 0))
            side.dense("a", X, H * wrong, W1)
            name = side("Functional.addcmul.0.forward", "Torch.square.0.forward")
            first = side("Cell.a.Dense.forward.0", "Module.a.Linear.forward.0")
            result = R if side.is_ms else R[::-1].copy() * 3
            side.build.call(name, [t(H * wrong, source=f"call {first}.output.0")], [t(result)])
            last = side("Cell.b.Dense.forward.0", "Module.b.Linear.forward.0")
            given = t(R * wrong, source=f"call {name}.output.0")
            side.build.call(last, [given], [t(Y * wrong)], parameters={"weight": t(W2)})

        _, located = written(fill)
        assert located.first.name == "Cell.a.Dense.forward.0"
        assert not any(f.kind.startswith("code between") for f in located.findings)


class TestParameters:
    def test_the_weight_of_a_conv1d_has_one_axis_more(self, written):
        weight = GENERATOR.normal(size=(5, 4, 3)).astype(np.float32)

        def fill(side):
            t = side.tensor
            name = side("Cell.c.Conv1d.forward.0", "Module.c.Conv1d.forward.0")
            given = {"weight": t(weight[:, :, None] if side.is_ms else weight)}
            side.build.call(name, [t(X[None])], [t(H[None])], parameters=given)
            side.dense("b", R, Y, W2)

        comparison, located = written(fill)
        assert verdict(comparison, "Cell.c.Conv1d.forward.0.parameters.weight").grade == "pass"
        assert located.findings == ()

    def test_of_several_micro_batches_msprobe_keeps_the_last_ones_gradients(self, written):
        def fill(side):
            t = side.tensor
            cell = side("Cell.b.Dense", "Module.b.Linear")
            side.dense("b", R, Y, W2)
            if side.is_ms:
                side.build.gradients(f"{cell}.parameters_grad", weight=t(GRADIENTS["w2"] * 3))
            else:
                del side.build.extra["format_version"]
            side.build.gradients(f"{cell}.parameters_grad" + side(".1", ""), weight=t(GRADIENTS["w2"]))

        comparison, located = written(fill)
        assert partners(comparison)["Cell.b.Dense.parameters_grad.1"][0] == "Module.b.Linear.parameters_grad"
        assert "last micro-batch" in verdict(comparison, "Cell.b.Dense.parameters_grad.weight").reason
        assert located.findings == ()
        assert comparison.is_clean


def test_where_most_has_no_verdict_a_line_says_why(written, value):
    def fill(side):
        side.dense("a", X, H, W1)
        if side.is_ms:
            for number in range(3):
                side.build.call(f"Primitive.shape_op.Shape.{number}.forward", [side.tensor(H)], [value(3), value(5)])

    comparison, located = written(fill)
    # Three calls with one input and two results each; the layer's input, weight and result are judged.
    said = list(lines(comparison, located, 10))
    assert said[0] == "statistics compared: 3 pass, 0 warning, 0 error, 9 unjudged"
    assert said[1] == "9 unjudged: 9 stand in calls that only one side makes"
    assert said[-1] == "no difference: 3 pairs judged, 9 unjudged"
