"""The sections of the configuration file, one frozen dataclass per task, with all defaults."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .checks import (
    byte_size,
    existing_path,
    flag,
    increasing_numbers,
    integer_at_least,
    number_above,
    one_of,
    other_framework_value,
    quoted,
    quoted_list,
    strings,
    words_of,
)
from .digest import CRC32C
from .digest import KINDS as DIGESTS
from .errors import SettingsError
from .names import kernel_name_problem
from .schema import SHARES
from .scope import DataMode, bounds_problem, parse_data_mode, parse_numbers
from .setting import checked, is_inert, setting, settings_of
from .unavailable import WITHOUT_EFFECT


def ineffective_settings(owner: object, level: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of `owner` that are not at their default and have no effect: key in the file, and reason."""
    for key, each in settings_of(type(owner)).items():
        value, when = getattr(owner, each.name), each.metadata["when"]
        if is_inert(each, level) and (when(value) if when else value != each.default):
            yield key, each.metadata["inert"]
    if isinstance(owner, Section):
        yield from owner.without_effect()


_KERNELS_ONLY = "only kernel dumps use it (level L2 of MindSpore)"
_KERNELS = ("L2",)
_NEVER_USED = "it was never used with MindSpore"
_FIXED_LIMITS = "every call is checked from the first step on, with the limits of its dtype"
_ALL_FOUR = "levels L0, L1 and mix always write Max, Min, Mean and Norm"
_BY_FRAMEWORK = "since the framework describes the tensors of kernels"
_CALLS = ("L0", "L1", "mix", "debug")
_SUMMARIES = ("statistics", *DIGESTS)
_STATISTICS = (
    *("statistics", "md5", "max", "min", "mean", "l2norm", "count", "zero count", "positive zero count"),
    *("negative zero count", "nan count", "positive inf count", "negative inf count", "hash"),
)


def extra_statistics(value: object) -> tuple[str, ...]:
    """Check a list of optional statistics, which may be empty."""
    return tuple(dict.fromkeys(map(one_of(*[each.name for each in SHARES]), strings(value))))


@dataclass(frozen=True, kw_only=True)
class Section:
    """Base class of the settings of a task."""

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        """Yield settings that contradict each other: key in the file, and message."""
        yield from ()

    def without_effect(self) -> Iterator[tuple[str, str]]:
        """Yield settings that have no effect in combination with others: key in the file, and reason."""
        yield from ()


_PT = "pt"


@dataclass(frozen=True, kw_only=True)
class SavingSettings(Section):
    """Settings of a task that can save tensors. With `file_format` "pt", mindstudio-probe can read the dump."""

    file_format: str = setting(
        one_of("npy", "bin", _PT), "npy", inert=_KERNELS_ONLY, when=lambda value: value == "bin", read_at=_KERNELS
    )

    @property
    def saves_pt(self) -> bool:
        """Return whether tensors are saved as PyTorch files."""
        return self.file_format == _PT

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        if level == "L2" and self.saves_pt:
            yield "file_format", '"pt" is not available at level "L2", where the framework writes the files; use "npy"'


@dataclass(frozen=True, kw_only=True)
class CollectSettings(SavingSettings):
    """Settings that the tasks `statistics` and `tensor` share.

    patterns : the setting `list`.
    tensor_list : patterns of calls whose tensors are saved too; only for task `statistics`.
    """

    scope: tuple[str, ...] = setting(strings, ())
    patterns: tuple[str, ...] = setting(strings, (), key="list")
    data_mode: DataMode = setting(parse_data_mode, DataMode())  # noqa: RUF009  # makes a field
    summary_mode: str | tuple[str, ...] = setting(one_of(*_SUMMARIES), "statistics")
    tensor_list: tuple[str, ...] = ()
    extra: tuple[str, ...] = setting(extra_statistics, (), inert=_BY_FRAMEWORK, read_at=_CALLS, is_optional=True)
    layout: bool = setting(flag, False, inert=_BY_FRAMEWORK, read_at=_CALLS, is_optional=True)

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        yield from super().contradictions(level, async_dump)
        if wrong := bounds_problem(level, self.scope):
            yield "scope", wrong
        if level == "L2":
            yield from self._contradictions_of_kernels(async_dump)

    @property
    def digests(self) -> str:
        """Return the kind of digest in records; empty without digests."""
        return self.summary_mode if isinstance(self.summary_mode, str) and self.summary_mode in DIGESTS else ""

    def _contradictions_of_kernels(self, async_dump: bool) -> Iterator[tuple[str, str]]:
        if self.summary_mode == CRC32C:
            yield (
                "summary_mode",
                '"crc32c" is not available at level "L2", where the framework writes the files; use "md5"',
            )
        if async_dump and self.summary_mode == "md5":
            what = '"md5" is not available with async_dump at level "L2", where the framework writes the files'
            yield "summary_mode", f'{what}; set async_dump to false, or use "statistics"'
        if self.scope:
            yield (
                "scope",
                (
                    'level "L2" does not support scope, since kernels have no first and last call; select kernels with '
                    '"list"'
                ),
            )
        for name in self.patterns:
            if wrong := kernel_name_problem(name):
                yield "list", wrong
        if not (self.data_mode.forward and self.data_mode.backward):
            yield (
                "data_mode",
                'level "L2" does not distinguish forward and backward; write ["all"], ["input"] or ["output"]',
            )


def summary(value: object) -> str | tuple[str, ...]:
    """Check `summary_mode`: one word, or a list of statistics for kernel dumps."""
    if not isinstance(value, list | tuple):
        return str(one_of(*_SUMMARIES)(value))
    return tuple(one_of(*_STATISTICS)(element) for element in value)


MEBIBYTE = 1 << 20


def memory(value: object) -> int:
    """Check a number of bytes for copies of tensors, at least one MiB."""
    found = byte_size(value)
    if found < MEBIBYTE:
        raise SettingsError(f'{quoted(value)} is too small; write at least "1MiB"')
    return found


@dataclass(frozen=True, kw_only=True)
class TriggerSettings:
    """Settings of a trigger, which writes a call together with the calls before it."""

    on: tuple[str, ...] = setting(words_of("nan", "inf", "jump", "digest"), ("nan", "inf"))
    calls: int = setting(integer_at_least(0), 8)
    memory: int = setting(memory, 256 * MEBIBYTE)
    jump: float = setting(number_above(1), 100.0)
    golden: str = setting(existing_path, "")
    times: int = setting(integer_at_least(1, also=(-1,)), 1)


def trigger(value: object) -> TriggerSettings:
    """Check the settings of a trigger."""
    if not isinstance(value, Mapping):
        raise SettingsError(f'{quoted(value)} is not an object; write {{}} or an object such as {{"on": ["nan"]}}')
    made = TriggerSettings(**checked(TriggerSettings, value, lambda key: key, {}))
    if ("digest" in made.on) != bool(made.golden):
        what = '"digest" compares with the golden dump given by "golden"; write both settings or neither'
        raise SettingsError(f"golden: {what}")
    return made


@dataclass(frozen=True, kw_only=True)
class StatisticsSettings(CollectSettings):
    """Settings of task `statistics`: statistics of every tensor."""

    summary_mode: str | tuple[str, ...] = setting(
        summary, "statistics", inert=_ALL_FOUR, when=lambda value: isinstance(value, tuple), read_at=_KERNELS
    )
    tensor_list: tuple[str, ...] = setting(strings, ())
    device: str = setting(one_of("host", "device"), "host", inert=_KERNELS_ONLY, read_at=_KERNELS)
    precision: str = setting(one_of("high", "low"), "high", inert=_KERNELS_ONLY, read_at=_KERNELS)
    trigger: TriggerSettings | None = setting(trigger, None)  # noqa: RUF009  # makes a field

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        yield from super().contradictions(level, async_dump)
        if self.trigger is None:
            return
        if level in ("L2", "debug"):
            yield "trigger", f'level {quoted(level)} does not support a trigger; use "L0", "L1" or "mix", or omit it'
        if self.tensor_list:
            yield "tensor_list", "a trigger selects the calls whose tensors are written; omit tensor_list"


@dataclass(frozen=True, kw_only=True)
class TensorSettings(CollectSettings):
    """Settings of task `tensor`: every tensor, with its statistics."""

    backward_input: object = setting(other_framework_value, None, inert=WITHOUT_EFFECT["backward_input"])
    online_run_ut: object = setting(other_framework_value, None, inert=WITHOUT_EFFECT["online_run_ut"])
    nfs_path: object = setting(other_framework_value, None, inert=WITHOUT_EFFECT["nfs_path"])
    host: object = setting(other_framework_value, None, inert=WITHOUT_EFFECT["host"])
    port: object = setting(other_framework_value, None, inert=WITHOUT_EFFECT["port"])
    bench_path: object = setting(other_framework_value, None, inert=WITHOUT_EFFECT["bench_path"])
    diff_nums: object = setting(other_framework_value, None, inert=WITHOUT_EFFECT["diff_nums"])

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        yield from super().contradictions(level, async_dump)
        if async_dump and level != "debug" and not self.patterns:
            yield (
                "list",
                'async_dump keeps tensors in memory, so "list" must select the calls; fill it, or set async_dump '
                "to false",
            )


@dataclass(frozen=True, kw_only=True)
class StructureSettings(Section):
    """Settings of task `structure`: names, stacks and nesting without values. It has no settings."""


@dataclass(frozen=True, kw_only=True)
class ExceptionDumpSettings(SavingSettings):
    """Settings of task `exception_dump`: calls that raise; at level L2, kernels that end in an exception."""

    calls: int = setting(integer_at_least(0), 8)
    memory: int = setting(memory, 256 * MEBIBYTE)


@dataclass(frozen=True, kw_only=True)
class OverflowCheckSettings(SavingSettings):
    """Settings of task `overflow_check`: first calls with non-finite tensors; at level L2, kernels that overflow."""

    overflow_nums: int = setting(integer_at_least(1, also=(-1,)), 1)
    check_mode: str = setting(one_of("all", "aicore", "atomic"), "all", inert="only MindSpore before 2.3 uses it")


@dataclass(frozen=True, kw_only=True)
class FreeBenchmarkSettings(Section):
    """Settings of task `free_benchmark`: perturb an input, and compare the output. `apis` is the setting `list`."""

    apis: tuple[str, ...] = setting(strings, (), key="list")
    scope: tuple[str, ...] = setting(strings, (), inert=_NEVER_USED)
    fuzz_device: str = setting(one_of("npu", "cpu"), "npu")
    pert_mode: str = setting(
        one_of("improve_precision", "add_noise", "bit_noise", "no_change", "change_value", "to_cpu"),
        "improve_precision",
    )
    handler_type: str = setting(
        one_of("check", "fix", "preheat"),
        "check",
        inert=f'{_FIXED_LIMITS}; it is treated as "check"',
        when=lambda value: value == "preheat",
    )
    fuzz_level: str = setting(one_of("L1"), "L1")
    fuzz_stage: str = setting(one_of("forward", "backward"), "forward")
    if_preheat: bool = setting(
        flag,
        False,
        inert=f"preheat_step and max_sample have no effect either: {_FIXED_LIMITS}",
        when=lambda value: value,
    )
    preheat_step: int = setting(integer_at_least(0), 15)
    max_sample: int = setting(integer_at_least(0), 20)

    def without_effect(self) -> Iterator[tuple[str, str]]:
        if self.fuzz_device == "cpu" and self.pert_mode != "to_cpu":
            yield (
                "fuzz_device",
                'only pert_mode "to_cpu" runs calls on the CPU; other modes run them on the device of the inputs',
            )

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        if self.handler_type == "fix" and self.pert_mode not in ("improve_precision", "to_cpu"):
            yield (
                "pert_mode",
                f'{quoted(self.pert_mode)} does not support handler_type "fix"; use "improve_precision", "to_cpu", '
                'or handler_type "check"',
            )
        if self.handler_type == "fix" and self.fuzz_stage != "forward":
            yield (
                "fuzz_stage",
                f'{quoted(self.fuzz_stage)} does not support handler_type "fix"; use "forward", or handler_type '
                '"check"',
            )


_PARAMETER = re.compile(r"[A-Za-z0-9_.]+")


def parameters(value: object) -> tuple[str, ...]:
    """Check a list of parameter names."""
    for name in strings(value):
        if not _PARAMETER.fullmatch(name):
            raise SettingsError(f"{quoted(name)} is not a parameter name; use only letters, digits, '_' and '.'")
    return strings(value)


@dataclass(frozen=True, kw_only=True)
class GradProbeSettings(Section):
    """Settings of task `grad_probe`: the gradients that an optimizer receives, at each of its calls."""

    grad_level: str = setting(one_of("L0", "L1", "L2"), "L1")
    param_list: tuple[str, ...] = setting(parameters, ())
    bounds: tuple[int | float, ...] = setting(increasing_numbers, (-1, 0, 1))


@dataclass(frozen=True, kw_only=True)
class AccCheckSettings(Section):
    """Settings of task `acc_check`: calls are compared with float64 during the training.

    budget_ms : time in milliseconds per step.
    memory : maximum bytes of copies of inputs that are kept until their backward.
    white_list, black_list : as for `msprobe acc-check`.
    """

    budget_ms: float = setting(number_above(0), 200.0)
    memory: int = setting(memory, 256 * MEBIBYTE)
    white_list: tuple[str, ...] = setting(strings, ())
    black_list: tuple[str, ...] = setting(strings, ())

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        if async_dump:
            yield "budget_ms", 'async_dump has no effect with task "acc_check", which checks calls immediately; omit it'


ALL_CALLS = "*"

GRAFTED_VALUES = ("forward", "backward", "inputs", "incoming", "parameters", "update")


def calls_to_graft(value: object) -> tuple[str, ...]:
    """Check the calls whose values are replaced: a list of names, or `"*"` for all."""
    if value == ALL_CALLS:
        return (ALL_CALLS,)
    names = tuple(dict.fromkeys(strings(value)))
    if not names:
        raise SettingsError(
            f'the list is empty; write names of calls such as "Functional.linear.3", or {quoted(ALL_CALLS)}'
        )
    if ALL_CALLS in names and len(names) > 1:
        raise SettingsError(f"{quoted(ALL_CALLS)} means all calls; remove it, or the {len(names) - 1} other names")
    return names


@dataclass(frozen=True, kw_only=True)
class GraftSettings(Section):
    """Settings of task `graft`, which changes the training: values of a golden run replace those of its calls.

    golden : the folder of a dump of task `tensor`, or a plan that `msprobe graft` wrote.
    calls : names of calls of this training, or of parameters; `*` for all.
    what : the values that are replaced.
    steps : the steps in which they are; empty for all that are collected.
    record : the task of the dump of this run.
    """

    golden: str = setting(existing_path, "")
    calls: tuple[str, ...] = setting(calls_to_graft, (ALL_CALLS,))
    what: tuple[str, ...] = setting(words_of(*GRAFTED_VALUES), ("forward", "backward"))
    steps: tuple[int, ...] = setting(parse_numbers, ())
    record: str = setting(one_of("statistics", "tensor"), "statistics")

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        if not self.golden:
            yield (
                "golden",
                "the setting is missing; set it to the folder of a dump of task tensor, or to a plan that "
                "`msprobe graft` wrote",
            )


SECTIONS: dict[str, type[Section]] = {
    "statistics": StatisticsSettings,
    "tensor": TensorSettings,
    "structure": StructureSettings,
    "overflow_check": OverflowCheckSettings,
    "free_benchmark": FreeBenchmarkSettings,
    "grad_probe": GradProbeSettings,
    "exception_dump": ExceptionDumpSettings,
    "acc_check": AccCheckSettings,
    "graft": GraftSettings,
}
PRECHECK = ("run_ut", "acc_check")
"""Older and newer name of the section for the API precheck of a dump; a training reads the newer one."""


def task_name(value: object) -> str:
    """Check the name of a task of a training."""
    if value == "run_ut":
        what = '"run_ut" is not a task of a training: `msprobe acc-check` checks the calls of a dump'
        raise SettingsError(
            f'{what}, and task "acc_check" checks them during the training; choose one of '
            f"{quoted_list(tuple(SECTIONS))}"
        )
    return str(one_of(*SECTIONS)(value))
