"""Limits of noise that a trusted run gives, and none at all: what they excuse, what they do not, who decided.

The runs are the small networks of `test_noise.py`. The last tests need no torch.
"""

import json

import numpy as np
import pytest
from test_noise import Network, bf16, one_ulp, other_order, plain, row_of, row_times

from msprobe.cli import main
from msprobe.compare.core.limits import EXACT, Kind, Limits, LimitSource
from msprobe.compare.core.noise import KernelPrecision, Sign, State
from msprobe.compare.core.reason import Why
from msprobe.compare.jobs.calibration import calibrated, limits_of
from msprobe.compare.locate.find import locate
from msprobe.compare.locate.finding import Basis
from msprobe.compare.run import compare
from msprobe.compare.updates.explained import Updates
from msprobe.store.reader import read

MATMUL, TANH = Kind("matmul", "forward", "0"), Kind("tanh", "forward", "0")


@pytest.fixture
def dump(builder, tensor, value):
    """`dump("clean", product=bf16)`: a network of these settings, as a dump of task tensor."""

    def make(side, **settings):
        build = builder(side, mode="tensor", level="L1")
        Network(build, tensor, value, **settings)
        return build.dump()

    return make


@pytest.fixture
def limits(dump):
    """`limits(product=bf16)`: those of a trusted run with these settings, against the plain network."""

    def make(golden=None, **clean):
        comparison = compare(dump("clean", **clean), dump("golden", **golden or {}))
        return limits_of([calibrated(comparison, locate(comparison), None)], [""], "noise.json")

    return make


@pytest.fixture
def judged(dump):
    """`judged(limits, product=bf16)`: a target against the plain network by limits, and what was located in it."""

    def make(limits, golden=None, **target):
        comparison = compare(dump("target", **target), dump("golden", **golden or {}), limits=limits)
        return comparison, locate(comparison)

    return make


@pytest.fixture
def _replaying():
    """Calls are replayed by torch."""
    pytest.importorskip("torch", reason="calls are replayed")


def row_of_kind(limits, kind):
    return [(row.precision, row.eta, row.outputs, row.signs) for row in limits.residuals if row.kind == kind]


def eta(a, b, result):
    """The residual of a matrix product by its definition: r / S, with S^2 = a^2 b^2 + f^2."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    value = a @ b
    return np.sqrt(np.mean((result - value) ** 2 / ((a**2) @ (b**2) + value**2)))


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
@pytest.mark.parametrize(("product", "precision"), [(other_order, "float32"), (bf16, "bfloat16")])
def test_a_calibration_holds_the_greatest_residual_of_each_kind(limits, product, precision):
    seen = []

    def noted(a, b):
        seen.append(eta(a, b, product(a, b)))
        return product(a, b)

    found = limits(product=noted)
    ((is_of, greatest, outputs, signs),) = row_of_kind(found, MATMUL)
    assert (is_of, outputs, signs) == (precision, 5, ())
    assert greatest == pytest.approx(max(seen), rel=1e-2)
    assert found.source is LimitSource.CALIBRATED
    assert found.first_wrong == ()
    assert found.residuals == tuple(sorted(found.residuals, key=lambda row: (row.kind, row.precision)))


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_what_a_trusted_run_has_equal_to_the_bit_is_calibrated_by_the_goldens_kernels(limits):
    """No product is in another order, so that nothing differs at all; numpy's products are those of float32."""
    ((is_of, greatest, outputs, _),) = row_of_kind(limits(product=plain), MATMUL)
    assert (is_of, outputs) == ("float32", 5)
    assert 1e-8 < greatest < 5e-7
    (tanh,) = row_of_kind(limits(product=plain), TANH)
    assert tanh[0] == "float32"


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_class_that_the_calibration_did_not_see_is_not_taken_as_intended(limits, judged):
    by_itself, _ = judged(Limits(), product=bf16)
    assert by_itself.is_clean
    comparison, located = judged(limits(product=other_order), product=bf16)
    assert not comparison.is_clean
    assert located.first.name == "Mint.matmul.0.forward"
    assert comparison.noise.classes == ()
    found = comparison.noise.evidence[row_of(comparison, "Mint.matmul.0.forward.output.0")]
    assert (found.sign, found.is_of, found.source) == (
        Sign.BEYOND_CALIBRATED,
        KernelPrecision.BRAIN,
        LimitSource.CALIBRATED,
    )
    assert found.bound == 1e-5, "the built-in limit of a float32 kernel, which three times what was seen is below"
    reasons = comparison.reasons_at(row_of(comparison, "Mint.matmul.0.forward.output.0"))
    assert [reason.names for reason in reasons if reason.why is Why.RESIDUAL] == [("calibrated",)]


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_class_that_the_calibration_saw_is_noise_and_says_so(limits, judged):
    comparison, located = judged(limits(product=bf16), product=bf16)
    assert comparison.is_clean
    assert not located.findings
    row = row_of(comparison, "Mint.matmul.1.forward.output.0")
    assert comparison.noise.evidence[row].source is LimitSource.CALIBRATED
    assert comparison.reasons_at(row)[0].names == ("calibrated",)
    of_tanh = comparison.noise.evidence[row_of(comparison, "Mint.tanh.1.forward.output.0")]
    assert of_tanh.source is LimitSource.BUILT_IN, "a kernel in float32 needs no calibration"


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
@pytest.mark.parametrize(("product", "factor"), [(other_order, 1.01), (bf16, 1.03), (bf16, 2.0)])
def test_a_wrong_call_stands_out_of_its_kin_within_a_calibrated_class_too(limits, judged, product, factor):
    comparison, located = judged(limits(product=product), product=product, change=row_times(factor))
    assert [finding.name for finding in located.findings] == ["Mint.matmul.2.forward"]
    assert not comparison.is_clean


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_what_the_trusted_run_shows_itself_is_excused_and_the_run_is_named(limits, judged):
    found = limits(product=bf16, change=row_times(1.03))
    assert found.first_wrong == ("Mint.matmul.2.forward",)
    ((_, _, _, signs),) = row_of_kind(found, MATMUL)
    assert signs == ("BEYOND_KIN",)
    comparison, located = judged(found, product=bf16, change=row_times(1.03))
    assert comparison.is_clean
    assert not located.findings
    row = row_of(comparison, "Mint.matmul.2.forward.output.0")
    assert comparison.noise.evidence[row].source is LimitSource.CALIBRATED


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_kind_that_is_not_reproducible_in_the_trusted_run_need_not_give_the_same_bits(limits, judged):
    # More than one call in float32 may differ by, and less than its residual tells.
    assert judged(Limits(), change=row_times(1.00004))[1].first.name == "Mint.matmul.2.forward"
    found = limits(change=row_times(1.00004))
    ((is_of, _, _, signs),) = row_of_kind(found, MATMUL)
    assert (is_of, signs) == ("float32", ("BITS",))
    assert found.first_wrong == ("Mint.matmul.2.forward",)
    comparison, located = judged(found, change=row_times(1.00004))
    assert comparison.is_clean
    assert not located.findings
    assert judged(Limits(), change=one_ulp)[0].is_clean
    assert judged(found, change=row_times(1.01))[1].first.name == "Mint.matmul.2.forward"


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_several_ranks_give_one_limit(dump):
    found = []
    for side, product in (("a", other_order), ("b", bf16)):
        comparison = compare(dump(side, product=product), dump("golden"))
        found.append(calibrated(comparison, locate(comparison), None))
    limits = limits_of(found, ["rank 0", "rank 1"], "noise.json")
    assert [(is_of, outputs) for is_of, _, outputs, _ in row_of_kind(limits, MATMUL)] == [
        ("bfloat16", 5),
        ("float32", 5),
    ]
    assert row_of_kind(limits, TANH)[0][2] == 8, "four layers each"


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_by_exact_limits_another_order_of_sums_is_a_difference(judged):
    comparison, located = judged(EXACT, product=other_order)
    assert located.first.name == "Mint.matmul.0.forward"
    assert comparison.noise.replayed == 0
    assert comparison.noise.is_exact
    assert State.NOISE not in set(comparison.noise.states.tolist())
    assert {found.source for found in comparison.noise.evidence.values()} == {LimitSource.EXACT}


@pytest.mark.parametrize("product", [plain, bf16])
def test_by_exact_limits_one_ulp_is_named(judged, product):
    comparison, located = judged(EXACT, product=product, change=one_ulp)
    first = "Mint.matmul.2.forward" if product is plain else "Mint.matmul.0.forward"
    assert located.first.name == first
    assert comparison.noise.diverging()[row_of(comparison, f"{first}.output.0")]


def fused_norm_apart(share):
    """A function that no reference knows gives elements that are alternately too large and too small by a share."""

    def change(name, result):
        signs = np.where(np.arange(result.size).reshape(result.shape) % 2, 1, -1)
        return result * (1 + signs * share) if name == "fused_norm.0" else result

    return change


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_call_without_reference_may_amplify_three_times_what_it_does_in_the_trusted_run(limits, judged):
    """Inputs that are nearer than 1.2e-7, a tenth of the rounding of one call, count as that far apart."""
    saved = {"saved": np.zeros(4, np.float32)}
    same = {"golden": saved, "product": other_order, **saved}
    clean = limits(change=fused_norm_apart(2e-5), **same)
    (row,) = [row for row in clean.amplifications if row.kind.operation == "Mint.fused_norm"]
    comparison, located = judged(Limits(), change=fused_norm_apart(4e-5), **same)
    assert located.first.name == "Mint.fused_norm.0.forward"
    inputs = row_of(comparison, "Mint.fused_norm.0.forward.input.0")
    apart = comparison.measures[inputs].euclid / comparison.pairs.pair(inputs).golden.statistics.norm
    assert row.amplification == pytest.approx(2e-5 / apart, rel=0.1)
    comparison, located = judged(clean, change=fused_norm_apart(4e-5), **same)
    assert "Mint.fused_norm.0.forward" not in {finding.name for finding in located.findings}
    found = comparison.noise.evidence[row_of(comparison, "Mint.fused_norm.0.forward.output.0")]
    assert (found.source, found.kind) == (LimitSource.CALIBRATED, row.kind)
    assert found.amplification == pytest.approx(2 * row.amplification, rel=0.1)
    comparison, located = judged(clean, change=fused_norm_apart(8e-5), **same)
    assert located.first.name == "Mint.fused_norm.0.forward"


# Parameters after the first step. A run that drifts, and one that drifts more.

WEIGHTS = np.random.default_rng(5).standard_normal((32, 64)).astype(np.float32)


@pytest.fixture
def recorded(builder, tensor, tmp_path):
    """`recorded("target", apart)`: weights of one step alone, each so many root mean squares away from `WEIGHTS`."""

    def make(side, apart=0.0):
        made = builder(side, mode="tensor")
        made.folder = tmp_path / side / "step3" / "rank"
        made.extra["run"] = {"step": 3}
        signs = np.where(np.arange(WEIGHTS.size).reshape(WEIGHTS.shape) % 2, 1, -1)
        size = np.sqrt(np.mean(WEIGHTS.astype(np.float64) ** 2))
        inputs = tensor((WEIGHTS + signs * apart * size).astype(np.float32))
        made.call("Cell.up.Dense.forward.0", [1.0], [2.0], parameters={"weight": inputs})
        return read(made.write())

    return make


def by_weights(target, golden, limits):
    updates = Updates(limits=limits)
    comparison = compare(target, golden, settle=updates.settle, limits=limits)
    return comparison, updates.judgement


def reasons_of_weights(comparison):
    return comparison.reasons_at(row_of(comparison, "Cell.up.Dense.forward.0.parameters.weight"))


def test_a_drift_that_the_trusted_run_has_is_excused_and_a_far_greater_one_is_not(recorded):
    """The built-in limit is 5e-4 of the root mean square; the trusted run is twice that apart."""
    golden = recorded("golden")
    comparison, judgement = by_weights(recorded("clean", 1e-3), golden, Limits())
    assert judgement.differing == ("up.weight",)
    limits = limits_of([calibrated(comparison, locate(comparison), judgement)], [""], "noise.json")
    (drift,) = limits.drifts
    assert drift.basis == Basis.DRIFT.value
    assert drift.excess == pytest.approx(2.0, rel=1e-2)
    comparison, judgement = by_weights(recorded("target", 2.5e-3), golden, limits)
    assert judgement.agreeing == ("up.weight",)
    (reason,) = reasons_of_weights(comparison)
    assert (reason.why, reason.names) == (Why.DRIFT_ONLY, ("calibrated",))
    _, judgement = by_weights(recorded("wrong", 3.5e-3), golden, limits)
    assert judgement.differing == ("up.weight",)


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_running_mean_may_be_three_times_as_far_apart_as_in_the_trusted_run(builder, tensor, value, tmp_path):
    """No optimizer updates it. Built in is 5e-4 of its norm; the trusted run is 1e-3 apart."""
    mean = np.linspace(1, 2, 16, dtype=np.float32)

    def run(side, factor=1.0, product=other_order):
        build = builder(side, mode="tensor")
        build.folder = tmp_path / side / "step3" / "rank"
        build.extra["run"] = {"step": 3}
        Network(build, tensor, value, product=product)
        build.call("Cell.norm.BatchNorm2d.forward.0", [1.0], [2.0], parameters={"moving_mean": tensor(mean * factor)})
        return read(build.write())

    def state(comparison):
        row = row_of(comparison, "Cell.norm.BatchNorm2d.forward.0.parameters.moving_mean")
        return State(int(comparison.noise.states[row]))

    golden = run("golden", product=plain)
    comparison = compare(run("clean", 1.001), golden)
    assert state(comparison) is State.DIVERGENT
    limits = limits_of([calibrated(comparison, locate(comparison), None)], [""], "noise.json")
    (drift,) = limits.drifts
    assert (drift.basis, drift.parameters) == ("running statistics", 1)
    assert drift.excess == pytest.approx(2.0, rel=1e-3)
    assert state(compare(run("target", 1.0029), golden, limits=limits)) is State.NOISE
    assert state(compare(run("wrong", 1.0031), golden, limits=limits)) is State.DIVERGENT


def test_by_exact_limits_no_parameter_drifts(recorded):
    golden, target = recorded("golden"), recorded("target", 1e-4)
    comparison, _ = by_weights(target, golden, Limits())
    (reason,) = reasons_of_weights(comparison)
    assert (reason.why, reason.names) == (Why.DRIFT_EARLIER, ())
    comparison, _ = by_weights(target, golden, EXACT)
    assert Why.DRIFT_ONLY not in {reason.why for reason in reasons_of_weights(comparison)}
    assert comparison.noise.diverging()[row_of(comparison, "Cell.up.Dense.forward.0.parameters.weight")]


def test_a_calibration_says_how_both_sides_were_made(builder):
    versions = {"framework": "mindspore 2.10.0", "device": "Ascend", "tool": "msprobe-ms 0.1.0", "settings": {"a": 1}}
    for side, run in (("clean", versions), ("golden", {})):
        made = builder(side, mode="tensor")
        made.extra["run"] = run
        made.call("Mint.unknown_function.0.forward", [1.0], [2.0]).write()
    sides = [builder(side, mode="tensor") for side in ("clean", "golden")]
    comparison = compare(*(read(side.folder) for side in sides))
    (clean, golden) = limits_of([calibrated(comparison, locate(comparison), None)], [""], "noise.json").sides
    assert clean == {
        "framework": "mindspore",
        "version": "mindspore 2.10.0",
        "device": "Ascend",
        "tool": "msprobe-ms 0.1.0",
    }
    assert golden == {"framework": "mindspore"}


# The command.


@pytest.fixture
def sides(dump, tmp_path):
    """`sides(target={}, clean={})` writes the runs and gives the words of a command that compares them."""

    def make(target, clean=None):
        runs = {"target": target, "golden": {}, **({} if clean is None else {"clean": clean})}
        for side, settings in runs.items():
            dump(side, **settings)
        words = ["compare", "-tp", str(tmp_path / "target"), "-gp", str(tmp_path / "golden"), "--format", "json"]
        return [*words, "--workers", "1", "-o", str(tmp_path / "out")]

    return make


def table(folder):
    (file,) = folder.rglob("compare_result_*.json")
    return json.loads(file.read_text())


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_the_command_calibrates_writes_the_file_and_takes_it_again(sides, tmp_path, capsys):
    words = sides({"product": bf16}, {"product": other_order})
    assert main([*words, "--calibrate", str(tmp_path / "clean")]) == 1
    captured = capsys.readouterr()
    file = tmp_path / "out" / "noise.json"
    assert f"noise limits: calibrated by {file}" in captured.out
    assert str(file) in captured.err
    assert "first wrong call: Mint.matmul.0.forward" in captured.out.splitlines()[-1]
    first = table(tmp_path / "out")
    assert first["noise"]["limits"] == "calibrated"
    assert first["noise"]["file"] == str(file)
    assert first["noise"]["calibrated_on_wrong"] == []
    kept = tmp_path / "kept.json"
    file.rename(kept)
    words[-1] = str(tmp_path / "again")
    assert main([*words, "--noise", str(kept)]) == 1
    again = table(tmp_path / "again")
    assert again["noise"] == {**first["noise"], "file": str(kept)}
    assert again["first_wrong"] == first["first_wrong"]
    assert not (tmp_path / "again" / "noise.json").exists()


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_the_columns_of_noise_stand_behind_ours(sides, tmp_path):
    words = sides({"product": bf16}, {"product": bf16})
    assert main([*words, "--calibrate", str(tmp_path / "clean")]) == 0
    rows = {row["NPU Name"]: row for row in table(tmp_path / "out")["rows"]}
    titles = list(rows["Mint.matmul.0.forward.output.0"])
    assert titles[-8:] == ["Verdict", "Reason", "Begins", "Matched by", "Residual", "Noise", "Class", "Limits"]
    found = rows["Mint.matmul.0.forward.output.0"]
    assert 1e-3 < found["Residual"] < 2.3e-3
    assert found["Residual"] < found["Noise"] < 6e-3
    assert (found["Class"], found["Limits"]) == ("bfloat16", "calibrated")
    fine = rows["Mint.tanh.0.forward.output.0"]
    assert (fine["Class"], fine["Limits"], fine["Noise"]) == ("float32", "built-in", 1e-5)
    inputs = rows["Mint.tanh.0.forward.input.0"]
    assert [inputs[title] for title in titles[-4:]] == ["", "", "", ""]


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_a_trusted_run_that_is_wrong_is_warned_of_now_and_whenever_its_limits_are_used(sides, tmp_path, capsys):
    words = sides({"product": bf16}, {"product": bf16, "change": row_times(2.0)})
    main([*words, "--calibrate", str(tmp_path / "clean")])
    captured = capsys.readouterr()
    (warning,) = [line for line in captured.err.splitlines() if "WARNING" in line]
    assert "Mint.matmul.2.forward" in warning
    main([*words, "--noise", str(tmp_path / "out" / "noise.json")])
    (limits,) = [line for line in capsys.readouterr().out.splitlines() if "noise limits: " in line]
    assert "Mint.matmul.2.forward" in limits


def test_the_command_is_exact_where_it_is_asked_for(sides, tmp_path, capsys):
    words = sides({"product": other_order})
    main([*words, "--noise", "exact"])
    printed = capsys.readouterr().out
    assert "first wrong call: Mint.matmul.0.forward" in printed
    found = table(tmp_path / "out")
    assert found["noise"]["limits"] == "exact"
    assert set(found["noise"]["decided"]) == {"exact"}
    assert found["first_wrong"][0]["name"] == "Mint.matmul.0.forward"


@pytest.mark.torch
@pytest.mark.usefixtures("_replaying")
def test_limits_go_with_every_rank_to_every_process(builder, tensor, value, tmp_path, capsys):
    for side, product in (("target", bf16), ("golden", plain), ("clean", other_order)):
        for rank in (0, 1):
            build = builder(side, mode="tensor", level="L1")
            build.folder = tmp_path / side / "step0" / f"rank{rank}"
            Network(build, tensor, value, product=product)
            build.write()
    words = ["compare", *(str(tmp_path / side) for side in ("target", "golden")), "-o", str(tmp_path / "out")]
    code = main([*words, "--format", "json", "--workers", "2", "--calibrate", str(tmp_path / "clean")])
    assert code == 1
    printed = capsys.readouterr().out.splitlines()
    file = tmp_path / "out" / "noise.json"
    assert f"noise limits: calibrated by {file}" in printed
    assert "Mint.matmul.0.forward" in printed[-1]
    (summary,) = (tmp_path / "out").glob("compare_summary_*.json")
    jobs = json.loads(summary.read_text())["jobs"]
    assert [job["noise_limits"] for job in jobs] == [f"noise limits: calibrated by {file}"] * 2
    (matmul,) = [r for r in json.loads(file.read_text())["residuals"] if r["operation"] == "matmul"]
    assert matmul["outputs"] == 10, "five of each rank"
