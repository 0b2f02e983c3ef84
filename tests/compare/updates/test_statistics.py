"""Updates by statistics: a weight decay of some parameters moves all statistics of each by one share."""

import numpy as np
import pytest

from msprobe.compare.locate.finding import Status, UpdateCause
from msprobe.compare.updates.statistics import Moments, ParameterStatistics, Summary, judge_summaries

GAINS = tuple(f"norm{n}.weight" for n in range(4))
MATRICES = tuple(f"layer{n}.weight" for n in range(12))
RATE, DECAY = 1e-3, 0.1


def four(array):
    wide = array.astype(np.float64)
    return ParameterStatistics(wide.max(), wide.min(), wide.mean(), np.linalg.norm(wide))


def summaries(change, noise=1e-6):
    """Every parameter of both sides before and after one step of Adam, whose first update is the rate times a sign;
    `change(name, weights)` is what the target does besides."""
    random = np.random.default_rng(3)
    made = []
    for name in (*GAINS, *MATRICES):
        size = 64 if name in GAINS else 1024
        before = random.normal(1.0 if name in GAINS else 0.0, 0.05, size).astype(np.float32)
        golden = before - RATE * np.sign(random.normal(size=size)).astype(np.float32)
        target = golden + change(name, before) + noise * RATE * random.normal(size=size)
        sides = (Moments(four(before), four(now.astype(np.float32)), size) for now in (target, golden))
        made.append(Summary(name, name, *sides, name in GAINS, noise))
    return made


def test_a_decay_of_the_gains_alone_is_named():
    found = judge_summaries(summaries(lambda name, w: -RATE * DECAY * w * (name in GAINS)), 1)
    (difference,) = found.differences
    assert (difference.cause, difference.parameters) == (UpdateCause.WEIGHT_DECAY, GAINS)
    assert {v.parameter for v in found.verdicts if v.status is Status.DIFFERS} == set(GAINS)


def test_gains_without_a_decay_that_the_others_have_are_no_decay_of_the_others():
    found = judge_summaries(summaries(lambda name, w: RATE * DECAY * w * (name in GAINS)), 1)
    assert [d.cause for d in found.differences] == [UpdateCause.WEIGHT_DECAY]


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-3])
def test_equal_settings_are_no_decay(noise):
    found = judge_summaries(summaries(lambda name, w: 0.0, noise), 1)
    assert not found.differences


def test_gains_that_move_by_other_shares_are_no_decay():
    shares = dict(zip(GAINS, (1e-4, 3e-4, 9e-4, 27e-4), strict=True))
    found = judge_summaries(summaries(lambda name, w: -shares.get(name, 0.0) * w), 1)
    assert UpdateCause.WEIGHT_DECAY not in [d.cause for d in found.differences]


def test_an_offset_of_centered_weights_is_no_decay():
    found = judge_summaries(summaries(lambda name, w: 1e-4 * (name in MATRICES)), 1)
    assert UpdateCause.WEIGHT_DECAY not in [d.cause for d in found.differences]


def first_updates(noise, rate=1.0, seed=3):
    """The first update of AdamW, the gains without decay: the rate times the signs of gradients, which rounding inside
    of products has changed on the target's side by `noise` of their size."""
    random, made = np.random.default_rng(seed), []
    for name in (*GAINS, *MATRICES):
        size = 64 if name in GAINS else 8192
        before = random.normal(1.0 if name in GAINS else 0.0, 0.05, size).astype(np.float32)
        gradient = random.standard_t(3, size)
        rounded = gradient + noise * np.sqrt((gradient**2).mean()) * random.normal(size=size)
        kept = before * (1 - RATE * DECAY * (name in MATRICES))
        golden, target = kept - RATE * np.sign(gradient), kept - rate * RATE * np.sign(rounded)
        sides = (Moments(four(before), four(now.astype(np.float32)), size) for now in (target, golden))
        made.append(Summary(name, name, *sides, name in GAINS, noise))
    return made


@pytest.mark.parametrize("noise", [3e-4, 1e-3, 3e-3, 1e-2])
@pytest.mark.parametrize("seed", range(5))
def test_signs_of_small_gradients_that_noise_flips_are_no_other_optimizer(noise, seed):
    """Adam takes a whole step where a gradient is near zero."""
    found = judge_summaries(first_updates(noise, seed=seed), 1)
    assert not found.differences
    assert {v.status for v in found.verdicts} == {Status.AGREES}


@pytest.mark.parametrize("noise", [3e-4, 3e-3, 1e-2])
def test_another_learning_rate_is_named_where_noise_flips_signs(noise):
    (difference,) = judge_summaries(first_updates(noise, rate=1.2), 1).differences
    assert difference.cause is UpdateCause.LEARNING_RATE
    assert difference.factor == pytest.approx(1.2, rel=0.02)
