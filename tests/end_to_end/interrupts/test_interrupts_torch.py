"""A training with PyTorch that an exception from a signal's handler interrupts, at any moment of a recorded step."""

import pytest
from interrupting import CASES, interrupt

pytestmark = [pytest.mark.torch, pytest.mark.turns("interrupts", 1)]


@pytest.mark.parametrize(("seed", "count"), CASES)
def test_after_an_interrupt_the_training_has_its_bits_and_the_next_step_is_whole(seed, count, tmp_path):
    interrupt("torch", seed, count, tmp_path)
