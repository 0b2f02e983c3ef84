"""The collector of the calls that Python makes: it installs patches while it is open, and has one session a step.

`open` and `shut` may alternate within a step; the records go on in the same dump. `end_step` ends the step's dump.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.base.framework import AnyModel, check_model, roots_of
from msprobe.base.interrupts import uninterrupted
from msprobe.base.log import log_once
from msprobe.base.patches import Patches
from msprobe.base.sections import GraftSettings
from msprobe.base.settings import Settings, collect_options, scope_of
from msprobe.store.writer import StepFolder

from .cell import CellCalls
from .framework import Framework, Names
from .functions import Dispatch
from .grafts import Grafts, GraftSession
from .session import Session, Tokens


class Collector:
    """Collects the calls of cells (L0), of APIs (L1), or of both (mix)."""

    def __init__(self, settings: Settings, framework: Framework) -> None:
        self._settings, self._framework = settings, framework
        self._wishes = collect_options(settings)
        self.session: Session | None = None
        """The step that is being collected."""
        self._scope = scope_of(settings)
        self._grafts = Grafts(settings.section, framework) if isinstance(settings.section, GraftSettings) else None
        self._patches = Patches()
        self._guards = Patches()
        self._recording = _Recording(self._patches)
        self._current: Callable[[], Session | None] = partial(getattr, self, "session")  # asked at each call: no Python
        self._cells = CellCalls(framework, self._current)
        self._functions = framework.calls(self._current, self._patches)
        self._names: Names = {}
        self._planned = False

    @property
    def is_open(self) -> bool:
        """Return whether calls are being recorded, or will be when the tokens' turn comes."""
        return self.session is not None and self.session.open

    @property
    def in_step(self) -> bool:
        """Return whether a step's dump has begun and is not finished."""
        return self.session is not None

    @property
    def has_model(self) -> bool:
        """Return whether a model is known."""
        return self._cells.any

    def check(self, model: AnyModel, token_range: Any = None) -> None:
        """Raise an error for settings that are not supported at this level."""
        level = self._settings.level
        if model is not None:
            check_model(model, self._framework.module, self._framework.kind)
        elif level in ("L0", "mix") and not self._cells.any:
            raise UsageError(f'start(): the model cannot be None when level is "{level}"; pass the network: start(net)')
        elif token_range is not None:
            raise UsageError(
                "start(): the 'model' parameter must be provided when token_range is not None; pass the network"
            )
        if token_range is not None:
            check_tokens(token_range)
        if self._grafts is not None:
            self._grafts.check(model, self._settings)
        if self._settings.dispatch and self._recording.dispatch is None:
            self._recording.dispatch = self._framework.dispatch(self._current)

    def open(self, model: AnyModel, step_folder: StepFolder, token_range: Any = None) -> None:
        """Start recording; `step_folder` is used when this begins a step."""
        uninterrupted(partial(self._install, model, step_folder))
        if self._recording.dispatch is not None:
            self._recording.dispatch.install()
        assert self.session is not None
        self.session.resume(None if token_range is None else self._tokens(model, token_range))

    def _install(self, model: AnyModel, step_folder: StepFolder) -> None:
        if not self._planned:
            self._planned = True
            self._framework.guard(self._current, self._guards, self._recording, self._cells.unhooked)
            if self._settings.gradients == "hooks" and self._settings.level != "L1":
                self._patches.join(_ModuleHooks(self._current, self._cells))
        level = self._settings.level
        if level in ("L1", "mix"):
            roots = [] if model is None else [root for _, root in roots_of(model, self._framework.kind)]
            self._functions.plan(roots, self._settings.names_from, step_folder.folder.name)
        if model is not None:
            # Of parameters that do not know their names; of several models the last one that has it names it.
            self._names.clear()
            for _, root in roots_of(model, self._framework.kind):
                self._names.update((id(parameter), name) for name, parameter in self._framework.names_of(root))
            self._cells.add(model, self._patches, roots_only=level == "L1")
            if level == "L0" and next(self._cells.cells(), None) is None:
                log_once(
                    "nothing inside",
                    f"level L0 collects the modules inside a model, but {type(model).__name__} contains none: the "
                    "dump will be empty; use level mix or L1, or call start() with the enclosing model",
                )
        if self.session is None:
            self.session = self._session_of(step_folder)
        if self._wishes.data_mode.parameters_grad:
            self.session.guard(self._cells.hook_parameters, self.session)
        self._patches.install()
        self._guards.install()

    def _session_of(self, step_folder: StepFolder) -> Session:
        grafts = self._grafts.of_step(step_folder.header["run"]) if self._grafts is not None else None
        of_step = self._framework, self._settings, self._wishes, step_folder.open(), self._scope, self._names
        return Session(*of_step) if grafts is None else GraftSession(grafts, *of_step)

    def _tokens(self, model: AnyModel, token_range: Any) -> Tokens:
        roots = roots_of(model, self._framework.kind)
        if len(roots) > 1:
            log_once("tokens", f"start(): tokens are counted by the calls of the first of {len(roots)} models")
        return Tokens(self._cells.number_of(roots[0][1]), *token_range)

    def yield_step(self) -> None:
        """Leave calls outside this debugger's models to another debugger that has begun to collect."""
        if self.session is not None and not self.session.open:
            self.session.has_yielded = True

    def recover(self) -> None:
        """Take out what a start or a stop that an interrupt ended has left in place."""
        if not self.is_open:
            self._give_back()

    @property
    def is_interrupted(self) -> bool:
        """Return whether an interrupt ended the step that has begun."""
        return self.session is not None and self.session.is_interrupted

    def interrupted(self, cause: str) -> None:
        """Have the step's dump say that it was interrupted."""
        if self.session is not None:
            self.session.interrupted(cause)

    def shut(self) -> None:
        """Stop recording calls; gradients of calls already made may still arrive until `end_step`."""
        self._give_back()
        if self.session is not None:
            self.session.pause()
            self._scope.log_unmatched()

    def end_step(self) -> None:
        """End the step's dump and start the numbers again."""
        self._give_back()
        if self._cells.has_hooks:
            uninterrupted(self._cells.unhook_parameters)
        if self.session is not None:
            self.session.close()
            self.session = None
        self._scope.reset()

    def _give_back(self) -> None:
        if self._recording.dispatch is not None:
            self._recording.dispatch.remove()
        if self._patches.installed or self._guards.installed:
            uninterrupted(self._remove)

    def _remove(self) -> None:
        self._guards.remove()
        self._patches.remove()


class PythonCalls(Collector):
    """The collector of a debugger that has no others: it records calls from Python in the dump of the step."""

    def open(  # type: ignore[override]  # the folder of the step is determined later
        self, model: AnyModel, folder_of: Callable[[str], StepFolder], token_range: Any = None
    ) -> None:
        """Start recording; `folder_of` is called if this begins a step. OSError if the folder cannot be written."""
        super().open(model, folder_of(""), token_range)

    def expect(self, model: AnyModel) -> None:
        """Do nothing: no graph is compiled."""


class _Recording:
    """Everything that is in place while calls are recorded, and out of place while code is compiled.

    Patches may be installed by any thread; a mode belongs to the thread that enters it.
    """

    def __init__(self, patches: Patches) -> None:
        self._patches = patches
        self.dispatch: Dispatch | None = None

    @property
    def installed(self) -> bool:
        return self._patches.installed

    def install(self) -> None:
        """Install the patches, and enter the mode."""
        self._patches.install()
        if self.dispatch is not None:
            self.dispatch.install()

    def remove(self) -> None:
        """Leave the mode, and remove the patches."""
        if self.dispatch is not None:
            self.dispatch.remove()
        self._patches.remove()


class _ModuleHooks:
    """The backward hooks on the modules, in place while calls are recorded; to be joined to patches."""

    def __init__(self, current: Callable[[], Session | None], cells: CellCalls) -> None:
        self._current, self._cells = current, cells

    def install(self) -> None:
        """Hook the modules for the step that is being collected."""
        session = self._current()
        if session is not None and session.cell_hooks is not None:
            session.cell_hooks.attach(self._cells.cells())

    def remove(self) -> None:
        """Take the hooks off."""
        session = self._current()
        if session is not None and session.cell_hooks is not None:
            session.cell_hooks.detach()


def check_tokens(token_range: Any) -> None:
    """Raise an error for an invalid range of tokens."""
    fits = isinstance(token_range, (list, tuple)) and len(token_range) == 2
    if not fits or any(isinstance(n, bool) or not isinstance(n, int) for n in token_range):
        raise UsageError(f"start(): token_range is {token_range!r}; pass two integers, [first, last]")
    first, last = token_range
    if not 0 <= first <= last:
        raise UsageError(f"start(): token_range is {token_range!r}; pass 0 <= first <= last")
