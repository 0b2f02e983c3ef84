"""The settings of the framework's own dump: ours as the JSON that `MINDSPORE_DUMP_CONFIG` names, by machine and task.

The same settings on the same machine give the same text. Only the CPU route was ever run by us; the others write what
the framework documents for Ascend.

The kernels of one API in PyNative mode can be dumped by the Ascend runtime itself around a call. Its settings are made
here, once a step. To switch it on, a native module is needed that this version does not have: the file is written, and
a warning says so.

No framework is imported here: `msprobe doctor` asks these plans too.
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
    """Where the training runs. `graph` is GRAPH_MODE; `jit_level` is "O0", "O1" or "O2"."""

    device: str
    graph: bool
    jit_level: str
    version: tuple[int, ...]

    @property
    def whole_graph(self) -> bool:
        """Whether graphs run on the device as a whole, so that no kernel is launched by the framework."""
        return self.device == "Ascend" and self.graph and self.jit_level == "O2"


def requested_api(settings: Settings) -> str:
    """The API's call that `list` names, in the words of level L1; empty where it names kernels."""
    section = settings.section
    if isinstance(section, CollectSettings):
        return next((name for name in section.patterns if parse(name).kind == "api"), "")
    return ""


def serves(settings: Settings, machine: Machine) -> bool:
    """Whether the dump of one API applies: task `tensor`, a list of exactly one API's call, PyNative mode, Ascend."""
    section = settings.section
    one = isinstance(section, CollectSettings) and len(section.patterns) == 1 and not section.scope
    fits = settings.task == "tensor" and machine.device == "Ascend" and not machine.graph
    return one and fits and bool(requested_api(settings))


def write(root: Path, step: int, rank: int | None) -> Path:
    """Write the settings of the runtime's dump for this step."""
    folder = step_folder(root, step)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / ("kernel_config.json" if rank is None else f"kernel_config_{rank}.json")
    # all kernels between switching on and off
    dump = {"dump_list": [], "dump_path": str(folder), "dump_mode": "all", "dump_op_switch": "on"}
    file.write_text(json.dumps({"dump": dump}))
    return file


_FOREIGN = re.compile(r"[^A-Za-z0-9_/-]")


def wrong_path(dump_path: Path) -> str:
    """Why the framework's kernel dump cannot write there; empty where its name is right."""
    if foreign := _FOREIGN.search(str(dump_path)):
        return (
            f"{dump_path} contains {foreign[0]!r}, but the framework's kernel dump accepts only letters, digits, "
            "'-', '_' and '/'; choose another folder"
        )
    return ""


def plan_of(settings: Settings, machine: Machine) -> "Plan":
    """The plan of a kernel dump. UsageError where the framework has no such dump on this machine."""
    if settings.task == "exception_dump":
        if machine.device != "Ascend":
            raise _only_on_ascend(settings, machine)
        if machine.whole_graph:
            raise UsageError(
                'task "exception_dump" is not available at jit_level O2, where the framework does not launch '
                'single kernels; use set_context(jit_config={"jit_level": "O0"})'
            )
        return exception(settings)
    if settings.task == "overflow_check":
        if machine.device != "Ascend":
            raise _only_on_ascend(settings, machine)
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


def _only_on_ascend(settings: Settings, machine: Machine) -> UsageError:
    return UsageError(
        f'task "{settings.task}" at level L2: the framework supports it only on Ascend (device: '
        f'{machine.device}); use task "statistics" at level L2, whose maxima and minima show values that are not '
        "finite"
    )


EVERY_DEVICE = list(range(8))
NET = "Net"
LAST = 2**31 - 2
"""The largest iteration that is collected where all are wanted: the framework reads iterations as 32-bit integers."""
PARKED = LAST + 1
"""The iteration in which nothing is collected."""

FOUR = ("max", "min", "mean", "l2norm")
SINGLE_DIGEST = (2, 7, 0)
"""The newest version that knows a single digest, called `md5`."""

_OVERFLOW, _EXCEPTION = 3, 4
"""Modes of the framework's dump; before version 2.3 there were also 1 and 2, for what `check_mode` chooses."""

Contents = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """The file beside the dump that the framework reads, and what the user should know of it.

    `acl`: the file is named to the Ascend runtime too (`MS_ACL_DUMP_CFG_PATH`). `by_step`: the dump is switched on and
    off with the steps; else only the settings say what is dumped.
    """

    file: str
    contents: Contents
    acl: bool = False
    by_step: bool = False
    notes: tuple[str, ...] = ()


def kernels(settings: Settings, machine: Machine) -> Plan:
    """Tasks `statistics` and `tensor` where kernels are launched one by one: jit_level O0 and O1, and `@jit` parts."""
    section = _collected(settings)
    on_cpu = machine.device == "CPU"
    statistics = settings.task == "statistics" and not on_cpu  # on a CPU the framework refuses `statistic`
    common = {
        "op_debug_mode": 0,
        "dump_mode": 1 if section.patterns else 0,
        "path": str(settings.dump_path),
        "net_name": NET,
        "iteration": _iterations(settings, f"0-{LAST}" if on_cpu else "all"),
        "saved_data": "statistic" if statistics else "tensor",
        "input_output": _input_output(section.data_mode),
        "kernels": list(section.patterns),
        "support_device": _devices(settings),
    }
    if statistics:
        common["statistic_category"] = _categories(section.summary_mode, machine)
    # on a CPU there is no other dump than this one, so it stays enabled whatever async_dump says
    end_to_end: Contents = {"enable": on_cpu or not settings.async_dump, "trans_flag": True}
    if isinstance(section, StatisticsSettings) and statistics:
        end_to_end |= {"stat_calc_mode": section.device, "device_stat_precision_mode": section.precision}
    contents = {"common_dump_settings": common, "e2e_dump_settings": end_to_end}
    return Plan("kernel_kbyk_dump.json", contents, by_step=True, notes=tuple(_notes(settings, section, on_cpu)))


def whole_graph(settings: Settings, machine: Machine) -> Plan:
    """Tasks `statistics` and `tensor` where the whole graph goes to the device: jit_level O2 on Ascend."""
    section = _collected(settings)
    file_format = section.file_format if isinstance(section, TensorSettings) else "npy"
    common = {
        **_of_whole_graph(settings, 0),
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
        notes=(_NO_LONGER_READ,),
    )


def overflow(settings: Settings) -> Plan:
    """Task `overflow_check` at jit_level O2: the kernels that overflow, of all steps."""
    common = {**_of_whole_graph(settings, _OVERFLOW), "saved_data": "full"}
    notes = ["step: Step would change to all in this task."] if settings.step else []
    if isinstance(settings.section, OverflowCheckSettings) and settings.section.overflow_nums != 1:
        notes.append("overflow_nums has no effect at level L2: every kernel that overflows is dumped")
    return Plan("kernel_graph_overflow_check.json", {"common_dump_settings": common}, notes=(*notes, _NO_LONGER_READ))


def exception(settings: Settings) -> Plan:
    """Task `exception_dump`: inputs and outputs of the kernel that ended in an exception of the device."""
    contents = {
        "common_dump_settings": _of_whole_graph(settings, _EXCEPTION),
        "e2e_dump_settings": {"enable": not settings.async_dump, "trans_flag": True},
    }
    notes = ("step: exceptions are dumped at all steps; the setting has no effect",) if settings.step else ()
    return Plan("kernel_graph_exception_check.json", contents, notes=notes)


_NO_LONGER_READ = (
    "level L2 at jit_level O2: these settings are deprecated since MindSpore 2.6 and may be ignored; use "
    'set_context(jit_config={"jit_level": "O0"}) to collect kernels'
)


def _collected(settings: Settings) -> CollectSettings:
    assert isinstance(settings.section, CollectSettings), "only the tasks statistics and tensor have this section"
    return settings.section


def _of_whole_graph(settings: Settings, op_debug_mode: int) -> Contents:
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
    return list(settings.rank) or EVERY_DEVICE


def _input_output(mode: DataMode) -> int:
    return 0 if mode.input and mode.output else 1 if mode.input else 2


def _categories(summary_mode: str | tuple[str, ...], machine: Machine) -> list[str]:
    """The framework's words for the wanted statistics; `"md5"` as a single word is beside the four, as elsewhere."""
    single: dict[str | tuple[str, ...], tuple[str, ...]] = {"statistics": FOUR, "md5": (*FOUR, "md5")}
    wanted = summary_mode if isinstance(summary_mode, tuple) else single[summary_mode]
    words = {"mean": "avg"}
    words |= {"hash": "md5"} if machine.version <= SINGLE_DIGEST else {"md5": "hash:md5"}
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
