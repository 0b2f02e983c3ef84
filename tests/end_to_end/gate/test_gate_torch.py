"""`msprobe gate` around a real training with PyTorch: no edit of the script, faults named, harmless changes green."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gates import check, last_line, record
from preloaded import python

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.turns("gate", 5)]

TRAINING = Path(__file__).with_name("gpt_torch.py")


@pytest.fixture(scope="module")
def golden(made_once):
    """The golden of the training without a change."""
    return made_once("gate-torch", lambda folder: record(folder, "torch", TRAINING)) / "gpt.golden"


def test_a_golden_is_small_and_the_settings_of_the_script_are_replaced(golden):
    about = json.loads(subprocess.check_output([sys.executable, "-m", "msprobe", "gate", "show", golden, "--json"]))
    assert golden.stat().st_size <= 1_000_000
    assert about["details"]["collection"] == {"task": "tensor", "level": "mix", "steps": ["0-2"]}
    losses = [each["loss"] for each in about["details"]["training"]]
    assert len(set(losses)) == 3
    assert not (golden.parent / "not_used").exists()


@pytest.mark.parametrize("change", ["", "threads", "order", "drawn"])
def test_only_rounding_is_green(golden, tmp_path, change):
    done = check(golden, "torch", TRAINING, change, tmp_path)
    assert (done.returncode, last_line(done).split(":")[1]) == (0, " green"), done.stdout


@pytest.mark.parametrize(
    ("change", "name", "kind"),
    [
        ("scale", "Tensor.__mul__.0.forward", "structure differs"),
        ("eps", "Functional.layer_norm.3.forward", "argument differs"),
        ("drawn-other", "Functional.embedding.0.forward", "parameters differ"),
        ("clip", "Torch.stack.0.forward", "structure differs"),
    ],
)
def test_a_fault_is_red_and_named(golden, tmp_path, change, name, kind):
    done = check(golden, "torch", TRAINING, change, tmp_path)
    assert done.returncode == 1
    found = json.loads((tmp_path / "answer.json").read_text())["findings"][0]
    assert (found["place"]["name"], found["kind"]) == (name, kind)
    assert Path(found["place"]["file"]).name == "gpt_torch.py"


def test_a_training_without_updates_and_one_that_fails(golden, tmp_path):
    assert check(golden, "torch", TRAINING, "still", tmp_path).returncode == 3
    failed = check(golden, "torch", TRAINING, "fails", tmp_path)
    assert failed.returncode == 2
    assert "ended with exit code 1" in failed.stderr


# ---- the fixture for pytest -----------------------------------------------------------------------------------------

TEST = """
import torch
from torch import nn

def test_numerics(numerics_gate):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8, eps={eps}), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    numbers = torch.Generator().manual_seed(2)
    with numerics_gate("net", model, optimizer) as gate:
        for _ in range(3):
            model(torch.randn(4, 8, generator=numbers)).square().mean().backward()
            {update}
            optimizer.zero_grad()
            gate.step()
"""


@pytest.fixture
def tested(tmp_path):
    """`tested(*options)`: run pytest on a test with the fixture, in a process of its own."""

    def run(*options, eps="1e-5", update="optimizer.step()", copies=1):
        for number in range(copies):
            text = TEST.format(eps=eps, update=update)
            name = "test_net.py" if not number else f"test_net{number}.py"
            (tmp_path / name).write_text(text.replace('"net"', f'"net{number or ""}"'))
        words = [python("torch"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", *options]
        return subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"PYTEST_ADDOPTS": ""}
        )

    run.golden = tmp_path / "goldens/net.golden"
    run.folder = tmp_path
    return run


def accepted(golden):
    shown = subprocess.check_output([sys.executable, "-m", "msprobe", "gate", "show", golden, "--json"])
    return [each["reason"] for each in json.loads(shown)["details"]["accepted"]]


def test_the_fixture_writes_checks_and_rewrites_with_a_reason(tested):
    missing = tested()
    assert missing.returncode == 1
    assert "--numerics-update REASON" in missing.stdout
    assert tested("--numerics-update", "first").returncode == 0
    written = tested.golden.read_bytes()
    assert tested().returncode == 0
    assert tested("--numerics-update", "again").returncode == 0
    assert tested.golden.read_bytes() == written  # it is green: nothing to rewrite
    red = tested("--numerics-report", "reports", eps="1e-2")
    assert red.returncode == 1
    assert "Functional.layer_norm.0.forward" in red.stdout
    assert list((tested.folder / "reports/net").glob("compare_report_*.html"))
    assert tested.golden.read_bytes() == written
    assert tested("--numerics-update", "larger eps", eps="1e-2").returncode == 0
    assert accepted(tested.golden) == ["larger eps"]
    assert tested(eps="1e-2").returncode == 0


def test_a_block_that_does_not_train_is_neither_written_nor_green(tested):
    assert tested("--numerics-update", "first", update="pass").returncode == 1
    assert not tested.golden.exists()
    assert tested("--numerics-update", "first").returncode == 0
    still = tested(update="pass")
    assert still.returncode == 1
    assert "did not train" in still.stdout


@pytest.mark.verify
def test_several_workers_write_and_check_their_own_goldens(tested):
    assert tested("--numerics-update", "first", "-n", "2", copies=3).returncode == 0
    assert {path.name for path in tested.golden.parent.iterdir()} == {"net.golden", "net1.golden", "net2.golden"}
    assert tested("-n", "2", copies=3).returncode == 0


# ---- from the training script ---------------------------------------------------------------------------------------

SCRIPT = """
import sys
import torch
from torch import nn
from msprobe.pytorch import PrecisionDebugger

eps, update = float(sys.argv[1]), sys.argv[2]
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8, eps=eps), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
debugger = PrecisionDebugger(task="tensor", level="mix", dump_path="./dump", step=[0, 1])
numbers = torch.Generator().manual_seed(2)
for _ in range(2):
    debugger.start(model=model)
    model(torch.randn(4, 8, generator=numbers)).square().mean().backward()
    debugger.stop()
    optimizer.step()
    optimizer.zero_grad()
    debugger.step()
sys.exit(debugger.gate("net", update=update))
"""


def test_a_script_checks_its_own_run(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)

    def train(eps, update="", command=()):
        words = [*command, python("torch"), "train.py", eps, update]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)

    missing = train("1e-5")
    assert missing.returncode == 1
    assert "gate('net', update=REASON)" in missing.stderr.splitlines()[-1]
    assert train("1e-5", "first").returncode == 0
    assert train("1e-5").returncode == 0
    changed = train("1e-2")
    assert changed.returncode == 1
    assert "Functional.layer_norm.0.forward" in changed.stdout.splitlines()[-1]
    # The command checks this training: its own check would have no steps of its own settings.
    checked = train("1e-2", command=[sys.executable, "-m", "msprobe", "gate", "check", "--golden", "net.golden", "--"])
    assert checked.returncode == 1
    assert checked.stdout.count("gate: red") == 1
    assert train("1e-2", "wider").returncode == 0
    assert accepted(tmp_path / "net.golden") == ["wider"]
    assert train("1e-2").returncode == 0
