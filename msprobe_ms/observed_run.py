"""One run of a training, whose bits are noted at every start() and step() and at its end, for `verify-collection`.

    python -m msprobe.observed_run TRACE inert|collecting STEPS SCRIPT [ARGUMENT ...]

The script is run as `python SCRIPT ARGUMENT ...` would run it. Nothing is imported before the script imports it: the
debugger's class is wrapped when the training loads it. In an inert run none of its methods does anything, but it has
the same settings, stages and places. STEPS is the number of step() calls after which the training is ended, 0 for all
of them. TRACE is written in JSON lines.
"""

import hashlib
import json
import os
import random
import runpy
import sys
from collections.abc import Callable, Iterator
from functools import partial, wraps
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from inspect import getattr_static
from pathlib import Path
from types import ModuleType
from typing import Any

from msprobe.base.errors import MsprobeError
from msprobe.base.framework import AnyModel, AnyParameter

DEBUGGERS = ("msprobe.mindspore_debugger", "msprobe.pytorch_debugger")


class Enough(SystemExit):
    """As many steps as were asked for: leaves the training the way `sys.exit()` does."""


class Observer:
    """Notes the moments of a run; `steps` as above."""

    def __init__(self, trace: Path, inert: bool, steps: int) -> None:
        self._trace, self._inert, self._steps = trace.open("w"), inert, steps
        self._process = os.getpid()
        self._models: list[Any] = []
        self._step = 0

    def wrap(self, debugger: type) -> None:
        """Put ourselves around, or in an inert run in the place of, every public method of the debugger's class."""
        from msprobe.stage_control import on_either  # here: it is the training that imports

        for name in dir(debugger):
            method = getattr_static(debugger, name)
            if not name.startswith("_") and isinstance(method, on_either):
                setattr(debugger, name, on_either(self._observed(name, method.method)))
        if self._inert:
            debugger.__new__ = _inert  # type: ignore[assignment,method-assign]  # made to do nothing
            debugger.__init__ = lambda self, *args, **kwargs: None  # type: ignore[misc]  # also if it gets one some day
            debugger.has_model = property(lambda _: bool(self._models))  # type: ignore[attr-defined]  # a subclass's
            debugger.service = property(_service)  # type: ignore[attr-defined]  # as above

    def _observed(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """A method that reports its calls, and looks like the one that it wraps."""
        runs = method
        if self._inert:
            runs = _stage if name == "stage" else _nothing

        @wraps(method)
        def observed(debugger: Any, *args: Any, **kwargs: Any) -> Any:
            return self.called(name, partial(runs, debugger), args, kwargs)

        return observed

    def called(self, name: str, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The training calls a method: note a moment before start() and after step()."""
        if name == "start":
            self._meet(args[0] if args else kwargs.get("model"))
            self.note("start")
        result = method(*args, **kwargs)
        if name == "step":
            self.note("step")
            self._step += 1
            if self._step == self._steps:
                raise Enough(0)
        return result

    def note(self, at: str, **more: object) -> None:
        """Write down where the training is, and its bits. A child that the training forked is not the training."""
        if os.getpid() == self._process:
            moment = {"at": at, "step": self._step, "bits": dict(self._bits()), **more}
            print(json.dumps(moment), file=self._trace, flush=True)

    def _meet(self, model: AnyModel) -> None:
        models = model.values() if isinstance(model, dict) else model if isinstance(model, (list, tuple)) else [model]
        for each in models:
            if _parameters_of(each) is not None and not any(each is known for known in self._models):
                self._models.append(each)

    def _bits(self) -> Iterator[tuple[str, str]]:
        for i, model in enumerate(self._models):
            of = f" of model {i}" if len(self._models) > 1 else ""
            for name, parameter in _parameters_of(model)():
                yield f"parameter {name}{of}", _parameter(parameter)
        yield from _generators()


# ---- a debugger that does nothing: it knows its settings, and has stages and places like any other -----------------


def _inert(cls: Any, *args: Any, **kwargs: Any) -> Any:
    from msprobe.base.settings import load  # here: it is the training that imports

    arguments = dict(zip(("config_path", "task", "dump_path", "level", "step"), args, strict=False)) | kwargs
    cls._latest = _with_settings(cls, lambda: load(arguments.pop("config_path", None), **arguments))
    return cls._latest


def _with_settings(cls: Any, load: Callable[[], Any]) -> Any:
    """Settings that cannot be meant are refused by the run that collects."""
    from msprobe.base.settings import Settings

    debugger = object.__new__(cls)
    debugger._stages, debugger._service = {}, None
    try:
        debugger._settings = load()
    except MsprobeError:
        debugger._settings = Settings(dump_path=Path("dump_path").absolute())
    return debugger


def _nothing(debugger: Any, *args: Any, **kwargs: Any) -> None:
    """What a method of an inert debugger does."""


def _stage(debugger: Any, name: str, config_path: Any = None, **settings: Any) -> Any:
    from msprobe.base.settings import stage_settings

    if name not in debugger._stages:
        debugger._stages[name] = _with_settings(
            type(debugger), lambda: stage_settings(debugger._settings, name, config_path, settings)
        )
    return debugger._stages[name]


def _service(debugger: Any) -> Any:
    from msprobe.stage_control import Service, ServiceConfig

    if debugger._service is None:
        place = [debugger._settings.dump_path]
        config = ServiceConfig(lambda: place[-1], lambda path: place.append(Path(str(path)).absolute()))
        debugger._service = Service(config, debugger.stop)
    return debugger._service


def _parameters_of(model: AnyModel) -> Any:
    """The method that lists a model's parameters by name, in MindSpore and in PyTorch; None for what is no model."""
    return getattr(model, "parameters_and_names", None) or getattr(model, "named_parameters", None)


def _parameter(parameter: AnyParameter) -> str:
    try:
        if hasattr(parameter, "asnumpy"):
            return _digest(parameter.asnumpy().tobytes())
        flat = parameter.detach().cpu().contiguous().flatten()
        return _digest(flat.view(sys.modules["torch"].uint8).numpy().tobytes())
    except Exception as cause:  # one that cannot be read says so, in each run alike, and the training goes on
        return f"{type(cause).__name__}: {cause}"


def _generators() -> Iterator[tuple[str, str]]:
    yield "the random generator of Python", _digest(_text(random.getstate()))
    if numpy := sys.modules.get("numpy"):
        yield "the random generator of numpy", _digest(_text(numpy.random.get_state(legacy=False)))
        if mindspore := sys.modules.get("mindspore"):
            yield "the random generator of MindSpore", _digest(mindspore.get_rng_state().asnumpy().tobytes())
        if torch := sys.modules.get("torch"):
            yield "the random generator of PyTorch", _digest(torch.get_rng_state().numpy().tobytes())


def _text(state: Any) -> bytes:
    """The state of a generator, arrays and numpy's numbers included."""
    return json.dumps(state, default=lambda value: value.tolist(), sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _WhenLoaded:
    """A finder that wraps a debugger's class when its module is loaded."""

    def __init__(self, observer: Observer, module: str) -> None:
        self._observer, self._module = observer, module

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        if name != self._module:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_wrap(module: ModuleType) -> None:
            load(module)
            self._observer.wrap(module.PrecisionDebugger)

        spec.loader.exec_module = load_and_wrap  # type: ignore[method-assign]  # this one loader, for this one module
        return spec


def main() -> None:
    """Run the script; its end, or its failure, is the last moment of the trace."""
    trace, manner, steps, script, *arguments = sys.argv[1:]
    observer = Observer(Path(trace), manner == "inert", int(steps))
    sys.meta_path[:0] = [_WhenLoaded(observer, module) for module in DEBUGGERS]
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as left:
        if left.code not in (None, 0):
            observer.note("failure", why=f"it ends with exit code {left.code}", ours=False)
            raise
    except BaseException as cause:
        # whatever it is, it is noted and goes on
        observer.note("failure", why=f"{type(cause).__name__}: {cause}", ours=isinstance(cause, MsprobeError))
        raise
    observer.note("end")


if __name__ == "__main__":
    main()
