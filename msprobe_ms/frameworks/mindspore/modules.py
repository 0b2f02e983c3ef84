"""Cells of MindSpore: their names and parameters, and hooks on their calls."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any

import mindspore
from mindspore import Parameter, nn

from msprobe.base.errors import UsageError
from msprobe.base.framework import CELLS, check_model
from msprobe.base.patches import Handle, Patches
from msprobe.frameworks.interface import After, Before, Removal, hook_module


class Modules:
    """Cells of MindSpore."""

    kind = CELLS

    def is_model(self, value: object) -> bool:
        return isinstance(value, nn.Cell)

    def check(self, model: Any) -> None:
        """Only PyNative mode runs hooks in Python."""
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            raise UsageError(
                "set_monitor(): the mode is GRAPH_MODE, in which Python hooks do not run; set PYNATIVE_MODE, or "
                "use task grad_probe, which also collects graphs"
            )
        check_model(model, nn.Cell, CELLS)

    def parameters(self, model: nn.Cell) -> Iterable[tuple[str, Parameter]]:
        return model.parameters_and_names()

    def name_of(self, parameter: Parameter) -> str:
        return str(parameter.name or "")

    def inside(self, model: nn.Cell) -> Iterator[tuple[str, nn.Cell]]:
        for name, cell in model.cells_and_names():
            if name and "_recompute_cell" not in name:
                yield name, cell

    def is_training(self, module: nn.Cell) -> bool:
        return bool(module.training) or not _has_mode(module)

    def hook(self, module: nn.Cell, before: Before, after: After) -> Sequence[Handle]:
        return hook_module(module, before, after)

    def before_calls(
        self, model: nn.Cell, before: Callable[[Sequence[Any], Mapping[str, Any]], None]
    ) -> Callable[[], None]:
        """By the `__call__` of its class, not by a hook: the hooks of a compiled cell are compiled too."""
        owner = next(each for each in type(model).__mro__ if "__call__" in vars(each))

        def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(original)
            def __call__(self: nn.Cell, *args: Any, **kwargs: Any) -> Any:
                if self is model:
                    before(args, kwargs)
                return original(self, *args, **kwargs)

            return __call__

        patches = Patches()
        patches.add(owner, "__call__", wrapped)
        patches.install()
        return patches.remove

    def without_compiled(self, patches: Patches) -> Handle:
        return Removal(lambda: None)  # the compiler reads other functions than the patched ones


def _has_mode(module: nn.Cell) -> bool:
    """Return whether `set_train` was called: before that, `training` is False for every cell."""
    return "training" in module.get_flags()


CAPABILITY = Modules()
