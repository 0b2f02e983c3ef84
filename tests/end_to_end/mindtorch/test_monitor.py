"""TrainerMon at a training with PyTorch's API on MindSpore: numbers by numpy, bits as without."""

import csv
import json
from collections import defaultdict

import numpy as np
import pytest

REASON = "MSAdapter, which takes the place of torch, is not installed; `make mindtorch` runs this"
pytest.importorskip("msadapter", reason=REASON)

import mindspore as ms  # noqa: E402
import torch  # noqa: E402
from small_net import filled  # noqa: E402

from msprobe.mindspore import TrainerMon  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.mindtorch]

OPS = ["norm", "min", "max", "zeros", "nans", "mean"]
TOKENS = [[1, 2, 3, 4], [5, 6, 7, 8]]


@pytest.fixture(autouse=True)
def _pynative():
    ms.set_context(mode=ms.PYNATIVE_MODE)


def train(net, optimizer, steps=2):
    """Losses and parameters; of each step the gradients and the parameters before the update."""
    seen, points = [], []
    tokens = torch.tensor(TOKENS)
    for _ in range(steps):
        loss = (net(tokens) ** 2).mean()
        loss.backward()
        named = list(net.named_parameters())
        points.append(
            {
                "grad_reduced": {name: p.grad.numpy().copy() for name, p in named},
                "grad_unreduced": {name: p.grad.numpy().copy() for name, p in named},
                "param_origin": {name: p.detach().numpy().copy() for name, p in named},
            }
        )
        optimizer.step()
        points[-1]["param_updated"] = {name: p.detach().numpy().copy() for name, p in net.named_parameters()}
        optimizer.zero_grad()
        seen.append(loss.detach().numpy().tobytes())
    return seen + [p.detach().numpy().tobytes() for p in net.parameters()], points


def test_every_kind_of_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(tmp_path / "out"))
    switches = ("xy_distribution", "wg_distribution", "param_distribution", "mv_distribution")
    (tmp_path / "monitor.json").write_text(json.dumps({"ops": OPS, **dict.fromkeys(switches, True)}))
    net = filled()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    plain, _ = train(net, optimizer)
    net = filled()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    monitor = TrainerMon(tmp_path / "monitor.json")
    monitor.set_monitor(net, optimizer)
    monitored, points = train(net, optimizer)
    monitor.stop()
    assert monitored == plain
    rows = defaultdict(dict)
    for path in (tmp_path / "out").rglob("*.csv"):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                rows[path.name.rpartition("_")[0]][int(row["step"]), row["name"]] = row
    assert "lost" not in rows
    count = 0
    for step, of_step in enumerate(points):
        for kind, arrays in of_step.items():
            for name, array in arrays.items():
                row = rows[kind][step, name]
                assert float(row["norm"]) == pytest.approx(float(np.linalg.norm(array.astype(np.float64))), rel=1e-5)
                assert float(row["max"]) == pytest.approx(float(array.max()), rel=1e-5, abs=1e-6)
                count += 1
    assert count == 2 * 4 * len(list(net.named_parameters()))
    assert rows["actv"][1, "blocks.0.norm.output"]["shape"] == "(2, 4, 8)"
    assert (1, "blocks.0.norm.output") in rows["actv_grad"]
    assert (1, "head.weight") in rows["exp_avg"]
