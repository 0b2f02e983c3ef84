"""Match the parameters of two checkpoints, including tied weights.

Weights that several layers share are under each of their names in a state dict of PyTorch, and under one in a
checkpoint of MindSpore.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product, takewhile

from msprobe.base.errors import MappingError
from msprobe.mapping.layers import parameter_candidates
from msprobe.mapping.transform import IDENTITY, Transform, parse
from msprobe.mapping.user_files import DataRule

from .formats import Checkpoint, Parameter
from .recognize import FoundBy, Place, digest, distinctive_elements, recognize


def tied(own: Mapping[str, Parameter], left: Collection[str], other: Mapping[str, Parameter]) -> list[str]:
    """Return those names of `left` whose matrix is bitwise equal to that of a name of `own` outside of `left`, or
    earlier in it, and that has fewer names in `other`.

    A matrix with equal elements is not evidence. Only matrices that look like one of `left` are read.
    """
    looks = {(own[name].shape, own[name].dtype) for name in left if len(own[name].shape) > 1}
    names_there = Counter(_marked(other, other, looks).values())
    names_here: Counter[tuple[object, ...]] = Counter()
    found: list[str] = []
    # with a counterpart first
    for name, mark in _marked(own, sorted(own, key=lambda name: name in left), looks).items():
        names_here[mark] += 1
        if name in left and names_here[mark] > max(1, names_there[mark]):
            found.append(name)
    return found


def _marked(
    parameters: Mapping[str, Parameter], names: Iterable[str], looks: Collection[tuple[object, ...]]
) -> dict[str, tuple[object, ...]]:
    """Return dtype and digest by name, in the order of `names`, of each matrix of one of these shapes and dtypes."""
    marks: dict[str, tuple[object, ...]] = {}
    for name in names:
        one = parameters[name]
        if (one.shape, one.dtype) in looks and (array := distinctive_elements(one)) is not None:
            marks[name] = one.dtype, digest(array)
    return marks


_OPTIMIZER = re.compile(
    r"(?:moments?|moment[12]|adam_[mv]|accum(?:ulation)?|stat|exp_avg(?:_sq)?|mean_square|mean_gradient)\.(?P<of>.+)"
)
_TRAINING = re.compile(
    r"(?:.+\.)?(?:beta[12]_power|learning_rate|global_step|epoch_num|step_num|batch_num|loss_scale|scale_sense"
    r"|current_iterator_step|last_overflow_iterator_step|momentum|weight_decay)"
)
"""State that MindSpore stores among the parameters of a training, and PyTorch next to them."""

_COUNTER = "num_batches_tracked"  # of PyTorch's BatchNorm; mindspore.nn has none
_OF_MINDSPORE = re.compile(r"(?:.*\.)?(?:gamma|beta|embedding_table|moving_mean|moving_variance)")


@dataclass(frozen=True, slots=True)
class ParameterPair:
    """A target and a golden parameter, one of which may be missing.

    `of_target` converts the target to the golden's layout, `of_golden` the golden to the target's; one of the two does
    nothing. `found_by` is how the pair was found, unless by its names or by the user.
    """

    target: Parameter | None
    golden: Parameter | None
    of_target: Transform = IDENTITY
    of_golden: Transform = IDENTITY
    found_by: FoundBy = ""

    @property
    def name(self) -> str:
        """Return the target's name; the golden's if there is no target."""
        one = self.target or self.golden
        assert one is not None  # a pair has at least one side
        return one.name


@dataclass
class Matched:
    """The pairs of two checkpoints in the target's order, followed by the golden-only parameters. `left_out` are names
    of one framework that the other does not store, `tied` further names of PyTorch's for shared weights."""

    pairs: list[ParameterPair] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    tied: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Option:
    """One way to pair a target: with the golden of this name, with this conversion of layouts."""

    golden: str
    of_target: Transform = IDENTITY
    of_golden: Transform = IDENTITY


def match(target: Checkpoint, golden: Checkpoint, rules: Mapping[str, DataRule] | None = None) -> Matched:
    """Pair by the user's rules, then by name, then by the names of the layers' counterparts in the other framework, and
    the others by values.

    A prefix of all names of a side (`backbone.`) is ignored if that gives more pairs. A rule is for one parameter, or
    for all below a path, where the layers' own names (`gamma`, `weight`) are translated. Raise a MappingError if a rule
    has a name that neither side has.
    """
    native = _native(target, golden)
    pairs = _by_rules(target, golden, rules or {}, native)
    taken = {pair.golden.name for pair in pairs.values() if pair.golden}
    rest = {name: one for name, one in target.parameters.items() if name not in pairs}
    free = {name: one for name, one in golden.parameters.items() if name not in taken}
    pairs |= _by_names(rest, free, native)
    found = Matched()
    ours_only, theirs_only = _of_one_framework(target, native, "target"), _of_one_framework(golden, native, "golden")
    left = {name: one for name, one in rest.items() if name not in pairs and name not in ours_only}
    free_left = {name: one for name, one in free.items() if name not in theirs_only}
    if native:
        of_pytorch, rest_of_it, other = (golden, free_left, target) if native == "target" else (target, left, golden)
        found.tied = tied(of_pytorch.parameters, rest_of_it, other.parameters)
        for name in found.tied:
            del rest_of_it[name]
    if left and free_left:
        places = _places(left, native == "target"), _places(free_left, native == "golden")
        for each in recognize(left, free_left, *places):
            transforms = each.of_target.transform, each.of_golden.transform
            pairs[each.target] = ParameterPair(left[each.target], free.pop(each.golden), *transforms, each.found_by)
    for name, one in target.parameters.items():
        if name in pairs:
            found.pairs.append(pairs[name])
        elif name in ours_only:
            found.left_out.append(name)
        elif native != "golden" or name not in found.tied:
            found.pairs.append(ParameterPair(one, None))
    for name, one in free.items():
        if name in theirs_only:
            found.left_out.append(name)
        elif native != "target" or name not in found.tied:
            found.pairs.append(ParameterPair(None, one))
    return found


def _by_names(target: Mapping[str, Parameter], free: dict[str, Parameter], native: str) -> dict[str, ParameterPair]:
    """Return pairs by name, or by the names of the other framework; paired ones are removed from `free`.

    First with the same shape and name, then with the same shape after a transform, then with the same name: their
    different shapes have to be reported.
    """
    pairs: dict[str, ParameterPair] = {}
    options = _options(target, free, native)
    for is_plain, has_shape in ((True, True), (False, True), (True, False)):
        for name, one in target.items():
            for option in options.get(name, ()) if name not in pairs else ():
                if option.golden not in free or (is_plain and (option.of_target or option.of_golden)):
                    continue
                if not has_shape or _shape(option.of_target, one) == _shape(option.of_golden, free[option.golden]):
                    pairs[name] = ParameterPair(one, free.pop(option.golden), option.of_target, option.of_golden)
                    break
    return pairs


def _by_rules(
    target: Checkpoint, golden: Checkpoint, rules: Mapping[str, DataRule], native: str
) -> dict[str, ParameterPair]:
    pairs: dict[str, ParameterPair] = {}
    for ours, rule in rules.items():
        named = {name: one for name, one in target.parameters.items() if f"{name}.".startswith(f"{ours}.")}
        below = {name: one for name, one in golden.parameters.items() if f"{name}.".startswith(f"{rule.to}.")}
        there = _options_below(named, below, (ours, rule.to), native)
        if not there:
            side, lacking = (target, ours) if not named else (golden, rule.to)
            raise MappingError(
                f"{side.where}: has no parameter {lacking}, which is in the data mapping; correct the mapping"
            )
        for name in sorted(there, key=lambda name: name != ours):
            if name == ours or name not in rules:
                one, (option, *_) = target.parameters[name], there[name]
                other = golden.parameters[option.golden]
                pairs[name] = (
                    _laid_out(one, other, parse(rule.transform))
                    if rule.transform
                    else ParameterPair(one, other, option.of_target, option.of_golden)
                )
    return pairs


def _laid_out(one: Parameter, other: Parameter, transform: Transform) -> ParameterPair:
    """Return the pair with the transform of the target, or of the golden if only that makes the shapes equal (a part of
    a fused weight)."""
    if transform and _shape(transform, one) != other.shape and _shape(transform, other) == one.shape:
        return ParameterPair(one, other, of_golden=transform)
    return ParameterPair(one, other, of_target=transform)


def _native(target: Checkpoint, golden: Checkpoint) -> str:
    """Return which side alone is MindSpore's, `target` or `golden`; empty if both are of one framework."""
    if target.framework and target.framework == golden.framework:
        return ""
    for side, checkpoint, other in (("target", target, golden), ("golden", golden, target)):
        if checkpoint.framework == "mindspore" or (not checkpoint.framework and other.framework == "pytorch"):
            return side
    values = [
        side
        for side, checkpoint in (("target", target), ("golden", golden))
        if any(_OF_MINDSPORE.fullmatch(name) for name in checkpoint.parameters)
    ]
    return values[0] if len(values) == 1 else ""


def _options(
    target: Mapping[str, Parameter], golden: Mapping[str, Parameter], native: str
) -> dict[str, tuple[_Option, ...]]:
    """Return the goldens that each target may be paired with, best first, with the removal of prefixes that gives most
    pairs."""
    best: dict[str, tuple[_Option, ...]] = {}
    for cuts in product(_prefixes(target), _prefixes(golden)):
        made = _options_below(target, golden, cuts, native)
        if len(made) > len(best):
            best = made
    return best


def _options_below(
    target: Mapping[str, Parameter], golden: Mapping[str, Parameter], cuts: tuple[str, str], native: str
) -> dict[str, tuple[_Option, ...]]:
    """Return the goldens that each target may be paired with, without these prefixes."""
    whole = {name.removeprefix(cuts[1]): name for name in golden}
    reverse: dict[str, list[_Option]] = {}  # PyTorch's names of the golden's parameters
    for bare, name in whole.items() if native == "golden" else ():
        for pt, how in parameter_candidates(bare, golden[name].shape):
            reverse.setdefault(pt, []).append(_Option(name, of_golden=parse(how)))
    found: dict[str, tuple[_Option, ...]] = {}
    for name, one in target.items():
        bare = name.removeprefix(cuts[0])
        known = parameter_candidates(bare, one.shape) if native == "target" else ()
        options = [_Option(whole[pt], parse(how)) for pt, how in ((bare, ""), *known) if pt in whole]
        if options := [*options, *reverse.get(bare, ())]:
            found[name] = tuple(dict.fromkeys(options))
    return found


def _prefixes(names: Iterable[str]) -> list[str]:
    """Return the prefixes that may be removed from names: none, and the parts with which all of them begin."""
    layers = [
        name.split(".")[:-1] for name in names if not _OPTIMIZER.fullmatch(name) and not _TRAINING.fullmatch(name)
    ]
    common = [same[0] for same in takewhile(lambda same: len(set(same)) == 1, zip(*layers, strict=False))]
    return ["", *(".".join(common[:count]) + "." for count in range(1, len(common) + 1))]


def _shape(transform: Transform, one: Parameter) -> tuple[int, ...] | None:
    """Return the shape in the other layout; None if the parameter does not have the axes for that."""
    try:
        return transform.shape(one.shape) if transform else one.shape
    except MappingError:
        return None


def _places(parameters: Mapping[str, Parameter], is_mindspore: bool) -> dict[str, tuple[Place, ...]]:
    """Return the possible places of each parameter in PyTorch's terms, best first."""
    found = {}
    for name, one in parameters.items():
        known = parameter_candidates(name, one.shape) if is_mindspore else ()
        found[name] = tuple(dict.fromkeys((*(Place(pt, parse(how)) for pt, how in known), Place(name))))
    return found


def _of_one_framework(own: Checkpoint, native: str, side: str) -> set[str]:
    """Return the names of a side that the other side's framework does not store among its parameters."""
    if not native:
        return set()
    if native != side:
        return {name for name in own.parameters if name.rpartition(".")[2] == _COUNTER}
    states = {name: _OPTIMIZER.fullmatch(name) for name in own.parameters}
    return {
        name for name, state in states.items() if _TRAINING.fullmatch(name) or (state and state["of"] in own.parameters)
    }
