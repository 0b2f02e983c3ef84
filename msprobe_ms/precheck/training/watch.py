"""Task `acc_check`: results of a training are compared with float64 immediately, and wrong ones are written.

Nothing is executed again by the framework: the outputs and gradients that the training itself computed are judged, on
copies, by PyTorch on the CPU. That runs in a separate thread, where neither autocast nor hooks on saved tensors of
the training hold; the training waits for it, at most about `budget_ms` in each step.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from time import perf_counter, strftime
from typing import Any

from msprobe.base import names
from msprobe.base.errors import SettingsError, UsageError, reason
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import log_once, logger
from msprobe.base.sections import AccCheckSettings
from msprobe.base.statistic import Array
from msprobe.frameworks.registry import has_reference, is_reference_replaced
from msprobe.precheck.check import Api, Checked, Direction, Skipped, judged_call
from msprobe.precheck.judge import Status
from msprobe.precheck.lists import Lists
from msprobe.precheck.tables import Files, write_turns
from msprobe.precheck.turns import Key, Turns
from msprobe.replay.recorded import CannotReplay, RecordedCall
from msprobe.replay.references import WHOLE
from msprobe.store.stacks_and_construct import user_line
from msprobe.store.watching.front import Opened, Watch
from msprobe.store.watching.held import Held, HoldingFront
from msprobe.store.watching.manner import Manner, is_exchange
from msprobe.store.writer import Source, StepFolder

from .call import Kept, copied, recorded, shapes_of, size_of

_ABSENT = 3
"""Number of steps without gradients for a call that waits for them, after which it is assumed to have none."""


class Checks(Watch):
    """The checks of one debugger, over all steps."""

    @classmethod
    def of(cls, settings: AccCheckSettings) -> "Checks":
        """Return the checks of a debugger with these settings. SettingsError without PyTorch."""
        if not has_reference():
            raise SettingsError(
                'task: "acc_check" computes float64 results with PyTorch, which is not installed; run: pip '
                "install 'msprobe-ms[torch]' (the CPU build is sufficient)"
            )
        return cls(settings)

    def __init__(self, settings: AccCheckSettings) -> None:
        self.settings = settings
        self.turns = Turns()
        self.known_wrong: set[Key] = set()
        self.changes_inputs: set[str] = set()
        """Functions that were seen to return an input, which they may have changed."""
        self.debt = 0.0
        """Seconds by which earlier steps exceeded their budget."""
        self._waiting = -1
        self._lists = Lists(settings.white_list, settings.black_list)
        self._functions: dict[str, tuple[str, str]] = {}
        self._files: Files | None = None
        self._process = os.getpid()
        self._worker = ThreadPoolExecutor(1, "msprobe-acc_check")

    @property
    def is_own_process(self) -> bool:
        """Return whether this is not a forked child process, in which the thread does not run."""
        return os.getpid() == self._process

    def front(self, step: StepFolder) -> "CheckFront":
        """Return the filter of a step. UsageError if `torch` is not the PyTorch that computes in float64."""
        if is_reference_replaced():
            raise UsageError(
                'start(): task "acc_check" needs PyTorch, but `torch` is PyTorch\'s API on MindSpore here; '
                'collect task "tensor", and check the dump with `msprobe acc-check` where PyTorch is installed'
            )
        if self._files is None:
            import_module("msprobe.replay.reference.compute")  # now, because the import takes seconds
            time = f"{step.folder.name}_{strftime('%Y%m%d%H%M%S')}"
            self._files = Files.new(step.folder.parent.parent, time)
        return CheckFront(step, self)

    def function_of(self, name: str) -> tuple[str, str]:
        """Return function and direction of a call that may be checked; two empty strings for other calls."""
        rest, _, last = name.rpartition(".")
        key = f"{rest.rpartition('.')[0]}.{last}"  # without the number, which differs for each call
        found = self._functions.get(key)
        if found is None:
            of = names.parse(name)
            is_api = of.kind == "api" and of.direction and of.number >= 0 and not of.stem.startswith("Jit.")
            found = (of.stem, of.direction) if is_api and not is_exchange(name) else ("", "")
            self._functions[key] = found
        return found if not found[0] or self._lists.has(Api(rest)) else ("", "")

    def judged(self, directions: Sequence[Kept], framework: str, direction: str) -> Direction:
        """Return the judgement of the last direction. Raises only exceptions that end the process."""
        return self._worker.submit(_judged, directions, framework, direction).result()

    def write(self, found: Sequence[Checked]) -> None:
        """Append results to the files. UsageError where the disk refuses."""
        for each in found:
            if self._files is not None:
                self._files.append(each)

    def end_step(self, step: str, spent: float) -> None:
        """End a step; log the number of unchecked calls when it changes."""
        budget = self.settings.budget_ms / 1e3
        self.debt = max(0.0, self.debt + spent - budget)
        self.turns.end_step()
        waiting, known = self.turns.waiting, self.turns.known
        if waiting != self._waiting:
            self._waiting = waiting
            rest = f", {waiting} are checked in later steps (budget_ms {self.settings.budget_ms:g})" if waiting else ""
            logger.info("acc_check: %s: %d of %d distinct calls checked%s", step, known - waiting, known, rest)
        if self._files is not None:
            write_turns(self._files.result, self.turns)


def _judged(directions: Sequence[Kept], framework: str, direction: str) -> Direction:
    try:
        call: RecordedCall = recorded(directions, framework)
        return judged_call(call, direction, is_recorded=True, whole=WHOLE)
    except CannotReplay as err:
        return Direction(direction, skipped=Skipped(err.outcome.cause, err.outcome.detail))


class CheckFront(HoldingFront):
    """Checks the calls of a step whose turn it is, and writes those that are wrong."""

    def __init__(self, step: StepFolder, watch: Checks) -> None:
        super().__init__(step)
        self._watch, self._turns = watch, watch.turns
        self._opened = Opened(step)
        self._manners: dict[str, Manner] = {}
        self._awaiting: dict[str, tuple[Kept, Key]] = {}
        """By the name of the backward call: the forward."""
        self._bytes = 0
        self._spent = 0.0
        self._results: dict[str, list[Direction]] = {}
        self._lines: dict[str, str] = {}
        self._written: set[str] = set()
        self._is_seen = False

    # ---- what describers pass on -----------------------------------------------------------------------------------

    def hold(self, source: Source, tensor: Any, call: str, part: str) -> str:
        """Hold a tensor until its call ends; return the placeholder of its record."""
        with self._lock:
            one = Held(source, tensor, part)
            if part[:6] != "output" and self._is_worth_a_copy(call, one):
                one = self._timed(lambda: copied(one)) or one
            return self._keep(call, one)

    def _is_worth_a_copy(self, call: str, one: Held) -> bool:
        """Return whether the call may change the tensor, and may be checked."""
        stem, direction = self._watch.function_of(call)
        if direction != "forward" or not self._may_change(stem, call) or not self._has_time():
            return False
        return self._turns.is_due(stem) and size_of([one]) <= self._watch.settings.memory

    def _may_change(self, stem: str, call: str) -> bool:
        manner = self._manners.get(stem)
        if manner is None:
            manner = self._manners[stem] = Manner(call)
        return manner.copies or manner.looks or stem in self._watch.changes_inputs

    def _has_time(self) -> bool:
        return self._spent + self._watch.debt < self._watch.settings.budget_ms / 1e3

    def _timed(self, work: Callable[[], Any]) -> Any:
        """Return the result of `work`; None if it raised an exception, which is logged once per cause."""
        begin = perf_counter()
        try:
            return work()
        except Exception as cause:  # a failure of the debugger does not stop the training
            if must_propagate(cause):
                raise
            log_once(f"acc_check {type(cause)}", f"acc_check: a call could not be checked: {reason(cause)}")
            return None
        finally:
            self._spent += perf_counter() - begin

    # ---- what the writer would receive -----------------------------------------------------------------------------

    def stack(self, frames: Sequence[str]) -> int:
        with self._lock:
            return self._opened.number(frames)

    def tensor(self, data_name: str, array: Array) -> str:
        return self._opened.writer.tensor(data_name, array)

    def missing(self, name: str, part: str, cause: str) -> None:
        if self._opened.is_open:
            self._opened.writer.missing(name, part, cause)

    def call(self, name: str, parent: str | None, stack: int | None, entry: str | None) -> None:
        with self._lock:
            held = self._held.pop(name, [])
            if not self._is_seen:
                self._is_seen = True
                self._see()
            stem, direction = self._watch.function_of(name)
            if not stem or not held or entry is None or '"missing":[' in entry:
                return
            if direction == "forward":
                self._forward(stem, Kept(name, parent, stack, entry, held))
            else:
                self._backward(Kept(name, parent, stack, entry, held))

    def assemble(self) -> None:
        with self._lock:
            self._flush()
            if self._opened.is_open:
                self._opened.writer.assemble()

    def close(self) -> None:
        with self._lock:
            self._held.clear()
            for _, key in self._awaiting.values():
                self._turns.note_missing(key, _ABSENT)
            self._awaiting.clear()
            self._flush()
            if self._opened.is_open:
                self._opened.writer.close()
            self._timed(lambda: self._watch.end_step(self._place, self._spent))

    # ---- which call is checked -------------------------------------------------------------------------------------

    def _forward(self, stem: str, call: Kept) -> None:
        shapes = shapes_of(call.held)
        own, other = (stem, "forward", shapes), (stem, "backward", shapes)
        wanted = [key for key in (own, other) if self._turns.count(key)]
        if not wanted or not self._watch.is_own_process:
            return
        inputs = [one for one in call.held if one.part[:6] != "output"]
        received = {id(one.value) for one in inputs if not one.dtype}
        if any(id(one.value) in received for one in call.held if one.part[:6] == "output"):
            self._watch.changes_inputs.add(stem)  # from the next call on, copied before it runs
            return
        size, memory = size_of(call.held), self._watch.settings.memory
        if size > memory - self._bytes:
            for key in wanted:
                self._turns[key].over_memory += 1
                if size > memory:  # it would delay the round
                    self._turns[key].closed = 'its tensors exceed the limit of the setting "memory"'
            return
        if not self._has_time() or (received and self._may_change(stem, call.name)):
            for key in wanted:
                self._turns[key].over_budget += 1
            return
        kept = self._timed(lambda: Kept.of(call.name, call.parent, call.stack, call.entry, call.held))
        if kept is None:
            return
        if own in wanted:
            self._timed(lambda: self._check([kept], own))
        if other in wanted and not self._turns[other].closed:
            self._bytes += kept.size
            self._turns[other].is_awaited = True
            self._awaiting[names.counterpart(call.name, "backward")] = kept, other

    def _backward(self, call: Kept) -> None:
        forward, key = self._awaiting.pop(call.name, (None, None))
        if forward is None or key is None or not self._watch.is_own_process:
            return
        self._bytes -= forward.size
        if not self._has_time():
            self._turns[key].over_budget += 1
            return
        own = self._timed(lambda: Kept.of(call.name, call.parent, call.stack, call.entry, call.held))
        if own is not None:
            self._timed(lambda: self._check([forward, own], key))

    def _check(self, directions: Sequence[Kept], key: Key) -> None:
        stem, direction, shapes = key
        found = self._watch.judged(directions, str(self._step.header.get("framework", "")), direction)
        self._turns.note_checked(key, found.status)
        if found.skipped is not None:
            self._turns[key].closed = str(found.skipped)
            if direction == "forward":
                self._turns[stem, "backward", shapes].closed = self._turns[key].closed
        api = directions[0].name.removesuffix(".forward")
        self._lines[api] = line = self._line(directions[0].stack)
        self._results.setdefault(api, []).append(found)
        if found.status is Status.ERROR and key not in self._watch.known_wrong:
            self._watch.known_wrong.add(key)
            wrong = next(output for output in found.outputs if output.judgement.status is Status.ERROR)
            words = f"{wrong.name}: {wrong.message} ({', '.join(filter(None, (line, self._place)))})"
            logger.warning("acc_check: %s; written to %s", words, self._step.folder)
            for each in directions:
                self._write(each)

    @property
    def _place(self) -> str:
        return self._step.folder.parent.name

    def _line(self, stack: int | None) -> str:
        line = user_line(self._opened.frames(stack)) if stack is not None else None
        return f"{line.file}:{line.number}" if line else ""

    def _write(self, call: Kept) -> None:
        if call.name in self._written:
            return
        self._written.add(call.name)
        stack = self._opened.stack(call.stack)
        self._opened.writer.call(call.name, call.parent, stack, call.as_text())

    def _flush(self) -> None:
        """Append the results of calls of which nothing more is awaited."""
        found = [
            Checked(api, tuple(directions), ", ".join(filter(None, (self._place, self._lines[api]))))
            for api, directions in self._results.items()
        ]
        self._results.clear()
        self._timed(lambda: self._watch.write(found))
