"""Where non-finite values begin on one rank: one walk along its calls in the order of the dump.

A call whose inputs are finite and one of whose outputs is not begins something by itself. One whose inputs are not
finite passes on what came in, with these exceptions:

| the input is not finite, and | then |
|---|---|
| nothing before it on this rank was non-finite | it begins here: a parameter, the batch, code that was not recorded |
| it has -inf only, from a mask, and an output has NaN or inf | it begins here: a softmax over a row of -inf |
| it is a buffer that is about to be overwritten | it says nothing |

An infinity that is written on purpose (`masked_fill(x, mask, -inf)`) begins something only if more comes of it than
finite values.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from msprobe.base import names
from msprobe.base.errors import DumpError
from msprobe.base.verdicts import Gap, Verdicts
from msprobe.compare.core.exchanges import word_of
from msprobe.compare.core.tensor import Source
from msprobe.compare.dataflow.graph import Graph
from msprobe.compare.judge.pairs import UNINITIALISED, says_nothing, unwritten_inputs
from msprobe.compare.ranks.collectives import Exchange, exchanges_of, fills
from msprobe.findings.catalogue import nonfinite as kinds
from msprobe.findings.kind import Kind
from msprobe.store.reader import json_object_or_empty, read
from msprobe.store.record import INPUT, OUTPUT, PARAMETERS, PARAMETERS_GRAD, TENSOR, Dump
from msprobe.store.stacks_and_construct import user_line
from msprobe.store.watching.content import Content, judged
from msprobe.store.watching.findings import NAME as FINDINGS
from msprobe.store.watching.findings import read_findings

from .absorbed import Absorption
from .finding import Origin, RankWalk
from .node import node_of
from .values import FINITE, Amount, amount, evidence, nonfinite_rows, together

_OF_ROWS = ("softmax", "logsumexp", "attention", "cross_entropy")
"""In the names of operations that a mask of -inf is made for, in lower case."""

_LISTED = 200
"""Origins of one rank that are kept, with their values."""


@dataclass(frozen=True, slots=True)
class RankTask:
    """A dump to walk along; `rank` is the number by which its folder is known."""

    rank: int
    path: str
    reads_tensors: bool = False
    gap: Gap = Gap.UNREADABLE_DUMP
    """What it is where it cannot be read."""


def walk_file(task: RankTask) -> RankWalk:
    """The walk along a dump on disk."""
    try:
        return walk(read(task.path), task.rank, reads_tensors=task.reads_tensors)
    except DumpError as err:
        return RankWalk(task.rank, unjudged=str(err), verdicts=Verdicts(gaps={task.gap: 1}))


def walk(dump: Dump, rank: int, *, reads_tensors: bool = False) -> RankWalk:
    """Find the exchanges and the origins of one rank."""
    # What a dump of task overflow_check does not hold was finite.
    found = FINITE if dump.task == "overflow_check" else evidence(dump, reads_all=reads_tensors)
    if not found.judged:
        gaps = found.gaps or Counter([Gap.NO_RECORDS])
        return RankWalk(rank, _exchanges(dump), unjudged=_without_values(gaps), verdicts=Verdicts(gaps=gaps))
    # The walk takes what the tensors hold as if the dump said it.
    dump.columns.non_finite.update(found.non_finite)
    gaps = found.gaps + Counter({Gap.NOT_COLLECTED: len(dump.missing)})
    return replace(_Walk(dump, rank).walked(), verdicts=Verdicts(found.judged, gaps=gaps))


def _without_values(gaps: Counter[Gap]) -> str:
    """Why nothing can be said of a dump."""
    if set(gaps) == {Gap.NO_RECORDS}:
        return "its dump has no tensors"
    if Gap.DIGESTS_ONLY in gaps and set(gaps) <= {Gap.DIGESTS_ONLY, Gap.NO_STATISTICS}:
        return 'its records have digests and no statistics: collect with "summary_mode": "statistics"'
    return ", ".join(f"{gap.value} ({number})" for gap, number in gaps.items())


def _exchanges(dump: Dump) -> tuple[Exchange, ...]:
    communicating = ((at, word) for at, name in enumerate(dump.columns.names) if (word := word_of(name)))
    return tuple(exchange for at, word in communicating for exchange in exchanges_of(dump.calls[at], word))


@dataclass(slots=True)
class _Seen:
    """The non-finite records of one call, by their rows."""

    inputs: list[int]
    outputs: list[int]


class _Walk:
    def __init__(self, dump: Dump, rank: int) -> None:
        self._dump, self._rank, self._columns = dump, rank, dump.columns
        self._graph = Graph(dump)
        self._exchanges: list[Exchange] = []
        self._origins: list[tuple[int, Origin]] = []  # with the place of the call
        self._received: dict[int, Origin] = {}
        self._unrecorded: set[int] = set()
        self._known = Content.NOTHING  # what is not finite since an earlier call, and so may be in any input
        self._is_tainted = False
        self._uninitialised: set[int] = set()
        self._last_unrecorded = ""
        self._has_inputs = INPUT in self._columns.part
        self._bad: dict[int, _Seen] = {}

    def walked(self) -> RankWalk:
        bad = self._bad = self._by_call(nonfinite_rows(self._columns))
        words = {at: word for at, name in enumerate(self._columns.names) if (word := word_of(name))}
        for at in sorted({*bad, *words}):
            seen = bad.get(at, _Seen([], []))
            if at in words:
                self._exchange(at, words[at], seen)
            else:
                self._call(at, seen)
        kept, masks = self._without_absorbed()
        return RankWalk(
            self._rank, tuple(self._exchanges), kept, self._received, frozenset(self._unrecorded), masks=masks,
            has_ended=read_findings(json_object_or_empty(Path(self._dump.folder) / FINDINGS)).is_over,
        )  # fmt: skip

    def _by_call(self, rows: Sequence[int]) -> dict[int, _Seen]:
        columns, found = self._columns, dict[int, _Seen]()
        for row in rows:
            at, part = columns.call_of(row), columns.part[row]
            if says_nothing(columns, at, row):
                if part == OUTPUT and self._last_word(at) in UNINITIALISED:
                    self._uninitialised.add(row)
                continue
            seen = found.setdefault(at, _Seen([], []))
            (seen.inputs if part in (INPUT, PARAMETERS) else seen.outputs).append(row)
        return found

    def _last_word(self, at: int) -> str:
        return self._dump.names[at].stem.rsplit(".", 1)[-1]

    # One call.

    def _call(self, at: int, seen: _Seen) -> None:
        if not seen.outputs and not self._is_backward_without_results(at):
            return
        inputs = seen.inputs
        if seen.outputs and self._columns.part[seen.outputs[0]] == PARAMETERS_GRAD:
            inputs = self._incoming(at)
        before, after = (self._amounts(rows) for rows in (inputs, seen.outputs))
        given = together(before)
        if not given and (blank := next(unwritten_inputs(self._columns, at), None)) is not None:
            self._add(at, kinds.UNINITIALISED, before, after, self._giver(blank))
            return
        tensors = together(self._amounts([row for row in inputs if self._columns.kind[row] == TENSOR]))
        kind = judged(tensors, given, together(after), self._known, self._is_tainted, with_masks=True)
        if kind is kinds.RECEIVED:
            self._add_input(at, inputs, before, after)
        elif kind is not None:
            kind = kinds.INPUTS_UNKNOWN if kind is kinds.MADE and not self._has_inputs else kind
            self._add(at, kind, before, after)

    def _is_backward_without_results(self, at: int) -> bool:
        """Whether a call takes gradients and returns none, for its input needs none."""
        results = (OUTPUT, PARAMETERS_GRAD)
        is_without = not any(self._columns.part[row] in results for row in self._columns.rows(at))
        return self._dump.names[at].direction == "backward" and is_without

    def _giver(self, row: int) -> str:
        """The last call before an input that gave unwritten memory of its type, dtype and shape; empty for none."""
        columns = self._columns
        for made in range(row - 1, -1, -1):
            at = columns.call_of(made)
            is_given = columns.part[made] == OUTPUT and self._last_word(at) in UNINITIALISED
            if is_given and columns.values.get(made) == columns.values.get(row):
                return columns.names[at]
        return ""

    def _add_input(self, at: int, inputs: Sequence[int], before: tuple[Amount, ...], after: tuple[Amount, ...]) -> None:
        """What comes in is not finite, and nothing before was."""
        row = next(row for row in inputs if amount(self._columns, row).content & ~self._known)
        source = self._graph.source(row)
        if self._columns.part[row] == PARAMETERS or source.origin == "parameter":
            name = source.text or self._dump.parameter_name(row)
            self._add(at, kinds.PARAMETER, before, after, name)
        elif memory := self._memory(row, source):
            self._add(at, kinds.UNINITIALISED, before, after, memory)
        elif source.origin == "leaf":
            self._add(at, kinds.LEAF, before, after)
        elif not self._is_made_around(at):
            self._add(at, kinds.UNRECORDED, before, after, self._last_unrecorded)

    def _is_made_around(self, at: int) -> bool:
        """Whether a cell received what the cell around it made of finite inputs: at level L0, where nothing between
        cells is recorded. Then the cell around is named."""
        around = self._bad.get(self._dump.parents[at]) if self._dump.level == "L0" else None
        return around is not None and not around.inputs and bool(around.outputs)

    def _memory(self, row: int, source: Source) -> str:
        """The call that gave the uninitialised memory that an input is; where nothing tells what an input is, one of
        its shape and dtype before it. Empty for none."""
        if source.origin == "call":
            made = self._graph.row_of(source.call, source.part, source.path)
            return source.call if made in self._uninitialised else ""
        if source.origin != "unknown":
            return ""
        look = self._columns.look
        alike = [made for made in sorted(self._uninitialised) if made < row and look[made] == look[row]]
        return self._columns.names[self._columns.call_of(alike[-1])] if alike else ""

    def _incoming(self, at: int) -> list[int]:
        """The incoming gradients that are not finite of the backward calls that gradients of parameters come from."""
        rows = (row for call in self._backward.get(self._dump.names[at].stem, ()) for row in self._graph.inputs(call))
        return [row for row in rows if amount(self._columns, row).content]

    @cached_property
    def _backward(self) -> dict[str, list[int]]:
        """By stem of a cell: its backward calls."""
        found: dict[str, list[int]] = {}
        for at, name in enumerate(self._dump.names):
            if name.kind == "cell" and name.direction == "backward":
                found.setdefault(name.stem, []).append(at)
        return found

    # Calls that communicate.

    def _exchange(self, at: int, word: str, seen: _Seen) -> None:
        call = self._dump.calls[at]
        inputs = [row for row in seen.inputs if not fills(word, self._columns.path_of(row), call.records)]
        before, after = self._amounts(inputs), self._amounts(seen.outputs)
        is_recorded = any(record.part == "output" and record.kind == "tensor" for record in call.records)
        for exchange in exchanges_of(call, word):
            place = len(self._exchanges)
            gives, takes = (before if exchange.gives(self._rank) else ()), exchange.takes(self._rank)
            if gives and not self._is_tainted and together(gives) & ~self._known:
                self._add_input(at, inputs, before, after)
            self._exchanges.append(replace(exchange, input_differs=bool(gives), result_differs=bool(after) and takes))
            if takes and after:
                self._received[place] = self._origin(at, kinds.EXCHANGE, (), after)
                self._is_tainted = True
                self._known |= together(after)
            if takes and not is_recorded:
                self._unrecorded.add(place)
                self._last_unrecorded = call.name

    # Origins.

    def _amounts(self, rows: Sequence[int]) -> tuple[Amount, ...]:
        return tuple(amount(self._columns, row) for row in rows)

    def _add(
        self, at: int, kind: Kind, before: tuple[Amount, ...], after: tuple[Amount, ...], source: str = ""
    ) -> None:
        content = together((*before, *after)) if kind is not kinds.OF_INFINITIES else together(after)
        self._known |= content
        if not self._is_mask(kind, before, after):
            self._is_tainted = True
        if len(self._origins) < _LISTED:
            self._origins.append((at, self._origin(at, kind, before, after, source)))

    @staticmethod
    def _is_mask(kind: Kind, before: tuple[Amount, ...], after: tuple[Amount, ...]) -> bool:
        """Whether infinities are there on purpose: what comes out is what was written, or -inf of a buffer."""
        if kind is kinds.ARGUMENT:
            return not together(after) & ~together(before)
        return kind in (kinds.LEAF, kinds.PARAMETER) and together((*before, *after)) == Content.MINUS

    def _origin(
        self, at: int, kind: Kind, before: tuple[Amount, ...], after: tuple[Amount, ...], source: str = ""
    ) -> Origin:
        name = self._columns.names[at]
        parent = self._dump.parent(at)
        cell = (names.parse(parent).path or parent) if parent else "the root"
        stack = self._dump.calls.stack(at) or self._dump.calls.stack(self._dump.forward(at))
        if not stack:
            stack = self._dump.calls.stack_of(names.counterpart(name, "forward"))
        if not stack and at in self._owners:
            stack = self._dump.calls.stack(self._owners[at])
        if not stack:
            stack = self._dump.calls.stack_of(f"{self._dump.names[at].stem}.forward.0")
        file, line = user_line(stack) or ("", None)
        return Origin(
            self._rank, name, cell, kind, before, after, source, file=file, line=line, exchanges=len(self._exchanges),
            node=node_of(self._dump, at, stack),
        )  # fmt: skip

    @cached_property
    def _owners(self) -> dict[int, int]:
        """The forward call of the cell that gradients of parameters belong to."""
        found = {}
        for at, name in enumerate(self._dump.names):
            if name.kind == "parameters_grad":
                back = self._backward.get(name.stem, [])
                found[at] = self._dump.forward(back[0]) if back else self._dump.place.get(f"{name.stem}.forward.0", at)
        return found

    def _without_absorbed(self) -> tuple[tuple[Origin, ...], int]:
        """The origins, marked where nothing but finite values comes of them; masks are left out then, and counted."""
        if not self._origins:
            return (), 0
        absorption = Absorption(self._graph, self._is_of_rows)
        kept: list[Origin] = []
        for at, origin in self._origins:
            is_absorbed, is_unknown = absorption.of(at)
            is_mask = self._is_mask(origin.kind, origin.inputs, origin.outputs)
            is_low = together(origin.outputs) == Content.MINUS
            if not ((is_absorbed and (is_mask or is_low)) or (is_mask and is_unknown and self._has_masks_only)):
                kept.append(replace(origin, is_absorbed=is_absorbed))
        return tuple(kept), len(self._origins) - len(kept)

    @cached_property
    def _has_masks_only(self) -> bool:
        """Whether nothing on this rank is NaN or above all numbers."""
        return together(self._amounts(nonfinite_rows(self._columns))) == Content.MINUS

    def _is_of_rows(self, at: int) -> bool:
        """Whether a call turns a row of -inf into NaN by its definition; it is then named itself.

        One that gets NaN or inf, as the loss does at the end of a network, passes on what came in.
        """
        word = self._dump.names[at].stem.lower()
        rows = [row for row in self._columns.rows(at) if self._columns.part[row] == INPUT]
        given = together(self._amounts([row for row in rows if self._columns.kind[row] == TENSOR]))
        return any(part in word for part in _OF_ROWS) and not given & ~Content.MINUS
