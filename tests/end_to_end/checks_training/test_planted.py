"""NaN and infinities planted in real trainings are named exactly: the call, its cell, the rank, how they came in.

Each training is collected twice: every call by task statistics, and by task overflow_check the call alone.
"""

import planted_mindspore
import planted_pytorch
import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.part(6)]

RANKS = {1: (), 2: pytest.mark.verify, 4: ()}  # on four there are two groups
TASKS = ("statistics", "overflow_check")


def folder_of(root, task, case):
    return root / task / case.replace(" ", "_")


def cases(planted, ranks):
    return [case for case in planted.CASES if case not in ("collective", "handle") or ranks > 1]


def every_case(planted):
    return [pytest.param(n, case, marks=marks) for n, marks in RANKS.items() for case in cases(planted, n)]


def check(found, expected, ranks, last):
    if expected is None:
        assert not found.first
        return
    name, cell, kind = expected
    first = found.first[0]
    assert (first.name, first.cell, first.kind.name) == (name.format(last=last), cell, kind)
    everyone = tuple(range(ranks))
    assert tuple(one.rank for one in found.first) == (everyone if kind == "exchange" else everyone[-1:])
    assert first.file.endswith((planted_mindspore.__name__ + ".py", planted_pytorch.__name__ + ".py"))


@pytest.mark.sample(8)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("ranks", "case"), every_case(planted_pytorch))
def test_pytorch(ranks, case, task, with_pytorch, last_answer):
    folder = folder_of(with_pytorch(ranks), task, case)
    expected = planted_pytorch.CASES[case]
    if case == "unrecorded in a cell" and ranks == 4:  # the cell itself takes the value to the group
        expected = ("Tensor.detach.0.forward", "first", "unrecorded")
    # Four gradients are reduced before, and of two groups two activations.
    check(last_answer(folder), expected, ranks, last=4 + 2 * (ranks == 4))


@pytest.mark.sample(8)
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(("ranks", "case"), every_case(planted_mindspore))
def test_mindspore(ranks, case, task, with_mindspore, last_answer):
    folder = folder_of(with_mindspore(ranks), task, case)
    expected = planted_mindspore.CASES[case]
    if case == "unrecorded in a cell" and ranks == 4:
        expected = ("Functional.stop_gradient.0.forward", "first", "unrecorded")
    check(last_answer(folder), expected, ranks, last=4 + 2 * (ranks == 4))


@pytest.mark.parametrize("case", ["optimizer", "loaded weight"])
def test_a_weight_is_charged_to_the_update_only_after_a_finite_step(case, with_mindspore, last_answer):
    (first,) = last_answer(folder_of(with_mindspore(1), "statistics", case)).first
    assert (first.source, first.previous) == ("second.fc.weight", 0 if case == "optimizer" else None)
