"""Sentences about two RL flows, by the items of the flow and the origin. Decisions never read them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msprobe.base.log import join_names
from msprobe.base.phrase import Words, joined, phrase
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.judge.verdict import count, unravel
from msprobe.compare.judge.wording import reasons_phrase
from msprobe.compare.key_data.pairs import Row
from msprobe.compare.locate.wording import full, full_phrase, short_phrase
from msprobe.findings.catalogue import comparison as kinds
from msprobe.store.rl_roots import FlowRoot

from .configurations import ConfigurationDifferences, Difference
from .key_data import KeyData, OneSided
from .order import FLOW, TOKEN_STAGE, UNKNOWN, Item
from .origin import Collect, CollectionStyle, First, Origin, Value
from .roots import ITSELF
from .stages import Stage, called
from .walk import UPDATES, Seen, next_divergences

_MAX_NAMES = 8  # names in a sentence

_RECEIVED = "the stage received different input"
_DIFFER = "the difference starts before this stage: {weights} differ"
_DATA = "the data of step {step}, and the code that computes from them the inputs that"
_MADE = "the loaded checkpoints, and the seeds set before the models are constructed"
_CHANGED = "the code that changes weights after {}: the optimizer, its learning rate and state, clipping, weight decay"

_ORIGINS = {
    Origin.HOST_CODE_BEFORE: (
        _RECEIVED + ", although {keys}: the difference comes from host code before the stage",
        "this code, such as masks, positions and padding",
    ),
    Origin.HOST_CODE_BETWEEN: (
        _RECEIVED + ", although {stages}: the difference comes from host code between the stages",
        "the code between {last} and {name}",
    ),
    Origin.INPUT_OF_SEVERAL: (
        "the stages {names} received different input, and it is unknown from the dumps which of them runs first",
        _DATA + " these stages receive",
    ),
    Origin.INPUT_OF_UNORDERED: (
        _RECEIVED + ", and it is unknown from the dumps which stage runs before it",
        _DATA + " {stage} receives",
    ),
    Origin.INPUT: (_RECEIVED + ", and none of its inputs were saved", _DATA + " {stage} receives"),
    Origin.LOADED: (_DIFFER + " since they were loaded or initialized", _MADE),
    Origin.LOADED_OR_THIS_STEP: (
        _DIFFER + " since they were loaded or initialized, or since an update earlier in this step",
        _MADE + "; or the code that changes weights before {stage}",
    ),
    Origin.LOADED_OR_UPDATE: (_DIFFER + " since they were loaded or initialized, or since an earlier update", _MADE),
    Origin.UPDATE: (_DIFFER + " since an earlier update", ""),
    Origin.STAGES_AGREE: (_DIFFER + ", although every stage of step {before} agrees", _CHANGED.format("the stages")),
    Origin.UPDATE_AGREES: (_DIFFER + ", although {names} of step {before} agrees", _CHANGED.format("it")),
    Origin.NOT_HANDED_OVER: (
        _DIFFER + ", and those of {names} in this step do not: the new weights do not reach this stage",
        "how weights are transferred to {name} after an update",
    ),
    Origin.STEP_AGREES: (
        "the stages of step {names} agree, but the weights differ in the next step",
        "the end of step {names}: the gradient reduction, the optimizer, the loading of updated weights",
    ),
    Origin.UNKNOWN: ("it is unknown whether the difference starts here", ""),
    Origin.HERE: ("the difference starts here: {keys}", ""),
    Origin.OUTSIDE: (
        "the difference starts in the inputs of the call, which come from outside the stage or from its code "
        "between two calls",
        "the origin of these inputs, upwards from the line of the call",
    ),
    Origin.BETWEEN_CALLS: (
        "the difference starts in code of the stage between two recorded calls, or in data that this code "
        "received from outside",
        "this code, such as the loss; {operations} records its calls",
    ),
    Origin.HERE_BY_DUMP: ("the difference starts here, as far as the dump shows: {inputs} agrees", ""),
    Origin.UNKNOWN_KEY: (
        "no call can be located: the stage of the key {name} is unknown{saved}",
        "the code that produces {name}",
    ),
    Origin.NO_STAGE: ("no call can be located: no stage produces {name}", "{after}"),
    Origin.HOST_CODE_AFTER: (
        "no call can be located: the dump of {of} agrees in this step{blind}, so the difference comes from host "
        "code after the stage",
        "{after}; if this code runs before {end}, {operations} records its calls",
    ),
    Origin.STAGE_UNSEEN: ("{of} produces it, and {lack}", ""),
}
"""The sentence about each origin, and where to look."""

_ALL_INPUTS = "all inputs of the call"
_INPUTS = {kinds.ARGUMENT: "all other inputs of the call", kinds.STRUCTURE: "everything before that call"}

_STAGES_BEFORE = "the stage {names} before it agrees", "the stages {names} before it agree"
_KEYS_BEFORE = "the key {names} before it agrees", "the keys {names} before it agree"
_KEYS_READ = "the key {names} that the stage reads agrees", "the keys {names} that the stage reads agree"
"""Templates for one, and for several."""


def _words(first: First) -> dict[str, Words]:
    """Return the values for the texts above."""
    item, agreeing = first.item, first.seen.agreeing
    return {
        "name": item.name,
        "stage": called(item.name),
        "of": first.stage,
        "step": str(item.step),
        "before": str(item.step - 1),
        "weights": phrase("the weights of the {model}", model=phrase(item.model))
        if item.model
        else phrase("its weights"),
        "names": listed(first.names),
        "last": first.names[-1] if first.names else "",
        "stages": _agree(_STAGES_BEFORE, first.names),
        "keys": _agree(_KEYS_READ, agreeing),
        "inputs": phrase(_INPUTS.get(item.finding.kind if item.finding else kinds.UNKNOWN, _ALL_INPUTS)),
        "after": phrase(FLOW[item.part].after) if item.part != UNKNOWN else "",
        "operations": _operations(first.style, first.stage),
        "end": _or(["debugger_stop"] * first.style.by_switches + ["stop()"] * first.style.by_stages),
        "saved": _neighbors(first),
        "blind": _blind(first),
        "lack": _lack(first),
    }


def text(first: First) -> Words:
    """Return the sentence about a first difference."""
    item = first.item
    if item.kind == "key":
        return item_text(item)
    name = item.finding.name if item.finding else ""
    text = phrase("{place}, {stage}, call {name}", place=_place(item), stage=called(item.name), name=name)
    if not first.keys:
        return text
    keys = [_key(first.keys[0])]
    keys += [phrase("{name} ({grade})", name=other.name, grade=other.grade) for other in first.keys[1:]]
    return phrase("{text}, seen in {keys}", text=text, keys=joined(keys, "{before}, {after}"))


def why(first: First) -> Words:
    """Return what is known about its cause."""
    item = first.item
    text: Words = phrase(_ORIGINS[first.origin][0], **_words(first))
    if item.kind == "key" and first.origin is not Origin.UNKNOWN_KEY and first.seen.agreeing:
        text = phrase("{before}; {after}", before=_agree(_KEYS_BEFORE, first.seen.agreeing), after=text)
    more = []
    if first.is_hidden:
        more.append(phrase("none of the keys produced by the stage shows it"))
    if first.also:
        stages = listed([called(name) for name in first.also])
        more.append(phrase("the same call is the first wrong one in {stages}", stages=stages))
    if first.earlier is not None and first.earlier.finding is not None:
        finding = full_phrase(first.earlier.finding)
        more.append(
            phrase(
                "according to its dump of step {step}, first wrong call: {call}", step=first.earlier.step, call=finding
            )
        )
    if first.elsewhere is not None and first.elsewhere.finding is not None:
        more.append(
            phrase(
                "{stage} has a dump of this step, in which a difference also starts: first wrong call: {call}",
                stage=called(first.elsewhere.name),
                call=full_phrase(first.elsewhere.finding),
            )
        )
    return joined([text, *more], "{before}; {after}")


def then(first: First) -> Words:
    """Return what to do next, with the word before it that names the kind of action; empty if the call shows it."""
    item, collect = first.item, first.collect
    update = phrase("the update of step {step}", step=item.step - 1)
    if first.is_update_left_out:
        return phrase(
            "look at: {update}; both sides have a dump of it, which --steps excludes; include this step", update=update
        )
    if collect is None or first.origin is Origin.STEP_AGREES:
        look = _ORIGINS[first.origin][1]
        return phrase("look at: {what}", what=phrase(look, **_words(first))) if look else ""
    what = _collecting(collect)
    if item.kind == "stage":
        what = phrase("{update}, which was not dumped on both sides; {what}", update=update, what=what)
    elif first.origin is Origin.UNKNOWN_KEY:
        what = phrase("the stages of step {step}, which were not dumped; {what}", step=item.step, what=what)
    elif first.may_be_weights:
        what = phrase("{what}; its weights may be the cause: {update}", what=what, update=_with_update(collect))
    return phrase("collect it: {what}", what=what)


def sentences(first: First) -> Iterator[Words]:
    """Return the first difference, why, and the call or what to do."""
    yield phrase("first difference: {what}", what=text(first))
    yield f"why: {why(first)}"
    if first.finding:
        yield f"first wrong call: {full(first.finding)}"
    if do := then(first):
        yield do


def others(first: First, walked: Sequence[Seen], top: int) -> Iterator[str]:
    """Return what was not judged before the first difference, the first one beyond tolerance, and other differences
    that begin."""
    before = walked[: walked.index(first.seen)]
    if unjudged := [f"{seen.item.kind} {seen.item.name}" for seen in before if seen.role == "unjudged"]:
        yield f"not judged before it: {join_names(dict.fromkeys(unjudged), _MAX_NAMES)}"
    if not first.item.is_beyond:
        beyond = next((seen.item for seen in walked if seen.item.is_beyond), None)
        where = f"the first beyond it: {item_text(beyond)}" if beyond else "nothing is beyond it"
        yield f"it is within tolerance; {where}"
    following = next_divergences(walked)
    for seen, again in following[:top]:
        steps = f"; again in step{'s' * (len(again) > 1)} {', '.join(map(str, again[:8]))}" if again else ""
        yield f"another difference: {item_text(seen.item)}{steps}"
    if len(following) > top:
        yield f"another difference: {len(following) - top} more, in the JSON file"


def item_text(item: Item) -> Words:
    """Return the place, and the key or the call, in a few words."""
    if item.kind == "key":
        return phrase("{before}, {after}", before=_place(item), after=_key(item))
    text = phrase("{before}, {after}", before=_place(item), after=called(item.name))
    return phrase("{text}, call {call}", text=text, call=short_phrase(item.finding)) if item.finding else text


def _place(item: Item) -> Words:
    return phrase("step {step}, rank {rank}", step=item.step, rank=item.rank)


def _key(item: Item) -> Words:
    """Return `key ref_log_prob (error: ... first at [0, 3])`."""
    at = phrase("first at {where}", where=where) if (where := first_place(item)) else ""
    text = joined([words for words in (_reason(item), at) if words], "{before}; {after}")
    if not text:
        return phrase("key {name} ({grade})", name=item.name, grade=item.grade)
    return phrase("key {name} ({grade}: {text})", name=item.name, grade=item.grade, text=text)


def reason_of(item: Item) -> Words:
    """Return why an item has its grade, with a full stop if it is a reason of a pair."""
    words = _reason(item)
    return phrase("{reasons}.", reasons=words) if words and not item.failed else words


def _reason(item: Item) -> Words:
    if item.failed:
        return phrase("not compared: {cause}", cause=item.failed)
    row = item.worst
    if row is None:
        return ""
    if row.verdict.reasons or row.found is None or row.found.same == row.found.size:
        return reasons_phrase(row.verdict.reasons)
    return phrase(
        "{number} of {size} elements differ within tolerance, by {amount:.3g} at most",
        number=row.found.size - row.found.same,
        size=row.found.size,
        amount=row.found.max_absolute,
    )


def first_place(item: Item) -> str:
    """Return `micro_step 1, [0, 3]`: the first element that differs in what both sides have in common."""
    if item.first is None:
        return ""
    key, found = item.first.key, item.first.found
    words = [f"micro_step {key.micro_step}"] * bool(key.micro_step)
    words += [f"id {'.'.join(map(str, key.id))}"] * (key.id != (0,))
    if found is not None and found.first >= 0:
        index = _index(item.first, found.first)
        words += [str(list(index))] * bool(index)
    return ", ".join(words)


def _index(row: Row, first: int) -> Sequence[int]:
    target, golden = row.target_shape, row.golden_shape
    if target is None or golden is None or len(target) != len(golden):
        return (first,)
    return unravel(first, tuple(map(min, target, golden)))


def listed(words: Sequence[Words]) -> Words:
    """Return `a`, `a and b`, `a, b and c`."""
    before = joined(words[:-1], "{before}, {after}")
    return joined([before, *words[-1:]] if before else words, "{before} and {after}")


def _or(words: Sequence[Words]) -> Words:
    return joined(words, "{before} or {after}")


def _agree(templates: tuple[str, str], found: Sequence[str]) -> Words:
    """Return `the key prompts before it agrees`, `the keys prompts and responses before it agree`."""
    names = list(dict.fromkeys(found))
    return phrase(templates[len(names) != 1], names=listed(names))


def _operations(style: CollectionStyle, stage: str) -> Words:
    """Return what records the operations within a stage, in addition to its cells."""
    if stage == ITSELF:
        return 'PrecisionDebugger(level="mix")'
    ways = [f"stage_configs: {{{stage}: {{level: mix}}}}"] * style.by_switches
    ways += [f'debugger.stage("{stage}", level="mix")'] * style.by_stages
    return _or(ways)


def _neighbors(first: First) -> Words:
    """Return the known keys between which an unknown one was saved."""
    before, after = first.neighbors
    places = [phrase("after {name}", name=before.name)] if before is not None else []
    places += [phrase("before {name}", name=after.name)] if after is not None else []
    return phrase("; it was saved {places}", places=listed(places)) if places else ""


def _blind(first: First) -> Words:
    """Return how far the dump of a stage agrees."""
    if first.dump is not None and FLOW[first.dump.part].stage == TOKEN_STAGE:
        return phrase(" (as far as its tokens were collected)")
    is_blind = first.dump is not None and first.dump.mode == "statistics"
    return phrase(" (as far as statistics tell)") if is_blind else ""


def _lack(first: First) -> Words:
    """Return why a stage's dump has no answer, after `STAGE makes it, and`."""
    stage, dump, step = first.made_by, first.dump, first.item.step
    if dump is not None:
        text = phrase("its dump of step {step} could not be judged", step=step)
        return phrase("{text} ({cause})", text=text, cause=cause) if (cause := reason_of(dump)) else text
    if stage is not None and stage.problem:
        return phrase("its dumps could not be compared ({cause})", cause=stage.problem)
    has = stage.has(step) if stage is not None else (False, False)
    if all(has):
        return phrase("it has no dump of this rank on both sides in step {step}", step=step)
    if any(has):
        side = "target" if has[0] else "golden"
        return phrase("it has a dump of step {step} only on the {side} side", step=step, side=side)
    return phrase("it has no dump of step {step}", step=step)


def _collecting(collect: Collect) -> Words:
    """Return what to do in both runs, or in one."""
    style, step = collect.style, collect.step
    ways: list[Words] = []
    if collect.part is None:
        ways += [_switches(collect.switches)] * style.by_switches
        ways += [phrase("step=[{step}] of the PrecisionDebugger", step=step)] * style.by_stages
        return phrase("set {what}; then run both again", what=_or(ways))
    if style.by_switches:
        switches = _switches(collect.switches)
        ways.append(
            phrase("set {switches}, if MsProbe collects it" if style.by_stages else "set {switches}", switches=switches)
        )
    if style.by_stages:
        name = style.name_of(collect.part)
        inputs = f", token_range={collect.tokens}" if collect.tokens else ""
        by_stage = phrase(
            "put {start} before this part of the step and {stop} after it, with step=[{step}] of the PrecisionDebugger",
            start=f'debugger.stage("{name}").start(model{inputs})',
            stop=f'debugger.stage("{name}").stop()',
            step=step,
        )
        ways.append(phrase("{way}, if debugger.stage collects it", way=by_stage) if style.by_switches else by_stage)
    way = joined(ways, "{before}; or {after}")
    return phrase(
        "{way}; then run both again" if collect.runs == "both" else "{way}; then run the {side} again",
        way=way,
        side=collect.runs.removeprefix("the "),
    )


def _with_update(collect: Collect) -> Words:
    """Return what collects the update of the previous step in the same run."""
    assert collect.part is not None
    style, step, update = collect.style, collect.step, FLOW[UPDATES[collect.part.model]]
    ways: list[Words] = [f"{update.switch}: true, step_start: {step - 1}"] * style.by_switches
    stage = f'debugger.stage("{style.name_of(update)}")'
    steps = f"step=[{step - 1}, {step}]"
    ways += [phrase("{before} and {after}", before=stage, after=steps)] * style.by_stages
    return phrase("{ways} collects the earlier update in the same runs", ways=_or(ways))


def _switches(fields: Mapping[str, Value]) -> str:
    """Return switches in the form of a YAML file."""
    return ", ".join(f"{name}: {str(value).lower()}" for name, value in fields.items())


def compared(outcome: Outcome, stage: Stage, seen: Seen) -> str:
    """Return the outcome of one dump of a stage."""
    where = f"{called(stage.name)}, {outcome.label or f'step {outcome.step}'}"
    if outcome.failed:
        return f"{where}: not compared: {outcome.failed}"
    text = f"{where}: {outcome.mode} compared: {count(outcome.counts)}"
    if outcome.first is None:
        return text
    if seen.role == "received":
        through = f", after differences in {' and '.join(dict.fromkeys(seen.through))}" if seen.through else ""
        text += f"; it propagates a difference{through}"
    return f"{text}; first wrong call: {outcome.first.name} in {outcome.first.cell}"


def order_of(stages: Sequence[Stage]) -> Iterator[Words]:
    """Return whether the order of the stages in a step is known, if their names do not show it."""
    known = [stage for stage in stages if stage.result]
    if len(known) < 2 or all(stage.part != UNKNOWN for stage in known):
        return
    if all(stage.is_placed for stage in known):
        ordered = ", ".join(stage.name for stage in sorted(known, key=lambda stage: stage.order))
        yield phrase(
            "order of the stages in a step, by the lines that call them: {names}"
            if any(stage.placed_by == "lines" for stage in known)
            else "order of the stages in a step: {names}",
            names=ordered,
        )
        return
    yield phrase(
        "order of the stages in a step: unknown from the dumps for {names}; stages in whose dump a difference "
        "starts are listed first",
        names=", ".join(stage.name for stage in known if not stage.is_placed),
    )


_MAX_VALUE = 60  # characters of a value


def configurations(found: ConfigurationDifferences, top: int) -> Iterator[Words]:
    """Return the number of settings that differ, and at most `top` of them."""
    differences = found.differences
    if found.problem:
        yield phrase("configurations: {problem}", problem=found.problem)
    elif found.count and not differences:
        yield phrase("configurations: 0 of {total} settings differ", total=found.count)
    elif found.count:
        places = sum(each.is_of_place for each in differences)
        yield phrase(
            "configurations: {number} of {total} settings differ{places}; possible explanations, not necessarily "
            "errors:",
            number=len(differences),
            total=found.count,
            places=phrase(", {number} of them paths or times", number=places) if places else "",
        )
        yield from (phrase("  {setting}", setting=setting(each)) for each in differences[:top])
        if len(differences) > top:
            yield phrase("  and {number} more in the table", number=len(differences) - top)


def setting(each: Difference) -> Words:
    """Return `rl.seed: 1, golden 2 (random numbers)`."""
    target, golden = (
        phrase("missing") if text is None else text if len(text) <= _MAX_VALUE else text[: _MAX_VALUE - 3] + "..."
        for text in (each.target, each.golden)
    )
    text = phrase("{name}: {target}, golden {golden}", name=each.path, target=target, golden=golden)
    return phrase("{text} ({cause})", text=text, cause=phrase(each.meaning.changes)) if each.meaning else text


def missing(target: FlowRoot, golden: FlowRoot, keys: KeyData, stages: Sequence[Stage]) -> Iterator[Words]:
    """Return what was not compared, or has no counterpart."""
    if keys.problem:
        yield phrase("key data not compared: {cause}", cause=keys.problem)
    for one in keys.one_sided:
        yield from _one_sided(one)
    for stage in stages:
        name = called(stage.name)
        if stage.problem:
            yield phrase("{stage} not compared: {cause}", stage=name, cause=stage.problem)
        if stage.only_on:
            yield phrase("{stage} has a dump only on the {side} side", stage=name, side=stage.only_on)
        for each in stage.result.missing if stage.result else ():
            yield phrase("{stage}: {what}", stage=name, what=each)
    for root, side in ((target, "target"), (golden, "golden")):
        for stage_name in root.hollow:
            yield phrase("stage {name} of the {side} contains no dump", name=stage_name, side=side)


def _one_sided(one: OneSided) -> Iterator[Words]:
    if not one.places:
        what = phrase("key {name}", name=one.key) if one.key else phrase("key data")
        yield phrase("{what} is only on the {side} side", what=what, side=one.side)
    for places, is_one in _places(one.places):
        if one.key:
            what = phrase(
                "some of key {name} of {places}" if one.is_part else "key {name} of {places}",
                name=one.key,
                places=places,
            )
            yield phrase("{what} is only on the {side} side", what=what, side=one.side)
        else:
            yield phrase(
                "{what} is only on the {side} side" if is_one else "{what} are only on the {side} side",
                what=phrase("{places} of the key data", places=places),
                side=one.side,
            )


def _places(found: Iterable[tuple[int, int]]) -> Iterator[tuple[Words, bool]]:
    """Return steps and ranks, `step 1, rank 0` or `steps 5 to 9, ranks 0 and 2`, as short as possible; and whether that
    is a single place."""
    ranks_of: dict[int, list[int]] = defaultdict(list)
    for step, rank in sorted(found):
        ranks_of[step].append(rank)
    steps_with: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for step, ranks in ranks_of.items():
        steps_with[tuple(ranks)].append(step)
    for of_steps, steps in steps_with.items():
        places = phrase("{before}, {after}", before=_numbers(_STEPS, steps), after=_numbers(_RANKS, of_steps))
        yield places, len(steps) == len(of_steps) == 1


_STEPS = "step {numbers}", "steps {numbers}"
_RANKS = "rank {numbers}", "ranks {numbers}"


def _numbers(templates: tuple[str, str], numbers: Sequence[int]) -> Words:
    """Return `step 3`, `steps 3 and 5`, `steps 3 to 9`, `steps 3 to 5, 7 and 9`; the numbers are sorted."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words: list[Words] = []
    for run in runs:
        words += map(str, run) if len(run) < 3 else [phrase("{first} to {last}", first=run[0], last=run[-1])]
    return phrase(templates[len(numbers) > 1], numbers=listed(words))
