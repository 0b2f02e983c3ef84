"""Writing the tables of TrainerMonitorV2: a file per monitor, whose rows say their scope."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from .layout import KINDS, TEXTS, scoped_file_name
from .writer import AppendedFiles, Row, line_text, numbers_text, quoted


class ScopedWriter:
    """The files of one rank in the form of TrainerMonitorV2. OSError where something cannot be written.

    `operations` are the statistics of each monitor, `{"weight_grad": ["norm", "max"]}`; `folder` is the rank's
    (`layout.scoped_folder`). A finished step survives a kill as it does with `RowWriter`.
    """

    def __init__(self, folder: Path, operations: Mapping[str, Sequence[str]], digits: int, steps_per_file: int):
        self.folder = folder
        self.steps_per_file = steps_per_file
        self._operations = {
            monitor: tuple(operation for operation in chosen if operation not in TEXTS)
            for monitor, chosen in operations.items()
        }
        self._numbers = numbers_text(digits)
        self._files = AppendedFiles(folder)
        self._with_micro_step = {kind.monitor for kind in KINDS.values() if kind.has_micro_step}

    def write(self, step: int, rows: Mapping[str, Sequence[Row]]) -> None:
        """Append the rows of a step, by kind, each with the values of its monitor's operations."""
        kinds: dict[str, list[str]] = {}
        for kind, of_kind in rows.items():
            monitor = KINDS[kind].monitor
            if of_kind:
                kinds.setdefault(monitor, []).append(kind)
            if any(row.micro_step is not None for row in of_kind):
                self._with_micro_step.add(monitor)
        for monitor, of_monitor in kinds.items():
            lines = "".join(self._lines(monitor, kind, step, rows[kind]) for kind in of_monitor)
            name = scoped_file_name(monitor, step, self.steps_per_file)
            self._files.append(monitor, name, self._header(monitor), lines)

    def _header(self, monitor: str) -> str:
        leading = ["vpp_stage", "step", "module_name", "scope"]
        micro = ["micro_step"] if monitor in self._with_micro_step else []
        return line_text([*leading, *micro, *self._operations[monitor]])

    def _lines(self, monitor: str, kind: str, step: int, rows: Sequence[Row]) -> str:
        scope, width = KINDS[kind].scope, len(self._operations[monitor])
        has_micro = monitor in self._with_micro_step
        lines = []
        for row in rows:
            if len(row.values) != width:
                raise ValueError(f"{kind}, {row.name}: {len(row.values)} values for {width} statistics")
            micro = f",{row.micro_step or 0}" if has_micro else ""
            numbers = self._numbers(row.values)
            lines.append(f"{row.vpp_stage},{step},{quoted(row.name)},{scope}{micro},{numbers}\n")
        return "".join(lines)

    def close(self) -> None:
        """Close the files; the next step opens them again."""
        self._files.close()
