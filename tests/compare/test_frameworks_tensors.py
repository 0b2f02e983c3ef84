"""The same in tensors of other layouts, orders, parts and names is held against each other all the same."""

import numpy as np
import pytest
from two_frameworks import (  # beside this file, which is no package
    GENERATOR,
    GRADIENTS,
    MODES,
    W1,
    W2,
    H,
    R,
    Twin,
    X,
    Y,
    found,
    noisy,
    partners,
    verdict,
)

from msprobe.base.errors import MappingError


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
        for message in ("Cell.fc.Dense.forward.0.parameters.weight", "[4, 5]", repr(text)):
            assert message in str(refused.value)

    def test_a_transform_of_what_is_no_tensor_is_refused(self, twins):
        rule = {"to": "Functional.softmax.0.forward.input.1", "transform": "negate"}
        with pytest.raises(MappingError, match=r"softmax\.0\.forward\.input\.1: transform 'negate' .* not a tensor"):
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


class TestLayersOfTheFrameworks:
    def test_what_runs_inside_is_their_own_and_the_layer_is_named(self, written):
        def fill(side):
            side.dense("a", X, H, W1, 0)
            wrong = np.float32(0.01 if side.is_ms else 0)
            side.dense("b", H, Y + wrong * 3, W2 + wrong, 1)

        _, located = written(fill)
        assert located.first.kind.name == "parameters differ"
        assert located.first.name in ("Cell.b.Dense.forward.0", "Primitive.matmul.MatMul.1.forward")

    def test_statistics_that_pytorch_keeps_in_buffers_are_no_difference(self, written):
        def fill(side):
            t, v = side.tensor, np.abs(X[0])
            names = side(("gamma", "beta", "moving_mean", "moving_variance"), ("weight", "bias"))
            arguments = {name: t(array) for name, array in zip(names, (X[0], X[1], X[2], v), strict=False)}
            name = side("Cell.bn.BatchNorm1d.forward.0", "Module.bn.BatchNorm1d.forward.0")
            side.build.call(name, [t(X)], [t(X * 2)], parameters=arguments)
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
            inputs = side([t(H), t(mask)], [t(H), t(W2), t(mask)])
            side.build.call(name, inputs, [t(R)])
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
            inputs = side([value(7)], [value(0), value(7)])
            side.build.call(side("Functional.arange.0.forward", "Torch.arange.0.forward"), inputs, [side.tensor(count)])
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


class TestParameters:
    def test_the_weight_of_a_conv1d_has_one_axis_more(self, written):
        weight = GENERATOR.normal(size=(5, 4, 3)).astype(np.float32)

        def fill(side):
            t = side.tensor
            name = side("Cell.c.Conv1d.forward.0", "Module.c.Conv1d.forward.0")
            arguments = {"weight": t(weight[:, :, None] if side.is_ms else weight)}
            side.build.call(name, [t(X[None])], [t(H[None])], parameters=arguments)
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
