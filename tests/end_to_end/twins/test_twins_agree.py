"""The twins are twins: equal weights and data give equal losses and gradients, in every variant that keeps them."""

import make
import mindspore as ms
import numpy as np
import pytest
import truth

pytestmark = [pytest.mark.mindspore, pytest.mark.torch, pytest.mark.part(6)]

CASES = [
    (net, variant)
    for net, variants in truth.nets().items()
    for variant in (None, *variants)
    if variant not in ("extra_layer", "missing_layer")
]


def _far(a, b, least=0.0):
    """The greatest difference, relative to the greatest value, or to `least` where that is more."""
    return np.abs(a - b).max() / max(np.abs(b).max(), least)


@pytest.mark.sample(9)
@pytest.mark.parametrize(("net", "variant"), CASES, ids=[f"{n}-{v or 'clean'}" for n, v in CASES])
def test_losses_and_gradients_agree(net, variant, tmp_path):
    ms.set_context(mode=ms.PYNATIVE_MODE)
    steps, truths = 2, truth.load(net, variant)
    history = {}
    for framework in ("mindspore", "pytorch"):
        program, model = make.built(net, framework, tmp_path / framework, variant)
        history[framework] = make.training(framework).train(program, model, net, steps)
    pairs = _parameter_pairs(truths)
    for step in range(steps):
        (losses, grads), (their_losses, their_grads) = history["mindspore"][step], history["pytorch"][step]
        assert _far(np.array(losses), np.array(their_losses)) < 1e-5
        assert set(grads) == {mine.name for mine, _ in pairs if mine.name in grads}
        # The gradient of a key's bias is zero, and what is computed is rounding: measured by the others' size.
        least = 1e-3 * max(np.abs(grad).max() for grad in their_grads.values())
        for mine, other in pairs:
            if mine.name in grads:
                theirs = their_grads[other.name]
                theirs = theirs[slice(*other.rows)] if other.rows else theirs
                theirs = theirs.T if mine.transposed else theirs
                assert np.abs(theirs).max() > 0, mine.name
                assert _far(grads[mine.name], theirs, least) < 2e-4, (step, mine.name)


def _parameter_pairs(truths):
    theirs = {p.key: p for p in truths.parameters["pt"]}
    return [(p, theirs[p.key]) for p in truths.parameters["ms"] if p.key in theirs]
