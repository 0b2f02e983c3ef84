"""Where saving fails or cannot be done: it is said, and the training goes on."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, ops
from saved_by_hand import GRID

from msprobe.frameworks.mindspore.jit import in_graph
from msprobe.store.writer import Writer

pytestmark = pytest.mark.mindspore


def test_a_dump_that_cannot_be_opened_is_said_and_the_training_goes_on(running, logged):
    run = running()
    run.root.write_text("a file where the folder should be")
    for _ in range(2):
        run.save(Tensor(GRID), "x")
    (line,) = logged()
    assert "data of this step cannot be saved: " in line
    assert line.endswith("the training continues")


def test_a_failure_of_ours_is_noted_in_the_dump_and_goes_no_further(running, logged, monkeypatch):
    run = running()

    def loss(x):
        y = x * 2
        run.save(y, "y")
        run.save(y, "z")
        return (y * y).sum()

    write = Writer.call

    def full(self, name, parent, stack, entry):
        if name in ("y.0.debug", "z_grad.0.debug"):
            raise OSError(28, "No space left on device")
        write(self, name, parent, stack, entry)

    monkeypatch.setattr(Writer, "call", full)
    np.testing.assert_array_equal(ms.grad(loss)(Tensor(GRID)).asnumpy(), GRID * 8)
    run.step()
    assert sorted(run.data()) == ["y_grad.0.debug", "z.0.debug"]
    lost = {item["name"]: item["cause"] for item in run.dump()["missing"]}
    assert sorted(lost) == ["y.0.debug", "z_grad.0.debug"]
    assert all("No space left on device" in cause for cause in lost.values())
    assert len(logged()) == 1


@pytest.mark.pipeline
def test_the_trainings_own_error_reaches_it(running):
    run = running()
    with pytest.raises((RuntimeError, IndexError)):  # noqa: PT012  # whichever comes to it
        wrong = ops.gather(Tensor(GRID), Tensor([0, 9]), 0)
        run.save(wrong, "wrong")


@pytest.mark.parametrize("capture", ["ast", "bytecode"])
def test_inside_a_compiled_function_nothing_is_saved_and_that_is_said(capture, running, logged):
    run = running()

    def save(variable, name):
        if in_graph():
            return
        run.save(variable, name)

    @ms.jit(capture_mode=capture)
    def double(x):
        y = x * 2
        save({"y": y}, "y")
        return y

    for _ in range(2):
        np.testing.assert_array_equal(double(Tensor(GRID)).asnumpy(), GRID * 2)
    assert len([line for line in logged() if "has no effect inside @jit and in graph mode" in line]) == 1
    save(Tensor(GRID), "outside")
    run.step()
    assert list(run.data()) == ["outside.0.debug", "outside_grad.0.debug"]
