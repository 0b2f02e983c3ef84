"""Modules and optimizers as PyTorch has them, in PyTorch and in layers on MindSpore; neither is imported here."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.patches import Handle
from msprobe.monitor.backend import Removal, Update


def hook_update(optimizer: Any, before: Callable[[Any], None], after: Callable[[], None]) -> Sequence[Handle]:
    """By the optimizer's own hooks."""

    def enter(*_: Any) -> None:
        before(None)

    def leave(*_: Any) -> None:
        after()

    return [optimizer.register_step_pre_hook(enter), optimizer.register_step_post_hook(leave)]


def wrap_update(optimizer: Any, before: Callable[[Any], None], after: Callable[[], None]) -> Sequence[Handle]:
    """Around the method `step` of this one object, where there are no hooks, or none that are called."""
    original = optimizer.step
    had_own = "step" in vars(optimizer)

    @wraps(original)
    def step(*args: Any, **kwargs: Any) -> Any:
        before(None)
        result = original(*args, **kwargs)
        after()
        return result

    def restore() -> None:
        if vars(optimizer).get("step") is not step:
            return  # a scheduler has put its own around it: ours passes through
        if had_own:
            optimizer.step = original
        else:
            del optimizer.step

    optimizer.step = step
    return [Removal(restore)]


def check_optimizer(optimizer: Any) -> None:
    """It must have what is hooked."""
    if not callable(getattr(optimizer, "step", None)) or not hasattr(optimizer, "param_groups"):
        raise UsageError(
            f"set_monitor(): the optimizer is a {type(optimizer).__name__} without step() or param_groups; pass the "
            "optimizer whose step() updates the parameters"
        )


def updated(optimizer: Any, main_grad: bool, monitored: Sequence[Any] = ()) -> Update:
    """The parameters' gradients, `main_grad` first where they have one and it is wanted, and the optimizer's state.

    With mixed precision an optimizer may update float32 copies, which the model's parameters have as `main_param`.
    """
    parameters = [(p, p) for group in optimizer.param_groups for p in group["params"]]
    own = {id(p) for p, _ in parameters}
    copies = ((p, getattr(p, "main_param", None)) for p in monitored if id(p) not in own)
    parameters += [(p, copy) for p, copy in copies if id(copy) in own]
    gradients = []
    for parameter, _ in parameters:
        main = getattr(parameter, "main_grad", None) if main_grad else None
        gradient = parameter.grad if main is None else main
        if gradient is not None:
            gradients.append((parameter, gradient))
    state = getattr(optimizer, "state", {})
    first, second = (
        [(p, state[copy][name]) for p, copy in parameters if name in state.get(copy, {})]
        for name in ("exp_avg", "exp_avg_sq")
    )
    return Update(gradients, first, second)
