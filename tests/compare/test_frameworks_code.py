"""What only one of two frameworks calls: explained where what surrounds it agrees, else named."""

import numpy as np
from two_frameworks import W1, W2, H, R, Twin, X, Y, found, partners, verdict  # beside this file, which is no package


class TestWrittenDifferently:
    """MindSpore has one call for what PyTorch spells out; both inside a cell."""

    def sides(self, builder, tensor, value, wrong=1.0, mode="statistics"):
        """MindSpore's RMSNorm and what follows give `wrong` times what they should."""
        dumps = []
        for framework in ("mindspore", "pytorch"):
            side = Twin(builder, tensor, value, framework, framework, mode)
            t, v, ms = side.tensor, value, side.is_ms
            norm = "Cell.norm.RMSNorm.forward.0" if ms else "Module.norm.RMSNorm.forward.0"
            factor = np.float32(wrong if ms else 1)
            out = R * factor
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
            call(last, [t(out)], [t(Y * factor)], parameters={"weight": t(W2)})
            dumps.append(side.build.dump())
        return tuple(dumps)

    def test_a_stretch_in_a_cell_that_agrees_is_explained_row_by_row(self, builder, tensor, value):
        comparison, located = found(self.sides(builder, tensor, value))
        assert located.findings == ()
        assert comparison.is_clean
        judged = verdict(comparison, "Torch.rsqrt.0.forward.output.0")
        assert judged.grade == "unjudged"
        assert "Implemented differently" in judged.reason

    def test_where_it_does_not_agree_the_cell_is_named(self, builder, tensor, value):
        comparison, located = found(self.sides(builder, tensor, value, wrong=1.01))
        assert not comparison.is_clean
        assert located.first.name in ("Cell.norm.RMSNorm.forward.0", "Functional.rms_norm.0.forward")
        assert located.first.kind.name in ("computes differently", "structure differs")


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
        inputs = t(
            R * scale if side.is_ms else R,
            source=side("call Functional.addcmul.0.forward.output.0", "call Torch.sqrt.0.forward.output.0"),
        )
        name = side("Cell.b.Dense.forward.0", "Module.b.Linear.forward.0")
        result = Y * scale if side.is_ms else Y
        side.build.call(name, [inputs], [t(result)], parameters={"weight": t(W2)})

    def test_a_stretch_between_calls_that_agree_is_explained(self, written):
        comparison, located = written(self.stretch)
        assert located.findings == ()
        assert comparison.is_clean
        judged = verdict(comparison, "Torch.square.0.forward.output.0").reason
        assert "Implemented differently" in judged

    def test_where_what_follows_differs_the_stretch_is_named(self, written):
        comparison, located = written(lambda side: self.stretch(side, 0.01 if side.is_ms else 0.0))
        assert not comparison.is_clean
        assert located.first.kind.name == "structure differs"
        assert located.first.name in ("Functional.addcmul.0.forward", "Torch.square.0.forward")


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
            inputs = [t(np.ones((3, 5))), value("Bool")]
            side.build.call("Tensor.astype.0.forward", inputs, [boolean])
        else:
            side.build.call("Torch.ones.0.forward", [value(3)], [boolean], kwargs={"dtype": value("torch.bool")})
        name = side("Functional.masked_fill.0.forward", "Tensor.masked_fill.0.forward")
        size = (1 if shrink else 2) * (1 if mask is None else 3)
        side.build.call(name, [masked, boolean, value(0.0)], [t(R * size)])
        inputs = t(R * size, source=f"call {name}.output.0")
        last = side("Cell.b.Dense.forward.0", "Module.b.Linear.forward.0")
        side.build.call(last, [inputs], [t(Y * size)], parameters={"weight": t(W2)})

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
        assert [(f.name, f.kind.name) for f in located.findings] == [
            ("Tensor.__truediv__.0.forward", "structure differs")
        ]


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
            inputs = t(R * slightly, source=f"call {name}.output.0")
            side.build.call(last, [inputs], [t(Y * slightly)], parameters={"weight": t(W2)})

        comparison, located = written(fill)
        assert partners(comparison)["Tensor.astype.0.forward"][0] == "Tensor.float.0.forward"
        assert [f.name for f in located.findings] == ["Mint.exp.0.forward"]
        assert verdict(comparison, "Tensor.astype.0.forward.output.0").grade == "error"

    def test_what_comes_of_another_argument_is_no_finding_of_its_own(self, written, value):

        def fill(side):
            t, slightly = side.tensor, np.float32(1 + (1e-4 if side.is_ms else 0))
            side.dense("a", X, H * 100, W1)
            first = side("Cell.a.Dense.forward.0", "Module.a.Linear.forward.0")
            kept = {"approximate": value(side("tanh", "none"))}
            inputs = t(H * 100, source=f"call {first}.output.0")
            side.build.call("Functional.gelu.0.forward", [inputs], [t(R * slightly)], kwargs=kept)
            inputs = t(R * slightly, source="call Functional.gelu.0.forward.output.0")
            last = side("Cell.b.Dense.forward.0", "Module.b.Linear.forward.0")
            side.build.call(last, [inputs], [t(Y * slightly)], parameters={"weight": t(W2)})

        _, located = written(fill)
        assert [(f.name, f.kind.name) for f in located.findings] == [("Functional.gelu.0.forward", "argument differs")]

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
            inputs = t(R * wrong, source=f"call {name}.output.0")
            side.build.call(last, [inputs], [t(Y * wrong)], parameters={"weight": t(W2)})

        _, located = written(fill)
        assert located.first.name == "Cell.a.Dense.forward.0"
        assert not any(f.kind.name.startswith("code between") for f in located.findings)
