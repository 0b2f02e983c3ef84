"""What was found while ranks were merged, in sentences."""

from collections.abc import Iterator

from msprobe.base.phrase import Words, phrase

from .records import Finding, Tally, Why

_SENTENCES = {
    Why.REPLICAS_DIFFER: "{n} that should be equal on the tensor parallel ranks differ, first {first}, by {apart}",
    Why.PART_OF_A_SUM: (
        "{n} differ among tensor parallel ranks and were not merged, first {first}: parts of a sum whose "
        "reduction was not recorded"
    ),
    Why.NOT_KNOWN: (
        "{n} were not merged, first {first}: neither the golden nor the class of the layer shows whether the "
        "ranks have parts of a tensor or of a sum"
    ),
    Why.SIDE_BY_SIDE: (
        "{n} of the ranks are stacked, first {first}: without a golden it is unknown whether they are parts of a "
        "tensor or of a sum"
    ),
    Why.VALUES_DIFFER: "{n} that are not tensors differ among tensor parallel ranks and were omitted, first {first}",
    Why.STRUCTURES_DIFFER: "{n} have different structures on the tensor parallel ranks and were omitted, first {first}",
    Why.NOT_ON_ALL_RANKS: "{n} are not on all tensor parallel ranks and were omitted, first {first}",
    Why.ON_SEVERAL_STAGES: "{n} are on several pipeline stages; those of the first stage are kept, first {first}",
}


def summary(tally: Tally, where: Words) -> Iterator[Words]:
    """One sentence for each kind of finding that a reader should know of."""
    found: dict[Why, list[Finding]] = {}
    for finding in tally.findings:
        found.setdefault(finding.why, []).append(finding)
    for why in _SENTENCES:
        if each := found.get(why):
            first = " ".join(filter(None, (each[0].call, each[0].place)))
            is_call = why in (Why.NOT_ON_ALL_RANKS, Why.ON_SEVERAL_STAGES)
            one, several = ("{number} call", "{number} calls") if is_call else ("{number} value", "{number} values")
            n = phrase(one if len(each) == 1 else several, number=len(each))
            said = phrase(_SENTENCES[why], n=n, first=first, apart=f"{each[0].distance:.3g}")
            yield phrase("merged {where}: {said}", where=where, said=said)
