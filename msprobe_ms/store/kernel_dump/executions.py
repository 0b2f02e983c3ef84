"""Executions of kernels: which values belong to one execution, and in which order the executions ran."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from msprobe.base.names import KERNEL, PARAMETER, api_call

from .values import Value, stem_and_number


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of a kernel: its call's name, its full name, and its values by io and slot."""

    call: str
    name: str
    values: tuple[Value, ...]

    @property
    def first(self) -> Value:
        """Return any of its values: they have the same type, task, stream and graph."""
        return self.values[0]

    @property
    def is_parameter(self) -> bool:
        """Return whether this is no kernel but the value of a parameter, or an argument of the graph, after the run."""
        return self.first.op_type == PARAMETER

    @property
    def time(self) -> int:
        """Return the time when it had run: the stamp of its first output, or of its first value."""
        return _time(self.values)


def executions(
    values: Iterable[Value], names: Mapping[tuple[int, str], str], order: Mapping[tuple[int, str], int]
) -> list[Execution]:
    """Return all executions of one iteration in the order in which they ran.

    `names` has the full name by graph and spelled name, `order` the place of a full name in its graph's planned order,
    which decides where stamps are equal.
    """
    runs = []
    by_kernel = groupby(sorted(values, key=_kernel), key=_kernel)
    for (graph, spelled, *_), group in by_kernel:
        name = names.get((graph, spelled), spelled)
        place = order.get((graph, name), len(order))
        runs += [(_time(run), place, name, run) for run in _runs(list(group))]
    runs.sort(key=lambda run: run[:3])
    calls = CallNames()
    made = []
    for _, _, name, run in runs:
        prefix = PARAMETER if run[0].op_type == PARAMETER else KERNEL
        made.append(Execution(calls.of(prefix, name), name, tuple(run)))
    return made


def _kernel(value: Value) -> tuple[int, str, str, int]:
    return value.graph, value.name, value.op_type, value.task


def _time(values: Sequence[Value]) -> int:
    outputs = [value.stamp for value in values if value.io == "output"]
    return min(outputs or [value.stamp for value in values])


def _runs(values: list[Value]) -> list[list[Value]]:
    """Return the values of one kernel, run by run.

    Where every slot was written equally often, the k-th of each belongs to run k. Else by the stamps: within a run
    inputs come before outputs and slots rise, so a value that does not come after its predecessor begins a new run.
    """
    by_slot: dict[tuple[str, tuple[int, ...]], list[Value]] = {}
    for value in sorted(values, key=lambda value: value.stamp):
        by_slot.setdefault((value.io, value.slot), []).append(value)
    slots = sorted(by_slot)  # "input" before "output"
    counts = {len(found) for found in by_slot.values()}
    if len(counts) == 1:
        return [[by_slot[slot][k] for slot in slots] for k in range(counts.pop())]
    runs: list[list[Value]] = []
    last: tuple[str, tuple[int, ...]] | None = None
    for value in sorted(values, key=lambda value: (value.stamp, value.io, value.slot)):
        if last is None or (value.io, value.slot) <= last:
            runs.append([])
        last = (value.io, value.slot)
        runs[-1].append(value)
    return runs


class CallNames:
    """The names of one iteration's calls, in the order in which the calls ran."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._rounds: dict[str, int] = {}

    def of(self, prefix: str, full_name: str) -> str:
        """Return a name that no earlier call has: from its second execution on a kernel's name has the round."""
        stem, number = stem_and_number(full_name)
        parts = [prefix, *(part for part in re.split(r"[/.]", stem) if part)]
        plain = api_call(".".join(parts), max(number, 0), "forward")
        while True:
            rounds = self._rounds.get(plain, 0)
            self._rounds[plain] = rounds + 1
            text = ".".join([*parts, f"round{rounds}"] if rounds else parts)
            name = api_call(text, max(number, 0), "forward")
            if name not in self._taken:
                self._taken.add(name)
                return name
