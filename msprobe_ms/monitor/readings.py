"""The statistics of the current step: measured immediately on a CPU, fetched at the end of the step from a device."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from msprobe.base.brief import measure_all
from msprobe.base.framework import AnyTensor
from msprobe.base.statistic import widen
from msprobe.store.monitor.layout import STATISTICS
from msprobe.store.monitor.writer import Row

from .backend import Backend, Numbers

THREADS = 2
"""Of a measurement: the memory of most machines serves more than one core. The kernel uses one for little."""

EPS = 1e-8
"""Magnitudes below this count as zero by default."""


class Key(NamedTuple):
    """The target of a measurement; `micro_step` is None if the kind has no micro steps."""

    vpp_stage: int
    name: str
    micro_step: int | None = None


class Measured(NamedTuple):
    """Where the statistics of a tensor are: a row of `numbers`, or a tensor on the device."""

    shape: str
    dtype: str
    numbers: Numbers | None
    row: int
    pending: Any = None


_TOGETHER: dict[str, Callable[..., Any]] = {
    **{"norm": np.sum, "min": np.min, "max": np.max, "nans": np.sum},
    **{"zeros": np.mean, "mean": np.mean},
}
"""The reductions of several tensors of one row to one number (`collectives`)."""


class Readings:
    """The rows of one step by kind. What is measured again under the same key replaces what was there."""

    def __init__(self, backend: Backend, eps: Mapping[str, float]) -> None:
        self._backend, self._eps = backend, eps
        self._rows: dict[str, dict[Key, Measured]] = {}
        self._several: dict[str, dict[Key, list[Measured]]] = {}
        self._values: dict[str, dict[Key, list[float]]] = {}

    def add(self, kind: str, key: Key, tensor: AnyTensor, elements: Any = None) -> None:
        """Measure one tensor now; with `elements`, an array or a tensor of the device, those in its place."""
        self._rows.setdefault(kind, {})[key] = self._measured(kind, [tensor], elements)[0]

    def join(self, kind: str, key: Key, tensor: AnyTensor) -> None:
        """Measure one of several tensors that make one row."""
        self._several.setdefault(kind, {}).setdefault(key, []).extend(self._measured(kind, [tensor]))

    def add_all(self, kind: str, tensors: Sequence[tuple[Key, Any]]) -> None:
        """Measure tensors now, in one pass over each."""
        rows = self._rows.setdefault(kind, {})
        for (key, _), measured in zip(tensors, self._measured(kind, [tensor for _, tensor in tensors]), strict=True):
            rows[key] = measured

    def _measured(self, kind: str, tensors: Sequence[AnyTensor], elements: Any = None) -> list[Measured]:
        backend, eps = self._backend, self._eps.get(kind, EPS)
        if backend.on_device and not isinstance(elements, np.ndarray):
            measured = tensors if elements is None else [elements]
            pending = [backend.statistics.of(each, eps) for each in measured]
            return [Measured(*backend.text(each), None, 0, one) for each, one in zip(tensors, pending, strict=True)]
        arrays = [backend.array(tensor) for tensor in tensors] if elements is None else [elements]
        numbers = measure_all(arrays, eps, THREADS)
        return [Measured(*backend.text(tensor), numbers, row) for row, tensor in enumerate(tensors)]

    def discard(self, kind: str) -> None:
        """Discard the rows of a kind that were measured in this step."""
        self._rows.pop(kind, None)

    def values(self, kind: str, key: Key, numbers: list[float]) -> None:
        """Add numbers of a kind with separate statistics."""
        self._values.setdefault(kind, {})[key] = numbers

    def copy(self, tensor: AnyTensor) -> Any:
        """Return a copy of the elements of a tensor: a float64 array, or on a device a tensor."""
        if self._backend.on_device:
            return self._backend.statistics.copied(tensor)
        return np.array(widen(self._backend.array(tensor)), np.float64)

    def total(self, before: Any, tensor: AnyTensor) -> Any:
        """Return the sum of tensors, of which `before` is that of the others, or None; at least in float32."""
        if self._backend.on_device:
            return (
                self._backend.statistics.copied(tensor)
                if before is None
                else self._backend.statistics.total(before, tensor)
            )
        elements = widen(self._backend.array(tensor))
        if before is None:
            return elements.astype(np.result_type(elements.dtype, np.float32))
        before += elements
        return before

    def difference(self, tensor: AnyTensor, copy: AnyTensor) -> Any:
        """Return a tensor minus its earlier `copy`, of the same type."""
        return (
            self._backend.statistics.difference(tensor, copy) if self._backend.on_device else self.copy(tensor) - copy
        )

    def same_sign(self, a: Any, b: Any) -> Any:
        """Return 1 where elements of two tensors have the same sign, else 0; NaN does not have a sign."""
        if self._backend.on_device:
            return self._backend.statistics.same_sign(a, b)
        signs = (np.sign(widen(self._backend.array(each))) for each in (a, b))
        return np.equal(*signs).astype(np.float32)

    def measure(self, values: Sequence[Any], statistic: str) -> list[float]:
        """Measure one statistic of each of these copies, differences or signs."""
        if not values:
            return []
        if self._backend.on_device:
            numbers = self._backend.statistics.fetch([self._backend.statistics.of(each, EPS) for each in values])
        else:
            numbers = measure_all(values, EPS, THREADS)
        return [float(row[STATISTICS.index(statistic)]) for row in numbers]

    def numbers(self, kind: str) -> tuple[list[tuple[Key, Measured]], Numbers]:
        """Return the rows of a kind in order of time, and their statistics."""
        found = list(self._rows.get(kind, {}).items())
        return found, self._fetched([measured for _, measured in found])

    def _fetched(self, found: list[Measured]) -> Numbers:
        numbers = np.empty((len(found), len(STATISTICS)))
        on_device = [at for at, measured in enumerate(found) if measured.numbers is None]
        if on_device:
            numbers[on_device] = self._backend.statistics.fetch([found[at].pending for at in on_device])
        for at, measured in enumerate(found):
            if measured.numbers is not None:
                numbers[at] = measured.numbers[measured.row]
        return numbers

    def rows(self, operations: Mapping[str, Sequence[str]]) -> dict[str, list[Row]]:
        """Return the rows to write: by kind, the statistics `operations[kind]`."""
        written: dict[str, list[Row]] = {}
        for kind in self._rows:
            if kind not in operations:  # measured only for the numbers of another kind
                continue
            found, numbers = self.numbers(kind)
            columns = [STATISTICS.index(operation) for operation in operations[kind]]
            values = numbers[:, columns].tolist()
            written[kind] = [
                Row(key.vpp_stage, key.name, key.micro_step, each, measured.shape, measured.dtype)
                for (key, measured), each in zip(found, values, strict=True)
            ]
        for kind, joined in self._several.items():
            written[kind] = [self._together(key, several, operations[kind]) for key, several in joined.items()]
        for kind, known in self._values.items():
            written[kind] = [Row(*key, numbers, "", "") for key, numbers in known.items()]
        return written

    def _together(self, key: Key, several: list[Measured], operations: Sequence[str]) -> Row:
        columns = dict(zip(STATISTICS, self._fetched(several).T, strict=True))
        values = [float(_TOGETHER[operation](columns[operation])) for operation in operations]
        return Row(key.vpp_stage, key.name, key.micro_step, values, several[-1].shape, several[-1].dtype)

    def clear(self) -> None:
        """Begin the next step."""
        self._rows.clear()
        self._several.clear()
        self._values.clear()


def pairs(names: Mapping[int, Key], tensors: Iterable[tuple[Any, Any]]) -> list[tuple[Key, Any]]:
    """Measure (parameter, tensor) pairs under the names of the parameters; others than monitored ones are omitted."""
    return [(names[id(parameter)], tensor) for parameter, tensor in tensors if id(parameter) in names]
