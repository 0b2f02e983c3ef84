"""The stages of a flow: each model's part of a training step is a stage of one debugger."""

from collections.abc import Mapping
from typing import Any

from msprobe.base.checks import quoted
from msprobe.base.errors import MsprobeError, SettingsError, UsageError
from msprobe.base.log import log_once
from msprobe.base.settings import Settings, stage_settings
from msprobe.debugger import Debugger
from msprobe.frameworks import process
from msprobe.frameworks.registry import framework, name_of_model

from .settings import GENERATES, SECTION, SWITCHES, FlowSettings, StageConfig, unknown_tag


class Stages:
    """Starts and stops the stages of one dump_path; `begin` is the number of the first step.

    SettingsError if the configuration of a stage is invalid.
    """

    def __init__(self, flow: FlowSettings, begin: int) -> None:
        self._step = begin
        self._tokens = [flow.token_range_start, flow.token_range_end]
        self._above = Settings(dump_path=flow.dump_path, level="L0")
        steps = f"{flow.step_start}-{flow.step_end}"
        self._settings = {
            tag: _settings(self._above, tag, flow.stage_configs.get(tag, {}), steps) for tag in flow.stages
        }
        self._debugger: Debugger | None = None
        self._open = ""
        self._begun: set[str] = set()
        self._has_stepped = False

    def start(self, model: Any, tag: Any) -> None:
        """Start a stage, if it is collected. A mistake raises UsageError in the first call, and is logged later."""
        if tag not in SWITCHES:
            raise UsageError(f"debugger_start: {unknown_tag(tag)}")
        if tag not in self._settings:
            return
        try:
            self._start(model, tag)
        except MsprobeError as cause:
            if tag not in self._begun:
                raise
            log_once(f"{tag}: {cause}", f"MsProbe: {cause}; the training continues without the dump of this stage")
        self._begun.add(tag)

    def _start(self, model: Any, tag: str) -> None:
        if self._open:  # rejected in the first step; later an exception may have skipped its stop
            what = f"debugger_start: {tag} started within {self._open}"
            remedy = f"call debugger_stop({self._open!r}) first, in a `finally` block if an exception may occur"
            if tag not in self._begun and not self._has_stepped:
                raise UsageError(f"{what}; {remedy}")
            log_once(f"{tag} within {self._open}", f"MsProbe: {what}, which ends here; {remedy}")
            self._stop_open()
        debugger = self._debugger_for(model, tag)
        tokens = self._tokens if tag == GENERATES else None
        if tokens and debugger._collects_graphs():
            what = f"MsProbe: tokens cannot be distinguished in graph mode: {tag} contains all of them"
            log_once("tokens in graphs", what)
            tokens = None
        # the documented folder of a process without communication is rank0
        debugger.stage(tag).start(model, tokens, process.rank(debugger._framework) or 0)
        self._open = tag

    def stop(self, tag: Any) -> None:
        """Stop a stage; a stage that is not started is logged once."""
        if tag not in SWITCHES:
            log_once(
                f"debugger_stop {quoted(tag)}", f"MsProbe: debugger_stop: {unknown_tag(tag)}; the call has no effect"
            )
        elif tag in self._settings and tag != self._open:
            what = f"{self._open} is" if self._open else "nothing is"
            log_once(f"debugger_stop {tag}", f"MsProbe: debugger_stop({tag!r}): it was not started, {what}")
        elif tag in self._settings:
            self._stop_open()

    def step(self) -> None:
        """End the step of all stages."""
        if self._open:
            left = f"{self._open} is still started; call debugger_stop({self._open!r}) first"
            log_once("open stage", f"MsProbe: step: {left}")
            self._stop_open()
        self._step += 1
        self._has_stepped = True
        if self._debugger is not None:
            self._debugger.step()

    def end(self) -> None:
        """Stop an open stage, and release the dump_path."""
        if self._open:
            self._stop_open()
        if self._debugger is not None:
            self._debugger._retire()

    def _stop_open(self) -> None:
        tag, self._open = self._open, ""
        if self._debugger is not None:
            self._debugger.stage(tag).stop()

    def _debugger_for(self, model: Any, tag: str) -> Debugger:
        made_by = _class_for(model, tag)
        if self._debugger is None:
            debugger = made_by._create(self._above)  # which calls on the class do not use
            try:
                debugger.set_init_step(self._step)
                for each, settings in self._settings.items():
                    debugger._stage_of(each, settings)
            except MsprobeError:
                debugger._retire()
                raise
            self._debugger = debugger
        elif not isinstance(self._debugger, made_by):
            raise UsageError(
                f"debugger_start: the model of {tag} is of a different framework than those of other stages"
            )
        return self._debugger


def _settings(above: Settings, tag: str, config: StageConfig, steps: str) -> Settings:
    """Return the settings of a stage; its folder and steps are those of the flow."""
    try:
        if isinstance(config, Mapping):
            for key in ("dump_path", "step"):
                if key in config:
                    raise SettingsError(f"{key} is common to all stages; remove it here, and set it in {SECTION}")
            settings = stage_settings(above, tag, None, {**config, "step": [steps]})
        else:
            settings = stage_settings(above, tag, config, {"step": [steps]})
        if settings.level == "debug":
            raise SettingsError(
                'level: "debug" collects only tensors passed to save() of a debugger, which is not available for '
                'a stage; choose "L0", "L1" or "mix", and use save_data for single tensors'
            )
        return settings
    except SettingsError as err:
        raise SettingsError(f"config_init, {SECTION}.stage_configs, {tag}: {err}") from err


def _class_for(model: Any, tag: str) -> type[Debugger]:
    """Return the debugger class for a model. UsageError if it is not a model."""
    first = model
    while isinstance(first, dict | list | tuple) and first:
        first = next(iter(first.values() if isinstance(first, dict) else first))
    name = name_of_model(first)
    if name is None:
        raise UsageError(
            f"debugger_start: the model of {tag} is {first!r:.80}, not a mindspore.nn.Cell or torch.nn.Module; "
            "pass the network, or a list, tuple or dict of networks"
        )
    found: type[Debugger] = framework(name).debugger
    return found
