"""`MsProbe`: the small class that a framework for reinforcement learning calls; see `how-to/collecting/rl-flows.md`."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from msprobe.base.checks import quoted
from msprobe.base.errors import MsprobeError
from msprobe.base.files import make_root
from msprobe.base.log import logger
from msprobe.store.rl_roots import write_configurations

from . import in_graph
from .key_data import KeyData, log_skipped, logged
from .settings import FlowSettings, load

if TYPE_CHECKING:
    from .stages import Stages

_NOTHING = object()


class MsProbe:
    """Collects a flow: configurations, the data that passes between its stages, and the layers of its models.

    `config_init` once, before all else; without it, or where `msprobe` is false, every method does nothing. Mistakes
    are raised at `config_init` and `debugger_start`; after that nothing of this stops the training.
    """

    enabled: ClassVar[bool] = False
    config: ClassVar[FlowSettings | None] = None

    _roots: ClassVar[dict[Path, KeyData]] = {}
    _data: ClassVar[KeyData | None] = None
    _stages: ClassVar["Stages | None"] = None

    @classmethod
    def config_init(cls, msprobe_config: Any) -> None:
        """Take the settings: a dict, an object with these fields, or the path of a YAML file with `msprobe_config`.

        Given again, equal settings change nothing, and others hold from here on: another `dump_path` begins at step 0,
        or continues where it ended. Raises SettingsError for invalid settings, UsageError if the folder
        cannot be made.
        """
        settings = load(msprobe_config)
        if cls.enabled and settings == cls.config:
            return
        data = stages = None
        if settings.msprobe:
            from .stages import Stages  # here, because a disabled probe does not need a debugger

            data = cls._roots.get(settings.dump_path) or KeyData(settings.dump_path)
            stages = Stages(settings, data.step_number)
            make_root(settings.dump_path, "config_init")
            cls._roots[settings.dump_path] = data
        if (compiled := sys.modules.get("msprobe.rl.compiled_data")) is not None:
            compiled.synchronize()  # tensors of running graphs belong to the settings with which they ran
        if cls._stages is not None and cls.config is not None:
            cls._stages.end()
            logger.info("msprobe: the settings changed; collection in %s ends here", cls.config.dump_path)
        cls.enabled, cls.config = settings.msprobe, settings if settings.msprobe else None
        cls._data, cls._stages = data, stages
        if settings.msprobe:
            logger.info("msprobe enabled: collected data will be saved in %s", settings.dump_path)

    @classmethod
    def _data_for(cls, switch: str) -> KeyData | None:
        """Return the receiver of data that the setting `switch` enables; None if they are not collected."""
        return cls._data if cls.enabled and getattr(cls.config, switch, False) else None

    @classmethod
    def save_configs(cls, data: Any) -> None:
        """Write `{dump_path}/configurations.json`; values that JSON cannot hold become their texts."""
        if place := cls._data_for("configurations_dump"):
            with logged("save_configs"):
                write_configurations(place.run_root(), data)

    @classmethod
    @in_graph.compiled_as(in_graph.save_data)
    def save_data(cls, name: Any, data: Any = _NOTHING) -> None:
        """Save key data: `save_data("loss", loss)`, or `save_data({"loss": loss, "values": values})`.

        Values are tensors or numpy arrays, or lists, tuples and dicts of them. The two forms write different trees; see
        `how-to/collecting/rl-flows.md`. What is none of these is logged once and left out.
        """
        place = cls._data_for("key_data_dump")
        if place is None:
            return
        if data is not _NOTHING:
            place.save(name, data)
        elif isinstance(name, Mapping):
            place.save_each(name)
        else:
            log_skipped("call", f"save_data({quoted(name)}): pass a name and its data, or a dict of names and data")

    @classmethod
    @in_graph.compiled_as(in_graph.save_string_list)
    def save_string_list(cls, name: str, strings: Any) -> None:
        """Save each of a list of texts as a tensor of its bytes in UTF-8."""
        if place := cls._data_for("key_data_dump"):
            place.save_strings(name, strings)

    @classmethod
    def debugger_start(cls, model: Any, tag: str) -> None:
        """Collect the layers of a model, or of a list or dict of models, in the stage `tag`, if that is switched on.

        UsageError for an unknown tag, an object that is not a model, and a stage that begins within another one.
        """
        if cls.enabled and cls._stages is not None:
            with logged(f"debugger_start({quoted(tag)})", passed=MsprobeError):
                cls._stages.start(model, tag)

    @classmethod
    def debugger_stop(cls, tag: str) -> None:
        """Stop the stage `tag`. Gradients of its calls are recorded until `step`."""
        if cls.enabled and cls._stages is not None:
            with logged(f"debugger_stop({quoted(tag)})"):
                cls._stages.stop(tag)

    @classmethod
    def step(cls) -> None:
        """End the training step: everything that is collected from here on has the next number."""
        if not cls.enabled or cls._stages is None or cls._data is None:
            return
        with logged("step"):
            cls._stages.step()
        try:
            # files of the user's `save` and `save_grad` have the same steps; waits for running graphs
            if (saves := sys.modules.get("msprobe.graph_save.save")) is not None:
                saves.step()
        finally:
            cls._data.step()
