"""A recorded call as its own framework executes it, forward or backward, on the current device: what backends share.

A dump is a foreign file, so a name is never looked up freely: only the functions that a collector of that framework
would have recorded are executed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from msprobe.base.errors import UsageError
from msprobe.replay.recorded import Array, CannotReplay, Cause, Leaf, Named, Path, RecordedCall, leaves, mapped
from msprobe.replay.references import Given, given

Tensor = Any


class CannotRun(Exception):
    """The framework has no such function here, or refused the call; `str` is its own word."""


@dataclass(frozen=True)
class Executed:
    """The outputs of an execution by path, or the gradients in the order of the call's own (None: there was none)."""

    outputs: Mapping[Path, Given]
    gradients: tuple[Given | None, ...] = ()


class Executor(ABC):
    """One framework. The first call settles the device."""

    @abstractmethod
    def function(self, call: RecordedCall) -> Callable[..., Any]:
        """The function of a call; CannotRun where this installation has none."""

    @abstractmethod
    def tensor(self, array: Array, dtype: str) -> Tensor:
        """A tensor of a numpy array; one of bfloat16 comes as float32."""

    @abstractmethod
    def array(self, tensor: Tensor) -> Array:
        """The elements, of bfloat16 as float32."""

    @abstractmethod
    def dtype(self, tensor: Tensor) -> str:
        """The dtype as NumPy calls it."""

    @abstractmethod
    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor of this framework."""

    @abstractmethod
    def named(self, value: Named) -> Any:
        """A dtype (anything else that was recorded by its name is left out: None)."""

    @abstractmethod
    def copied(self, tensor: Tensor) -> Tensor:
        """A copy that gradients pass through."""

    @abstractmethod
    def vector_jacobian(
        self, function: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], incoming: Sequence[Tensor]
    ) -> Sequence[Tensor | None]:
        """The gradients of the inputs."""

    def run(self, call: RecordedCall) -> Executed:
        """Execute a call; CannotRun with the framework's own word where it refuses."""
        try:
            return self._backward(call) if call.is_backward else self._forward(call)
        except (CannotRun, CannotReplay):
            raise
        except Exception as err:  # frameworks raise what they like
            words = " ".join(str(err).split())
            raise CannotRun(f"{type(err).__name__}: {words[:200]}") from err

    def _forward(self, call: RecordedCall) -> Executed:
        tensors = {leaf: self.tensor(leaf.array, leaf.dtype) for leaf in leaves([call.args, call.kwargs])}
        found = list(flat(self._called(call, tensors)))
        if not any(self.is_tensor(value) for _, value in found):  # a shape
            numbers = {path: np.array(value) for path, value in found if type(value) in (int, bool)}
            return Executed(
                {p: given(call.outputs[p], n, str(n.dtype)) for p, n in numbers.items() if p in call.outputs}
            )
        return Executed({path: self._given(call, path, value) for path, value in found if self.is_tensor(value)})

    def _called(self, call: RecordedCall, tensors: Mapping[Leaf, Tensor]) -> Any:
        def argument(value: Any) -> Any:
            if isinstance(value, Leaf):
                return tensors[value]
            return self.named(value) if isinstance(value, Named) else value

        function = self.function(call)
        args, kwargs = mapped(call.args, argument), mapped(call.kwargs, argument)
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError):  # a record does not tell a list from a tuple
            if not any(isinstance(value, tuple) for value in (*args, *kwargs.values())):
                raise
            return function(*map(_listed, args), **{key: _listed(value) for key, value in kwargs.items()})

    def _given(self, call: RecordedCall, path: Path, value: Tensor) -> Given:
        like = call.outputs.get(path) or next(iter(call.outputs.values()))
        return given(like, self.array(value), self.dtype(value))

    def _backward(self, call: RecordedCall) -> Executed:
        wanted = [leaf for leaf, _ in call.gradients]
        if len(set(wanted)) < len(wanted):
            raise CannotReplay(Cause.ACCUMULATED_GRADIENT, call.name)
        paths = list(call.incoming)
        others = {
            leaf: self.tensor(leaf.array, leaf.dtype)
            for leaf in leaves([call.args, call.kwargs])
            if leaf not in set(wanted)
        }

        def function(*values: Tensor) -> Sequence[Tensor]:
            copies = [self.copied(value) for value in values]
            found = dict(flat(self._called(call, {**others, **dict(zip(wanted, copies, strict=True))})))
            return tuple(found[path] for path in paths)

        gradients = self.vector_jacobian(
            function,
            [self.tensor(leaf.array, leaf.dtype) for leaf in wanted],
            [self.tensor(leaf.array, leaf.dtype) for leaf in call.incoming.values()],
        )
        return Executed(
            {},
            tuple(
                None if value is None else given(record, self.array(value), self.dtype(value))
                for (_, record), value in zip(call.gradients, gradients, strict=True)
            ),
        )


def _listed(value: Any) -> Any:
    return [_listed(inner) for inner in value] if isinstance(value, tuple) else value


def flat(found: Any) -> Iterator[tuple[Path, Any]]:
    """Outputs by path; a single one is the first."""

    def walk(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
        if isinstance(value, (tuple, list)):
            for place, inner in enumerate(value):
                yield from walk(inner, (*path, str(place)))
        else:
            yield path, value

    return walk(found if isinstance(found, (tuple, list)) else (found,), ())


BACKENDS = ("mindspore", "pytorch")
"""Frameworks whose calls can be executed; the module of each is called like it."""


@cache
def executor_of(framework: str, device: int = 0) -> Executor:
    """The executor of a framework; UsageError where that is not installed."""
    try:
        module = import_module(f"msprobe.precheck.backends.{framework}")
    except ModuleNotFoundError as err:
        if err.name is None or err.name.split(".")[0] not in ("mindspore", "torch"):
            raise
        raise UsageError(
            f"{err.name.split('.')[0]} is not installed here, so calls of {framework} cannot be executed; install "
            "it, or use --no-run to judge the recorded outputs of a dump of task tensor"
        ) from err
    made: Executor = module.Executor(device)
    return made


def contiguous(array: Array) -> Array:
    """An array of its own, in C order."""
    return np.array(array, order="C")
