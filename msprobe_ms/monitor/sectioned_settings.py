"""The settings of TrainerMonitorV2: a section for each monitor, checked, with the defaults."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from msprobe.base.checks import flag, integer_at_least, one_of, quoted, strings
from msprobe.base.errors import SettingsError
from msprobe.base.files import user_path
from msprobe.base.setting import checked, setting

from .settings import MOST_STEPS, between, expressions, operations, ranks, read_object, section

FRAMEWORKS = {
    **dict.fromkeys(("pytorch", "pt", "torch"), "pytorch"),
    **dict.fromkeys(("mindspore", "ms"), "mindspore"),
}


def _threshold(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    raise SettingsError(f"{quoted(value)} is not a threshold; write a number such as 1e-8")


@dataclass(frozen=True, kw_only=True)
class Monitor:
    """The settings of every section."""

    enabled: bool = setting(flag, False)
    ops: tuple[str, ...] = setting(operations, ("norm",))
    eps: float = setting(_threshold, 1e-8)


@dataclass(frozen=True, kw_only=True)
class Module(Monitor):
    """`module`: activations and their gradients, of modules whose name contains one of `targets`."""

    enabled: bool = setting(flag, True)
    targets: tuple[str, ...] = setting(strings, ())


@dataclass(frozen=True, kw_only=True)
class WeightGradient(Monitor):
    """`weight_grad`: unreduced and reduced gradients; `grad_acc_steps` as that of `TrainerMon.set_monitor`."""

    monitor_mbs_grad: bool = setting(flag, False)
    micro_batch_number: int = setting(integer_at_least(1), 1, inert="micro steps are counted by themselves")
    grad_acc_steps: int | None = setting(integer_at_least(1), None)


@dataclass(frozen=True, kw_only=True)
class Optimizer(Monitor):
    """`optimizer`: the moments."""

    mv_distribution: bool = setting(flag, True)


@dataclass(frozen=True, kw_only=True)
class Param(Monitor):
    """`param`: weights before and after the update."""

    param_distribution: bool = setting(flag, True)


@dataclass(frozen=True, kw_only=True)
class Collective(Monitor):
    """`cc`: collectives."""

    cc_codeline: tuple[str, ...] = setting(expressions, ())
    cc_log_only: bool = setting(flag, False)
    cc_pre_hook: bool = setting(flag, False)
    module_ranks: tuple[int, ...] = setting(ranks, ())


@dataclass(frozen=True, kw_only=True)
class Monitors:
    """The sections."""

    module: Module = setting(section(Module), Module())
    weight_grad: WeightGradient = setting(section(WeightGradient), WeightGradient())
    optimizer: Optimizer = setting(section(Optimizer), Optimizer())
    param: Param = setting(section(Param), Param())
    cc: Collective = setting(section(Collective), Collective())

    def operations(self) -> dict[str, tuple[str, ...]]:
        """Return the statistics of each monitor."""
        return {each.name: getattr(self, each.name).ops for each in fields(self)}


def _folder(value: object) -> Path:
    if isinstance(value, str) and value and "\0" not in value:
        return user_path(value).absolute()
    raise SettingsError(f"{quoted(value)} is not a path; give a folder")


@dataclass(frozen=True, kw_only=True)
class SectionedSettings:
    """The measurements of TrainerMonitorV2, their steps, and their output."""

    framework: str = setting(one_of(*FRAMEWORKS), "pytorch")
    output_dir: Path = setting(_folder, Path())
    rank: tuple[int, ...] = setting(ranks, ())
    start_step: int = setting(integer_at_least(0), 0)
    stop_step: int | None = setting(integer_at_least(0), None)
    step_interval: int = setting(integer_at_least(1), 1)
    collect_times: int = setting(integer_at_least(0), 10**8)
    step_count_per_record: int = setting(between(1, MOST_STEPS), 1)
    format: str = setting(one_of("csv"), "csv")
    ndigits: int = setting(between(1, 20), 9)
    patch_optimizer_step: bool | None = setting(flag, None)
    monitors: Monitors = setting(section(Monitors), Monitors())

    def collects(self, step: int, collected: int, rank: int) -> bool:
        """Return whether a step is measured, of which `collected` ones were before; `stop_step` no longer is."""
        return (
            self.start_step <= step < (step + 1 if self.stop_step is None else self.stop_step)
            and (step - self.start_step) % self.step_interval == 0
            and collected < self.collect_times
            and (not self.rank or rank in self.rank)
        )


def load(path: Path) -> SectionedSettings:
    """Read and check a configuration file; SettingsError that names the file, the setting, and what to do."""
    contents, _ = read_object(path)
    values: dict[str, Any] = checked(SectionedSettings, contents, lambda key: f"{path}: {key}", {})
    return SectionedSettings(**values)
