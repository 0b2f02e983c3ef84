"""A call as `anomaly_analyze_*.json` shows it: its values, the cells around it, its stack."""

from collections.abc import Sequence

from msprobe.base.schema import KEYS, NON_FINITE
from msprobe.compare.ranks.collectives import Node
from msprobe.compare.tables.cells import number
from msprobe.store.record import Dump, Record


def node_of(dump: Dump, at: int, stack: Sequence[str]) -> Node:
    """The node of a call; a backward call has the stack of its forward."""
    call = dump.calls[at]
    return Node(call.name, _data(dump, at), (*reversed(dump.upwards(dump.parent(at))), call.name), tuple(stack))


def _data(dump: Dump, at: int) -> dict[str, object]:
    """The values of a call, under the keys that its entry in dump.json has; nested ones stand flat, with their path."""
    args: list[object] = []
    kwargs: dict[str, list[object]] = {}
    rest: dict[str, list[object]] = {}
    is_backward = dump.names[at].direction == "backward"
    for record in dump.calls[at].records:
        if record.part != "input":
            rest.setdefault(record.part, []).append(_item(record))
        elif is_backward or not record.path or record.path[0].isdigit():
            args.append(_item(record))
        else:
            kwargs.setdefault(record.path[0], []).append(_item(record))
    output: object = rest.pop("output", [])
    if dump.names[at].kind == "parameters_grad":
        return {**rest}
    if is_backward:
        return {"input": args, "output": output, **rest}
    return {"input_args": args, "input_kwargs": kwargs, "output": output, **rest}


def _item(record: Record) -> dict[str, object]:
    item: dict[str, object] = {"full_op_name": record.name, "type": record.type}
    if record.kind == "tensor":
        item |= {"dtype": record.dtype, "shape": None if record.shape is None else list(record.shape)}
        if s := record.statistics:
            item |= {key: number(value) for key, value in zip(KEYS, s.numbers, strict=True)}
            counts = zip(NON_FINITE, s.non_finite or (), strict=False)
            item |= {each.key: count for each, count in counts if count}
    elif record.kind == "value":
        item["value"] = number(record.value) if isinstance(record.value, float) else record.value
    return item | {key: text for key, text in (("md5", record.digest), ("data_name", record.file)) if text}
