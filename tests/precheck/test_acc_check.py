"""`msprobe acc-check` on dumps of PyTorch, written by hand and collected. Needs torch."""

import csv
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="it computes in float64")

from msprobe.cli import main  # noqa: E402  # behind the skip
from msprobe.precheck.check import Inputs, Why, apis_of, checked  # noqa: E402
from msprobe.precheck.judge import Reason, Status  # noqa: E402
from msprobe.precheck.standards import Criterion  # noqa: E402
from msprobe.replay.recorded import Cause  # noqa: E402
from msprobe.store.reader import read  # noqa: E402

pytestmark = pytest.mark.torch

_spec = importlib.util.spec_from_file_location("replay_conftest", Path(__file__).parents[1] / "replay" / "conftest.py")
_replay = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_replay)


@pytest.fixture
def writer(tmp_path):
    """A dump of task tensor, written call by call."""
    return lambda framework="pytorch": _replay.Writer(tmp_path / framework, framework)


def product(writer, change=lambda y: y, changed_gradient=lambda g: g):
    """A dump with one product, forward and backward, and a dropout."""
    rng = np.random.default_rng(5)
    x, w, g = (rng.standard_normal(shape).astype(np.float32) for shape in ((6, 8), (8, 4), (6, 4)))
    dump = writer()
    dump.forward("Torch.matmul.0.forward", [x, w], outputs=[change((x.astype(np.float64) @ w).astype(np.float32))])
    dump.backward("Torch.matmul.0.backward", [g], [g @ w.T, changed_gradient(x.T @ g)])
    dump.forward("Functional.alpha_dropout.0.forward", [x, 0.5, True], outputs=[x])
    dump.dump()
    return dump.folder


def judged(folder):
    dump = read(folder)
    return {api.name: checked(dump, api, Inputs())[0] for api in apis_of(dump)}


def rows(folder, kind):
    [file] = folder.glob(f"accuracy_checking_{kind}_*.csv")
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


def test_healthy_calls_pass_and_what_is_not_checked_says_why(writer):
    found = judged(product(writer))
    assert [each.status for each in found["Torch.matmul.0"].directions] == [Status.PASS, Status.PASS]
    assert [len(each.outputs) for each in found["Torch.matmul.0"].directions] == [1, 2]
    assert found["Functional.alpha_dropout.0"].directions[0].skipped.why is Cause.RANDOM


def test_a_wrong_gradient_is_found_at_its_own_place(writer):
    _, backward = judged(product(writer, changed_gradient=lambda g: g * np.float32(1.001)))["Torch.matmul.0"].directions
    assert [each.judgement.status for each in backward.outputs] == [Status.PASS, Status.ERROR]
    assert [each.name.rpartition(".")[2] for each in backward.outputs] == ["0", "1"]


def test_another_shape_is_wrong(writer):
    forward, _ = judged(product(writer, lambda y: np.ascontiguousarray(y.T)))["Torch.matmul.0"].directions
    judgement = forward.outputs[0].judgement
    assert (judgement.criterion, judgement.reason) == (Criterion.SHAPE, Reason.SHAPE)


def test_an_option_that_is_not_recorded_calls_nothing_wrong(writer, tmp_path):
    # the epsilon of a primitive: no usual value explains an output of another function
    dump = writer("mindspore")
    x = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
    one, zero = np.ones(6, np.float32), np.zeros(6, np.float32)
    dump.forward("Primitive.layer_norm.LayerNorm.0.forward", [x, one, zero], outputs=[x * 2])
    dump.dump()
    [found] = judged(dump.folder).values()
    assert found.directions[0].skipped.why is Why.UNKNOWN_OPTION


def test_the_command_writes_and_says_what_is_wrong(writer, tmp_path, capsys):
    folder = product(writer, lambda y: y + np.float32(1e-3) * np.eye(6, 4, dtype=np.float32))
    out = tmp_path / "out"
    assert main(["acc_check", "-api_info", str(folder / "dump.json"), "-o", str(out), "--workers", "1"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("first wrong output: Torch.matmul.0.forward.output.0: ")
    assert {row["API Name"]: row["Forward Test Success"] for row in rows(out, "result")} == {
        "Torch.matmul.0": "error",
        "Functional.alpha_dropout.0": "SKIP",
    }
    details = rows(out, "details")
    assert [row["Status"] for row in details] == ["error", "pass", "pass"]
    assert {row["Golden Dtype"] for row in details} == {"float64"}
    assert [row["API Name"] for row in rows(out, "skipped")] == ["Functional.alpha_dropout.0"]


def test_an_interrupted_check_goes_on(writer, tmp_path, capsys):
    folder, out = product(writer), tmp_path / "out"
    command = ["run_ut", "-api_info", str(folder), "--workers", "1"]
    assert main([*command, "-o", str(out), "--white_list", "matmul"]) == 0
    [result] = out.glob("*result*.csv")
    assert main([*command, "-csv_path", str(result)]) == 0
    assert "1 APIs" in capsys.readouterr().out
    assert [row["API Name"] for row in rows(out, "result")] == ["Torch.matmul.0", "Functional.alpha_dropout.0"]


def test_the_lists_of_a_configuration_are_taken(writer, tmp_path):
    folder, out, config = product(writer), tmp_path / "out", tmp_path / "config.json"
    config.write_text(json.dumps({"task": "run_ut", "run_ut": {"white_list": [], "black_list": ["alpha_dropout"]}}))
    command = ["acc_check", "-api_info", str(folder), "-o", str(out), "--no-run", "--workers", "1"]
    assert main([*command, "-config", str(config)]) == 0
    assert [row["API Name"] for row in rows(out, "result")] == ["Torch.matmul.0"]


CONFIGURATIONS = {
    "top level": {"white_list": ["matmul"]},
    "top level, black": {"task": "run_ut", "black_list": ["alpha_dropout"]},
    "section": {"run_ut": {"white_list": ["matmul"]}},
    "other section": {"acc_check": {"white_list": ["matmul"], "budget_ms": 3}},
    "both": {"run_ut": {}, "white_list": ["matmul", "alpha_dropout"], "acc_check": {"black_list": ["alpha_dropout"]}},
    "of another tool": {"run_ut": {"white_list": ["matmul"], "error_data_path": "./"}, "dump_path": "x", "seed": 3},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_lists_of_a_configuration_are_taken_wherever_they_are(name, writer, tmp_path):
    folder, out, config = product(writer), tmp_path / "out", tmp_path / "config.json"
    config.write_text(json.dumps(CONFIGURATIONS[name]))
    assert main(["run_ut", "-api_info", str(folder), "-o", str(out), "--workers", "1", "-config", str(config)]) == 0
    assert [row["API Name"] for row in rows(out, "result")] == ["Torch.matmul.0"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ({"whitelist": ["matmul"]}, "whitelist: unknown setting; did you mean 'white_list'?"),
        ({"run_ut": {"white-list": []}}, "run_ut.white-list: unknown setting; did you mean 'white_list'?"),
        ({"white_list": "matmul"}, "white_list is 'matmul'"),
        ({"run_ut": ["matmul"]}, "run_ut: ['matmul'] is not an object"),
        (["matmul"], "is not a JSON object"),
        ({"white_list": ["matmull"]}, "did you mean matmul?"),
    ],
)
def test_a_wrong_configuration_is_refused(written, said, writer, tmp_path, capsys):
    folder, config = product(writer), tmp_path / "config.json"
    config.write_text(json.dumps(written))
    assert main(["run_ut", "-api_info", str(folder), "-o", str(tmp_path / "out"), "-config", str(config)]) == 2
    assert said in capsys.readouterr().err


def test_a_configuration_without_lists_is_logged(writer, tmp_path, capsys):
    folder, out, config = product(writer), tmp_path / "out", tmp_path / "config.json"
    config.write_text(json.dumps({"task": "run_ut", "run_ut": {}}))
    assert main(["run_ut", "-api_info", str(folder), "-o", str(out), "--workers", "1", "-config", str(config)]) == 0
    assert "has no white_list or black_list; all APIs are checked" in capsys.readouterr().err
    assert len(rows(out, "result")) == 2


@pytest.mark.parametrize("removed", [["skipped"], ["details"], ["skipped", "details"]])
def test_an_interrupted_check_goes_on_with_the_result_file_alone(removed, writer, tmp_path):
    folder, out = product(writer), tmp_path / "out"
    command = ["run_ut", "-api_info", str(folder), "--workers", "1"]
    assert main([*command, "-o", str(out), "--black_list", "matmul"]) == 2  # what is left is random
    for kind in removed:
        for file in out.glob(f"*{kind}*.csv"):
            file.unlink()
    (result,) = out.glob("*result*.csv")
    assert main([*command, "-csv_path", str(result)]) == 0
    assert [row["API Name"] for row in rows(out, "result")] == ["Functional.alpha_dropout.0", "Torch.matmul.0"]
    assert {row["API Name"].partition(".forward")[0] for row in rows(out, "details")} >= {"Torch.matmul.0"}
    assert len(rows(out, "skipped")) == (0 if "skipped" in removed else 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--no-run"], "--no-run"),
        (["-d", "1", "1"], "twice"),
        (["-d", "5000"], "5000"),
        (["--white_list", "nothing"], "white_list"),
    ],
)
def test_a_mistake_is_said_before_anything_is_checked(writer, tmp_path, words, said, capsys):
    folder = product(writer)
    text = (folder / "dump.json").read_text()
    if words == ["--no-run"]:
        (folder / "dump.json").write_text(text.replace('"task": "tensor"', '"task": "statistics"'))
    out = tmp_path / "out"
    assert main(["acc_check", "-api_info", str(folder), "-o", str(out), *words]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()


def test_calls_of_pytorch_are_executed_on_drawn_inputs(tmp_path, capsys):
    from msprobe.pytorch import PrecisionDebugger

    config = tmp_path / "config.json"
    config.write_text(json.dumps({"task": "statistics", "dump_path": str(tmp_path / "dump"), "level": "L1"}))
    debugger = PrecisionDebugger(config_path=str(config))
    debugger.start()
    x = torch.randn(6, 8, requires_grad=True)
    table = torch.randn(10, 8, requires_grad=True)
    rows_of = torch.nn.functional.embedding(torch.tensor([1, 9, 3, 3, 0, 2]), table)
    y = torch.softmax(torch.nn.functional.layer_norm(torch.matmul(x, rows_of.mT), (6,)), -1)
    (y * torch.randn(6, 6)).sum().backward()
    debugger.stop()
    debugger.step()
    out = tmp_path / "out"
    command = ["acc_check", "-api_info", str(tmp_path / "dump" / "step0"), "-o", str(out), "--workers", "1"]
    assert main([*command, "-save_error_data"]) == 0
    assert capsys.readouterr().out.endswith("first wrong output: none\n")
    found = {row["API Name"]: row for row in rows(out, "result")}
    for name in ("Torch.matmul.0", "Functional.layer_norm.0", "Torch.softmax.0", "Functional.embedding.0"):
        assert [found[name][title] for title in ("Forward Test Success", "Backward Test Success")] == ["pass", "pass"]
    assert not (out / "error_data").exists()


def test_a_script_of_one_call_runs_by_itself(writer, tmp_path, capsys):
    import subprocess
    import sys

    folder = product(writer, changed_gradient=lambda g: g * np.float32(1.001))
    out = tmp_path / "script"
    assert main(["repro", "Torch.matmul.0.backward.output.1", "-api_info", str(folder), "-o", str(out)]) == 0
    assert "Torch.matmul.0.backward.output.1" in capsys.readouterr().out
    script = out / "Torch.matmul.0.backward.py"
    text = script.read_text()
    assert len(text.splitlines()) < 80
    assert "import msprobe" not in text
    done = subprocess.run([sys.executable, script], cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    broken = text.replace("= next(getattr(owner, ", "= lambda a, b: 1.01 * next(getattr(owner, ", 1).replace(
        'if hasattr(owner, "matmul"))', 'if hasattr(owner, "matmul"))(a, b)', 1
    )
    script.write_text(broken)
    done = subprocess.run([sys.executable, script], cwd=out, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert (out / "op_result_output" / "accuracy_checking_result.csv").exists()


def test_op_generate_keeps_an_extract_and_draws_by_seed(writer, tmp_path):
    folder = product(writer)
    file = folder / "dump.json"
    text = file.read_text().replace('"Max": 0.0', '"Max": 2.0').replace('"Min": 0.0', '"Min": -2.0')
    file.write_text(text.replace('"Norm": 0.0', '"Norm": 6.0'))
    config, extract = tmp_path / "op.json", tmp_path / "extract.json"
    settings = {"api_name": "Torch.matmul.0", "extract_api_path": str(extract), "iter_times": 2}
    made = []
    for number, more in enumerate(({"dump_json_path": str(folder / "dump.json")}, {})):
        config.write_text(json.dumps({**settings, **more}))
        out = tmp_path / str(number)
        assert main(["op_generate", "-i", str(config), "-o", str(out)]) == 0
        made.append(dict(np.load(out / "Torch.matmul.0.forward.npz")))
    assert json.loads(extract.read_text())["framework"] == "pytorch"
    assert sorted(made[0]) == sorted(made[1])
    assert all(np.array_equal(made[0][key], made[1][key]) for key in made[0])
    assert not np.array_equal(made[0]["0.input.0"], made[0]["1.input.0"])
    np.testing.assert_allclose(
        made[0]["expected.1.0"], made[0]["1.input.0"].astype(float) @ made[0]["1.input.1"].astype(float)
    )
    config.write_text(json.dumps({**settings, "data_mod": "real_data"}))
    assert main(["op_generate", "-i", str(config), "-o", str(tmp_path)]) == 2


BROKEN = """
import os
import torch

right = torch.sinh
torch.cosh = lambda x: os.abort()
torch.sinh = lambda x: right(x) * (1 if x.dtype == torch.float64 else 1.01)
"""


def test_a_kernel_that_crashes_is_skipped_and_tensors_of_a_wrong_one_are_saved(writer, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(BROKEN)  # the worker processes run it
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    dump = writer()
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    for name in ("cosh", "sinh", "exp"):
        dump.forward(f"Torch.{name}.0.forward", [x], outputs=[getattr(np, name)(x)])
    dump.dump()
    out = tmp_path / "out"
    command = ["acc_check", "-api_info", str(dump.folder), "-o", str(out), "--run", "-save_error_data"]
    assert main([*command, "--workers", "1"]) == 1
    found = {row["API Name"]: row for row in rows(out, "result")}
    assert {name: row["Forward Test Success"] for name, row in found.items()} == {
        "Torch.cosh.0": "SKIP",
        "Torch.sinh.0": "error",
        "Torch.exp.0": "pass",
    }
    [skipped] = rows(out, "skipped")
    assert (skipped["API Name"], skipped["Reason"]) == ("Torch.cosh.0", Why.PROCESS_DIED.value)
    saved = {file.name: np.load(file) for file in (out / "error_data").iterdir()}
    assert sorted(saved) == ["Torch.sinh.0.forward.input.0.npy", "Torch.sinh.0.forward.output.0.npy"]
    np.testing.assert_array_equal(saved["Torch.sinh.0.forward.input.0.npy"], x)
    np.testing.assert_allclose(saved["Torch.sinh.0.forward.output.0.npy"], 1.01 * np.sinh(x), rtol=1e-6)
