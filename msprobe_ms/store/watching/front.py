"""A replacement of a step's writer that decides which of its calls are written."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from msprobe.base.interrupts import uninterrupted
from msprobe.base.statistic import Array
from msprobe.store.writer import Holder, Raised, StepFolder, Writer

from .findings import Caught, write_findings


class Front(ABC):
    """The methods of `Writer` that a collection uses. Safe to use from several threads."""

    holder: Holder | None = None
    """Itself where describers pass tensors on instead of describing them."""

    def __init__(self, step: StepFolder) -> None:
        self._step = step
        self.suffix = step.suffix
        self.when_over: Callable[[], None] = lambda: None
        """Called when nothing more is to be collected in this run."""

    @abstractmethod
    def stack(self, frames: Sequence[str]) -> int:
        """See `Writer.stack`."""

    @abstractmethod
    def call(self, name: str, parent: str | None, stack: int | None, entry: str | None) -> None:
        """See `Writer.call`, where the call is to be written."""

    @abstractmethod
    def tensor(self, data_name: str, array: Array) -> str:
        """See `Writer.tensor`."""

    @abstractmethod
    def missing(self, name: str, part: str, cause: str) -> None:
        """See `Writer.missing`."""

    def order(self, names: Sequence[str]) -> None:  # noqa: B027  # only what passes names on has an order
        """See `Writer.order`."""

    def abandon(self, name: str) -> None:  # noqa: B027  # only what holds values by call lets go of them
        """Discard a call that began and is not recorded."""

    def raised(self, call: Raised) -> None:  # noqa: B027  # only who waits for exceptions looks at one
        """See `Writer.raised`."""

    @abstractmethod
    def assemble(self) -> None:
        """See `Writer.assemble`."""

    @abstractmethod
    def close(self) -> None:
        """See `Writer.close`."""

    def _see(self) -> None:
        """Note that calls were collected, also in a run that wrote none."""
        if self._step.tally is not None:
            self._step.tally.any = True

    def _note(self, findings: Sequence[Caught], is_over: bool) -> None:
        write_findings(self._step.folder, self._step.settings.task, findings, is_over)


class Watch(ABC):
    """What one debugger watches for, over all its steps."""

    is_over = False
    """Whether as much was found as was asked for."""

    @abstractmethod
    def front(self, step: StepFolder) -> Front:
        """Return the filter in front of the writer of a step. OSError and UsageError as of the writer."""


class Opened:
    """A writer that is opened when something is written for the first time: steps that show nothing leave no folder.

    Stacks have numbers of their own until then.
    """

    def __init__(self, step: StepFolder) -> None:
        self._step = step
        self._writer: Writer | None = None
        self._frames: list[tuple[str, ...]] = []
        self._numbers: dict[tuple[str, ...], int] = {}
        self._stacks: dict[int, int] = {}

    @property
    def writer(self) -> Writer:
        """Return the writer; OSError and UsageError as of its construction."""
        if self._writer is None:
            uninterrupted(self._open)
        assert self._writer is not None
        return self._writer

    def _open(self) -> None:
        self._writer = self._step.writer()

    @property
    def is_open(self) -> bool:
        """Return whether anything was written."""
        return self._writer is not None

    def number(self, frames: Sequence[str]) -> int:
        """Return the number of a stack here."""
        key = tuple(frames)
        number = self._numbers.setdefault(key, len(self._frames))
        if number == len(self._frames):
            self._frames.append(key)
        return number

    def frames(self, number: int) -> tuple[str, ...]:
        """Return the stack with a number here."""
        return self._frames[number]

    def stack(self, number: int | None) -> int | None:
        """Return the writer's number of a stack with a number here."""
        if number is not None and number not in self._stacks:
            self._stacks[number] = self.writer.stack(self._frames[number])
        return None if number is None else self._stacks[number]
