"""What `msprobe doctor` says of a configuration is what the debugger of the framework then does."""

import itertools
import json

import mindspore
import pytest
import torch

from msprobe.base.errors import MsprobeError
from msprobe.base.settings import Origin
from msprobe.findings.catalogue import readiness as kind
from msprobe.readiness.configuration import examine
from msprobe.readiness.target import Target

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

TASKS = [
    "statistics",
    "tensor",
    "structure",
    "overflow_check",
    "free_benchmark",
    "grad_probe",
    "exception_dump",
    "acc_check",
]
LEVELS = ["L0", "L1", "mix", "debug"]
OTHERS = [{}, {"jit_cells": "split"}]
GRID = [
    *({"task": task, "level": level, **other} for task, level, other in itertools.product(TASKS, LEVELS, OTHERS)),
    # of kernels only what is refused: a dump that begins is the only one of its process
    *({"task": task, "level": "L2"} for task in ("overflow_check", "exception_dump")),
]


def refused(contents, framework, mode):
    _, found = examine(contents, Origin("c.json"), Target(framework, mode=mode))
    return any(each.kind is kind.REFUSED for each in found)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_mindspore_refuses_what_the_doctor_says(mode, tmp_path):
    from msprobe.mindspore import PrecisionDebugger

    mindspore.set_context(mode=mindspore.GRAPH_MODE if mode == "graph" else mindspore.PYNATIVE_MODE)
    net = mindspore.nn.Dense(2, 2)
    assert differences(GRID, "mindspore", mode, PrecisionDebugger, net, tmp_path) == []


def test_pytorch_refuses_what_the_doctor_says(tmp_path):
    from msprobe.pytorch import PrecisionDebugger

    grid = [*GRID, *({"task": task, "level": "L2"} for task in TASKS)]
    assert differences(grid, "pytorch", "", PrecisionDebugger, torch.nn.Linear(2, 2), tmp_path) == []


def differences(grid, framework, mode, debugger, net, folder):
    """The configurations that only one of doctor and debugger refuses, and who."""
    found = []
    for number, given in enumerate(grid):
        contents = {**given, "dump_path": str(folder / str(number)), "step": [0]}
        file = folder / f"{number}.json"
        file.write_text(json.dumps(contents))
        says = refused(contents, framework, mode)
        try:
            made = debugger(str(file))
            made.start(net)
            made.stop()
            made.step()
            does = ""
        except MsprobeError as err:
            does = str(err)
        if says != bool(does):
            found.append((given, "doctor" if says else does))
    return found
