"""What is recorded as settings ask for it, and what they cannot ask for."""

import shutil
import zlib

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from small_model import Mlp, step  # beside this file, which is no package
from torch import nn

from msprobe.base import log
from msprobe.base.errors import SettingsError, UsageError
from msprobe.pytorch import PrecisionDebugger

pytestmark = pytest.mark.torch


def test_what_is_collected_follows_data_mode_list_scope_and_rank(collecting, dumped):
    def names(**section):
        debugger = collecting({"statistics": section}, level="mix")
        step(debugger, Mlp(), torch.ones(2, 4))
        return dumped(debugger).data

    assert all(".forward" in n for n in names(data_mode=["forward"]))
    backward = names(data_mode=["backward", "input"])
    assert all(set(e) == {"input"} for n, e in backward.items() if ".backward" in n)
    assert [n for n in names(list=["relu"]) if "relu" in n.lower()] == list(names(list=["relu"]))
    bounds = ["Module.act.ReLU.forward.0", "Module.act.ReLU.forward.0"]
    assert list(names(scope=bounds)) == ["Functional.relu.0.forward", "Module.act.ReLU.forward.0"]


def test_digests_files_and_names_alone_are_had_by_their_tasks(collecting, dumped):
    md5 = collecting({"statistics": {"summary_mode": "md5"}}, level="L0")
    step(md5, Mlp(), torch.ones(2, 4))
    digest = dumped(md5).data["Module.fc1.Linear.forward.0"]["input_args"][0]["md5"]
    assert digest == f"{zlib.crc32(np.ones((2, 4), np.float32)):08x}"
    other = collecting({"statistics": {"summary_mode": "crc32c"}}, level="L0")
    step(other, Mlp(), torch.ones(2, 4))
    found = dumped(other).data["Module.fc1.Linear.forward.0"]["input_args"][0]["md5"]
    assert found == "crc32c:ffae4059"  # of eight times 0000803f
    structure = collecting(level="L0", task="structure")
    step(structure, Mlp(), torch.ones(2, 4))
    assert not (dumped(structure).folder / "dump_tensor_data").exists()
    assert "Module.fc1.Linear.forward.0" in dumped(structure).construct
    tensor = collecting(level="L0", task="tensor")
    net = Mlp()
    step(tensor, net, torch.ones(2, 4))
    folder = dumped(tensor).folder / "dump_tensor_data"
    np.testing.assert_array_equal(
        np.load(folder / "Module.fc1.Linear.parameters_grad.weight.npy"), net.fc1.weight.grad.numpy()
    )
    np.testing.assert_array_equal(
        np.load(folder / "Module.fc2.Linear.forward.0.parameters.weight.npy"), net.fc2.weight.detach().numpy()
    )


def test_every_operation_is_had_by_dispatch_as_aten(collecting, dumped):
    debugger = collecting({"dispatch": True}, level="mix")
    debugger.start(Mlp())
    x = torch.ones(2, 3, requires_grad=True)
    F.cross_entropy(x, torch.tensor([0, 1])).backward()
    debugger.stop()
    debugger.step()
    dump = dumped(debugger)
    assert dump.construct["Aten._log_softmax.0.forward"] == "Functional.cross_entropy.0.forward"
    assert "Aten._log_softmax_backward_data.0.forward" in dump.data
    assert dump.construct["Aten._log_softmax_backward_data.0.forward"] is None


def test_what_this_framework_does_not_have_is_refused_at_construction(tmp_path):
    with pytest.raises(SettingsError, match='level: "L2" dumps kernels of MindSpore'):
        PrecisionDebugger(dump_path=str(tmp_path), level="L2")
    config = tmp_path / "config.json"
    config.write_text(f'{{"dump_path": "{tmp_path}", "level": "mix", "jit_cells": "split"}}')
    with pytest.raises(SettingsError, match="jit_cells"):
        PrecisionDebugger(str(config))
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L0")
    with pytest.raises(UsageError, match=r"must be a torch\.nn\.Module"):
        debugger.start(3)
    with pytest.raises(UsageError, match="cannot be None"):
        debugger.start()
    PrecisionDebugger._known.clear()


def test_tokens_are_counted_by_the_runs_of_the_model(collecting, dumped):
    debugger, net = collecting(level="L0"), Mlp()
    debugger.start(net, token_range=[1, 2])
    for i in range(4):
        net(torch.full((1, 4), float(i)))
    debugger.stop()
    debugger.step()
    data = dumped(debugger).data
    assert [data[f"Module.fc1.Linear.forward.{i}"]["input_args"][0]["Max"] for i in (0, 1)] == [1.0, 2.0]
    assert "Module.fc1.Linear.forward.2" not in data
    assert data["Module.fc1.Linear.forward.1"]["at"] == {"micro_step": 2}


def test_registered_functions_are_collected_until_they_are_restored(collecting, dumped):
    class Own:
        @staticmethod
        def twice(x):
            return torch.mul(x, 2)

    debugger, x = collecting(level="L1"), torch.ones(1)
    debugger.register_custom_api(Own, "twice", "Mine")
    debugger.start()
    Own.twice(x)
    debugger.stop()
    debugger.step()
    debugger.restore_custom_api(Own, "twice")
    debugger.start()
    Own.twice(x)
    debugger.stop()
    debugger.step()
    assert list(dumped(debugger).data) == ["Mine.twice.0.forward"]
    assert list(dumped(debugger, 1).data) == ["Torch.mul.0.forward"]


def test_names_of_a_golden_dump_choose_the_functions(collecting, dumped):
    x = torch.ones(2, 2)

    def run(debugger):
        debugger.start()
        F.normalize(x)
        debugger.stop()
        debugger.step()
        return list(dumped(debugger).data)

    golden = collecting(level="L1")
    golden.start()
    x.norm(2, 1)
    golden.stop()
    golden.step()
    assert run(collecting(level="L1")) == ["Functional.normalize.0.forward"]
    assert run(collecting({"names_from": str(golden._settings.dump_path)}, level="L1")) == ["Tensor.norm.0.forward"]


def test_a_model_that_holds_nothing_is_told_once_that_its_dump_is_empty(collecting, monkeypatch, capsys):
    monkeypatch.setattr(log, "_logged", set())
    debugger, x = collecting(level="L0"), torch.ones(2, 3)
    for model in (nn.Linear(3, 2), nn.Linear(3, 2), nn.Sequential(nn.Linear(3, 2))):
        debugger.start(model)
        model(x)
        debugger.stop()
        debugger.step()
    logged = capsys.readouterr().err
    assert logged.count("the dump will be empty") == 1
    assert "Linear contains none" in logged


@pytest.mark.parametrize("level", ["mix", "L1"])
def test_at_other_levels_such_a_model_has_its_functions(level, collecting, monkeypatch, capsys):
    monkeypatch.setattr(log, "_logged", set())
    debugger, model = collecting(level=level), nn.Linear(3, 2)
    debugger.start(model)
    model(torch.ones(2, 3))
    debugger.stop()
    assert "the dump will be empty" not in capsys.readouterr().err


def test_who_constructs_again_behind_the_last_step_reads_how_to_count_anew(tmp_path, capsys):
    def collect():
        debugger = PrecisionDebugger(dump_path=str(tmp_path / "dump"), level="L0", step=[0])
        step(debugger, Mlp(), torch.ones(2, 4))
        return debugger

    first = collect()
    capsys.readouterr()
    assert collect() is first
    assert "has collected its last step, 0; set_init_step(0) restarts the counting of steps" in capsys.readouterr().err
    assert not (tmp_path / "dump" / "run2").exists()
    first.set_init_step(0)
    collect()
    assert (tmp_path / "dump" / "run2" / "step0" / "rank" / "dump.json").exists()
    shutil.rmtree(tmp_path / "dump")
    first.set_init_step(0)
    collect()
    files = [*tmp_path.rglob("dump.json"), *tmp_path.rglob("run.jsonl")]
    found = sorted(str(path.relative_to(tmp_path)) for path in files)
    assert found == ["dump/run.jsonl", "dump/step0/rank/dump.json"], "who removed the folder begins at its front"
