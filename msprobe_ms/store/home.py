"""Where a step's dump goes, and how its writer is made."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msprobe.base.settings import Settings
from msprobe.base.tally import Tally

from .behind import LIMIT
from .budget import Budget
from .write import Writer


@dataclass(frozen=True, slots=True)
class Home:
    """A step's folder, what its dump says above its data, and what all steps share: disk space, what came of them."""

    folder: Path
    header: dict[str, Any]
    settings: Settings
    budget: Budget | None = None
    tally: Tally | None = None

    def open(self) -> Writer:
        """Begin the dump; OSError and UsageError as of the writer."""
        return Writer(
            self.folder,
            self.header,
            extra_info=self.settings.extra_info and self.settings.level != "debug",
            limit=None if self.settings.async_dump else LIMIT,
            budget=self.budget,
            tally=self.tally,
        )
