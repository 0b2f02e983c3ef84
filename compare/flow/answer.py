"""What the walk answers: where two runs differ first, and which call is wrong, or what to collect.

All that is told stands in one value, for the console and for the file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msprobe.compare.locate.find import Finding

from .item import Item
from .parts import FLOW, TOKEN_STAGE, UNKNOWN, Part
from .stages import Stage
from .walk import UPDATES, Seen, first_of

Value = bool | int


@dataclass(frozen=True)
class First:
    """The first difference.

    `says` is the sentence about it, `then` what to do now or why no call is named, where no `finding` is. `stage` is
    the stage that it is of, empty for what no stage makes; `seen_in` are the keys of that stage that show it; `collect`
    are the fields of `msprobe_config` that collect what is lacking.
    """

    seen: Seen
    stage: str
    says: str
    then: str = ""
    finding: Finding | None = None
    seen_in: tuple[Item, ...] = ()
    collect: Mapping[str, Value] = field(default_factory=dict)


_AN_UPDATE = "since an update before"


def first_difference(walked: Sequence[Seen], stages: Iterable[Stage]) -> First | None:
    """What differs first, and what follows from it; None where nothing differs."""
    seen = first_of(walked)
    if seen is None:
        return None
    if seen.item.kind == "stage":
        return _of_stage(seen, walked)
    return _of_key(seen, walked, {stage.part: stage for stage in stages if stage.part != UNKNOWN})


def _of_stage(seen: Seen, walked: Sequence[Seen]) -> First:
    item = seen.item
    shown = tuple(
        other.item
        for other in walked
        if (other.item.step, other.item.rank, other.item.part) == (item.step, item.rank, item.part)
        and other.item.kind == "key"
        and item.part != UNKNOWN
        and other.role not in ("agrees", "unjudged")
    )
    call = item.finding.name if item.finding else ""
    collect = _update_to_collect(seen, walked)
    role = _role_of_stage(seen, walked)
    if collect:
        role += f"; {_shown(collect)} collect that of step {item.step - 1}"
    says = f"{place_said(item)}, stage {item.name}, call {call} ({role})"
    if shown:
        says += f", seen in {key_said(shown[0])}"
        says += "".join(f", {other.name} ({other.grade})" for other in shown[1:])
    elif item.part != UNKNOWN:
        says += ", seen in none of the keys that it makes"
    return First(seen, item.name, says, finding=item.finding, seen_in=shown, collect=collect)


def _update_to_collect(seen: Seen, walked: Sequence[Seen]) -> dict[str, Value]:
    """The switches of the update before a stage whose weights differ, where neither side's dump of it was judged."""
    item = seen.item
    model = FLOW[item.part].model if item.part != UNKNOWN else ""
    is_of_weights = item.finding is not None and item.finding.kind == "parameters differ"
    if not is_of_weights or not _since(item, model, walked).endswith(_AN_UPDATE):
        return {}
    update = UPDATES.get(model)
    has = any((s.item.kind, s.item.part, s.item.step) == ("stage", update, item.step - 1) for s in walked)
    return {} if update is None or has else _collect(FLOW[update], item.step - 1)


def _role_of_stage(seen: Seen, walked: Sequence[Seen]) -> str:
    """Whether the difference begins in a stage, as far as its first wrong call and the keys that it reads say."""
    item, kind = seen.item, seen.item.finding.kind if seen.item.finding else ""
    agree = f"{_several('key', seen.agreeing)} that the stage reads agree" + "s" * (len(seen.agreeing) == 1)
    if kind == "run inputs differ":
        if seen.agreeing:
            return (
                f"the stage was given different input, although {agree}: it comes from host code before the stage, "
                "such as masks, positions and padding"
            )
        return "the stage carries on a difference: it was given different input, and no key that it reads was saved"
    if kind == "parameters differ":
        model = FLOW[item.part].model if item.part != UNKNOWN else ""
        whose = f"the weights of the {model}" if model else "its weights"
        return f"it begins before this stage: {whose} differ {_since(item, model, walked)}"
    if kind == "cannot tell":
        return "whether it begins here cannot be said"
    if seen.role == "open":
        return "it begins here as far as the dump says; no key that the stage reads was saved"
    return f"begins here: {agree}"


def _since(item: Item, model: str, walked: Sequence[Seen]) -> str:
    """Since when the weights of a stage differ, by the updates before and by the model's other stages in the step."""
    if model == "reference" or item.step == min(other.item.step for other in walked):
        return "as they were loaded or made"
    stages = [s for s in walked if s.item.kind == "stage" and s.item.part != UNKNOWN and s.item.rank == item.rank]
    here = [s.item for s in stages if s.item.step == item.step and FLOW[s.item.part].model == model]
    equal = [other.name for other in here if not other.weights_differ and other.grade != "unjudged"]
    if model and equal:
        return f"and those of {' and '.join(equal)} in this step do not: the new weights do not reach this stage"
    updates = [s for s in stages if s.item.step == item.step - 1 and FLOW[s.item.part].updates == model]
    if model and any(s.role == "agrees" for s in updates):
        return f"although {updates[0].item.name} of step {item.step - 1} agrees: the optimizer behind it does not"
    return _AN_UPDATE


def _of_key(seen: Seen, walked: Sequence[Seen], stages: Mapping[int, Stage]) -> First:
    item = seen.item
    says = f"{place_said(item)}, {key_said(item)}"
    if item.part == UNKNOWN:
        where = _between(item, walked)
        then = f"no call can be named: {item.name} is none of the keys whose stage is known{where}"
        return First(seen, "", says, then, seen_in=(item,))
    part = FLOW[item.part]
    if seen.agreeing:
        says += f"; {_several('key', seen.agreeing, also='')} before it agree{'s' * (len(seen.agreeing) == 1)}"
    if not part.stage:
        then = f"no call can be named: no stage makes {item.name}; look at {part.after}"
        return First(seen, "", says, then, seen_in=(item,))
    stage = stages.get(item.part)
    dumped = _dump_of(item, walked)
    if dumped is not None and dumped.role == "agrees":
        then = (
            f"no call can be named: the dump of {dumped.item.name} agrees in this step{_blind(part, dumped.item)}; "
            f"what lies between is host code after the stage: {part.after}; where that code runs before debugger_stop, "
            f"stage_configs: {{{dumped.item.name}: {{level: mix}}}} records its calls"
        )
        return First(seen, dumped.item.name, says, then, seen_in=(item,))
    collect = _collect(part, item.step, item.token)
    name = stage.name if stage is not None else part.stage
    then = f"collect it: {_lack(name, stage, dumped, item.step)}; set {_shown(collect)} and run again"
    other = next((s.item for s in walked if s.item.part == item.part and s.item.finding), None)
    if other is not None and other.finding is not None:
        then += f"; its dump of step {other.step} says: first wrong call: {finding_said(other.finding)}"
    elif part.model and part.model != "reference" and item.step > min(s.item.step for s in walked):
        switches = _shown(_collect(FLOW[UPDATES[part.model]], item.step - 1))
        then += f"; if its weights differ there, collect the update of step {item.step - 1} too ({switches})"
    return First(seen, name, says, then, seen_in=(item,), collect=collect)


def _dump_of(item: Item, walked: Sequence[Seen]) -> Seen | None:
    """What was seen of the dump of the stage that makes a key, in the same step and rank."""
    of_step = [s for s in walked if s.item.kind == "stage" and (s.item.step, s.item.part) == (item.step, item.part)]
    return next((s for s in of_step if s.item.rank == item.rank), None)


def _lack(name: str, stage: Stage | None, dumped: Seen | None, step: int) -> str:
    """Why there is no answer of a stage's dump."""
    if dumped is not None:
        why = f" ({dumped.item.reason})" if dumped.item.reason else ""
        return f"the dump of {name} in step {step} could not be judged{why}"
    if stage is not None and stage.problem:
        return f"the dumps of {name} could not be compared ({stage.problem})"
    has = stage.has(step) if stage is not None else (False, False)
    if all(has):
        return f"{name} has no dump of this rank on both sides in step {step}"
    if any(has):
        return f"{name} has a dump of step {step} only on the {'target' if has[0] else 'golden'} side"
    return f"{name} has no dump of step {step}"


def _collect(part: Part, step: int, token: int | None = None) -> dict[str, Value]:
    """The switches of a stage, for both runs."""
    collect: dict[str, Value] = {part.switch: True}
    if part.stage == TOKEN_STAGE and token is not None:
        collect |= {"token_range_start": token, "token_range_end": token}
    return collect | {"step_start": step, "step_end": step}


def _shown(collect: Mapping[str, Value]) -> str:
    """Switches as a YAML file has them."""
    return ", ".join(f"{name}: {str(value).lower()}" for name, value in collect.items())


def _blind(part: Part, item: Item) -> str:
    """What a dump that agrees does not know."""
    if part.stage == TOKEN_STAGE:
        return " (as far as its tokens were collected)"
    return " (as far as statistics tell)" if item.mode == "statistics" else ""


def _between(item: Item, walked: Sequence[Seen]) -> str:
    """The known keys between which an unknown one was saved."""
    here = [seen.item for seen in walked if (seen.item.step, seen.item.rank) == (item.step, item.rank)]
    known = [other for other in here if other.saved >= 0 and other.part != UNKNOWN]
    if item.saved < 0 or not known:
        return ""
    before = max((other for other in known if other.saved < item.saved), key=lambda o: o.saved, default=None)
    after = min((other for other in known if other.saved > item.saved), key=lambda o: o.saved, default=None)
    words = [f"after {before.name}"] if before else []
    words += [f"before {after.name}"] if after else []
    return f"; it was saved {' and '.join(words)}"


def finding_said(finding: Finding) -> str:
    """As the last line of a comparison of two dumps."""
    place = f" ({finding.file}:{finding.line})" if finding.file else ""
    return f"{finding.name} in {finding.cell}: {finding.kind}: {finding.reason}{place}"


def place_said(item: Item) -> str:
    return f"step {item.step}, rank {item.rank}"


def key_said(item: Item) -> str:
    """`key ref_log_prob (error: ... first at [0, 3])`."""
    at = f"first at {item.first}" if item.first else ""
    said = "; ".join(word for word in (item.reason.rstrip("."), at) if word)
    return f"key {item.name} ({item.grade}{': ' * bool(said)}{said})"


def _several(noun: str, found: Sequence[str], also: str = "the ") -> str:
    """`the key prompts`, `the keys prompts and responses`."""
    different = list(dict.fromkeys(found))
    if len(different) < 2:
        return f"{also}{noun} {''.join(different)}"
    return f"{also}{noun}s {', '.join(different[:-1])} and {different[-1]}"
