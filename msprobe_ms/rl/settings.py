"""The section `msprobe_config`: what of a flow is collected. Read once, at `MsProbe.config_init`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any

from msprobe.base.checks import flag, nearest, output_folder, quoted, quoted_list
from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.scope import parse_numbers
from msprobe.base.setting import checked, setting, settings_of
from msprobe.mapping import user_files

SECTION = "msprobe_config"

SWITCHES = {
    "actor_generate_sequences": "actor_infer_dump",
    "actor_compute_log_prob": "actor_train_dump",
    "actor_update": "actor_train_dump",
    "reference_compute_log_prob": "reference_dump",
    "critic_compute_values": "critic_train_dump",
    "critic_update": "critic_train_dump",
}
"""The stages by their tags, and the field that switches each on."""

GENERATES = "actor_generate_sequences"
"""The stage of which a range of tokens is collected."""

StageConfig = str | PathLike[str] | Mapping[str, Any]
"""How a stage is collected: the path of a config.json, or its fields."""


def number(value: object) -> int:
    """Return a step or a token."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise SettingsError(f"{quoted(value)} is not a number; write a non-negative integer")
    return parse_numbers([int(value)])[0]


def stage_configs(value: object) -> dict[str, StageConfig]:
    """Return the path of a config.json, or its fields, of each stage that is not collected by default settings."""
    if not isinstance(value, Mapping):
        raise SettingsError(f'{quoted(value)} is not an object; write {{"actor_update": {{"level": "mix"}}}}')
    for tag, config in value.items():
        if tag not in SWITCHES:
            raise SettingsError(unknown_tag(tag))
        if not isinstance(config, str | PathLike | Mapping):
            raise SettingsError(
                f"{tag}: {quoted(config)} is neither a path nor an object; give a config.json, or write its fields"
            )
    return dict(value)


def unknown_tag(tag: object) -> str:
    """Return the message for an unknown tag."""
    near = nearest(tag, tuple(SWITCHES)) if isinstance(tag, str) else ""
    hint = f"did you mean {quoted(near)}?" if near else f"choose one of {quoted_list(tuple(SWITCHES))}"
    return f"unknown stage {quoted(tag)}; {hint}"


@dataclass(frozen=True, kw_only=True)
class FlowSettings:
    """What of a flow is collected, and where it goes. `dump_path` is absolute; ranges have both ends inside."""

    msprobe: bool = setting(flag, False)
    dump_path: Path = setting(output_folder, Path("./msprobe_dump"))  # makes a field
    key_data_dump: bool = setting(flag, False)
    configurations_dump: bool = setting(flag, False)
    actor_infer_dump: bool = setting(flag, False)
    token_range_start: int = setting(number, 0)
    token_range_end: int = setting(number, 0)
    actor_train_dump: bool = setting(flag, False)
    reference_dump: bool = setting(flag, False)
    critic_train_dump: bool = setting(flag, False)
    step_start: int = setting(number, 0)
    step_end: int = setting(number, 0)
    # a new dict for each object, because a default cannot be mutable
    stage_configs: Mapping[str, StageConfig] = field(default_factory=dict, metadata=setting(stage_configs).metadata)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dump_path", self.dump_path.absolute())

    @property
    def stages(self) -> tuple[str, ...]:
        """Return the stages that are collected in some step."""
        return tuple(tag for tag, switch in SWITCHES.items() if getattr(self, switch))


def load(source: Any) -> FlowSettings:
    """Return the settings from the argument of `MsProbe.config_init`.

    `source` is the section itself, as a mapping or as an object that has the fields as attributes; or something that
    has the section `msprobe_config`; or the path of such a YAML file. None is an empty section. Of an object only the
    known names are read; a mapping with unknown ones is refused. Raises SettingsError for what cannot be meant.
    """
    where = "config_init"
    if isinstance(source, str | PathLike):
        where, source = str(source), _section(source)
    elif isinstance(source, Mapping) and SECTION in source:
        source = source[SECTION]
    elif not isinstance(source, Mapping) and hasattr(source, SECTION):
        source = getattr(source, SECTION)

    def place(key: str) -> str:
        return f"{where}, {SECTION}.{key}"

    made = FlowSettings(**checked(FlowSettings, _fields(source, where), place, {}))
    for first, last in (("token_range_start", "token_range_end"), ("step_start", "step_end")):
        low, high = getattr(made, first), getattr(made, last)
        if high < low:
            raise SettingsError(
                f"{place(last)}: {high} is less than {first}, {low}; both ends are included in the range: write "
                f"{low} or more"
            )
    return made


def _section(path: str | PathLike[str]) -> Any:
    try:
        top = user_files.load(Path(path), "the configuration of the flow")
    except UsageError as err:
        raise SettingsError(str(err)) from err
    if not isinstance(top, Mapping) or SECTION not in top:
        near = nearest(SECTION, tuple(key for key in top if isinstance(key, str))) if isinstance(top, Mapping) else ""
        hint = f"did you mean {quoted(near)}? Rename it" if near else f"write {SECTION}: and the fields below it"
        raise SettingsError(f"{path}: the section {SECTION} is missing; {hint}")
    return top[SECTION]


def _fields(source: Any, where: str) -> dict[str, Any]:
    """Return the fields by name; for a mapping all of its keys."""
    if source is None:
        return {}
    known = tuple(settings_of(FlowSettings))
    if isinstance(source, Mapping):
        found = {key if isinstance(key, str) else quoted(key): value for key, value in source.items()}
        is_other = bool(found) and not any(key in known or nearest(key, known) for key in found)
    else:
        found = {key: getattr(source, key) for key in known if hasattr(source, key)}
        is_other = not found
    if is_other:  # for example the configuration of a framework without the section of this tool
        raise SettingsError(
            f"{where}: {quoted(source)} of type {type(source).__name__} has none of the fields of {SECTION}; pass "
            "a dict, an object with these fields, or the path of a YAML file with the section (a complete "
            f"configuration has them below {SECTION})"
        )
    return found
