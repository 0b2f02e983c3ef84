"""Hypotheses: the grafts that would close the gap if a finding of the comparison is its cause, most likely first.

- a forward call that computes differently, another precision, random numbers, a value that is not a tensor: the outputs
  and the input gradients of the call
- a backward call: its input gradients, after those that arrive before calls of the target that let no gradient
  through; gradients of a module's own parameters: those of the calls inside
- run inputs, and an argument that is a tensor: all tensors that no recorded call returned and that differ, then this
  tensor alone, at all calls that take it
- code between two calls: the tensor at all calls that take it, and the gradient that arrives where it was made
- at level L0, code between two modules: the input that it returns, and the gradient that arrives at the module
  before
- structure, calls in another order or with exchanged operands, results of another shape: the region around these calls
  is replaced as a whole, by everything that calls of both runs take from it, by the gradients that arrive at calls of
  both runs before it, and by those of parameters in it
- parameters: those that differ, at the start of the step; updates and frozen parameters: at the start of this and all
  later steps

If the same fault is found at several calls of one kind, such as a layer norm in each block, all of them are grafted
together first. The calls of a line of code that is executed several times, such as the steps of a recurrent layer, are
grafted together last: those that receive the difference from the step before have no finding of their own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from msprobe.base import names
from msprobe.base.errors import UsageError
from msprobe.base.language import translated
from msprobe.compare.dataflow.events import Event
from msprobe.compare.judge.judged import DIFFERENT, EQUAL
from msprobe.compare.judge.verdict import GRADES, path_of
from msprobe.compare.locate.find import cell_of
from msprobe.compare.locate.finding import (
    Argument,
    ArgumentKind,
    Between,
    Divergence,
    OtherCall,
    Parameters,
    RunInput,
    Unclear,
    Updated,
)
from msprobe.compare.updates.tracks import parameter_pairs
from msprobe.store.stacks_and_construct import user_line

from .calls import (
    GOLDEN,
    both_of,
    called,
    calls_graft,
    differs,
    differs_at,
    function_of,
    gradients_of,
    incoming,
    inputs_where,
    key_of_call,
    line_of,
    places_of,
)
from .gap import consistent_pairs
from .plan import EVERY, INPUTS, OUTPUTS, Graft, Value, counterparts, is_selected, place_of
from .regions import (
    NOTHING,
    Proposal,
    blocks_of_one_run,
    calls_of_golden,
    code_between_modules,
    cutting_calls,
    gradients_of_untied_parameters,
    makers_of_parameters,
    of_the_same_lines,
    region_of,
    rewired_calls,
    until_alike,
    unused_parameters,
    with_producers,
    without_gradient,
)
from .runs import Step, Study

_WRONG = ("warning", "error")


class What(Enum):
    """A kind of values that a graft replaces, as the configuration of the task `graft` names it."""

    FORWARD = "forward"
    BACKWARD = "backward"
    INPUTS = "inputs"
    INCOMING = "incoming"
    PARAMETERS = "parameters"
    UPDATE = "update"


class FoundBy(Enum):
    """Where a hypothesis comes from: a finding of the comparison, halving the calls that differ, or the user."""

    FINDING = "finding"
    HALVING = "halving"
    USER = "user"


FindingKey = tuple[str, str]
"""The call and the code of a finding, which has the same in all steps."""

Family = tuple[object, ...]
"""The common properties of findings that one fault in each layer causes."""


def key_of(finding: Divergence) -> FindingKey:
    """Return what identifies a finding in all steps."""
    return _call_of(finding), finding.kind.code


def _call_of(finding: Divergence) -> str:
    """Return the call of a finding, as `key_of_call` does."""
    is_of_golden = isinstance(finding.evidence, OtherCall) and finding.evidence.side == "golden"
    return f"{GOLDEN}{finding.name}" if is_of_golden else finding.name


@dataclass(frozen=True)
class Hypothesis:
    """A graft that tests a finding.

    name : the call, parameter or tensor under suspicion.
    number : how many findings of the same kind, or calls, it stands for.
    found_by : where it comes from.
    settles : the findings that it explains: a run with the graft may still have them, because an argument or a call of
        one run stays as it is.
    covers : calls of a region that is replaced as a whole, by `key_of_call`; what is found there is replaced, too.
    graft : the values that are replaced.
    step, finding : the finding; its step is that of the comparison that it was found in.
    """

    name: str
    graft: Graft
    step: Step
    finding: Divergence
    number: int = 1
    found_by: FoundBy = FoundBy.FINDING
    settles: frozenset[FindingKey] = frozenset()
    covers: tuple[str, ...] = ()

    @property
    def what(self) -> tuple[What, ...]:
        """Return the kinds of values that the graft replaces."""
        return what_of(self.graft)

    def explains(self, finding: Divergence) -> bool:
        """Return whether a run with the graft may still have a finding that it explains: at a call of the replaced
        region, or at an input of a forward call that is replaced, because it is recorded as it was before."""
        if key_of(finding) in self.settles or _call_of(finding) in self.covers:
            return True
        if names.parse(finding.name).direction != "forward":
            return False
        difference = getattr(finding.evidence, "difference", None)
        place = getattr(difference, "place", "")
        return any(name == finding.name and is_selected(place, {of}) for name, of in self.graft.values if place)

    @property
    def place(self) -> tuple[int, int, int]:
        """Return its position in execution order."""
        return self.step.step, self.step.rank, self.finding.at

    @property
    def begins(self) -> tuple[int, int, int]:
        """Return the position of the first call of the region or the cell that is replaced, or that takes a replaced
        input."""
        takers = {name for name, place in self.graft.values if place.partition(".")[0] == INPUTS}
        replaced = (
            one.at
            for one in self.step.events
            if self.name in one.keys
            or key_of_call(one) in self.covers
            or (one.direction == "forward" and called(self.step, one) in takers)
        )
        return self.step.step, self.step.rank, min([self.finding.at, *replaced])


def what_of(graft: Graft) -> tuple[What, ...]:
    """Return the kinds of values that a graft replaces, in the order of `What`."""
    found = set()
    for call, place in graft.values:
        name = names.parse(call)
        part = place.partition(".")[0]
        if name.direction == "backward":
            found.add(What.INCOMING if part == INPUTS else What.BACKWARD)
        else:
            found.add(What.INPUTS if part == INPUTS else What.FORWARD)
    if graft.parameters:
        found.add(What.PARAMETERS if graft.steps is not None and len(graft.steps) == 1 else What.UPDATE)
    return tuple(each for each in What if each in found)


def hypotheses(
    step: Step, finding: Divergence, later: Sequence[int], known_families: Mapping[Family, str] = MappingProxyType({})
) -> list[Hypothesis]:
    """Return the hypotheses for a finding of a step, most likely first; none if its values cannot be grafted.

    `later` are the collected steps from this one on. `known_families` are those of findings that kept grafts explain,
    with the call of the first: a second finding of a family suggests that all calls of this function have the fault.
    """
    alike = [one for one in step.findings if family_of(one) == family_of(finding)]
    found: list[Hypothesis] = []
    settled = frozenset({key_of(finding)})
    calls = _of_the_same_function(step, finding) if family_of(finding) in known_families else []
    if len(calls) > 1:
        graft = calls_graft(step, calls)
        every = settled | {(name, finding.kind.code) for name in calls}
        first = of_call(
            step, finding, next(name for name in (known_families[family_of(finding)], *calls) if name in calls)
        )
        found.append(replace(first, graft=graft, number=len(calls), found_by=FoundBy.FINDING, settles=every))
    if len(alike) > 1:
        firsts = [next(iter(_proposals(step, one, later)), NOTHING) for one in alike]
        settled = frozenset(map(key_of, alike))
        graft, covers = graft_of_all(one.graft for one in firsts), _in_order(step, (one.covers for one in firsts))
        found.append(Hypothesis(finding.name, graft, step, finding, len(alike), settles=settled, covers=covers))
    for proposal in _proposals(step, finding, later):
        others = frozenset((name, finding.kind.code) for name in proposal.calls)
        number = max(1, len(proposal.calls))
        every = settled | others
        found.append(
            Hypothesis(finding.name, proposal.graft, step, finding, number, settles=every, covers=proposal.covers)
        )
    if repeated := _repeated(step, alike):
        every = settled | {(name, finding.kind.code) for name in repeated.calls}
        found.append(Hypothesis(finding.name, repeated.graft, step, finding, len(repeated.calls), settles=every))
    known = counterparts(step)
    usable: list[Hypothesis] = []
    for one in found:
        is_resizing = one.graft.is_resizing
        values = frozenset(each for each in one.graft.values if known.has(*each, is_resizing=is_resizing))
        if _forward(one.graft.values) and not _forward(values):
            continue  # gradients alone test no finding of the forward
        graft = replace(one.graft, values=values, parameters=one.graft.parameters & known.parameters.keys())
        if graft and graft not in [other.graft for other in usable]:
            usable.append(replace(one, graft=graft))
    return usable


def _forward(values: Iterable[Value]) -> bool:
    """Return whether one of the values is that of a forward call."""
    return any(names.parse(name).direction == "forward" for name, _ in values)


def everything_before(hypothesis: Hypothesis) -> Graft:
    """Return the graft of everything before a finding in its step, and before the region or the cell that was replaced:
    the outputs of all calls, and the parameters."""
    step, before = hypothesis.step, hypothesis.step.events[: hypothesis.begins[-1]]
    values = {(name, OUTPUTS) for event in before if (name := called(step, event))}
    return Graft(frozenset(values), frozenset(counterparts(step).parameters), frozenset({step.step}))


def is_in_place(step: Step, graft: Graft) -> bool:
    """Return whether the values of a graft agree in a step of a run with it: whether they were replaced.

    Inputs of forward calls are left out: the run records what they were before.
    """
    comparison, pairs = step.comparison, step.comparison.pairs
    wanted: dict[str, set[str]] = {}
    for name, place in graft.values:
        if place.partition(".")[0] != INPUTS or names.parse(name).direction == "backward":
            wanted.setdefault(name, set()).add(place)
    for event in step.events:
        places = wanted.get(called(step, event))
        for row in event.rows if places else ():
            if pairs.are_tensors(row) and GRADES[comparison.grades[row]] in _WRONG:
                place = place_of(pairs.target, int(pairs.target_rows[row]))
                if is_selected(place, places or set()) and counterparts(step).has(event.called, place):
                    return False
    return True


def differing_calls(step: Step) -> list[str]:
    """Return the innermost forward calls of both runs of which a value differs, in execution order."""
    graph = step.graphs["target"]
    found = []
    for event in step.events:
        name = called(step, event)
        if not name or event.direction != "forward" or graph.dump.place[name] in graph.inside:
            continue
        backward = names.counterpart(name, "backward")
        rows = [*event.rows, *(row for at in places_of(step, backward) for row in step.comparison.pairs.rows(at))]
        if any(step.comparison.equal[row] != EQUAL and step.comparison.pairs.are_tensors(row) for row in rows):
            found.append(name)
    return found


def of_call(step: Step, finding: Divergence, name: str, found_by: FoundBy = FoundBy.HALVING) -> Hypothesis:
    """Return the hypothesis for a call that has no finding; `finding` is the first of the comparison."""
    event = next(each for each in step.events if called(step, each) == name)
    target = step.comparison.target
    file, line = user_line(target.calls.stack(target.place[name])) or ("", None)
    there = replace(finding, name=name, cell=cell_of(event), file=file, line=line, at=event.at, receivers=0, hidden=())
    return Hypothesis(name, calls_graft(step, [name]), step, there, found_by=found_by)


def named_by_user(study: Study, wanted: Iterable[str]) -> list[Hypothesis]:
    """Return the hypotheses for calls of the target by name, with or without direction; none if nothing differs.

    UsageError for a name that no step of the target has, and for a call without a value that could replace its own.
    """
    first = next(study.findings, None)
    return [] if first is None else [_named(study, name, first[1]) for name in wanted]


def _named(study: Study, wanted: str, template: Divergence) -> Hypothesis:
    known = ((step, step.comparison.target.place) for step in study.steps)
    found = ((step, names.call_of(wanted, place) or names.call_of(f"{wanted}.forward", place)) for step, place in known)
    having = [(step, name) for step, name in found if name]
    if not having:
        every = dict.fromkeys(name for step in study.steps for name in step.comparison.target.place)
        raise UsageError(names.unknown_call(wanted, every))
    for step, name in having:
        graft = calls_graft(step, [name])
        values = frozenset(each for each in graft.values if counterparts(step).has(*each))
        if values and any(called(step, each) == name for each in step.events):
            return replace(of_call(step, template, name, FoundBy.USER), graft=replace(graft, values=values))
    raise UsageError(
        translated(
            f"--calls: the golden has no values for {having[0][1]}, because it does not make this call, or has another "
            "shape there; name a call of both runs",
            f"--calls：标杆没有 {having[0][1]} 的值，因为它没有此调用或形状不同；请指定两侧都有的调用",
        )
    )


def family_of(finding: Divergence) -> Family:
    """Return what findings have in common that one fault in each layer causes: kind, function and argument."""
    direction = names.parse(finding.name).direction
    difference = getattr(finding.evidence, "difference", None)
    place, kind = getattr(difference, "place", ""), getattr(finding.evidence, "kind", None)
    return finding.kind, type(finding.evidence), kind, function_of(finding.name), direction, place


def _of_the_same_function(step: Step, finding: Divergence) -> list[str]:
    """Return the calls of both runs that have the function and the direction of a finding's call and that differ."""
    event = step.events[finding.at]
    if not event.is_matched or event.kind not in ("api", "cell"):
        return []
    function = function_of(finding.name)
    alike = (each for each in step.events if each.direction == event.direction and each.kind == event.kind)
    found = ((called(step, each), each) for each in alike)
    return [name for name, each in found if name and function_of(name) == function and differs(step, each)]


def graft_of_all(grafts: Iterable[Graft]) -> Graft:
    """Return the graft of everything that several grafts replace, in the steps of the first one."""
    every = list(grafts)
    values = frozenset(value for one in every for value in one.values)
    parameters = frozenset(name for one in every for name in one.parameters)
    missing = frozenset(name for one in every for name in one.missing)
    return Graft(values, parameters, every[0].steps, missing, any(one.is_resizing for one in every))


def _in_order(step: Step, covers: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return the calls of several regions in execution order."""
    every = {name for one in covers for name in one}
    return tuple(key for each in step.events if (key := key_of_call(each)) in every)


# ---- proposals ------------------------------------------------------------------------------------------------------


def _proposals(step: Step, finding: Divergence, later: Sequence[int]) -> Iterator[Proposal]:
    evidence = finding.evidence
    event = step.events[finding.at]
    name = called(step, event)
    if isinstance(evidence, Parameters | Updated):
        if isinstance(evidence, Parameters):
            yield from _of_initial_parameters(step, event, later)
        yield Proposal(Graft(parameters=frozenset(counterparts(step).parameters), steps=frozenset(later)))
        return
    if isinstance(evidence, RunInput):
        yield Proposal(_of_leaves(step, _OUTSIDE))
        yield Proposal(_of_leaves(step, _OUTSIDE | {"code"}))
    elif isinstance(evidence, Argument) and evidence.kind in (ArgumentKind.TENSOR, ArgumentKind.EXCHANGED):
        alone, leaves = _tensor(step, event, evidence.difference.place), _of_leaves(step, _OUTSIDE)
        if alone.values < leaves.values:  # such as both tables of rotary positions
            yield Proposal(leaves)
        yield Proposal(alone)
    elif isinstance(evidence, Argument) and name:
        calls = _with_the_same_argument(step, event, evidence)
        if len(calls) > 1:
            yield from (replace(each, calls=tuple(calls)) for each in _of_calls(step, calls))
    elif isinstance(evidence, Between):
        if step.comparison.target.level == "L0" and (code := code_between_modules(step, event, evidence)) is not None:
            yield code
        rewired = rewired_calls(step, event)
        every = of_the_same_lines(step, rewired, is_whole=len(rewired) == 1)
        for block in (every, rewired) if len(every) > len(rewired) > 1 else (every,):
            if len(block) > 1:
                yield region_of(step, block, tuple(each.called for each in block))
        yield Proposal(_tensor(step, event, evidence.difference.place, with_producers=True))
    elif isinstance(evidence, OtherCall) or not name:
        function = function_of(event.called)
        for block in blocks_of_one_run(step, event):
            forward = (each for each in block if each.direction == "forward" and function_of(each.called) == function)
            alike = tuple(dict.fromkeys(map(key_of_call, forward)))
            yield region_of(step, block, alike if len(alike) > 1 else ())
    if not name:
        return
    if event.kind == "parameters_grad":
        graph = step.graphs["target"]
        inside = [graph.dump.columns.names[call] for call in graph.below(graph.dump.place[name])]
        backward = [call for call in inside if names.parse(call).direction == "backward"]
        yield Proposal(Graft(frozenset(value for call in backward for value in gradients_of(step, call))))
        yield Proposal(Graft(frozenset({(name, EVERY)})))
        return
    if event.direction == "backward":
        if frozen := without_gradient(step, name):
            yield Proposal(Graft(frozenset(gradients_of(step, name)), frozen, missing=frozen))
        if cut := cutting_calls(step):
            region = region_of(step, cut)
            gradients = frozenset(each for each in region.graft.values if names.parse(each[0]).direction == "backward")
            yield replace(region, graft=replace(region.graft, values=gradients))
        yield Proposal(Graft(frozenset(gradients_of(step, name))))
    if isinstance(evidence, Unclear) and event.direction == "forward":
        yield Proposal(Graft(frozenset({(name, INPUTS), *both_of(step, name)})))
    yield from _of_calls(step, [names.counterpart(name, "forward")])


def _of_calls(step: Step, calls: Sequence[str]) -> Iterator[Proposal]:
    """Return the graft of calls; of those whose results have another shape, of the region up to calls that take the
    same from it first, and of those whose gradients cannot be replaced, of the region from the calls before them on.
    Results of another shape are replaced last, if the golden has no others: later calls have to take their shape."""
    known = counterparts(step)
    by_name = {name: each for each in step.events if (name := called(step, each)) in calls}
    if not all(known.has_alike(name, OUTPUTS) for name in calls):
        block = {each.at: each for event in by_name.values() for each in until_alike(step, event)}
        yield region_of(step, list(block.values()))
    elif any(_is_cut_off(step, name) for name in calls):
        block = {each.at: each for each in with_producers(step, list(by_name.values()))}
        if len(block) > len(by_name):
            yield region_of(step, list(block.values()))
    if all(known.has(name, OUTPUTS) for name in calls):
        missing = unused_parameters(step, calls_of_golden(step, calls))
        yield Proposal(replace(calls_graft(step, calls), missing=missing))
    elif all(known.has(name, OUTPUTS, is_resizing=True) for name in calls):
        yield Proposal(replace(calls_graft(step, calls), is_resizing=True))


def _is_cut_off(step: Step, name: str) -> bool:
    """Return whether none of the gradients that a call of the target returns can be replaced, such as those of another
    shape."""
    backward = names.counterpart(name, "backward")
    is_there = any(
        step.comparison.pairs.are_tensors(row)
        for at in places_of(step, backward)
        for row in step.comparison.pairs.rows(at)
    )
    return is_there and not any(counterparts(step).has(*value) for value in gradients_of(step, backward))


def _repeated(step: Step, alike: Sequence[Divergence]) -> Proposal | None:
    """Return the graft of all calls that the lines of code of these findings make and that differ; None if the findings
    name them all already."""
    lines: dict[tuple[str, int | None], Divergence] = {}
    for one in alike:
        if one.line is not None and step.events[one.at].direction == "forward":
            lines.setdefault((one.file, one.line), one)
    named = {one.name for one in alike}
    values: set[tuple[str, str]] = set()
    calls = []
    for event in step.events if lines else ():
        name = called(step, event)
        line = line_of(step, event) if name else None
        found = lines.get(line) if line is not None else None
        if found is None or function_of(name) != function_of(found.name):
            continue
        place = found.evidence.difference.place if isinstance(found.evidence, Between) else ""
        if place and (name in named or differs_at(step, event, place)):
            values |= _tensor(step, event, place, with_producers=True).values
            calls.append(name)
        elif not place and (name in named or differs(step, event)):
            values |= calls_graft(step, [name]).values
            calls.append(name)
    return Proposal(Graft(frozenset(values)), tuple(calls)) if not named.issuperset(calls) else None


def _with_the_same_argument(step: Step, event: Event, evidence: Argument) -> list[str]:
    """Return the calls of the same function whose value of the same argument differs, too; the later ones may have no
    finding, because their tensors differ anyway."""
    function, place = names.parse(event.called).stem, evidence.difference.place
    pairs, found = step.comparison.pairs, []
    for each in step.events:
        name = called(step, each)
        if not name or each.direction != "forward" or names.parse(name).stem != function:
            continue
        for row in each.rows:
            record = pairs.pair(row).record
            if path_of(record) == place and record.kind != "tensor" and step.comparison.equal[row] != EQUAL:
                found.append(name)
                break
    return found


def _of_initial_parameters(step: Step, event: Event, later: Sequence[int]) -> Iterator[Proposal]:
    """Return the grafts of parameters of a call that differ when the step begins: of calls that take another one, of a
    weight that is tied in the golden alone, of calls that rearrange one, and of all parameters that differ."""
    comparison = step.comparison
    differing = frozenset(
        pair.target for pair in parameter_pairs(comparison) if any(comparison.equal[row] != EQUAL for row in pair.rows)
    )
    if exchanged := _calls_with_another_parameter(step, called(step, event)):
        yield exchanged
    if gradients := gradients_of_untied_parameters(step, event):
        yield Proposal(Graft(frozenset(gradients), differing, frozenset(later)))
    if makers := makers_of_parameters(step, event):
        yield region_of(step, makers)
    yield Proposal(Graft(parameters=differing, steps=frozenset({step.step})))


def _calls_with_another_parameter(step: Step, wanted: str) -> Proposal | None:
    """Return the graft of all calls that take another parameter than those of the golden, and of these parameters; None
    if `wanted` is none of these calls."""
    comparison, pairs = step.comparison, step.comparison.pairs
    consistent, exchanged = consistent_pairs(comparison)
    counterpart = {pair.golden: pair.target for pair in consistent}
    by_row = {row: called(step, event) for event in step.events for row in event.rows}
    calls, parameters = [], set()
    for pair in exchanged:
        calls += [by_row[row] for row in pair.rows if pairs.are_tensors(row) and by_row.get(row)]
        parameters |= {pair.target, counterpart.get(pair.golden, pair.golden)}
    if wanted not in calls:
        return None
    values = calls_graft(step, calls).values
    return Proposal(Graft(values, frozenset(parameters), missing=frozenset(parameters)), tuple(dict.fromkeys(calls)))


_OUTSIDE = frozenset({"leaf", "unknown"})
"""Origins of data and constants, which no recorded call returns and which are no parameters."""


def _of_leaves(step: Step, origins: Set[str]) -> Graft:
    """Return the graft of all inputs of these origins that differ."""
    graph, comparison = step.graphs["target"], step.comparison

    def is_wanted(row: int, target: int, golden: int) -> bool:
        return bool(comparison.equal[row] == DIFFERENT) and graph.origin(target)[0] in origins

    return Graft(frozenset(inputs_where(step, is_wanted)))


def _tensor(step: Step, event: Event, place: str, *, with_producers: bool = False) -> Graft:
    """Return the graft of an input of a call at all calls that take the same tensor; `with_producers`: and of the
    gradient that arrives at the calls that return it, on either side."""
    graphs, pairs = step.graphs, step.comparison.pairs
    name = called(step, event)
    rows = [row for row in event.rows if pairs.are_tensors(row)]
    rows = [row for row in rows if place_of(pairs.target, int(pairs.target_rows[row])) == place] or [
        row for row in rows if step.comparison.is_input[row] and step.comparison.equal[row] == DIFFERENT
    ]
    if event.direction == "backward":
        targets = [int(pairs.target_rows[row]) for row in rows]
        return Graft(frozenset((name, place_of(pairs.target, target)) for target in targets))
    marks = {graphs["target"].mark(int(pairs.target_rows[row])) for row in rows} - {None}

    def is_wanted(row: int, target: int, golden: int) -> bool:
        return row in rows or graphs["target"].mark(target) in marks

    values = set(inputs_where(step, is_wanted))
    if with_producers:
        for row in rows:
            for side, at in (("target", pairs.target_rows), ("golden", pairs.golden_rows)):
                kind, made = graphs[side].origin(int(at[row]))
                if kind == "call":
                    values |= set(incoming(step, side, graphs[side].call_of[made]))
    return Graft(frozenset(values))
