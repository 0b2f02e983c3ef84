"""The similarity of the signs of the gradients of two runs, for each parameter and step."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from msprobe.base.errors import DumpError
from msprobe.base.log import join_names, logger
from msprobe.store.monitor.gradient_files import read_direction, read_summary, steps_in
from msprobe.store.npy import Array

SUMMARY = "summary"


class NoMatchError(DumpError, RuntimeError):
    """Two outputs have no parameter, step or rank in common."""


class ShapeError(DumpError, RuntimeError):
    """The gradients of one parameter have two shapes."""


class DtypeError(DumpError, TypeError):
    """A file does not contain the signs of a gradient."""


@dataclass(frozen=True)
class Similarities:
    """The share of equal signs: for each parameter a value for each of `steps`, and the share of all elements.

    NaN if a parameter is in only one of the outputs at a step.
    """

    steps: tuple[int, ...]
    parameters: Mapping[str, tuple[float, ...]]
    summary: tuple[float, ...]

    def rows(self) -> dict[str, tuple[float, ...]]:
        """Return every row by its name, the summary last."""
        return {**self.parameters, SUMMARY: self.summary}


def similarity(one: Array, other: Array) -> float:
    """Return the share of equal elements of two arrays of bool; 0.0 if they are empty.

    Raise a ShapeError if their shapes differ, a DtypeError if they are not bool.
    """
    for each in (one, other):
        if each.dtype != np.bool_:
            raise DtypeError(f"the signs are {each.dtype}, not bool; collect with grad_level L1 or L2")
    if one.shape != other.shape:
        raise ShapeError(f"the shapes are {list(one.shape)} and {list(other.shape)}; compare runs of the same model")
    return float(np.count_nonzero(one == other) / one.size) if one.size else 0.0


def matched(one: Mapping[int, Path], other: Mapping[int, Path], what: str, where: tuple[Path, Path]) -> list[int]:
    """Return the numbers that both have; raise a NoMatchError if there are none. Those of one side only are logged."""
    both = sorted(set(one) & set(other))
    if not both:
        raise NoMatchError(
            f"no matched {what}s for comparison, please check {where[0]} and {where[1]}: the first has "
            f"{join_names(one, 5) or 'none'}, the second {join_names(other, 5) or 'none'}"
        )
    for path, numbers in zip(where, (one, other), strict=True):
        if alone := sorted(set(numbers) - set(both)):
            logger.warning("%s: the %ss %s are not on the other side and are skipped", path, what, join_names(alone, 5))
    return both


def similarities(one: Path, other: Path) -> Similarities:
    """Compare the folders of two ranks, at the steps that both have.

    Raise a DumpError if a file is missing or damaged; a NoMatchError, ShapeError or DtypeError if the two do not match.
    """
    tables = steps_in(one), steps_in(other)
    steps = matched(*tables, "step", (one, other))
    found: dict[str, dict[int, float]] = {}
    pooled = []
    for step in steps:
        names = [[row[0] for row in read_summary(side[step])[1]] for side in tables]
        if alone := set(names[0]) ^ set(names[1]):
            logger.warning("step %d: %s only on one side, skipped", step, join_names(sorted(alone), 5))
        equal = total = 0.0
        for name in (each for each in names[0] if each not in alone):
            share, size = _of_parameter(one, other, step, name)
            found.setdefault(name, {})[step] = share
            equal, total = equal + share * size, total + size
        pooled.append(equal / total if total else 0.0)
    rows = {name: tuple(known.get(step, float("nan")) for step in steps) for name, known in found.items()}
    return Similarities(tuple(steps), rows, tuple(pooled))


def _of_parameter(one: Path, other: Path, step: int, name: str) -> tuple[float, int]:
    signs = read_direction(one, step, name), read_direction(other, step, name)
    try:
        return similarity(*signs), signs[0].size
    except DumpError as err:
        raise type(err)(f"{one} and {other}: {name} at step {step}: {err}") from err
