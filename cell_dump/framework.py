"""The one interface behind which the frameworks differ: how to read a tensor, how to hook a module and a gradient,
which functions to see.

`mindspore_side/framework.py` and `pytorch_side/framework.py` implement it, and `mindtorch_side/framework.py` for
PyTorch's API on MindSpore; nothing else in this room knows a framework (these three apart). A session binds the
functions it needs once, at its beginning.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from msprobe.base.framework import Kind
from msprobe.base.nested import Leaf
from msprobe.base.patches import Patches
from msprobe.base.settings import Settings
from msprobe.store.writer import Writer

from .backward import Backward
from .describer import Describer, Sources
from .module_hooks import ModuleHooks

Hook = Callable[..., Callable[..., None]]
"""Makes of a piece of collecting, and its first arguments, a function that a framework may call."""

Current = Callable[[], Any]
"""Gives the session that records."""

Names = dict[int, str]
"""The names of parameters by their ids, where the framework's tensors do not know them themselves."""


class Gradients(Protocol):
    """Places gradient hooks on what the calls of one step gave and were given."""

    @property
    def running(self) -> bool:
        """Whether a backward runs now that has passed one of the calls; True where that cannot be known."""

    def inputs(self, tensors: list[Leaf]) -> tuple[Any, int, Sources]:
        """Of the tensors among a call's arguments: those that can have a gradient, in a form that `place` understands;
        the highest sequence number among their nodes; who produced each.
        """

    def probe(self, tensors: list[Leaf]) -> int:
        """The last sequence number given so far; -1 where there is none."""

    def place(self, backward: Backward, call: str, wanted: Any, outputs: list[Leaf], floor: int) -> None:
        """Hook what tells the gradients of a finished forward call."""

    def notice(self, outputs: list[Leaf]) -> None:
        """Have `running` tell when a backward passes what a call gave, of which nothing else is wanted here."""

    def forget(self) -> None:
        """Let go of everything; hooks that still fire find nobody to tell."""

    def rest(self) -> None:
        """No backward runs any more, also none that an exception ended."""


class FunctionSources(Protocol):
    """What is collected besides modules: functions and their like (L1 and mix)."""

    def plan(self, roots: list[Any], names_from: str = "", rank: str = "") -> None:
        """Plan patches for what is there now, before each `start`, while nothing is installed."""


class Framework(Protocol):
    """One framework, as the collector of Python's calls sees it."""

    kind: Kind
    """What the framework's modules are called, and where they keep what they hold."""

    module: type
    """The class of modules."""

    own_backward: str
    """The method of a module by which a user writes its backward himself; "" where there is none."""

    next_node: Callable[[], int] | None
    """The number that the graph's next node will have, in this thread; None where a user writes no backward of a node
    that is no module's."""

    # ---- values ----------------------------------------------------------------------------------------------------

    def settle(self, tensors: Sequence[Leaf]) -> None:
        """Wait until the tensors are computed, and let the training's own errors out. Stands outside of every guard."""

    def before_hook(self, given: tuple[Any, ...]) -> None:
        """The same, at the beginning of a hook that was given gradients."""

    def writer(self, writer: Writer) -> Writer:
        """`writer`, or one in front of it that holds back what is still on the device."""

    def describer(self, writer: Writer, *, saves: bool, digests: bool) -> Describer:
        """Makes records of values, now, from tensors wherever they are."""

    modes: tuple[Callable[[], Any], Callable[[], Any]]
    """Whether modes of the user see every function, and every operation; asked at each call, so they are no methods."""

    def apart(self, work: Callable[..., Any], *args: Any) -> Any:
        """Do a piece of collecting that such modes do not see."""

    # ---- modules ---------------------------------------------------------------------------------------------------

    def own_parameters(self, module: Any) -> list[tuple[str, Any]]:
        """A module's own parameters, not those of the modules inside, with their names."""

    def is_optimizer(self, module: Any) -> bool:
        """Whether a module holds the parameters of others."""

    def names_of(self, model: Any) -> Iterable[tuple[str, Any]]:
        """The parameters of a root by name, where the framework's tensors do not know their names themselves."""

    # ---- gradients -------------------------------------------------------------------------------------------------

    def gradients(self, hook: Hook, flush: Callable[[], None], names: Names) -> Gradients:
        """The gradients of one step; `flush` is to be told when a whole backward has run."""

    def module_hooks(self, hook: Hook) -> ModuleHooks:
        """The framework's own backward hooks."""

    def hook_of(self, tensor: Any, told: Callable[[Any], None]) -> tuple[bool, Any]:
        """Have the gradient of a tensor told, where one can come: whether it can; a handle to be removed, or None."""

    def when_backward_ends(self, told: Callable[[], None]) -> bool:
        """From inside a backward: be told once when it has run as a whole; whether the framework tells this."""

    # ---- calls -----------------------------------------------------------------------------------------------------

    def is_early_stop(self, cause: BaseException) -> bool:
        """Whether an exception is the way in which a recomputation ends when it has what it needs."""

    def handles(self, result: Any) -> list[Any]:
        """The handles to wait for among what an asynchronous exchange between ranks gave."""

    def messages(self, value: Any) -> Any:
        """`value` with each message between two ranks, which is no container, replaced by what it says."""

    def sources(self, current: Current, patches: Patches) -> FunctionSources:
        """The functions to collect; their places are taken and given back with `patches`."""

    def guard(self, current: Current, guards: Patches, patches: Patches, unhooked: Callable[[], Any]) -> None:
        """Plan into `guards` what is in place besides: who compiles code, and who recomputes."""

    def finest(self, current: Current, settings: Settings) -> Any:
        """What sees each operation that is dispatched, to be joined to patches; UsageError where it cannot be had."""
