"""The frameworks of this installation, and which one a training uses; no framework is imported before it is needed."""

import sys
from collections.abc import Iterator
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.framework import register_tensors

from .interface import (
    PROTOCOLS,
    Distributed,
    Environment,
    Execution,
    Functions,
    Gradients,
    Modules,
    Optimizers,
    Random,
    Statistics,
    Tensors,
)
from .torch_names import torch_on_mindspore

PACKAGES = {name: f"msprobe.frameworks.{name}" for name in ("mindspore", "pytorch", "mindtorch")}
"""The packages of the frameworks by their names, as dumps contain them."""

PYTHON_PACKAGES = {"mindspore": "mindspore", "pytorch": "torch", "mindtorch": "torch"}
"""The packages of Python that these frameworks need."""

REPLACE_REFERENCE = frozenset({"mindtorch"})
"""Frameworks under which `torch` is not the PyTorch that computes results in float64."""

_MODULE_CLASSES = {"mindspore": attrgetter("nn.Cell"), "pytorch": attrgetter("nn.Module")}
"""The classes of modules in these packages. Where there is a model, they are imported."""

CAPABILITIES = (*PROTOCOLS, "collecting", "debugger")


class Framework:
    """One framework. A capability is imported when it is first used; UsageError if the framework does not have it."""

    def __init__(self, name: str, package: str) -> None:
        self.name, self.package = name, package

    def offers(self, capability: str) -> bool:
        """Return whether this framework has a capability; does not import it."""
        return find_spec(f"{self.package}.{capability}") is not None

    def offered(self) -> tuple[str, ...]:
        """Return the capabilities of this framework."""
        return tuple(each for each in CAPABILITIES if self.offers(each))

    def _load(self, capability: str) -> Any:
        try:
            module = import_module(f"{self.package}.{capability}")
        except ModuleNotFoundError as cause:
            if cause.name != f"{self.package}.{capability}":
                raise
            raise UsageError(f"{capability} is not available with {self.name}") from None
        return module.CAPABILITY

    @cached_property
    def tensors(self) -> Tensors:
        found: Tensors = self._load("tensors")
        return found

    @cached_property
    def statistics(self) -> Statistics:
        found: Statistics = self._load("statistics")
        return found

    @cached_property
    def modules(self) -> Modules:
        found: Modules = self._load("modules")
        return found

    @cached_property
    def functions(self) -> Functions:
        found: Functions = self._load("functions")
        return found

    @cached_property
    def gradients(self) -> Gradients:
        found: Gradients = self._load("gradients")
        return found

    @cached_property
    def optimizers(self) -> Optimizers:
        found: Optimizers = self._load("optimizers")
        return found

    @cached_property
    def randomness(self) -> Random:
        found: Random = self._load("randomness")
        return found

    @cached_property
    def execution(self) -> Execution:
        found: Execution = self._load("execution")
        return found

    @cached_property
    def distributed(self) -> Distributed:
        found: Distributed = self._load("distributed")
        return found

    @cached_property
    def environment(self) -> Environment:
        found: Environment = self._load("environment")
        return found

    @cached_property
    def collecting(self) -> Any:
        """How calls are recorded: `msprobe.cell_dump.framework.Framework`."""
        return self._load("collecting")

    @cached_property
    def debugger(self) -> Any:
        """The class `PrecisionDebugger`."""
        return self._load("debugger")


@cache
def framework(name: str) -> Framework:
    """Return a framework by its name. UsageError for an unknown name."""
    if name not in PACKAGES:
        raise UsageError(f"{name!r} is not a framework; choose one of {', '.join(PACKAGES)}")
    return Framework(name, PACKAGES[name])


def register(name: str, package: str, tensors: str) -> None:
    """Add a framework. Its capabilities are modules of `package`; the module `tensors` has its class `Tensor`."""
    PACKAGES[name] = package
    register_tensors(name, tensors)


def api_of(name: str) -> str:
    """Return the framework whose API a framework has: `pytorch` for PyTorch's API on MindSpore."""
    return "pytorch" if name == "mindtorch" else name


def with_api(name: str) -> Framework:
    """Return the framework that has this API in this process."""
    return framework("mindtorch" if name == "pytorch" and torch_on_mindspore() else name)


def name_of_model(model: object) -> str | None:
    """Return the name of the framework of a module; None for other objects. Does not import a framework."""
    if _is_instance(model, "pytorch"):
        return "mindtorch" if torch_on_mindspore() else "pytorch"
    if _is_instance(model, "mindspore"):
        return "mindspore"
    return next((name for name in _registered() if framework(name).modules.is_model(model)), None)


def has_reference() -> bool:
    """Return whether PyTorch, which computes results in float64, is installed; does not import it."""
    return find_spec("torch") is not None


def is_reference_replaced() -> bool:
    """Return whether `torch` is another framework in this process."""
    return torch_on_mindspore()


def _is_instance(model: object, name: str) -> bool:
    package = sys.modules.get(PYTHON_PACKAGES[name])
    try:
        kind = _MODULE_CLASSES[name](package)
    except AttributeError:  # not imported, or being imported
        return False
    return isinstance(model, kind)


def _registered() -> Iterator[str]:
    """Yield the names of the frameworks that `register` added."""
    return (name for name, package in PACKAGES.items() if not package.startswith("msprobe."))
