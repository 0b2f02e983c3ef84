"""A small network in MindSpore and in PyTorch: what pairs, what is judged, and which call is named."""

import numpy as np
import pytest
from two_frameworks import (  # beside this file, which is no package
    MODES,
    W1,
    W2,
    H,
    R,
    Side,
    Twin,
    X,
    Y,
    found,
    noisy,
    partners,
    verdict,
)

from msprobe.compare.core.reason import Cause
from msprobe.compare.locate import wording
from msprobe.compare.tables.console import lines, notes


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
        assert all(0 < guess.confidence <= 1 and guess.because for guess in guesses.values())
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
        # Of the scale that is within any tolerance between two frameworks; but all inputs agree to 1e-7. Statistics
        # of 15 elements cannot tell 1e-5 from another approximation of the exponential function.
        small = np.float32(1 + {"tensor": 1e-5, "statistics": 4e-5}[mode])
        comparison, located = found(twins(ms={"softmax": R * small, "last": Y * small}, mode=mode))
        assert (located.first.name, located.first.kind.name) == ("Functional.softmax.0.forward", "computes differently")
        assert verdict(comparison, "Functional.softmax.0.forward.output.0").grade == "warning"
        assert not comparison.is_clean

    def test_an_axis_is_the_same_from_the_front_and_from_behind(self, twins, mode):
        comparison, located = found(twins(ms={"axis": -1}, pt={"axis": 1}, mode=mode))
        assert verdict(comparison, "Functional.softmax.0.forward.input.1").grade == "pass"
        assert located.findings == ()

    def test_an_argument_that_differs_is_named_by_its_value(self, twins, mode):
        other = {"axis": 0, "softmax": R[::-1].copy(), "last": Y * 2}
        _, located = found(twins(ms=other, pt={"axis": 1}, mode=mode))
        assert (located.first.name, located.first.kind.name) == ("Functional.softmax.0.forward", "argument differs")
        assert "is 0, golden 1" in wording.reason(located.first)

    def test_a_keyword_on_one_side_is_a_position_on_the_other(self, twins, mode):
        comparison, located = found(twins(ms={"keyword": True, "axis": 0}, pt={"axis": 1}, mode=mode))
        assert located.first.kind.name == "argument differs"
        comparison, located = found(twins(ms={"keyword": True}, mode=mode))
        assert comparison.is_clean

    def test_a_parameter_that_differs_is_named(self, twins, mode):
        _, located = found(twins(ms={"weight": W2 + np.float32(0.01), "last": Y + np.float32(0.05)}, mode=mode))
        assert (located.first.name, located.first.kind.name) == ("Cell.out.Dense.forward.0", "parameters differ")

    def test_a_call_that_only_one_side_makes_is_named_where_what_follows_differs(self, twins, mode):
        def scaled(twin, inputs_of):
            t = twin.tensor
            twin.build.call("Tensor.__mul__.0.forward", [t(inputs_of), twin.value(2.0)], [t(inputs_of * 2)])

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
        inputs_of, result = (moved if apart else H, Y * np.float32(1 + 5e-6)) if side.is_ms else (H, Y)
        cell = side("Cell.b.Dense.{}.0", "Module.b.Linear.{}.0")
        side.build.call(cell.format("forward"), [t(inputs_of)], [t(result)], parameters={"weight": t(W2)})

    comparison, located = written(fill, mode)
    assert len(located.findings) == findings
    assert comparison.is_clean == (not located.findings)


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
        judged = verdict(comparison, "Functional.matmul.0.backward.output.1")
        assert judged.grade == ("unjudged" if wrong else "pass")
        assert ("inner autograd node" in judged.reason) == wrong


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
        judged = verdict(comparison, "Cell.fc.Dense.forward.0.output.0")
        assert judged.grade == "unjudged"
        assert "Digests differ" in judged.reason


class TestWidths:
    """Float16 against float32: a finding where it is one call, the custom of a run where it is all of them."""

    def run(self, written, tensor, narrow):
        def fill(side):
            def inputs_of(array, name):
                is_narrow = side.is_ms and (narrow == "all" or name == narrow)
                rounded = array.astype(np.float16).astype(np.float32) if is_narrow else array
                return tensor(rounded, dtype="Float16" if is_narrow else side.dtype)

            call = side.build.call
            call(
                side("Cell.a.Dense.forward.0", "Module.a.Linear.forward.0"),
                [inputs_of(X, "x")],
                [inputs_of(H, "h")],
                parameters={"weight": inputs_of(W1, "w1")},
            )
            call("Functional.gelu.0.forward", [inputs_of(H, "in")], [inputs_of(R, "out")])
            call(
                side("Cell.b.Dense.forward.0", "Module.b.Linear.forward.0"),
                [inputs_of(R, "r")],
                [inputs_of(Y, "y")],
                parameters={"weight": inputs_of(W2, "w2")},
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


def shapes(side, value, wrong=1.0):
    """A layer of both sides, and three calls that MindSpore alone makes, which return no tensor."""
    side.dense("a", X, H * wrong if side.is_ms else H, W1)
    if side.is_ms:
        for number in range(3):
            side.build.call(f"Primitive.shape_op.Shape.{number}.forward", [side.tensor(H)], [value(3), value(5)])


def test_what_one_framework_alone_needs_is_an_internal_detail(written, value):
    comparison, located = written(lambda side: shapes(side, value))
    # Three calls with one input and two results each; the layer's input, weight and result are judged.
    assert comparison.unjudged == {Cause.INTERNAL: 9}
    assert list(map(str, notes(comparison)))[:2] == [
        "statistics compared: 3 pass, 0 warning, 0 error, 9 unjudged",
        "all 3 comparable pairs agree; 9 are internal details of one framework",
    ]
    assert list(lines(comparison, located))[-1] == "no difference: 3 pairs judged, 9 unjudged"


def test_where_a_pair_differs_the_comparable_ones_are_not_said_to_agree(written, value):
    comparison, _ = written(lambda side: shapes(side, value, wrong=np.float32(1.1)))
    assert comparison.counts["error"] == 1
    assert "3 pairs compared; 9 are internal details of one framework" in map(str, notes(comparison))


def test_a_result_of_one_framework_that_is_compared_with_nothing_is_no_internal_detail(written, value):
    """Of two calls without a counterpart, the second layer takes the result of one, and nothing that of the other."""

    def fill(side):
        side.dense("a", X, H, W1)
        if side.is_ms:
            side.build.call("Functional.relu.0.forward", [side.tensor(H)], [side.tensor(np.abs(H))])
            side.build.call("Functional.silu.0.forward", [side.tensor(H)], [side.tensor(H + 1)])
            side.build.call("Functional.neg.0.forward", [side.tensor(H + 1)], [side.tensor(R)])
        else:
            side.build.call("Functional.gelu.0.forward", [side.tensor(H)], [side.tensor(R)])
        side.dense("b", R, Y, W2)

    comparison, _ = written(fill)
    causes = {j.pair.record.name.split(".")[1]: j.verdict.cause for c in comparison.calls for j in c.judged}
    assert (causes["relu"], causes["silu"]) == (Cause.NO_COUNTERPART, Cause.INTERNAL)
    assert comparison.unjudged[Cause.NO_COUNTERPART] == 2
    printed = list(map(str, notes(comparison)))
    details = comparison.unjudged[Cause.INTERNAL]
    judged = len(comparison.grades) - comparison.counts["unjudged"]
    assert f"all {judged} comparable pairs agree; {details} are internal details of one framework" in printed
    assert "unjudged: 2 without a counterpart in the other framework (exempt)" in printed


def test_a_pair_that_could_not_be_judged_is_no_internal_detail(builder, value, tensor):
    sides = [Side(builder, tensor, value, framework, "tensor") for framework in ("mindspore", "pytorch")]
    for side in sides:
        shapes(side, value)
    dumps = [side.build.dump() for side in sides]
    next(sides[0].build.folder.glob("dump_tensor_data/*output.0.npy")).unlink()
    comparison, _ = found(dumps)
    assert comparison.unjudged == {Cause.INTERNAL: 9, Cause.UNREADABLE: 1}
    printed = list(map(str, notes(comparison)))
    assert printed[1:3] == [
        "2 pairs compared; 9 are internal details of one framework",
        "unjudged: 1 in files that are missing or cannot be read",
    ]
    assert not comparison.is_clean
