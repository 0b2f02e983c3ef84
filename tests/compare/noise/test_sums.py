"""Sums that cancel out, such as the gradient of a bias: what is left has the rounding of a long sum, by statistics."""

import numpy as np
import pytest

from msprobe.cli import main

ROWS = 2304


@pytest.mark.parametrize(("difference", "code"), [(5e-6, 0), (1e-3, 1)])
def test_the_rounding_of_a_long_sum_explains_what_is_left_of_it(builder, tensor, tmp_path, capsys, difference, code):
    """A sum of n terms has errors of about u / 2 * sqrt(n / 2) of the root of n: 2e-6 here; ten times that is noise."""
    random = np.random.default_rng(0)
    x, w, b = (random.standard_normal(shape) for shape in ((ROWS, 8), (4, 8), 4))
    incoming = random.standard_normal((ROWS, 4))
    incoming -= incoming.mean(0)
    rest = 1e-7 * random.standard_normal(4)
    scale = np.sqrt(ROWS) * np.sqrt(np.mean(incoming**2))
    for side in ("target", "golden"):
        is_target = side == "target"
        made = builder(side)

        def noisy(array, is_target=is_target):
            return tensor((array * (1 + is_target * 1e-7 * random.standard_normal(array.shape))).astype(np.float32))

        for n in range(2):
            made.call(
                f"Functional.linear.{n}.forward",
                [tensor(v.astype(np.float32)) for v in (x, w, b)],
                [noisy(x @ w.T + b)],
            )
        for n in range(2):
            bias = rest + is_target * (difference if n else 0.0) * scale * np.array([1, -1, 1, -1])
            made.call(
                f"Functional.linear.{n}.backward",
                [noisy(incoming)],
                [noisy(incoming @ w), noisy(incoming.T @ x), tensor(bias.astype(np.float32))],
            )
        made.write()
    found = main(["compare", *(str(tmp_path / side) for side in ("target", "golden")), "-o", str(tmp_path / "o")])
    assert found == code, capsys.readouterr().out


@pytest.mark.parametrize(("difference", "code"), [(2e-7, 0), (1e-2, 1)])
def test_the_mean_of_normalized_numbers_is_rounding(builder, tensor, tmp_path, capsys, difference, code):
    centered = np.random.default_rng(0).standard_normal(48)
    centered = (centered - centered.mean()).astype(np.float32)
    for side in ("target", "golden"):
        mean = np.array([1e-8 + (side == "target") * difference], np.float32)
        made = builder(side)
        made.call("Tensor.mean.0.forward", [tensor(centered)], [tensor(mean)])
        made.call("Tensor.neg.0.forward", [tensor(mean)], [tensor(-mean)])
        made.write()
    found = main(["compare", *(str(tmp_path / side) for side in ("target", "golden")), "-o", str(tmp_path / "o")])
    assert found == code, capsys.readouterr().out
