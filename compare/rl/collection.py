"""What both runs are to collect next, by the switches of `MsProbe` or by `debugger.stage`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from msprobe.store.rl_roots import STAGES, FlowRoot

from .order import FLOW, TOKEN_STAGE, UNKNOWN, Part, part_of_stage

Value = bool | int | str | list[int]

Runs = Literal["both", "the target", "the golden"]


@dataclass(frozen=True)
class CollectionStyle:
    """How the two runs collect layers, as their roots tell: by switches of `MsProbe`, by `debugger.stage`, or either.

    `names` are the names of the stages that there are, by the part of the flow.
    """

    by_switches: bool
    by_stages: bool
    names: Mapping[int, str]

    def name_of(self, part: Part) -> str:
        """What the stage of a part is called in these runs."""
        return self.names.get(FLOW.index(part), part.stage)


@dataclass(frozen=True)
class Collect:
    """What to collect of one step: the stage of a part, of generation only one token; without a part every stage.

    `runs` are those that lack it.
    """

    style: CollectionStyle
    step: int
    part: Part | None = None
    token: int | None = None
    runs: Runs = "both"

    @property
    def tokens(self) -> list[int]:
        """The range of tokens; empty for all."""
        is_one = self.part is not None and self.part.stage == TOKEN_STAGE and self.token is not None
        return [self.token, self.token] if is_one and self.token is not None else []

    @property
    def switches(self) -> dict[str, Value]:
        """The fields of `msprobe_config`; none where the runs have no switches."""
        if not self.style.by_switches:
            return {}
        found: dict[str, Value] = {} if self.part is None else {self.part.switch: True}
        found |= dict(zip(("token_range_start", "token_range_end"), self.tokens, strict=False))
        return found | {"step_start": self.step, "step_end": self.step}

    @property
    def fields(self) -> dict[str, Value]:
        """The switches, and the fields of `debugger.stage`."""
        found = self.switches
        if self.style.by_stages:
            found |= {} if self.part is None else {"stage": self.style.name_of(self.part)}
            found |= {"step": [self.step], **({"token_range": list(self.tokens)} if self.tokens else {})}
        return found


def collection_style(*roots: FlowRoot) -> CollectionStyle:
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
    return CollectionStyle(not all(of_debugger) or not of_debugger, by_stages, names)
