"""PyTorch for the monitor."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np
import torch

from msprobe.base.framework import array_of, check_model
from msprobe.base.framework import rank as known_rank
from msprobe.base.log import once
from msprobe.base.patches import Handle, Patches
from msprobe.cell_dump.backends.pytorch.compiled import COMPILED_CODE, UpdateHooks
from msprobe.cell_dump.backends.pytorch.framework import FRAMEWORK, apart
from msprobe.cell_dump.framework import Framework
from msprobe.monitor.backend import OF_NOTHING, Numbers, Removal, Update, hook_module

from .torch_api import check_optimizer, hook_update, updated, wrap_update

_Before = Callable[[Any, Any], None]
_After = Callable[[Any, Any, Any], None]


class _ModuleHooks:
    """The hooks on modules, taken off around compiled code: `torch.compile` would compile them, and break its graph."""

    def __init__(self) -> None:
        self.installed = False
        self._hooked: dict[int, _Hooked] = {}
        self._patches = Patches()
        self._patches.add(torch.nn.Module, "compile", self._compiling)

    def add(self, module: torch.nn.Module, before: _Before, after: _After) -> Handle:
        """Hook a module; the handle takes the hook off."""
        if not self._hooked:
            self._patches.install()
            self.installed = True
            COMPILED_CODE.open(self)
        hooked = self._hooked.setdefault(id(module), _Hooked(module))
        hooked.calls.append((before, after))
        if self.installed:
            hooked.install()
        return Removal(partial(self._discard, hooked, (before, after)))

    def install(self) -> None:
        self.installed = True
        for hooked in self._hooked.values():
            hooked.install()

    def remove(self) -> None:
        self._say_what_is_inside()
        self.installed = False
        for hooked in self._hooked.values():
            hooked.remove()

    def _say_what_is_inside(self) -> None:
        """Log once, when compiled code runs first, how many modules run inside such code only."""
        compiled = [each.module for each in self._hooked.values() if _is_compiled(each.module)]
        inside = {id(module) for each in compiled for module in each.modules() if module is not each}
        if count := len(inside & self._hooked.keys()):
            once(
                "monitor in compiled code",
                f"monitor: {count} of {len(self._hooked)} modules run inside code compiled by torch.compile, and "
                "their inputs and outputs are not measured; compile smaller modules, or monitor without "
                "torch.compile",
            )

    def _discard(self, hooked: "_Hooked", calls: tuple[_Before, _After]) -> None:
        hooked.calls.remove(calls)
        if not hooked.calls:
            hooked.remove()
            del self._hooked[id(hooked.module)]
        if not self._hooked:
            self.installed = False
            COMPILED_CODE.close(self)
            self._patches.remove()

    def _compiling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def compile(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            hooked = self._hooked.get(id(module))
            if hooked is None or not self.installed:
                return original(module, *args, **kwargs)
            hooked.remove()
            try:
                return original(module, *args, **kwargs)
            finally:
                hooked.install()

        return compile


def _is_compiled(module: torch.nn.Module) -> bool:
    return bool(FRAMEWORK.compiled_class(module))


class _Hooked:
    """One module with what is called before and after its calls.

    A module that is compiled in place (`module.compile()`) calls its hooks inside of the compiled code: there the calls
    are made around that code. Which of the two it is, is looked at whenever the hook is put in place.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.calls: list[tuple[_Before, _After]] = []
        self._handles: Sequence[Handle] = ()
        self._compiled: Any = None
        self._around: Any = None

    def install(self) -> None:
        if self._handles or self._around is not None:
            return
        self._compiled = vars(self.module).get("_compiled_call_impl")
        if self._compiled is None:
            self._handles = hook_module(self.module, self._before, self._after)
        else:
            self._around = self.module._compiled_call_impl = self._measured(self._compiled)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        if self._around is not None and vars(self.module).get("_compiled_call_impl") is self._around:
            self.module._compiled_call_impl = self._compiled
        self._handles, self._compiled, self._around = (), None, None

    def _before(self, args: Any, kwargs: Any) -> None:
        for before, _ in tuple(self.calls):
            before(args, kwargs)

    def _after(self, args: Any, kwargs: Any, result: Any) -> None:
        for _, after in tuple(self.calls):
            after(args, kwargs, result)

    def _measured(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(compiled)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._before(args, kwargs)
            result = compiled(*args, **kwargs)
            self._after(args, kwargs, result)
            return result

        return call


class PyTorch:
    """Trainings of modules."""

    framework: Framework = FRAMEWORK
    on_device = False

    def __init__(self) -> None:
        self._hooks = _ModuleHooks()

    def check(self, model: Any, optimizer: Any) -> None:
        check_model(model, torch.nn.Module, self.framework.kind)
        check_optimizer(optimizer)
        first = next((p for group in optimizer.param_groups for p in group["params"]), None)
        self.on_device = first is not None and first.device.type != "cpu"

    def rank(self) -> int:
        return known_rank("pytorch") or 0

    def group_rank(self, group: Any) -> int:
        is_ready = torch.distributed.is_available() and torch.distributed.is_initialized()
        return max(torch.distributed.get_rank(group), 0) if is_ready else 0

    def parameters(self, model: torch.nn.Module) -> Iterable[tuple[str, torch.nn.Parameter]]:
        return [(name, each) for name, each in model.named_parameters() if each.requires_grad]

    def modules(self, model: Any) -> Iterator[tuple[str, Any]]:
        return ((name, module) for name, module in model.named_modules() if name)

    def is_training(self, module: torch.nn.Module) -> bool:
        return bool(module.training)

    def gradient_hooks(
        self, parameter: torch.nn.Parameter, computed: Callable[[torch.Tensor], None], accumulated: Callable[[], None]
    ) -> Sequence[Handle]:
        def after(_: Any) -> None:
            accumulated()

        return [parameter.register_hook(computed), parameter.register_post_accumulate_grad_hook(after)]

    def is_accumulating(self, parameter: torch.nn.Parameter) -> bool:
        return parameter.grad is not None and bool(apart(_is_nonzero, parameter.grad.detach()))

    def accumulated(
        self, parameter: torch.nn.Parameter, main_grad: bool, is_moved: bool
    ) -> tuple[torch.Tensor | None, bool]:
        main = getattr(parameter, "main_grad", None) if main_grad else None
        gradient = parameter.grad
        # Megatron's fused kernels add to main_grad themselves; what is in .grad is then a placeholder.
        if gradient is None or (main is not None and getattr(parameter, "grad_added_to_main_grad", False)):
            return main, True
        if not is_moved:
            return gradient, True
        return (gradient, False) if main is None else (apart(_total, main.detach(), gradient.detach()), True)

    def module_hook(
        self, module: torch.nn.Module, before: Callable[[Any, Any], None], after: Callable[[Any, Any, Any], None]
    ) -> Sequence[Handle]:
        return [self._hooks.add(module, before, after)]

    def out_of_compiled(self, patches: Patches) -> Handle:
        COMPILED_CODE.open(patches)
        return Removal(partial(COMPILED_CODE.close, patches))

    def update_hook(self, optimizer: Any, before: Callable[[Any], None], after: Callable[[], None]) -> Sequence[Handle]:
        has_hooks = all(hasattr(optimizer, f"register_step_{when}_hook") for when in ("pre", "post"))
        if not has_hooks:
            return wrap_update(optimizer, before, after)

        def missed() -> None:
            once(
                "monitor of a compiled update",
                "monitor: the optimizer's step runs inside code compiled by torch.compile, so its gradients and "
                "moments are not measured; call optimizer.step() outside of compiled code, or monitor without "
                "torch.compile",
            )
            after()

        def parameters() -> list[Any]:
            return [each for group in optimizer.param_groups for each in group["params"]]

        hooks = UpdateHooks(lambda: list(hook_update(optimizer, before, after)), parameters, missed)
        return [Removal(hooks.end)]

    def update_of(self, optimizer: Any, gradients: Any, main_grad: bool, monitored: Sequence[Any]) -> Update:
        return updated(optimizer, main_grad, monitored)

    def settle(self) -> None:
        """Everything on a processor is computed when a call returns."""

    def array(self, tensor: torch.Tensor) -> Numbers:
        return apart(_array, tensor)

    def statistics(self, tensor: torch.Tensor, eps: float) -> torch.Tensor:
        return apart(_statistics, tensor.detach(), eps)

    def copied(self, tensor: torch.Tensor) -> torch.Tensor:
        return apart(torch.clone, tensor.detach())

    def total(self, copy: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
        return apart(_total, copy, tensor.detach())

    def difference(self, tensor: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
        return apart(_difference, tensor.detach(), copy)

    def same_sign(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return apart(_same_sign, a.detach(), b.detach())

    def fetch(self, pending: list[torch.Tensor]) -> Numbers:
        return np.asarray(apart(torch.stack, pending).cpu().numpy(), np.float64)

    def text(self, tensor: torch.Tensor) -> tuple[str, str]:
        return str(list(tensor.shape)), str(tensor.dtype)  # as msprobe writes them of each framework

    def debugger(self) -> Callable[..., Any]:
        from msprobe.pytorch_debugger import PrecisionDebugger  # here: only an alert needs it

        return PrecisionDebugger


def _array(tensor: torch.Tensor) -> Numbers:
    return array_of(tensor if tensor.layout is torch.strided else tensor.detach().to_dense())


def _is_nonzero(tensor: torch.Tensor) -> bool:
    with torch.no_grad():
        return bool(tensor.count_nonzero()) if tensor.layout is torch.strided else tensor._nnz() > 0


def _total(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The sum in the wider of both dtypes."""
    with torch.no_grad():
        return a + b


def _difference(tensor: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return tensor.float() - copy.float()


def _same_sign(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return (a.float().sign() == b.float().sign()).float()


def _statistics(tensor: torch.Tensor, eps: float) -> torch.Tensor:
    """The six statistics in float32, where the tensor is; the norm and the sum of many elements in float32 as well."""
    if not tensor.numel():
        return torch.tensor(OF_NOTHING, device=tensor.device)
    with torch.no_grad():
        wide = tensor.float()
        numbers = (
            wide.norm(),
            wide.min(),
            wide.max(),
            (wide.abs() < eps).float().mean(),
            wide.isnan().sum().float(),
            wide.mean(),
        )
        return torch.stack(numbers)


BACKEND = PyTorch
