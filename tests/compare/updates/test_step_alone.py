"""Parameters of a step whose step before was not compared: rounding passes, drift has no verdict."""

import numpy as np
import pytest

from msprobe.cli import main
from msprobe.compare.locate.finding import Basis, Status
from msprobe.compare.updates.judgement import Parameter, Track, judge
from msprobe.compare.updates.statistics import Moments, ParameterStatistics, Summary, judge_summaries

UNIT = 2.0**-23
SIZE = 1000


def golden(scale=1.0):
    return scale * np.random.default_rng(7).normal(size=SIZE)


def status(target, reference, gradients=((), ())):
    """The status of the only parameter of a step alone."""
    sides = (Track((w,), tuple(g)) for w, g in zip((target, reference), gradients, strict=True))
    (found,) = judge([Parameter("weight", "weight", *sides)], 0, 5).verdicts
    assert found.basis in (Basis.DRIFT, Basis.ROUNDING)
    return found.status


def status_by_statistics(target, reference):
    sides = (
        Moments(None, ParameterStatistics(w.max(), w.min(), w.mean(), np.linalg.norm(w)), SIZE)
        for w in (target, reference)
    )
    (found,) = judge_summaries([Summary("weight", "weight", *sides)], 5).verdicts
    return found.status


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e3])
@pytest.mark.parametrize(
    ("units", "expected"),
    [(0, Status.AGREES), (6, Status.AGREES), (10, Status.DRIFTED), (4000, Status.DRIFTED), (5000, Status.DIFFERS)],
)
def test_weights_agree_by_rounding_and_differ_beyond_drift(units, expected, scale):
    """8 units in the last place of the root mean square are rounding; drift ends at 5e-4 of it, 4194 units."""
    weights = golden(scale)
    moved = weights + units * UNIT * np.sqrt(np.mean(weights**2))
    assert status(moved, weights) is expected
    assert status_by_statistics(moved, weights) is expected


def test_three_elements_of_a_hundred_that_moved_are_more_than_rounding():
    weights = golden()
    moved = weights.copy()
    moved[:30] += 100 * UNIT
    assert status(moved, weights) is Status.DRIFTED
    moved = weights.copy()
    moved[:10] += 100 * UNIT
    assert status(moved, weights) is Status.AGREES


def test_elements_whose_gradient_is_noise_may_have_any_update_and_those_without_gradient_none():
    weights, random = golden(), np.random.default_rng(8)
    moved = weights.copy()
    moved[:100] += 1000 * UNIT
    gradient = random.choice([-1, 1], SIZE) * random.uniform(1, 2, SIZE)
    noise = 1e-6 * random.normal(size=SIZE)
    assert status(moved, weights, ([gradient + noise], [gradient])) is Status.DRIFTED
    gradient[:100] = noise[:100]
    assert status(moved, weights, ([gradient + noise], [gradient])) is Status.AGREES
    gradient[:100] = 0
    assert status(moved, weights, ([gradient], [gradient])) is Status.DRIFTED


def test_coarser_dtypes_round_by_more():
    weights = golden()
    moved = weights + 100 * UNIT
    sides = (Track((w,), (), ulp=2.0**-10) for w in (moved, weights))
    (found,) = judge([Parameter("weight", "weight", *sides)], 0, 5).verdicts
    assert found.status is Status.AGREES


@pytest.fixture
def recorded(builder, tensor, tmp_path):
    """`recorded("target", step=3, apart=1e-5)` writes a step in which a matrix is multiplied; `running` are running
    statistics of a normalization layer, which are `off` by that."""

    def make(side, step=3, apart=0.0, mode="tensor", running=False, off=0.0):
        random = np.random.default_rng(4)
        inputs, weights = random.normal(size=(8, 32)), random.normal(size=(32, 32))
        noise = random.normal(size=weights.shape)
        weights = (weights * (1 + apart * noise)).astype(np.float32)
        inputs = inputs.astype(np.float32)
        made = builder(side, mode=mode)
        made.folder = tmp_path / side / f"step{step}" / "rank"
        made.extra["step"] = step
        parameters = {"weight": tensor(weights)}
        if running:
            mean = random.normal(size=32)
            parameters["moving_mean"] = tensor((mean * (1 + off * random.normal(size=32))).astype(np.float32))
        product = inputs @ inputs.T
        made.call("Functional.matmul.0.forward", [inputs, inputs.T], [product + noise[:8, :8] * (apart > 0) * 1e-6])
        made.call("Cell.layer.Dense.forward.0", [inputs], [inputs @ weights], parameters=parameters)
        made.write()
        return tmp_path / side

    return make


def compared(capsys, tmp_path, *sides, options=()):
    out = tmp_path / "out"
    code = main(["compare", *map(str, sides), "-o", str(out), "--workers", "1", *options])
    return code, capsys.readouterr().out.splitlines()


OPEN = "of parameters that earlier steps, which were not compared, made differ by more than rounding"


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_a_later_step_alone_whose_parameters_drifted_is_not_equal(recorded, capsys, tmp_path, mode):
    sides = recorded("target", apart=3e-5, mode=mode), recorded("golden", mode=mode)
    code, lines = compared(capsys, tmp_path, *sides)
    assert code == 1
    assert lines[-1].startswith("no difference in what could be judged: ")
    assert lines[-1].endswith(f"1 not: 1 {OPEN}")
    (named,) = (line for line in lines if line.startswith("  open: "))
    assert "Cell.layer.Dense.forward.0" in named
    assert "layer.weight differ by more than rounding" in named
    assert any("--calibrate CLEAN" in line for line in lines)


@pytest.mark.parametrize("mode", ["tensor", "statistics"])
def test_a_later_step_alone_whose_parameters_differ_by_rounding_is_clean(recorded, capsys, tmp_path, mode):
    sides = recorded("target", apart=1e-7, mode=mode), recorded("golden", mode=mode)
    code, lines = compared(capsys, tmp_path, *sides)
    assert (code, lines[-1].partition(":")[0]) == (0, "no difference beyond rounding")


@pytest.mark.parametrize(("off", "expected"), [(1e-7, 0), (1e-5, 1)])
def test_so_are_running_statistics_that_no_update_changes(recorded, capsys, tmp_path, off, expected):
    sides = (
        recorded("target", apart=1e-7, running=True, off=off, mode="statistics"),
        recorded("golden", running=True, mode="statistics"),
    )
    code, lines = compared(capsys, tmp_path, *sides)
    assert code == expected, lines
    assert (OPEN in lines[-1]) is bool(expected)


@pytest.mark.torch
def test_a_calibration_shows_how_far_parameters_drift(recorded, capsys, tmp_path):
    pytest.importorskip("torch", reason="a calibration needs the residuals of calls")
    clean, reference = recorded("clean", apart=4e-5), recorded("golden")
    compared(capsys, tmp_path, recorded("other", apart=2e-5), reference, options=["--calibrate", str(clean)])
    (file,) = tmp_path.rglob("noise*.json")
    target = recorded("target", apart=5e-5)
    code, lines = compared(capsys, tmp_path, target, reference, options=["--noise", str(file)])
    assert code == 0, lines[-1]
    far = recorded("far", apart=4e-4)
    assert compared(capsys, tmp_path, far, reference, options=["--noise", str(file)])[0] == 1
