"""What further collected calls cost, counted: operations on files, system calls that write, blocks of memory kept.

Of two chains of the same cells, one longer, the difference is what the further calls cost; what a step costs once is in
both. All are trained several times, for a first step finds and describes what later ones know.
"""

import gc
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from chains import LONG, NEEDS, SHORT, Chain
from mindspore import Tensor

pytestmark = [pytest.mark.mindspore, pytest.mark.part(3), *NEEDS]

CALLS = 4
"""Calls of one further cell at level mix, forward; as many backward."""

OPERATIONS = frozenset(("open", "os.mkdir", "os.rename", "os.remove", "os.link", "os.listdir", "os.scandir"))

SLACK = 4
"""Writes of other threads of the process, and of a JSON file that needs one more."""

_seen: list[str] = []


def _hear(event, arguments, operations=OPERATIONS, seen=_seen):  # as defaults they are there until the process ends
    if event in operations and seen:
        seen.append(f"{event} {arguments[0]}")


sys.addaudithook(_hear)  # for good: there is no way to take one away


class Training:
    """A chain that is trained with a debugger."""

    def __init__(self, debugger, length):
        self.debugger, self.net = debugger, Chain(length)
        self.gradient = ms.value_and_grad(self.net, None, self.net.trainable_params())
        self.x = Tensor(np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8))

    def step(self):
        self.debugger.start(self.net)
        self.gradient(self.x)
        self.debugger.stop()
        self.debugger.step()

    def operations(self):
        """How many operations on files there are in one step, and how many system calls that write."""
        _seen[:] = ["begin"]
        before = writes()
        self.step()
        after = writes()
        found, _seen[:] = len(_seen), []
        return found, after - before

    def blocks(self):
        """How many more blocks of memory Python has at the end of a forward and backward than at their beginning."""
        self.debugger.start(self.net)
        before = sys.getallocatedblocks()
        results = self.gradient(self.x)
        after = sys.getallocatedblocks()
        del results
        self.debugger.stop()
        self.debugger.step()
        return after - before


def writes():
    """System calls of this process that wrote."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("syscw"))


@pytest.fixture
def trained(collecting):
    """Makes trainings that have made some steps."""

    def make(length, **settings):
        training = Training(collecting(**settings), length)
        for _ in range(5):
            training.step()
        return training

    return make


# Of one further cell: its tensors are the cell's input, parameter and result, three of a product, two of a sum and of a
# tangent; in the backward two of the cell, of a sum and of a tangent, three of a product, and the parameter's gradient.
TENSORS, LINES = 10 + 10, 4 + 4 + 1


@pytest.mark.parametrize(
    ("settings", "files", "least", "most"),
    [
        ({"task": "structure"}, 0, LINES - 1, LINES - 1),
        ({"task": "statistics"}, 0, LINES, LINES),
        ({"task": "statistics", "statistics": {"summary_mode": "crc32c"}}, 0, LINES, LINES),
        ({"task": "tensor"}, TENSORS, LINES + TENSORS, LINES + TENSORS),
        ({"task": "tensor", "format": "packed"}, 0, LINES, LINES + TENSORS),
    ],
    ids=["structure", "statistics", "crc32c", "tensor", "packed"],
)
def test_a_further_call_is_one_write_and_a_tensor_at_most_one_file(trained, settings, files, least, most):
    """The line of a call is written at once, so that it is not lost; equal tensors are packed once."""
    (opened, written), (more_opened, more_written) = (
        trained(length, config={"level": "mix", **settings}).operations() for length in (SHORT, LONG)
    )
    further = LONG - SHORT
    assert more_opened - opened == files * further
    assert least * further - SLACK <= more_written - written <= most * further + SLACK


@pytest.mark.parametrize(("task", "most"), [("statistics", 20), ("tensor", 30)])
def test_a_call_keeps_few_blocks_of_memory_until_its_step_ends(trained, task, most):
    """Some 15 for a call of two or three tensors, and 24 where these are written; half of them are the framework's."""
    gc.collect()
    gc.disable()
    try:
        short, long = (trained(length, level="mix", task=task).blocks() for length in (SHORT, LONG))
    finally:
        gc.enable()
    assert (long - short) / (LONG - SHORT) / (2 * CALLS) <= most


@pytest.mark.sample(1)
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_nothing_of_a_step_is_kept(trained, task):
    """What is kept once, a cache that is filled, is not kept in every stretch of steps."""
    training, steps, kept = trained(LONG, level="mix", task=task), 10, []
    for _ in range(4):
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(steps):
            training.step()
        gc.collect()
        kept.append(sys.getallocatedblocks() - before)
    assert min(kept) < steps * LONG * CALLS / 4, f"{kept}: one block for each forward call would be four times as many"
