"""Calls written by hand: clean ones leave next to nothing, planted mistakes stand out. Needs torch, not MindSpore."""

import numpy as np
import pytest
import torch

from msprobe.replay.recorded import Cause, NotReplayed, Replayed

pytestmark = pytest.mark.torch

CLEAN = 6e-7


def product(random):
    x, w = random(5, 7), random(7, 3)
    return x, w, (x.astype(np.float64) @ w).astype(np.float32)


def test_a_clean_product_is_explained_forward_and_backward(writer, random, best):
    dump = writer("pytorch")
    x, w, y = product(random)
    g = random(5, 3)
    dump.forward("Torch.matmul.0.forward", [x, w], outputs=[y])
    dump.backward("Torch.matmul.0.backward", [g], [g @ w.T, x.T @ g])
    for direction, count in (("forward", 1), ("backward", 2)):
        result = dump.replayed(f"Torch.matmul.0.{direction}")
        residuals, _ = best(result)
        assert (result.operation, result.moves_data, len(residuals)) == ("matmul", False, count)
        assert all(each.eta < CLEAN for each in residuals)
        assert [each.path for each in residuals] == [(str(i),) for i in range(count)]
        assert {each.part for each in residuals} == {"output"}
    assert [each.count for each in residuals] == [35, 21]


def test_eta_of_a_product_is_in_units_of_its_sensitivity(writer, best):
    # y = 1*3 + 2*4 = 11, recorded 11 + 1e-3: S^2 = 1*9 + 4*16 + 121 = 194
    dump = writer("pytorch")
    x, w = np.float32([[1, 2]]), np.float32([[3], [4]])
    dump.forward("Torch.matmul.0.forward", [x, w], outputs=[np.float32([[11.001]])])
    [found], _ = best(dump.replayed("Torch.matmul.0.forward"))
    assert found.eta == pytest.approx((np.float64(np.float32(11.001)) - 11) / 194**0.5, rel=1e-9)


def test_sensitivity_of_an_elementwise_function_is_exact(writer, best):
    # y = exp(x): (f'(x) x)^2 + f^2 = e^2x (x^2 + 1)
    dump = writer("pytorch")
    dump.forward("Torch.exp.0.forward", [np.float32([2.0])], outputs=[np.float32([7.5])])
    [found], _ = best(dump.replayed("Torch.exp.0.forward"))
    assert found.eta == pytest.approx((7.5 - np.exp(2.0)) / (np.exp(2.0) * 5**0.5), abs=1e-6)


PLANTED = {
    "one element": (lambda y: y + np.eye(*y.shape, dtype=np.float32) * (y == y[0, 0]) * y * 1e-3, "peak"),
    "scaled": (lambda y: y * np.float32(1.001), "slope"),
    "bias": (lambda y: y + np.float32(1e-3), "bias"),
}


@pytest.mark.parametrize("mistake", PLANTED)
@pytest.mark.parametrize("framework", ["mindspore", "pytorch"])
def test_a_planted_mistake_stands_out(writer, random, best, mistake, framework):
    change, figure = PLANTED[mistake]
    dump = writer(framework)
    x, w, y = product(random)
    name = {"mindspore": "Mint.matmul.0.forward", "pytorch": "Torch.matmul.0.forward"}[framework]
    dump.forward(name, [x, w], outputs=[change(y)])
    [found], _ = best(dump.replayed(name))
    assert found.eta > 1e-5
    assert found.peak > 1e-4
    if figure != "peak":
        assert getattr(found, figure) > 0.99


def test_bfloat16_inside_is_a_class_of_its_own(writer, random, best):
    dump = writer("pytorch")
    x, w = torch.from_numpy(random(64, 64)), torch.from_numpy(random(64, 64))
    y = (x.bfloat16().float() @ w.bfloat16().float()).bfloat16().float()
    dump.forward("Torch.matmul.0.forward", [x.numpy(), w.numpy()], outputs=[y.numpy()])
    [found], _ = best(dump.replayed("Torch.matmul.0.forward"))
    assert 1e-3 < found.eta < 3e-3
    assert found.bias < 0.1
    assert found.slope < 0.1


def test_data_that_is_moved_must_be_exact(writer, random, best):
    dump = writer("mindspore")
    x = random(2, 3)
    wrong = x.T.copy()
    wrong[0, 0] += np.float32(1e-6) * wrong[0, 0]
    dump.forward("Functional.transpose.0.forward", [x, (1, 0)], outputs=[x.T.copy()])
    dump.forward("Functional.transpose.1.forward", [x, (1, 0)], outputs=[wrong])
    result = dump.replayed("Functional.transpose.0.forward")
    assert result.moves_data
    assert best(result)[0][0].eta == 0
    assert best(dump.replayed("Functional.transpose.1.forward"))[0][0].eta > 0


def test_a_cast_is_exact_up_to_its_own_rounding(writer, random, best):
    dump = writer("pytorch")
    x = random(100)
    dump.forward("Tensor.half.0.forward", [x], outputs=[x.astype(np.float16)])
    result = dump.replayed("Tensor.half.0.forward")
    assert (result.operation, result.moves_data) == ("cast", True)
    assert best(result)[0][0].eta == 0


def test_what_the_record_does_not_tell_is_tried(writer, random, best):
    x, gamma, beta = random(4, 8) * 1e-3, random(8), random(8)
    wide = x.astype(np.float64)
    y = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-6) * gamma + beta
    outputs = [y.astype(np.float32), x[:, :1], x[:, :1]]
    dump = writer("mindspore")
    dump.forward("Primitive.layer_norm.LayerNorm.0.forward", [x, gamma, beta], outputs=outputs)
    dump.forward("Cell.norm.LayerNorm.forward.0", [x], outputs=outputs[:1], parameters={"gamma": gamma, "beta": beta})
    for name in ("Primitive.layer_norm.LayerNorm.0.forward", "Cell.norm.LayerNorm.forward.0"):
        result = dump.replayed(name)
        residuals, label = best(result)
        assert label == "eps=1e-06"
        assert [each.path for each in residuals] == [("0",)], "mean and variance are no evidence"
        assert residuals[0].eta < CLEAN
        assert all(each[0].eta > 1e-4 for other, each in result.residuals.items() if other != label)


def test_pad_mode_same_pads_behind(writer, random, best):
    x, w = random(1, 1, 4), random(1, 1, 2)
    # stride 1, kernel 2: one zero behind
    padded = np.append(x[0, 0], np.float32(0))
    y = np.convolve(padded.astype(np.float64), w[0, 0][::-1], "valid").astype(np.float32)
    dump = writer("mindspore")
    args = [x[:, :, None], w[:, :, None], None, 1, "same"]
    dump.forward("Functional.conv2d.0.forward", args, outputs=[y.reshape(1, 1, 1, 4)])
    assert best(dump.replayed("Functional.conv2d.0.forward"))[0][0].eta < CLEAN


def test_one_canonical_name_for_both_frameworks(writer, random):
    x = random(3, 4)
    y = np.float32(np.exp(x) / np.exp(x).sum(-1, keepdims=True))
    ours, theirs = writer("mindspore"), writer("pytorch")
    ours.forward("Functional.softmax.0.forward", [x], {"axis": -1}, outputs=[y])
    theirs.forward("Functional.softmax.0.forward", [x], {"dim": -1}, outputs=[y])
    names = [each.replayed("Functional.softmax.0.forward").operation for each in (ours, theirs)]
    assert names == ["softmax", "softmax"]


def test_in_place_and_reflected_operators(writer, random, best):
    dump = writer("pytorch")
    x = random(3)
    dump.forward("Tensor.__iadd__.0.forward", [x, 1.0], outputs=[x + np.float32(1)])
    dump.forward("Tensor.__rsub__.0.forward", [x, 2.0], outputs=[np.float32(2) - x])
    dump.forward("Tensor.mul_.0.forward", [x, x], outputs=[x * x])
    for name, operation in (("Tensor.__iadd__", "add"), ("Tensor.__rsub__", "sub"), ("Tensor.mul_", "mul")):
        result = dump.replayed(f"{name}.0.forward")
        assert result.operation == operation
        assert best(result)[0][0].eta < CLEAN


def test_indices_may_break_ties_either_way(writer, best):
    dump = writer("pytorch")
    x = np.float32([[1, 3, 3]])
    for place, index in enumerate((1, 2, 0)):
        dump.forward(f"Torch.argmax.{place}.forward", [x], {"dim": 1}, outputs=[np.array([index])])
    etas = [best(dump.replayed(f"Torch.argmax.{i}.forward"))[0][0].eta for i in range(3)]
    assert etas == [0, 0, float("inf")]


def test_a_list_and_a_tuple_as_index_are_told_apart_by_the_shape(writer, random, best):
    dump = writer("pytorch")
    x = random(3, 4)
    dump.forward("Tensor.__getitem__.0.forward", [x, (0, 1)], outputs=[np.array(x[0, 1])])
    dump.forward("Tensor.__getitem__.1.forward", [x, (0, 1)], outputs=[x[[0, 1]]])
    assert [best(dump.replayed(f"Tensor.__getitem__.{i}.forward"))[0][0].eta for i in range(2)] == [0, 0]


def not_replayed(result):
    assert isinstance(result, NotReplayed), result
    return result.cause


def test_why_a_call_is_not_replayed(writer, random):
    dump = writer("pytorch")
    x = random(3)
    dump.forward("Torch.load.0.forward", ["file"], outputs=[x])
    dump.forward("Functional.dropout.0.forward", [x, 0.5, True], outputs=[x])
    dump.forward("Distributed.all_reduce.0.forward", [x], outputs=[x])
    dump.forward("Torch.empty.0.forward", [3], outputs=[x])
    dump.forward("Module.block.Block.forward.0", [x], outputs=[x])
    dump.forward("Torch.cross.0.forward", [x, "text"], outputs=[x])
    dump.forward("Torch.sum.0.forward", [x], outputs=[x])
    dump.backward("Torch.exp.0.backward", [x], [x])
    dump.forward("Torch.exp.1.forward", [x], outputs=[x])
    dump.backward("Torch.exp.1.backward", [x], [x], gradient="accumulated")
    causes = {
        "Torch.load.0.forward": Cause.UNKNOWN_OPERATION,
        "Functional.dropout.0.forward": Cause.RANDOM,
        "Distributed.all_reduce.0.forward": Cause.COMMUNICATION,
        "Torch.empty.0.forward": Cause.UNINITIALISED,
        "Module.block.Block.forward.0": Cause.UNKNOWN_CELL,
        "Torch.cross.0.forward": Cause.FAILED,
        "Torch.sum.0.forward": Cause.OTHER_SHAPE,
        "Torch.exp.0.backward": Cause.MISSING_FORWARD,
        "Torch.exp.1.backward": Cause.ACCUMULATED_GRADIENT,
    }
    assert {name: not_replayed(dump.replayed(name)) for name in causes} == causes


def test_a_dropout_that_is_off_hands_its_input_on(writer, random, best):
    dump = writer("pytorch")
    x = random(3)
    dump.forward("Functional.dropout.0.forward", [x, 0.5, False], outputs=[x])
    dump.forward("Functional.dropout.1.forward", [x, 0.0, True], outputs=[x + 1])
    result = dump.replayed("Functional.dropout.0.forward")
    assert (result.operation, result.moves_data) == ("dropout", True)
    assert best(result)[0][0].eta == 0
    assert best(dump.replayed("Functional.dropout.1.forward"))[0][0].eta > 1e-3


def test_a_tensor_that_is_missing_is_a_cause(writer, random):
    dump = writer("pytorch")
    x = random(3)
    dump.forward("Torch.exp.0.forward", [x], outputs=[np.exp(x)])
    (dump.folder / "dump_tensor_data" / "Torch.exp.0.forward.input.0.npy").unlink()
    assert not_replayed(dump.replayed("Torch.exp.0.forward")) is Cause.MISSING_TENSOR


def test_equal_calls_give_equal_answers_and_torch_stays_as_it_is(writer, random, recwarn):
    dump = writer("pytorch")
    x, gamma = random(6, 8), random(8)
    dump.forward("Functional.rms_norm.0.forward", [x, (8,), gamma, 1e-6], outputs=[x])
    before = torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_rng_state()
    first, second = (dump.replayed("Functional.rms_norm.0.forward") for _ in range(2))
    assert isinstance(first, Replayed)
    assert first == second
    after = torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_rng_state()
    assert before[:3] == after[:3]
    assert torch.equal(before[3], after[3])
    assert not recwarn.list


def test_an_attribute_that_no_record_tells_makes_the_candidates_inexhaustive(writer, random):
    dump = writer("mindspore")
    x = random(3, 4)
    dump.forward("Primitive.shrink.HShrink.0.forward", [x], outputs=[x])
    dump.forward("Primitive.norm.LayerNorm.0.forward", [x, x[0], x[1]], outputs=[x, x[:, :1], x[:, :1]])
    dump.forward("Primitive.sum.ReduceSum.0.forward", [x, 0], outputs=[x.sum(0)])
    dump.forward("Functional.hardshrink.0.forward", [x], outputs=[x])
    names = ("Primitive.shrink.HShrink", "Primitive.norm.LayerNorm", "Primitive.sum.ReduceSum", "Functional.hardshrink")
    found = [dump.replayed(f"{name}.0.forward").is_exhaustive for name in names]
    assert found == [False, False, True, True]


def test_the_activation_of_a_dense_layer_is_part_of_it(writer, random, best):
    dump = writer("mindspore")
    x, w, b = random(5, 4), random(3, 4), random(3)
    y = x.astype(np.float64) @ w.T + b
    for name, inner, of in (("a", "ReLU", lambda v: np.maximum(v, 0)), ("b", "Tanh", np.tanh), ("c", "", lambda v: v)):
        outputs = [of(y).astype(np.float32)]
        if inner:
            dump.forward(f"Cell.{name}.activation.{inner}.forward.0", [y.astype(np.float32)], outputs=outputs)
        dump.forward(f"Cell.{name}.Dense.forward.0", [x], outputs=outputs, parameters={"weight": w, "bias": b})
    dump.forward("Cell.d.activation.Own.forward.0", [x], outputs=[x])
    dump.forward("Cell.d.Dense.forward.0", [x], outputs=[x], parameters={"weight": w})
    for name in "abc":
        assert best(dump.replayed(f"Cell.{name}.Dense.forward.0"))[0][0].eta < CLEAN
    assert not_replayed(dump.replayed("Cell.d.Dense.forward.0")) is Cause.UNKNOWN_CELL


def test_a_shape_is_replayed_by_its_numbers(writer, random, best):
    dump = writer("mindspore")
    dump.forward("Primitive.shape.Shape.0.forward", [random(3, 4)], outputs=[3, 4])
    dump.forward("Primitive.shape.Shape.1.forward", [random(3, 4)], outputs=[3, 5])
    etas = [[each.eta for each in best(dump.replayed(f"Primitive.shape.Shape.{n}.forward"))[0]] for n in (0, 1)]
    assert etas == [[0, 0], [0, float("inf")]]
