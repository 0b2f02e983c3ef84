"""A call as the answer shows it: its entry in the dump with our verdicts, the cells around it, its stack."""

from msprobe.compare.judge.judged import Judged
from msprobe.compare.locate.events import Event
from msprobe.compare.report.cells import number

from .story import Node

_KEYS = {"parameters": "parameters", "output": "output", "parameters_grad": "parameters_grad", "debug": "debug"}


def node_of(event: Event) -> Node:
    """The node of a call of a comparison; a backward call has the stack of its forward."""
    call = event.call.calls.call
    stack = call.stack
    for place in event.forwards if not stack else ():
        stack = stack or event.comparison.calls[place].calls.call.stack
    return Node(call.name, _data(event), (*reversed(event.parents), call.name), stack)


def _data(event: Event) -> dict[str, object]:
    """The values of a call, under the keys that its entry in dump.json has; nested ones stand flat, with their path."""
    is_backward = event.direction == "backward"
    args: list[object] = []
    kwargs: dict[str, list[object]] = {}
    rest: dict[str, list[object]] = {}
    for judged in event.call.judged:
        record = judged.pair.record
        if record.part != "input":
            rest.setdefault(_KEYS[record.part], []).append(_item(judged))
        elif is_backward or not record.path or record.path[0].isdigit():
            args.append(_item(judged))
        else:
            kwargs.setdefault(record.path[0], []).append(_item(judged))
    output: object = rest.pop("output", [])
    if is_backward:
        return {"input": args, "output": output, **rest}
    return {"input_args": args, "input_kwargs": kwargs, "output": output, **rest}


def _item(judged: Judged) -> dict[str, object]:
    """A value of the target, or of the golden where the target has none."""
    record = judged.pair.record
    told: dict[str, object] = {"full_op_name": record.name, "type": record.type}
    if record.kind == "tensor":
        told |= {"dtype": record.dtype, "shape": None if record.shape is None else list(record.shape)}
        if s := record.statistics:
            told |= {"Max": number(s.max), "Min": number(s.min), "Mean": number(s.mean), "Norm": number(s.norm)}
    elif record.kind == "value":
        told["value"] = number(record.value) if isinstance(record.value, float) else record.value
    told |= {key: text for key, text in (("md5", record.digest), ("data_name", record.file)) if text}
    told["verdict"] = judged.grade
    if judged.verdict.reason:
        told["reason"] = judged.verdict.reason
    return told
