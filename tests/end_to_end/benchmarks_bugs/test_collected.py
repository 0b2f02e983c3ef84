"""A collected case holds the fault that it says, and nothing else."""

import json

import mindspore as ms
import numpy as np
import pytest

pytestmark = pytest.mark.mindspore


@pytest.fixture
def train(bench):
    import train

    ms.set_context(mode=ms.PYNATIVE_MODE)
    return train


def collected(train, out, task="tensor", inside=None, fault=None):
    job = {"net": "mlp", "seed": 0, "size": "small", "level": "mix", "steps": 1, "task": task, "out": str(out)}
    train.mindspore({**job, "inside": inside, "fault": fault})
    return out / "step0" / "rank"


def test_task_statistics_writes_the_records_of_task_tensor(train, tmp_path):
    import collect

    tensor, statistics = (collected(train, tmp_path / task, task) for task in ("tensor", "statistics"))
    assert json.loads((statistics / "dump.json").read_text())["data"] == collect.without_files(
        json.loads((tensor / "dump.json").read_text())["data"]
    )
    for name in ("construct.json", "stack.json"):
        assert (tensor / name).read_text() == (statistics / name).read_text()


def test_another_order_changes_no_record_but_in_its_last_bits(train, tmp_path):
    plain, other = collected(train, tmp_path / "a"), collected(train, tmp_path / "b", inside={"order": "shuffled"})
    files = sorted(path.name for path in (plain / "dump_tensor_data").iterdir())
    assert files == sorted(path.name for path in (other / "dump_tensor_data").iterdir())
    assert (plain / "construct.json").read_text() == (other / "construct.json").read_text()
    values = [[np.load(side / "dump_tensor_data" / name) for side in (plain, other)] for name in files]
    assert any((a != b).any() for a, b in values)
    for a, b in values:
        np.testing.assert_allclose(a, b, rtol=0, atol=3e-6 * max(1, float(np.abs(a).max(initial=0))))


def test_a_kernel_fault_is_in_the_call_that_it_names(train, tmp_path):
    effect = {"call": "Functional.gelu", "nth": 1, "effect": {"at": [0], "scale": 2}}
    plain, wrong = collected(train, tmp_path / "a"), collected(train, tmp_path / "b", fault={"kernel": effect})
    for name in ("Functional.gelu.1.forward.input.0.npy", "Functional.gelu.0.forward.output.0.npy"):
        a, b = (np.load(side / "dump_tensor_data" / name) for side in (plain, wrong))
        assert np.array_equal(a, b), name
    a, b = (np.load(s / "dump_tensor_data" / "Functional.gelu.1.forward.output.0.npy") for s in (plain, wrong))
    assert np.array_equal(b[0], a[0] * 2)
    assert np.array_equal(b[1:], a[1:])
