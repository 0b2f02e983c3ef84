"""Settings of the framework's own dump: converts settings of the debugger to the JSON for `MINDSPORE_DUMP_CONFIG`.

The result depends only on the settings and the machine. Only the settings for CPU have been tested; the others follow
the framework's documentation for Ascend.

In PyNative mode the Ascend runtime can dump the kernels of one API around a call. Its settings are written here, once
per step, but enabling it requires a native module that this version does not have, and a warning is logged.

Imports no framework, because `msprobe doctor` uses this module too.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.names import parse
from msprobe.base.scope import DataMode
from msprobe.base.sections import CollectSettings, OverflowCheckSettings, StatisticsSettings, TensorSettings
from msprobe.base.settings import Settings
from msprobe.store.layout import step_folder


@dataclass(frozen=True)
class Machine:
    """The device and mode of a training.

    device : "CPU", "GPU" or "Ascend".
    graph : whether the mode is GRAPH_MODE.
    jit_level : "O0", "O1" or "O2".
    version : of MindSpore.
    """

    device: str
    graph: bool
    jit_level: str
    version: tuple[int, ...]

    @property
    def whole_graph(self) -> bool:
        """Return whether graphs run on the device as a whole, without kernel launches by the framework."""
        return self.device == "Ascend" and self.graph and self.jit_level == "O2"


def requested_api(settings: Settings) -> str:
    """Return the name of an API in the setting `list`, in the form of level L1; empty if it contains only kernels."""
    section = settings.section
    if isinstance(section, CollectSettings):
        return next((name for name in section.patterns if parse(name).kind == "api"), "")
    return ""


def captures_one_api(settings: Settings, machine: Machine) -> bool:
    """Return whether the kernels of one API are captured: task `tensor`, a list of one API, PyNative mode, Ascend."""
    section = settings.section
    is_single = isinstance(section, CollectSettings) and len(section.patterns) == 1 and not section.scope
    is_supported = settings.task == "tensor" and machine.device == "Ascend" and not machine.graph
    return is_single and is_supported and bool(requested_api(settings))


def write_api_capture(root: Path, step: int, rank: int | None) -> Path:
    """Write the settings of the Ascend runtime's dump of one API for this step, and return their path."""
    folder = step_folder(root, step)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / ("kernel_config.json" if rank is None else f"kernel_config_{rank}.json")
    # all kernels while the dump is enabled
    dump = {"dump_list": [], "dump_path": str(folder), "dump_mode": "all", "dump_op_switch": "on"}
    file.write_text(json.dumps({"dump": dump}))
    return file


_INVALID = re.compile(r"[^A-Za-z0-9_/-]")


def path_problem(dump_path: Path) -> str:
    """Return why the framework's kernel dump cannot write to a path; empty if it can."""
    if invalid := _INVALID.search(str(dump_path)):
        return (
            f"{dump_path} contains {invalid[0]!r}, but the framework's kernel dump accepts only letters, digits, "
            "'-', '_' and '/'; choose another folder"
        )
    return ""


def plan_of(settings: Settings, machine: Machine) -> "Plan":
    """Return the plan of a kernel dump. UsageError if the framework does not support this dump on the machine."""
    if settings.task == "exception_dump":
        if machine.device != "Ascend":
            raise _ascend_only_error(settings, machine)
        if machine.whole_graph:
            raise UsageError(
                'task "exception_dump" is not available at jit_level O2, where the framework does not launch '
                'single kernels; use set_context(jit_config={"jit_level": "O0"})'
            )
        return exception(settings)
    if settings.task == "overflow_check":
        if machine.device != "Ascend":
            raise _ascend_only_error(settings, machine)
        if not machine.whole_graph:
            raise UsageError(
                'task "overflow_check" at level L2 needs graph mode at jit_level O2; use task "statistics" at '
                "level L2, whose maxima and minima show values that are not finite"
            )
        return overflow(settings)
    if api := requested_api(settings):
        raise UsageError(
            f"list: {api} is the name of an API, but kernels of one API can be captured only in PyNative mode on "
            f'Ascend (device: {machine.device}); give kernels, such as "MatMul", or collect the API at level L1'
        )
    return whole_graph(settings, machine) if machine.whole_graph else kernels(settings, machine)


def _ascend_only_error(settings: Settings, machine: Machine) -> UsageError:
    return UsageError(
        f'task "{settings.task}" at level L2: the framework supports it only on Ascend (device: '
        f'{machine.device}); use task "statistics" at level L2, whose maxima and minima show values that are not '
        "finite"
    )


ALL_DEVICES = list(range(8))
NET = "Net"
LAST_ITERATION = 2**31 - 2
"""The largest iteration that is collected if all are selected: the framework uses 32-bit integers."""
IDLE_ITERATION = LAST_ITERATION + 1
"""The iteration that is set while nothing is collected."""

BASIC_STATISTICS = ("max", "min", "mean", "l2norm")
LAST_WITH_SINGLE_DIGEST = (2, 7, 0)
"""The newest version of MindSpore that supports only one digest, with the name `md5`."""

_OVERFLOW, _EXCEPTION = 3, 4
"""Values of `op_debug_mode`; before version 2.3 there were also 1 and 2, for values of `check_mode`."""

Contents = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """The settings file of a kernel dump.

    file : name of the file, in the folder of the dump.
    contents : the settings as JSON data.
    acl : whether the Ascend runtime also reads the file (`MS_ACL_DUMP_CFG_PATH`).
    by_step : whether the dump is switched on and off with the steps; otherwise only the settings select the steps.
    notes : messages for the user.
    """

    file: str
    contents: Contents
    acl: bool = False
    by_step: bool = False
    notes: tuple[str, ...] = ()


def kernels(settings: Settings, machine: Machine) -> Plan:
    """Return the plan for tasks `statistics` and `tensor` with kernel launches: jit_level O0 and O1, and `@jit`."""
    section = _collect_section(settings)
    on_cpu = machine.device == "CPU"
    statistics = settings.task == "statistics" and not on_cpu  # The framework does not support `statistic` on a CPU.
    common = {
        "op_debug_mode": 0,
        "dump_mode": 1 if section.patterns else 0,
        "path": str(settings.dump_path),
        "net_name": NET,
        "iteration": _iterations(settings, f"0-{LAST_ITERATION}" if on_cpu else "all"),
        "saved_data": "statistic" if statistics else "tensor",
        "input_output": _input_output(section.data_mode),
        "kernels": list(section.patterns),
        "support_device": _devices(settings),
    }
    if statistics:
        common["statistic_category"] = _categories(section.summary_mode, machine)
    # On a CPU this is the only dump, so it remains enabled independent of async_dump.
    end_to_end: Contents = {"enable": on_cpu or not settings.async_dump, "trans_flag": True}
    if isinstance(section, StatisticsSettings) and statistics:
        end_to_end |= {"stat_calc_mode": section.device, "device_stat_precision_mode": section.precision}
    contents = {"common_dump_settings": common, "e2e_dump_settings": end_to_end}
    return Plan("kernel_kbyk_dump.json", contents, by_step=True, notes=tuple(_notes(settings, section, on_cpu)))


def whole_graph(settings: Settings, machine: Machine) -> Plan:
    """Return the plan for tasks `statistics` and `tensor` with whole graphs on the device: jit_level O2 on Ascend."""
    section = _collect_section(settings)
    file_format = section.file_format if isinstance(section, TensorSettings) else "npy"
    common = {
        **_whole_graph_settings(settings, 0),
        "dump_mode": 1 if section.patterns else 0,
        "iteration": _iterations(settings, "all"),
        "saved_data": "statistic" if settings.task == "statistics" else "tensor",
        "input_output": _input_output(section.data_mode),
        "kernels": list(section.patterns),
        "file_format": file_format,
    }
    return Plan(
        "kernel_graph_dump.json",
        {"common_dump_settings": common},
        acl=not section.patterns,
        notes=(_DEPRECATED,),
    )


def overflow(settings: Settings) -> Plan:
    """Return the plan for task `overflow_check` at jit_level O2: kernels that overflow, in all steps."""
    common = {**_whole_graph_settings(settings, _OVERFLOW), "saved_data": "full"}
    notes = ["step: Step would change to all in this task."] if settings.step else []
    if isinstance(settings.section, OverflowCheckSettings) and settings.section.overflow_nums != 1:
        notes.append("overflow_nums has no effect at level L2: every kernel that overflows is dumped")
    return Plan("kernel_graph_overflow_check.json", {"common_dump_settings": common}, notes=(*notes, _DEPRECATED))


def exception(settings: Settings) -> Plan:
    """Return the plan for task `exception_dump`: inputs and outputs of kernels that raise a device exception."""
    contents = {
        "common_dump_settings": _whole_graph_settings(settings, _EXCEPTION),
        "e2e_dump_settings": {"enable": not settings.async_dump, "trans_flag": True},
    }
    notes = ("step: exceptions are dumped at all steps; the setting has no effect",) if settings.step else ()
    return Plan("kernel_graph_exception_check.json", contents, notes=notes)


_DEPRECATED = (
    "level L2 at jit_level O2: these settings are deprecated since MindSpore 2.6 and may be ignored; use "
    'set_context(jit_config={"jit_level": "O0"}) to collect kernels'
)


def _collect_section(settings: Settings) -> CollectSettings:
    assert isinstance(settings.section, CollectSettings), "only the tasks statistics and tensor have this section"
    return settings.section


def _whole_graph_settings(settings: Settings, op_debug_mode: int) -> Contents:
    return {
        "dump_mode": 0,
        "path": str(settings.dump_path),
        "net_name": NET,
        "iteration": "all",
        "saved_data": "tensor",
        "input_output": 0,
        "kernels": [],
        "support_device": _devices(settings),
        "op_debug_mode": op_debug_mode,
        "file_format": "npy",
    }


def _iterations(settings: Settings, every: str) -> str:
    return "|".join(map(str, settings.step)) or every


def _devices(settings: Settings) -> list[int]:
    return list(settings.rank) or ALL_DEVICES


def _input_output(mode: DataMode) -> int:
    return 0 if mode.input and mode.output else 1 if mode.input else 2


def _categories(summary_mode: str | tuple[str, ...], machine: Machine) -> list[str]:
    """Return the framework's names of the selected statistics; `"md5"` alone selects the basic statistics too."""
    single: dict[str | tuple[str, ...], tuple[str, ...]] = {
        "statistics": BASIC_STATISTICS,
        "md5": (*BASIC_STATISTICS, "md5"),
    }
    wanted = summary_mode if isinstance(summary_mode, tuple) else single[summary_mode]
    words = {"mean": "avg"}
    words |= {"hash": "md5"} if machine.version <= LAST_WITH_SINGLE_DIGEST else {"md5": "hash:md5"}
    return list(dict.fromkeys(words.get(word, word) for word in wanted))


def _notes(settings: Settings, section: CollectSettings, on_cpu: bool) -> list[str]:
    notes = []
    if section.tensor_list:
        notes.append('tensor_list has no effect at level L2; use task "tensor" with a list of kernels')
    if isinstance(section, TensorSettings) and section.file_format != "npy":
        notes.append('file_format: "bin" is available only for kernel dumps at jit_level O2; npy is written')
    if on_cpu and settings.async_dump:
        notes.append("async_dump has no effect at level L2 on a CPU, where the framework writes immediately")
    if on_cpu and settings.task == "statistics":
        notes.append(
            "level L2 on a CPU: the framework saves only tensors, which needs more disk space; msprobe gather "
            "computes their statistics, independent of the settings device and precision"
        )
    return notes
