"""Merge the ranks of both sides: a dump of the whole model for each copy of it, which is read like any other dump.

```
{root}/[{target or golden}/][{tree}/][step{N}/]rank{copy}/dump.json  stack.json  construct.json  merge.json
```

The name of the side is part of the path if there are two. A side whose ranks have the whole model each is not copied.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from msprobe.base import names
from msprobe.base.errors import UsageError
from msprobe.base.files import make_folder, replace_atomically
from msprobe.base.phrase import phrase
from msprobe.compare.core.layouts import Layout, Layouts
from msprobe.findings.catalogue import parallel as kinds
from msprobe.findings.finding import Finding, Place
from msprobe.findings.kind import Kind
from msprobe.findings.kinds import kinds_in
from msprobe.store import layout as files
from msprobe.store.stacks_and_construct import without_secrets

from .cuts import class_of
from .dumps import RankDump, Step, read_rank, steps_of
from .exchanges import Exchanges, exchanges_of
from .records import EntryMerger, MergeNote, Tally
from .shards import any_shard
from .stages import Chain, Key, Layers, Placed, Segment, chain_of
from .tensors import Tensors

MERGE = "merge.json"


@dataclass(frozen=True)
class Merged:
    """The paths of both sides after merging, and the findings; `golden` is None if there is only one side.

    findings : one of each kind, side and copy of the model, with its first place.
    suspects : shards that differ from the golden, by rank; they matter if the whole tensors differ.
    """

    target: Path
    golden: Path | None
    findings: tuple[Finding, ...] = ()
    suspects: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class _Model:
    """The dumps of the ranks of one copy of a model, by tensor parallel rank and stage, and the order of its calls."""

    ranks: Sequence[Sequence[RankDump]]
    exchanges: Exchanges
    chain: Chain

    @property
    def has_shards(self) -> bool:
        """Return whether records describe shards of distributed tensors."""
        return bool(self.exchanges.internal) or any(
            any_shard(entry) for stage in self.ranks[0] for entry in stage.entries.values()
        )

    @property
    def lacks_stacks(self) -> bool:
        """Return whether the calls by which PyTorch distributes the model cannot be recognized: by their stacks."""
        return self.has_shards and not any(stage.stacks for stage in self.ranks[0])

    def is_of_layout(self, call: Placed) -> bool:
        """Return whether a call has no counterpart because of the layout: a function that a parallel layer calls, or
        that is called at an exchange of data."""
        around = names.parse(self.chain.parents.get(call.name) or "")
        is_api = names.parse(call.name).kind == "api"
        return is_api and (around.stem in self.chain.exchanging or bool(class_of(around.text)))

    def entries(self, call: Placed) -> list[Any]:
        """Return the entries of a call on all tensor parallel ranks, None for a rank without one."""
        return [_joined([stages[part.stage].entries.get(part.name) for part in call.parts]) for stages in self.ranks]

    def by_key(self) -> dict[Key, list[Any]]:
        return {call.key: entries for call in self.chain.calls if None not in (entries := self.entries(call))}


def _joined(entries: Sequence[Any]) -> Any:
    """Return one entry from those of the stages: it starts with the first, and its results are those of the last."""
    first, last = entries[0], entries[-1]
    if len(entries) == 1 or not (isinstance(first, dict) and isinstance(last, dict)):
        return first if len(entries) == 1 else None
    return {key: last.get(key) if key == "output" else value for key, value in first.items()}


def merge_sides(target: Path, golden: Path | None, layouts: Layouts, root: Path) -> Merged:
    """Merge the sides whose ranks share a model, into folders below `root`.

    Raise a UsageError if the paths do not have these layouts, a DumpError if a dump cannot be read or merged.
    """
    sides = [_Side("target", target, layouts.target)]
    if golden is not None and layouts.golden is not None:
        sides.append(_Side("golden", golden, layouts.golden))
    steps = [step for step in sides[0].steps if all(step in each.steps for each in sides)]
    if not steps and len(sides) == 2 and all(len(each.steps) == 1 for each in sides):
        return _merge_steps(sides, [[next(iter(each.steps)) for each in sides]], root)
    if not steps:
        raise UsageError(f"{target} and {golden} have no common step; give two folders of the same run steps")
    return _merge_steps(sides, [[step for _ in sides] for step in steps], root)


class _Side:
    """One side to merge."""

    def __init__(self, which: str, path: Path, layout: Layout) -> None:
        self.which, self.path, self.layout = which, path, layout
        self.steps = steps_of(path, layout, which)

    def stages(self, step: Step, copy: int) -> "_Stages":
        paths, layout = self.steps[step], self.layout
        ranks = [[read_rank(paths[layout.rank(tp, pp, copy)]) for pp in range(layout.pp)] for tp in range(layout.tp)]
        of_stages = [
            exchanges_of(
                [stages[pp] for stages in ranks],
                layout.model(copy),
                has_stages=layout.pp > 1,
                is_alone=layout.dp == 1,
            )
            if layout.tp * layout.pp > 1
            else Exchanges(frozenset())
            for pp in range(layout.pp)
        ]
        return _Stages(ranks, of_stages, Layers(ranks[0], layout))


class _Stages(NamedTuple):
    """The data of one copy of a model before its calls are named."""

    ranks: Sequence[Sequence[RankDump]]
    exchanges: Sequence[Exchanges]
    numbering: Layers

    def model(self) -> _Model:
        sums = {what: made for each in self.exchanges for what, made in each.sums.items()}
        dropped, internal = ([getattr(each, word) for each in self.exchanges] for word in ("calls", "internal"))
        chain = chain_of(self.ranks[0], self.numbering, dropped, internal)
        own = frozenset(name for names in internal for name in names)
        return _Model(self.ranks, Exchanges(frozenset(), sums, own), chain)


def _models(sides: Sequence[_Side], steps: Sequence[Step], copy: int) -> list[_Model]:
    """Return one copy of the model on each side, both with the golden's names of chunks."""
    read = [each.stages(step, copy) for each, step in zip(sides, steps, strict=True)]
    for each in read:
        each.numbering.write_like(read[-1].numbering)
    return [each.model() for each in read]


def _merge_steps(sides: Sequence[_Side], steps: Iterable[Sequence[Step]], root: Path) -> Merged:
    """Merge each copy of the model in each step; `steps` have the step of each side."""
    findings: list[Finding] = []
    suspects: list[Finding] = []
    for of_sides in steps:
        for copy in range(sides[0].layout.dp):
            models = _models(sides, of_sides, copy)
            keys = [model.by_key() for model in models]
            golden: Mapping[str, Any] | None = None  # entries by the names of calls
            trusted: Path | None = None  # the folder of their dump
            has_tensors = all(model.ranks[0][0].head.get("task") == "tensor" for model in models)
            for at in reversed(range(len(sides))):  # the trusted side first, so that the target can be compared with it
                each, model, others = sides[at], models[at], keys[1 - at] if len(keys) > 1 else None
                if each.layout.is_whole:
                    golden = {call.name: model.entries(call)[0] for call in model.chain.calls}
                    trusted = model.ranks[0][0].folder
                    continue
                if model.lacks_stacks:
                    findings.append(_without_stacks(each.which, of_sides[at], copy, each.layout))
                folder = of_sides[at].folder(_root(root, each, sides)) / f"rank{copy}"
                merging = _Merging(
                    model,
                    others,
                    _wholes(models, golden),
                    each.layout,
                    copy,
                    is_golden=at == 1,
                    tensors=Tensors([stages[0].folder for stages in model.ranks], folder, trusted)
                    if has_tensors and each.layout.pp == 1 and model.has_shards
                    else None,
                )
                golden = merging.write(folder)
                trusted = folder
                found = each.which, of_sides[at], copy, each.layout
                findings += _findings(merging.tally, *found)
                suspects += _suspects(merging.tally, *found)
    places = [each.path if each.layout.is_whole else _root(root, each, sides) for each in sides]
    return Merged(places[0], places[1] if len(places) == 2 else None, tuple(findings), tuple(suspects))


def _without_stacks(side: str, step: Step, copy: int, layout: Layout) -> Finding:
    where = phrase("{side}{place}", side=side, place=_place(step, copy, layout))
    message = phrase("merged {where}: {message}", where=where, message=kinds.NO_STACKS.sentence())
    return Finding(kinds.NO_STACKS, Place(side, step=step.step), message, fields={"side": side, "copy": copy})


def _findings(tally: Tally, side: str, step: Step, copy: int, layout: Layout) -> Iterator[Finding]:
    """Yield a finding of each kind that has a message: the number of its occurrences, and the first place."""
    where = phrase("{side}{place}", side=side, place=_place(step, copy, layout))
    for kind in kinds_in(kinds):
        found = [note for note in tally.findings if note.kind is kind]
        if not found or not kind.messages or kind is kinds.SHARD_DIFFERS:
            continue
        first = " ".join(filter(None, (found[0].call, found[0].place)))
        if found[0].ranks:
            first = f"{first} (rank {', '.join(map(str, found[0].ranks))})"
        is_call = kind in (kinds.NOT_ON_ALL_RANKS, kinds.ON_SEVERAL_STAGES)
        one, several = ("{number} call", "{number} calls") if is_call else ("{number} value", "{number} values")
        n = phrase(one if len(found) == 1 else several, number=len(found))
        message = kind.sentence(n=n, first=first, apart=f"{found[0].distance:.3g}")
        yield Finding(
            kind,
            Place(found[0].call, record=found[0].place, step=step.step, rank=_only(found[0].ranks)),
            phrase("merged {where}: {message}", where=where, message=message),
            fields=_fields(side, copy, found[0]) | {"places": len(found)},
        )


def _suspects(tally: Tally, side: str, step: Step, copy: int, layout: Layout) -> Iterator[Finding]:
    """Return a finding for each shard that differs from the golden; those of the earliest call first."""
    where = phrase("{side}{place}", side=side, place=_place(step, copy, layout))
    for note in tally.findings:
        if note.kind is kinds.SHARD_DIFFERS:
            message = note.kind.sentence(
                where=where,
                name=f"{note.call}.{note.place}",
                ranks=", ".join(map(str, note.ranks)),
                apart=f"{note.distance:.3g}",
            )
            place = Place(note.call, record=note.place, step=step.step, rank=_only(note.ranks))
            yield Finding(note.kind, place, message, fields=_fields(side, copy, note))


def _fields(side: str, copy: int, note: MergeNote) -> dict[str, Any]:
    return {"side": side, "copy": copy, "ranks": note.ranks, "distance": note.distance}


def _only(ranks: Sequence[int]) -> int | None:
    return ranks[0] if len(ranks) == 1 else None


def _root(root: Path, one: _Side, sides: Sequence[_Side]) -> Path:
    return root / one.which if len(sides) > 1 else root


def _wholes(models: Sequence[_Model], golden: Mapping[str, Any] | None) -> dict[Key, Any]:
    """Return the merged entries of the golden, by key; empty if they are unknown yet, or there is no golden."""
    return {} if golden is None else {call.key: golden.get(call.name) for call in models[-1].chain.calls}


def _place(step: Step, copy: int, layout: Layout) -> str:
    words = ("" if step.step is None else f"step {step.step}", f"copy {copy}" if layout.dp > 1 else "")
    return "".join(f", {word}" for word in words if word)


class _Merging:
    """Merges one model and writes its dump; `tally` has the notes.

    `others` are the entries on the ranks of the other side, None without one, and `wholes` the merged entries of the
    golden.
    """

    def __init__(
        self,
        model: _Model,
        others: Mapping[Key, list[Any]] | None,
        wholes: Mapping[Key, Any],
        layout: Layout,
        copy: int,
        *,
        is_golden: bool,
        tensors: Tensors | None,
    ) -> None:
        self._model, self._others, self._wholes = model, others, wholes
        self._layout, self._copy = layout, copy
        is_ours = all("format_version" in stage.head for stage in model.ranks[0])
        ranks = [layout.rank(tp, 0, copy) for tp in range(layout.tp)]
        self._merger = EntryMerger(
            model.exchanges,
            model.chain.names(),
            ranks,
            tensors,
            has_shards=model.has_shards,
            is_golden=is_golden,
            is_ours=is_ours,
        )
        self._has_tensors = tensors is not None
        self.tally = self._merger.tally

    def write(self, folder: Path) -> dict[str, Any]:
        """Write the dump into a folder, and return its entries."""
        model, found = self._model, self.tally.findings
        data: dict[str, Any] = {}
        left_out: set[str] = set()
        for call in _in_dump_order(model):
            entries = model.entries(call)
            why = self._why_left_out(call, entries)
            if why is None:
                theirs = None if self._others is None else self._others.get(call.key, ())
                data[call.name] = self._merger.merged(call, entries, theirs, self._wholes.get(call.key))
            else:
                left_out.add(call.name)
                found.append(MergeNote(why, call.name))
        found += [MergeNote(kinds.ON_SEVERAL_STAGES, name) for name in model.chain.repeated]
        make_folder(folder)
        parents = ((name, parent) for name, parent in model.chain.parents.items() if name not in left_out)
        _write_json(folder / files.STACK, _stacks(model, left_out).items())
        _write_json(folder / files.CONSTRUCT, parents)
        _write_json(folder / MERGE, _report(self.tally, self._layout, self._copy).items())
        head = _head(model, self._layout, self._copy, self.tally, has_tensors=self._has_tensors)
        _write_json(folder / files.DUMP, [*head.items(), ("data", data)])
        return data

    def _why_left_out(self, call: Placed, entries: Sequence[Any]) -> Kind | None:
        if None in entries:
            return kinds.NOT_ON_ALL_RANKS
        is_of_layout = self._others is not None and call.key not in self._others and self._model.is_of_layout(call)
        return kinds.OF_THE_LAYOUT if is_of_layout else None


def _in_dump_order(model: _Model) -> list[Placed]:
    """Return the calls with an entry, in the order of their completion."""
    places = [{name: at for at, name in enumerate(stage.entries)} for stage in model.ranks[0]]

    def completed(call: Placed) -> tuple[Segment, int]:
        last = call.parts[-1]
        return model.chain.segments[last], places[last.stage][last.name]

    written = [call for call in model.chain.calls if all(part.name in places[part.stage] for part in call.parts)]
    return sorted(written, key=completed)


_NOT_MERGED = (
    kinds.PARTIAL,
    kinds.SHARE_OF_BATCH,
    kinds.SHARDS_ABSENT,
    kinds.ACCUMULATED,
    kinds.PART_OF_A_SUM,
    kinds.NOT_KNOWN,
    kinds.INPUTS_NOT_MERGED,
    kinds.VALUES_DIFFER,
    kinds.STRUCTURES_DIFFER,
)


def _head(model: _Model, layout: Layout, copy: int, tally: Tally, *, has_tensors: bool) -> dict[str, Any]:
    """Return the header of the dump: that of the first rank, with what could not be merged among what is missing."""
    first = model.ranks[0][0].head
    task = first.get("task")
    head = {key: value for key, value in first.items() if key not in ("missing", "rebuilt")}
    is_kept = task == "structure" or (task == "tensor" and has_tensors)
    head |= {"task": task if is_kept else "statistics", "dump_data_dir": None}
    run = first.get("run")
    if isinstance(run, dict):
        head["run"] = {key: value for key, value in run.items() if key != "frozen"}
        head["run"] |= {"rank": copy, "layout": layout.words()}
    missing = [
        {"name": each.call, "part": each.place, "cause": each.kind.title.english}
        for each in tally.findings
        if each.kind in _NOT_MERGED
    ]
    return head | ({"missing": missing} if missing else {})


def _stacks(model: _Model, left_out: Collection[str]) -> dict[str, Any]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for call in model.chain.calls:
        if call.name in left_out:
            continue
        if frames := model.ranks[0][call.parts[0].stage].stacks.get(call.parts[0].name):
            groups.setdefault(without_secrets(frames), []).append(call.name)
    return {str(number): [names, list(frames)] for number, (frames, names) in enumerate(groups.items())}


def _report(tally: Tally, layout: Layout, copy: int) -> dict[str, Any]:
    def found(kind: Kind) -> list[dict[str, Any]]:
        each = [finding for finding in tally.findings if finding.kind is kind]
        is_apart = kind in (kinds.REPLICAS_DIFFER, kinds.SHARD_DIFFERS)
        return [
            {
                "call": f.call,
                **({"place": f.place} if f.place else {}),
                **({"distance": f.distance} if is_apart else {}),
                **({"ranks": list(f.ranks)} if f.ranks else {}),
            }
            for f in each
        ]

    by_kind = {
        kind.name.replace(" ", "_"): {"reason": kind.means.english, "found": places}
        for kind in kinds_in(kinds)
        if (places := found(kind))
    }
    return {"layout": layout.words(), "copy": copy, "values": tally.counts, **by_kind}


def _write_json(path: Path, members: Iterable[tuple[str, Any]]) -> None:
    with replace_atomically(path) as file:
        for text in _object(members, 1):
            file.write(text.encode("ascii"))
        file.write(b"\n")


def _object(members: Iterable[tuple[str, Any]], depth: int) -> Iterator[str]:
    """Return a JSON object with a line for each member, and for each member of `data`."""
    gap = "{\n" + " " * depth
    for key, value in members:
        yield f"{gap}{json.dumps(key)}: "
        if key == "data" and depth == 1:
            yield from _object(value.items(), 2)
        else:
            yield json.dumps(value)
        gap = ",\n" + " " * depth
    yield "\n}" if gap[0] == "," else "{}"
