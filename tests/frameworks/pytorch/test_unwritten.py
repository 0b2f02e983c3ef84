"""Memory that nothing has written is not a value: its record says so, and a comparison does not judge it."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.torch

LIMIT = 240


def is_unwritten(record):
    return record["type"] == "uninitialized"


def collected(collecting, dumped, run, **settings):
    debugger = collecting(**{"level": "L1", **settings})
    debugger.start(nn.Linear(1, 1))
    run()
    debugger.stop()
    debugger.step()
    return dumped(debugger).data


VIEWS = {
    "narrow": lambda x: x.narrow(0, 0, 2),
    "view": lambda x: x.view(16),
    "split": lambda x: x.split(2),
    "index": lambda x: x[1],
    "as_strided": lambda x: torch.as_strided(x, (2, 2), (1, 2), 1),
    "transpose": lambda x: x.t(),
    "detach": lambda x: x.detach(),
    "view of a view": lambda x: x[1:].view(-1),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("make", ["empty", "empty_like", "new_empty", "empty_strided"])
def test_a_view_of_memory_that_nothing_has_written_is_no_value(make, view, collecting, dumped):
    made = {
        "empty": lambda: torch.empty(4, 4),
        "empty_like": lambda: torch.empty_like(torch.ones(4, 4)),
        "new_empty": lambda: torch.ones(4, 4).new_empty(4, 4),
        "empty_strided": lambda: torch.empty_strided((4, 4), (4, 1)),
    }
    data = collected(collecting, dumped, lambda: VIEWS[view](made[make]()))
    (name, *_) = [name for name in data if "ones" not in name]
    assert data[name]["input_args"][0] == {
        "type": "uninitialized",
        "value": ["torch.Tensor", "torch.float32", [4, 4]],
    }
    outputs = data[name]["output"]
    assert outputs
    assert all(map(is_unwritten, outputs))
    assert not [key for key in ("Max", "Norm", "data_name") if key in json.dumps(data[name])]


def by_numpy(x):
    x.numpy()[:] = 3.0


WRITES = {
    "in place": lambda x: x.fill_(3.0),
    "copied": lambda x: x.copy_(torch.full((4, 4), 3.0)),
    "a view of it": lambda x: x.view(16).fill_(3.0),
    "by index": lambda x: x.__setitem__(slice(None), 3.0),
    "out": lambda x: torch.add(torch.ones(4, 4), 2.0, out=x),
    "without a version": lambda x: x.data.fill_(3.0),
    "by numpy": by_numpy,
    "zeros": lambda x: x.zero_(),
}


@pytest.mark.parametrize("write", WRITES)
def test_what_was_written_is_a_value(write, collecting, dumped):
    def run():
        x = torch.empty(4, 4)
        WRITES[write](x)
        torch.relu(x)

    record = collected(collecting, dumped, run)["Torch.relu.0.forward"]["input_args"][0]
    assert (record["Max"], record["Min"]) == ((0.0, 0.0) if write == "zeros" else (3.0, 3.0))


def test_what_a_call_only_writes_to_is_no_value(collecting, dumped):
    def run():
        old = torch.ones(3)
        torch.add(torch.full((3,), 2.0), 1.0, out=old)
        torch.max(torch.ones(2, 2), 1, out=(torch.zeros(2), torch.zeros(2, dtype=torch.int64)))

    data = collected(collecting, dumped, run)
    call = data["Torch.add.0.forward"]
    assert is_unwritten(call["input_kwargs"]["out"])
    assert call["output"][0]["Max"] == 3.0
    assert call["input_args"][0]["Max"] == 2.0
    assert all(map(is_unwritten, data["Torch.max.0.forward"]["input_kwargs"]["out"]))


def test_calls_of_transformed_functions_are_recorded_beside_memory_that_nothing_has_written(collecting, dumped):
    kept, results = [], []

    def run():
        kept.append(torch.empty(4))
        x = torch.tensor([[-2.0, 4.0]])
        results.append(torch.func.grad(lambda t: torch.square(t).sum())(x))
        results.append(torch.func.vmap(lambda t: torch.add(t, torch.empty(2).zero_()))(x))

    data = collected(collecting, dumped, run)
    assert [each.tolist() for each in results] == [[[-4.0, 8.0]], [[-2.0, 4.0]]]
    assert {"Torch.square.0.forward", "Torch.add.0.forward"} <= data.keys()


def test_memory_that_is_used_again_is_known_no_longer(collecting, dumped):
    def run():
        for _ in range(20):
            x = torch.empty(64)
            x.narrow(0, 0, 2)
            del x
            torch.relu(torch.ones(64))

    data = collected(collecting, dumped, run)
    assert all(data[f"Torch.relu.{i}.forward"]["input_args"][0].get("Max") == 1.0 for i in range(20))


@pytest.mark.parametrize("task", ["statistics", "tensor"])
@pytest.mark.parametrize("level", ["L1", "mix"])
def test_operations_that_are_dispatched_see_it_too(level, task, collecting, dumped):
    data = collected(
        collecting, dumped, lambda: torch.empty(4, 4).view(16), level=level, task=task, config={"dispatch": True}
    )
    assert is_unwritten(data["Aten.empty.0.forward"]["output"][0])
    assert is_unwritten(data["Aten.view.0.forward"]["input_args"][0])


def run_fsdp(folder, seed):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(__file__).parent / "fsdp.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_PERTURB_": str(seed)}
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder), str(rank), str(port), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    try:
        outputs = [rank.communicate(timeout=LIMIT)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], "\n".join(outputs)[-3000:]


def compared(target, golden, output):
    command = [sys.executable, "-m", "msprobe", "compare", "-tp", str(target), "-gp", str(golden), "-o", str(output)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)


@pytest.mark.turns("ranks", 2)
def test_two_equal_trainings_with_sharded_parameters_compare_as_equal(tmp_path):
    for side, seed in (("target", 17), ("golden", 203)):
        run_fsdp(tmp_path / side, seed)
    dumps = [json.loads(p.read_text())["data"] for p in sorted((tmp_path / "target").rglob("dump.json"))]
    assert len(dumps) == 4
    narrowed = dumps[0]["Tensor.narrow.0.forward"]
    assert is_unwritten(narrowed["input_args"][0]), "the buffer of the all-gather"
    torch.manual_seed(0)
    weight = nn.Linear(48, 64).weight
    gathered = dumps[0]["Functional.linear.0.forward"]["input_args"][1]
    assert (gathered["shape"], gathered["Max"]) == ([64, 48], weight.max().item()), "what was gathered is a value"
    done = compared(tmp_path / "target", tmp_path / "golden", tmp_path / "compared")
    summary = json.loads(next((tmp_path / "compared").glob("compare_summary*.json")).read_text())
    assert len(summary["jobs"]) == 4, f"{done.stdout}{done.stderr}"
    assert summary["counts"]["error"] == summary["counts"]["warning"] == 0
    assert summary["counts"]["pass"] > 600
    assert summary["first_wrong"] == []
    open_ones = {each["cause"]: each["pairs"] for each in summary["unjudged"] if not each["is_exempt"]}
    assert not open_ones
