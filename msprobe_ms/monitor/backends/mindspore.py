"""MindSpore for the monitor: optimizers of `nn`, `experimental.optim` and `mint.optim`, PyNative mode."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.communication import GlobalComm, get_group_rank_from_world_rank, get_rank

from msprobe.base.errors import UsageError
from msprobe.base.framework import check_model
from msprobe.base.patches import Handle, Patches
from msprobe.cell_dump.backends.mindspore.framework import FRAMEWORK
from msprobe.cell_dump.backends.mindspore.tensor import DEVICES, array_of, drain, settle
from msprobe.executors import api
from msprobe.monitor.backend import OF_NOTHING, Numbers, Removal, Update, hook_module

_OF_CELLS = (("exp_avg", "exp_avg_sq"), ("moment1", "moment2"), ("moments1", "moments2"))
"""Where optimizers keep the two moments of their parameters, in the parameters' order."""

Moments: TypeAlias = list[tuple[Parameter, Parameter]]
"""Parameters with a moment of theirs."""

_DRAINS = hasattr(Tensor, "_grad_node")
_WIDE = mindspore.float32


class Optimizer(Protocol):
    """What the optimizers of `nn`, `experimental.optim` and `mint.optim` have in common."""

    parameters: Sequence[Parameter]

    def parameters_and_names(self) -> Iterator[tuple[str, Parameter]]: ...

    def register_forward_pre_hook(self, hook_fn: Callable[..., None], with_kwargs: bool) -> Handle: ...

    def register_forward_hook(self, hook_fn: Callable[[Any, Any, Any], None]) -> Handle: ...


class MindSpore:
    """Trainings of cells."""

    framework = FRAMEWORK
    module: type = nn.Cell

    def __init__(self) -> None:
        self.on_device = mindspore.get_context("device_target") in DEVICES

    def check(self, model: Any, optimizer: object) -> None:
        """Only PyNative mode has hooks in Python."""
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            raise UsageError(
                "set_monitor(): the mode is GRAPH_MODE, in which Python hooks do not run; set PYNATIVE_MODE, or "
                "use task grad_probe, which also collects graphs"
            )
        check_model(model, self.module, self.framework.kind)
        if not isinstance(optimizer, nn.Cell):
            raise UsageError(
                f"set_monitor(): the optimizer is a {type(optimizer).__name__}, but must be from mindspore.nn, "
                "mindspore.experimental.optim or mindspore.mint.optim; pass the optimizer that is called with "
                "the gradients"
            )

    def rank(self) -> int:
        return int(get_rank()) if GlobalComm.INITED else 0

    def group_rank(self, group: Any) -> int:
        return int(get_group_rank_from_world_rank(self.rank(), group)) if GlobalComm.INITED else 0

    def parameters(self, model: nn.Cell) -> Iterable[tuple[str, Parameter]]:
        return [(name, each) for name, each in model.parameters_and_names() if each.requires_grad]

    def modules(self, model: nn.Cell) -> Iterator[tuple[str, nn.Cell]]:
        for name, cell in model.cells_and_names():
            if name and "_recompute_cell" not in name:
                yield name, cell

    def is_training(self, module: nn.Cell) -> bool:
        return bool(module.training) or not _knows_training(module)

    def gradient_hooks(
        self, parameter: Parameter, computed: Callable[[Tensor], None], accumulated: Callable[[], None]
    ) -> Sequence[Handle]:
        return [parameter.register_hook(computed)]  # gradients are results: the training accumulates them

    def is_accumulating(self, parameter: Parameter) -> bool:
        return False

    def accumulated(self, parameter: Parameter, main_grad: bool, is_moved: bool) -> tuple[Any, bool]:
        return None, False

    def module_hook(
        self, module: nn.Cell, before: Callable[[Any, Any], None], after: Callable[[Any, Any, Any], None]
    ) -> Sequence[Handle]:
        return hook_module(module, before, after)

    def out_of_compiled(self, patches: Patches) -> Handle:
        return Removal(_nothing)  # the compiler reads other functions than these

    def update_hook(
        self, optimizer: Optimizer, before: Callable[[Any], None], after: Callable[[], None]
    ) -> Sequence[Handle]:
        def enter(_: Any, args: Any, kwargs: Any) -> None:
            before(args[0] if args else next(iter(kwargs.values()), ()))

        def leave(_: Any, __: Any, ___: Any) -> None:
            after()

        return [optimizer.register_forward_pre_hook(enter, with_kwargs=True), optimizer.register_forward_hook(leave)]

    def update_of(self, optimizer: Optimizer, gradients: Any, main_grad: bool, monitored: Sequence[Any]) -> Update:
        parameters = _parameters_of(optimizer)
        received = list(gradients) if isinstance(gradients, (list, tuple)) else [gradients]
        if len(received) != len(parameters):
            wrong = (
                f"the optimizer has {len(parameters)} parameters and received {len(received)} gradients, which "
                "cannot be assigned to the parameters; pass one gradient for each of optimizer.parameters"
            )
            return Update([], *_moments(optimizer, parameters), wrong)
        pairs = [(p, g) for p, g in zip(parameters, received, strict=True) if isinstance(g, Tensor)]
        return Update(pairs, *_moments(optimizer, parameters))

    def settle(self) -> None:
        if not self.on_device and _DRAINS:
            drain()

    def array(self, tensor: Tensor) -> Numbers:
        if not _DRAINS:
            settle([("", tensor)])
        return array_of(tensor)

    def statistics(self, tensor: Tensor, eps: float) -> Tensor:
        with api._no_grad():
            wide = tensor.astype(_WIDE).reshape(-1)
            if not wide.size:
                return Tensor(OF_NOTHING, _WIDE)
            size = float(wide.size)
            nans = mint.sum((wide != wide).astype(_WIDE))
            low, high = (  # kernels differ in whether an extreme passes NaN on
                ops.where(nans > 0, float("nan"), each.reshape(())) for each in (mint.min(wide), mint.max(wide))
            )
            numbers = (
                mint.sqrt(mint.sum(mint.square(wide))),
                low,
                high,
                mint.sum((mint.abs(wide) < eps).astype(_WIDE)) / size,
                nans,
                mint.mean(wide),
            )
            return ops.stack([each.reshape(()) for each in numbers])

    def copied(self, tensor: Tensor) -> Tensor:
        with api._no_grad():
            return tensor.astype(_WIDE).copy()

    def total(self, copy: Tensor, tensor: Tensor) -> Tensor:
        with api._no_grad():
            return copy + tensor.astype(_WIDE)

    def difference(self, tensor: Tensor, copy: Tensor) -> Tensor:
        with api._no_grad():
            return tensor.astype(_WIDE) - copy

    def same_sign(self, a: Tensor, b: Tensor) -> Tensor:
        with api._no_grad():
            return (mint.sign(a.astype(_WIDE)) == mint.sign(b.astype(_WIDE))).astype(_WIDE)

    def fetch(self, pending: list[Tensor]) -> Numbers:
        with api._no_grad():
            return np.asarray(ops.stack(pending).asnumpy(), np.float64)

    def text(self, tensor: Tensor) -> tuple[str, str]:
        return str(tuple(tensor.shape)), str(tensor.dtype)

    def debugger(self) -> Callable[..., Any]:
        from msprobe.mindspore_debugger import PrecisionDebugger  # here: only an alert needs it

        return PrecisionDebugger


def _parameters_of(optimizer: Optimizer) -> list[Parameter]:
    own = getattr(optimizer, "_parameters", None)
    return list(optimizer.parameters if own is None else own)


def _knows_training(module: nn.Cell) -> bool:
    """A cell's `training` is false until `set_train` is called; what nobody has set says nothing."""
    return "training" in module.get_flags()


def _moments(optimizer: Optimizer, parameters: list[Parameter]) -> tuple[Moments, Moments]:
    """Both moments of an optimizer's parameters, by its own attributes, else by the names of its parameters."""
    for names in _OF_CELLS:
        first, second = (_aligned(getattr(optimizer, name, None), parameters) for name in names)
        if first and second:
            return first, second
    by_name = {parameter.name: parameter for parameter in parameters}
    found: tuple[Moments, Moments] = ([], [])
    for name, parameter in optimizer.parameters_and_names():
        for at, moment in ((1, "exp_avg_sq"), (0, "exp_avg")):
            if moment in name:
                owner = name.partition(moment)[2].lstrip(".")
                if owner in by_name:
                    found[at].append((by_name[owner], parameter))
                break
    return found


def _aligned(moments: object, parameters: list[Parameter]) -> Moments:
    if not isinstance(moments, (list, tuple)) or len(moments) != len(parameters):
        return []
    return [(p, m) for p, m in zip(parameters, moments, strict=True) if isinstance(m, Parameter)]


def _nothing() -> None:
    """Nothing is to be undone."""


BACKEND = MindSpore
