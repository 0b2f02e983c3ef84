"""What a debugger asks of who collects for it, whatever the framework."""

from collections.abc import Callable
from typing import Any, Protocol

from msprobe.store.writer import Home

HomeOf = Callable[[str], Home]
"""The home of a step's dump in a folder below dump_path; "" for dump_path itself."""


class Collecting(Protocol):
    """Who collects for one debugger. `open` and `shut` may alternate within a step."""

    @property
    def is_open(self) -> bool:
        """Whether calls are being recorded."""

    @property
    def in_step(self) -> bool:
        """Whether a step's dump has begun and is not finished."""

    @property
    def has_model(self) -> bool:
        """Whether a model was given, or none is needed."""

    def check(self, model: Any, token_range: Any = None) -> None:
        """Refuse what cannot be collected."""

    def open(self, model: Any, home_of: HomeOf, token_range: Any = None) -> None:
        """Start recording; a home is asked for when this begins a step. OSError where it cannot be written."""

    def expect(self, model: Any) -> None:
        """Be ready in a step that is not recorded."""

    def give_way(self) -> None:
        """Another debugger has begun to collect."""

    def shut(self) -> None:
        """Stop recording."""

    def end_step(self) -> None:
        """End the step's dump and start the numbers anew."""
