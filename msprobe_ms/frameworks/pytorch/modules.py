"""Modules of PyTorch: their names and parameters, and hooks on their calls."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from msprobe.base.framework import MODULES, check_model
from msprobe.base.patches import Handle, Patches
from msprobe.frameworks.interface import After, Before, Removal

from .compiled import COMPILED_CODE
from .hooks import ModuleHooks


class Modules:
    """Modules of PyTorch."""

    kind = MODULES

    def __init__(self) -> None:
        self._hooks = ModuleHooks()

    def is_model(self, value: object) -> bool:
        return isinstance(value, torch.nn.Module)

    def check(self, model: Any) -> None:
        check_model(model, torch.nn.Module, MODULES)

    def parameters(self, model: torch.nn.Module) -> Iterable[tuple[str, torch.nn.Parameter]]:
        return model.named_parameters()

    def name_of(self, parameter: torch.nn.Parameter) -> str:
        return ""

    def inside(self, model: Any) -> Iterator[tuple[str, Any]]:
        return ((name, module) for name, module in model.named_modules() if name)

    def is_training(self, module: torch.nn.Module) -> bool:
        return bool(module.training)

    def hook(self, module: torch.nn.Module, before: Before, after: After) -> Sequence[Handle]:
        return [self._hooks.add(module, before, after)]

    def before_calls(
        self, model: torch.nn.Module, before: Callable[[Sequence[Any], Mapping[str, Any]], None]
    ) -> Callable[[], None]:
        def hook(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not torch.compiler.is_compiling():
                before(args, kwargs)

        handle = model.register_forward_pre_hook(hook, with_kwargs=True)
        remove: Callable[[], None] = handle.remove
        return remove

    def without_compiled(self, patches: Patches) -> Handle:
        COMPILED_CODE.open(patches)
        return Removal(partial(COMPILED_CODE.close, patches))


CAPABILITY = Modules()
