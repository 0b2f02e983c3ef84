"""The settings of level L2, which is of kernels, and those that have no effect at the other levels."""

import json

import pytest

from msprobe.base.settings import load


@pytest.mark.parametrize("task", ["statistics", "tensor", "overflow_check", "exception_dump"])
def test_kernels_are_collected_at_level_L2(task):
    assert load(task=task, level="L2").task == task


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("task", ["overflow_check", "exception_dump"])
def test_these_tasks_are_of_calls_as_well(task, level):
    assert load(task=task, level=level).level == level


KERNELS_WRONG = [
    ({"scope": ["a", "b"]}, "scope", 'level "L2" does not support scope', 'select kernels with "list"'),
    ({"list": ["name-regex(.*[)"]}, "list", "is not a valid regular expression", "correct it"),
    ({"data_mode": ["forward"]}, "data_mode", "does not distinguish forward and backward", '["input"]'),
    ({"data_mode": ["backward", "output"]}, "data_mode", "does not distinguish forward and backward", '["output"]'),
]


@pytest.mark.parametrize(
    ("contents", "key", "what", "remedy"), KERNELS_WRONG, ids=[json.dumps(r[0]) for r in KERNELS_WRONG]
)
def test_what_kernels_do_not_have_is_refused(config, contents, key, what, remedy, refusal):
    path = config(level="L2", statistics=contents)
    message = refusal(path)
    assert message.startswith(f"{path}, statistics.{key}: ")
    assert what in message
    assert remedy in message


def test_settings_of_kernel_dumps_have_their_effect_at_level_L2(config, notes):
    contents = {"device": "device", "precision": "low", "summary_mode": ["max", "mean"]}
    settings = load(config(level="L2", statistics=contents))
    assert notes() == []
    described = settings.described()["statistics"]
    assert {key: described[key] for key in contents} == contents
    load(config(level="L2", task="tensor", tensor={"file_format": "bin"}))
    assert notes() == []


def test_waiting_in_memory_is_not_said_of_kernels_which_the_framework_writes(config, notes):
    load(config(level="L2", async_dump=True))
    assert notes() == []


# Known, and without effect

INERT = [
    ({"enable_dataloader": True}, "enable_dataloader"),
    ({"dump_enable": True}, "dump_enable"),
    ({"dump_enable": False}, "dump_enable"),
    ({"risk_level": "ALL"}, "risk_level"),
    ({"custom_op_namespaces": ["ns"]}, "custom_op_namespaces"),
    ({"statistics": {"device": "device"}}, "statistics.device"),
    ({"statistics": {"precision": "low"}}, "statistics.precision"),
    ({"statistics": {"summary_mode": ["max", "l2norm"]}}, "statistics.summary_mode"),
    ({"task": "tensor", "tensor": {"file_format": "bin"}}, "tensor.file_format"),
    ({"task": "tensor", "tensor": {"backward_input": ["a.npy"]}}, "tensor.backward_input"),
    ({"task": "tensor", "tensor": {"online_run_ut": True}}, "tensor.online_run_ut"),
    ({"task": "tensor", "tensor": {"port": 8888}}, "tensor.port"),
]


@pytest.mark.parametrize(("contents", "where"), INERT, ids=[json.dumps(row[0]) for row in INERT])
def test_a_setting_without_effect_is_noted_once(config, notes, contents, where):
    path = config(**contents)
    load(path)
    load(path)
    (line,) = notes()
    assert line.startswith(f"msprobe WARNING: {path}, {where}: the setting has no effect here, ")


def test_settings_at_their_default_are_not_noted(config, notes):
    nothing = {
        "online_run_ut": False,
        "nfs_path": "",
        "host": "",
        "port": -1,
        "backward_input": [],
        "file_format": "npy",
    }
    load(config(task="tensor", enable_dataloader=False, risk_level="FOCUS", custom_op_namespaces=[], tensor=nothing))
    load(config(precision="high", statistics={"device": "host", "precision": "high", "summary_mode": "statistics"}))
    load(config(precision="low"))
    assert notes() == []
