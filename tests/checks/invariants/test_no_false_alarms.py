"""What correct trainings do, and no invariant may call violated."""

import numpy as np
import pytest
from story import Rank, tensor, write
from test_invariants import REDUCE, judged, layer, saved, softmax, violated

from msprobe.checks.invariants.judgement import Status, Why

ZERO = {"Max": 0.0, "Min": 0.0, "Mean": 0.0, "Norm": 0.0}
X = np.random.default_rng(7).normal(0.5, 2, (2, 3, 4, 4)).astype(np.float32)


def zeros():
    return tensor(0) | ZERO


# Several ranks.


def test_zeros_of_the_start_do_not_show_that_ranks_have_no_shards(tmp_path):
    """The biases of tensor-parallel layers and of experts begin as zeros, and part in the first update."""
    for step in range(2):
        ranks = {
            n: Rank().call("Module.fc.Linear.forward.0", [1], [1], parameters={"bias": zeros() if not step else n})
            for n in range(2)
        }
        write(tmp_path, ranks, step=step)
    assert not violated("equal-parameters", tmp_path)


def test_the_stages_of_a_pipeline_have_layers_of_one_name(tmp_path):
    for step in range(2):
        ranks = {}
        for n, word in enumerate(("send", "recv")):
            rank = Rank().call("Module.fc.Linear.forward.0", [1], [1], parameters={"weight": 1 + n * step})
            ranks[n] = rank.call(f"Distributed.{word}.0.forward", [3])
        write(tmp_path, ranks, step=step)
    assert not violated("equal-parameters", tmp_path)


def test_gradients_of_experts_are_not_reduced_over_all_ranks(tmp_path):
    ranks = {}
    for n in range(2):
        rank = Rank().call("Module.fc.Linear.forward.0", [n], [1], parameters={"a": 1, "b": 2, "c": 3})
        rank.call("Module.expert.Linear.forward.0", [1], [1], parameters={"weight": 5 + n, "bias": zeros()})
        rank.gradients("Module.fc.Linear.parameters_grad", a=1, b=2, c=3)
        rank.gradients("Module.expert.Linear.parameters_grad", weight=7 + n, bias=9 + n)
        for i in range(3):
            rank.call(REDUCE.format(i), [i + 1], [9])
        ranks[n] = rank
    write(tmp_path, ranks)
    assert not violated("reduced-gradients", tmp_path)


@pytest.mark.parametrize(("tokens", "is_wrong"), [((3, 4), False), ((3, 3), True)])
def test_positions_that_come_first_are_no_batch(tmp_path, tokens, is_wrong):
    ranks = {}
    for n, token in enumerate(tokens):
        rank = Rank().call("Module.pos.Embedding.forward.0", [tensor(1, "leaf")], [2])
        rank.call("Module.tok.Embedding.forward.0", [tensor(token, "leaf")], [4 + n])
        rank.call("Module.fc.Linear.forward.0", [tensor(5 + n, "call Module.tok.Embedding.forward.0.output.0")], [6])
        rank.gradients("Module.fc.Linear.parameters_grad", weight=2)
        ranks[n] = rank.call(REDUCE.format(0), [2], [4])
    write(tmp_path, ranks)
    assert bool(violated("own-batches", tmp_path)) is is_wrong


# The training.


def test_a_frozen_parameter_is_said_and_not_charged(tmp_path):
    write(tmp_path, {0: layer(gradient=None)}, run={"frozen": ["fc.weight"]})
    assert [(one.subject, one.why) for one in judged("gradients", tmp_path) if one.status is Status.UNJUDGED] == [
        ("fc.weight", Why.FROZEN)
    ]
    assert not violated("gradients", tmp_path)


def numbers(value, absolute):
    return {"Max": value + absolute, "Min": value - absolute, "Mean": value, "Norm": 2.0}


@pytest.mark.parametrize(("rate", "is_wrong"), [(1e-7, False), (1e-2, True)])
def test_ones_that_do_not_move_in_a_warmup(tmp_path, rate, is_wrong):
    """An update of 1e-9 or 1e-8 is lost beside 1, and not beside 0.01."""
    for step in range(2):
        small = {name: tensor(0) | numbers(0.0, 0.01 + step * rate * 0.1) for name in ("a", "b", "c")}
        rank = Rank().call(
            "Module.fc.Linear.forward.0", [1], [1], parameters={**small, "one": numbers(1.0, 0.0) | tensor(1)}
        )
        rank.gradients("Module.fc.Linear.parameters_grad", a=0.1, b=0.1, c=0.1, one=0.1)
        write(tmp_path, {0: rank}, step=step)
    assert [one.subject for one in violated("updates", tmp_path)] == (["fc.one"] if is_wrong else [])


def test_a_parameter_that_waits_for_its_turn(tmp_path):
    """Two networks that are trained in turns."""
    for step, (weight, bias) in enumerate([(1, 1), (2, 1), (2, 2)]):
        write(tmp_path, {0: layer(weight=weight, bias=bias)}, step=step)
    assert not violated("updates", tmp_path)


# Calls.


def test_a_softmax_over_rows_whose_scores_are_all_low(tmp_path):
    scores = (X * 1000 - 2e4).astype(np.float32)[0, 0]
    path = saved(tmp_path, "Functional.softmax.0.forward", [scores], [softmax(scores)], values=[-1])
    assert not violated("masks", path)


def test_a_mask_along_the_first_axis(tmp_path):
    scores = np.where(np.arange(4) > 1, np.float32(-1e9), X[0, 0])  # two columns are masked as a whole
    path = saved(tmp_path, "Functional.softmax.0.forward", [scores], [softmax(scores.T).T.copy()], values=[0])
    assert not violated("masks", path)


def test_a_layer_norm_over_several_axes_without_weight(tmp_path):
    y = (X - X.mean((1, 2, 3), keepdims=True)) / X.std((1, 2, 3), keepdims=True)
    path = saved(tmp_path, "Functional.layer_norm.0.forward", [X], [y], values=[[3, 4, 4]])
    assert [one.status for one in judged("norms", path)] == [Status.HOLDS]
    unknown = saved(tmp_path / "unknown", "Functional.layer_norm.0.forward", [X], [y])
    assert [one.why for one in judged("norms", unknown)] == [Why.UNKNOWN_OPTION]


def test_a_cell_of_the_user_may_norm_in_another_way(tmp_path):
    """By the standard deviation of a sample, as the annotated transformer does."""
    y = (X - X.mean(-1, keepdims=True)) / X.std(-1, keepdims=True, ddof=1)
    path = saved(tmp_path, "Module.norm.LayerNorm.forward.0", [X], [y.astype(np.float32)])
    assert not violated("norms", path)


def test_a_bell_curve_fades_out_and_is_no_memory(tmp_path):
    far = np.arange(64, dtype=np.float32)
    curve = np.exp(-((far[:, None] - 20) ** 2 + (far - 30) ** 2) / 8).astype(np.float32)
    assert np.mean((curve > 0) & (curve < np.finfo(np.float32).tiny)) > 0.01
    assert not violated("written-memory", saved(tmp_path, "Torch.add.0.forward", [curve, curve], [curve]))


def test_a_parameter_of_the_root_has_a_gradient_that_nobody_records(tmp_path):
    rank = layer().call("Mint.add.0.forward", [1, tensor(2, "parameter pos")], [3])
    write(tmp_path, {0: rank})
    assert [one.why for one in judged("gradients", tmp_path) if one.status is Status.UNJUDGED] == [Why.NO_RECORD]
    assert not violated("gradients", tmp_path)


def test_tensor_parallel_ranks_take_the_same_batch(tmp_path):
    ranks = {}
    for n in range(2):
        rank = Rank().call("Module.up.Linear.forward.0", [tensor(1, "leaf")], [2], parameters={"weight": n})
        rank.gradients("Module.fc.Linear.parameters_grad", weight=2)
        ranks[n] = rank.call(REDUCE.format(0), [2], [4])
    write(tmp_path, ranks)
    assert not violated("own-batches", tmp_path)
