"""Find the origin of the first difference of two flows, and what to collect next, as data; `wording` has the
sentences."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Literal

from msprobe.compare.locate.finding import Divergence
from msprobe.findings.catalogue import comparison as kinds
from msprobe.store.rl_roots import STAGES, FlowRoot

from .order import FLOW, TOKEN_STAGE, UNKNOWN, Item, Part, part_of_stage
from .stages import Stage
from .walk import UPDATES, Seen, call_of, first_of, is_origin

if TYPE_CHECKING:
    from msprobe.compare.advice.known_causes import Hint

Value = bool | int | str | list[int]

Runs = Literal["both", "the target", "the golden"]


@dataclass(frozen=True)
class CollectionStyle:
    """How the two runs collect layers, by their roots: by switches of `MsProbe`, by `debugger.stage`, or either.

    `names` are the names of the existing stages, by the part of the flow.
    """

    by_switches: bool
    by_stages: bool
    names: Mapping[int, str]

    def name_of(self, part: Part) -> str:
        """Return the name of the stage of a part in these runs."""
        return self.names.get(FLOW.index(part), part.stage)


@dataclass(frozen=True)
class Collect:
    """What to collect in one step: the stage of a part, for generation only one token; without a part all stages.

    `runs` are those that lack it.
    """

    style: CollectionStyle
    step: int
    part: Part | None = None
    token: int | None = None
    runs: Runs = "both"

    @property
    def tokens(self) -> list[int]:
        """Return the range of tokens; empty for all."""
        is_one = self.part is not None and self.part.stage == TOKEN_STAGE and self.token is not None
        return [self.token, self.token] if is_one and self.token is not None else []

    @property
    def switches(self) -> dict[str, Value]:
        """Return the fields of `msprobe_config`; empty if the runs have no switches."""
        if not self.style.by_switches:
            return {}
        found: dict[str, Value] = {} if self.part is None else {self.part.switch: True}
        found |= dict(zip(("token_range_start", "token_range_end"), self.tokens, strict=False))
        return found | {"step_start": self.step, "step_end": self.step}

    @property
    def fields(self) -> dict[str, Value]:
        """Return the switches, and the fields of `debugger.stage`."""
        found = self.switches
        if self.style.by_stages:
            found |= {} if self.part is None else {"stage": self.style.name_of(self.part)}
            found |= {"step": [self.step], **({"token_range": list(self.tokens)} if self.tokens else {})}
        return found


def collection_style(*roots: FlowRoot) -> CollectionStyle:
    """Return how runs collect, by the names of their files.

    `MsProbe` has six stages and numbers the folders of ranks; a debugger without communication names them `rank`.
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


class Origin(Enum):
    """Origin of a difference; `First.names` are the stages that show it."""

    # For a stage: in its input, in its weights, or in the stage itself.
    HOST_CODE_BEFORE = auto()
    HOST_CODE_BETWEEN = auto()
    INPUT_OF_SEVERAL = auto()
    INPUT_OF_UNORDERED = auto()
    INPUT = auto()
    LOADED = auto()
    LOADED_OR_THIS_STEP = auto()
    LOADED_OR_UPDATE = auto()
    UPDATE = auto()
    STAGES_AGREE = auto()
    UPDATE_AGREES = auto()
    NOT_HANDED_OVER = auto()
    STEP_AGREES = auto()  # names: the number of that step, which has a separate root
    UNKNOWN = auto()
    HERE = auto()
    OUTSIDE = auto()
    BETWEEN_CALLS = auto()
    HERE_BY_DUMP = auto()
    # For a key: in its stage, in host code, or in something unknown.
    UNKNOWN_KEY = auto()
    NO_STAGE = auto()
    HOST_CODE_AFTER = auto()
    STAGE_UNSEEN = auto()


@dataclass(frozen=True)
class First:
    """The first difference, and its origin.

    `stage` is its stage, empty if no stage computes it; `keys` show it; `collect` is what is missing.

    For a stage: `is_hidden` if keys were compared and none of its keys shows it; `also` are other stages with the same
    first wrong call; `is_update_left_out` if `--steps` excludes the dumps of the update before.

    For a key: `made_by` is the stage that computes it, `dump` the result of its dump of this step, `earlier` that of
    another step; `elsewhere` is a stage of an unknown name in which a difference also begins; `neighbors` are the
    known keys that were saved before and after an unknown one; `may_be_weights` if an earlier update may be the cause.
    """

    seen: Seen
    origin: Origin
    style: CollectionStyle
    stage: str = ""
    keys: tuple[Item, ...] = ()
    collect: Collect | None = None
    names: tuple[str, ...] = ()
    is_hidden: bool = False
    also: tuple[str, ...] = ()
    is_update_left_out: bool = False
    made_by: Stage | None = None
    dump: Item | None = None
    earlier: Item | None = None
    elsewhere: Item | None = None
    neighbors: tuple[Item | None, Item | None] = (None, None)
    may_be_weights: bool = False

    @property
    def item(self) -> Item:
        """Return the key or stage."""
        return self.seen.item

    @property
    def finding(self) -> Divergence | None:
        """Return the first wrong call, if there is one."""
        return self.item.finding

    @property
    def hint(self) -> "Hint | None":
        """Return the known cause that the first wrong call fits; None if other stages show a cause outside it."""
        return None if self.origin in _BEFORE_THE_STAGE else self.item.hint


_BEFORE_THE_STAGE = {
    Origin.HOST_CODE_BEFORE,
    Origin.HOST_CODE_BETWEEN,
    Origin.UPDATE,
    Origin.STAGES_AGREE,
    Origin.UPDATE_AGREES,
    Origin.NOT_HANDED_OVER,
    Origin.STEP_AGREES,
}
"""Origins that are neither in the stage nor in the inputs of the run."""


def first_difference(walked: Sequence[Seen], stages: Iterable[Stage], style: CollectionStyle) -> First | None:
    """Return the first difference and its origin; None if nothing differs."""
    seen = first_of(walked)
    if seen is None:
        return None
    search = _Search(seen, walked, tuple(stages), style)
    return search.of_stage() if seen.item.kind == "stage" else search.of_key()


class _Search:
    """The search for the origin of a first difference."""

    def __init__(self, seen: Seen, walked: Sequence[Seen], stages: Sequence[Stage], style: CollectionStyle) -> None:
        self._seen, self._item, self._walked, self._stages, self._style = seen, seen.item, walked, stages, style
        self._here = [s for s in walked if s.item.place == seen.item.place]
        self._stages_here = [s for s in self._here if s.item.kind == "stage"]

    def of_stage(self) -> First:
        """Return whether a difference begins in a stage, by its first wrong call and the keys that it reads."""
        item = self._item
        origin, names = self._origin()
        keys = tuple(
            s.item
            for s in self._here
            if s.item.part == item.part != UNKNOWN and s.item.kind == "key" and s.role not in ("agrees", "unjudged")
        )
        also: list[str] = []
        if is_origin(item.finding):  # as where one model runs in several stages
            others = [s.item for s in self._stages_here if s.item.name != item.name]
            also = [other.name for other in others if call_of(other) == call_of(item)]
        collect, is_left_out = None, False
        if origin in (Origin.LOADED_OR_UPDATE, Origin.UPDATE):
            collect, is_left_out = self._update_before()
        return First(
            self._seen,
            origin,
            self._style,
            item.name,
            keys,
            collect,
            tuple(names),
            is_hidden=item.part != UNKNOWN and not keys and any(s.item.kind == "key" for s in self._walked),
            also=tuple(also),
            is_update_left_out=is_left_out,
        )

    def _origin(self) -> tuple[Origin, Sequence[str]]:
        finding = self._item.finding
        kind = finding.kind if finding else None
        if kind is kinds.RUN_INPUTS:
            return self._of_input()
        if kind is kinds.PARAMETERS:
            return self._of_weights()
        if kind is kinds.UNKNOWN:
            return Origin.UNKNOWN, ()
        if self._seen.agreeing:
            return Origin.HERE, ()
        if finding is not None and finding.is_from_outside:
            return Origin.OUTSIDE, ()
        if finding is not None and not is_origin(finding):
            return Origin.BETWEEN_CALLS, ()
        return Origin.HERE_BY_DUMP, ()

    def _of_input(self) -> tuple[Origin, Sequence[str]]:
        """Return the origin of the input of a stage, if the earlier results agree."""
        here = self._stages_here
        if self._seen.agreeing:
            return Origin.HOST_CODE_BEFORE, ()
        if len(here) > 1 and not all(s.item.is_placed for s in here):
            others = [s.item for s in here if s is not self._seen]
            also = [o.name for o in others if o.finding and o.finding.kind is kinds.RUN_INPUTS]
            return (Origin.INPUT_OF_SEVERAL, [self._item.name, *also]) if also else (Origin.INPUT_OF_UNORDERED, ())
        before = [s.item.name for s in here[: here.index(self._seen)] if s.role == "agrees"]
        return (Origin.HOST_CODE_BETWEEN, before) if before else (Origin.INPUT, ())

    def _of_weights(self) -> tuple[Origin, Sequence[str]]:
        """Return since when weights differ, by the previous updates and by the model's other stages in the step."""
        item, here = self._item, self._stages_here
        if item.model == "reference" or not item.step:
            before = here[: [s.item for s in here].index(item)]
            is_behind = item.part == UNKNOWN and item.is_placed and any(s.role == "agrees" for s in before)
            return Origin.LOADED_OR_THIS_STEP if is_behind else Origin.LOADED, ()
        if item.step == min(other.item.step for other in self._walked):
            return Origin.LOADED_OR_UPDATE, ()
        earlier = [s for s in self._walked if s.item.kind == "stage" and s.item.place == (item.step - 1, item.rank)]
        if item.part == UNKNOWN:
            all_agree = earlier and all(s.role == "agrees" for s in earlier)
            return Origin.STAGES_AGREE if all_agree else Origin.UPDATE, ()
        of_model = [s.item for s in here if s.item.part != UNKNOWN and s.item.model == item.model]
        if equal := [other.name for other in of_model if not other.weights_differ and other.grade != "unjudged"]:
            return Origin.NOT_HANDED_OVER, equal
        updates = [s for s in earlier if s.item.part != UNKNOWN and FLOW[s.item.part].updates == item.model]
        if any(s.role == "agrees" for s in updates):
            return Origin.UPDATE_AGREES, [updates[0].item.name]
        return Origin.UPDATE, ()

    def _update_before(self) -> tuple[Collect | None, bool]:
        """Return what collects the update before a stage, if no dump of it was judged; and whether two dumps of it were
        excluded."""
        step, update = self._item.step - 1, UPDATES.get(self._item.model)
        before = [s.item for s in self._walked if (s.item.kind, s.item.step) == ("stage", step)]
        if any(update in (None, other.part) for other in before):
            return None, False
        if any(update in (None, stage.part) and all(stage.has(step)) for stage in self._stages):
            return None, True
        return Collect(self._style, step, None if update is None else FLOW[update]), False

    def of_key(self) -> First:
        """Return where a key that differs was computed, and the result of its stage's dump."""
        item, seen, style, stages = self._item, self._seen, self._style, self._stages
        if item.part == UNKNOWN:
            has_dump = any(s.item.kind == "stage" and s.item.step == item.step for s in self._walked)
            lacks = bool(stages) and not has_dump
            return First(
                seen,
                Origin.UNKNOWN_KEY,
                style,
                keys=(item,),
                collect=Collect(style, item.step) if lacks else None,
                elsewhere=None if lacks else self._elsewhere(),
                neighbors=self._neighbors(),
            )
        part = FLOW[item.part]
        if not part.stage:
            return First(seen, Origin.NO_STAGE, style, keys=(item,))
        stage = next((each for each in stages if each.part == item.part), None)
        dumped = next((s for s in self._stages_here if s.item.part == item.part), None)
        if dumped is not None and dumped.role == "agrees":
            return First(seen, Origin.HOST_CODE_AFTER, style, dumped.item.name, (item,), dump=dumped.item)
        runs: Runs = "both"
        if stage is not None and any(has := stage.has(item.step)) and not all(has):
            runs = "the golden" if has[0] else "the target"
        earlier = next((s.item for s in self._walked if s.item.part == item.part and s.item.finding), None)
        is_of_model = bool(part.model) and part.model != "reference"
        return First(
            seen,
            Origin.STAGE_UNSEEN,
            style,
            stage.name if stage is not None else part.stage,
            (item,),
            Collect(style, item.step, part, item.token, runs),
            made_by=stage,
            dump=dumped.item if dumped is not None else None,
            earlier=earlier,
            elsewhere=self._elsewhere(),
            may_be_weights=earlier is None and is_of_model and item.step > min(s.item.step for s in self._walked),
        )

    def _elsewhere(self) -> Item | None:
        """Return a stage with a user-defined name that may compute the key and whose dump is wrong by itself."""
        of_user = (s.item for s in self._stages_here if s.item.part == UNKNOWN)
        return next((item for item in of_user if is_origin(item.finding)), None)

    def _neighbors(self) -> tuple[Item | None, Item | None]:
        """Return the known keys between which an unknown one was saved."""
        at = self._item.saved
        known = [s.item for s in self._here if s.item.saved >= 0 and s.item.part != UNKNOWN] if at >= 0 else []
        return (
            max((other for other in known if other.saved < at), key=lambda o: o.saved, default=None),
            min((other for other in known if other.saved > at), key=lambda o: o.saved, default=None),
        )
