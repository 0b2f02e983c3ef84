"""What was found while ranks were merged, in sentences."""

from collections.abc import Iterator

from msprobe.base.phrase import Words, phrase
from msprobe.findings.catalogue import parallel as kinds
from msprobe.findings.kind import Kind

from .records import MergeNote, Tally

_SENTENCES = {
    kinds.REPLICAS_DIFFER: "{n} that should be equal on the tensor parallel ranks differ, first {first}, by {apart}",
    kinds.PART_OF_A_SUM: (
        "{n} differ among tensor parallel ranks and were not merged, first {first}: parts of a sum whose "
        "reduction was not recorded"
    ),
    kinds.NOT_KNOWN: (
        "{n} were not merged, first {first}: neither the golden nor the class of the layer shows whether the "
        "ranks have parts of a tensor or of a sum"
    ),
    kinds.SIDE_BY_SIDE: (
        "{n} of the ranks are stacked, first {first}: without a golden it is unknown whether they are parts of a "
        "tensor or of a sum"
    ),
    kinds.VALUES_DIFFER: "{n} that are not tensors differ among tensor parallel ranks and were omitted, first {first}",
    kinds.STRUCTURES_DIFFER: (
        "{n} have different structures on the tensor parallel ranks and were omitted, first {first}"
    ),
    kinds.NOT_ON_ALL_RANKS: "{n} are not on all tensor parallel ranks and were omitted, first {first}",
    kinds.ON_SEVERAL_STAGES: "{n} are on several pipeline stages; those of the first stage are kept, first {first}",
    kinds.PARTIAL: (
        "{n} are terms of a sum (partial placement) and were not merged, first {first}: collect tensors to compare them"
    ),
    kinds.SHARE_OF_BATCH: (
        "{n} belong to each rank's share of the batch and were not merged, first {first}: parameters and their "
        "gradients are compared"
    ),
    kinds.ACCUMULATED: (
        "{n} are sums of several backwards on one side and were not merged, first {first}: the update after them is "
        "judged"
    ),
    kinds.SHARDS_ABSENT: "{n} lack shards of other ranks and were not merged, first {first}",
}


def suspected(tally: Tally, where: Words) -> Iterator[Words]:
    """One sentence for each shard that differs from the golden; those of the earliest call first."""
    for note in tally.findings:
        if note.kind is kinds.SHARD_DIFFERS:
            yield phrase(
                "{where}: {name} differs in the shard of rank {ranks}, by {apart}",
                where=where,
                name=f"{note.call}.{note.place}",
                ranks=", ".join(map(str, note.ranks)),
                apart=f"{note.distance:.3g}",
            )


def summary(tally: Tally, where: Words) -> Iterator[Words]:
    """One sentence for each kind of finding that a reader should know of."""
    found: dict[Kind, list[MergeNote]] = {}
    for finding in tally.findings:
        found.setdefault(finding.kind, []).append(finding)
    for kind, sentence in _SENTENCES.items():
        if each := found.get(kind):
            first = " ".join(filter(None, (each[0].call, each[0].place)))
            is_call = kind in (kinds.NOT_ON_ALL_RANKS, kinds.ON_SEVERAL_STAGES)
            one, several = ("{number} call", "{number} calls") if is_call else ("{number} value", "{number} values")
            n = phrase(one if len(each) == 1 else several, number=len(each))
            if each[0].ranks:
                first = f"{first} (rank {', '.join(map(str, each[0].ranks))})"
            said = phrase(sentence, n=n, first=first, apart=f"{each[0].distance:.3g}")
            yield phrase("merged {where}: {said}", where=where, said=said)
