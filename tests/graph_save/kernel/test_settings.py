"""What the framework's dump is told, on every machine: the CPU here, Ascend up to its door.

The expected settings of Ascend are written by hand from the framework's documentation; none was run there.
"""

import json

import pytest

from msprobe.base import log
from msprobe.base.errors import UsageError
from msprobe.base.settings import load
from msprobe.graph_save.kernel import dump_settings, environment
from msprobe.graph_save.kernel.dump_settings import IDLE_ITERATION, LAST_ITERATION, Machine, plan_of
from msprobe.graph_save.kernel.environment import DynamicSwitch
from msprobe.graph_save.kernel.machine import this_machine

pytestmark = pytest.mark.mindspore

NEW, OLD = (2, 10, 0), (2, 7, 0)
CPU = Machine("CPU", True, "O0", NEW)
KERNELS = Machine("Ascend", True, "O0", NEW)
WHOLE = Machine("Ascend", True, "O2", NEW)
PYNATIVE = Machine("Ascend", False, "O2", NEW)
EVERY = [0, 1, 2, 3, 4, 5, 6, 7]


@pytest.fixture
def settings_of(tmp_path):
    """Settings of level L2."""

    def settings_of(task="statistics", section=None, **common):
        path = tmp_path / "config.json"
        path.write_text(json.dumps({"dump_path": "/dump", "task": task, "level": "L2", task: section or {}, **common}))
        return load(path)

    return settings_of


def common(**others):
    """Of kernels launched one by one: what stands there where nothing is set."""
    return {
        "op_debug_mode": 0,
        "dump_mode": 0,
        "path": "/dump",
        "net_name": "Net",
        "iteration": "all",
        "saved_data": "tensor",
        "input_output": 0,
        "kernels": [],
        "support_device": EVERY,
        **others,
    }


def of_graph(**others):
    """Of whole graphs."""
    return {**common(), "file_format": "npy", **others}


def test_statistics_on_ascend(settings_of):
    plan = plan_of(settings_of(), KERNELS)
    four = ["max", "min", "avg", "l2norm"]
    assert plan.file == "kernel_kbyk_dump.json"
    assert plan.contents == {
        "common_dump_settings": common(saved_data="statistic", statistic_category=four),
        "e2e_dump_settings": {
            "enable": True,
            "trans_flag": True,
            "stat_calc_mode": "host",
            "device_stat_precision_mode": "high",
        },
    }
    assert (plan.acl, plan.by_step, plan.notes) == (False, True, ())


def test_everything_set_on_ascend(settings_of):
    section = {
        "list": ["MatMul", "name-regex(.*Exp.*)"],
        "data_mode": ["output"],
        "device": "device",
        "precision": "low",
        "summary_mode": ["mean", "max", "nan count"],
    }
    plan = plan_of(settings_of(section=section, rank=[0, "4-5"], step=[1, "3-4"], async_dump=True), KERNELS)
    assert plan.contents == {
        "common_dump_settings": common(
            dump_mode=1,
            iteration="1|3|4",
            saved_data="statistic",
            input_output=2,
            kernels=["MatMul", "name-regex(.*Exp.*)"],
            support_device=[0, 4, 5],
            statistic_category=["avg", "max", "nan count"],
        ),
        "e2e_dump_settings": {
            "enable": False,
            "trans_flag": True,
            "stat_calc_mode": "device",
            "device_stat_precision_mode": "low",
        },
    }


@pytest.mark.parametrize(
    ("summary_mode", "version", "categories"),
    [
        ("md5", NEW, ["max", "min", "avg", "l2norm", "hash:md5"]),
        ("md5", OLD, ["max", "min", "avg", "l2norm", "md5"]),
        (["hash", "md5"], NEW, ["hash", "hash:md5"]),
        (["hash", "md5"], OLD, ["md5"]),
    ],
)
def test_digests_are_called_as_the_version_calls_them(settings_of, summary_mode, version, categories):
    machine = Machine("Ascend", True, "O1", version)
    contents = plan_of(settings_of(section={"summary_mode": summary_mode}), machine).contents
    assert contents["common_dump_settings"]["statistic_category"] == categories


@pytest.mark.parametrize(("mode", "number"), [("all", 0), ("input", 1), ("output", 2)])
@pytest.mark.parametrize("machine", [CPU, KERNELS, WHOLE])
def test_data_mode_is_a_number(settings_of, mode, number, machine):
    contents = plan_of(settings_of("tensor", {"data_mode": [mode]}), machine).contents
    assert contents["common_dump_settings"]["input_output"] == number


def test_tensors_on_ascend(settings_of):
    plan = plan_of(settings_of("tensor"), PYNATIVE)
    assert plan.contents == {
        "common_dump_settings": common(),
        "e2e_dump_settings": {"enable": True, "trans_flag": True},
    }, "of the @jit parts of PyNative, which are launched kernel by kernel whatever jit_level says"


def test_on_a_cpu_tensors_are_saved_at_once_and_a_step_that_is_not_collected_is_beyond_the_last(settings_of):
    plan = plan_of(settings_of(async_dump=True, section={"tensor_list": ["relu"], "device": "device"}), CPU)
    assert plan.contents == {
        "common_dump_settings": common(iteration=f"0-{LAST_ITERATION}"),
        "e2e_dump_settings": {"enable": True, "trans_flag": True},
    }
    assert IDLE_ITERATION == LAST_ITERATION + 1 == 2**31 - 1
    assert [note.split(" ")[0] for note in plan.notes] == ["tensor_list", "async_dump", "level"]
    assert plan_of(settings_of(step=[2, 7]), CPU).contents["common_dump_settings"]["iteration"] == "2|7"


def test_whole_graphs(settings_of):
    plan = plan_of(settings_of("tensor", {"file_format": "bin"}, step=[0]), WHOLE)
    assert plan.file == "kernel_graph_dump.json"
    assert plan.contents == {"common_dump_settings": of_graph(iteration="0", file_format="bin")}
    assert (plan.acl, plan.by_step) == (True, False)
    assert "deprecated since MindSpore 2.6" in plan.notes[0]
    plan = plan_of(settings_of(section={"list": ["MatMul"]}), WHOLE)
    assert plan.contents == {"common_dump_settings": of_graph(dump_mode=1, kernels=["MatMul"], saved_data="statistic")}
    assert not plan.acl, "the Ascend runtime knows no list of kernels"


def test_overflows_of_whole_graphs(settings_of):
    plan = plan_of(settings_of("overflow_check", {"overflow_nums": 5}, step=[3]), WHOLE)
    assert plan.file == "kernel_graph_overflow_check.json"
    assert plan.contents == {"common_dump_settings": of_graph(saved_data="full", op_debug_mode=3)}
    assert (plan.acl, plan.by_step) == (False, False)
    assert plan.notes[0] == "step: Step would change to all in this task."
    assert "overflow_nums has no effect" in plan.notes[1]


def test_exceptions(settings_of):
    for machine in (KERNELS, PYNATIVE):
        plan = plan_of(settings_of("exception_dump", rank=[2]), machine)
        assert plan.file == "kernel_graph_exception_check.json"
        assert plan.contents == {
            "common_dump_settings": of_graph(op_debug_mode=4, support_device=[2]),
            "e2e_dump_settings": {"enable": True, "trans_flag": True},
        }
        assert (plan.acl, plan.by_step) == (False, False)


@pytest.mark.parametrize(
    ("task", "machine", "message"),
    [
        ("exception_dump", CPU, r"on Ascend \(device:"),
        ("exception_dump", WHOLE, "at jit_level O2, where the framework does not launch single kernels"),
        ("overflow_check", CPU, r"on Ascend \(device:"),
        ("overflow_check", KERNELS, "needs graph mode at jit_level O2"),
    ],
)
def test_what_the_framework_does_not_offer_is_refused(settings_of, task, machine, message):
    with pytest.raises(UsageError, match=message):
        plan_of(settings_of(task), machine)


API = "Functional.linear.0.backward"


def test_the_kernels_of_one_api_are_captured_by_the_runtime(settings_of, tmp_path):
    settings = settings_of("tensor", {"list": [API]})
    assert dump_settings.captures_one_api(settings, PYNATIVE)
    assert json.loads(dump_settings.write_api_capture(tmp_path, 3, 1).read_text()) == {
        "dump": {"dump_list": [], "dump_path": str(tmp_path / "step3"), "dump_mode": "all", "dump_op_switch": "on"}
    }
    assert [file.name for file in (tmp_path / "step3").iterdir()] == ["kernel_config_1.json"]
    assert dump_settings.write_api_capture(tmp_path, 0, None) == tmp_path / "step0" / "kernel_config.json"


@pytest.mark.parametrize("machine", [CPU, KERNELS, WHOLE])
def test_elsewhere_the_name_of_an_api_is_refused(settings_of, machine):
    settings = settings_of("tensor", {"list": [API]})
    assert not dump_settings.captures_one_api(settings, machine)
    with pytest.raises(UsageError, match="is the name of an API"):
        plan_of(settings, machine)


@pytest.mark.parametrize("section", [{"list": [API, "Functional.relu.0.forward"]}, {"list": ["MatMul"]}, {}])
def test_a_capture_is_of_exactly_one_api(settings_of, section):
    assert not dump_settings.captures_one_api(settings_of("tensor", section), PYNATIVE)


def test_the_runtime_is_told_only_where_it_takes_part(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MS_ACL_DUMP_CFG_PATH", "of the user")
    monkeypatch.setenv("MINDSPORE_DUMP_CONFIG", "of the user")
    monkeypatch.setattr(environment, "_dump_folders", [])
    monkeypatch.setattr(log, "_logged", set())
    file = tmp_path / "kernel_graph_dump.json"
    restore = environment.set_variables(file, acl=True)
    assert [environment.os.environ[key] for key in ("MINDSPORE_DUMP_CONFIG", "MS_ACL_DUMP_CFG_PATH")] == [str(file)] * 2
    assert f"MINDSPORE_DUMP_CONFIG was of the user; level L2 sets it to {file}" in capsys.readouterr().err
    restore()
    assert [environment.os.environ[key] for key in ("MINDSPORE_DUMP_CONFIG", "MS_ACL_DUMP_CFG_PATH")] == [
        "of the user"
    ] * 2
    environment.set_variables(file, acl=False)
    assert "MS_ACL_DUMP_CFG_PATH" not in environment.os.environ


def test_on_ascend_the_framework_itself_starts_and_stops(monkeypatch):
    received = []
    for name in ("_dump_set_dynamic", "_dump_start", "_dump_stop", "_set_init_iter"):
        record = lambda *arguments, name=name: received.append((name, *arguments))  # noqa: E731  # one line a function
        monkeypatch.setattr(f"mindspore._c_expression.{name}", record)
    monkeypatch.setattr("mindspore.runtime.synchronize", lambda: received.append(("synchronize",)))
    switch = DynamicSwitch()
    switch.begin(4)
    switch.end()
    assert received == [
        ("_dump_set_dynamic",),
        ("_set_init_iter", 4),
        ("_dump_start",),
        ("synchronize",),
        ("_dump_stop",),
    ]


def test_this_machine_is_as_the_context_says():
    machine = this_machine()
    assert machine.device == "CPU"
    assert machine.jit_level in ("O0", "O1")
    assert machine.version[:2] >= (2, 7)
    assert not machine.whole_graph
