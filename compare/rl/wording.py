"""Sentences about two RL flows, made of what the walk and the search for the origin found. No decision reads one."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msprobe.base.log import few
from msprobe.compare.jobs.outcome import Outcome
from msprobe.compare.judge.verdict import count, unravel
from msprobe.compare.key_data.pairs import Row
from msprobe.compare.locate.finding import FindingKind
from msprobe.compare.locate.wording import full, short
from msprobe.store.rl_roots import FlowRoot

from .configurations import ConfigurationDifferences, Difference
from .key_data import KeyData, OneSided
from .order import FLOW, TOKEN_STAGE, UNKNOWN, Item
from .origin import Collect, CollectionStyle, First, Origin, Value
from .roots import ITSELF
from .stages import Stage, called
from .walk import UPDATES, Seen, next_beginnings

_NAMED = 8  # so many names stand in a sentence

_RECEIVED = "the stage received different input"
_DIFFER = "it begins before this stage: {weights} differ"
_DATA = "the data of step {step}, and the code that makes of them what"
_MADE = "the checkpoints that are loaded, and the seeds that are set before the models are made"
_CHANGED = "what changes weights behind {}: the optimizer, its learning rate and state, clipping, weight decay"

_ORIGINS = {
    Origin.HOST_CODE_BEFORE: (
        _RECEIVED + ", although {keys}: it comes from host code before the stage",
        "that code, such as masks, positions and padding",
    ),
    Origin.HOST_CODE_BETWEEN: (
        _RECEIVED + ", although {stages}: it comes from host code between the stages",
        "the code between {last} and {name}",
    ),
    Origin.INPUT_OF_SEVERAL: (
        "the stages {names} received different input, and the dumps do not tell which of them runs first",
        _DATA + " these stages are given",
    ),
    Origin.INPUT_OF_UNORDERED: (
        _RECEIVED + ", and the dumps do not tell which stage runs before it",
        _DATA + " {stage} is given",
    ),
    Origin.INPUT: (_RECEIVED + ", and nothing that it reads was saved", _DATA + " {stage} is given"),
    Origin.LOADED: (_DIFFER + " as they were loaded or made", _MADE),
    Origin.LOADED_OR_THIS_STEP: (
        _DIFFER + " as they were loaded or made, or since an update earlier in this step",
        _MADE + "; or what changes weights before {stage}",
    ),
    Origin.LOADED_OR_UPDATE: (_DIFFER + " as they were loaded or made, or since an update before", _MADE),
    Origin.UPDATE: (_DIFFER + " since an update before", ""),
    Origin.STAGES_AGREE: (_DIFFER + ", although every stage of step {before} agrees", _CHANGED.format("the stages")),
    Origin.UPDATE_AGREES: (_DIFFER + ", although {names} of step {before} agrees", _CHANGED.format("it")),
    Origin.NOT_HANDED_OVER: (
        _DIFFER + ", and those of {names} in this step do not: the new weights do not reach this stage",
        "how weights are handed to {name} after an update",
    ),
    Origin.STEP_AGREES: (
        "the stages of step {names} agree, and the weights differ in the next one",
        "the end of step {names}: the gradients' reduction, the optimizer, the loading of updated weights",
    ),
    Origin.UNKNOWN: ("whether it begins here cannot be said", ""),
    Origin.HERE: ("it begins here: {keys}", ""),
    Origin.OUTSIDE: (
        "it begins in the inputs of the call, from outside the stage or from code of it between two calls",
        "where that comes from, upwards from the line that makes the call",
    ),
    Origin.BETWEEN_CALLS: (
        "it begins in code of the stage between two recorded calls, or in what that code received from outside",
        "that code, such as the loss; {operations} records its calls",
    ),
    Origin.HERE_BY_DUMP: ("it begins here, as far as the dump says: {inputs} agrees", ""),
    Origin.UNKNOWN_KEY: (
        "no call can be named: {name} is none of the keys whose stage is known{saved}",
        "the code that makes {name}",
    ),
    Origin.NO_STAGE: ("no call can be named: no stage makes {name}", "{after}"),
    Origin.HOST_CODE_AFTER: (
        "no call can be named: the dump of {of} agrees in this step{blind}, so it is host code after the stage",
        "how {after}; where that code runs before {end}, {operations} records its calls",
    ),
    Origin.STAGE_UNSEEN: ("{of} makes it, and {lack}", ""),
}
"""What is said of each origin, and what to look at."""

_INPUTS = {FindingKind.ARGUMENT: "all other inputs of the call", FindingKind.CALL: "everything before that call"}


def _words(first: First) -> dict[str, object]:
    """What stands in the places of the texts above."""
    item, agreeing = first.item, first.seen.agreeing
    return {
        "name": item.name,
        "stage": called(item.name),
        "of": first.stage,
        "step": item.step,
        "before": item.step - 1,
        "weights": f"the weights of the {item.model}" if item.model else "its weights",
        "names": listed(first.names),
        "last": first.names[-1] if first.names else "",
        "stages": _agree("stage", first.names, " before it"),
        "keys": _agree("key", agreeing, " that the stage reads"),
        "inputs": _INPUTS.get(item.finding.kind if item.finding else FindingKind.UNKNOWN, "all inputs of the call"),
        "after": FLOW[item.part].after if item.part != UNKNOWN else "",
        "operations": _operations(first.style, first.stage),
        "end": " or ".join(["debugger_stop"] * first.style.by_switches + ["stop()"] * first.style.by_stages),
        "saved": _neighbours(first),
        "blind": _blind(first),
        "lack": _lack(first),
    }


def text(first: First) -> str:
    """The sentence about a first difference."""
    item = first.item
    if item.kind == "key":
        return item_text(item)
    text = f"{_place(item)}, {called(item.name)}, call {item.finding.name if item.finding else ''}"
    if first.keys:
        text += f", seen in {_key(first.keys[0])}"
        text += "".join(f", {other.name} ({other.grade})" for other in first.keys[1:])
    return text


def why(first: First) -> str:
    """What is known of its cause."""
    item = first.item
    text = _ORIGINS[first.origin][0].format(**_words(first))
    if item.kind == "key" and first.origin is not Origin.UNKNOWN_KEY and first.seen.agreeing:
        text = f"{_agree('key', first.seen.agreeing, ' before it')}; {text}"
    if first.is_hidden:
        text += "; none of the keys that the stage makes shows it"
    if first.also:
        text += f"; the same call is the first wrong one in {listed([called(name) for name in first.also])}"
    if first.earlier is not None and first.earlier.finding is not None:
        text += f"; its dump of step {first.earlier.step} says: first wrong call: {full(first.earlier.finding)}"
    if first.elsewhere is not None and first.elsewhere.finding is not None:
        text += f"; {called(first.elsewhere.name)} has a dump of this step, and a difference begins there too"
        text += f": first wrong call: {full(first.elsewhere.finding)}"
    return text


def then(first: First) -> str:
    """What to do now, with a word before it that says of what kind that is; empty where the call says it."""
    item, collect = first.item, first.collect
    update = f"the update of step {item.step - 1}"
    if first.is_update_left_out:
        return f"look at: {update}; both sides have a dump of it, which --step left out; give that step too"
    if collect is None or first.origin is Origin.STEP_AGREES:
        look = _ORIGINS[first.origin][1].format(**_words(first))
        return f"look at: {look}" if look else ""
    what = _collecting(collect)
    if item.kind == "stage":
        what = f"{update}, of which there are no two dumps; {what}"
    elif first.origin is Origin.UNKNOWN_KEY:
        what = f"the stages of step {item.step}, of which there is no dump; {what}"
    elif first.may_be_weights:
        what += f"; its weights may be the cause: {_with_update(collect)}"
    return f"collect it: {what}"


def sentences(first: First) -> Iterator[str]:
    """What differs first, why, and the call or what to do."""
    yield f"first difference: {text(first)}"
    yield f"why: {why(first)}"
    if first.finding:
        yield f"first wrong call: {full(first.finding)}"
    if do := then(first):
        yield do


def others(first: First, walked: Sequence[Seen], top: int) -> Iterator[str]:
    """What was not judged before the first difference, the first beyond tolerance, and what begins besides."""
    before = walked[: walked.index(first.seen)]
    if unjudged := [f"{seen.item.kind} {seen.item.name}" for seen in before if seen.role == "unjudged"]:
        yield f"not judged before it: {few(dict.fromkeys(unjudged), _NAMED)}"
    if not first.item.is_beyond:
        beyond = next((seen.item for seen in walked if seen.item.is_beyond), None)
        where = f"the first beyond it: {item_text(beyond)}" if beyond else "nothing is beyond it"
        yield f"it is within tolerance; {where}"
    following = next_beginnings(walked)
    for seen, again in following[:top]:
        steps = f"; again in step{'s' * (len(again) > 1)} {', '.join(map(str, again[:8]))}" if again else ""
        yield f"another difference: {item_text(seen.item)}{steps}"
    if len(following) > top:
        yield f"another difference: {len(following) - top} more, in the json"


def item_text(item: Item) -> str:
    """In few words: where, and the key or the call."""
    if item.kind == "key":
        return f"{_place(item)}, {_key(item)}"
    call = f", call {short(item.finding)}" if item.finding else ""
    return f"{_place(item)}, {called(item.name)}{call}"


def _place(item: Item) -> str:
    return f"step {item.step}, rank {item.rank}"


def _key(item: Item) -> str:
    """`key ref_log_prob (error: ... first at [0, 3])`."""
    at = f"first at {where}" if (where := first_place(item)) else ""
    text = "; ".join(word for word in (reason_of(item).rstrip("."), at) if word)
    return f"key {item.name} ({item.grade}{': ' * bool(text)}{text})"


def reason_of(item: Item) -> str:
    """Why an item has its grade."""
    if item.failed:
        return f"not compared: {item.failed}"
    row = item.worst
    if row is None or row.verdict.reason or row.found is None or row.found.same == row.found.size:
        return row.verdict.reason if row is not None else ""
    many = f"{row.found.size - row.found.same} of {row.found.size} elements"
    return f"{many} differ within tolerance, by {row.found.max_absolute:.3g} at most."


def first_place(item: Item) -> str:
    """`micro_step 1, [0, 3]`: where the first element that differs stands in what both sides have in common."""
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


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _agree(noun: str, found: Sequence[str], which: str) -> str:
    """`the key prompts before it agrees`, `the keys prompts and responses before it agree`."""
    names = list(dict.fromkeys(found))
    one = len(names) == 1
    return f"the {noun}{'s' * (not one)} {listed(names)}{which} agree{'s' * one}"


def _operations(style: CollectionStyle, stage: str) -> str:
    """What records the operations within a stage, beside its cells."""
    if stage == ITSELF:
        return 'PrecisionDebugger(level="mix")'
    ways = [f"stage_configs: {{{stage}: {{level: mix}}}}"] * style.by_switches
    ways += [f'debugger.stage("{stage}", level="mix")'] * style.by_stages
    return " or ".join(ways)


def _neighbours(first: First) -> str:
    """The known keys between which an unknown one was saved."""
    words = ("after", "before")
    places = [f"{word} {item.name}" for word, item in zip(words, first.neighbours, strict=True) if item is not None]
    return f"; it was saved {listed(places)}" if places else ""


def _blind(first: First) -> str:
    """As far as what the dump of a stage agrees."""
    if first.dump is not None and FLOW[first.dump.part].stage == TOKEN_STAGE:
        return " (as far as its tokens were collected)"
    return " (as far as statistics tell)" if first.dump is not None and first.dump.mode == "statistics" else ""


def _lack(first: First) -> str:
    """Why there is no answer of a stage's dump, behind `STAGE makes it, and`."""
    stage, dump, step = first.made_by, first.dump, first.item.step
    if dump is not None:
        reason = f" ({reason_of(dump)})" if reason_of(dump) else ""
        return f"its dump of step {step} could not be judged{reason}"
    if stage is not None and stage.problem:
        return f"its dumps could not be compared ({stage.problem})"
    has = stage.has(step) if stage is not None else (False, False)
    if all(has):
        return f"it has no dump of this rank on both sides in step {step}"
    if any(has):
        return f"it has a dump of step {step} only on the {'target' if has[0] else 'golden'} side"
    return f"it has no dump of step {step}"


def _collecting(collect: Collect) -> str:
    """What to do in both runs, or in one."""
    style, step = collect.style, collect.step
    if collect.part is None:
        ways = [_switches(collect.switches)] * style.by_switches
        ways += [f"step=[{step}] of the PrecisionDebugger"] * style.by_stages
        return f"set {' or '.join(ways)}; then run both again"
    ways = []
    if style.by_switches:
        ways.append(f"set {_switches(collect.switches)}" + ", where MsProbe collects it" * style.by_stages)
    if style.by_stages:
        name = style.name_of(collect.part)
        inputs = f", token_range={collect.tokens}" if collect.tokens else ""
        ways.append(
            f'put debugger.stage("{name}").start(model{inputs}) before that part of the step and '
            f'debugger.stage("{name}").stop() behind it, with step=[{step}] of the PrecisionDebugger'
            + ", where debugger.stage does"
            * style.by_switches
        )
    return f"{'; or '.join(ways)}; then run {collect.runs} again"


def _with_update(collect: Collect) -> str:
    """What collects the update of the step before a stage in the same run."""
    assert collect.part is not None
    style, step, update = collect.style, collect.step, FLOW[UPDATES[collect.part.model]]
    ways = [f"{update.switch}: true, step_start: {step - 1}"] * style.by_switches
    ways += [f'debugger.stage("{style.name_of(update)}") and step=[{step - 1}, {step}]'] * style.by_stages
    return f"{' or '.join(ways)} collects the update before in the same runs"


def _switches(fields: Mapping[str, Value]) -> str:
    """Switches as a YAML file has them."""
    return ", ".join(f"{name}: {str(value).lower()}" for name, value in fields.items())


def compared(outcome: Outcome, stage: Stage, seen: Seen) -> str:
    """What came of one dump of a stage."""
    where = f"{called(stage.name)}, {outcome.label or f'step {outcome.step}'}"
    if outcome.failed:
        return f"{where}: not compared: {outcome.failed}"
    text = f"{where}: {outcome.mode} compared: {count(outcome.counts)}"
    if outcome.first is None:
        return text
    if seen.role == "received":
        through = f", {' and '.join(dict.fromkeys(seen.through))} differing before it" if seen.through else ""
        text += f"; it carries on a difference{through}"
    return f"{text}; first wrong call: {outcome.first.name} in {outcome.first.cell}"


def order_of(stages: Sequence[Stage]) -> Iterator[str]:
    """Whether it is known in which order a step runs the stages, where the names do not say it."""
    known = [stage for stage in stages if stage.result]
    if len(known) < 2 or all(stage.part != UNKNOWN for stage in known):
        return
    if all(stage.is_placed for stage in known):
        ordered = ", ".join(stage.name for stage in sorted(known, key=lambda stage: stage.order))
        how = ", by the lines that call them" if any(stage.placed_by == "lines" for stage in known) else ""
        yield f"order of the stages in a step{how}: {ordered}"
        return
    unknown = ", ".join(stage.name for stage in known if not stage.is_placed)
    yield (
        f"order of the stages in a step: the dumps do not tell it for {unknown}; of one step, those in which a "
        "difference begins by their own dump are named first"
    )


_SHOWN = 60  # characters of a value


def configurations(found: ConfigurationDifferences, top: int) -> Iterator[str]:
    """How many settings differ, and at most `top` of them."""
    differences = found.differences
    if found.problem:
        yield f"configurations: {found.problem}"
    elif found.count and not differences:
        yield f"configurations: 0 of {found.count} settings differ"
    elif found.count:
        places = sum(each.is_of_place for each in differences)
        of_places = f", {places} of them places or times" if places else ""
        yield (
            f"configurations: {len(differences)} of {found.count} settings differ{of_places}; possible "
            "explanations, no faults by themselves:"
        )
        yield from (f"  {setting(each)}" for each in differences[:top])
        if len(differences) > top:
            yield f"  and {len(differences) - top} more in the table"


def setting(each: Difference) -> str:
    """`rl.seed: 1, golden 2 (random numbers)`."""
    target, golden = (
        "not there" if text is None else text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
        for text in (each.target, each.golden)
    )
    return f"{each.path}: {target}, golden {golden}{f' ({each.meaning.changes})' if each.meaning else ''}"


def missing(target: FlowRoot, golden: FlowRoot, keys: KeyData, stages: Sequence[Stage]) -> Iterator[str]:
    """What was not compared, or has no partner."""
    if keys.problem:
        yield f"key data not compared: {keys.problem}"
    for one in keys.one_sided:
        yield from _one_sided(one)
    for stage in stages:
        name = called(stage.name)
        if stage.problem:
            yield f"{name} not compared: {stage.problem}"
        if stage.only_on:
            yield f"{name} has a dump only on the {stage.only_on} side"
        yield from (f"{name}: {each}" for each in (stage.result.missing if stage.result else ()))
    for root, side in ((target, "target"), (golden, "golden")):
        for name in root.hollow:
            yield f"stage {name} of the {side} holds no dump"


def _one_sided(one: OneSided) -> Iterator[str]:
    end = f"only on the {one.side} side"
    if not one.places:
        yield f"key {one.key} is {end}" if one.key else f"key data is {end}"
    for places, verb in _places(one.places):
        key = f"{'some of ' * one.is_part}key {one.key} of {places} is"
        yield f"{key} {end}" if one.key else f"{places} of the key data {verb} {end}"


def _places(found: Iterable[tuple[int, int]]) -> Iterator[tuple[str, str]]:
    """Steps and ranks, `step 1, rank 0` or `steps 5 to 9, ranks 0 and 2`, in as few words as possible; and the verb."""
    ranks_of: dict[int, list[int]] = defaultdict(list)
    for step, rank in sorted(found):
        ranks_of[step].append(rank)
    steps_with: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for step, ranks in ranks_of.items():
        steps_with[tuple(ranks)].append(step)
    for of_steps, steps in steps_with.items():
        verb = "is" if len(steps) == len(of_steps) == 1 else "are"
        yield f"{_numbers('step', steps)}, {_numbers('rank', of_steps)}", verb


def _numbers(noun: str, numbers: Sequence[int]) -> str:
    """`step 3`, `steps 3 and 5`, `steps 3 to 9`, `steps 3 to 5, 7 and 9`; the numbers are in order."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words = [word for run in runs for word in (map(str, run) if len(run) < 3 else [f"{run[0]} to {run[-1]}"])]
    return f"{noun}{'s' * (len(numbers) > 1)} {listed(words)}"
