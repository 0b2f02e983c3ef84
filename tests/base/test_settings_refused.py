"""What is refused of the settings of a collection: what, where, what to do now."""

import json

import pytest

from msprobe.base.sections import FreeBenchmarkSettings, GradProbeSettings
from msprobe.base.settings import load

REFUSED = [
    # given in the file, where, what, what to do now
    ({"level": "L9"}, "level", '"L9" is not known here', 'one of "L0", "L1", "L2", "mix", "debug"'),
    ({"level": "MIX"}, "level", '"MIX" is not known here', 'did you mean "mix"?'),
    ({"level": 1}, "level", "1 is not known here", 'it may be one of "L0"'),
    ({"task": "tensors"}, "task", '"tensors" is not known here', 'did you mean "tensor"?'),
    ({"task": ["tensor"]}, "task", '["tensor"] is not known here', 'it may be one of "statistics"'),
    ({"task": "run_ut"}, "task", '"run_ut" is no task of a training', '"acc_check" checks them while they run'),
    ({"task": "acc_check", "level": "L0"}, "level", 'task "acc_check" checks functions', 'use "L1" or "mix"'),
    (
        {"task": "acc_check", "acc_check": {"budget_ms": 0}},
        *("acc_check.budget_ms", "0 does not fit", "write a number greater than 0"),
    ),
    (
        {"task": "acc_check", "async_dump": True},
        *("acc_check.budget_ms", 'task "acc_check" checks at once', "leave it out"),
    ),
    ({"dump_path": ""}, "dump_path", "the path is empty", "name the folder"),
    ({"dump_path": 3}, "dump_path", "3 is not a path", "write it between double quotes"),
    ({"dump_path": "a\0b"}, "dump_path", "holds a NUL character", "remove it"),
    ({"dump_path": None}, "dump_path", "the setting is missing", "or pass dump_path to PrecisionDebugger"),
    ({"dump_path": __file__}, "dump_path", "is a file", "name a folder"),
    ({"rank": 0}, "rank", "0 is not a list", "[] for all"),
    ({"rank": [True]}, "rank", "true is neither a number nor a range", 'or "3-5"'),
    ({"step": ["5-3"]}, "step", '"5-3" runs backwards', 'write the smaller number first, "3-5"'),
    ({"step": "0-3"}, "step", '"0-3" is not a list', "write one such as"),
    ({"async_dump": "false"}, "async_dump", '"false" is not a truth value', "write true or false"),
    ({"async_dump": 0}, "async_dump", "0 is not a truth value", "write true or false"),
    ({"enable_dataloader": 1}, "enable_dataloader", "1 is not a truth value", "write true or false"),
    ({"extra_info": "no"}, "extra_info", '"no" is not a truth value', "write true or false"),
    ({"dump_enable": "on"}, "dump_enable", '"on" is not a truth value', "write true or false"),
    ({"precision": "middle"}, "precision", '"middle" is not known here', 'one of "high", "low"'),
    ({"risk_level": "focus"}, "risk_level", '"focus" is not known here', 'did you mean "FOCUS"?'),
    ({"custom_op_namespaces": "ns"}, "custom_op_namespaces", '"ns" is a single text', 'write a list, ["ns"]'),
    ({"levels": "L1"}, "levels", 'unknown setting "levels"', 'did you mean "level"?'),
    ({"Step": [1]}, "Step", 'unknown setting "Step"', 'did you mean "step"?'),
    ({"statistic": {}}, "statistic", 'unknown setting "statistic"', 'did you mean "statistics"?'),
    ({"zzz": 1}, "zzz", 'unknown setting "zzz"', 'remove it, or choose from "task", "dump_path"'),
    ({"list": ["relu"]}, "list", '"list" has no place here', 'move it to section "statistics"'),
    ({"bounds": [1]}, "bounds", '"bounds" has no place here', 'move it to section "grad_probe"'),
    ({"task": "tensor", "file_format": "npy"}, "file_format", "has no place here", 'move it to section "tensor"'),
    ({"statistics": {"level": "L1"}}, "statistics.level", '"level" has no place here', "move it to the top level"),
    ({"statistics": []}, "statistics", "[] is not an object", "write {} or fill it"),
    ({"statistics": {"lst": []}}, "statistics.lst", 'unknown setting "lst"', 'did you mean "list"?'),
    ({"statistics": {"list": "relu"}}, "statistics.list", '"relu" is a single text', 'write a list, ["relu"]'),
    ({"statistics": {"list": [""]}}, "statistics.list", '"" is not a name', "texts of at least one character"),
    ({"statistics": {"list": [3]}}, "statistics.list", "3 is not a name", "texts of at least one character"),
    ({"statistics": {"list": {"a": 1}}}, "statistics.list", '{"a": 1} is not a list of texts', "write [] or"),
    ({"statistics": {"tensor_list": 1}}, "statistics.tensor_list", "1 is not a list of texts", "write [] or"),
    ({"statistics": {"data_mode": ["al"]}}, "statistics.data_mode", '"al" is not known here', 'choose from "all"'),
    ({"statistics": {"data_mode": ["all", "input"]}}, "statistics.data_mode", '"all" stands beside', 'write ["all"]'),
    ({"statistics": {"summary_mode": "md4"}}, "statistics.summary_mode", '"md4" is not known', 'did you mean "md5"?'),
    ({"statistics": {"summary_mode": ["maxx"]}}, "statistics.summary_mode", '"maxx" is not', 'did you mean "max"?'),
    ({"statistics": {"device": "npu"}}, "statistics.device", '"npu" is not known here', 'one of "host", "device"'),
    ({"statistics": {"precision": 1}}, "statistics.precision", "1 is not known here", 'one of "high", "low"'),
    (
        {"task": "overflow_check", "level": "debug"},
        *("level", 'task "overflow_check" looks at calls', 'use "L0", "L1" or "mix"'),
    ),
    (
        {"task": "exception_dump", "level": "debug"},
        *("level", 'task "exception_dump" looks at calls', 'use "L0", "L1" or "mix"'),
    ),
    (
        {"task": "exception_dump", "exception_dump": {"calls": -1}},
        *("exception_dump.calls", "-1 does not fit", "write a whole number from 0 on"),
    ),
    (
        {"task": "exception_dump", "exception_dump": {"memory": 512}},
        *("exception_dump.memory", "512 is too little to hold tensors", 'write at least "1MiB"'),
    ),
    ({"statistics": {"trigger": ["nan"]}}, "statistics.trigger", '["nan"] is not an object', 'such as {"on": ["nan"]}'),
    (
        {"statistics": {"trigger": {"onn": []}}},
        "statistics.trigger",
        'onn: unknown setting "onn"',
        'did you mean "on"?',
    ),
    ({"statistics": {"trigger": {"on": []}}}, "statistics.trigger", "on: the list is empty", 'one of "nan", "inf"'),
    ({"statistics": {"trigger": {"on": "nan"}}}, "statistics.trigger", 'on: "nan" is a single text', '["nan"]'),
    ({"statistics": {"trigger": {"on": ["nann"]}}}, "statistics.trigger", '"nann" is not known', 'did you mean "nan"?'),
    ({"statistics": {"trigger": {"calls": True}}}, "statistics.trigger", "calls: true does not fit", "from 0 on"),
    ({"statistics": {"trigger": {"memory": "1KB"}}}, "statistics.trigger", "too little to hold", 'at least "1MiB"'),
    ({"statistics": {"trigger": {"memory": "many"}}}, "statistics.trigger", 'memory: "many" is no size', '"512MiB"'),
    ({"statistics": {"trigger": {"jump": 1}}}, "statistics.trigger", "jump: 1 does not fit", "a number greater than 1"),
    ({"statistics": {"trigger": {"jump": "2"}}}, "statistics.trigger", 'jump: "2" does not fit', "a number greater"),
    ({"statistics": {"trigger": {"times": 0}}}, "statistics.trigger", "times: 0 does not fit", "from 1 on, or -1"),
    ({"statistics": {"trigger": {"on": ["digest"]}}}, "statistics.trigger", 'golden: "digest"', "both, or neither"),
    ({"statistics": {"trigger": {"golden": "/no/such"}}}, "statistics.trigger", "does not exist", "name a dump"),
    ({"level": "debug", "statistics": {"trigger": {}}}, "statistics.trigger", 'level "debug" has no', "leave it out"),
    ({"level": "L2", "statistics": {"trigger": {}}}, "statistics.trigger", 'level "L2" has no trigger', "leave it out"),
    (
        {"statistics": {"trigger": {}, "tensor_list": ["relu"]}},
        *("statistics.tensor_list", "a trigger writes the tensors", "leave tensor_list out"),
    ),
    ({"task": "tensor", "tensor": {"trigger": {}}}, "tensor.trigger", '"trigger" has no place here', '"statistics"'),
    ({"statistics": {"scope": ["Functional.relu.0.forward"]}}, "statistics.scope", "1 name(s)", "write none, or two"),
    ({"task": "tensor", "tensor": {"tensor_list": ["a"]}}, "tensor.tensor_list", "has no place here", '"statistics"'),
    (
        {"task": "tensor", "tensor": {"file_format": "pth"}},
        "tensor.file_format",
        '"pth" is not known',
        '"npy", "bin", "pt"',
    ),
    ({"task": "tensor", "tensor": {"summary_mode": ["max"]}}, "tensor.summary_mode", "is not known", '"statistics"'),
    ({"task": "tensor", "async_dump": True}, "tensor.list", "async_dump keeps tensors in memory", "fill it"),
    (
        {"level": "L2", "async_dump": True, "statistics": {"summary_mode": "md5"}},
        *("statistics.summary_mode", '"md5" cannot be had with async_dump', 'use "statistics"'),
    ),
    *(
        (
            {"task": task, "level": "L2", task: {"summary_mode": "crc32c"}},
            *(f"{task}.summary_mode", '"crc32c" cannot be had at level "L2"', 'use "md5"'),
        )
        for task in ("statistics", "tensor")
    ),
    (
        {"task": "structure", "structure": {"list": ["relu"]}},
        *("structure.list", '"list" has no place here', 'move it to section "statistics"'),
    ),
    (
        {"task": "structure", "structure": {"zzz": 1}},
        *("structure.zzz", 'unknown setting "zzz"', "this section is empty"),
    ),
    (
        {"task": "overflow_check", "overflow_check": {"overflow_nums": 0}},
        *("overflow_check.overflow_nums", "0 does not fit", "write a whole number from 1 on, or -1"),
    ),
    (
        {"task": "overflow_check", "overflow_check": {"overflow_nums": True}},
        *("overflow_check.overflow_nums", "true does not fit", "write a whole number"),
    ),
    (
        {"task": "free_benchmark", "free_benchmark": {"handler_type": "fix", "pert_mode": "add_noise"}},
        *("free_benchmark.pert_mode", '"add_noise" cannot be fixed', 'use "improve_precision"'),
    ),
    (
        {"task": "free_benchmark", "level": "mix"},
        *("level", 'task "free_benchmark" runs single functions', 'write "L1" instead of "mix"'),
    ),
    (
        {"task": "free_benchmark", "free_benchmark": {"handler_type": "fix", "fuzz_stage": "backward"}},
        *("free_benchmark.fuzz_stage", '"backward" cannot be fixed', 'use "forward"'),
    ),
    (
        {"task": "grad_probe", "grad_probe": {"param_list": ["a b"]}},
        *("grad_probe.param_list", '"a b" is not a parameter\'s name', "letters, digits"),
    ),
    (
        {"task": "grad_probe", "grad_probe": {"bounds": [1, 0]}},
        *("grad_probe.bounds", "[1, 0] does not rise", "sort it"),
    ),
    (
        {"task": "grad_probe", "grad_probe": {"bounds": [0, 2**63]}},
        *("grad_probe.bounds", "is not a number within int64", "write numbers such as"),
    ),
    (
        {"task": "grad_probe", "grad_probe": {"bounds": []}},
        *("grad_probe.bounds", "[] is not a list of numbers", "write one such as"),
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
        ({"level": "l1"}, '"l1" is not known here; did you mean "L1"?'),
        ({"task": 3}, "3 is not known here"),
        ({"dump_path": ""}, "the path is empty; name the folder"),
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
    assert '.scope: "relu" is no' in message
    assert "; write one such as" in message


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
def test_another_tools_file_is_recognised(name, looks, marks, configs, refusal):
    message = refusal(configs / name)
    assert message.startswith(f"{configs / name}: this looks like {looks} {marks}; give it to ")
    assert "a collection's configuration to PrecisionDebugger" in message


def test_a_dump_is_no_configuration(tmp_path, refusal):
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"task": "statistics", "level": "L1", "framework": "mindspore", "data": {}}))
    assert "this looks like a dump.json, which a run wrote" in refusal(path)


def test_a_yaml_file_is_no_configuration(configs, refusal):
    assert refusal(configs / "rl.yaml").endswith("the name does not end in .json; rename the file if it holds JSON")


# The sections of tasks


def test_a_section_refuses_what_its_task_does_not_know(config, refusal):
    assert '"gpu" is not known here' in refusal(config(task="free_benchmark", free_benchmark={"fuzz_device": "gpu"}))


def test_sections_of_tasks_are_read(config):
    settings = load(
        config(task="free_benchmark", free_benchmark={"list": ["mindspore.ops.bmm"], "handler_type": "fix"})
    )
    assert settings.section == FreeBenchmarkSettings(apis=("mindspore.ops.bmm",), handler_type="fix")
    settings = load(config(task="grad_probe", grad_probe={"bounds": [-0.5, 0, 2], "param_list": ["fc.weight"]}))
    assert settings.section == GradProbeSettings(bounds=(-0.5, 0, 2), param_list=("fc.weight",))
