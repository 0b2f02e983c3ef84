"""PyTorch's functions: which are collected, and under which names.

The list is made from the framework itself: every public function of the namespaces below, and the methods and operators
of Tensor that take or return tensors. Only the outermost call is recorded.

The functions are changed in place while a collection is open (`base/in_place.py`), and not seen by a
`TorchFunctionMode`: under a mode the fast paths of `MultiheadAttention` and `TransformerEncoderLayer` are not taken, so
that other bits come out; a mode receives nothing of collectives, and every look at an attribute (`x.shape`) as well.
"""

from collections.abc import Callable, Iterator
from functools import cached_property, partial, wraps
from inspect import getattr_static
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

import torch
from torch import Tensor, distributed
from torch.multiprocessing.reductions import StorageWeakRef

from msprobe.base.in_place import Place
from msprobe.cell_dump.call_sites import Users
from msprobe.cell_dump.collective import Collectives
from msprobe.cell_dump.functions import FunctionCalls
from msprobe.cell_dump.unwritten import Memory
from msprobe.cell_dump.wrappers import Current
from msprobe.frameworks.torch_names import ARBITRARY, COLLECTIVES, LEFT_OUT, MANAGING, OPERATORS

_HAS_COLLECTIVES = distributed.is_available()

NAMESPACES: tuple[tuple[str, ModuleType], ...] = (
    ("Functional", torch.nn.functional),  # first: `conv2d` and others are in `torch` too, and are called from here
    ("Torch", torch),
    ("Torch", torch.linalg),  # as the other tool has it: `torch.linalg.norm` is `Torch.norm` too
    ("Torch", torch.fft),
    ("Torch", torch.special),
)
"""Prefix of the names and the module whose public functions they are."""

VF = ("gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell")
"""Functions in `torch._VF` that the recurrent layers call; the others are recorded where users call them."""

NAMESAKES = ((torch.linalg, "cond"),)
"""Functions that have a name of `LEFT_OUT` and are none of it: this one gives the condition number of a matrix."""

_FUNCTIONS = (FunctionType, BuiltinFunctionType)
_METHODS = (*_FUNCTIONS, MethodDescriptorType, WrapperDescriptorType)


def functions() -> Iterator[tuple[Any, str, str]]:
    """Yield the recorded functions: owner of the attribute, its name, stem of the names of calls."""
    for prefix, module in NAMESPACES:
        for name in sorted(vars(module)):
            public = not name.startswith(("_", *MANAGING)) and name not in LEFT_OUT
            if (public or (module, name) in NAMESAKES) and isinstance(vars(module)[name], _FUNCTIONS):
                yield module, name, f"{prefix}.{name}"
    listed = ((torch._VF, "VF", VF), (distributed, "Distributed", COLLECTIVES if _HAS_COLLECTIVES else ()))
    for owner, prefix, names in listed:
        yield from ((owner, name, f"{prefix}.{name}") for name in names if hasattr(owner, name))
    for name in sorted(set(dir(Tensor))):
        public = not name.startswith("_") and name not in LEFT_OUT
        if (public or name in OPERATORS) and isinstance(getattr_static(Tensor, name, None), _METHODS):
            yield Tensor, name, f"Tensor.{name}"


class Functions:
    """The functions of PyTorch."""

    @cached_property
    def _by_stem(self) -> dict[str, Callable[..., Any]]:
        return {stem: getattr(owner, name) for owner, name, stem in self.apis()}

    def apis(self) -> Iterator[tuple[Any, str, str]]:
        return functions()

    def by_stem(self, stem: str) -> Callable[..., Any] | None:
        return self._by_stem.get(stem)

    def public_name(self, owner: Any, name: str, stem: str) -> str:
        return f"torch.Tensor.{name}" if owner is Tensor else f"{owner.__name__}.{name}"

    def is_random(self, owner: Any, name: str) -> bool:
        return False  # the states of all generators can be restored


CAPABILITY = Functions()


def _resizing(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, after which a storage that had no bytes holds what nothing has written: sharded training frees and
    allocates its buffers so.
    """

    @wraps(original)
    def resize_(storage: torch.UntypedStorage, *args: Any, **kwargs: Any) -> Any:
        session = current()
        is_freed = session is not None and session.listens() and storage.device.type == "cpu" and not storage.nbytes()
        result = original(storage, *args, **kwargs)
        if session is not None and is_freed and storage.nbytes():
            memory, held = Memory(storage.data_ptr(), storage.nbytes(), None), StorageWeakRef(storage)
            session.guard(session.unwritten_memory, memory, lambda: not held.expired())
        return result

    return resize_


def empty() -> Iterator[tuple[Any, str]]:
    """The functions whose results hold what nothing has written: (owner of the attribute, its name)."""
    for owner in (torch, Tensor):
        yield from ((owner, name) for name in sorted(ARBITRARY) if callable(getattr_static(owner, name, None)))


_GIVES_MEMORY = object()
"""Marks functions whose calls are not recorded, but whose results hold what nothing has written."""


class Calls(FunctionCalls):
    """PyTorch's functions."""

    users = Users(layers=("torch.nn.modules.", "torch.nn.attention.", "torch.ao.nn."))
    tensor = Tensor
    collectives = Collectives(
        message_type="torch.distributed.P2POp",
        handles=(distributed.Work,) if _HAS_COLLECTIVES else (),
        messages=(distributed.P2POp,) if _HAS_COLLECTIVES else (),
    )
    golden = "PyTorch"
    functions = staticmethod(functions)

    def _plan_memory(self) -> None:
        for owner, name in empty():
            self._in_place.add(owner, name, _GIVES_MEMORY, inherits=owner is Tensor)
        self._patches.add(torch.UntypedStorage, "resize_", partial(_resizing, self._current))

    def _recorded(self, original: Callable[..., Any], places: list[Place], frames: int | None) -> Callable[..., Any]:
        if any(each.data is _GIVES_MEMORY for each in places):
            return _noting(self._current, original)
        return super()._recorded(original, places, frames)


def _noting(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, whose results hold what nothing has written; its calls are not recorded."""

    @wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        session = current()
        if session is not None and session.listens():
            session.guard(session.unwritten, result)
        return result

    return call
