"""Clipping and losses over tokens of a MindSpore training on two ranks: correct, and with planted bugs."""

from pathlib import Path

import pytest

from msprobe.checks.invariants.judgement import Status
from msprobe.checks.invariants.table import ROWS
from msprobe.checks.invariants.verb import read_run

pytestmark = [pytest.mark.mindspore, pytest.mark.ranks]

SCRIPT = Path(__file__).with_name("clipped.py")
NAMES = ("equal-parameters", "reduced-gradients", "gradient-norm", "clipping", "loss-weights")
COUNTS = [8, 7]
"""The tokens of each rank that the loss does not ignore."""


@pytest.fixture(scope="module")
def judged(made_once, msrun):
    """`judged(**options)`: the judgements of a training by invariant."""

    def judgements(**options):
        pairs = [f"{key}={value}" for key, value in sorted(options.items())]

        def make(folder):
            folder.mkdir(parents=True, exist_ok=True)
            msrun(SCRIPT, folder, *pairs, folder=folder)

        run = read_run(made_once(f"clipped_{'_'.join(pairs)}", make) / "dump")
        return {row.name: list(row.predicate(run, None)) for row in ROWS if row.name in NAMES}

    return judgements


def violated(found):
    return {(name, one.subject, one.ranks, one.what) for name, each in found.items() for one in each if is_wrong(one)}


def is_wrong(one):
    return one.status is Status.VIOLATED


def holding(found):
    return {name for name, each in found.items() if any(one.status is Status.HOLDS for one in each)}


@pytest.mark.turns("msrun", 1)
@pytest.mark.parametrize(
    "options",
    [{"loss": "mean", "task": "tensor"}, pytest.param({"loss": "none", "clip": "function"}, marks=pytest.mark.verify)],
)
def test_a_correct_training_holds(options, judged):
    found = judged(**options)
    assert not violated(found)
    without = {"gradient-norm"} if "clip" in options else set()  # a function computes it inside
    assert holding(found) == set(NAMES) - without


@pytest.mark.verify
def test_shared_weights_that_are_counted_on_each_rank(judged):
    found = violated(judged(bug="counted", loss="sum"))
    assert found == {("gradient-norm", "embed.weight", (0, 1), "counted")}


@pytest.mark.verify
def test_clipping_by_the_norm_of_one_rank(judged):
    """The expert of each rank is in its norm alone."""
    found = violated(judged(bug="local_norm", loss="sum"))
    shared = {("clipping", f"{layer}.{part}") for layer in ("embed", "head") for part in ("weight", "bias")}
    assert {(name, subject) for name, subject, *_ in found if name == "clipping"} == shared
    assert {name for name, *_ in found} <= {"clipping", "equal-parameters"}


@pytest.mark.verify
def test_a_gradient_that_is_not_reduced(judged):
    """The bias of the layer is 0 in the first step, and that both ranks have zeros is not evidence."""
    found = violated(judged(bug="not_reduced", loss="sum"))
    assert {subject for name, subject, *_ in found if name == "equal-parameters"} == {"head.weight"}


@pytest.mark.turns("msrun", 1)
def test_a_mean_of_the_means_of_ranks(judged):
    found = judged(bug="mean_of_means", loss="mean", task="tensor")
    assert violated(found) == {("loss-weights", "Functional.cross_entropy.0.forward", (1,), "ranks")}
    ratios = [one.value for one in found["loss-weights"] if is_wrong(one)]
    assert ratios == [pytest.approx(COUNTS[0] / COUNTS[1], rel=1e-4)] * 2
