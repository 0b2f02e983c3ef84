"""What collects what is lacking, in the words of whoever collected: `MsProbe`, or the stages of a debugger."""

from collections.abc import Mapping
from dataclasses import dataclass

from msprobe.store.flow_roots import STAGES, FlowRoot

from .parts import FLOW, TOKEN_STAGE, UNKNOWN, Part, part_of_stage
from .roots import ITSELF

Value = bool | int | str | list[int]


@dataclass(frozen=True)
class Collect:
    """What to do in both runs: as a phrase, and as fields, of `msprobe_config` or of `debugger.stage`."""

    says: str
    fields: Mapping[str, Value]


@dataclass(frozen=True)
class Way:
    """How the two runs collect layers, as their roots tell: by switches of `MsProbe`, by `debugger.stage`, or either.

    `names` are the names of the stages that there are, by the part of the flow.
    """

    by_switches: bool
    by_stages: bool
    names: Mapping[int, str]

    def collect(self, part: Part, step: int, token: int | None = None, lacking: str = "both") -> Collect:
        """A stage of the flow in one step, of generation also the one token; `lacking` is the run that has no dump."""
        at, tokens = FLOW.index(part), [token, token] if part.stage == TOKEN_STAGE and token is not None else []
        says, fields = [], dict[str, Value]()
        if self.by_switches:
            switches: dict[str, Value] = {part.switch: True}
            switches |= dict(zip(("token_range_start", "token_range_end"), tokens, strict=False))
            switches |= {"step_start": step, "step_end": step}
            says.append(f"set {_shown(switches)}" + ", where MsProbe collects it" * self.by_stages)
            fields |= switches
        if self.by_stages:
            name = self.names.get(at, part.stage)
            says.append(_with_stage(name, step, tokens) + ", where debugger.stage does" * self.by_switches)
            fields |= {"stage": name, "step": [step], **({"token_range": tokens} if tokens else {})}
        return Collect(f"{'; or '.join(says)}; then run {lacking} again", fields)

    def with_update(self, update: Part, step: int) -> str:
        """What collects the update of the step before in the same run, as a phrase."""
        name = self.names.get(FLOW.index(update), update.stage)
        ways = [f"{update.switch}: true, step_start: {step - 1}"] * self.by_switches
        ways += [f'debugger.stage("{name}") and step=[{step - 1}, {step}]'] * self.by_stages
        return f"{' or '.join(ways)} collects the update before in the same runs"

    def all_stages(self, step: int) -> Collect:
        """Every stage that is collected, in one step, where it is not known which of them is needed."""
        switches: dict[str, Value] = {"step_start": step, "step_end": step} if self.by_switches else {}
        ways = [_shown(switches)] * self.by_switches + [f"step=[{step}] of the PrecisionDebugger"] * self.by_stages
        fields = switches | ({"step": [step]} if self.by_stages else {})
        return Collect(f"set {' or '.join(ways)}; then run both again", fields)

    def operations(self, stage: str) -> str:
        """What records the operations within a stage, beside its cells."""
        if stage == ITSELF:
            return 'PrecisionDebugger(level="mix")'
        ways = [f"stage_configs: {{{stage}: {{level: mix}}}}"] * self.by_switches
        ways += [f'debugger.stage("{stage}", level="mix")'] * self.by_stages
        return " or ".join(ways)

    @property
    def end(self) -> str:
        """What ends a stage."""
        return " or ".join(["debugger_stop"] * self.by_switches + ["stop()"] * self.by_stages)


def way_of(*roots: FlowRoot) -> Way:
    """How runs collect, by the names of what they left.

    `MsProbe` knows six stages and numbers the folders of ranks; a debugger without communication calls them `rank`.
    """
    of_debugger = [
        name not in STAGES or any(True for _ in path.glob("step*/rank"))
        for r in roots
        for name, path in r.stages.items()
    ]
    configured = any(root.configurations for root in roots)
    by_stages = any(of_debugger) or (bool(of_debugger) and not configured)
    names = {part: name for root in roots for name in root.stages if (part := part_of_stage(name)) != UNKNOWN}
    return Way(not all(of_debugger) or not of_debugger, by_stages, names)


def _with_stage(name: str, step: int, tokens: list[int]) -> str:
    given = f", token_range={tokens}" if tokens else ""
    return (
        f'put debugger.stage("{name}").start(model{given}) before that part of the step and '
        f'debugger.stage("{name}").stop() behind it, with step=[{step}] of the PrecisionDebugger'
    )


def _shown(fields: Mapping[str, Value]) -> str:
    """Switches as a YAML file has them."""
    return ", ".join(f"{name}: {str(value).lower()}" for name, value in fields.items())
