"""Why a stage differs: by itself, by its weights or by its inputs; and what to collect next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from msprobe.compare.locate.finding import FindingKind
from msprobe.store.rl_roots import STAGES, FlowRoot

from .order import FLOW, TOKEN_STAGE, UNKNOWN, Item, Part, listed, part_of_stage
from .stages import ITSELF, Stage, called
from .walk import Seen, begins_by_itself


def place_said(item: Item) -> str:
    return f"step {item.step}, rank {item.rank}"


def key_said(item: Item) -> str:
    """`key ref_log_prob (error: ... first at [0, 3])`."""
    at = f"first at {item.first}" if item.first else ""
    said = "; ".join(word for word in (item.reason.rstrip("."), at) if word)
    return f"key {item.name} ({item.grade}{': ' * bool(said)}{said})"


def agree(noun: str, found: Sequence[str], which: str) -> str:
    """`the key prompts before it agrees`, `the keys prompts and responses before it agree`."""
    names = list(dict.fromkeys(found))
    one = len(names) == 1
    return f"the {noun}{'s' * (not one)} {listed(names)}{which} agree{'s' * one}"


Value = bool | int | str | list[int]


@dataclass(frozen=True)
class Collect:
    """What to do in both runs: as a phrase, and as fields, of `msprobe_config` or of `debugger.stage`."""

    says: str
    fields: Mapping[str, Value]


@dataclass(frozen=True)
class CollectionStyle:
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
            given = f", token_range={tokens}" if tokens else ""
            where = ", where debugger.stage does" if self.by_switches else ""
            says.append(
                f'put debugger.stage("{name}").start(model{given}) before that part of the step and '
                f'debugger.stage("{name}").stop() behind it, with step=[{step}] of the PrecisionDebugger{where}'
            )
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


def _shown(fields: Mapping[str, Value]) -> str:
    """Switches as a YAML file has them."""
    return ", ".join(f"{name}: {str(value).lower()}" for name, value in fields.items())


_MADE = "the checkpoints that are loaded, and the seeds that are set before the models are made"
_CHANGED = "what changes weights behind {behind}: the optimizer, its learning rate and state, clipping, weight decay"


class Since(Enum):
    """Since when the weights of a stage differ: the text behind `the weights differ`, and what to look at, if known."""

    LOADED = " as they were loaded or made", _MADE
    LOADED_OR_THIS_STEP = (
        " as they were loaded or made, or since an update earlier in this step",
        f"{_MADE}; or what changes weights before {{stage}}",
    )
    LOADED_OR_UPDATE = " as they were loaded or made, or since an update before", _MADE
    UPDATE = " since an update before", ""
    STAGES_AGREE = ", although every stage of step {step} agrees", _CHANGED.format(behind="the stages")
    UPDATE_AGREES = ", although {names} of step {step} agrees", _CHANGED.format(behind="it")
    NOT_HANDED_OVER = (
        ", and those of {names} in this step do not: the new weights do not reach this stage",
        "how weights are handed to {name} after an update",
    )

    @property
    def may_be_an_update(self) -> bool:
        """Whether an update of a step before may have changed them."""
        return self in (Since.LOADED_OR_UPDATE, Since.UPDATE)


@dataclass(frozen=True)
class Context:
    """Everything that an answer looks at."""

    walked: Sequence[Seen]
    by_name: Mapping[str, Stage]
    style: CollectionStyle

    def stages(self, item: Item) -> list[Seen]:
        """The stages of the step and rank of an item."""
        return [s for s in self.walked if s.item.kind == "stage" and s.item.place == item.place]


def why_of_stage(seen: Seen, context: Context) -> tuple[str, str]:
    """Whether the difference begins in a stage, by its first wrong call and the keys it reads; and what to look at."""
    item, finding = seen.item, seen.item.finding
    kind = finding.kind if finding else None
    agreeing = agree("key", seen.agreeing, " that the stage reads")
    if kind is FindingKind.RUN_INPUTS:
        return _why_other_input(seen, agreeing, context)
    if kind is FindingKind.PARAMETERS:
        when, stages = since(item, context)
        said, look = when.value
        whose = f"the weights of the {item.model}" if item.model else "its weights"
        words = {"names": listed(stages), "step": item.step - 1, "stage": called(item.name), "name": item.name}
        why = f"it begins before this stage: {whose} differ{said.format(**words)}"
        return why, f"look at: {look.format(**words)}" if look else ""
    if kind is FindingKind.UNKNOWN:
        return "whether it begins here cannot be said", ""
    if seen.agreeing:
        return f"it begins here: {agreeing}", ""
    if finding is not None and finding.is_from_outside:
        what = "it begins in the inputs of the call, from outside the stage or from code of it between two calls"
        return what, "look at: where that comes from, upwards from the line that makes the call"
    if finding is not None and not begins_by_itself(finding):
        what = "it begins in code of the stage between two recorded calls, or in what that code received from outside"
        return what, f"look at: that code, such as the loss; {context.style.operations(item.name)} records its calls"
    before = {
        FindingKind.ARGUMENT: "all other inputs of the call",
        FindingKind.CALL: "everything before that call",
    }
    said = before.get(kind, "all inputs of the call") if kind else "all inputs of the call"
    return f"it begins here, as far as the dump says: {said} agrees", ""


def _why_other_input(seen: Seen, agreeing: str, context: Context) -> tuple[str, str]:
    """Where the input of a stage comes from, if what came before it agrees."""
    item = seen.item
    if seen.agreeing:
        why = f"the stage received different input, although {agreeing}: it comes from host code before the stage"
        return why, "look at: that code, such as masks, positions and padding"
    here = context.stages(item)
    data = f"the data of step {item.step}, and the code that makes of them what {called(item.name)} is given"
    if len(here) > 1 and not all(s.item.is_placed for s in here):
        others = [s.item for s in here if s is not seen and s.item.finding]
        also = [other.name for other in others if other.finding and other.finding.kind is FindingKind.RUN_INPUTS]
        who = f"the stages {listed([item.name, *also])}" if also else "the stage"
        first = "of them runs first" if also else "stage runs before it"
        if also:
            data = f"the data of step {item.step}, and the code that makes of them what these stages are given"
        why = f"{who} received different input, and the dumps do not tell which {first}"
        return why, f"look at: {data}"
    before = [s.item.name for s in here[: here.index(seen)] if s.role == "agrees"]
    if before:
        stages_agree = agree("stage", before, " before it")
        why = f"the stage received different input, although {stages_agree}: it comes from host code between the stages"
        return why, f"look at: the code between {before[-1]} and {item.name}"
    return "the stage received different input, and nothing that it reads was saved", f"look at: {data}"


def since(item: Item, context: Context) -> tuple[Since, Sequence[str]]:
    """Since when the weights of a stage differ, by the updates before and by the model's other stages in the step.

    And the stages that tell it.
    """
    if item.model == "reference" or not item.step:
        of_step = context.stages(item)
        before = of_step[: [s.item for s in of_step].index(item)]
        is_behind = item.part == UNKNOWN and item.is_placed and any(s.role == "agrees" for s in before)
        return Since.LOADED_OR_THIS_STEP if is_behind else Since.LOADED, ()
    if item.step == min(other.item.step for other in context.walked):
        return Since.LOADED_OR_UPDATE, ()
    earlier = [s for s in context.walked if s.item.kind == "stage" and s.item.place == (item.step - 1, item.rank)]
    if item.part == UNKNOWN:
        all_agree = earlier and all(s.role == "agrees" for s in earlier)
        return Since.STAGES_AGREE if all_agree else Since.UPDATE, ()
    here = [s.item for s in context.stages(item) if s.item.part != UNKNOWN and s.item.model == item.model]
    equal = [other.name for other in here if not other.weights_differ and other.grade != "unjudged"]
    if equal:
        return Since.NOT_HANDED_OVER, equal
    updates = [s for s in earlier if s.item.part != UNKNOWN and FLOW[s.item.part].updates == item.model]
    if any(s.role == "agrees" for s in updates):
        return Since.UPDATE_AGREES, [updates[0].item.name]
    return Since.UPDATE, ()
