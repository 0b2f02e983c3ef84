"""What is refused of the settings of a collection: what, where, what to do now."""

import json

import pytest

from msprobe.base.sections import FreeBenchmarkSettings, GradProbeSettings
from msprobe.base.settings import load

REFUSED = [
    # given in the file, where, what, what to do now
    ({"level": "L9"}, "level", '"L9" is unknown', 'one of "L0", "L1", "L2", "mix", "debug"'),
    ({"level": "MIX"}, "level", '"MIX" is unknown', 'did you mean "mix"?'),
    ({"level": 1}, "level", "1 is unknown", 'it may be one of "L0"'),
    ({"task": "tensors"}, "task", '"tensors" is unknown', 'did you mean "tensor"?'),
    ({"task": ["tensor"]}, "task", '["tensor"] is unknown', 'it may be one of "statistics"'),
    ({"task": "run_ut"}, "task", '"run_ut" is not a task of a training', '"acc_check" checks them during the training'),
    ({"task": "acc_check", "level": "L0"}, "level", 'task "acc_check" checks functions', 'use "L1" or "mix"'),
    (
        {"task": "acc_check", "acc_check": {"budget_ms": 0}},
        *("acc_check.budget_ms", "0 is invalid", "write a number greater than 0"),
    ),
    (
        {"task": "acc_check", "async_dump": True},
        *("acc_check.budget_ms", 'task "acc_check", which checks calls immediately', "omit it"),
    ),
    (
        {"statistics": {"extra": ["zeroes"]}},
        *("statistics.extra", '"zeroes" is unknown', 'did you mean "zeros"?'),
    ),
    (
        {"statistics": {"extra": ["saturatd:e5m2"]}},
        *("statistics.extra", '"saturatd:e5m2" is unknown', 'did you mean "saturated:e5m2"?'),
    ),
    ({"statistics": {"layout": "yes"}}, "statistics.layout", '"yes" is not a boolean', "write true or false"),
    ({"dump_path": ""}, "dump_path", "the path is empty", "give the folder to which the dump is written"),
    ({"dump_path": 3}, "dump_path", "3 is not a path", "write it in double quotes"),
    ({"dump_path": "a\0b"}, "dump_path", "contains a NUL character", "remove it"),
    ({"dump_path": None}, "dump_path", "the setting is missing", "or pass dump_path to PrecisionDebugger"),
    ({"dump_path": __file__}, "dump_path", "is a file", "give a folder"),
    ({"rank": 0}, "rank", "0 is not a list", "[] for all"),
    ({"rank": [True]}, "rank", "true is neither a number nor a range", 'or "3-5"'),
    ({"step": ["5-3"]}, "step", '"5-3" is a descending range', 'write the smaller number first, "3-5"'),
    ({"step": "0-3"}, "step", '"0-3" is not a list', "write a list such as"),
    ({"async_dump": "false"}, "async_dump", '"false" is not a boolean', "write true or false"),
    ({"async_dump": 0}, "async_dump", "0 is not a boolean", "write true or false"),
    ({"enable_dataloader": 1}, "enable_dataloader", "1 is not a boolean", "write true or false"),
    ({"extra_info": "no"}, "extra_info", '"no" is not a boolean', "write true or false"),
    ({"dump_enable": "on"}, "dump_enable", '"on" is not a boolean', "write true or false"),
    ({"precision": "middle"}, "precision", '"middle" is unknown', 'one of "high", "low"'),
    ({"risk_level": "focus"}, "risk_level", '"focus" is unknown', 'did you mean "FOCUS"?'),
    ({"custom_op_namespaces": "ns"}, "custom_op_namespaces", '"ns" is a single string', 'write a list, ["ns"]'),
    ({"levels": "L1"}, "levels", 'unknown setting "levels"', 'did you mean "level"?'),
    ({"Step": [1]}, "Step", 'unknown setting "Step"', 'did you mean "step"?'),
    ({"statistic": {}}, "statistic", 'unknown setting "statistic"', 'did you mean "statistics"?'),
    (
        {"zzz": 1},
        "zzz",
        'unknown setting "zzz"',
        'remove it, or choose from "task", "dump_path"',
    ),
    ({"list": ["relu"]}, "list", '"list" is not valid here', 'move it to section "statistics"'),
    ({"bounds": [1]}, "bounds", '"bounds" is not valid here', 'move it to section "grad_probe"'),
    ({"task": "tensor", "file_format": "npy"}, "file_format", "is not valid here", 'move it to section "tensor"'),
    ({"statistics": {"level": "L1"}}, "statistics.level", '"level" is not valid here', "move it to the top level"),
    ({"statistics": []}, "statistics", "[] is not an object", "write {} or an object with settings"),
    ({"statistics": {"lst": []}}, "statistics.lst", 'unknown setting "lst"', 'did you mean "list"?'),
    ({"statistics": {"list": "relu"}}, "statistics.list", '"relu" is a single string', 'write a list, ["relu"]'),
    ({"statistics": {"list": [""]}}, "statistics.list", '"" is not a name', "only non-empty strings"),
    ({"statistics": {"list": [3]}}, "statistics.list", "3 is not a name", "only non-empty strings"),
    ({"statistics": {"list": {"a": 1}}}, "statistics.list", '{"a": 1} is not a list of strings', "write [] or"),
    ({"statistics": {"tensor_list": 1}}, "statistics.tensor_list", "1 is not a list of strings", "write [] or"),
    ({"statistics": {"data_mode": ["al"]}}, "statistics.data_mode", '"al" is unknown', 'choose from "all"'),
    ({"statistics": {"data_mode": ["all", "input"]}}, "statistics.data_mode", '"all" with', 'write ["all"]'),
    ({"statistics": {"summary_mode": "md4"}}, "statistics.summary_mode", '"md4" is unknown', 'did you mean "md5"?'),
    ({"statistics": {"summary_mode": ["maxx"]}}, "statistics.summary_mode", '"maxx" is unknown', 'did you mean "max"?'),
    ({"statistics": {"device": "npu"}}, "statistics.device", '"npu" is unknown', 'one of "host", "device"'),
    ({"statistics": {"precision": 1}}, "statistics.precision", "1 is unknown", 'one of "high", "low"'),
    (
        {"task": "overflow_check", "level": "debug"},
        *("level", 'task "overflow_check" works on calls', 'use "L0", "L1" or "mix"'),
    ),
    (
        {"task": "exception_dump", "level": "debug"},
        *("level", 'task "exception_dump" works on calls', 'use "L0", "L1" or "mix"'),
    ),
    (
        {"task": "exception_dump", "exception_dump": {"calls": -1}},
        *("exception_dump.calls", "-1 is invalid", "write an integer of at least 0"),
    ),
    (
        {"task": "exception_dump", "exception_dump": {"memory": 512}},
        *("exception_dump.memory", "512 is too small", 'write at least "1MiB"'),
    ),
    ({"statistics": {"trigger": ["nan"]}}, "statistics.trigger", '["nan"] is not an object', 'such as {"on": ["nan"]}'),
    (
        {"statistics": {"trigger": {"onn": []}}},
        "statistics.trigger",
        'onn: unknown setting "onn"',
        'did you mean "on"?',
    ),
    ({"statistics": {"trigger": {"on": []}}}, "statistics.trigger", "on: the list is empty", 'one of "nan", "inf"'),
    ({"statistics": {"trigger": {"on": "nan"}}}, "statistics.trigger", 'on: "nan" is a single string', '["nan"]'),
    ({"statistics": {"trigger": {"on": ["nann"]}}}, "statistics.trigger", '"nann" is unknown', 'did you mean "nan"?'),
    ({"statistics": {"trigger": {"calls": True}}}, "statistics.trigger", "calls: true is invalid", "of at least 0"),
    ({"statistics": {"trigger": {"memory": "1KB"}}}, "statistics.trigger", "too small", 'at least "1MiB"'),
    ({"statistics": {"trigger": {"memory": "many"}}}, "statistics.trigger", 'memory: "many" is not a size', '"512MiB"'),
    ({"statistics": {"trigger": {"jump": 1}}}, "statistics.trigger", "jump: 1 is invalid", "a number greater than 1"),
    ({"statistics": {"trigger": {"jump": "2"}}}, "statistics.trigger", 'jump: "2" is invalid', "a number greater"),
    ({"statistics": {"trigger": {"times": 0}}}, "statistics.trigger", "times: 0 is invalid", "of at least 1, or -1"),
    (
        {"statistics": {"trigger": {"on": ["digest"]}}},
        "statistics.trigger",
        'golden: "digest"',
        "both settings or neither",
    ),
    ({"statistics": {"trigger": {"golden": "/no/such"}}}, "statistics.trigger", "does not exist", "give a dump"),
    (
        {"level": "debug", "statistics": {"trigger": {}}},
        "statistics.trigger",
        'level "debug" does not support',
        "omit it",
    ),
    (
        {"level": "L2", "statistics": {"trigger": {}}},
        "statistics.trigger",
        'level "L2" does not support a trigger',
        "omit it",
    ),
    (
        {"statistics": {"trigger": {}, "tensor_list": ["relu"]}},
        *("statistics.tensor_list", "a trigger selects", "omit tensor_list"),
    ),
    ({"task": "tensor", "tensor": {"trigger": {}}}, "tensor.trigger", '"trigger" is not valid here', '"statistics"'),
    ({"statistics": {"scope": ["Functional.relu.0.forward"]}}, "statistics.scope", "1 name(s)", "write none, or two"),
    ({"task": "tensor", "tensor": {"tensor_list": ["a"]}}, "tensor.tensor_list", "is not valid here", '"statistics"'),
    (
        {"task": "tensor", "tensor": {"file_format": "pth"}},
        "tensor.file_format",
        '"pth" is unknown',
        '"npy", "bin", "pt"',
    ),
    ({"task": "tensor", "tensor": {"summary_mode": ["max"]}}, "tensor.summary_mode", "is unknown", '"statistics"'),
    ({"task": "tensor", "async_dump": True}, "tensor.list", "async_dump keeps tensors in memory", "fill it"),
    (
        {"level": "L2", "async_dump": True, "statistics": {"summary_mode": "md5"}},
        *("statistics.summary_mode", '"md5" is not available with async_dump', 'use "statistics"'),
    ),
    *(
        (
            {"task": task, "level": "L2", task: {"summary_mode": "crc32c"}},
            *(f"{task}.summary_mode", '"crc32c" is not available at level "L2"', 'use "md5"'),
        )
        for task in ("statistics", "tensor")
    ),
    (
        {"task": "structure", "structure": {"list": ["relu"]}},
        *("structure.list", '"list" is not valid here', 'move it to section "statistics"'),
    ),
    (
        {"task": "structure", "structure": {"zzz": 1}},
        *("structure.zzz", 'unknown setting "zzz"', "this section has no settings"),
    ),
    (
        {"task": "overflow_check", "overflow_check": {"overflow_nums": 0}},
        *("overflow_check.overflow_nums", "0 is invalid", "write an integer of at least 1, or -1"),
    ),
    (
        {"task": "overflow_check", "overflow_check": {"overflow_nums": True}},
        *("overflow_check.overflow_nums", "true is invalid", "write an integer of"),
    ),
    (
        {"task": "free_benchmark", "free_benchmark": {"handler_type": "fix", "pert_mode": "add_noise"}},
        *("free_benchmark.pert_mode", '"add_noise" does not support handler_type "fix"', 'use "improve_precision"'),
    ),
    (
        {"task": "free_benchmark", "level": "mix"},
        *("level", 'task "free_benchmark" executes individual functions', 'write "L1" instead of "mix"'),
    ),
    (
        {"task": "free_benchmark", "free_benchmark": {"handler_type": "fix", "fuzz_stage": "backward"}},
        *("free_benchmark.fuzz_stage", '"backward" does not support handler_type "fix"', 'use "forward"'),
    ),
    (
        {"task": "grad_probe", "grad_probe": {"param_list": ["a b"]}},
        *("grad_probe.param_list", '"a b" is not a parameter name', "letters, digits"),
    ),
    (
        {"task": "grad_probe", "grad_probe": {"bounds": [1, 0]}},
        *("grad_probe.bounds", "[1, 0] is not strictly increasing", "sort it"),
    ),
    (
        {"task": "grad_probe", "grad_probe": {"bounds": [0, 2**63]}},
        *("grad_probe.bounds", "is not an int64 number", "write numbers such as"),
    ),
    (
        {"task": "grad_probe", "grad_probe": {"bounds": []}},
        *("grad_probe.bounds", "[] is not a list of numbers", "write a list such as"),
    ),
]


@pytest.mark.parametrize(
    ("contents", "where", "what", "now"), REFUSED, ids=[json.dumps(row[0])[:60] for row in REFUSED]
)
def test_a_refusal_says_what_where_and_what_to_do_now(config, contents, where, what, now, refusal):
    path = config(**contents)
    message = refusal(path)
    assert message.startswith(f"{path}, {where}: ")
    assert what in message
    assert now in message.split(what)[1]


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"level": "l1"}, '"l1" is unknown; did you mean "L1"?'),
        ({"task": 3}, "3 is unknown"),
        ({"dump_path": ""}, "the path is empty; give the folder"),
        ({"dump_path": b"x"}, "is not a path"),
        ({"step": 3}, "3 is not a list"),
        ({"step": [{1, 2}]}, "is neither a number nor a range"),
    ],
)
def test_a_refused_argument_is_told_as_an_argument(config, arguments, what, refusal):
    name = next(iter(arguments))
    for path in (None, config()):
        message = refusal(path, **arguments)
        assert message.startswith(f'argument "{name}" of PrecisionDebugger: ')
        assert what in message


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_the_scope_must_name_calls_of_the_level(config, level, refusal):
    cell, api = "Cell.fc.Dense.forward.0", "MintDistributed.all_reduce.0.backward"
    good = {"L0": [cell, cell], "L1": [api, api], "mix": [cell, api]}
    assert load(config(level=level, statistics={"scope": good[level]})).section.scope == tuple(good[level])
    message = refusal(config(level=level, statistics={"scope": [*good[level][:1], "relu"]}))
    assert '.scope: "relu" is not' in message
    assert "; write a name such as" in message


def test_the_scope_is_held_to_the_level_of_the_argument(config, refusal):
    path = config(level="mix", statistics={"scope": ["Cell.a.B.forward.0", "Cell.a.B.backward.0"]})
    assert load(path, level="L0").level == "L0"
    assert "cells are collected at level L0 or mix" in refusal(path, level="L1")


@pytest.mark.parametrize(
    ("name", "looks", "marks"),
    [
        ("compare-file.json", "a comparison's file", '(it has "npu_path", "bench_path")'),
        ("compare-step.json", "a comparison's file", '(it has "npu_path", "bench_path")'),
        ("monitor.json", "a monitor's configuration", '(it has "wg_distribution", "ops")'),
    ],
)
def test_another_tools_file_is_recognized(name, looks, marks, configs, refusal):
    message = refusal(configs / name)
    assert message.startswith(f"{configs / name}: this looks like {looks} {marks}; pass it to ")
    assert "a collection to PrecisionDebugger" in message


def test_a_dump_is_no_configuration(tmp_path, refusal):
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"task": "statistics", "level": "L1", "framework": "mindspore", "data": {}}))
    assert "this looks like a dump.json of a run" in refusal(path)


def test_a_yaml_file_is_no_configuration(configs, refusal):
    assert refusal(configs / "rl.yaml").endswith("the name does not end in .json; rename the file if it contains JSON")


# The sections of tasks


def test_a_section_refuses_what_its_task_does_not_know(config, refusal):
    assert '"gpu" is unknown' in refusal(config(task="free_benchmark", free_benchmark={"fuzz_device": "gpu"}))


def test_sections_of_tasks_are_read(config):
    settings = load(
        config(task="free_benchmark", free_benchmark={"list": ["mindspore.ops.bmm"], "handler_type": "fix"})
    )
    assert settings.section == FreeBenchmarkSettings(apis=("mindspore.ops.bmm",), handler_type="fix")
    settings = load(config(task="grad_probe", grad_probe={"bounds": [-0.5, 0, 2], "param_list": ["fc.weight"]}))
    assert settings.section == GradProbeSettings(bounds=(-0.5, 0, 2), param_list=("fc.weight",))
