"""An interrupt during `stop` of a monitor: the next `stop` removes what is left."""

import json
import os
import sys

import pytest
import torch
from torch_training import network, train
from traced_lines import AtLine

from msprobe.core.monitor_v2.trainer import TrainerMonitorV2
from msprobe.pytorch import TrainerMon

pytestmark = pytest.mark.torch


def started(form, tmp_path, monkeypatch):
    """A monitor after one step, its network and its optimizer."""
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    path, out = tmp_path / "monitor.json", tmp_path / "out"
    if form == "sections":
        section = {"enabled": True, "ops": ["norm"]}
        settings = {"output_dir": str(out), "monitors": {"module": section, "weight_grad": section, "param": section}}
        path.write_text(json.dumps(settings))
        monitor = TrainerMonitorV2(path, "pytorch")
        monitor.start(net, optimizer)
    else:
        monkeypatch.setenv("MONITOR_OUTPUT_DIR", str(out))
        path.write_text(json.dumps({"ops": ["norm"], "xy_distribution": True, "wg_distribution": True}))
        monitor = TrainerMon(path)
        monitor.set_monitor(net, optimizer)
    train(net, optimizer)
    return monitor, net, optimizer


def hooks(net, optimizer):
    """How many hooks the modules, the parameters and the optimizer have."""
    count = len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)
    for module in net.modules():
        count += len(module._forward_pre_hooks) + len(module._forward_hooks)
    for parameter in net.parameters():
        count += len(parameter._backward_hooks or ()) + len(parameter._post_accumulate_grad_hooks or ())
    return count


def open_files(folder):
    """The files of a folder that this process has open."""
    targets = []
    for number in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue  # the one by which this folder was listed
    return [target for target in targets if target.startswith(str(folder))]


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("form", ["sections", "trainer_mon"])
def test_after_an_interrupt_at_any_line_of_stop_the_next_stop_removes_all(form, tmp_path, monkeypatch):
    at, traced = 0, sys.gettrace()
    interrupted = True
    while interrupted:
        at += 1
        folder = tmp_path / str(at)
        folder.mkdir()
        monitor, net, optimizer = started(form, folder, monkeypatch)
        assert hooks(net, optimizer)
        assert open_files(folder)
        interrupted = False
        sys.settrace(AtLine(at, interrupt))
        try:
            monitor.stop()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(traced)
        monitor.stop()
        assert hooks(net, optimizer) == 0, f"line {at}"
        assert not open_files(folder), f"line {at}"
    assert at > 10
