"""Task `overflow_check`: writes only calls with values that are not finite.

A call is a finding if such values begin there: its inputs are finite and one of its results is not, or they come from
outside of the collected calls. Calls that pass them on have only statistics; masks of -inf are not written.

The inputs and results of a call are held until it ends. Its results are tested; only if one is not finite, its inputs
are also tested, as they are then. So a step without overflow costs one test of each result. Inputs that the call may
change are tested, or copied, before it runs: those of cells and of compiled code, those of functions that work in
place, and the arguments of collectives, which are overwritten.

Collectives are always written, without values if everything is finite: `msprobe overflow-check` orders the ranks by
them.
"""

from collections.abc import Sequence
from typing import Any
from weakref import ref

from msprobe.base.errors import reason
from msprobe.base.finite import is_finite
from msprobe.base.interrupts import must_propagate
from msprobe.base.log import logger
from msprobe.base.names import counterpart, parse
from msprobe.base.statistic import Array
from msprobe.findings.catalogue import nonfinite as kinds
from msprobe.findings.kind import Kind
from msprobe.store.stacks_and_construct import user_line
from msprobe.store.writer import Source, StepFolder

from .content import Content, content_of, content_of_numbers, judged
from .findings import Caught
from .front import Watch
from .held import Held, HoldingFront, filled
from .manner import Manner, is_exchange

_AT_ONCE = 100
"""Number of findings of a step for which the files are updated immediately; for later ones only entries are written."""


class Overflows(Watch):
    """Number of calls that were written, over all steps and collectors of a debugger."""

    def __init__(self, most: int) -> None:
        """End collecting after `most` written calls; -1: never."""
        self._most = most
        self._count = 0

    def front(self, step: StepFolder) -> "OverflowFront":
        return OverflowFront(step, self)

    def count(self) -> None:
        """Count one more written call."""
        self._count += 1
        self.is_over = 0 < self._most <= self._count


class OverflowFront(HoldingFront):
    """Writes the names of all calls, and the entries of those that overflow."""

    def __init__(self, step: StepFolder, watch: Overflows) -> None:
        super().__init__(step)
        self._watch = watch
        self._writer = step.writer()
        self._manners: dict[str, Manner] = {}
        # At level L0, functions that work in place are not recorded, so values that were finite may have changed.
        self._trusts = step.settings.level != "L0"
        self._finite: dict[int, ref[Any]] = {}
        self._stacks: dict[str, int] = {}
        self._frames: dict[int, Sequence[str]] = {}
        self._findings: list[Caught] = []
        self._known = Content.NOTHING
        self._is_tainted = self._is_seen = False
        self._cells_with_bad_gradient: set[str] = set()
        self._has_bad_gradient = False
        self._cells_with_gradient: set[str] = set()
        self._pending: dict[str, Caught] = {}

    # ---- what describers pass on -----------------------------------------------------------------------------------

    def hold(self, source: Source, tensor: Any, call: str, part: str) -> str:
        """Hold a tensor of a call, and return the placeholder of its record."""
        with self._lock:
            one = Held(source, tensor, part)
            if part[:6] != "output":
                manner = self._manner(call)
                if manner.copies:
                    one = self._copied(source, tensor, call, part)
                elif manner.looks and (not part.startswith("parameters.") or not _is_trained(tensor)):
                    one = Held(source, tensor, part, was_finite=self._is_finite(one, call, self._trusts))
                    if manner.is_backward:
                        self._receive_gradient(call, is_finite=one.was_finite is True)
            return self._keep(call, one)

    def hold_array(self, source: Source, array: Array, call: str, part: str, kind: str, dtype: str) -> str:
        manner = self._manner(call)
        if manner.is_backward and manner.looks and part[:6] != "output":
            with self._lock:
                self._receive_gradient(call, is_finite=is_finite(array))
        return super().hold_array(source, array, call, part, kind, dtype)

    def _receive_gradient(self, call: str, *, is_finite: bool) -> None:
        """Note that a gradient has come to a cell."""
        stem = parse(call).stem
        self._cells_with_gradient.add(stem)
        if not is_finite:
            self._has_bad_gradient = True
            self._cells_with_bad_gradient.add(stem)

    def _copied(self, source: Source, tensor: Any, call: str, part: str) -> Held:
        try:
            return Held(source, source.elements(tensor).copy(), part, source.kind, str(tensor.dtype))
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            self.missing(call, part, reason(cause))
            return Held(source, tensor, part, was_finite=True)

    def _manner(self, call: str) -> Manner:
        """Return the effects of a call on its inputs, by its name without the number."""
        stem, _, last = call.rpartition(".")
        key = stem if last.isdigit() else f"{stem.rpartition('.')[0]}.{last}"
        found = self._manners.get(key)
        if found is None:
            found = self._manners[key] = Manner(call)
        return found

    # ---- what the writer would receive -----------------------------------------------------------------------------

    def stack(self, frames: Sequence[str]) -> int:
        number = self._writer.stack(frames)
        self._frames[number] = frames
        return number

    def tensor(self, data_name: str, array: Array) -> str:
        return self._writer.tensor(data_name, array)

    def missing(self, name: str, part: str, cause: str) -> None:
        if not self._watch.is_over:
            self._writer.missing(name, part, cause)

    def order(self, names: Sequence[str]) -> None:
        self._writer.order(names)

    def call(self, name: str, parent: str | None, stack: int | None, entry: str | None) -> None:
        with self._lock:
            held = self._held.pop(name, [])
            if self._watch.is_over:
                return
            if not self._is_seen:
                self._is_seen = True
                self._see()
            if stack is not None:
                self._stacks[name] = stack
            if entry is not None and held:
                entry, finding = self._judged(name, parent, entry, held)
            else:
                entry, finding = (entry if is_exchange(name) else None), None
            self._writer.call(name, parent, stack, entry)
            pending = self._pending.pop(name, None)
            finding = finding or pending
            if finding is not None:
                self._count(finding, parent)

    def assemble(self) -> None:
        self._writer.assemble()

    def close(self) -> None:
        self._held.clear()
        self._finite.clear()
        self._writer.close()

    # ---- which call is written -------------------------------------------------------------------------------------

    def _judged(self, name: str, parent: str | None, entry: str, held: list[Held]) -> tuple[str | None, Caught | None]:
        """Return the entry to write, None for none, and a finding if the call is one."""
        manner, exchanges, is_gradient = self._manner(name), is_exchange(name), name.find(".parameters_grad") > 0
        inputs = [] if is_gradient else [one for one in held if one.part[:6] != "output"]
        results = held if is_gradient else [one for one in held if one.part[:6] == "output"]
        if manner.moves and self._moved(inputs, results):
            return None, None
        trusts = self._trusts and not manner.copies
        received = {id(one.value) for one in inputs}  # which a function may have written into: relu(x, inplace=True)
        bad = [one for one in results if not self._is_finite(one, name, trusts and id(one.value) not in received)]
        if not bad and not exchanges and not self._takes_nonfinite(inputs, results, name, manner):
            return None, None
        given = [one for one in inputs if not self._was_finite(one, name)]
        # A call that takes such values and returns finite ones absorbs them, except a backward call, which may return
        # nothing.
        kind = self._kind(name, entry, given, bad) if bad or (given and manner.is_backward) else None
        self._has_bad_gradient |= bool(bad) and manner.is_backward
        if kind is kinds.OF_INFINITIES and not bad:
            kind = kinds.RECEIVED  # a gradient is not a mask
        place = given[0].part if kind is kinds.RECEIVED and given else bad[0].part if bad else ""
        if kind is kinds.RECEIVED and not place.startswith("parameters."):
            kind = kinds.ENTERED
            if parent is not None and self._is_of(parent):
                self._pending.setdefault(parent, self._finding(kind, name, place))
                kind = None
        if kind is None:
            return self._passed_on(name, entry, held, [*given, *bad], exchanges), None
        self._is_tainted = True
        return filled(entry, [self._record(one, name) for one in held]), self._finding(kind, name, place)

    def _takes_nonfinite(self, inputs: Sequence[Held], results: Sequence[Held], name: str, manner: Manner) -> bool:
        """Return whether a call whose results are finite, or that has none, is known to take values that are not
        finite. Inputs that were not tested are not read for this, except those of a backward call without results: its
        input needs no gradient."""
        if any(one.was_finite is False for one in inputs):
            return True
        return manner.is_backward and not results and any(not self._was_finite(one, name) for one in inputs)

    def _passed_on(
        self, name: str, entry: str, held: Sequence[Held], nonfinite: Sequence[Held], exchanges: bool
    ) -> str | None:
        """Return the entry of a call that begins nothing: with statistics if it has NaN or inf; without values if
        everything is finite, which is written for collectives only; None for a mask."""
        if exchanges or self._together(nonfinite, name) & ~Content.MINUS:
            is_plain = not nonfinite
            return filled(entry, [one.bare() if is_plain or one.has_changed else one.measured() for one in held])
        return None

    def _is_of(self, parent: str) -> bool:
        """Return whether the input of a cell was computed inside the cell around it, whose inputs are finite: at level
        L0, where nothing between cells is recorded, and the cell around is the finding when it ends with such a
        result."""
        held = [] if self._trusts else self._held.get(parent, [])
        return bool(held) and all(one.was_finite for one in held if not one.part.startswith("parameters."))

    def _moved(self, inputs: Sequence[Held], results: Sequence[Held]) -> bool:
        """Return whether a call that moves elements moved those of tensors that are known to be finite."""
        if not inputs or any(one.dtype or not self._knows(one.value) for one in inputs):
            return False
        for one in results:
            self._remember(one.value)
        return True

    def _kind(self, name: str, entry: str, given: Sequence[Held], bad: Sequence[Held]) -> Kind | None:
        if name.find(".parameters_grad") > 0:
            return self._of_gradient(parse(name).stem)
        tensors, made = self._together(given, name), self._together(bad, name)
        kind = judged(tensors, content_of_numbers(entry), made, self._known, self._is_tainted)
        self._known |= tensors | made
        return kind

    def _of_gradient(self, stem: str) -> Kind | None:
        """Return the kind of finding of a parameter's gradient, None for none: it begins here if the incoming gradients
        of the cell were finite, and at level mix, where the call that computed it is also recorded, if no earlier
        gradient was not finite."""
        is_own = stem not in self._cells_with_bad_gradient
        if self._step.settings.level != "L0":
            is_own = not self._has_bad_gradient
        self._has_bad_gradient = True
        if not is_own:
            return None
        # A parameter whose cell had no backward call is used by code outside of it.
        return kinds.MADE if stem in self._cells_with_gradient else kinds.ENTERED

    def _together(self, held: Sequence[Held], name: str) -> Content:
        found = Content.NOTHING
        for one in held:
            try:
                found |= content_of(one.array)
            except Exception as cause:  # a debugger never stops the training because of itself
                if must_propagate(cause):
                    raise
                self.missing(name, one.part, reason(cause))
        return found

    def _record(self, one: Held, name: str) -> str:
        if one.has_changed:
            self.missing(name, one.part, "the call changed it in place, and its earlier value was not kept")
            return one.bare()
        record = one.record(name)
        return record if record != "null" else one.bare()

    def _finding(self, kind: Kind, name: str, place: str) -> Caught:
        number = self._stacks.get(name, self._stacks.get(counterpart(name, "forward"), -1))
        parsed = parse(name)
        if number < 0 and parsed.kind == "parameters_grad":
            number = self._stacks.get(f"{parsed.stem}.forward.0", -1)
        line = user_line(self._frames.get(number, ()))
        return Caught(kind, name, place, file=line.file if line else "", line=line.number if line else None)

    def _count(self, finding: Caught, parent: str | None) -> None:
        self._watch.count()
        logger.warning("overflow_check: %s", finding.sentence(self._step.folder))
        try:
            if len(self._findings) < _AT_ONCE or self._watch.is_over:
                self._findings.append(finding)
                self._note(self._findings, self._watch.is_over)
            if self._watch.is_over:
                logger.warning("overflow_check: overflow_nums is reached; collection ends for this run")
                if parent is not None:  # it runs, and nothing will be heard of its end
                    self._writer.call(parent, None, None, None)
            if len(self._findings) < _AT_ONCE or self._watch.is_over:
                self._writer.assemble()
        finally:
            if self._watch.is_over:
                self._held.clear()
                self.when_over()

    # ---- what is known to be finite --------------------------------------------------------------------------------

    def _is_finite(self, one: Held, name: str, trusts: bool) -> bool:
        """Return whether a value is finite now; with `trusts`, values that were found finite are not tested again."""
        if trusts and not one.dtype and self._knows(one.value):
            return True
        try:
            found = one.is_finite()
        except Exception as cause:  # a debugger never stops the training because of itself
            if must_propagate(cause):
                raise
            self.missing(name, one.part, reason(cause))
            return True
        if not one.dtype:
            if found:
                self._remember(one.value)
            else:
                self._finite.pop(id(one.value), None)
        return found

    def _was_finite(self, one: Held, name: str) -> bool:
        """Return whether an input was finite when the call began, if a result is not finite: nothing is assumed."""
        return self._is_finite(one, name, False) if one.was_finite is None else one.was_finite

    def _knows(self, tensor: Any) -> bool:
        known = self._finite.get(id(tensor))
        return known is not None and known() is tensor

    def _remember(self, tensor: Any) -> None:
        try:
            self._finite[id(tensor)] = ref(tensor)
        except TypeError:  # it cannot be referred to weakly
            return


def _is_trained(parameter: Any) -> bool:
    return getattr(parameter, "requires_grad", True) is True
