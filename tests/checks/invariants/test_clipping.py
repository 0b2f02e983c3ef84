"""Norms of gradients, clipping and the weights of losses, on runs made by hand: every number follows from here."""

import numpy as np
import pytest
from story import Rank, tensor, value, write

from msprobe.checks.invariants.judgement import Status, Why
from msprobe.checks.invariants.table import ROWS
from msprobe.checks.invariants.verb import read_run

REDUCE, SQRT, MUL = "Distributed.all_reduce.{}.forward", "Tensor.sqrt.{}.forward", "Tensor.mul_.{}.forward"


def judged(name, path):
    (row,) = [row for row in ROWS if row.name == name]
    return list(row.predicate(read_run(path), None))


def violated(name, path):
    return [(one.subject, one.ranks, one.what) for one in judged(name, path) if one.status is Status.VIOLATED]


def statuses(name, path):
    return {one.status for one in judged(name, path)}


def of_norm(norm, mean=0.1):
    """The record of a gradient with this norm."""
    return {**tensor(1), "Max": norm / 2, "Min": -norm / 3, "Mean": mean, "Norm": norm}


def scalar(number):
    return {**tensor(1), "shape": [], "Max": number, "Min": number, "Mean": number, "Norm": abs(number)}


def layer(own, shared, *scalars):
    """Gradients of a weight that this rank alone has and of one that all ranks have; then `all_reduce` and `sqrt`."""
    rank = Rank().call("Module.fc.Linear.forward.0", [1], [1], parameters={"own": own * 10, "shared": 7})
    rank.data["Module.fc.Linear.parameters_grad"] = {"own": [of_norm(own)], "shared": [of_norm(shared)]}
    rank.construct["Module.fc.Linear.parameters_grad"] = None
    for n, (before, after) in enumerate(scalars):
        rank.call(REDUCE.format(n), [scalar(before)], [scalar(after)])
        rank.call(SQRT.format(n), [scalar(after)], [scalar(after**0.5)])
    return rank


@pytest.mark.parametrize(
    ("sums", "total", "what"),
    [
        # ranks have own gradients of norms 3 and 4, and both one of norm 12: 9 + 16 + 144
        ((153, 16), 169, None),
        ((9 + 144, 16 + 144), 313, "counted"),
        ((9, 16), 25, "replicas left out"),
    ],
)
def test_a_norm_counts_each_gradient_once(tmp_path, sums, total, what):
    write(tmp_path, {n: layer(own, 12, (sums[n], total)) for n, own in enumerate((3, 4))})
    found = violated("gradient-norm", tmp_path)
    assert found == ([("fc.shared", (0, 1), what)] if what else [])
    if not what:
        assert statuses("gradient-norm", tmp_path) == {Status.HOLDS}
    else:
        (one,) = judged("gradient-norm", tmp_path)
        assert one.value == pytest.approx((total / 169) ** 0.5)


def test_the_norm_of_each_rank_alone(tmp_path):
    ranks = {n: layer(own, 12) for n, own in enumerate((3, 4))}
    for n, square in enumerate((153, 160)):
        ranks[n].call(SQRT.format(0), [scalar(square)], [scalar(square**0.5)])
    ranks[0].call(REDUCE.format(9), [1], [2])
    ranks[1].call(REDUCE.format(9), [1], [2])
    write(tmp_path, ranks)
    (one,) = judged("clipping", tmp_path)
    assert (one.status, one.what, one.subject, one.ranks) == (
        Status.VIOLATED,
        "local norm",
        "Tensor.sqrt.0.forward",
        (0, 1),
    )
    assert one.value == pytest.approx((160 / 153) ** 0.5)


def test_ranks_that_train_models_of_their_own_are_not_judged(tmp_path):
    ranks = {n: layer(own, 10 + own) for n, own in enumerate((3, 4))}
    for n, own in enumerate((3, 4)):
        square = own**2 + (10 + own) ** 2
        ranks[n].call(SQRT.format(0), [scalar(square)], [scalar(square**0.5)])
    write(tmp_path, ranks)
    assert statuses("clipping", tmp_path) == {Status.UNJUDGED}


@pytest.mark.parametrize(("factors", "odd"), [((0.5, 0.5), None), ((0.5, 0.25), (0,))])
def test_one_factor_on_all_ranks(tmp_path, factors, odd):
    """The shared gradient is the same on both ranks; which of two is wrong is not known, the smaller is taken."""
    ranks = {n: layer(own, 12, (1, 2)) for n, own in enumerate((3, 4))}
    for n, factor in enumerate(factors):
        after = {
            key: each * factor if key in ("Max", "Min", "Mean", "Norm") else each for key, each in of_norm(12).items()
        }
        ranks[n].call(MUL.format(0), [of_norm(12), scalar(factor)], [after])
    write(tmp_path, ranks)
    found = [one for one in judged("clipping", tmp_path) if one.subject]
    assert [(one.subject, one.status, one.ranks) for one in found] == [
        ("fc.shared", Status.VIOLATED if odd else Status.HOLDS, odd or ())
    ]


def test_a_run_without_clipping_is_not_judged(tmp_path):
    write(tmp_path, {n: layer(own, 12) for n, own in enumerate((3, 4))})
    for name in ("gradient-norm", "clipping"):
        assert [one.why for one in judged(name, tmp_path)] == [Why.NO_NORM]


# Losses.


def loss(*calls, targets=(8, 0)):
    """Losses of a rank: for each, its arguments, and the gradient that it is given."""
    rank = Rank()
    for n, (given, arguments, shape) in enumerate(calls):
        target = {**tensor(1), "dtype": "torch.int64", "shape": [targets[0]], "Max": 3, "Min": targets[1], "Mean": 1.0}
        keywords = {key: value(each) for key, each in arguments.items()}
        result = {**scalar(1.5), "shape": shape}
        rank.call(f"Functional.cross_entropy.{n}.forward", [tensor(2, shape=(8, 4)), target], [result], **keywords)
        rank.call(f"Functional.cross_entropy.{n}.backward", [given], [tensor(1, shape=(8, 4))])
    return rank


def uniform(weight, count, size):
    """The gradient of tokens of which `count` have a weight and the others 0."""
    low = weight if count == size else 0.0
    numbers = {"Max": weight, "Min": low, "Mean": weight * count / size, "Norm": weight * count**0.5}
    return {**tensor(1), "shape": [size], **numbers}


@pytest.mark.parametrize(
    ("first", "second", "is_wrong"),
    [
        # the mean of 6 tokens and the mean of 3 tokens
        ((scalar(1.0), {}, [], 6), (scalar(1.0), {}, [], 3), True),
        # each weighted by its share of the tokens
        ((scalar(2 / 3), {}, [], 6), (scalar(1 / 3), {}, [], 3), False),
        # sums, divided by 6 and by 3, or both by 9
        ((scalar(1 / 6), {"reduction": "sum"}, [], 6), (scalar(1 / 3), {"reduction": "sum"}, [], 3), True),
        ((scalar(1 / 9), {"reduction": "sum"}, [], 6), (scalar(1 / 9), {"reduction": "sum"}, [], 3), False),
        # a loss for each token, of which a mask keeps 6 and 3
        (
            (uniform(1 / 6, 6, 8), {"reduction": "none"}, [8], 8),
            (uniform(1 / 3, 3, 8), {"reduction": "none"}, [8], 8),
            True,
        ),
        (
            (uniform(1 / 9, 6, 8), {"reduction": "none"}, [8], 8),
            (uniform(1 / 9, 3, 8), {"reduction": "none"}, [8], 8),
            False,
        ),
    ],
)
def test_tokens_have_one_weight(tmp_path, first, second, is_wrong):
    write(tmp_path, {n: loss(each[:3], targets=(each[3], 0)) for n, each in enumerate((first, second))})
    expected = [("Functional.cross_entropy.0.forward", (1,), "ranks")] if is_wrong else []
    assert violated("loss-weights", tmp_path) == expected
    if is_wrong:
        assert [one.value for one in judged("loss-weights", tmp_path)] == [pytest.approx(2.0)]
    else:
        assert statuses("loss-weights", tmp_path) == {Status.HOLDS}


def test_micro_batches_of_one_rank(tmp_path):
    """Two forwards, each with a loss for each token: the mean of 4 and the mean of 2 tokens."""
    rank = Rank()
    for n in range(2):
        rank.call(f"Module.net.Net.forward.{n}", [3 + n], [1])
    for n, count in enumerate((4, 2)):
        given = uniform(1 / count, count, 8)
        target = {**tensor(1), "dtype": "torch.int64", "shape": [8], "Max": 3, "Min": 0, "Mean": 1.0}
        result = {**tensor(1), "shape": [8]}
        name = f"Functional.cross_entropy.{n}"
        rank.call(f"{name}.forward", [tensor(2, shape=(8, 4)), target], [result], reduction=value("none"))
        rank.call(f"{name}.backward", [given], [tensor(1, shape=(8, 4))])
    write(tmp_path, {0: rank})
    assert violated("loss-weights", tmp_path) == [("Functional.cross_entropy.1.forward", (0,), "micro batches")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (scalar(1.0), scalar(0.3)),  # equal numbers of tokens: another weight is wanted
        (uniform(0.5, 8, 8), {**uniform(0.5, 8, 8), "Mean": 0.3}),  # each token has a weight of its own
    ],
)
def test_weights_of_the_users_own_are_not_judged(tmp_path, first, second):
    calls = [(each, {"reduction": "none" if each["shape"] else "mean"}, each["shape"]) for each in (first, second)]
    write(tmp_path, {n: loss(each) for n, each in enumerate(calls)})
    assert statuses("loss-weights", tmp_path) == {Status.UNJUDGED}


def test_ignored_tokens_are_counted_in_saved_targets(tmp_path):
    """-100 among the targets of rank 1: statistics do not show how often."""
    ranks = {n: loss((scalar(1.0), {}, []), targets=(8, low)) for n, low in enumerate((0, -100))}
    write(tmp_path, ranks)
    assert Why.NO_TENSORS in {one.why for one in judged("loss-weights", tmp_path)}
    for n in range(2):
        entry = ranks[n].data["Functional.cross_entropy.0.forward"]
        entry["input_args"][1]["data_name"] = "target.npy"
    path = write(tmp_path / "saved", ranks, task="tensor")
    for n, targets in enumerate(([1] * 8, [1, 2, -100, -100, -100, -100, 3, 1])):
        folder = path / "step0" / f"rank{n}" / "dump_tensor_data"
        folder.mkdir()
        np.save(folder / "target.npy", np.array(targets))
    assert violated("loss-weights", path) == [("Functional.cross_entropy.0.forward", (1,), "ranks")]
