"""The sections of the configuration file, one frozen dataclass per task. Defaults stand here and nowhere else."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .checks import (
    above,
    ascending,
    existing,
    flag,
    listed,
    one_of,
    shown,
    size,
    some_of,
    texts,
    unread,
    whole,
)
from .digest import CRC32C
from .digest import KINDS as DIGESTS
from .errors import SettingsError
from .names import wrong_kernel
from .not_built import WITHOUT_EFFECT
from .schema import SHARES
from .scope import DataMode, parts, wrong_bounds
from .setting import checked, is_inert, setting, settings_of


def inert(owner: object, level: str) -> Iterator[tuple[str, str]]:
    """The settings of `owner` that are not at their default and have no effect: the key in the file, and why."""
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
    """A list of optional statistics, also an empty one."""
    return tuple(dict.fromkeys(map(one_of(*[each.name for each in SHARES]), texts(value))))


@dataclass(frozen=True, kw_only=True)
class Section:
    """The settings of one task."""

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        """Settings that contradict each other: the key in the file, and what is wrong with it."""
        yield from ()

    def without_effect(self) -> Iterator[tuple[str, str]]:
        """Settings that have no effect together with the others: the key in the file, and why."""
        yield from ()


_PT = "pt"


@dataclass(frozen=True, kw_only=True)
class SavingSettings(Section):
    """The settings of a task that can save tensors. `file_format` "pt" also makes the dump one that `msprobe` reads."""

    file_format: str = setting(
        one_of("npy", "bin", _PT), "npy", inert=_KERNELS_ONLY, when=lambda value: value == "bin", read_at=_KERNELS
    )

    @property
    def saves_pt(self) -> bool:
        """Whether tensors are saved as PyTorch's files."""
        return self.file_format == _PT

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        if level == "L2" and self.saves_pt:
            yield "file_format", '"pt" is not available at level "L2", where the framework writes the files; use "npy"'


@dataclass(frozen=True, kw_only=True)
class CollectSettings(SavingSettings):
    """The settings that the tasks `statistics` and `tensor` share. `patterns` is `list` in the file.

    `tensor_list` has the patterns of calls whose tensors are saved too; only task `statistics` can set it.
    """

    scope: tuple[str, ...] = setting(texts, ())
    patterns: tuple[str, ...] = setting(texts, (), key="list")
    data_mode: DataMode = setting(parts, DataMode())  # noqa: RUF009  # makes a field
    summary_mode: str | tuple[str, ...] = setting(one_of(*_SUMMARIES), "statistics")
    tensor_list: tuple[str, ...] = ()
    extra: tuple[str, ...] = setting(extra_statistics, (), inert=_BY_FRAMEWORK, read_at=_CALLS, is_optional=True)
    layout: bool = setting(flag, False, inert=_BY_FRAMEWORK, read_at=_CALLS, is_optional=True)

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        yield from super().contradictions(level, async_dump)
        if wrong := wrong_bounds(level, self.scope):
            yield "scope", wrong
        if level == "L2":
            yield from self._contradictions_of_kernels(async_dump)

    @property
    def digests(self) -> str:
        """The kind of digest that records have; empty for none."""
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
            if wrong := wrong_kernel(name):
                yield "list", wrong
        if not (self.data_mode.forward and self.data_mode.backward):
            yield (
                "data_mode",
                'level "L2" does not distinguish forward and backward; write ["all"], ["input"] or ["output"]',
            )


def summary(value: object) -> str | tuple[str, ...]:
    """One word, or a list of statistics as kernel dumps take it."""
    if not isinstance(value, list | tuple):
        return str(one_of(*_SUMMARIES)(value))
    return tuple(one_of(*_STATISTICS)(element) for element in value)


MEBIBYTE = 1 << 20


def memory(value: object) -> int:
    """Bytes for copies of tensors; less than a mebibyte would hold next to nothing."""
    found = size(value)
    if found < MEBIBYTE:
        raise SettingsError(f'{shown(value)} is too small; write at least "1MiB"')
    return found


@dataclass(frozen=True, kw_only=True)
class TriggerSettings:
    """What makes a call be written, with the calls before it, and how much of them is kept."""

    on: tuple[str, ...] = setting(some_of("nan", "inf", "jump", "digest"), ("nan", "inf"))
    calls: int = setting(whole(0), 8)
    memory: int = setting(memory, 256 * MEBIBYTE)
    jump: float = setting(above(1), 100.0)
    golden: str = setting(existing, "")
    times: int = setting(whole(1, also=(-1,)), 1)


def trigger(value: object) -> TriggerSettings:
    """The settings of a trigger, an object of its own."""
    if not isinstance(value, Mapping):
        raise SettingsError(f'{shown(value)} is not an object; write {{}} or an object such as {{"on": ["nan"]}}')
    made = TriggerSettings(**checked(TriggerSettings, value, lambda key: key, {}))
    if ("digest" in made.on) != bool(made.golden):
        what = '"digest" compares with the golden dump given by "golden"; write both settings or neither'
        raise SettingsError(f"golden: {what}")
    return made


@dataclass(frozen=True, kw_only=True)
class StatisticsSettings(CollectSettings):
    """Task `statistics`: numbers about every tensor."""

    summary_mode: str | tuple[str, ...] = setting(
        summary, "statistics", inert=_ALL_FOUR, when=lambda value: isinstance(value, tuple), read_at=_KERNELS
    )
    tensor_list: tuple[str, ...] = setting(texts, ())
    device: str = setting(one_of("host", "device"), "host", inert=_KERNELS_ONLY, read_at=_KERNELS)
    precision: str = setting(one_of("high", "low"), "high", inert=_KERNELS_ONLY, read_at=_KERNELS)
    trigger: TriggerSettings | None = setting(trigger, None)  # noqa: RUF009  # makes a field

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        yield from super().contradictions(level, async_dump)
        if self.trigger is None:
            return
        if level in ("L2", "debug"):
            yield "trigger", f'level {shown(level)} does not support a trigger; use "L0", "L1" or "mix", or omit it'
        if self.tensor_list:
            yield "tensor_list", "a trigger selects the calls whose tensors are written; omit tensor_list"


@dataclass(frozen=True, kw_only=True)
class TensorSettings(CollectSettings):
    """Task `tensor`: the tensors themselves, with their statistics."""

    backward_input: object = setting(unread, None, inert=WITHOUT_EFFECT["backward_input"])
    online_run_ut: object = setting(unread, None, inert=WITHOUT_EFFECT["online_run_ut"])
    nfs_path: object = setting(unread, None, inert=WITHOUT_EFFECT["nfs_path"])
    host: object = setting(unread, None, inert=WITHOUT_EFFECT["host"])
    port: object = setting(unread, None, inert=WITHOUT_EFFECT["port"])
    bench_path: object = setting(unread, None, inert=WITHOUT_EFFECT["bench_path"])
    diff_nums: object = setting(unread, None, inert=WITHOUT_EFFECT["diff_nums"])

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
    """Task `structure`: names, stacks and nesting without values. No settings."""


@dataclass(frozen=True, kw_only=True)
class ExceptionDumpSettings(SavingSettings):
    """Task `exception_dump`: what there is when a call raises; at level L2, kernels that end in an exception."""

    calls: int = setting(whole(0), 8)
    memory: int = setting(memory, 256 * MEBIBYTE)


@dataclass(frozen=True, kw_only=True)
class OverflowCheckSettings(SavingSettings):
    """Task `overflow_check`: the first calls whose tensors are not finite; at level L2, kernels that overflow."""

    overflow_nums: int = setting(whole(1, also=(-1,)), 1)
    check_mode: str = setting(one_of("all", "aicore", "atomic"), "all", inert="only MindSpore before 2.3 uses it")


@dataclass(frozen=True, kw_only=True)
class FreeBenchmarkSettings(Section):
    """Task `free_benchmark`: perturb an input a little, and watch the output. `apis` is `list` in the file."""

    apis: tuple[str, ...] = setting(texts, (), key="list")
    scope: tuple[str, ...] = setting(texts, (), inert=_NEVER_USED)
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
    preheat_step: int = setting(whole(0), 15)
    max_sample: int = setting(whole(0), 20)

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
                f'{shown(self.pert_mode)} does not support handler_type "fix"; use "improve_precision", "to_cpu", '
                'or handler_type "check"',
            )
        if self.handler_type == "fix" and self.fuzz_stage != "forward":
            yield (
                "fuzz_stage",
                f'{shown(self.fuzz_stage)} does not support handler_type "fix"; use "forward", or handler_type "check"',
            )


_PARAMETER = re.compile(r"[A-Za-z0-9_.]+")


def parameters(value: object) -> tuple[str, ...]:
    """A list of parameter names."""
    for name in texts(value):
        if not _PARAMETER.fullmatch(name):
            raise SettingsError(f"{shown(name)} is not a parameter name; use only letters, digits, '_' and '.'")
    return texts(value)


@dataclass(frozen=True, kw_only=True)
class GradProbeSettings(Section):
    """Task `grad_probe`: the gradients that an optimizer receives, at each of its calls."""

    grad_level: str = setting(one_of("L0", "L1", "L2"), "L1")
    param_list: tuple[str, ...] = setting(parameters, ())
    bounds: tuple[int | float, ...] = setting(ascending, (-1, 0, 1))


@dataclass(frozen=True, kw_only=True)
class AccCheckSettings(Section):
    """Task `acc_check`: calls are held to float64 while the training runs, so many milliseconds of each step.

    `memory` is what copies of inputs may take that wait for their backward. The lists are those of `msprobe acc-check`.
    """

    budget_ms: float = setting(above(0), 200.0)
    memory: int = setting(memory, 256 * MEBIBYTE)
    white_list: tuple[str, ...] = setting(texts, ())
    black_list: tuple[str, ...] = setting(texts, ())

    def contradictions(self, level: str, async_dump: bool) -> Iterator[tuple[str, str]]:
        if async_dump:
            yield "budget_ms", 'async_dump has no effect with task "acc_check", which checks calls immediately; omit it'


SECTIONS: dict[str, type[Section]] = {
    "statistics": StatisticsSettings,
    "tensor": TensorSettings,
    "structure": StructureSettings,
    "overflow_check": OverflowCheckSettings,
    "free_benchmark": FreeBenchmarkSettings,
    "grad_probe": GradProbeSettings,
    "exception_dump": ExceptionDumpSettings,
    "acc_check": AccCheckSettings,
}
PRECHECK = ("run_ut", "acc_check")
"""Sections for the API precheck of a dump, under their older and newer name; a training reads the newer one."""


def task_name(value: object) -> str:
    """The name of something that a training run can collect."""
    if value == "run_ut":
        what = '"run_ut" is not a task of a training: `msprobe acc-check` checks the calls of a dump'
        raise SettingsError(
            f'{what}, and task "acc_check" checks them during the training; choose one of {listed(tuple(SECTIONS))}'
        )
    return str(one_of(*SECTIONS)(value))
