"""What a diagnosis says, in sentences. Whoever decides reads the data, never these."""

from collections.abc import Sequence

from msprobe.compare.jobs.survey import Subject, Tally
from msprobe.compare.judge.judged import Mode
from msprobe.compare.locate.finding import Finding, FindingKind
from msprobe.compare.noise.report import PrecisionClass
from msprobe.compare.report.console import BLIND

from .collected import Collection
from .diagnosis import About, Answered, Lack, Lacking, Looked, NextCollection, Purpose, RuledOut, Setting, Skipped

NAMED = 3  # so many names stand in a sentence, the others are counted

_SUBJECTS = {
    Subject.RUN_INPUTS: "run inputs",
    Subject.PARAMETERS: "parameters",
    Subject.ARGUMENTS: "arguments that are no tensors",
    Subject.FORWARD: "forward",
    Subject.BACKWARD: "backward",
    Subject.GRADIENTS: "gradients of parameters",
}

_EQUAL: dict[Mode | None, str] = {
    "tensor": "equal to the bit",
    "digest": "equal by digest",
    "statistics": "equal in all four statistics",
    None: "equal",
}

_PURPOSES = {
    Purpose.INSIDE_CELL: "level L0 records no call inside a cell; this collects all inside {around}, with tensors",
    Purpose.BETWEEN_CALLS: "level L0 records no call between cells; this collects {around}, with tensors",
    Purpose.UNRECORDED_CODE: "the operation is none of the recorded calls; this collects every operation of {around}",
    Purpose.ELEMENTS: "statistics and digests do not show how it differs; this collects {around} with tensors",
    Purpose.NOISE: "statistics do not tell rounding from a small fault; this collects the whole step with tensors",
    Purpose.WHOLE_STEP: "a narrow collection does not show where it begins; this collects the whole step",
    Purpose.MISSING_RECORDS: "records that are needed are missing; this collects the whole step, with tensors",
    Purpose.STEP_BEFORE: "an update before this step is different; this collects weights and gradients up to this step",
    Purpose.BLIND: "statistics do not see everything; this collects the same steps {how}",
    Purpose.ONE_SIDE: "one side has more than the other; this collects on the {side} side what it lacks",
    Purpose.OUTSIDE_CELLS: "level L0 records no call outside cells, such as the loss; this collects these steps {how}",
    Purpose.OTHER_STEPS: "nothing differs in these steps; this collects later ones, coarsely",
}

_LACKS = {
    Lack.STEPS_BEFORE: "steps before {names}: not compared",
    Lack.CALLS_IN_CELLS: "calls inside cells and between them: not recorded at level L0",
    Lack.BACKWARD: "backward: not recorded",
    Lack.PARAMETERS: "parameters: not recorded",
    Lack.FILTERED: "calls outside `list` and `scope` of this collection: recorded by {names}",
    Lack.OTHER_STEPS: "steps other than {names}: not compared",
}

_SKIPPED = {
    Skipped.NO_COMMON_STEP: "no step is on both sides",
    Skipped.NOT_THIS_STEP: "it does not hold the step of the answer",
    Skipped.ANSWERED: "not needed for the answer",
}


def place(answered: Answered) -> str:
    """`step 3, rank 1`, with stage and collection where there are several; empty where nothing tells it."""
    said = [f"stage {answered.stage}"] if answered.stage else []
    said += [f"step {answered.step}"] if answered.step is not None else []
    said += [f"rank {answered.rank}"] if answered.rank is not None else []
    name = answered.looked.meeting.target.name
    return ", ".join(said) + (f"{'; ' if said else ''}by the collection {name}" if name else "")


def collection(held: Collection) -> str:
    """`mix: statistics of level L0, 3 steps, 2 ranks`."""
    what = "a flow" if held.is_flow else held.head.task or held.family
    said = f"{what} of level {held.head.level}" if held.head.level else what
    for noun, numbers in (("step", held.steps), ("rank", held.ranks)):
        if len(numbers) > 1:
            said += f", {len(numbers)} {noun}s"
    return f"{held.name}: {said}" if held.name else said


def skipped(looked: Looked) -> str:
    """Why two collections were not compared."""
    if looked.skipped is Skipped.FAILED:
        return f"not compared: {looked.failed}"
    return f"not compared: {_SKIPPED[looked.skipped]}" if looked.skipped else ""


def alone(side: str, held: Collection) -> str:
    """A collection of one side."""
    return f"{collection(held)}: only on the {side} side"


def setting(each: Setting) -> str:
    """One difference of the environment."""
    return f"{each.name}: {each.target}, golden {each.golden}"


def ruled_out(each: RuledOut) -> str:
    """`parameters: 12 pairs, equal to the bit`."""
    if each.what is About.COLLECTION:
        name, level, task = each.names
        what = f"collection {name or 'itself'} ({task} of level {level})"
    elif each.what in (About.STEPS, About.RANKS):
        several = len(each.names) != 1
        what = f"{each.what.value if several else each.what.value[:-1]} {few(each.names, 8)}"
    elif each.what is About.CALLS_BEFORE:
        what = f"{_count(each.calls, 'call')} before it"
    elif each.what is About.ALL_CALLS:
        what = f"all {_count(each.calls, 'call')}, forward and backward"
    else:
        what = _SUBJECTS[each.what] if isinstance(each.what, Subject) else each.what.value
    return f"{what}: {how_surely(each.tally, each.mode)}"


def how_surely(tally: Tally, mode: Mode | None) -> str:
    """`40 pairs: 38 equal to the bit, 2 within noise`."""
    parts = [
        (tally.equal, _EQUAL[mode]),
        (tally.noise, "within noise"),
        (tally.tolerance, "within tolerance"),
        (tally.unjudged, "not judged"),
        (tally.exempt, "exempt"),
    ]
    named = [(number, words) for number, words in parts if number]
    total = sum(number for number, _ in named)
    if len(named) == 1:
        return f"{_count(total, 'pair')}, {named[0][1]}"
    said = f"{_count(total, 'pair')}: {', '.join(f'{number} {words}' for number, words in named)}"
    return f"{said}; {tally.by_statistics} of them by statistics" if tally.by_statistics else said


def blind(modes: Sequence[Mode]) -> list[str]:
    """What these modes of comparison do not see."""
    return [f"{mode} cannot see {text}" for mode in dict.fromkeys(modes) if (text := BLIND.get(mode))]


def lacking(each: Lacking) -> list[str]:
    """What was not recorded, or has no partner."""
    if each.lack is Lack.ONE_SIDE:
        return [f"missing: {sentence}" for sentence in each.names]
    return [_LACKS[each.lack].format(names=few(each.names, 8) or "nothing else")]


def purpose(found: NextCollection) -> str:
    """Why this collection is proposed."""
    how = "by digest" if _by_digest(found) else "with tensors"
    return _PURPOSES[found.purpose].format(around=around(found), how=how, side=found.sides[0])


def _by_digest(found: NextCollection) -> bool:
    section = found.target.get(str(found.target.get("task")))
    return isinstance(section, dict) and section.get("summary_mode") == "md5"


def around(found: NextCollection) -> str:
    """The cell, the calls or the step that a collection is narrowed to."""
    if len(found.around) == 2:
        return f"everything from {found.around[0]} to {found.around[1]}"
    return found.around[0].rstrip(".") if found.around else "the whole step"


def what_to_do(found: NextCollection, files: Sequence[str]) -> list[str]:
    """How the configuration is used; `files` are where it was written."""
    which = "both sides" if len(found.sides) == 2 else f"the {found.sides[0]} side"
    file = files[0] if files else "next.json"
    said = f'run {which} with PrecisionDebugger(config_path="{file}", dump_path=...)'
    if len(files) > 1:
        said = f"{said}, the golden with {files[1]}"
    return [f"{said}, into a folder beside the last dump;", "then msprobe diagnose of both again"]


_LOOK = {
    FindingKind.COMPUTES: "at the call and its settings; where the settings agree, at the kernel that runs it",
    FindingKind.ARGUMENT: "at the line that makes the call, and at where this argument comes from",
    FindingKind.CALL: "at the line that makes the call, and at the conditions under which it runs",
    FindingKind.PARAMETERS: "at how weights are made: seeds, optimizer, checkpoints (msprobe config_check --compare)",
    FindingKind.RUN_INPUTS: "at the data, their order and what is done to them before the first call",
    FindingKind.CODE: "at the code between the two calls; values in it can be saved by hand (docs/saving.md)",
    FindingKind.UNKNOWN: "at what was left out of the collection",
}
"""Where a person looks next, by the kind of the finding, when no collection says more."""


def nothing_to_collect(answered: Answered | None) -> list[str]:
    """Where no collection says more: what to look at."""
    if answered is None:
        return ["none: what was compared is not described by a configuration"]
    if answered.finding is None or answered.looked.meeting.target.is_flow:
        return ["none: what to do stands with the answer"]
    return [
        "none needed: these records say all that a collection can say of this call",
        f"look {_LOOK[answered.finding.kind]}",
    ]


def precision(found: PrecisionClass) -> str:
    """Operations of one side that are coarser throughout."""
    return f"{few(found.operations)} of the {found.side}: like {found.is_of.value} throughout; taken as intended"


def later_steps(steps: Sequence[int]) -> str:
    """The steps behind the first one that differs, which its difference reaches by the weights."""
    numbers = few([str(step) for step in steps], 8)
    return f"step{'s' * (len(steps) != 1)} {numbers} behind it differ{'s' * (len(steps) == 1)} too"


def border(found: Finding) -> str:
    """Inputs from outside a filtered collection that differ, and why they are not the answer."""
    return f"inputs from outside this collection differ too, at {found.name}; the wider collection has them agree"


def overruled() -> str:
    """Behind the counts of a collection whose differences are rounding."""
    return "; rounding, as the tensors below show"


def unconfirmed() -> str:
    """Of an answer that a narrower collection does not show."""
    return "a narrower collection does not show where it begins: the answer may be rounding, or begin elsewhere"


def few(names: Sequence[str], most: int = NAMED) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
