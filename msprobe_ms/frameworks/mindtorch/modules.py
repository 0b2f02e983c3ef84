"""Modules of PyTorch's API on MindSpore: their names and parameters, and hooks on their calls."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import mindspore
import torch

from msprobe.base.errors import UsageError
from msprobe.base.framework import MODULES, AnyModel, AnyModule, AnyParameter, check_model
from msprobe.base.patches import Handle, Patches
from msprobe.frameworks.interface import After, Before, Removal, hook_module


class Modules:
    """Modules of PyTorch's API on MindSpore."""

    kind = MODULES

    def is_model(self, value: object) -> bool:
        return isinstance(value, torch.nn.Module)

    def check(self, model: AnyModel) -> None:
        if mindspore.get_context("mode") == mindspore.GRAPH_MODE:
            raise UsageError("set_monitor(): the mode is GRAPH_MODE; set PYNATIVE_MODE")
        check_model(model, torch.nn.Module, MODULES)

    def parameters(self, model: AnyModel) -> Iterable[tuple[str, AnyParameter]]:
        return model.named_parameters()  # type: ignore[no-any-return]  # a module's

    def name_of(self, parameter: AnyParameter) -> str:
        return ""  # the layer's names are random

    def inside(self, model: AnyModel) -> Iterator[tuple[str, AnyModule]]:
        return ((name, module) for name, module in model.named_modules() if name)

    def is_training(self, module: AnyModule) -> bool:
        return bool(module.training)

    def hook(self, module: AnyModule, before: Before, after: After) -> Sequence[Handle]:
        return hook_module(module, before, after)

    def before_calls(
        self, model: AnyModule, before: Callable[[Sequence[Any], Mapping[str, Any]], None]
    ) -> Callable[[], None]:
        def hook(_: AnyModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            before(args, kwargs)

        remove: Callable[[], None] = model.register_forward_pre_hook(hook, with_kwargs=True).remove
        return remove

    def without_compiled(self, patches: Patches) -> Handle:
        return Removal(lambda: None)  # the compiler reads other functions than the patched ones


CAPABILITY = Modules()
