"""Optimizers of MindSpore (`nn`, `experimental.optim`, `mint.optim`), which are called with the gradients."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from mindspore import Parameter, Tensor, nn

from msprobe.base.errors import UsageError
from msprobe.base.patches import Handle
from msprobe.frameworks.interface import GradientProbe, Update

_OF_CELLS = (("exp_avg", "exp_avg_sq"), ("moment1", "moment2"), ("moments1", "moments2"))
"""Attributes in which optimizers keep the two moments of their parameters, in the order of the parameters."""

Moments: TypeAlias = list[tuple[Parameter, Parameter]]
"""Parameters with one of their moments."""


class Optimizer(Protocol):
    """The common interface of the optimizers of `nn`, `experimental.optim` and `mint.optim`."""

    parameters: Sequence[Parameter]

    def parameters_and_names(self) -> Iterator[tuple[str, Parameter]]: ...

    def register_forward_pre_hook(self, hook_fn: Callable[..., None], with_kwargs: bool) -> Handle: ...

    def register_forward_hook(self, hook_fn: Callable[[Any, Any, Any], None]) -> Handle: ...


class Optimizers:
    """Optimizers of MindSpore."""

    def check(self, optimizer: object) -> None:
        if not isinstance(optimizer, nn.Cell):
            raise UsageError(
                f"set_monitor(): the optimizer is a {type(optimizer).__name__}, but must be from mindspore.nn, "
                "mindspore.experimental.optim or mindspore.mint.optim; pass the optimizer that is called with "
                "the gradients"
            )

    def parameters(self, optimizer: Optimizer) -> list[Parameter]:
        return _parameters_of(optimizer)

    def hook(self, optimizer: Optimizer, before: Callable[[Any], None], after: Callable[[], None]) -> Sequence[Handle]:
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

    def report_gradients(self, optimizer: object, probe: GradientProbe) -> None:
        from .optimizer_gradients import report_gradients  # lazy: loads the operators of graphs

        report_gradients(optimizer, probe)


def _parameters_of(optimizer: Optimizer) -> list[Parameter]:
    own = getattr(optimizer, "_parameters", None)
    return list(optimizer.parameters if own is None else own)


def _moments(optimizer: Optimizer, parameters: list[Parameter]) -> tuple[Moments, Moments]:
    """Return both moments of an optimizer's parameters, by its attributes or by the names of its parameters."""
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


CAPABILITY = Optimizers()
