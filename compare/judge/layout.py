"""Records as they look in the other side's layout: shapes and statistics after a declared transform."""

from dataclasses import replace

from msprobe.base.errors import MappingError
from msprobe.compare.match.pairs import View
from msprobe.mapping.transform import parse
from msprobe.store.record import Record

_PARTS = frozenset({"slice", "split", "concat"})


def keeps_elements(view: View) -> bool:
    """Whether a view only moves elements, which leaves statistics as they are."""
    return all(
        transform.is_layout and not any(step.name in _PARTS for step in transform.steps)
        for transform in map(parse, (view.target, view.golden))
    )


def looked_at(target: Record, golden: Record, view: View) -> tuple[Record, Record]:
    """The two records with their shapes after the view; as they are where it cannot be done to them."""
    return _shaped(target, view.target), _shaped(golden, view.golden)


def _shaped(record: Record, text: str) -> Record:
    if not text or record.shape is None:
        return record
    try:
        return replace(record, shape=parse(text).shape(record.shape))
    except (MappingError, ValueError):  # a tensor of another shape than the layer's, which the shapes then say
        return record
