"""The interface of a framework's capability `collecting`: how calls from Python are recorded.

The module `collecting` of each package in `msprobe.frameworks` implements it. A session binds the functions that it
needs once, when it begins.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from msprobe.base.framework import AnyModel, AnyModule, AnyTensor, ModuleKind
from msprobe.base.nested import Leaf
from msprobe.base.patches import Patches, Removable
from msprobe.store.writer import StepWriter

from .backward import Backward
from .collective import Collectives
from .describer import Describer, Sources
from .functions import Dispatch, FunctionCalls
from .gradient import Graph, ModuleHooks
from .unwritten import Memory
from .wrappers import Current

Result = TypeVar("Result")

Hook = Callable[..., Callable[..., None]]
"""Makes of a piece of collecting, and its first arguments, a function that a framework may call."""

Names = dict[int, str]
"""The names of parameters by their ids, where the framework's tensors do not know them themselves."""


class Gradients(Protocol):
    """Places gradient hooks on the inputs and outputs of the calls of one step."""

    running: bool
    """Whether a backward runs now that has passed one of the calls; True where that cannot be known."""

    def inputs(self, tensors: list[Leaf]) -> tuple[Any, int, Sources]:
        """Return, of the tensors among a call's arguments, those that can have a gradient, in a form that `place`
        accepts; the highest sequence number among their nodes; and the producer of each.
        """

    def probe(self, tensors: list[Leaf]) -> int:
        """Return the last sequence number used so far; -1 if there is none."""

    def place(self, backward: Backward, call: str, wanted: Any, outputs: list[Leaf], floor: int) -> None:
        """Hook what reports the gradients of a finished forward call."""

    def notice(self, outputs: list[Leaf]) -> None:
        """Have `running` say when a backward passes a call's outputs, of which nothing else is wanted here."""

    def forget(self) -> None:
        """Let go of everything; hooks that still fire do nothing."""

    def rest(self) -> None:
        """Note that no backward is running, also if an exception ended it."""


class NoGradients:
    """The gradients of a step for a framework without gradients: none."""

    running = False

    def __init__(self, names: Names) -> None:
        self._names = names

    def inputs(self, tensors: list[Leaf]) -> tuple[Any, int, Sources]:
        """Return only the names of the parameters among a call's arguments."""
        named = ((id(tensor), self._names.get(id(tensor))) for _, tensor in tensors)
        return (), -1, {key: json.dumps(f"parameter {name}") for key, name in named if name}

    def probe(self, tensors: list[Leaf]) -> int:
        """Return -1: there are no sequence numbers."""
        return -1

    def place(self, backward: Backward, call: str, wanted: Any, outputs: list[Leaf], floor: int) -> None:
        """Do nothing."""

    def notice(self, outputs: list[Leaf]) -> None:
        """Do nothing."""

    def forget(self) -> None:
        """Do nothing."""

    def rest(self) -> None:
        """Do nothing."""


class Framework:
    """One framework, as the collector of Python's calls sees it. What needs no more than the defaults leaves them.

    The functions that a session binds are static methods where they can be, for they are called often.
    """

    kind: ClassVar[ModuleKind]
    """What the framework's modules are called, and where they keep what they hold."""

    module: ClassVar[type]
    """The class of modules."""

    calls: ClassVar[type[FunctionCalls]]
    """The functions to collect."""

    own_backward = ""
    """The method of a module by which a user writes its backward himself; "" where there is none."""

    next_node: Callable[[], int] | None = None
    """The number that the graph's next node will have, in this thread; None where a user writes no backward of a node
    that is no module's."""

    takes_any_hook: ClassVar[bool] = True
    """Whether a hook of a node may be anything that can be called."""

    early_stop: type[BaseException] | tuple[()] = ()
    """The exception by which a recomputation ends when it has what it needs."""

    modes: tuple[Callable[[], Any], Callable[[], Any]] = (bool, bool)
    """Whether modes of the user see every function, and every operation; `bool` says False. Asked at each call."""

    @staticmethod
    def apart(work: Callable[..., Result], *args: Any) -> Result:
        """Do a piece of collecting that such modes do not see."""
        return work(*args)

    # ---- values ----------------------------------------------------------------------------------------------------

    @staticmethod
    def settle(tensors: Sequence[Leaf]) -> None:
        """Wait until the tensors are computed, and let the training's own errors out. Stands outside of every guard.

        Nothing to do where everything is computed when a call returns, and errors of a device come at its next call.
        """

    @staticmethod
    def before_hook(gradients: tuple[Any, ...]) -> None:
        """Prepare for a hook that received gradients."""

    empty: frozenset[str] = frozenset()
    """The stems of recorded functions whose results hold what nothing has written."""

    @staticmethod
    def memory_of(tensor: AnyTensor) -> Memory | None:
        """Return the memory that a tensor looks into; None if it is not this process's, or nothing is known of it."""
        return None

    @staticmethod
    def memory_is_held(tensor: AnyTensor) -> Callable[[], bool]:
        """Return a function that tells whether the memory that a tensor looks into is still held; it holds none
        itself."""
        raise NotImplementedError

    def writer(self, writer: StepWriter) -> StepWriter:
        """Return `writer`, or a filter in front of it that holds back values that are still on the device."""
        return writer

    def describer(self, writer: StepWriter, **options: Any) -> Describer:
        """Return the describer of values, which reads tensors immediately and from any device; `options` are those of
        `Describer`."""
        raise NotImplementedError

    # ---- modules ---------------------------------------------------------------------------------------------------

    @staticmethod
    def compiled_class(module: AnyModule) -> str:
        """Return the class of a module that is compiled as a whole, with nothing inside to be seen; "" of any other."""
        return ""

    @staticmethod
    def runs_hooks(module: AnyModule) -> bool:
        """Return whether the hooks on a module fire when it is called; False if it is compiled with its hooks."""
        return True

    @staticmethod
    def own_parameters(module: AnyModule, /) -> list[tuple[str, Any]]:
        """Return a module's own parameters, not those of the modules inside, with their names in the module."""
        raise NotImplementedError

    def is_optimizer(self, module: AnyModule) -> bool:
        """Return whether a module holds the parameters of others; False if optimizers are no modules."""
        return False

    def names_of(self, model: AnyModel) -> Iterable[tuple[str, Any]]:
        """Return the parameters of a root by name, where the framework's tensors do not know their names themselves."""
        return model.named_parameters()  # type: ignore[no-any-return]  # a module's

    # ---- gradients -------------------------------------------------------------------------------------------------

    def graph(self, names: Names) -> Graph | None:
        """Return how the autograd graph is read; None if it cannot be."""
        return None

    def gradients(self, hook: Hook, flush: Callable[[], None], names: Names) -> Gradients:
        """Return the gradients of one step; `flush` is to be called when a whole backward has run."""
        raise NotImplementedError

    def module_hooks(self, hook: Hook) -> ModuleHooks:
        """Return the framework's own backward hooks."""
        raise NotImplementedError

    @staticmethod
    def hook_of(tensor: AnyTensor, hook: Callable[[Any], None]) -> tuple[bool, Any]:
        """Hook the gradient of a tensor: whether one can come, and a handle to be removed or None."""
        raise NotImplementedError

    @staticmethod
    def hook_parameter(parameter: Any, hook: Callable[..., None]) -> Any:
        """Hook the gradient of a parameter; return a handle.

        `hook` receives the gradient, and True after it where only the sum with earlier ones is known.
        """
        return parameter.register_hook(hook)

    @staticmethod
    def when_backward_ends(call: Callable[[], None]) -> bool:
        """Have `call` called once after the running backward; return whether the framework supports that."""
        raise NotImplementedError

    # ---- calls -----------------------------------------------------------------------------------------------------

    @property
    def collectives(self) -> Collectives:
        """Return how tensors are exchanged between ranks."""
        return self.calls.collectives

    def guard(self, current: Current, guards: Patches, patches: Removable, unhooked: Callable[[], Any]) -> None:
        """Plan further patches into `guards`: those of compilers and of recomputation. Nothing by default."""

    def dispatch(self, current: Current) -> Dispatch:
        """Return the mode that intercepts each dispatched operation; UsageError if the framework has none."""
        raise NotImplementedError
