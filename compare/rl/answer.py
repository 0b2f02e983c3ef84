"""What the walk answers: where two runs differ first, and which call is wrong, or what to collect."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msprobe.compare.locate.finding import Finding, FindingKind
from msprobe.compare.locate.wording import full

from .cause import Collect, CollectionStyle, Context, Value, agree, key_said, place_said, since, why_of_stage
from .order import FLOW, TOKEN_STAGE, UNKNOWN, Item, listed
from .stages import Stage, called
from .walk import UPDATES, Seen, begins_by_itself, call_of, first_of


@dataclass(frozen=True)
class First:
    """The first difference.

    `says` is the sentence about it, `why` what is known of its cause, `then` what to do now, with a word before it that
    says of what kind that is. `stage` is the stage that it is of, empty for what no stage makes; `seen_in` are the keys
    of that stage that show it; `finding` is the wrong call, if one is named; `collect` are the fields, of
    `msprobe_config` or of `debugger.stage`, that collect what is lacking.
    """

    seen: Seen
    stage: str
    says: str
    why: str = ""
    then: str = ""
    finding: Finding | None = None
    seen_in: tuple[Item, ...] = ()
    collect: Mapping[str, Value] = field(default_factory=dict)


def first_difference(walked: Sequence[Seen], stages: Iterable[Stage], style: CollectionStyle) -> First | None:
    """What differs first, and what follows from it; None where nothing differs."""
    seen = first_of(walked)
    if seen is None:
        return None
    context = Context(walked, {stage.name: stage for stage in stages}, style)
    return _of_stage(seen, context) if seen.item.kind == "stage" else _of_key(seen, context)


def _of_stage(seen: Seen, context: Context) -> First:
    item = seen.item
    of_part = [s for s in context.walked if s.item.place == item.place and s.item.part == item.part != UNKNOWN]
    shown = tuple(s.item for s in of_part if s.item.kind == "key" and s.role not in ("agrees", "unjudged"))
    says = f"{place_said(item)}, {called(item.name)}, call {item.finding.name if item.finding else ''}"
    if shown:
        says += f", seen in {key_said(shown[0])}"
        says += "".join(f", {other.name} ({other.grade})" for other in shown[1:])
    why, then = why_of_stage(seen, context)
    if item.part != UNKNOWN and not shown and any(other.item.kind == "key" for other in context.walked):
        why += "; none of the keys that the stage makes shows it"
    if begins_by_itself(item.finding):  # as where one model runs in several stages
        others = [s.item for s in context.stages(item) if s.item.name != item.name]
        if also := [called(other.name) for other in others if call_of(other) == call_of(item)]:
            why += f"; the same call is the first wrong one in {listed(also)}"
    collect = _update_to_collect(seen, context)
    if collect is not None:
        which = f"the update of step {item.step - 1}"
        then = f"look at: {which}; {collect.says}"
        if collect.fields:
            then = f"collect it: {which}, of which there are no two dumps; {collect.says}"
    return First(seen, item.name, says, why, then, item.finding, shown, collect.fields if collect else {})


def _update_to_collect(seen: Seen, context: Context) -> Collect | None:
    """What collects the update before a stage whose weights differ, where neither side's dump of it was judged."""
    item = seen.item
    if item.finding is None or item.finding.kind is not FindingKind.PARAMETERS:
        return None
    if not since(item, context)[0].may_be_an_update:
        return None
    update = UPDATES.get(item.model)
    before = [s.item for s in context.walked if (s.item.kind, s.item.step) == ("stage", item.step - 1)]
    if any(update in (None, other.part) for other in before):
        return None
    if any(update in (None, stage.part) and all(stage.has(item.step - 1)) for stage in context.by_name.values()):
        return Collect("both sides have a dump of it, which --step left out; give that step too", {})
    return (
        context.style.all_stages(item.step - 1)
        if update is None
        else context.style.collect(FLOW[update], item.step - 1)
    )


def _of_key(seen: Seen, context: Context) -> First:
    item, walked = seen.item, context.walked
    says = f"{place_said(item)}, {key_said(item)}"
    if item.part == UNKNOWN:
        why = f"no call can be named: {item.name} is none of the keys whose stage is known{_between(item, walked)}"
        if context.by_name and not any(s.item.kind == "stage" and s.item.step == item.step for s in walked):
            stages = context.style.all_stages(item.step)
            then = f"collect it: the stages of step {item.step}, of which there is no dump; {stages.says}"
            return First(seen, "", says, why, then, seen_in=(item,), collect=stages.fields)
        then = f"look at: the code that makes {item.name}"
        return First(seen, "", says, why + _elsewhere(item, context), then, seen_in=(item,))
    part = FLOW[item.part]
    why = f"{agree('key', seen.agreeing, ' before it')}; " if seen.agreeing else ""
    if not part.stage:
        why += f"no call can be named: no stage makes {item.name}"
        return First(seen, "", says, why, f"look at: {part.after}", seen_in=(item,))
    stage = next((each for each in context.by_name.values() if each.part == item.part), None)
    dumped = next((s for s in context.stages(item) if s.item.part == item.part), None)
    if dumped is not None and dumped.role == "agrees":
        name, blind = dumped.item.name, ""
        if part.stage == TOKEN_STAGE:
            blind = " (as far as its tokens were collected)"
        elif dumped.item.mode == "statistics":
            blind = " (as far as statistics tell)"
        why += (
            f"no call can be named: the dump of {name} agrees in this step{blind}, so it is host code after the stage"
        )
        style = context.style
        then = f"look at: how {part.after}; where that code runs before {style.end}, {style.operations(name)} "
        return First(seen, name, says, why, then + "records its calls", seen_in=(item,))
    has = stage.has(item.step) if stage is not None else (False, False)
    lacking = "both" if has[0] == has[1] else f"the {'golden' if has[0] else 'target'}"
    collect = context.style.collect(part, item.step, item.token, lacking)
    name = stage.name if stage is not None else part.stage
    why += f"{name} makes it, and {_lack(stage, dumped, item.step)}"
    then = f"collect it: {collect.says}"
    other = next((s.item for s in walked if s.item.part == item.part and s.item.finding), None)
    if other is not None and other.finding is not None:
        why += f"; its dump of step {other.step} says: first wrong call: {full(other.finding)}"
    elif part.model and part.model != "reference" and item.step > min(s.item.step for s in walked):
        then += f"; its weights may be the cause: {context.style.with_update(FLOW[UPDATES[part.model]], item.step)}"
    why += _elsewhere(item, context)
    return First(seen, name, says, why, then, seen_in=(item,), collect=collect.fields)


def _elsewhere(item: Item, context: Context) -> str:
    """A stage of a name of the user's, which may be the one that makes a key, whose dump is wrong by itself."""
    for other in (s.item for s in context.stages(item) if s.item.part == UNKNOWN):
        if other.finding is not None and begins_by_itself(other.finding):
            said = f"{called(other.name)} has a dump of this step, and a difference begins there too"
            return f"; {said}: first wrong call: {full(other.finding)}"
    return ""


def _lack(stage: Stage | None, dumped: Seen | None, step: int) -> str:
    """Why there is no answer of a stage's dump, behind `STAGE makes it, and`."""
    if dumped is not None:
        why = f" ({dumped.item.reason})" if dumped.item.reason else ""
        return f"its dump of step {step} could not be judged{why}"
    if stage is not None and stage.problem:
        return f"its dumps could not be compared ({stage.problem})"
    has = stage.has(step) if stage is not None else (False, False)
    if all(has):
        return f"it has no dump of this rank on both sides in step {step}"
    if any(has):
        return f"it has a dump of step {step} only on the {'target' if has[0] else 'golden'} side"
    return f"it has no dump of step {step}"


def _between(item: Item, walked: Sequence[Seen]) -> str:
    """The known keys between which an unknown one was saved."""
    here = [seen.item for seen in walked if seen.item.place == item.place]
    known = [other for other in here if other.saved >= 0 and other.part != UNKNOWN]
    if item.saved < 0 or not known:
        return ""
    before = max((other for other in known if other.saved < item.saved), key=lambda o: o.saved, default=None)
    after = min((other for other in known if other.saved > item.saved), key=lambda o: o.saved, default=None)
    places = [f"after {before.name}"] if before else []
    places += [f"before {after.name}"] if after else []
    return f"; it was saved {listed(places)}"
