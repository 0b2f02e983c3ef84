"""Invariants on runs made by hand: each holds, is violated, and is not judged where it cannot be."""

import json

import numpy as np
import pytest
from story import Rank, group, tensor, value, write

from msprobe.checks.invariants.judgement import Status, Why
from msprobe.checks.invariants.table import ROWS
from msprobe.checks.invariants.verb import read_run
from msprobe.cli import VERBS, main

EXP, REDUCE, SOFTMAX = "Torch.exp.0.forward", "Distributed.all_reduce.{}.forward", "Functional.softmax.0.forward"
PARAMETER = "fc.weight"


def judged(name, path, other=None):
    """The judgements of one invariant."""
    (row,) = [row for row in ROWS if row.name == name]
    return list(row.predicate(read_run(path), read_run(other) if other else None))


def violated(name, path, other=None):
    return [one for one in judged(name, path, other) if one.status is Status.VIOLATED]


def statuses(name, path):
    return {one.status for one in judged(name, path)}


def layer(weight=1, gradient=2, batch=3, bias=4, bias_gradient=5, reduced=(2, 5), after=7):
    """One layer whose two gradients are reduced; `gradient` None leaves it out."""
    parameters = {"weight": weight, "bias": bias}
    rank = Rank().call("Module.fc.Linear.forward.0", [batch], [1], parameters=parameters)
    found = {"weight": gradient, "bias": bias_gradient}
    rank.gradients("Module.fc.Linear.parameters_grad", **{k: v for k, v in found.items() if v is not None})
    for n, each in enumerate(reduced):
        rank.call(REDUCE.format(n), [each], [after])
    return rank


def test_the_table_says_everything_about_each_row():
    assert len({row.name for row in ROWS}) == len(ROWS) >= 12
    assert all(row.needs and row.says and row.source for row in ROWS)


# Several ranks.


def test_parameters_that_were_equal_stay_equal(tmp_path):
    for step, of_one in enumerate((1, 9)):
        write(tmp_path, {0: layer(), 1: layer(), 2: layer(weight=of_one)}, step=step)
    found = [(one.subject, one.step, one.ranks) for one in violated("equal-parameters", tmp_path)]
    assert found == [(PARAMETER, 1, (2,))]


def test_parameters_that_differ_from_the_beginning_may_be_shards(tmp_path):
    ranks = {n: Rank().call("Module.fc.Linear.forward.0", [1], [1], parameters={"weight": n}) for n in range(2)}
    write(tmp_path, ranks)
    assert statuses("equal-parameters", tmp_path) == {Status.UNJUDGED}


def test_they_are_no_shards_if_their_gradients_are_reduced(tmp_path):
    write(tmp_path, {0: layer(), 1: layer(weight=9)})
    assert [one.subject for one in violated("equal-parameters", tmp_path)] == [PARAMETER]


def test_a_gradient_that_is_not_reduced(tmp_path):
    names = "abcd"
    for_all = {}
    for n in range(2):
        rank = Rank().gradients("Module.fc.Linear.parameters_grad", **{k: i + 1 for i, k in enumerate(names)})
        for i in range(3):
            rank.call(REDUCE.format(i), [i + 1], [9])
        for_all[n] = rank
    write(tmp_path, for_all)
    assert {one.subject for one in violated("reduced-gradients", tmp_path)} == {"fc.d"}


def batch_of(n, number):
    rank = Rank().call("Module.net.Net.forward.0", [number], [1])
    rank.gradients("Module.fc.Linear.parameters_grad", weight=2)
    return rank.call(REDUCE.format(0), [2], [4])


@pytest.mark.parametrize(("numbers", "alike"), [((5, 5), [(0, 1)]), ((5, 6), [])])
def test_ranks_have_batches_of_their_own(tmp_path, numbers, alike):
    write(tmp_path, {n: batch_of(n, number) for n, number in enumerate(numbers)})
    assert [one.ranks for one in violated("own-batches", tmp_path)] == alike


def summed(mean):
    return {"Max": mean + 1.0, "Min": mean - 1.0, "Mean": float(mean), "Norm": 2.0 * abs(mean)}


def operation(name):
    return {"type": "reduction", "value": name}


UNKNOWN = None
"""What is recorded for an operation by dumps that do not record it."""


@pytest.mark.parametrize(
    ("operations", "after", "is_wrong"),
    [
        *[([], 5, False), ([], 2.5, True), ([], 6, True), ([], -5, True)],
        *[([UNKNOWN], 5, False), ([UNKNOWN], 2.5, False), ([UNKNOWN], 6, True), ([UNKNOWN], -5, True)],
        *[([operation("sum")], 5, False), ([operation("sum")], 2.5, True)],
        *[([value("sum")], 5, False), ([value("sum")], 2.5, True)],
        *[([operation("avg")], 5, True), ([operation("avg")], 2.5, False)],
        *[([operation("max")], 3, False), ([operation("max")], 5, True)],
        *[([operation("min")], 2, False), ([operation("min")], 3, True)],
    ],
)
def test_a_reduction_by_statistics(tmp_path, operations, after, is_wrong):
    """Of means 2 and 3 the sum's is 5, the mean's 2.5; the greatest element is 4, the smallest 1."""
    made = {
        n: Rank().call(REDUCE.format(0), [tensor(n + 2) | summed(n + 2), *operations], [tensor(0) | summed(after)])
        for n in (0, 1)
    }
    write(tmp_path, made)
    assert bool(violated("reductions", tmp_path)) is is_wrong


def part(mean, norm, high, low, shape=(2, 2)):
    return tensor(0, shape=shape) | {"Max": high, "Min": low, "Mean": mean, "Norm": norm}


@pytest.mark.parametrize(
    ("keywords", "means", "is_wrong"),
    [
        *[({}, (4.0, 6.0), False), ({}, (4.0, 7.0), True), ({}, (2.0, 3.0), True)],
        *[({"op": operation("avg")}, (2.0, 3.0), False), ({"op": operation("avg")}, (4.0, 6.0), True)],
    ],
)
@pytest.mark.parametrize("is_listed", [False, True])
def test_a_scattered_reduction_by_statistics(tmp_path, keywords, means, is_wrong, is_listed):
    """The inputs have the means 2 and 3, so the parts of the sum, of equal sizes, have 5 on average."""
    made = {}
    for n in (0, 1):
        before = part(n + 2.0, 5.0, n + 4.0, 0.0 + n, (8,))
        if is_listed:
            half = part(n + 2.0, 5.0 / 2**0.5, n + 4.0, 0.0 + n)
            before = [half, half]
        after = part(means[n], 3.5, means[n], means[n] / 2)
        name = f"Distributed.{'reduce_scatter' if is_listed else 'reduce_scatter_tensor'}.0.forward"
        made[n] = Rank().call(name, [tensor(0), before], [after, before], group=group(0, 1), **keywords)
    write(tmp_path, made)
    assert bool(violated("reductions", tmp_path)) is is_wrong
    assert statuses("reductions", tmp_path) <= {Status.HOLDS, Status.VIOLATED}


@pytest.mark.parametrize(("second", "is_wrong"), [([33.0, 44.0], False), ([33.0, 45.0], True), ([11.0, 22.0], True)])
def test_a_scattered_reduction_by_tensors(tmp_path, second, is_wrong):
    """1, 2, 3, 4 and 10, 20, 30, 40 have the sum 11, 22 on the first rank of the group, and 33, 44 on the second."""
    inputs, results = [[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]], [[11.0, 22.0], second]
    for rank in (0, 1):
        arrays = [np.float32(inputs[rank])], [np.float32(results[rank])]
        saved(tmp_path, "Distributed.reduce_scatter_tensor.0.forward", *arrays, rank=rank)
    assert bool(violated("reductions", tmp_path)) is is_wrong
    assert statuses("reductions", tmp_path) <= {Status.HOLDS, Status.VIOLATED}


def test_a_reduction_by_another_operation_is_not_judged(tmp_path):
    write(tmp_path, {n: Rank().call(REDUCE.format(0), [n + 1, operation("band")], [9]) for n in range(2)})
    assert statuses("reductions", tmp_path) == {Status.UNJUDGED}


def test_a_reduction_whose_results_differ(tmp_path):
    write(tmp_path, {n: Rank().call(REDUCE.format(0), [1], [2 + n]) for n in range(2)})
    (found,) = violated("reductions", tmp_path)
    assert found.what == "unequal results"


def test_one_rank_is_not_judged(tmp_path):
    write(tmp_path, {0: layer()})
    for name in ("equal-parameters", "reduced-gradients", "own-batches", "reductions"):
        assert statuses(name, tmp_path) == {Status.UNJUDGED}


# The training.


def test_a_parameter_without_gradient(tmp_path):
    write(tmp_path, {0: layer(gradient=None)})
    assert [one.subject for one in violated("gradients", tmp_path)] == [PARAMETER]


def test_a_parameter_that_does_not_move(tmp_path):
    write(tmp_path, {0: layer()}, step=0)
    write(tmp_path, {0: layer(bias=4.5)}, step=1)
    assert [(one.subject, one.step) for one in violated("updates", tmp_path)] == [(PARAMETER, 1)]


@pytest.mark.parametrize(("second", "bias"), [(1, 4), (2, 4.5)])
def test_nothing_moves_or_a_step_is_missing(tmp_path, second, bias):
    write(tmp_path, {0: layer()}, step=0)
    write(tmp_path, {0: layer(bias=bias)}, step=second)
    assert statuses("updates", tmp_path) == {Status.UNJUDGED}


# Calls, with their tensors.


def saved(tmp_path, name, inputs, outputs, *, rank=0, **arguments):
    """A call of task tensor, in a dump of its own."""
    folder = tmp_path / "step0" / f"rank{rank}"

    def record(place, array):
        array = np.asarray(array)
        wide = array.astype(np.float64)
        made = {"type": "torch.Tensor", "dtype": f"torch.{array.dtype}", "shape": list(array.shape)}
        made |= {"Max": wide.max(), "Min": wide.min(), "Mean": wide.mean(), "Norm": float(np.sqrt((wide**2).sum()))}
        made["data_name"] = f"{name}.{place}.npy"
        return made, array

    made = {f"input.{n}": record(f"input.{n}", each) for n, each in enumerate(inputs)}
    made |= {f"output.{n}": record(f"output.{n}", each) for n, each in enumerate(outputs)}
    ins = [entry for place, (entry, _) in made.items() if place.startswith("input")]
    outs = [entry for place, (entry, _) in made.items() if place.startswith("output")]
    dump = Rank().call(name, [*ins, *(value(each) for each in arguments.pop("values", ()))], outs)
    dump.write(folder, framework="pytorch", task="tensor")
    (folder / "dump_tensor_data").mkdir()
    for entry, array in made.values():
        np.save(folder / "dump_tensor_data" / entry["data_name"], array)
    return tmp_path


X = np.random.default_rng(0).normal(0, 3, (4, 4)).astype(np.float32)


def softmax(x, axis=-1):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return (powers / powers.sum(axis, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("factor", "is_wrong"), [(1.0, False), (0.999, True)])
def test_rows_of_a_softmax(tmp_path, factor, is_wrong):
    path = saved(tmp_path, SOFTMAX, [X], [softmax(X) * np.float32(factor)], values=[-1])
    assert bool(violated("softmax", path)) is is_wrong


def test_rows_of_a_softmax_along_the_other_axis(tmp_path):
    assert violated("softmax", saved(tmp_path, SOFTMAX, [X], [softmax(X, 0)], values=[-1]))


ONES = np.ones((4, 4), bool)


@pytest.mark.parametrize(
    ("hidden", "what"),
    [
        (np.triu(ONES, 1), ""),
        (np.tril(ONES, -1), "hides the past"),
        (np.triu(ONES, 0), "hides itself"),
        (ONES & (np.arange(4) > 2), ""),
    ],
)
def test_which_side_a_mask_hides(tmp_path, hidden, what):
    scores = np.where(hidden, np.float32(-1e9), X)
    path = saved(tmp_path, SOFTMAX, [scores], [softmax(scores)], values=[-1])
    assert [one.what for one in violated("masks", path)] == ([what] if what else [])


MANY = np.ones((8, 8), bool)


def padded(hidden, count, *, is_left, shows_padded=False):
    """The mask of a sequence with padding; `shows_padded`: a query that is padding sees everything."""
    hidden = hidden.copy()
    where = slice(None, count) if is_left else slice(-count, None)
    hidden[:, where] = True
    if shows_padded:
        hidden[where] = False
    return hidden


def with_one_shown(row, column):
    hidden = np.triu(MANY, 1)
    hidden[row, column] = False
    return hidden


def with_blocks(*spans):
    hidden = np.triu(MANY, 1)
    for first, last in spans:
        hidden[first:last, first:last] = False
    return hidden


BAND = np.triu(MANY, 1) | np.tril(MANY, -4)  # itself and the three before


@pytest.mark.parametrize(
    "hidden",
    [
        np.triu(MANY, 2),
        np.triu(MANY, 4),
        with_one_shown(0, 1),
        with_one_shown(2, 5),
        np.triu(MANY, 2) | np.tril(MANY, -4),
        padded(np.triu(MANY, 2), 2, is_left=True),
        padded(np.triu(MANY, 2), 2, is_left=True, shows_padded=True),
        padded(np.triu(MANY, 2), 3, is_left=False),
        np.stack([np.triu(MANY, 1), np.triu(MANY, 2)]),
        np.stack([padded(np.triu(MANY, 2), n, is_left=True) for n in (1, 3)])[:, None],
    ],
)
def test_a_causal_mask_that_shows_later_positions(tmp_path, hidden):
    scores = np.where(hidden, np.float32(-1e9), np.zeros(hidden.shape, np.float32))
    weights = softmax(scores)
    path = saved(tmp_path, SOFTMAX, [scores], [weights], values=[-1])
    (found,) = judged("masks", path)
    assert (found.status, found.what) == (Status.VIOLATED, "shows what comes later")
    assert found.value >= np.max(np.where(np.triu(~hidden, 1), weights, 0)[..., -8:-1, :]) > 0.1


def test_the_weight_of_the_next_token_is_given(tmp_path):
    """Row 0 of a softmax gives 0.54 to the next token."""
    scores = np.where(np.triu(MANY, 2), np.float32(-1e9), np.float32(0))
    scores[0, 1] = np.log(0.54 / 0.46)
    scores[1:7, 2:8] -= 9 * np.eye(6, dtype=np.float32)
    path = saved(tmp_path, SOFTMAX, [scores], [softmax(scores)], values=[-1])
    (found,) = violated("masks", path)
    assert found.value == pytest.approx(0.54, abs=1e-6)


@pytest.mark.parametrize(
    "hidden",
    [
        np.triu(MANY, 1),
        BAND,
        abs(np.arange(8)[:, None] - np.arange(8)) > 2,  # a window of both directions
        np.arange(8)[:, None] // 4 != np.arange(8) // 4,  # two documents of both directions
        np.triu(MANY, 1) | (np.arange(8)[:, None] // 4 != np.arange(8) // 4),  # two causal ones
        padded(np.triu(MANY, 1), 3, is_left=True),
        padded(np.triu(MANY, 1), 3, is_left=True, shows_padded=True),
        padded(np.triu(MANY, 1), 3, is_left=False),
        padded(~MANY, 3, is_left=False),
        with_blocks((0, 4)),  # a prefix
        with_blocks((1, 4), (5, 8)),  # images among words
        np.stack([padded(np.triu(MANY, 1), n, is_left=True) for n in (1, 3)])[:, None],
    ],
)
def test_a_mask_of_another_correct_form_holds(tmp_path, hidden):
    scores = np.where(hidden, np.float32(-1e9), np.float32(0)).astype(np.float32)
    path = saved(tmp_path, SOFTMAX, [scores], [softmax(scores)], values=[-1])
    assert [one.status for one in judged("masks", path)] == [Status.HOLDS]


def test_a_mask_to_which_scores_are_added(tmp_path):
    """-1e4 plus a score of 5 is masked, too."""
    scores = (np.where(np.triu(MANY, 1), -1e4, 0) + np.linspace(-5, 5, 64).reshape(8, 8)).astype(np.float32)
    path = saved(tmp_path, SOFTMAX, [scores], [softmax(scores)], values=[-1])
    assert [one.status for one in judged("masks", path)] == [Status.HOLDS]


def test_a_mask_of_no_known_form_is_not_said_to_hold(tmp_path):
    hidden = np.triu(MANY, 1) | np.tril(MANY, -3)
    hidden[1, 4] = hidden[2, 7] = False
    scores = np.where(hidden, np.float32(-1e9), np.float32(0)).astype(np.float32)
    path = saved(tmp_path, SOFTMAX, [scores], [softmax(scores)], values=[-1])
    assert [(one.status, one.why) for one in judged("masks", path)] == [(Status.UNJUDGED, Why.UNKNOWN_MASK)]


def test_a_masked_position_with_a_weight(tmp_path):
    scores = np.where(np.triu(ONES, 1), np.float32(-1e9), X)
    path = saved(tmp_path, SOFTMAX, [scores], [softmax(X)], values=[-1])
    assert [one.what for one in violated("masks", path)] == ["masked weight"]


W, B = (np.random.default_rng(n).normal(1, 0.3, 4).astype(np.float32) for n in (1, 2))


def test_a_layer_norm_with_weight_and_bias(tmp_path):
    x = X - X.mean(-1, keepdims=True)
    right = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * W + B
    path = saved(tmp_path / "right", "Functional.layer_norm.0.forward", [X, W, B], [right.astype(np.float32)])
    assert statuses("norms", path) == {Status.HOLDS}
    wrong = X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5) * W + B  # not centred
    path = saved(tmp_path / "wrong", "Functional.layer_norm.0.forward", [X, W, B], [wrong.astype(np.float32)])
    assert violated("norms", path)


def test_an_rms_norm(tmp_path):
    right = X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6) * W
    path = saved(tmp_path / "right", "Functional.rms_norm.0.forward", [X, W], [right.astype(np.float32)])
    assert statuses("norms", path) == {Status.HOLDS}
    path = saved(tmp_path / "wrong", "Functional.rms_norm.0.forward", [X, W], [(right * 1.1).astype(np.float32)])
    assert violated("norms", path)


def test_a_group_norm(tmp_path):
    x = np.random.default_rng(3).normal(1, 4, (2, 4, 8)).astype(np.float32)
    groups = x.reshape(2, 2, 16)
    y = (groups - groups.mean(2, keepdims=True)) / groups.std(2, keepdims=True)
    name = "Functional.group_norm.0.forward"
    right = (y.reshape(x.shape) * W[:, None] + B[:, None]).astype(np.float32)
    path = saved(tmp_path / "right", name, [x, W, B], [right], values=[2])
    assert statuses("norms", path) == {Status.HOLDS}
    path = saved(tmp_path / "wrong", name, [x, W, B], [right + np.float32(0.1)], values=[2])
    assert violated("norms", path)


def test_memory_of_empty_that_is_read(tmp_path):
    rank = Rank().call("Mint.empty.0.forward", [value(2)], [1])
    rank.call("Tensor.copy_.0.forward", [tensor(1, "call Mint.empty.0.forward.output.0"), 2], [2])
    rank.call("Mint.add.0.forward", [tensor(1, "call Mint.empty.0.forward.output.0"), 2], [3])
    write(tmp_path, {0: rank})
    assert [one.subject for one in violated("written-memory", tmp_path)] == ["Mint.add.0.forward"]


def test_elements_that_look_like_addresses(tmp_path):
    memory = np.array([0x7F3A, 0x10, 0, 1], np.uint32).view(np.float32)
    assert violated("written-memory", saved(tmp_path / "a", "Torch.add.0.forward", [X[0], memory], [X[0]]))
    assert not violated("written-memory", saved(tmp_path / "b", "Torch.add.0.forward", [X[0], X[1]], [X[0]]))


# Two dumps.


@pytest.mark.parametrize(
    ("changed", "what", "subject"),
    [
        ({}, None, None),
        ({"weight": 9}, "resumed parameter", PARAMETER),
        ({"batch": 9}, "resumed input", "Module.fc.Linear.forward.0"),
        ({"gradient": 9}, "resumed output", "Module.fc.Linear.parameters_grad"),
    ],
)
def test_a_resumed_run(tmp_path, changed, what, subject):
    write(tmp_path / "a", {0: layer(**changed)})
    write(tmp_path / "b", {0: layer()})
    found = [(one.what, one.subject) for one in violated("resume", tmp_path / "a", tmp_path / "b")]
    assert found == ([(what, subject)] if what else [])


def test_without_a_second_dump_resuming_is_not_judged(tmp_path):
    write(tmp_path, {0: layer()})
    assert statuses("resume", tmp_path) == {Status.UNJUDGED}


# The command.


def test_the_command(tmp_path, capsys):
    write(tmp_path / "run", {0: layer(gradient=None)})
    assert main(["check", str(tmp_path / "run")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith(f"first violation: gradients: {PARAMETER}, step 0, rank 0: has no gradient")
    assert main(["check", str(tmp_path / "run"), "--skip", "gradients"]) == 2  # nothing else applies to this run
    assert capsys.readouterr().out.splitlines()[-1] == "nothing could be judged: nothing to judge was found"
    assert main(["check", str(tmp_path / "run"), "--only", "gradients", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in found["details"]["invariants"]] == ["gradients"]
    assert (found["findings"][0]["place"]["name"], found["findings"][0]["kind"]) == (PARAMETER, "gradients")
    assert main(["check", str(tmp_path / "run"), "--exit-zero"]) == 0
    assert main(["check", str(tmp_path / "none")]) == 2
    assert main(["check", str(tmp_path / "run"), "--only", "gradient"]) == 2
    assert "did you mean gradients?" in capsys.readouterr().err
    assert "check" in VERBS


def test_every_row_is_on_the_page(pytestconfig):
    for language in ("en", "zh"):
        page = (pytestconfig.rootpath / "docs" / language / "how-to/checking/check.md").read_text("utf-8")
        assert all(f"| `{row.name}` |" in page for row in ROWS)


@pytest.mark.torch
def test_calls_that_cannot_be_executed_again_are_counted_without_only(tmp_path, capsys):
    """A function that no reference knows, in a dump of tensors: nothing says whether it computed correctly."""
    pytest.importorskip("torch", reason="calls are executed again")
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    folder = tmp_path / "run" / "step0" / "rank0"
    (folder / "dump_tensor_data").mkdir(parents=True)
    data, files = {}, {"Mint.add.0.forward": x + x, "Mint.of_no_library.0.forward": np.sin(x)}
    for name, result in files.items():
        records = []
        for place, array in (("input.0", x), ("input.1", x), ("output.0", result)):
            np.save(folder / "dump_tensor_data" / f"{name}.{place}.npy", array)
            wide = array.astype(np.float64)
            statistics = {"Max": wide.max(), "Min": wide.min(), "Mean": wide.mean(), "Norm": np.sqrt((wide**2).sum())}
            look = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": list(array.shape)}
            records.append({**look, **statistics, "data_name": f"{name}.{place}.npy"})
        data[name] = {"input_args": records[:2], "input_kwargs": {}, "output": records[2:]}
    head = {"task": "tensor", "level": "L1", "framework": "mindspore", "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(head))
    assert main(["check", str(tmp_path / "run")]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("; 1 could not be judged: the call cannot be executed again (1)")
