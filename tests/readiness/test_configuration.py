"""What of a configuration will not be collected, and why."""

import pytest

from msprobe.findings.catalogue import readiness as kind
from msprobe.readiness.target import Target

WRONG = kind.REFUSED, "", ""


def test_a_plain_configuration_is_fine(found):
    assert found({"level": "mix", "step": [0, "3-5"]}, ranks=2, steps=6) == []


def test_every_mistake_is_named_at_once(found):
    given = {"level": "mixx", "stepp": [1], "rank": "0", "statistics": {"lst": [], "summary_mode": "sha"}}
    assert found(given) == [WRONG] * 5


def test_a_missing_dump_path_hides_no_other_mistake(found):
    kinds = [kind for kind, *_ in found({"dump_path": None, "stepp": []})]
    assert kinds == [kind.REFUSED] * 2


def test_the_file_of_another_tool_is_one_finding(found):
    assert found({"npu_path": "a", "bench_path": "b", "is_print_compare_log": True}) == [WRONG]


def test_settings_without_effect(found):
    given = {"risk_level": "ALL", "level": "L0", "task": "tensor", "tensor": {"file_format": "bin"}}
    assert found(given) == [
        (kind.WITHOUT_EFFECT, "risk_level", ""),
        (kind.WITHOUT_EFFECT, "tensor.file_format", ""),
    ]


@pytest.mark.parametrize(
    ("given", "framework", "target", "expected"),
    [
        ({"level": "L2"}, "pytorch", {}, [WRONG]),
        ({"level": "mix", "jit_cells": "split"}, "pytorch", {}, [WRONG]),
        ({"level": "L1"}, "mindspore", {"mode": "graph"}, [(kind.REFUSED, "level", "graph mode")]),
        ({"level": "L1"}, "mindspore", {}, [(kind.DEPENDS, "level", "graph mode")]),
        ({"level": "L1"}, "mindspore", {"mode": "pynative"}, []),
        ({"level": "mix"}, "mindspore", {"mode": "graph"}, [(kind.TAKEN_AS, "level", '"mix"')]),
        ({"level": "L0"}, "mindspore", {"mode": "graph"}, []),
        (
            {"level": "L0"},
            "mindspore",
            {"mode": "graph", "device": "GPU"},
            [(kind.REFUSED, "level", "graph mode")],
        ),
        ({"task": "structure", "level": "L1"}, "pytorch", {}, [(kind.TAKEN_AS, "level", '"L1"')]),
    ],
)
def test_levels_that_a_framework_or_mode_does_not_have(found, given, framework, target, expected):
    assert found(given, framework, **target) == expected


EVERY = "PyNative mode, graph mode at jit_level O0, graph mode at jit_level O1, graph mode at jit_level O2"
BUT_O2 = "PyNative mode, graph mode at jit_level O0, graph mode at jit_level O1"


@pytest.mark.parametrize(
    ("given", "target", "kinds"),
    [
        ({"task": "exception_dump"}, {}, {(kind.REFUSED, EVERY)}),
        ({"task": "exception_dump"}, {"device": "Ascend"}, {(kind.DEPENDS, "graph mode at jit_level O2")}),
        ({"task": "exception_dump"}, {"device": "Ascend", "mode": "pynative"}, set()),
        # at O2, where it is accepted, MindSpore may not read its settings
        (
            {"task": "overflow_check"},
            {"device": "Ascend"},
            {(kind.DEPENDS, BUT_O2), (kind.WITHOUT_EFFECT, "")},
        ),
        ({"task": "overflow_check"}, {}, {(kind.REFUSED, EVERY)}),
        ({"dump_path": "/tmp/a b"}, {"device": "Ascend", "mode": "pynative"}, {(kind.REFUSED, "")}),
        ({"task": "tensor"}, {}, set()),
        ({}, {}, {(kind.WITHOUT_EFFECT, "")}),  # a CPU saves tensors, whatever was asked for
    ],
)
def test_kernels_are_refused_on_the_machines_where_the_dump_refuses_them(found, given, target, kinds):
    what = found({"level": "L2", "dump_path": "/tmp/kernels", **given}, **target)
    order = ", ".join
    assert {(kind, order(sorted(value.split(", ")))) for kind, _, value in what} == {
        (kind, order(sorted(value.split(", ")))) for kind, value in kinds
    }


@pytest.mark.parametrize(
    ("level", "name", "framework"),
    [
        *(("L0", "Functional.relu", "mindspore"), ("L0", "Mint.add.0.forward", "mindspore")),
        *(("L1", "Cell.fc", "mindspore"), ("L1", "Module.fc", "pytorch"), ("mix", "Module.fc", "mindspore")),
        *(("mix", "Torch.relu", "mindspore"), ("mix", "Cell.fc", "pytorch"), ("mix", "Mint.add", "pytorch")),
        *(("mix", "relu*", "mindspore"), ("mix", "layers.[0-3]", "mindspore"), ("mix", " relu", "mindspore")),
        ("L2", "Cell.fc.Dense.forward.0", "mindspore"),
    ],
)
def test_patterns_that_no_name_can_contain(found, level, name, framework):
    given = {"level": level, "task": "tensor", "dump_path": "/tmp/kernels", "tensor": {"list": [name]}}
    kinds = [kind for kind, *_ in found(given, framework, mode="pynative")]
    assert kinds == [kind.PATTERN]


@pytest.mark.parametrize(
    ("level", "name", "framework"),
    [
        *(("L0", "Cell.fc", "mindspore"), ("L0", "fc.Dense", "mindspore"), ("L1", "Functional.relu", "mindspore")),
        *(("mix", "Cell.layers.0", "mindspore"), ("mix", "relu", "pytorch"), ("L1", "Torch.relu", "pytorch")),
        *(
            ("L1", "MyOps.fused", "mindspore"),
            ("L2", "MatMul", "mindspore"),
            ("L2", "name-regex(.*Mat.*)", "mindspore"),
        ),
    ],
)
def test_patterns_that_a_name_may_contain(found, level, name, framework):
    given = {"level": level, "task": "tensor", "dump_path": "/tmp/kernels", "tensor": {"list": [name]}}
    assert found(given, framework, mode="pynative") == []


def test_names_of_both_apis_may_be_there_where_the_layer_is_installed(found):
    given = {"level": "mix", "statistics": {"list": ["Module.fc", "Torch.relu", "Cell.a"]}}
    assert found(given, has_layer=True) == []


def test_a_backward_call_where_only_forward_is_collected(found):
    given = {"statistics": {"list": ["Functional.relu.0.backward"], "data_mode": ["forward"]}}
    assert [kind for kind, *_ in found(given, mode="pynative")] == [kind.PATTERN]


def test_a_scope_that_runs_backwards(found):
    scope = ["Functional.relu.5.forward", "Functional.relu.2.forward"]
    assert [kind for kind, *_ in found({"statistics": {"scope": scope}}, mode="pynative")] == [kind.PATTERN]
    assert found({"statistics": {"scope": scope[::-1]}}, mode="pynative") == []


def test_ranks_and_steps_that_do_not_exist(found):
    given = {"level": "mix", "rank": [0, "6-9"], "step": [5]}
    assert found(given, ranks=8, steps=5) == [(kind.RANKS, "rank", "[8, 9]"), (kind.STEPS, "step", "[5]")]
    assert found(given) == []


def test_names_from_a_folder_without_a_dump(found, tmp_path):
    assert found({"level": "mix", "names_from": str(tmp_path)}) == [(kind.REFUSED, "names_from", "")]


def test_what_needs_a_call_of_its_own_is_noted(found):
    assert [kind for kind, *_ in found({"level": "debug"})] == [kind.NEEDS_CALL]
    assert [kind for kind, *_ in found({"task": "grad_probe"})] == [kind.NEEDS_CALL]


def test_what_the_mode_and_level_may_be():
    assert len(Target("mindspore").machines) == 6
    assert [(m.graph, m.jit_level) for m in Target("mindspore", mode="graph", jit_level="O2").machines] == [
        (True, "O2")
    ]
