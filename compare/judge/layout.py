"""Records as they look in the other side's layout: shapes and statistics after a declared transform."""

from collections.abc import Mapping
from dataclasses import replace

from msprobe.base.errors import MappingError
from msprobe.compare.match.pairs import View, call_of_row
from msprobe.mapping.transform import parse
from msprobe.store.record import Dump, Record

_PARTS = frozenset({"slice", "split", "concat"})


def refuse_misfits(target: Dump, rows: Mapping[int, tuple[int, str]]) -> None:
    """MappingError where a transform that the user declared for a row of the target cannot be done to what it holds.

    `rows`: golden row and transform by target row.
    """
    for row, (_, text) in rows.items():
        if not text:
            continue
        call = call_of_row(target, row)
        record = target.columns.record(row, call)
        where = f"data mapping: {record.name}"
        if record.kind != "tensor" or record.shape is None:
            raise MappingError(f"{where}: transform {text!r} is given to what is no tensor; leave it out")
        try:
            parse(text).shape(record.shape)
        except (MappingError, ValueError) as err:
            said = str(err) if isinstance(err, MappingError) else f"transform {text!r}: {err}; correct the transform"
            raise MappingError(f"{where}, of shape {list(record.shape)}: {said}") from err


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
