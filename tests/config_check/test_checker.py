"""`ConfigChecker` in a process: what it refuses, what it survives, and that it puts everything back."""

import json
import os
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from msprobe.base import log, redaction
from msprobe.base.errors import UsageError
from msprobe.config_check import checker as module
from msprobe.config_check.random_calls import RandomCalls
from msprobe.core.config_check import ConfigChecker
from msprobe.frameworks.interface import random_functions

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """Counts of its own, nothing logged yet; checkers are closed, and functions restored."""
    calls = RandomCalls()
    monkeypatch.setattr(module, "_calls", calls)
    monkeypatch.setattr(log, "_logged", set())
    monkeypatch.setenv(redaction.SALT, "off")
    monkeypatch.setattr(module, "_checkers", {})
    yield
    calls.remove()
    for each in module._checkers.values():
        each.close()


def read(path):
    with zipfile.ZipFile(path) as held:
        return {name: held.read(name).decode() for name in held.namelist()}


def of_checkers():
    return {name: vars(owner)[name] for owner, name in
            ((random, "random"), (np.random, "rand"), (torch, "rand"), (torch, "manual_seed"))}  # fmt: skip


def test_wrong_arguments_are_refused_before_the_training(tmp_path):
    net = torch.nn.Linear(1, 1)
    for what, message in (
        (lambda: ConfigChecker(net, output_zip_path=tmp_path / "x.tar"), r"must end in \.zip"),
        (lambda: ConfigChecker(5, output_zip_path=tmp_path / "x.zip"), "must be a torch.nn.Module, not int"),
        (lambda: ConfigChecker(net, ["nope.sh"], tmp_path / "x.zip"), "nope.sh: cannot be read"),
        (
            lambda: ConfigChecker(fmk="tensorflow", output_zip_path=tmp_path / "x.zip"),
            "choose one of mindspore, pytorch",
        ),
        (lambda: ConfigChecker.apply_patches("x"), "choose one of mindspore, pytorch"),
        (lambda: ConfigChecker(net, output_zip_path="/dev/null/x.zip"), "cannot be written"),
    ):
        with pytest.raises(UsageError, match=message):
            what()
    assert not list(tmp_path.glob("*.zip"))
    assert not net._forward_pre_hooks


def test_without_a_model_there_is_what_needs_none(tmp_path):
    ConfigChecker(output_zip_path=tmp_path / "x.zip")
    assert set(read(tmp_path / "x.zip")) == {"pack.json", "env", "pip"}


def test_wrappers_are_the_functions_themselves_again_after_the_first_forward(tmp_path):
    before = of_checkers()
    ConfigChecker.apply_patches("pytorch")
    during = of_checkers()
    assert all(during[name] is not before[name] for name in before)
    assert torch.rand(2).shape == (2,)
    net = torch.nn.Linear(2, 1)
    ConfigChecker(net, output_zip_path=tmp_path / "x.zip")
    net(torch.ones(1, 2))
    assert of_checkers() == before
    held = json.loads(read(tmp_path / "x.zip")["random/rank0.json"])
    assert [site["count"] for site in held["torch.rand"]] == [1]
    during["rand"](2)  # imported by name in between: passes through


@pytest.mark.parametrize("seed", [0, 7])
def test_every_counted_function_gives_the_same_and_leaves_the_same_generator(seed):
    draws = (
        lambda: random.random(), lambda: random.randint(0, 99), lambda: random.uniform(0, 1),
        lambda: random.choice("abc"), lambda: random.sample(range(9), 3), lambda: random.gauss(0, 1),
        lambda: np.random.rand(3).tolist(), lambda: np.random.randint(9, size=3).tolist(),
        lambda: np.random.choice(9), lambda: np.random.normal(size=2).tolist(),
        lambda: np.random.permutation(5).tolist(), lambda: torch.rand(3).tolist(),
        lambda: torch.randint(9, (3,)).tolist(), lambda: torch.randn(2, generator=None).tolist(),
        lambda: torch.rand_like(torch.ones(2)).tolist(), lambda: torch.empty(2).exponential_(2.0).tolist(),
        lambda: torch.empty(2).geometric_(0.5).tolist(), lambda: torch.empty(2).log_normal_().tolist(),
        lambda: torch.empty(2).cauchy_().tolist(), lambda: torch.nn.functional.dropout(torch.ones(9)).tolist(),
        lambda: torch.randperm(5).tolist(), lambda: torch.normal(0.0, 1.0, (2,)).tolist(),
    )  # fmt: skip

    def state():
        return random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()

    def run():
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        drawn = [(draw(), state()) for draw in draws]
        return drawn

    plain = run()
    ConfigChecker.apply_patches("pytorch")
    assert run() == plain
    counts = {op: sum(site["count"] for site in sites) for op, sites in module._calls.found(redaction.source).items()}
    assert len(counts) == len(draws) + 3
    assert set(counts.values()) == {1}


def test_a_compiler_reads_through_the_wrappers():
    ConfigChecker.apply_patches("pytorch")
    compiled = torch.compile(lambda x: x + torch.rand(2), fullgraph=True, backend="eager")
    assert compiled(torch.ones(2)).shape == (2,)


def test_the_hook_of_a_compiled_model_breaks_no_graph(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(2, 1))
    ConfigChecker(net, output_zip_path=tmp_path / "x.zip")
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    assert compiled(torch.ones(1, 2)).shape == (1, 1)
    ConfigChecker(compiled, output_zip_path=tmp_path / "y.zip")
    compiled(torch.ones(1, 2))


def test_inputs_that_are_anything_are_described_and_passed_on(tmp_path):
    class Net(torch.nn.Module):
        def forward(self, *args, **kwargs):
            return args, kwargs

    class Odd(dict):
        def items(self):
            raise RuntimeError("no")

    net = Net()
    itself = [1]
    itself.append(itself)
    args = (
        torch.ones(0),
        torch.tensor([True, False]),
        itself,
        Odd(a=torch.ones(1)),
        None,
        "x",
        torch.tensor(float("nan")),
    )
    ConfigChecker([net], output_zip_path=tmp_path / "x.zip")
    seen, _ = net(*args, key={"a.b": torch.arange(3), 5: (torch.ones(1),)})
    assert all(one is other for one, other in zip(seen, args, strict=True))
    held = json.loads(read(tmp_path / "x.zip")["dataset/step0/rank0/dataset.json"])
    assert held["args"]["0"] == ""
    assert held["args"]["1"] == {"max": True, "min": False, "mean": 1, "norm": 1}
    assert held["args"]["3"]["a"] == {"max": 1.0, "min": 1.0, "mean": 1.0, "norm": 1.0}
    assert (held["args"]["4"], held["args"]["5"]) == ("", "")
    assert held["args"]["6"]["max"] != held["args"]["6"]["max"]
    assert held["kwargs"]["key"]["a.b"] == {"max": 2, "min": 0, "mean": 1.0, "norm": pytest.approx(5**0.5)}
    assert held["kwargs"]["key"]["5"]["0"]["max"] == 1.0


def test_a_disk_that_is_gone_ends_the_checker_and_not_the_training(tmp_path, capsys):
    folder = tmp_path / "gone"
    net = torch.nn.Linear(2, 1)
    ConfigChecker(net, output_zip_path=folder / "x.zip")
    net(torch.ones(1, 2))
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    folder.rmdir()
    folder.write_text("a file in the way")
    for _ in range(3):
        assert net(torch.ones(1, 2)).shape == (1, 1)
    lines = [line for line in capsys.readouterr().err.splitlines() if "collection ends" in line]
    assert len(lines) == 1
    assert not net._forward_pre_hooks


def test_a_child_of_the_process_collects_nothing(tmp_path):
    net = torch.nn.Linear(2, 1)
    ConfigChecker(net, output_zip_path=tmp_path / "x.zip")
    if (child := os.fork()) == 0:
        net._forward_pre_hooks[next(iter(net._forward_pre_hooks))](net, (torch.ones(1, 2),), {})
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert "dataset/step0/rank0/dataset.json" not in read(tmp_path / "x.zip")


def test_a_long_training_makes_the_zip_seldom_and_has_all_at_the_end(tmp_path, monkeypatch):
    made = []
    pack = module.PackWriter.pack
    monkeypatch.setattr(module.PackWriter, "pack", lambda self: (made.append(0), pack(self)))
    net = torch.nn.Linear(2, 1)
    one = ConfigChecker(net, output_zip_path=tmp_path / "x.zip")
    for _ in range(400):
        net(torch.ones(1, 2))
    assert len(made) < 80
    one.close()
    names = read(tmp_path / "x.zip")
    assert "dataset/step399/rank0/dataset.json" in names
    assert len(names) == 4 + 800 + 1
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]


def test_a_second_checker_of_the_same_pack_begins_anew(tmp_path):
    net = torch.nn.Linear(2, 1)
    for _ in range(2):
        ConfigChecker(net, output_zip_path=tmp_path / "x.zip")
        net(torch.ones(1, 2))
        net(torch.ones(1, 2))
    assert len(net._forward_pre_hooks) == 1
    names = set(read(tmp_path / "x.zip"))
    assert {name for name in names if name.startswith("dataset")} == {
        f"dataset/step{n}/rank0/dataset.json" for n in range(2)
    }


def test_arguments_of_a_trainer_are_packed_without_secrets(tmp_path, monkeypatch):
    from argparse import Namespace
    from types import ModuleType

    trainer = ModuleType("megatron.training.global_vars")
    trainer.get_args = lambda: Namespace(lr=0.1, layers=[1, 2], hf_token="swordfish", dtype=torch.float16, none=None)
    monkeypatch.setitem(__import__("sys").modules, "megatron.training.global_vars", trainer)
    net = torch.nn.Linear(2, 1)
    ConfigChecker(net, output_zip_path=tmp_path / "x.zip")
    net(torch.ones(1, 2))
    held = json.loads(read(tmp_path / "x.zip")["hyperparameters/hyperparameters_dynamic.json"])
    assert held == {"dtype": "torch.float16", "hf_token": "<redacted>", "layers": [1, 2], "lr": 0.1, "none": None}


def test_objects_among_the_arguments_of_a_trainer_are_equal_in_two_runs(tmp_path, monkeypatch):
    """A function, an object and a partial: their addresses are neither packed nor a difference."""
    from argparse import Namespace
    from functools import partial
    from types import ModuleType

    def made():
        def init(x):
            return x

        return Namespace(init=init, hooks=[partial(init, 1), object()])

    trainer, runs = ModuleType("megatron.training.global_vars"), [made(), made()]
    monkeypatch.setitem(__import__("sys").modules, "megatron.training.global_vars", trainer)
    net = torch.nn.Linear(2, 1)
    for name, args in zip("ab", runs, strict=True):
        trainer.get_args = lambda args=args: args
        ConfigChecker(net, output_zip_path=tmp_path / f"{name}.zip")
        net(torch.ones(1, 2))
    held, other = (read(tmp_path / f"{n}.zip")["hyperparameters/hyperparameters_dynamic.json"] for n in "ab")
    assert held == other
    assert "0x" not in str(held)
    assert json.loads(held)["hooks"][1] == "<object object>"


def test_a_function_that_is_not_there_is_left_out():
    calls = RandomCalls()
    calls.install(random_functions("torch", ("no_such_function",)) + random_functions("torch:NoSuchClass", ("x",)))
    try:
        assert "torch.no_such_function" not in calls.ops
        assert "torch.NoSuchClass.x" not in calls.ops
    finally:
        calls.remove()


def test_code_with_a_secret_is_not_in_a_stack():
    ConfigChecker.apply_patches("pytorch")
    secret, _ = "password=swordfish", random.random()
    (site,) = module._calls.found(redaction.source)["random.random"]
    assert site["stack"][-1].endswith(', secret, _ = "password=<redacted>", random.random()')
    assert secret.partition("=")[2] not in str(site)
    assert Path(site["stack"][-1].split(", line")[0].removeprefix("File ")) == Path(__file__)
