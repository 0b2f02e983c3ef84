"""Collect a block of this process for a gate, and judge or record it, as the fixture for pytest does."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any

from msprobe.base.errors import UsageError
from msprobe.findings.finding import Answer
from msprobe.frameworks.process import imported
from msprobe.store.layout import step_folder

from .accepting import accept
from .golden import Golden, Wanted, read_run, write
from .judge import State, Verdict, judged
from .recording import DUMP, Collection
from .report import page_of
from .training import defects, facts_of, untrained_answer


@dataclass(frozen=True)
class Plan:
    """What a block is compared with, and how.

    golden : the golden file.
    limits : a preset of limits.
    forward_only : whether the block is not expected to train.
    update : the reason with which the golden is written or rewritten; empty to compare only.
    report : the folder for the report page of a red gate; None without one.
    steps : the steps that are collected.
    """

    golden: Path
    limits: str = "auto"
    forward_only: bool = False
    update: str = ""
    report: Path | None = None
    steps: tuple[int, ...] = (0, 1, 2)


class GatedBlock:
    """A block whose calls are collected: `with` begins and ends it, `step()` ends a step."""

    def __init__(self, model: Any, plan: Plan) -> None:
        self._model, self._plan = model, plan
        self._folder: TemporaryDirectory[str] | None = None
        self._debugger: Any = None
        self._is_open = False
        self.verdict: Verdict | None = None
        """The verdict, after the block; None if the golden was written, or the block raised an exception."""
        self.refused: Answer | None = None
        """Why a golden was not written: the block does not train."""
        self.page = ""
        """The report page, if one was written."""

    def __enter__(self) -> "GatedBlock":
        self._folder = TemporaryDirectory(prefix="msprobe-gate-")
        folder = Path(self._folder.name).resolve()
        (folder / DUMP).mkdir()
        file = folder / "settings.json"
        file.write_text(json.dumps(self._collection.settings(folder / DUMP)))
        self._debugger = _debugger_of(self._model)(str(file))
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._folder is not None  # it was entered
        try:
            if self._is_open:
                self._debugger.stop()
            self._debugger._retire()
            if kind is None:
                run = Path(self._folder.name).resolve() / DUMP
                _remove_last_step(run)
                self._settle(run)
        finally:
            self._folder.cleanup()

    def step(self) -> None:
        """End a step of the training: call it once after each update."""
        self._debugger.stop()
        self._debugger.step()
        self._start()

    def _start(self) -> None:
        self._debugger.start(self._model)
        self._is_open = True

    @property
    def _collection(self) -> Collection:
        if self._plan.golden.is_file():
            return Golden.read(self._plan.golden).wanted.collection
        return Collection(steps=self._plan.steps)

    def _settle(self, run: Path) -> None:
        plan = self._plan
        if plan.golden.is_file():
            golden = Golden.read(plan.golden)
            if plan.update:
                done = accept(golden, run, plan.update)
                self.refused = done.answer if done.is_untrained else None
                return
            self.verdict = judged(run, golden, plan.limits, html=plan.report is not None)
            if self.verdict.state is State.RED:
                self.page = page_of(self.verdict, plan.report)
            return
        if not plan.update:
            raise UsageError(
                f"{plan.golden}: there is no golden; write it with: pytest --numerics-update REASON, and add it to git"
            )
        facts = facts_of(read_run(run))
        if not facts or (defects(facts) and not plan.forward_only):
            self.refused = untrained_answer(facts)
            return
        wanted = Wanted(self._collection, forward_only=plan.forward_only)
        write(plan.golden, run, wanted)


def _remove_last_step(run: Path) -> None:
    """Remove the dump that was begun after the last step, and has no calls."""
    for step, _, dump in read_run(run).every:
        if not dump.calls:
            shutil.rmtree(step_folder(run, step or 0), ignore_errors=True)


def _debugger_of(model: Any) -> Any:
    """Return the class of the debugger for a model; UsageError if it is not a model of an imported framework."""
    for framework in imported():
        if framework.modules.is_model(model):
            return framework.debugger
    raise UsageError(f"numerics_gate: {type(model).__name__} is not a model of PyTorch or MindSpore; pass the model")
