"""The settings of TrainerMon: its configuration file, checked, with the defaults (`reference/trainer-mon.md`)."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msprobe.base.checks import flag, integer_at_least, one_of, quoted, strings
from msprobe.base.errors import SettingsError
from msprobe.base.files import MAX_CONFIGURATION_BYTES, read_input, user_path
from msprobe.base.log import join_names, logger
from msprobe.base.setting import checked, setting
from msprobe.store.monitor.layout import STATISTICS, TEXTS, parse_time

from .alerts import AlertSettings, alert_settings
from .features import ORDERS, SUFFIX

MOST_STEPS = 10**6
"""Steps of one file at most."""

_ACCEPTED = (*STATISTICS, *TEXTS, "id")
"""Names that `ops` may hold: shape and dtype are always written, `id` never was."""

FORMATS = ("csv", "tensorboard", "api")
LEVELS = ("L0", "L1", "mix")
TASKS = ("statistics", "tensor")


def operations(value: object) -> tuple[str, ...]:
    """Return the statistics to write, in the order of the settings; `norm` where no known one is named."""
    named = strings(value)
    unknown = [each for each in named if each not in _ACCEPTED]
    if unknown:
        logger.warning(
            "monitor: ops: %s is unknown and is ignored; choose from: %s", join_names(unknown, 5), ", ".join(STATISTICS)
        )
    return tuple(dict.fromkeys(each for each in named if each in STATISTICS)) or ("norm",)


def _targets(value: object) -> tuple[str, ...]:
    if isinstance(value, Mapping) and all(isinstance(key, str) and key for key in value):
        return tuple(value)
    raise SettingsError(f'{quoted(value)} is not an object of names; write an object such as {{"layers.0": {{}}}}')


def _micro(value: object) -> bool:
    if isinstance(value, bool):
        return value
    logger.warning("monitor: monitor_mbs_grad: %s is not a boolean and is treated as false", quoted(value))
    return False


def _small(value: object) -> float:
    if isinstance(value, float) and value >= 0:
        return value
    raise SettingsError(f"{quoted(value)} is not a threshold; write a floating-point number such as 1e-8")


def between(low: int, high: int) -> Any:
    """Return a check for a whole number within limits, which are included."""

    def check(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise SettingsError(f"{quoted(value)} is invalid; write an integer from {low} to {high}")

    return check


def ranks(value: object) -> tuple[int, ...]:
    """Return a list of ranks; one number is a list of one."""
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(integer_at_least(0)(each) for each in values)


def _period(value: object) -> tuple[str, str] | None:
    named = strings(value)
    if len(named) not in (0, 2) or None in map(parse_time, named):
        raise SettingsError(
            f"{quoted(value)} is not a period; write two times in the format of the folder names, such as "
            "Dec03_21-34-40, or []"
        )
    return (named[0], named[1]) if named else None


def expressions(value: object) -> tuple[str, ...]:
    """Return a list of regular expressions."""
    for each in strings(value):
        try:
            re.compile(each)
        except re.error as err:
            raise SettingsError(f"{quoted(each)} is not a valid regular expression: {err}") from err
    return strings(value)


@dataclass(frozen=True, kw_only=True)
class Collectives:
    """`cc_distribution`: which collectives are measured, before and after they run.

    Of those that are called at a line of source that matches one of `codeline`; with `log_only` the lines are logged
    and nothing is measured; with `pre_hook` what goes in is measured too.
    """

    enable: bool = setting(flag, False)
    codeline: tuple[str, ...] = setting(expressions, (), key="cc_codeline")
    pre_hook: bool = setting(flag, False, key="cc_pre_hook")
    log_only: bool = setting(flag, False, key="cc_log_only")


@dataclass(frozen=True, kw_only=True)
class OnAlert:
    """`on_alert`: the dump that an alert starts, of the steps that follow it."""

    level: str = setting(one_of(*LEVELS), "mix")
    task: str = setting(one_of(*TASKS), "statistics")
    steps: int = setting(integer_at_least(1), 1)
    dump_path: str = setting(lambda value: str(user_path(str(value))), "")


def section(cls: type) -> Any:
    """Return a check for an object of the settings of `cls`."""

    def check(value: object) -> Any:
        if not isinstance(value, Mapping):
            raise SettingsError(f"{quoted(value)} is not an object; write {{...}}")
        return cls(**checked(cls, value, str, {}))

    return check


def _modules_by_hook(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, Mapping):
        raise SettingsError(
            f'{quoted(value)} is not an object; write an object such as {{"linear_hook": ["0:layers.0.fc"]}}'
        )
    allowed = one_of(*SUFFIX)
    return tuple((str(allowed(hook)), strings(names)) for hook, names in value.items())


@dataclass(frozen=True, kw_only=True)
class MonitorSettings:
    """The measurements of TrainerMon, their steps, and their output."""

    targets: tuple[str, ...] = setting(_targets, ())
    xy_distribution: bool = setting(flag, False)
    all_xy: bool = setting(flag, False)
    forward_only: bool = setting(flag, False)
    backward_only: bool = setting(flag, False)
    wg_distribution: bool = setting(flag, False)
    monitor_mbs_grad: bool = setting(_micro, False)
    mv_distribution: bool = setting(flag, False)
    param_distribution: bool = setting(flag, False)
    mg_direction: bool = setting(flag, False)
    ur_distribution: bool = setting(flag, False)
    cc_distribution: Collectives = setting(section(Collectives), Collectives())
    stack_info: bool = setting(flag, False)
    print_struct: bool = setting(flag, False)
    ops: tuple[str, ...] = setting(operations, ("norm",))
    eps: float = setting(_small, 1e-8)
    format: str = setting(one_of(*FORMATS), "csv")
    ndigits: int = setting(between(1, 20), 6)
    step_count_per_record: int = setting(between(1, MOST_STEPS), 1)
    start_step: int = setting(integer_at_least(0), 0)
    step_interval: int = setting(integer_at_least(1), 1)
    collect_times: int = setting(integer_at_least(0), 10**8)
    module_ranks: tuple[int, ...] = setting(ranks, ())
    alert: AlertSettings = setting(alert_settings, AlertSettings())
    on_alert: OnAlert | None = setting(section(OnAlert), None)
    append_output: tuple[str, str] | None = setting(_period, None)
    squash_name: bool = setting(flag, True)
    dynamic_on: bool = setting(flag, False)
    l2_targets: tuple[tuple[str, tuple[str, ...]], ...] = setting(_modules_by_hook, ())
    recording_l2_features: bool = setting(flag, False)
    sa_order: str = setting(one_of(*ORDERS), ORDERS[0])
    local: bool | None = setting(flag, None)
    """Ours: whether the norm of the rank's own gradients is written; None: where they are measured anyway."""
    contents: str = field(default="", compare=False)
    """The file as it was read."""

    @property
    def forward(self) -> bool:
        """Return whether activations are measured."""
        return self.xy_distribution and not self.backward_only

    @property
    def backward(self) -> bool:
        """Return whether the gradients of activations are measured."""
        return self.xy_distribution and not self.forward_only

    def collects(self, step: int, first: int, collected: int, rank: int) -> bool:
        """Return whether a step is measured after `collected` measured ones; `first` is the first step that may be."""
        return (
            step >= first
            and (step - first) % self.step_interval == 0
            and collected < self.collect_times
            and (not self.module_ranks or rank in self.module_ranks)
        )


def load(path: Path) -> MonitorSettings:
    """Read and check a configuration file; SettingsError that names the file, the setting, and what to do."""
    contents, text = read_object(path)
    values = checked(MonitorSettings, contents, lambda key: f"{path}: {key}", {})
    settings = replace(MonitorSettings(**values), contents=text)
    if settings.forward_only and settings.backward_only:
        logger.warning("monitor: forward_only and backward_only are both true: activations are not measured")
    if settings.recording_l2_features and not any(names for _, names in settings.l2_targets):
        logger.warning("monitor: recording_l2_features: l2_targets is empty: features are not measured")
    return settings


def read_object(path: Path) -> tuple[dict[str, object], str]:
    """Return the JSON object of a file and its text; SettingsError where there is none."""
    try:
        text = read_input(path, MAX_CONFIGURATION_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as err:
        why = err.strerror if isinstance(err, OSError) else err
        raise SettingsError(f"{path}: cannot be read: {why}; give a configuration file of the monitor") from err
    try:
        contents = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise SettingsError(f"{path}: is not valid JSON: {err}; correct the file") from err
    if not isinstance(contents, dict):
        raise SettingsError(f"{path}: does not contain a JSON object; write {{...}}")
    return contents, text
