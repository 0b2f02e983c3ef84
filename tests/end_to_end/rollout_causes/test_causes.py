"""Causes planted in a real rollout of a real small model: each is named, and nothing is said where nothing is.

The truth is causes.yaml; its words were written before any answer was seen.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from forms import FORMS, in_another_order, request_of
from plants import PLANTS, World, clean_pairs

from msprobe.compare.rollout.entry import compare_rollout

pytestmark = [pytest.mark.mindspore, pytest.mark.part(8)]

HERE = Path(__file__).parent
TRUTH = yaml.safe_load((HERE / "causes.yaml").read_text(encoding="utf-8"))
LAYOUTS, CAUSES = TRUTH["clean"]["layouts"], TRUTH["causes"]
ROUNDING = 2e-5
"""Two float32 engines of this model are nearer to each other than this; each plant has to be farther."""


class Rollouts:
    """What both engines recorded, for each cause once."""

    def __init__(self, world):
        self.clean = cache(lambda: clean_pairs(world, LAYOUTS))
        self.planted = cache(lambda cause: PLANTS[cause](world, CAUSES[cause]["strengths"]))

    def named(self, cause):
        """The answer's word by strength, each strength handed over in another form."""
        pairs = self.planted(cause).items()
        return {
            strength: compare_rollout(**request_of(pair, FORMS[number % len(FORMS)])).cause
            for number, (strength, pair) in enumerate(pairs)
        }


@pytest.fixture(
    scope="module", params=[pytest.param(3, id="seed 3"), pytest.param(4, id="seed 4", marks=pytest.mark.verify)]
)
def rollouts(request):
    with np.load(HERE / "weights.npz") as file:
        weights = dict(file)
    return Rollouts(World(weights, request.param))


@pytest.mark.parametrize("name", [*LAYOUTS, "recorded before temperature"])
class TestNothingIsPlanted:
    def test_the_two_engines_agree_to_rounding_and_not_to_the_bit(self, rollouts, name):
        assert 0 < rollouts.clean()[name].largest_gap < ROUNDING

    @pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
    def test_nothing_is_said(self, rollouts, name, form):
        result = compare_rollout(**request_of(rollouts.clean()[name], form))
        assert result.cause == "none", result.evidence


def test_nothing_is_said_where_the_samples_are_in_another_order(rollouts):
    result = compare_rollout(**in_another_order(rollouts.clean()["sorted"]))
    assert result.cause == "none", result.evidence


@pytest.mark.parametrize("cause", CAUSES)
class TestACauseIsPlanted:
    def test_it_is_there_and_larger_than_rounding(self, rollouts, cause):
        for strength, pair in rollouts.planted(cause).items():
            cut = [len(row) for row in pair.generated] != [len(row) for row in pair.recomputed]
            assert cut or pair.largest_gap > ROUNDING, strength

    def test_it_is_named_but_where_the_truth_says_that_it_is_missed(self, rollouts, cause):
        missed = {str(strength) for strength in CAUSES[cause].get("missed", ())}
        words = rollouts.named(cause)
        assert {word for strength, word in words.items() if strength not in missed} <= {CAUSES[cause]["expected"]}, (
            words
        )
        assert "none" not in words.values(), words


def test_at_least_seven_of_the_eight_are_named_at_all_strengths(rollouts):
    eight = [cause for cause in CAUSES if "not given" not in cause]
    named = [cause for cause in eight if set(rollouts.named(cause).values()) == {CAUSES[cause]["expected"]}]
    assert (len(eight), len(named) >= 7) == (8, True), named
