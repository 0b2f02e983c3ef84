"""Run of a training whose bits are recorded at every start() and step() and at its end, for `verify-collection`.

    python -m msprobe.observed_run TRACE inert|collecting STEPS SCRIPT [ARGUMENT ...]

The script runs as with `python SCRIPT ARGUMENT ...`. No module is imported before the script imports it: the class of
the debugger is wrapped when the training imports it. In an inert run its methods do nothing, but it has the same
settings, stages and folders. STEPS is the number of step() calls after which the training is ended, 0 for all steps.
TRACE is written as JSON lines.
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
from msprobe.base.framework import TITLES, AnyModel, AnyParameter
from msprobe.frameworks.process import array_to_save, imported
from msprobe.frameworks.registry import PACKAGES

DEBUGGERS = tuple(f"{package}.debugger" for package in PACKAGES.values())


class StepsCompleted(SystemExit):
    """Raised after the requested number of steps; ends the training like `sys.exit()`."""


class Observer:
    """Recorder of the moments of a run; `steps` as above."""

    def __init__(self, trace: Path, inert: bool, steps: int) -> None:
        self._trace, self._inert, self._steps = trace.open("w"), inert, steps
        self._process = os.getpid()
        self._models: list[Any] = []
        self._step = 0

    def wrap(self, debugger: type) -> None:
        """Wrap, or in an inert run replace, all public methods of the class of the debugger."""
        from msprobe.stage_control import class_or_instance_method  # lazy: only after the training imports it

        for name in dir(debugger):
            method = getattr_static(debugger, name)
            if not name.startswith("_") and isinstance(method, class_or_instance_method):
                setattr(debugger, name, class_or_instance_method(self._observed(name, method.method)))
        if self._inert:
            debugger.__new__ = _inert  # type: ignore[assignment,method-assign]  # without collecting
            debugger.__init__ = lambda self, *args, **kwargs: None  # type: ignore[misc]  # if it is defined
            debugger.has_model = property(lambda _: bool(self._models))  # type: ignore[attr-defined]  # a subclass's
            debugger.service = property(_service)  # type: ignore[attr-defined]  # as above

    def _observed(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper of a method that reports its calls."""
        target = method
        if self._inert:
            target = _stage if name == "stage" else _do_nothing

        @wraps(method)
        def observed(debugger: Any, *args: Any, **kwargs: Any) -> Any:
            return self.called(name, partial(target, debugger), args, kwargs)

        return observed

    def called(self, name: str, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Call a method for the training; record a moment before start() and after step()."""
        if name == "start":
            self._add_models(args[0] if args else kwargs.get("model"))
            self.note("start")
        result = method(*args, **kwargs)
        if name == "step":
            self.note("step")
            self._step += 1
            if self._step == self._steps:
                raise StepsCompleted(0)
        return result

    def note(self, at: str, **more: object) -> None:
        """Write the position of the training and its bits. Ignored in child processes."""
        if os.getpid() == self._process:
            moment = {"at": at, "step": self._step, "bits": dict(self._bits()), **more}
            print(json.dumps(moment), file=self._trace, flush=True)

    def _add_models(self, model: AnyModel) -> None:
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


# ---- an inert debugger: with settings, stages and folders, without collecting --------------------------------------


def _inert(cls: Any, *args: Any, **kwargs: Any) -> Any:
    from msprobe.base.settings import load  # lazy: only after the training imports it

    arguments = dict(zip(("config_path", "task", "dump_path", "level", "step"), args, strict=False)) | kwargs
    cls._latest = _inert_debugger(cls, lambda: load(arguments.pop("config_path", None), **arguments))
    return cls._latest


def _inert_debugger(cls: Any, load: Callable[[], Any]) -> Any:
    """Return an inert debugger. Invalid settings are ignored here, because the collecting run raises them."""
    from msprobe.base.settings import Settings

    debugger = object.__new__(cls)
    debugger._stages, debugger._service = {}, None
    try:
        debugger._settings = load()
    except MsprobeError:
        debugger._settings = Settings(dump_path=Path("dump_path").absolute())
    return debugger


def _do_nothing(debugger: Any, *args: Any, **kwargs: Any) -> None:
    """Do nothing: the methods of an inert debugger."""


def _stage(debugger: Any, name: str, config_path: Any = None, **settings: Any) -> Any:
    from msprobe.base.settings import stage_settings

    if name not in debugger._stages:
        debugger._stages[name] = _inert_debugger(
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
    """Return the method of a model that lists its parameters by name; None for an object that is not a model."""
    return getattr(model, "parameters_and_names", None) or getattr(model, "named_parameters", None)


def _parameter(parameter: AnyParameter) -> str:
    try:
        return _digest(array_to_save(parameter).tobytes())
    except Exception as cause:  # unreadable in each run; the error is recorded, and the training continues
        return f"{type(cause).__name__}: {cause}"


def _generators() -> Iterator[tuple[str, str]]:
    yield "the random generator of Python", _digest(_text(random.getstate()))
    if numpy := sys.modules.get("numpy"):
        yield "the random generator of numpy", _digest(_text(numpy.random.get_state(legacy=False)))
    for framework in imported():
        yield (
            f"the random generator of {TITLES.get(framework.name, framework.name)}",
            _digest(framework.randomness.states([])),
        )


def _text(state: Any) -> bytes:
    """Return the state of a generator, including arrays, as text."""
    return json.dumps(state, default=lambda value: value.tolist(), sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class _ImportHook:
    """Import hook that wraps the class of a debugger when its module is imported."""

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
            if module.CAPABILITY.__module__ == module.__name__:  # else the class of another framework
                self._observer.wrap(module.CAPABILITY)

        spec.loader.exec_module = load_and_wrap  # type: ignore[method-assign]  # this one loader, for this one module
        return spec


def main() -> None:
    """Run the script; its end or its failure is the last line of the trace."""
    trace, mode, steps, script, *arguments = sys.argv[1:]
    observer = Observer(Path(trace), mode == "inert", int(steps))
    sys.meta_path[:0] = [_ImportHook(observer, module) for module in DEBUGGERS]
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).resolve().parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as left:
        if left.code not in (None, 0):
            observer.note("failure", why=f"it ends with exit code {left.code}", ours=False)
            raise
    except BaseException as cause:
        # recorded and raised again
        observer.note("failure", why=f"{type(cause).__name__}: {cause}", ours=isinstance(cause, MsprobeError))
        raise
    observer.note("end")


if __name__ == "__main__":
    main()
