"""What of a value is not finite, and by which of the rules of `msprobe overflow-check` a call begins something."""

import json
import math
from collections.abc import Iterator
from enum import Flag
from typing import Any

from msprobe.base.statistic import Array, statistic
from msprobe.findings.catalogue import nonfinite as kinds
from msprobe.findings.kind import Kind


class Content(Flag):
    """What is not finite."""

    NOTHING = 0
    NAN = 1
    PLUS = 2
    MINUS = 4


def content_of(array: Array) -> Content:
    """Return which non-finite values an array has."""
    s = statistic(array)
    found = Content.NAN if s.nan_count else Content.NOTHING
    found |= Content.PLUS if s.positive_inf_count else Content.NOTHING
    found |= Content.MINUS if s.negative_inf_count else Content.NOTHING
    if found or array.dtype.kind != "c":
        return found
    return Content.PLUS if s.norm is not None and not math.isfinite(s.norm) else found


def content_of_numbers(entry: str) -> Content:
    """Return which non-finite values the numbers among the arguments in an entry have: `x * float("nan")`."""
    found = Content.NOTHING
    if "NaN" not in entry and "Infinity" not in entry:
        return found
    entry_of = json.loads(entry)
    for value in _numbers([entry_of.get("input_args"), entry_of.get("input_kwargs")]):
        if not math.isfinite(value):
            found |= Content.NAN if math.isnan(value) else Content.PLUS if value > 0 else Content.MINUS
    return found


def _numbers(node: Any) -> Iterator[float]:
    if isinstance(node, float):
        yield node
    elif isinstance(node, (list, dict)):
        for inner in node.values() if isinstance(node, dict) else node:
            yield from _numbers(inner)


def judged(
    tensors: Content,
    numbers: Content,
    results: Content,
    known: Content,
    is_tainted: bool,
    *,
    with_masks: bool = False,
) -> Kind | None:
    """Return the cause of non-finite `results`, from the tensors and numbers among the inputs; None if they passed
    through.

    `known` is what of the step's values is not finite since an earlier call; `is_tainted`, that a call was written. An
    infinity that was written on purpose (`masked_fill(x, mask, -inf)`), or stood in a mask, begins nothing; with
    `with_masks` it does, for a caller that has the whole dump and takes masks out by what comes of them.

    | tensors | numbers | results | kind |
    |---|---|---|---|
    | finite | finite | | MADE |
    | finite | not finite | NaN goes in, or more comes out than goes in; any, with masks | ARGUMENT |
    | -inf together | | not -inf alone, and nothing was written yet | OF_INFINITIES |
    | anything not known yet, but -inf alone only with masks | | nothing was written yet | RECEIVED |
    """
    if not tensors and not numbers:
        return kinds.MADE
    if not tensors:
        return kinds.ARGUMENT if with_masks or Content.NAN in numbers or results & ~numbers else None
    given: Content = tensors | numbers
    if is_tainted:
        return None
    if given == Content.MINUS and results != Content.MINUS:
        return kinds.OF_INFINITIES
    return kinds.RECEIVED if given not in known and (with_masks or given != Content.MINUS) else None
