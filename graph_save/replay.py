"""The files that `dumped_calls.py` had written, in the order of their numbers, told as the calls that they are of.

The forward's files are in the order of the program. A file of a gradient does not say which call of its cell it belongs
to: the backward runs the calls of a cell from the last to the first.
"""

import re
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msprobe.base.log import once
from msprobe.store.npy import load_npy

from .dumped_calls import Plan
from .telling import Listener, Value

_FILE = re.compile(r"^(?P<stem>.+)_(?P<dtype>[a-z]+[0-9]*)_(?P<number>[0-9]+)\.npy$")
_TOLD = re.compile(r"^(?P<call>.+)\.(?P<what>begin|end|(?:forward|backward)\..+)$")

DONE = "step.done"
"""The stem of the file that is asked for behind all others of a step."""

PATIENCE = 600.0
"""Seconds to wait for it."""


@dataclass(frozen=True, slots=True)
class Dumped:
    """A file of the framework's operator: what it was called, and its number among all that the process wrote."""

    path: Path
    stem: str
    number: int


def files(folder: Path) -> list[Dumped]:
    """What the operator wrote into the folder of a step and rank, in the order of the numbers."""
    found = [Dumped(path, m["stem"], int(m["number"])) for path in folder.iterdir() if (m := _FILE.match(path.name))]
    return sorted(found, key=lambda each: each.number)


def wait(folder: Path, patience: float = PATIENCE) -> bool:
    """Wait for a step's last file, which the operator writes when it has written the others; False: it did not come."""
    until = time.monotonic() + patience
    while not any(folder.glob(f"{DONE}_*.npy")):
        if time.monotonic() > until:
            what = f"{folder}: the framework has not written all of a step's tensors within {patience:.0f} s"
            once(what, f"{what}; what is there is taken")
            return False
        time.sleep(0.05)
    return True


def replay(folder: Path, plan: Plan, listener: Listener) -> None:
    """Tell `listener` the calls of one step. Files of calls that `plan` does not know are left alone."""
    forward: dict[str, list[int]] = {}
    backward: dict[str, list[Dumped]] = {}
    open_calls: dict[str, list[int]] = {}
    token = 0
    for dumped in files(folder):
        told = _TOLD.match(dumped.stem)
        if told is None or told["call"] not in plan.arguments:
            continue
        stem, what = told["call"], told["what"]
        if what == "begin":
            token += 1
            forward.setdefault(stem, []).append(token)
            open_calls.setdefault(stem, []).append(token)
            listener.begin(token, stem, *plan.arguments[stem])
        elif what == "end" and open_calls.get(stem):
            listener.end(open_calls[stem].pop(), plan.results[stem])
        elif what.startswith("backward."):
            backward.setdefault(dumped.stem, []).append(dumped)
        elif open_calls.get(stem):
            listener.value(open_calls[stem][-1], *_read(dumped, plan))
    for name, arrived in backward.items():
        stem = name.partition(".backward.")[0]
        for token, dumped in zip(reversed(forward.get(stem, [])), arrived, strict=False):
            listener.gradient(token, *_read(dumped, plan))


def _read(dumped: Dumped, plan: Plan) -> tuple[Value, np.ndarray]:
    value = Value(*plan.values[dumped.stem])
    return value, np.reshape(load_npy(dumped.path), value.shape)
