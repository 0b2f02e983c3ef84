"""The plan of a graft: which values of a golden run replace which values of a training (format.md, page 16).

`msprobe graft` writes a plan from a comparison, and the task `graft` of a training reads it. The names of the keys are
those of the training (the target); the names in `golden` are those of the golden run, possibly of another framework.

```
{"format": "msprobe-graft", "format_version": 1, "golden": "/abs/dump_path",
 "steps": {"0": {"calls": {"Functional.linear.3.forward": {"golden": "Functional.dense.3.forward",
                                                           "values": {"output.0": {"golden": "output.0"}}}},
                 "parameters": {"fc.weight": {"golden": "fc.weight", "permute": [1, 0], "reshape": [4, 8]}}}}}
```

A place is the name of a record without that of its call: `input.0`, `input.mask`, `output.1.k`, and of a gradient of a
module's own parameter its name, `weight`. A step has the same number in both runs.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe.base.checks import quoted
from msprobe.base.errors import DumpError
from msprobe.base.files import read_input, replace_atomically
from msprobe.base.statistic import Array

FORMAT = "msprobe-graft"
FORMAT_VERSION = 1

MAX_BYTES = 512 << 20
"""Largest plan that is read: some 200 bytes for each value of each step."""


@dataclass(frozen=True, slots=True)
class GoldenValue:
    """A recorded value of the golden run, and its layout in the training.

    place : its place in the call of the golden run, or the name of the golden's parameter.
    permute : the order of its axes in the training; None if it is the same.
    reshape : its shape in the training, after the permutation; None if it is the same.
    is_resized : whether the value that it replaces has another shape: a result, through which no gradient flows back.
    """

    place: str
    permute: tuple[int, ...] | None = None
    reshape: tuple[int, ...] | None = None
    is_resized: bool = False

    def shape(self, recorded: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the shape in the training of a value with this recorded shape; None if the layouts do not fit."""
        if self.permute is not None:
            if sorted(self.permute) != list(range(len(recorded))):
                return None
            recorded = tuple(recorded[axis] for axis in self.permute)
        if self.reshape is None:
            return recorded
        return self.reshape if math.prod(self.reshape) == math.prod(recorded) else None

    def laid_out(self, array: Array) -> Array:
        """Return the elements in the layout of the training."""
        if self.permute is not None:
            array = array.transpose(self.permute)
        return array if self.reshape is None else array.reshape(self.reshape)


@dataclass(frozen=True, slots=True)
class GraftedCall:
    """The values of one call of the training, forward or backward.

    golden : the name of the golden's call that has the values.
    values : the golden's value by the place of the training's.
    """

    golden: str
    values: Mapping[str, GoldenValue]


@dataclass(frozen=True, slots=True)
class GraftedStep:
    """The values of one step: of calls by their full names, and of parameters by theirs."""

    calls: Mapping[str, GraftedCall] = field(default_factory=dict)
    parameters: Mapping[str, GoldenValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GraftPlan:
    """A plan: the folder of the golden dump (with its steps and ranks), and the values of each step."""

    golden: str
    steps: Mapping[int, GraftedStep]


def write_plan(path: Path, plan: GraftPlan) -> None:
    """Write a plan, whole or not at all. OSError if writing fails."""
    text = json.dumps(
        {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "golden": plan.golden,
            "steps": {str(number): _described(step) for number, step in sorted(plan.steps.items())},
        }
    )
    with replace_atomically(path) as file:
        file.write(text.encode("ascii"))
        file.write(b"\n")


def _described(step: GraftedStep) -> dict[str, Any]:
    calls = {
        name: {"golden": call.golden, "values": {place: _value(value) for place, value in call.values.items()}}
        for name, call in step.calls.items()
    }
    return {"calls": calls, "parameters": {name: _value(value) for name, value in step.parameters.items()}}


def _value(value: GoldenValue) -> dict[str, Any]:
    layouts = {"permute": value.permute, "reshape": value.reshape}
    made: dict[str, Any] = {"golden": value.place}
    made |= {key: list(axes) for key, axes in layouts.items() if axes is not None}
    return made | {"resized": True} if value.is_resized else made


def read_plan(path: Path) -> GraftPlan:
    """Return the plan in a file; DumpError, with the place and the remedy, if it cannot be read or is not a plan."""
    remedy = "give a plan that `msprobe graft` wrote, or the folder of a dump of task tensor"
    try:
        contents = json.loads(read_input(path, MAX_BYTES).decode("utf-8-sig"))
    except OSError as err:
        raise DumpError(f"{path}: cannot be read ({err.strerror or err}); {remedy}") from err
    except (ValueError, RecursionError) as err:  # no UTF-8, no JSON, or nested without end
        raise DumpError(f"{path}: is not valid JSON ({err}); {remedy}") from err
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        raise DumpError(f'{path}: is not a plan of a graft (its "format" is not {quoted(FORMAT)}); {remedy}')
    version = contents.get("format_version")
    if version != FORMAT_VERSION:
        raise DumpError(
            f"{path}: is a plan of format {quoted(version)}, but this version of msprobe reads {FORMAT_VERSION}; "
            "install the version that wrote it, or write it again with `msprobe graft`"
        )
    try:
        steps = _object(contents.get("steps"), "steps")
        return GraftPlan(
            _text(contents.get("golden"), "golden"),
            {_step_number(number): _step(each, f"steps.{number}") for number, each in steps.items()},
        )
    except _InvalidError as err:
        raise DumpError(f"{path}: {err}; write the plan again with `msprobe graft`") from None


class _InvalidError(Exception):
    """A member of a plan is invalid; the message has its location."""


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _InvalidError(f"{where} is {quoted(value)}, not an object")
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise _InvalidError(f"{where} is {quoted(value)}, not a name")
    return value


def _step_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise _InvalidError(f"steps has the key {quoted(text)}, which is not the number of a step")
    return int(text)


def _step(value: object, where: str) -> GraftedStep:
    step = _object(value, where)
    calls = _object(step.get("calls", {}), f"{where}.calls")
    parameters = _object(step.get("parameters", {}), f"{where}.parameters")
    return GraftedStep(
        {name: _call(each, f"{where}.calls.{name}") for name, each in calls.items()},
        {name: _golden_value(each, f"{where}.parameters.{name}") for name, each in parameters.items()},
    )


def _call(value: object, where: str) -> GraftedCall:
    call = _object(value, where)
    values = _object(call.get("values"), f"{where}.values")
    return GraftedCall(
        _text(call.get("golden"), f"{where}.golden"),
        {place: _golden_value(each, f"{where}.values.{place}") for place, each in values.items()},
    )


def _golden_value(value: object, where: str) -> GoldenValue:
    member = _object(value, where)
    return GoldenValue(
        _text(member.get("golden"), f"{where}.golden"),
        _numbers(member.get("permute"), f"{where}.permute"),
        _numbers(member.get("reshape"), f"{where}.reshape"),
        _flag(member.get("resized", False), f"{where}.resized"),
    )


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise _InvalidError(f"{where} is {quoted(value)}, not true or false")
    return value


def _numbers(value: object, where: str) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(type(each) is int and each >= 0 for each in value):
        raise _InvalidError(f"{where} is {quoted(value)}, not a list of numbers of at least 0")
    return tuple(value)
