"""A normalization over a batch: the elements of a channel share the rounding error of its factor, by statistics."""

import numpy as np
import pytest

from msprobe.cli import main

SHAPE = 16, 4, 24, 24


@pytest.mark.parametrize(("difference", "code"), [(2.0**-24, 0), (1e-4, 1)])
def test_the_elements_of_a_channel_share_a_rounding_error(builder, tensor, tmp_path, capsys, difference, code):
    """The norm changes by the error itself, not by its share of one in the root of the number of elements, 192."""
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    wide = x.astype(np.float64)
    mean, variance = wide.mean((0, 2, 3), keepdims=True), wide.var((0, 2, 3), keepdims=True)
    moments = (variance.ravel().astype(np.float32), np.ones(4, np.float32))
    for side in ("target", "golden"):
        factor = 1 + (side == "target") * difference * np.array([1, 1, 0, 1]).reshape(1, 4, 1, 1)
        found = ((wide - mean) / np.sqrt(variance) * factor).astype(np.float32)
        made = builder(side)
        made.call("Functional.batch_norm.0.forward", [tensor(x), *map(tensor, moments)], [tensor(found)])
        made.call("Functional.relu.0.forward", [tensor(found)], [tensor(np.maximum(found, 0))])
        # A gradient that cancels out grows the error beyond the tolerance.
        left = np.full(4, 1e-8 * (1 + (side == "target")), np.float32)
        made.call("Functional.relu.0.backward", [tensor(found * 1e-3)], [tensor(np.maximum(found, 0) * 1e-3)])
        made.call("Functional.batch_norm.0.backward", [tensor(found * 1e-3)], [tensor(x), tensor(left)])
        made.write()
    found = main(["compare", *(str(tmp_path / side) for side in ("target", "golden")), "-o", str(tmp_path / "o")])
    printed = capsys.readouterr().out
    assert found == code, printed
    if code:
        assert "first wrong call: Functional.batch_norm.0.forward" in printed
