"""`ConfigChecker`: packs the configuration of a training while it runs; see `how-to/comparing/config-check-pack.md`.

An error of the user is raised when a checker is constructed. After that, failures do not stop the training: the first
one is logged, and the checker ends.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from msprobe.base.errors import UsageError, reason
from msprobe.base.files import user_path
from msprobe.base.framework import FRAMEWORKS, Framework
from msprobe.base.interrupts import must_propagate
from msprobe.base.lazy import require
from msprobe.base.log import log_once, logger
from msprobe.base.nested import tree_of_value
from msprobe.base.redaction import Redactor
from msprobe.frameworks import process
from msprobe.frameworks.registry import PYTHON_PACKAGES, api_of, name_of_model, with_api
from msprobe.frameworks.registry import Framework as Capabilities
from msprobe.store import config_pack

from .features import of_inputs, of_parameters
from .pack_writer import PackWriter
from .random_calls import RandomCalls
from .static import as_json, entries, of_scripts, plain

DEFAULT_PACK = "./config_check_pack.zip"

_RANKS = ("RANK", "RANK_ID", "OMPI_COMM_WORLD_RANK")
_TRAINERS = (
    ("megatron.training.global_vars", "get_args"),
    ("megatron.training", "get_args"),
    ("mindspeed_ms.training", "get_args"),
)
"""Modules and functions by which trainers give access to the arguments of a run."""

_calls = RandomCalls()
_checkers: dict[Path, "ConfigChecker"] = {}


class ConfigChecker:
    """Packs environment, packages, settings, inputs, weights, random calls and the framework's settings into a zip."""

    @staticmethod
    def apply_patches(fmk: Framework = "pytorch") -> None:
        """Count random calls from here on; call it first in the first script. Generators are not changed.

        UsageError for an unknown framework.
        """
        randomness = _capabilities(_known(fmk)).randomness
        try:
            _calls.install(randomness.functions, randomness.is_traced)
        except BaseException as err:  # the debugger does not stop the training
            if must_propagate(err):
                raise
            log_once("config_check patches", f"config_check: random calls are not counted ({reason(err)})")

    def __init__(
        self,
        model: Any = None,
        shell_path: "str | PathLike[str] | Iterable[str | PathLike[str]] | None" = None,
        output_zip_path: "str | PathLike[str]" = DEFAULT_PACK,
        fmk: Framework | None = None,
    ) -> None:
        """Pack the environment and the settings, and at every forward of `model` its inputs and weights.

        `model` is a Cell or Module, or a list, of which the first is taken; `shell_path` are the scripts and yaml files
        with the settings of the training. The framework is that of the model, or `fmk`. UsageError for a
        wrong argument or an output that cannot be written.
        """
        path = user_path(output_zip_path)
        if path.suffix != ".zip":
            raise UsageError(f"ConfigChecker: output_zip_path {str(path)!r} must end in .zip")
        network = model[0] if isinstance(model, (list, tuple)) and model else model
        self._framework: Framework = _of_model(network) or _known(fmk or "pytorch")
        self._capabilities = _capabilities(self._framework)
        if network is not None and not self._capabilities.modules.is_model(network):
            raise UsageError(
                f"ConfigChecker: the model must be a {self._capabilities.modules.kind.public}, "
                f"not {type(network).__name__}; pass the network"
            )
        scripts = [shell_path] if isinstance(shell_path, str | PathLike) else list(shell_path or ())
        self._redactor = Redactor()
        self._settings = of_scripts(map(user_path, scripts), self._redactor)
        self._static = self._entries({})
        self._path, self._pid = path, os.getpid()
        self._writer: PackWriter | None = None
        self._step = 0
        self._network = network
        self._unwatch: Callable[[], None] | None = None
        if (before := _checkers.pop(path.absolute(), None)) is not None:
            before.close()
        _checkers[path.absolute()] = self
        if os.environ.get("MS_ROLE") == "MS_SCHED":  # msrun starts the script once more, to connect the ranks
            return
        try:
            if _rank(self._framework) is not None:  # else at the first forward, because the rank is not known yet
                self._write({})
        except OSError as err:
            raise UsageError(f"ConfigChecker: {path} cannot be written ({err.strerror or err})") from err
        if network is not None:
            self._unwatch = self._capabilities.modules.before_calls(network, self._before)

    def close(self) -> None:
        """Stop collecting, and finish the pack; the end of the process does the same."""
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _before(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Collect the inputs and weights of a call of the model."""
        if os.getpid() != self._pid or self._unwatch is None:  # a forked child process is not the training
            return
        # An error of the training that is read here must reach it.
        process.settle([tensor for _, tensor in tree_of_value([list(args), dict(kwargs)]).tensors])
        try:
            self._collect(args, kwargs)
        except BaseException as err:  # the debugger does not stop the training
            if must_propagate(err):
                raise
            log_once(
                "config_check forward",
                f"config_check: collection ends after forward {self._step} ({reason(err)}); the collected data is "
                f"in {self._path}",
            )
            self._give_up()

    def _give_up(self) -> None:
        try:
            self.close()
        except BaseException as cause:  # the debugger does not stop the training
            if must_propagate(cause):
                raise
            self._unwatch = self._writer = None

    def _collect(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        own = _rank(self._framework) or 0
        found: dict[str, bytes] = {}
        if self._step == 0:
            _calls.remove()
            settings = _of_trainer(self._redactor)
            calls = {config_pack.random(own): _calls.found(self._redactor.source)}
            if own == 0:
                further = {**calls, config_pack.CONTEXT: self._capabilities.environment.settings()}
                if settings:
                    further[config_pack.DYNAMIC] = settings
                self._static = self._entries(further)
                found |= self._static  # the current environment
            else:
                found |= {name: as_json(held) for name, held in calls.items()}
        found[config_pack.dataset(self._step, own)] = as_json(of_inputs(args, kwargs))
        modules = self._capabilities.modules
        parameters = ((modules.name_of(each) or name, each) for name, each in modules.parameters(self._network))
        found[config_pack.weights(self._step, own)] = as_json(of_parameters(parameters))
        self._step += 1
        self._write(found)

    def _entries(self, further: Mapping[str, Mapping[str, object]]) -> dict[str, bytes]:
        return entries(self._settings, self._redactor, further, framework=self._framework, random_functions=_calls.ops)

    def _write(self, found: dict[str, bytes]) -> None:
        own = _rank(self._framework) or 0
        if self._writer is None:
            self._writer = PackWriter(self._path, own, process.size(self._framework))
            found = {**(self._static if own == 0 else {}), **found}
        self._writer.write(found)


def _known(fmk: object) -> Framework:
    for each in FRAMEWORKS:
        if each == fmk:
            return each
    raise UsageError(f"ConfigChecker: fmk is {fmk!r}; choose one of {', '.join(FRAMEWORKS)}")


def _of_model(network: object) -> Framework | None:
    """Return the framework of a network; PyTorch's API on MindSpore counts as PyTorch."""
    name = name_of_model(network)
    return _known(api_of(name)) if name else None


def _capabilities(framework: Framework) -> Capabilities:
    require(PYTHON_PACKAGES[framework], "msprobe.core.config_check.ConfigChecker")
    return with_api(framework)


def _rank(framework: Framework) -> int | None:
    """Return the rank by the framework or the launcher, 0 for a single process; None if it is not known yet."""
    found = process.rank(framework)
    if found is None:
        launched = (os.environ.get(name, "") for name in _RANKS)
        found = next((int(number) for number in launched if number.isdecimal()), None)
    return 0 if found is None and process.size(framework) == 1 else found


def _of_trainer(redactor: Redactor) -> dict[str, object]:
    """Return the arguments of a known trainer, if one is used, without secrets."""
    for module, function in _TRAINERS:
        ask = getattr(sys.modules.get(module), function, None)
        try:
            held = vars(ask()) if ask is not None else {}
        except Exception as err:  # it has no arguments yet; a failure of this tool does not stop the training
            logger.debug("config_check: %s.%s: %s", module, function, reason(err))
            continue
        if held:
            return _settings(held, redactor)
    return {}


def _settings(held: Mapping[str, Any], redactor: Redactor) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in sorted((str(name), value) for name, value in held.items()):
        safe = redactor.setting(name, value)  # before conversion to text, in which names are harder to find
        made = [plain(each) for each in safe] if isinstance(safe, list | tuple) else plain(safe)
        found[name] = redactor.setting(name, made)
    return found
