"""The task `grad_probe` at an optimizer of PyTorch's API on MindSpore."""

import csv

import numpy as np
import pytest

REASON = "MSAdapter, which takes the place of torch, is not installed; `make mindtorch` runs this"
pytest.importorskip("msadapter", reason=REASON)

import torch  # noqa: E402

pytestmark = [pytest.mark.mindspore, pytest.mark.mindtorch]


class Descent(torch.optim.Optimizer):
    """As the layer's own SGD, which takes parameters that a module made only."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self, closure=None):
        with torch.no_grad():
            for parameter in self.param_groups[0]["params"]:
                parameter.copy_(parameter - parameter.grad * 0.5)


def test_gradients_of_each_step_are_recorded(collecting):
    parameters = [torch.nn.Parameter(torch.zeros(2, 3)), torch.nn.Parameter(torch.zeros(4))]
    optimizer = Descent(parameters)
    debugger = collecting({"task": "grad_probe"})
    debugger.monitor(optimizer)
    rng = np.random.default_rng(0)
    for step in range(2):
        gradients = [rng.standard_normal(tuple(each.shape)).astype(np.float32) for each in parameters]
        before = [each.numpy().copy() for each in parameters]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = torch.tensor(gradient)
        optimizer.step()
        folder = debugger._settings.dump_path / "rank0"
        with open(folder / f"grad_summary_{step}.csv", encoding="utf-8-sig", newline="") as file:
            rows = {row["param_name"]: row for row in csv.DictReader(file)}
        assert list(rows) == ["group0.0", "group0.1"]
        for number, gradient in enumerate(gradients):
            assert float(rows[f"group0.{number}"]["max"]) == gradient.max()
            np.testing.assert_array_equal(np.load(folder / f"step{step}" / f"group0.{number}.npy"), gradient > 0)
            np.testing.assert_allclose(parameters[number].numpy(), before[number] - 0.5 * gradient, rtol=1e-6)


def test_a_model_is_refused_where_hooks_of_optimizers_are_not_called(collecting):
    debugger = collecting({"task": "grad_probe"})
    with pytest.raises(ValueError, match=r"pass the optimizer$"):
        debugger.monitor(torch.nn.Linear(2, 2))
