"""noise.json: written, read again, and refused where it is none; and what --noise and --calibrate refuse."""

import json
import sys

import pytest

from msprobe.base.errors import UsageError
from msprobe.cli import main
from msprobe.compare.core.limits import (
    BUILT_IN,
    EXACT,
    Drift,
    Kind,
    KindAmplification,
    KindResidual,
    Limits,
    LimitSource,
    read_noise,
    write_noise,
)
from msprobe.compare.entry import compare
from msprobe.compare.request import limits_named

CALLED = "--noise", "--calibrate"
MATMUL = Kind("matmul", "backward", "1")
SIDES = ({"framework": "mindspore", "version": "mindspore 2.10.0"}, {"framework": "mindspore"})
LIMITS = Limits(
    LimitSource.CALIBRATED,
    "somewhere",
    (KindResidual(MATMUL, "bfloat16", 1.875e-3, 4, ("BEYOND_KIN",)), KindResidual(MATMUL, "float32", 2e-7, 12)),
    (KindAmplification(Kind("Primitive.FlashAttentionScore", "forward", "0"), 12.5, 3),),
    (Drift("drift", 1.25, 8),),
    ("Mint.matmul.2.forward (rank 1)",),
    SIDES,
)


@pytest.fixture
def file(tmp_path):
    """A noise.json that was written."""
    write_noise(tmp_path / "noise.json", LIMITS)
    return tmp_path / "noise.json"


@pytest.fixture
def changed(file):
    """`changed(noise_version=2)`: the same file with other values; None takes a key away."""

    def change(**more):
        found = json.loads(file.read_text()) | more
        file.write_text(json.dumps({key: value for key, value in found.items() if value is not None}))
        return file

    return change


def test_what_is_written_is_read_again(file):
    found = read_noise(file)
    assert found.file == str(file)
    for name in ("source", "residuals", "amplifications", "drifts", "first_wrong", "sides"):
        assert getattr(found, name) == getattr(LIMITS, name)


def test_the_file_has_a_row_on_a_line_and_no_neighbor_is_left(file):
    lines = file.read_text().splitlines()
    (row,) = [line for line in lines if '"bfloat16"' in line]
    assert json.loads(row.strip().rstrip(",")) == {
        "operation": "matmul",
        "direction": "backward",
        "output": "1",
        "class": "bfloat16",
        "eta": 1.875e-3,
        "outputs": 4,
        "signs": ["beyond_kin"],
    }
    assert [each.name for each in file.parent.iterdir()] == ["noise.json"]


def test_limits_are_three_times_what_was_seen():
    assert LIMITS.eta(MATMUL) == pytest.approx(3 * 1.875e-3)
    assert LIMITS.eta(MATMUL, 1e-5) == pytest.approx(6e-7)
    assert LIMITS.eta(Kind("matmul", "forward", "0")) is None
    attention = Kind("Primitive.FlashAttentionScore", "forward", "0")
    assert LIMITS.amplification(attention, 10.0) == 37.5
    assert LIMITS.amplification(MATMUL, 10.0) == 10.0
    assert (LIMITS.drift("drift"), LIMITS.drift("gradients")) == (3.75, 1.0)


@pytest.mark.parametrize(("sign", "eta", "expected"), [("BEYOND_KIN", 5e-3, True), ("BEYOND_KIN", 6e-3, False)])
def test_a_sign_of_the_trusted_run_is_excused_as_far_as_it_goes(sign, eta, expected):
    assert LIMITS.has_shown(MATMUL, sign, eta) is expected


def test_no_other_sign_is_excused():
    assert not LIMITS.has_shown(MATMUL, "SYSTEMATIC", 1e-7)
    assert not LIMITS.has_shown(Kind("add", "forward", "0"), "BEYOND_KIN", 1e-7)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"noise_version": 2}, "calibrate again"),
        ({"noise_version": None}, "is not a noise.json"),
        ({"noise_version": "1"}, "is not a noise.json"),
        ({"residuals": None}, "residuals is missing"),
        ({"residuals": [{"operation": "matmul"}]}, "is missing"),
        ({"residuals": 3}, "invalid"),
        ({"amplifications": [{**MATMUL._asdict(), "amplification": -1, "outputs": 1}]}, "non-negative"),
        ({"drifts": [{"basis": "drift", "excess": "much", "parameters": 1}]}, "non-negative"),
        ({"golden": {}}, "framework is missing"),
        ({"golden": None}, "golden is missing"),
        ({"golden": 5}, "invalid"),
    ],
)
def test_a_file_that_is_none_is_refused_with_what_to_do(changed, more, message):
    file = changed(**more)
    with pytest.raises(UsageError) as refused:
        read_noise(file)
    assert str(refused.value).startswith(f"{file}: ")
    assert message in str(refused.value)
    assert "calibrate" in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"noise_version": 1, "residuals": [NaN]}', "\x00"])
def test_any_other_text_is_refused(tmp_path, text):
    file = tmp_path / "noise.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"noise\.json: is "):
        read_noise(file)


def test_an_infinite_limit_is_refused(changed):
    row = {**MATMUL._asdict(), "class": "float32", "eta": float("inf"), "outputs": 1, "signs": []}
    with pytest.raises(UsageError, match="non-negative"):
        read_noise(changed(residuals=[row]))


def test_the_words_of_the_option(file, tmp_path):
    assert limits_named("", None, CALLED) is limits_named("auto", None, CALLED) is BUILT_IN
    assert limits_named("exact", None, CALLED) is EXACT
    assert limits_named(str(file), None, CALLED).residuals == LIMITS.residuals
    with pytest.raises(UsageError, match=r"--noise nothing: no such file; give auto, exact, or the path"):
        limits_named("nothing", None, CALLED)
    for noise in ("auto", "exact", str(file)):
        with pytest.raises(UsageError, match="--noise and --calibrate cannot be combined"):
            limits_named(noise, tmp_path, CALLED)


# The command and the Python call.


@pytest.fixture
def sides(run):
    """The words of a command that compares two runs of task tensor."""

    def make(mode="tensor"):
        target, golden = (run(side, "step0/rank0", mode=mode) for side in ("target", "golden"))
        return ["compare", "-tp", str(target), "-gp", str(golden), "-o", str(target.parent / "out")]

    return make


def refused(words, capsys):
    assert main(words) == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_the_command_refuses_what_cannot_be_meant(sides, changed, capsys, tmp_path, run):
    words = sides()
    clean = run("clean", "step0/rank0", mode="tensor")
    assert "cannot be combined" in refused([*words, "--noise", "auto", "--calibrate", str(clean)], capsys)
    assert "no such file" in refused([*words, "--noise", "nowhere.json"], capsys)
    assert "cannot be read" in refused([*words, "--noise", str(tmp_path)], capsys)
    assert "noise_version 7" in refused([*words, "--noise", str(changed(noise_version=7))], capsys)
    assert "is the golden itself" in refused([*words, "--calibrate", str(tmp_path / "golden")], capsys)
    assert "is the target itself" in refused([*words, "--calibrate", str(tmp_path / "target")], capsys)
    assert "--calibrate" in refused([*words, "--calibrate", str(tmp_path / "nowhere")], capsys)
    assert not (tmp_path / "out" / "noise.json").exists()


def test_a_trusted_run_without_tensors_is_refused(sides, run, capsys):
    words = sides("statistics")
    clean = run("clean", "step0/rank0")
    assert "task `tensor`" in refused([*words, "--calibrate", str(clean)], capsys)


def test_limits_that_statistics_do_not_use_are_said(run, changed, capsys):
    first = "Mint.exp.0.forward"
    target, golden = run("target", "step0/rank0", wrong={"step0/rank0": first}), run("golden", "step0/rank0")
    words = ["compare", "-tp", str(target), "-gp", str(golden), "-o", str(target.parent / "out")]
    for noise in ("exact", str(changed())):
        main([*words, "--noise", noise])
        assert "the limits of noise were not used" in capsys.readouterr().err
    main(words)
    assert "limits of noise" not in capsys.readouterr().err


def test_another_pair_of_frameworks_is_refused(sides, changed, capsys):
    words = sides()
    other = changed(golden={"framework": "pytorch"})
    line = refused([*words, "--noise", str(other)], capsys)
    assert "mindspore against pytorch" in line
    assert "mindspore against mindspore" in line


def test_exact_says_that_two_frameworks_are_never_equal_to_the_bit(builder, capsys, tmp_path):
    for side, framework in (("target", "mindspore"), ("golden", "pytorch")):
        prefix = {"mindspore": "Mint", "pytorch": "Torch"}[framework]
        builder(side, mode="tensor", framework=framework).call(f"{prefix}.exp.0.forward", [1.0], [2.0]).write()
    words = ["compare", str(tmp_path / "target"), str(tmp_path / "golden"), "-o", str(tmp_path / "out")]
    assert "never equal to the bit" in refused([*words, "--noise", "exact"], capsys)


@pytest.fixture
def _without_torch(monkeypatch):
    """Comparing where torch is not installed, also where it is."""
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("msprobe.replay.reference")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("_without_torch")
@pytest.mark.parametrize("wrong", [None, {"step0/rank0": "Mint.exp.0.forward"}])
def test_without_torch_nothing_is_calibrated(sides, run, capsys, wrong):
    words = sides()
    clean = run("clean", "step0/rank0", mode="tensor", wrong=wrong)
    assert "torch is not installed" in refused([*words, "--calibrate", str(clean)], capsys)


@pytest.mark.torch
def test_the_python_call_takes_the_same(sides, changed, tmp_path, run):
    pytest.importorskip("torch", reason="calls are replayed")
    sides()
    paths = {"npu_path": str(tmp_path / "target"), "bench_path": str(tmp_path / "golden")}
    clean = run("clean", "step0/rank0", mode="tensor")
    (outcome,) = compare(paths, tmp_path / "out", format="json", auto_analyze=False, calibrate=clean, workers=1)
    assert outcome.is_clean
    assert (tmp_path / "out" / "noise.json").exists()
    (outcome,) = compare(
        paths, tmp_path / "out", format="json", auto_analyze=False, noise=tmp_path / "out" / "noise.json"
    )
    assert outcome.is_clean
    with pytest.raises(UsageError, match="compare: noise and calibrate cannot be combined"):
        compare(paths, tmp_path / "out", noise="auto", calibrate=clean)
    with pytest.raises(UsageError, match="compare: noise: 3 is invalid; give auto, exact, or the path"):
        compare(paths, tmp_path / "out", noise=3)
    with pytest.raises(UsageError, match="compare: calibrate: 3 is not a path"):
        compare(paths, tmp_path / "out", calibrate=3)
