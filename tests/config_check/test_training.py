"""Real trainings that pack their configuration: what is in the pack, and that the training stays what it was."""

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from preloaded import python

from msprobe.cli import main

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

SCRIPT = Path(__file__).parents[1] / "training" / "packed.py"
FRAMEWORKS = ("mindspore", "pytorch")
MODULES = {"mindspore": ("mindspore",), "pytorch": ("torch", "torch._dynamo")}


def train(framework, folder, how, code=0, **environment):
    (folder / "train.sh").write_text("msrun --worker_num=2 packed.py --lr 0.1\n")
    variables = {**os.environ, "GLOG_v": "3", "SOME_PASSWORD": "swordfish", **environment}
    done = subprocess.run(
        [python(*MODULES[framework]), SCRIPT, framework, folder, how],
        capture_output=True,
        text=True,
        env=variables,
        check=False,
    )
    assert done.returncode == code, done.stderr[-3000:]
    return done.stderr


def read(path):
    with zipfile.ZipFile(path) as held:
        assert held.testzip() is None
        return {name: held.read(name).decode() for name in held.namelist()}


@pytest.fixture(scope="module", params=FRAMEWORKS)
def trained(request, tmp_path_factory):
    """A framework, and the folder where it trained, with the checker and without."""
    folder = tmp_path_factory.mktemp(request.param)
    logged = train(request.param, folder, "pack")
    train(request.param, folder, "plain")
    assert "msprobe" not in logged
    return request.param, folder


STATIC = {"pack.json", "env", "pip", "hyperparameters/hyperparameters_static.json"}
OF_STEPS = {f"{kind}/step{n}/rank0/{file}.json" for n in range(3) for kind, file in
            (("dataset", "dataset"), ("weights", "weight"))}  # fmt: skip


def test_a_pack_has_the_entries_of_the_format_and_nothing_is_left_beside_it(trained):
    _, folder = trained
    assert set(read(folder / "pack.zip")) == {*STATIC, *OF_STEPS, "context", "random/rank0.json"}
    assert sorted(path.name for path in folder.iterdir()) == ["pack.zip", "pack0.json", "plain0.json", "train.sh"]


def test_numbers_generators_and_weights_are_the_same_with_the_checker_and_without(trained):
    _, folder = trained
    bits = [json.loads((folder / f"{how}0.json").read_text()) for how in ("pack", "plain")]
    assert len(bits[0]) > 15
    assert bits[0] == bits[1]


def test_no_secret_is_in_the_pack(trained):
    _, folder = trained
    held = read(folder / "pack.zip")
    assert json.loads(held["env"])["SOME_PASSWORD"].startswith("<redacted")
    assert "swordfish" not in str(held)


def test_inputs_and_weights_are_described_by_their_statistics(trained):
    framework, folder = trained
    held = read(folder / "pack.zip")
    inputs = json.loads(held["dataset/step0/rank0/dataset.json"])
    assert set(inputs) == {"args", "kwargs"}
    assert set(inputs["args"]["0"]) == {"max", "min", "mean", "norm"}
    if framework == "mindspore":
        scale = inputs["kwargs"]["scale"]
        assert scale == {"max": 2.0, "min": 1.0, "mean": 1.5, "norm": pytest.approx(5**0.5, rel=1e-12)}
    weights = [json.loads(held[f"weights/step{n}/rank0/weight.json"]) for n in range(3)]
    names = {"mindspore": ["fc.weight", "fc.bias", "norm.gamma", "norm.beta"], "pytorch": ["0.weight", "0.bias"]}
    assert list(weights[0]) == names[framework]
    assert weights[0] != weights[1] != weights[2], "before each forward anew"


def test_random_calls_are_counted_until_the_first_forward(trained):
    framework, folder = trained
    held = json.loads(read(folder / "pack.zip")["random/rank0.json"])
    draw = {"mindspore": "mindspore.ops.randn", "pytorch": "torch.randn"}[framework]
    ((site),) = held[draw]
    assert site["count"] == 1
    assert site["stack"][-1].startswith(f"File {SCRIPT}, line ")
    assert ", in train, x = " in site["stack"][-1]
    assert ", in <module>, " in site["stack"][0]
    assert "config_check" not in str(held), "no frame is ours"
    if framework == "pytorch":
        assert held["torch.Tensor.exponential_"][0]["count"] == 1
        assert "torch.cuda.manual_seed_all" not in held, "what torch calls by itself inside of manual_seed"
    seeds = {"mindspore": "mindspore.set_seed", "pytorch": "torch.manual_seed"}
    assert [site["count"] for op in ("random.seed", "np.random.seed", seeds[framework]) for site in held[op]] == [1] * 3


def test_the_settings_of_the_framework_are_packed(trained):
    framework, folder = trained
    found = json.loads(read(folder / "pack.zip")["context"])
    assert found["framework"] == framework
    if framework == "mindspore":
        assert (found["mode"], found["deterministic"], found["device_target"]) == ("PYNATIVE", "OFF", "CPU")
    else:
        assert (found["default_dtype"], found["deterministic_algorithms"]) == ("torch.float32", False)


def test_two_equal_trainings_pass_and_another_variable_is_named(trained, tmp_path, capsys):
    framework, folder = trained
    train(framework, tmp_path, "pack")
    command = ["config_check", "-c", str(folder / "pack.zip"), str(tmp_path / "pack.zip"), "-o", str(tmp_path / "out")]
    assert main(command) == 0, capsys.readouterr().out
    train(framework, tmp_path, "pack", NCCL_ALGO="Ring")
    capsys.readouterr()
    assert main(command) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("error: env: NCCL_ALGO: None | Ring")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_killed_training_leaves_a_whole_pack(framework, tmp_path):
    train(framework, tmp_path, "killed", code=-9)
    names = set(read(tmp_path / "killed.zip"))
    assert names == {*STATIC, *(name for name in OF_STEPS if "step2" not in name), "context", "random/rank0.json"}
    # the next run starts anew
    train(framework, tmp_path, "killed", code=-9, NCCL_ALGO="Ring")
    held = read(tmp_path / "killed.zip")
    assert set(held) == names
    assert json.loads(held["env"])["NCCL_ALGO"] == "Ring"


def test_a_model_of_graph_mode_is_seen_where_python_calls_it(tmp_path):
    code = (
        "import sys, numpy as np, mindspore as ms\n"
        "from mindspore import nn\n"
        "from msprobe.core.config_check import ConfigChecker\n"
        "ms.set_context(mode=ms.GRAPH_MODE, jit_level='O1')\n"
        "net = nn.Dense(4, 2)\n"
        "ConfigChecker(net, output_zip_path=sys.argv[1])\n"
        "for n in range(2): net(ms.Tensor(np.ones((1, 4), np.float32)))\n"
    )
    done = subprocess.run(
        [python("mindspore"), "-c", code, tmp_path / "g.zip"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    held = read(tmp_path / "g.zip")
    assert "dataset/step1/rank0/dataset.json" in held
    assert json.loads(held["pack.json"])["framework"] == "mindspore", "by the model"
    found = json.loads(held["context"])
    assert (found["mode"], found["jit_level"]) == ("GRAPH", "O1")


@pytest.mark.turns("ranks", 2)
def test_ranks_pack_into_one_zip(tmp_path, msrun):
    pytest.importorskip("mindspore")
    (tmp_path / "train.sh").write_text("msrun --lr 0.1 t.py\n")
    msrun(SCRIPT, "mindspore", tmp_path, "pack", folder=tmp_path)
    held = read(tmp_path / "pack.zip")
    of_ranks = {name.replace("rank0", f"rank{rank}") for name in OF_STEPS for rank in range(2)}
    assert set(held) == {*STATIC, *of_ranks, "context", "random/rank0.json", "random/rank1.json"}
    scales = [json.loads(held[f"dataset/step0/rank{rank}/dataset.json"])["kwargs"]["scale"]["max"] for rank in range(2)]
    assert scales == [2.0, 4.0]
    assert not (tmp_path / "pack.zip.parts").exists()
