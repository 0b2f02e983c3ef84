"""The capabilities that a framework may offer, one protocol each.

A framework is a package. Its module of the same name as a capability has an object `CAPABILITY` that implements the
protocol; a framework without the module does not offer the capability (see `registry`). Code outside of
`msprobe.frameworks` uses these protocols and contains no framework names.

How calls from Python are recorded is the capability `collecting`, whose interface uses the classes of the collector:
`msprobe.cell_dump.framework.Framework`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyModel, AnyModule, AnyOptimizer, AnyParameter, AnyTensor, ModuleKind
from msprobe.base.patches import Handle, Patches
from msprobe.base.statistic import Array
from msprobe.store.monitor.layout import STATISTICS

OF_NOTHING = tuple(0.0 if name == "nans" else math.nan for name in STATISTICS)
"""The statistics of a tensor without elements, in the order of `STATISTICS`."""


# ---- data ----------------------------------------------------------------------------------------------------------


class Refusal(Enum):
    """Reasons why a call cannot be executed again; the names are those of `msprobe.perturb.finding.Cause`."""

    FOREIGN = "a tensor is of a class that cannot be copied safely"
    TRANSFORM = "the call runs inside a function transform"
    NO_DATA = "a tensor has no elements now"
    NO_GRADIENT = "no input, or no output, can have a gradient"


class Refused(Exception):  # not an error: the call is not executed again
    """A call cannot be executed again."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason.value)
        self.reason = reason


class NotAnOptimizerError(UsageError, ValueError):
    """`monitor` was called with an object that has no parameters, or does not update them."""


class Update(NamedTuple):
    """The tensors of one update of an optimizer, before the update begins.

    `gradients` and the moments are (parameter, tensor) pairs, for the parameters that have one. `wrong` is the reason
    why there are no gradients.
    """

    gradients: list[tuple[AnyParameter, AnyTensor]]
    exp_avg: list[tuple[AnyParameter, AnyTensor]]
    exp_avg_sq: list[tuple[AnyParameter, AnyTensor]]
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class RandomFunction:
    """A function that draws numbers, or sets a generator: its module or `module:class`, and its name."""

    owner: str
    name: str
    prefix: str = ""

    @property
    def op(self) -> str:
        """Its name in a pack."""
        return f"{self.prefix or self.owner.replace(':', '.')}.{self.name}"


def random_functions(owner: str, names: Sequence[str], prefix: str = "") -> tuple[RandomFunction, ...]:
    """Return several functions of one owner."""
    return tuple(RandomFunction(owner, name, prefix) for name in names)


class Removal:
    """A handle whose `remove` calls `function` once."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function: Callable[[], Any] | None = function

    def remove(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function()


Before = Callable[[Any, Any], None]
"""Called before a module with its positional and keyword arguments."""

After = Callable[[Any, Any, Any], None]
"""Called after a module with its positional and keyword arguments and its result."""


def hook_module(module: AnyModule, before: Before, after: After) -> Sequence[Handle]:
    """Hook a module by its own `register_forward_*` methods; the hooks return None, so they change nothing."""

    def enter(_: Any, args: Any, kwargs: Any) -> None:
        before(args, kwargs)

    def leave(_: Any, args: Any, kwargs: Any, result: Any) -> None:
        after(args, kwargs, result)

    return [
        module.register_forward_pre_hook(enter, with_kwargs=True),
        module.register_forward_hook(leave, with_kwargs=True),
    ]


# ---- capabilities --------------------------------------------------------------------------------------------------


class Tensors(Protocol):
    """Reading, creating and copying tensors."""

    type_name: str
    """The type of tensors in records: `torch.Tensor`."""

    def is_tensor(self, value: object) -> bool:
        """Return whether a value is a tensor of this framework."""

    def settle(self, tensors: Sequence[AnyTensor] = ()) -> None:
        """Wait for queued operations and raise errors of the training; call it outside of code that catches errors.

        A framework that cannot wait for all operations waits for those that compute the tensors.
        """

    def array(self, tensor: AnyTensor) -> Array:
        """Return the elements, possibly in memory of the tensor; bfloat16 may need `statistic.widen`."""

    def array_to_save(self, tensor: AnyTensor) -> Array:
        """Return the elements for a file or for statistics; of a distributed tensor those of this rank.

        The dtype is that of the tensor if NumPy supports it. Raises UsageError for a tensor that is not initialized,
        because reading it would run its initializer, and errors of the framework.
        """

    def text(self, tensor: AnyTensor) -> tuple[str, str]:
        """Return shape and dtype as files of the monitor contain them."""

    def dtype(self, tensor: AnyTensor) -> str:
        """Return the dtype in NumPy's notation: `float32`, `bool`."""

    def dtype_of_name(self, name: str) -> Any:
        """Return the framework's dtype with a recorded name, `mindspore.float32`; None if there is none."""

    def create(self, array: Array, dtype: str, place: Any = None) -> AnyTensor:
        """Return a tensor with the elements of an array, which has float32 for bfloat16; `place`: see `Execution`."""

    def refuse(self, tensors: Sequence[object]) -> None:
        """Raise Refused if one of a call's tensors cannot be read or copied, or if a transform executes the call."""

    def float_dtype(self, tensor: AnyTensor) -> Any:
        """Return the dtype of a dense tensor; None for a tensor with another layout."""

    def copy(self, tensor: AnyTensor) -> AnyTensor:
        """Return a tensor in separate memory with the same values and layout, without gradient."""

    def recorded_copy(self, tensor: AnyTensor) -> AnyTensor:
        """Return a copy through which gradients flow."""

    def with_values(self, values: Array, like: AnyTensor) -> AnyTensor:
        """Return a tensor with the dtype, layout and device of `like` and these values, without gradient."""

    def resized(self, values: Array, like: AnyTensor) -> AnyTensor:
        """Return a tensor with the dtype and device of `like` and these values in their shape, without gradient."""

    def raised(self, tensor: AnyTensor, *, recorded: bool = False) -> AnyTensor:
        """Return a tensor as float32; with `recorded`, gradients flow back to `tensor`."""

    def on_cpu(self, tensor: AnyTensor, *, recorded: bool = False) -> AnyTensor:
        """Return a copy on the CPU; with `recorded`, gradients flow back to `tensor`."""

    def is_on_cpu(self, tensor: AnyTensor) -> bool:
        """Return whether a tensor is on the CPU."""

    def cast(self, tensor: AnyTensor, like: AnyTensor) -> AnyTensor:
        """Return a tensor with the dtype and device of another one, recorded for gradients."""

    def memory(self, tensor: AnyTensor) -> tuple[int, int]:
        """Return the first address of the elements and the one after the last; equal if there are no elements."""

    def version(self, tensor: AnyTensor) -> int | None:
        """Return the number of writes to the memory of a tensor; None if the framework does not count them."""

    def write(self, tensor: AnyTensor, values: AnyTensor) -> None:
        """Write the elements of `values`, a tensor of the same dtype and shape, into the memory of a tensor.

        Gradients do not notice it, and it is not counted as a write.
        """


class Statistics(Protocol):
    """Computing on the device of a tensor; every result remains there until `fetch`."""

    def is_on_device(self, parameters: Iterable[AnyParameter]) -> bool:
        """Return whether reading a tensor waits for a device. Evaluated once, when a monitor begins."""

    def of(self, tensor: AnyTensor, eps: float) -> AnyTensor:
        """Return the statistics of a tensor, in the order of `layout.STATISTICS`."""

    def copied(self, tensor: AnyTensor) -> AnyTensor:
        """Return a copy of a tensor."""

    def total(self, copy: AnyTensor, tensor: AnyTensor) -> AnyTensor:
        """Return the sum of a copy and a tensor."""

    def difference(self, tensor: AnyTensor, copy: AnyTensor) -> AnyTensor:
        """Return a tensor minus a copy, in float32."""

    def same_sign(self, a: AnyTensor, b: AnyTensor) -> AnyTensor:
        """Return 1 where two tensors have the same sign, else 0."""

    def fetch(self, pending: list[AnyTensor]) -> Array:
        """Return results of `of` as float64, in one transfer."""


class Modules(Protocol):
    """The modules of a model, their parameters, and hooks on their calls."""

    @property
    def kind(self) -> ModuleKind:
        """Names of the class of modules, and the attribute with the modules inside."""

    def is_model(self, value: object) -> bool:
        """Return whether a value is a module of this framework."""

    def check(self, model: AnyModel) -> None:
        """Raise UsageError if `model` is not a module or several of them, or if its calls cannot be hooked now."""

    def parameters(self, model: AnyModule) -> Iterable[tuple[str, AnyParameter]]:
        """Return the parameters of a model with their paths, each once."""

    def name_of(self, parameter: AnyParameter) -> str:
        """Return the name that a parameter itself has; empty if parameters have no names."""

    def inside(self, model: AnyModule) -> Iterable[tuple[str, AnyModule]]:
        """Return the modules inside a model with their dotted names, each once."""

    def is_training(self, module: AnyModule) -> bool:
        """Return whether a module is in training mode."""

    def hook(self, module: AnyModule, before: Before, after: After) -> Sequence[Handle]:
        """Call `before(args, kwargs)` and `after(args, kwargs, result)` at each call of a module."""

    def before_calls(
        self, model: AnyModule, before: Callable[[Sequence[Any], Mapping[str, Any]], None]
    ) -> Callable[[], None]:
        """Call `before(args, kwargs)` before each call of a model, also of a compiled one; return a function that ends
        this.
        """

    def without_compiled(self, patches: Patches) -> Handle:
        """Remove `patches` while code is compiled or runs compiled, until the handle is removed."""


class Functions(Protocol):
    """The functions of the framework."""

    def apis(self) -> Iterator[tuple[Any, str, str]]:
        """Yield the functions that are recorded: owner of the attribute, its name, stem of the names of calls."""

    def by_stem(self, stem: str) -> Callable[..., Any] | None:
        """Return the function whose calls have this stem; None if this installation does not have it."""

    def public_name(self, owner: Any, name: str, stem: str) -> str:
        """Return the full name by which users call a function: `mindspore.ops.bmm`, `torch.Tensor.add`."""

    def is_random(self, owner: Any, name: str) -> bool:
        """Return whether a function draws from a generator whose state cannot be restored."""


class Gradients(Protocol):
    """Gradients of parameters while a training runs, and gradients of one call that is executed again."""

    def hook(
        self, parameter: AnyParameter, computed: Callable[[AnyTensor], None], accumulated: Callable[[], None]
    ) -> Sequence[Handle]:
        """Call `computed(gradient)` for each gradient of a parameter and, if the framework accumulates gradients,
        `accumulated()` afterwards, before any reduction.
        """

    def is_accumulating(self, parameter: AnyParameter) -> bool:
        """Return whether the framework holds a nonzero gradient, to which it adds the next one."""

    def accumulated(self, parameter: AnyParameter, main_grad: bool, is_moved: bool) -> tuple[AnyTensor, bool]:
        """Return the accumulated gradient of a parameter, None if there is none, and whether it is complete.

        `is_moved`: the gradients of earlier micro steps are in `main_grad`, if the parameter has one.
        """

    def mode(self) -> Any:
        """Return whether the framework records gradients now, in the form that `set_mode` accepts."""

    def set_mode(self, mode: Any) -> None:
        """Restore the mode."""

    def may_be_needed(self, tensor: AnyTensor) -> bool:
        """Return whether the training may need gradients of a tensor."""

    @property
    def can_repeat(self) -> bool:
        """Return whether `of_call` is available."""

    def of_call(
        self, run: Callable[[Sequence[AnyTensor]], list[AnyTensor]], tensors: Sequence[AnyTensor], wanted: Sequence[int]
    ) -> list[Any]:
        """Return the gradients of the tensors at the places `wanted`, for output gradients of ones.

        None for a tensor without a gradient. `run` returns the outputs of a call with other tensors. Raises Refused
        if no gradient can be computed.
        """

    def vector_jacobian(
        self,
        function: Callable[..., Sequence[AnyTensor]],
        inputs: Sequence[AnyTensor],
        incoming: Sequence[AnyTensor],
    ) -> Sequence[AnyTensor | None]:
        """Return the gradients of the inputs of a function for the gradients of its outputs."""

    def substitute(self, own: AnyTensor, value: AnyTensor) -> AnyTensor:
        """Return a tensor with the elements of `value`, whose gradient flows back to `own` unchanged; zeros if the two
        have different shapes."""


class GradientWatch(Protocol):
    """Receives the gradients of the updates of one optimizer; its methods do not raise exceptions."""

    def wants(self, name: str) -> bool:
        """Return whether the gradient of a parameter is recorded."""

    def begin(self) -> bool:
        """Begin an update; return whether it is recorded."""

    def take(self, name: str, array: Callable[[], Array]) -> None:
        """Record the gradient of a parameter; `array` returns its elements."""

    def end(self) -> None:
        """End the update."""


class GradientProbe(Protocol):
    """Creates watches of optimizers."""

    destination: Any
    """The folder of the tables (`root()`) and the rank (`rank()`)."""

    def watch(self, names: list[str]) -> GradientWatch:
        """Return the watch of an optimizer whose parameters have these names."""

    def at_stop(self, finish: Callable[[], None]) -> None:
        """Call `finish` when the debugger is stopped, and at the end of the process."""


class Optimizers(Protocol):
    """Updates of parameters."""

    def check(self, optimizer: AnyOptimizer) -> None:
        """Raise UsageError if the updates of an object cannot be monitored."""

    def parameters(self, optimizer: AnyOptimizer) -> list[AnyParameter]:
        """Return the parameters that an optimizer updates."""

    def hook(
        self, optimizer: AnyOptimizer, before: Callable[[Any], None], after: Callable[[], None]
    ) -> Sequence[Handle]:
        """Call `before(gradients)` and `after()` at each update; the gradients are None if the parameters hold them."""

    def update_of(
        self, optimizer: AnyOptimizer, gradients: Any, main_grad: bool, monitored: Sequence[AnyParameter]
    ) -> Update:
        """Return the tensors of an update; of `monitored` parameters also if the optimizer updates copies of them."""

    def report_gradients(self, optimizer: AnyOptimizer, probe: GradientProbe) -> None:
        """Report the gradients of each update of an optimizer to a watch of `probe`, also in compiled graphs.

        Raises NotAnOptimizerError.
        """


class Random(Protocol):
    """Random numbers."""

    functions: tuple[RandomFunction, ...]
    """Functions that draw numbers or set generators, which config_check counts."""

    is_traced: Callable[[], bool] | None
    """Returns whether a compiler traces the call; None if compilers do not execute wrappers."""

    def states(self, tensors: Sequence[AnyTensor]) -> bytes:
        """Return the state of the generators from which a call with these tensors may draw."""

    def restored(self, tensors: Sequence[AnyTensor]) -> AbstractContextManager[Any]:
        """Restore the generators at the end of a block."""


class Execution(Protocol):
    """Executing a call again."""

    has_places: bool
    """Whether a call can be executed on another device."""

    def place(self, device: int) -> Any:
        """Prepare to execute recorded calls on a device; return the `place` for `Tensors.create`."""

    def check(self) -> None:
        """Raise UsageError if calls from Python cannot be executed again in this mode."""

    def guard(self, current: Any, guards: Patches, patches: Patches) -> None:
        """Plan into `guards` the patches that remove `patches` while code is compiled or runs compiled."""

    def autocast_dtype(self, tensors: Sequence[AnyTensor]) -> Any:
        """Return the dtype in which functions compute because of autocast; None without autocast."""

    def in_full_precision(self, tensors: Sequence[AnyTensor]) -> AbstractContextManager[Any]:
        """Compute in the dtype of the arguments in a block."""

    def unnoticed(self, tensors: Sequence[AnyTensor]) -> AbstractContextManager[Any]:
        """Record no gradients in a block, hide it from modes of the user, and restore the generators at its end."""


class Distributed(Protocol):
    """Ranks, groups and collectives."""

    def is_initialized(self) -> bool:
        """Return whether communication is initialized."""

    def rank(self) -> int:
        """Return the rank of this process; 0 without communication."""

    def size(self) -> int:
        """Return the number of processes; 1 without communication."""

    def group_rank(self, group: Any) -> int:
        """Return the rank of this process in a group."""

    def collectives(self) -> tuple[tuple[ModuleType, ...], frozenset[str]]:
        """Return the modules and names of the functions that exchange tensors between ranks."""


class Environment(Protocol):
    """Settings of the framework."""

    def settings(self) -> dict[str, Any]:
        """Return the settings of the framework that influence numerical results, as far as this version has them."""


PROTOCOLS: dict[str, type] = {
    "tensors": Tensors,
    "statistics": Statistics,
    "modules": Modules,
    "functions": Functions,
    "gradients": Gradients,
    "optimizers": Optimizers,
    "randomness": Random,
    "execution": Execution,
    "distributed": Distributed,
    "environment": Environment,
}
"""The capabilities by the names of their modules, without `collecting`."""
