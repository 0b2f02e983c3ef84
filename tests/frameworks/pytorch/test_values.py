"""What a step's dump says of tensors: their values, those of gradients, and each call's own contribution to them."""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_model import Mlp, step  # beside this file, which is no package
from torch import nn

from msprobe.compare.core.reason import Cause
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.run import compare
from msprobe.store.reader import read

pytestmark = pytest.mark.torch


def test_records_hold_what_numpy_makes_of_the_tensors(collecting, dumped):
    debugger, net = collecting(level="mix"), Mlp()
    x = torch.linspace(-1, 2, 8).view(2, 4)
    out = step(debugger, net, x)
    data = dumped(debugger).data
    linear = data["Functional.linear.0.forward"]
    record = linear["input_args"][0]
    assert (record["type"], record["dtype"], record["shape"]) == ("torch.Tensor", "torch.float32", [2, 4])
    values = x.numpy().astype(np.float64)
    assert record["Max"] == values.max()
    assert record["Min"] == values.min()
    assert record["Mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert record["Norm"] == pytest.approx(np.linalg.norm(values), rel=1e-12)
    assert linear["input_args"][1]["from"] == "parameter fc1.weight"
    assert data["Functional.relu.0.forward"]["input_args"][0]["from"] == "call Functional.linear.0.forward.output.0"
    module = data["Module.fc2.Linear.forward.0"]
    assert set(module["parameters"]) == {"weight"}
    assert module["output"][0]["Max"] == out.max().item()
    grads = data["Module.fc1.Linear.parameters_grad"]
    assert grads["weight"][0]["Max"] == net.fc1.weight.grad.max().item()
    assert data["Functional.linear.1.backward"]["output"][1]["Min"] == net.fc2.weight.grad.min().item()


def test_values_and_indices_are_two_results(collecting, dumped):
    """As msprobe lists them, and as MindSpore's functions, which give a plain tuple, are listed."""
    debugger, x = collecting(level="L1"), torch.tensor([[1.0, 5.0], [4.0, 2.0]], requires_grad=True)
    debugger.start()
    found = torch.max(x, dim=1)
    found.values.sum().backward()
    debugger.stop()
    debugger.step()
    data = dumped(debugger).data
    output = data["Torch.max.0.forward"]["output"]
    assert [(o["dtype"], o["Max"], o["Min"]) for o in output] == [("torch.float32", 5.0, 4.0), ("torch.int64", 1, 0)]
    assert [g["Max"] for g in data["Torch.max.0.backward"]["input"] if g is not None] == [1.0]


@pytest.mark.parametrize(
    ("dtype", "letter"),
    [
        *(("float32", "f4"), ("float64", "f8"), ("float16", "f2"), ("bfloat16", "f4"), ("int64", "i8"), ("int8", "i1")),
        *(("uint8", "u1"), ("bool", "?"), ("complex64", "c8"), ("float8_e5m2", "f4"), ("int16", "i2")),
    ],
)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
def test_every_dtype_and_layout_is_read(dtype, letter, layout, collecting, dumped):
    whole = torch.arange(12).view(3, 4).to(getattr(torch, dtype))
    tensor = {"contiguous": whole, "transposed": whole.t(), "sliced": whole[1:]}[layout]
    debugger = collecting(level="L1", task="tensor")
    debugger.start()
    torch.clone(tensor)
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    record = dump.data["Torch.clone.0.forward"]["input_args"][0]
    assert (record["dtype"], record["shape"]) == (f"torch.{dtype}", list(tensor.shape))
    expected = tensor.to(torch.float32).numpy() if letter == "f4" else tensor.numpy()
    saved = np.load(dump.folder / "dump_tensor_data" / record["data_name"])
    assert saved.dtype == np.dtype(letter)
    np.testing.assert_array_equal(saved, expected)
    if dtype not in ("bool", "complex64"):
        assert (record["Max"], record["Min"]) == (expected.max(), expected.min())


def test_views_with_lazy_signs_and_tensors_without_storage_are_not_read_as_they_lie(collecting, dumped):
    imaginary = torch.view_as_real(torch.ones(3, dtype=torch.complex64) * 1j).view(3, 2)
    negative = torch.complex(torch.zeros(3), torch.ones(3)).conj().imag  # minus one, by a bit on the view
    assert negative.is_neg()
    freed = torch.ones(8)[2:]
    freed.untyped_storage().resize_(0)
    debugger = collecting(level="L1")
    debugger.start()
    torch.add(imaginary, 0)
    torch.add(negative, 0)
    debugger.stop()
    step = debugger._collectors.session
    step.describer.tensor(freed, "call", "input.0")
    step.describer.tensor(torch.empty(3, device="meta"), "call", "input.1")
    debugger.step()
    dump = dumped(debugger)
    assert dump.data["Torch.add.1.forward"]["input_args"][0]["Max"] == -1.0
    assert [m["part"] for m in dump.missing if m["name"] == "call"] == ["input.0", "input.1"]


def test_a_call_contributes_its_own_part_to_a_gradient_of_several_users(collecting, dumped):
    debugger = collecting(level="L1")
    x = torch.full((2,), 3.0, requires_grad=True)
    debugger.start()
    y = torch.mul(x, 2)
    a, b = torch.mul(y, 5), torch.mul(y, 7)
    (a + b).sum().backward()
    debugger.stop()
    debugger.step()
    data = dumped(debugger).data
    assert data["Torch.mul.1.backward"]["output"][0]["Max"] == 5.0
    assert data["Torch.mul.2.backward"]["output"][0]["Max"] == 7.0
    assert data["Torch.mul.0.backward"]["input"][0]["Max"] == 12.0, "what came in is the sum"
    assert "gradient" not in data["Torch.mul.1.backward"]["output"][0]
    assert x.grad.tolist() == [24.0, 24.0]


def test_the_gradient_of_a_function_of_several_nodes_is_that_of_its_argument(collecting, dumped):
    """The softmax and the likelihood are two nodes: what leaves the function is the gradient of its logits."""
    debugger = collecting(level="L1")
    logits = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    debugger.start()
    F.cross_entropy(logits, torch.tensor([0])).backward()
    debugger.stop()
    debugger.step()
    record = dumped(debugger).data["Functional.cross_entropy.0.backward"]["output"][0]
    wanted = np.exp([1.0, 2, 3]) / np.exp([1.0, 2, 3]).sum() - [1, 0, 0]
    assert record["Min"] == pytest.approx(wanted.min(), rel=1e-6)
    assert record["Norm"] == pytest.approx(np.linalg.norm(wanted), rel=1e-6)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(2, 2, bias=False)

    def forward(self, x):
        return self.shared(self.shared(x))


def test_a_module_that_is_called_twice_has_two_numbers_and_a_part_of_its_weights_gradient_in_each(collecting, dumped):
    debugger, net = collecting(level="mix"), Twice()
    step(debugger, net, torch.ones(1, 2), loss=torch.sum)
    data = dumped(debugger).data
    parts = [data[f"Functional.linear.{i}.backward"]["output"][1]["Mean"] for i in (0, 1)]
    assert sum(parts) == pytest.approx(net.shared.weight.grad.double().mean().item(), rel=1e-6)
    assert data["Module.shared.Linear.parameters_grad"]["weight"][0]["Mean"] == pytest.approx(sum(parts), rel=1e-6)
    assert [n for n in data if n.startswith("Module.shared.Linear.backward")] == [
        *("Module.shared.Linear.backward.1", "Module.shared.Linear.backward.0")
    ]


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclasses.dataclass
class Made:
    value: torch.Tensor
    n: int


class Gives(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x, *, y=None):
        return self.make(x * 2)


class Outer(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.inner = Gives(make)

    def forward(self, x):
        return self.inner(x, y={"deep": [x]})


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda v: {"a": v, "n": 3}, {"a": "t", "n": "n"}),
        (lambda v: Pair(v, v.sin()), ["t", "t"]),
        (lambda v: [v, (v, None)], [["t", ["t", None]]]),
        (lambda v: Made(v, 3), [{"value": "t", "n": "n"}]),
        (lambda v: v, ["t"]),
    ],
)
def test_results_of_every_shape_are_recorded(make, shape, collecting, dumped):
    debugger = collecting(level="L0")
    step(debugger, Outer(make), torch.ones(2, requires_grad=True), loss=None)
    entry = dumped(debugger).data["Module.inner.Gives.forward.0"]

    def outline(value):
        if isinstance(value, list):
            return [outline(v) for v in value]
        if value is None or "type" not in value:
            return value and {k: outline(v) for k, v in value.items()}
        return "t" if value["type"] == "torch.Tensor" else "n"

    found = outline(entry["output"])
    assert found == ([shape] if isinstance(shape, dict) else shape) or found == [{"left": "t", "right": "t"}], (
        "a named tuple goes by its names"
    )
    assert outline(entry["input_kwargs"]) == {"y": {"deep": ["t"]}}


def test_the_condition_number_of_a_matrix_is_recorded(collecting, dumped):
    debugger, matrix = collecting(level="L1"), torch.diag(torch.tensor([4.0, 2.0]))
    debugger.start()
    torch.linalg.cond(matrix)
    debugger.stop()
    debugger.step()
    (name,) = dumped(debugger).data
    assert name == "Torch.cond.0.forward"
    assert dumped(debugger).data[name]["output"][0]["Max"] == 2.0


def test_the_gradient_of_a_tensor_that_is_given_back_twice_counts_once(collecting, dumped):
    class Twice(nn.Module):
        def forward(self, x):
            return x, x

    net = nn.ModuleDict({"twice": Twice()})
    debugger, x = collecting(level="L0"), torch.ones(2, requires_grad=True)
    debugger.start(net)
    first, second = net["twice"](x * 1)
    (first + 2 * second).sum().backward()
    debugger.stop()
    debugger.step()
    backward = dumped(debugger).data["Module.twice.Twice.backward.0"]
    assert [record["Max"] for record in backward["input"]] == [3.0, 3.0]
    assert backward["output"][0]["Max"] == 3.0


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_storage_that_was_read_can_be_resized_as_before(task, collecting, dumped):
    """Sharded trainings set the storage of a parameter free between its uses; numpy's way in would forbid that."""
    kinds = [torch.arange(12.0).view(3, 4).t(), torch.ones(3, dtype=torch.bool), torch.empty(0, 3)]
    kinds += [torch.ones(2, dtype=torch.complex64).conj(), torch.ones(2, dtype=torch.float64)]
    debugger = collecting({"task": task, task: {}}, level="mix")
    net = nn.Sequential(nn.Linear(4, 2), nn.Identity())
    debugger.start(net)
    net(torch.ones(1, 4)).sum().backward()
    for tensor in kinds:
        net[1](tensor)
    debugger.save(kinds[0], "by_hand")
    debugger.stop()
    debugger.step()
    data = dumped(debugger).data
    assert [data[f"Module.1.Identity.forward.{i}"]["output"][0]["Max"] for i in (1, 2)] == [11.0, True]
    for tensor in (*kinds, *net.parameters(), *(p.grad for p in net.parameters())):
        storage = tensor.untyped_storage()
        size = storage.nbytes()
        storage.resize_(size + 16)  # RuntimeError: Trying to resize storage that is not resizable
        assert storage.nbytes() == size + 16


class Unreadable(nn.Module):
    """Sparse gradients, and tensors as functorch wraps them, which numpy does not take."""

    def __init__(self):
        super().__init__()
        self.table, self.fc = nn.Embedding(4, 3, sparse=True), nn.Linear(3, 2)

    def forward(self, x):
        y = self.fc(self.table(x))
        return y.sum() + torch.vmap(lambda row: self.fc(row))(torch.ones(2, 3)).sum()


def test_what_cannot_be_read_on_either_side_is_not_equal(collecting, dumped):
    """Each null that the dump names is unjudged, every other pair passes, and the comparison is not clean."""
    sides = []
    for _ in range(2):
        torch.manual_seed(0)
        debugger = collecting(level="mix")
        step(debugger, Unreadable(), torch.tensor([1, 2]))
        sides.append(dumped(debugger))
    lost = {(item["name"], item["part"]) for item in sides[0].missing}
    assert ("Module.table.Embedding.parameters_grad", "weight") in lost
    assert any(".forward" in name for name, _ in lost), "what functorch wraps"
    found = compare(*(read(side.folder) for side in sides))
    unjudged = [found.judged(row) for row in range(len(found.grades)) if GRADES[found.grades[row]] != "pass"]
    within = {judged.pair.record.name for judged in unjudged if judged.verdict.cause is Cause.LOST_WITHIN}
    functions = {(name, part) for name, part in lost if ".forward" in name and not name.startswith("Module.")}
    assert within == {f"{name}.{part}" for name, part in functions}, "what follows is compared"
    others = {judged.verdict.cause for judged in unjudged if judged.pair.record.name not in within}
    assert others == {Cause.LOST_ON_BOTH_SIDES}
    # A record of a parameter's gradient is named after its path alone, every other one with its part too.
    assert {judged.pair.record.name for judged in unjudged} == {f"{name}.{part}" for name, part in lost}
    assert not found.is_clean
