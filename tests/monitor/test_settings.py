"""The configuration files of both monitors: what is accepted, and what is refused before the training begins.

Needs no framework. That each key has its effect is shown where the effect is tested.
"""

import json
import re
from dataclasses import fields

import pytest

from msprobe.base.errors import SettingsError
from msprobe.monitor import sectioned_settings, settings
from msprobe.monitor.sectioned_settings import SectionedSettings
from msprobe.monitor.settings import Collectives, MonitorSettings, OnAlert

DEFAULTS = {
    **{"targets": (), "xy_distribution": False, "all_xy": False, "forward_only": False, "backward_only": False},
    **{"wg_distribution": False, "monitor_mbs_grad": False, "mv_distribution": False, "param_distribution": False},
    **{"mg_direction": False, "ur_distribution": False, "stack_info": False, "print_struct": False, "ops": ("norm",)},
    **{"eps": 1e-8, "format": "csv", "ndigits": 6, "step_count_per_record": 1, "start_step": 0, "step_interval": 1},
    **{"collect_times": 10**8, "module_ranks": (), "append_output": None, "dynamic_on": False, "on_alert": None},
}
"""As the specification has them."""


@pytest.fixture
def loaded(tmp_path):
    """Loads a configuration: `loaded(contents, module)`."""

    def load(contents, module=settings):
        path = tmp_path / "monitor.json"
        path.write_text(contents if isinstance(contents, str) else json.dumps(contents))
        return module.load(path)

    return load


def test_an_empty_file_means_the_defaults_of_the_specification(loaded):
    found = loaded({})
    assert {name: getattr(found, name) for name in DEFAULTS} == DEFAULTS
    assert found.cc_distribution == Collectives(enable=False, codeline=(), pre_hook=False, log_only=False)
    assert found.alert.rules == ()
    assert not found.alert.dump


def test_null_means_that_a_key_is_absent(loaded):
    names = [each.name for each in fields(MonitorSettings) if "check" in each.metadata]
    assert loaded(dict.fromkeys(names)) == loaded({})


def test_values_are_taken_over(loaded):
    given = {
        **{"targets": {"layers.0": {"input": "tuple[2]:0"}, "1:fc": {}}, "xy_distribution": True, "eps": 0.5},
        **{"ops": ["mean", "id", "shape", "norm", "mean"], "format": "tensorboard", "ndigits": 20},
        **{"step_count_per_record": 1000000, "start_step": 3, "step_interval": 2, "collect_times": 0},
        **{"module_ranks": [0, 3], "append_output": ["Dec03_21-34-40", "Jan01_00-00-00"], "on_alert": {"steps": 2}},
        "cc_distribution": {"enable": True, "cc_codeline": [r"train\.py\[7\]"], "cc_pre_hook": True},
    }
    found = loaded(given)
    assert found.targets == ("layers.0", "1:fc")
    assert found.ops == ("mean", "norm")
    for name in ("format", "ndigits", "step_count_per_record", "start_step", "step_interval", "collect_times", "eps"):
        assert getattr(found, name) == given[name]
    assert found.module_ranks == (0, 3)
    assert found.append_output == ("Dec03_21-34-40", "Jan01_00-00-00")
    assert found.cc_distribution == Collectives(enable=True, codeline=(r"train\.py\[7\]",), pre_hook=True)
    assert found.on_alert == OnAlert(level="mix", task="statistics", steps=2)


FLAGS = (
    *("xy_distribution", "all_xy", "forward_only", "backward_only", "wg_distribution", "mv_distribution"),
    *("param_distribution", "mg_direction", "ur_distribution", "stack_info", "print_struct", "squash_name"),
    *("dynamic_on", "recording_l2_features", "local"),
)

WRONG = [
    *(({name: value}, name, "write true or false") for name in FLAGS for value in ("true", 1, [])),
    *(({"targets": value}, "targets", "write an object such as") for value in (["fc"], "fc", {"": {}}, 5)),
    *(({"ops": value}, "ops", "write") for value in ("norm", 5, {"norm": 1})),
    ({"ops": [1]}, "ops", "is not a name"),
    *(({"eps": value}, "eps", "write a floating-point number") for value in (0, "1e-8", -1e-8, True)),
    *(({"format": value}, "format", "it may be one of") for value in ("xml", 5)),
    ({"format": "tensorbord"}, "format", 'did you mean "tensorboard"?'),
    *(({"ndigits": value}, "ndigits", "write an integer from 1 to 20") for value in (0, 21, 2.0, True)),
    *(({"step_count_per_record": value}, "step_count_per_record", "from 1 to 1000000") for value in (0, 1000001)),
    *(({"start_step": value}, "start_step", "write an integer of at least 0") for value in (-1, "5", 1.5)),
    *(({"step_interval": value}, "step_interval", "write an integer of at least 1") for value in (0, None is None)),
    *(({"collect_times": value}, "collect_times", "write an integer of at least 0") for value in (-1, 1e8)),
    *(({"module_ranks": value}, "module_ranks", "write an integer of at least 0") for value in ([-1], ["0"], "0")),
    *(
        ({"append_output": value}, "append_output", "times in the format of the folder names")
        for value in (["Dec03_21-34-40"], ["Dec03_21-34-40", "now"], ["2024", "2025"], ["Foo03_21-34-40"] * 2)
    ),
    ({"append_output": "Dec03_21-34-40"}, "append_output", "write a list"),
    ({"sa_order": "b,h"}, "sa_order", "It may be one of"),
    *(({"l2_targets": value}, "l2_targets", "write") for value in (["fc"], {"linear_hook": "fc"})),
    ({"l2_targets": {"linear": ["fc"]}}, "l2_targets", "linear_hook"),
    ({"alert": []}, "alert", "is not an object"),
    ({"alert": {"rules": [{"rule_name": "Other"}]}}, "alert", "Other"),
    ({"alert": {"rulse": []}}, "alert", 'did you mean "rules"?'),
    ({"on_alert": True}, "on_alert", "write {...}"),
    ({"on_alert": {"level": "L3"}}, "on_alert: level", "it may be one of"),
    ({"on_alert": {"steps": 0}}, "on_alert: steps", "write an integer of at least 1"),
    ({"on_alert": {"task": "overflow_check"}}, "on_alert: task", "it may be one of"),
    ({"cc_distribution": 1}, "cc_distribution", "write {...}"),
    ({"cc_distribution": {"enabled": True}}, "cc_distribution", 'did you mean "enable"?'),
    ({"cc_distribution": {"cc_codeline": ["("]}}, "cc_distribution: cc_codeline", "is not a valid regular expression"),
    ({"cc_distribution": {"cc_pre_hook": "yes"}}, "cc_distribution: cc_pre_hook", "write true or false"),
    ({"cc_distribution": {"cc_log_only": 0}}, "cc_distribution: cc_log_only", "write true or false"),
    ({"wg_distributoin": True}, "wg_distributoin", 'did you mean "wg_distribution"?'),
    ({"nothing like it": True}, "nothing like it", "remove it"),
]


@pytest.mark.parametrize(("contents", "key", "advice"), WRONG, ids=[json.dumps(each) for each, _, _ in WRONG])
def test_a_wrong_value_is_refused_with_the_file_the_key_and_what_to_do(contents, key, advice, loaded, tmp_path):
    with pytest.raises(SettingsError) as caught:
        loaded(contents)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'monitor.json'}: {key}")
    assert advice in text


@pytest.mark.parametrize(
    ("text", "advice"),
    [("{", "is not valid JSON"), ("[]", "write {...}"), ("", "is not valid JSON"), ("[" * 100000, "is not valid JSON")],
)
@pytest.mark.parametrize("module", [settings, sectioned_settings])
def test_a_file_that_is_no_object_is_refused(text, advice, module, loaded, tmp_path):
    with pytest.raises(SettingsError, match=rf"^{re.escape(str(tmp_path))}/monitor\.json: .*{re.escape(advice)}"):
        loaded(text, module)


@pytest.mark.parametrize("module", [settings, sectioned_settings])
def test_a_file_that_cannot_be_read_is_refused(module, tmp_path):
    with pytest.raises(SettingsError, match=r"none\.json: cannot be read: No such file.*give a configuration file"):
        module.load(tmp_path / "none.json")
    with pytest.raises(SettingsError, match=r": cannot be read"):
        module.load(tmp_path)
    (tmp_path / "bytes.json").write_bytes(b'{"\xff": 1}')
    with pytest.raises(SettingsError, match=r"bytes\.json: cannot be read"):
        module.load(tmp_path / "bytes.json")


def test_an_unknown_statistic_is_left_out_and_said(loaded, capsys):
    assert loaded({"ops": ["max", "medain"]}).ops == ("max",)
    assert "medain" in capsys.readouterr().err
    assert loaded({"ops": ["medain"]}).ops == ("norm",)


@pytest.mark.parametrize("value", [1, "true", None, []])
def test_monitor_mbs_grad_that_is_no_truth_value_counts_as_false(value, loaded, capsys):
    assert loaded({"monitor_mbs_grad": value}).monitor_mbs_grad is False
    assert ("monitor_mbs_grad" in capsys.readouterr().err) == (value is not None)


def test_both_directions_at_once_are_said_to_measure_nothing(loaded, capsys):
    found = loaded({"xy_distribution": True, "forward_only": True, "backward_only": True})
    assert not found.forward
    assert not found.backward
    assert "activations are not measured" in capsys.readouterr().err


def test_features_without_a_module_are_a_warning(loaded, capsys):
    loaded({"recording_l2_features": True, "l2_targets": {"linear_hook": []}})
    assert "l2_targets is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "first", "rank", "expected"),
    [
        ({}, 0, 0, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"step_interval": 3}, 0, 0, [0, 3, 6]),
        ({"step_interval": 3}, 2, 0, [2, 5]),
        ({"collect_times": 2}, 1, 0, [1, 2]),
        ({"collect_times": 0}, 0, 0, []),
        ({"collect_times": 2, "step_interval": 2}, 3, 0, [3, 5]),
        ({"module_ranks": [1, 2]}, 0, 0, []),
        ({"module_ranks": [1, 2]}, 6, 2, [6, 7]),
    ],
)
def test_the_steps_that_are_measured(given, first, rank, expected, loaded):
    found, collected = loaded(given), []
    for step in range(8):
        if found.collects(step, first, len(collected), rank):
            collected.append(step)
    assert collected == expected


def test_an_unknown_rule_is_a_type_error_too(loaded):
    with pytest.raises(TypeError):
        loaded({"alert": {"rules": [{"rule_name": "AnomalyUnknown"}]}})


# ---- TrainerMonitorV2 ------------------------------------------------------------------------------------------------


def test_sections_have_the_defaults_of_the_specification(loaded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = loaded({}, sectioned_settings)
    assert (found.framework, found.rank, found.start_step, found.stop_step) == ("pytorch", (), 0, None)
    assert (found.step_interval, found.collect_times, found.step_count_per_record) == (1, 10**8, 1)
    assert (found.format, found.patch_optimizer_step) == ("csv", None)
    enabled = {each.name: getattr(found.monitors, each.name).enabled for each in fields(found.monitors)}
    assert enabled == {"module": True, "weight_grad": False, "optimizer": False, "param": False, "cc": False}


def test_a_rank_may_be_a_number_or_a_list(loaded):
    assert loaded({"rank": 3}, sectioned_settings).rank == (3,)
    assert loaded({"rank": [0, 2]}, sectioned_settings).rank == (0, 2)


@pytest.mark.parametrize(
    ("given", "rank", "expected"),
    [
        ({}, 0, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"start_step": 2, "stop_step": 5}, 0, [2, 3, 4]),
        ({"start_step": 1, "step_interval": 3}, 0, [1, 4, 7]),
        ({"collect_times": 3, "start_step": 4}, 0, [4, 5, 6]),
        ({"rank": 1}, 0, []),
    ],
)
def test_the_steps_that_the_sections_choose(given, rank, expected, loaded):
    found, collected = loaded(given, sectioned_settings), []
    for step in range(8):
        if found.collects(step, len(collected), rank):
            collected.append(step)
    assert collected == expected


SECTIONS = ("module", "weight_grad", "optimizer", "param", "cc")
WRONG_SECTIONS = [
    ({"framework": "tensorflow"}, "framework", "it may be one of"),
    *(({"output_dir": value}, "output_dir", "give a folder") for value in ("", 5, "a\0b")),
    *(({"rank": value}, "rank", "write an integer of at least 0") for value in (-1, "0", [1.5])),
    *(({name: -1}, name, "write an integer") for name in ("start_step", "stop_step", "collect_times")),
    *(({name: 0}, name, "write an integer") for name in ("step_interval", "step_count_per_record")),
    ({"format": "tensorboard"}, "format", "it may be one of"),
    ({"patch_optimizer_step": 1}, "patch_optimizer_step", "write true or false"),
    ({"monitors": []}, "monitors", "write {...}"),
    ({"monitors": {"modul": {}}}, "monitors", 'did you mean "module"?'),
    ({"collect_time": 5}, "collect_time", 'did you mean "collect_times"?'),
    *(({"monitors": {name: {"enabled": 1}}}, f"monitors: {name}: enabled", "write true or false") for name in SECTIONS),
    *(({"monitors": {name: {"ops": "norm"}}}, f"monitors: {name}: ops", "write a list") for name in SECTIONS),
    *(({"monitors": {name: {"eps": "x"}}}, f"monitors: {name}: eps", "write a number") for name in SECTIONS),
    *(({"monitors": {name: {"epsilon": 1}}}, f"monitors: {name}: epsilon", "unknown setting") for name in SECTIONS),
    ({"monitors": {"module": {"targets": {"fc": {}}}}}, "monitors: module: targets", "is not a list of strings"),
    ({"monitors": {"weight_grad": {"monitor_mbs_grad": 1}}}, "monitors: weight_grad: monitor_mbs_grad", "true or"),
    ({"monitors": {"weight_grad": {"grad_acc_steps": 0}}}, "monitors: weight_grad: grad_acc_steps", "of at least 1"),
    (
        {"monitors": {"weight_grad": {"micro_batch_number": 0}}},
        "monitors: weight_grad: micro_batch_number",
        "of at least 1",
    ),
    ({"monitors": {"optimizer": {"mv_distribution": 1}}}, "monitors: optimizer: mv_distribution", "true or false"),
    ({"monitors": {"param": {"param_distribution": 1}}}, "monitors: param: param_distribution", "true or false"),
    ({"monitors": {"cc": {"cc_codeline": ["["]}}}, "monitors: cc: cc_codeline", "is not a valid regular expression"),
    ({"monitors": {"cc": {"cc_log_only": 1}}}, "monitors: cc: cc_log_only", "true or false"),
    ({"monitors": {"cc": {"cc_pre_hook": 1}}}, "monitors: cc: cc_pre_hook", "true or false"),
    ({"monitors": {"cc": {"module_ranks": [-1]}}}, "monitors: cc: module_ranks", "of at least 0"),
]


@pytest.mark.parametrize(
    ("contents", "key", "advice"), WRONG_SECTIONS, ids=[json.dumps(each) for each, _, _ in WRONG_SECTIONS]
)
def test_a_wrong_value_in_a_section_is_refused_with_its_place(contents, key, advice, loaded, tmp_path):
    with pytest.raises(SettingsError) as caught:
        loaded(contents, sectioned_settings)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'monitor.json'}: {key}")
    assert advice in text


def test_every_setting_of_both_files_is_refused_somewhere_here():
    """A new setting comes with its wrong values."""
    never_refused = {"monitor_mbs_grad"}  # any value is accepted
    known = {each.name for each in fields(MonitorSettings) if "check" in each.metadata}
    assert known - {key.partition(":")[0] for _, key, _ in WRONG} == never_refused
    sections = {each.name for each in fields(SectionedSettings)} - {"ndigits"}
    assert sections <= {key.partition(":")[0] for _, key, _ in WRONG_SECTIONS}
