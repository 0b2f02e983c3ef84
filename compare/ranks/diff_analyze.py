"""What `-da` writes: the first differing calls among all ranks, and for each rank which of its calls differ."""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from msprobe.base.files import replacing
from msprobe.compare.judge.judged import Comparison
from msprobe.compare.judge.verdict import GRADES
from msprobe.compare.locate.find import Located
from msprobe.compare.report.columns import columns_of
from msprobe.compare.report.rows import rows

from .search import First


def as_objects(found: Iterable[First], step: int | None = None) -> dict[str, list[object]]:
    """`{"rank_1": [{"op_name", "data_info", "construct_info", "stack_info"}]}`, the form that msprobe 26 writes."""
    ranks: dict[str, list[object]] = {}
    for first in found:
        node = first.node
        told: dict[str, object] = {
            "op_name": node.name,
            "data_info": dict(node.data_info),
            "construct_info": list(node.construct_info),
            "stack_info": list(node.stack_info),
        }
        ranks.setdefault(f"rank_{first.rank}", []).append(told if step is None else told | {"step": step})
    return ranks


def write_first(path: Path, ranks: Mapping[str, Sequence[object]]) -> None:
    """Write what `as_objects` gives; an empty object says that nothing differs."""
    with replacing(path) as file:
        text = json.dumps(ranks, ensure_ascii=False, indent=1, default=str)
        file.write(text.encode("utf-8", "replace") + b"\n")


def write_calls(path: Path, comparison: Comparison, located: Located) -> None:
    """Write `{call: {"is_same": bool, "op_items": [rows by heading]}}`, call by call as the rows are made.

    A call is the same where none of its results is in error. A call of the golden alone whose name the target has too
    stands there as `golden {name}`.
    """
    titles = [column.title for column in columns_of(comparison, False)]
    call_of = comparison.pairs.call_of.tolist()
    is_wrong = ((comparison.grades == GRADES.index("error")) & ~comparison.is_given).tolist()
    met: set[str] = set()
    with replacing(path) as file:
        file.write(b"{")
        made = enumerate(rows(comparison, located, with_stack=False))
        for place, found in groupby(made, lambda numbered: call_of[numbered[0]]):
            numbered = list(found)
            name = comparison.pairs.name(place)
            if name in met:
                name = f"golden {name}"
            told = {
                "is_same": not any(is_wrong[row] for row, _ in numbered),
                "op_items": [dict(zip(titles, row, strict=True)) for _, row in numbered],
            }
            entry = f"{json.dumps(name, ensure_ascii=False)}: {json.dumps(told, ensure_ascii=False)}"
            file.write((",\n " if met else "\n ").encode() + entry.encode("utf-8", "replace"))
            met.add(name)
        file.write(b"\n}\n")
