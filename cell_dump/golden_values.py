"""The recorded values of a golden run, for the task `graft`: which there are, and each one when it is needed.

The golden is the folder of a dump, whose calls have the names of the training's, or a plan that says which value of
which call belongs where. Of a dump the records of one step are in memory, and the elements of no tensor.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from msprobe.base.errors import DumpError, SettingsError
from msprobe.base.log import join_names
from msprobe.base.statistic import Array
from msprobe.store import layout
from msprobe.store.folders import NAMED, is_golden, numbered
from msprobe.store.graft_plan import GoldenValue, GraftedStep, GraftPlan, read_plan
from msprobe.store.reader import load_file, read, tensor_file
from msprobe.store.record import GRADIENTS, INPUT, OUTPUT, PARAMETERS, PARAMETERS_GRAD, PARTS, TENSOR, Dump

_PARAMETER = "parameter "
"""How the source of a value begins that is a parameter of the model."""

_ACCUMULATED = GRADIENTS.index("accumulated")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded tensor of the golden, in the layout of the training. `name` is that of its record."""

    dump: Dump
    call: int
    row: int
    layout: GoldenValue

    @property
    def name(self) -> str:
        return self.dump.columns.row_name(self.row, self.call)

    @property
    def recorded_shape(self) -> tuple[int, ...] | None:
        """Return its shape in the golden; None if the record has none."""
        columns = self.dump.columns
        return columns.looks[columns.look[self.row]][2]

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Return its shape in the training; None if the plan's layout does not fit the record."""
        recorded = self.recorded_shape
        return None if recorded is None else self.layout.shape(recorded)

    @property
    def digest(self) -> str:
        """Return the digest of its elements in the layout of the training; empty if it is not known."""
        is_same = self.layout.permute is None and self.layout.reshape is None
        return self.dump.columns.digest[self.row] if is_same else ""

    @property
    def is_saved(self) -> bool:
        """Return whether the dump has its elements."""
        return bool(self.dump.columns.file[self.row])

    @property
    def is_parameter(self) -> bool:
        """Return whether it was a parameter of the model."""
        return self.dump.columns.source[self.row].startswith(_PARAMETER)

    def load(self) -> Array:
        """Return its elements; DumpError if they are missing or broken."""
        path = tensor_file(self.dump.folder, self.dump.columns.file[self.row], self.dump.tensors)
        return self.layout.laid_out(load_file(path, as_dumped=not self.dump.tensors))


class GoldenStep:
    """The values of one step of one rank; with `planned` those that a plan names, by the names of the training."""

    def __init__(self, dump: Dump, planned: GraftedStep | None = None) -> None:
        self.dump, self._planned = dump, planned

    @property
    def is_planned(self) -> bool:
        """Return whether a plan says which values there are."""
        return self._planned is not None

    @cached_property
    def calls(self) -> frozenset[str]:
        """Return the full names, of the training, of the calls that have values."""
        return frozenset(self.dump.place if self._planned is None else self._planned.calls)

    @property
    def parameters(self) -> Iterable[str]:
        """Return the names, of the training, of the parameters that have values."""
        return (self._parameters if self._planned is None else self._planned.parameters).keys()

    def of_call(self, name: str) -> dict[str, Recorded]:
        """Return the tensors of a call, forward or backward, by their places in the training's call.

        A gradient of an argument that is the sum over all users of the tensor is not the call's own, and is left out.
        DumpError if the plan names what the dump does not have.
        """
        if self._planned is None:
            return self._of_dump(name)
        planned = self._planned.calls.get(name)
        if planned is None:
            return {}
        own = self._of_dump(planned.golden)
        found = {}
        for place, value in planned.values.items():
            if value.place in own:
                each = own[value.place]
                found[place] = Recorded(each.dump, each.call, each.row, value)
            elif value.place not in self._accumulated(planned.golden):
                raise DumpError(
                    f"{self.dump.where}: has no tensor {planned.golden}.{value.place}, which the plan names for "
                    f"{name}.{place}; write the plan again with `msprobe graft`"
                )
        return found

    def parameter(self, name: str) -> Recorded | None:
        """Return the value of a parameter when the step began; None if there is none."""
        if self._planned is None:
            return self._parameters.get(name)
        value = self._planned.parameters.get(name)
        if value is None:
            return None
        own = self._parameters.get(value.place)
        if own is None:
            raise DumpError(
                f"{self.dump.where}: has no value of the parameter {value.place}, which the plan names for {name}; "
                "write the plan again with `msprobe graft`"
            )
        return Recorded(own.dump, own.call, own.row, value)

    def _of_dump(self, name: str) -> dict[str, Recorded]:
        columns, call, found = self.dump.columns, self.dump.place.get(name, -1), dict[str, Recorded]()
        for row in columns.rows(call) if call >= 0 else ():
            if columns.kind[row] == TENSOR and not self._is_sum(call, row):
                place = self._place(row)
                found[place] = Recorded(self.dump, call, row, GoldenValue(place))
        return found

    def _accumulated(self, name: str) -> set[str]:
        call = self.dump.place.get(name, -1)
        rows = self.dump.columns.rows(call) if call >= 0 else ()
        return {self._place(row) for row in rows if self._is_sum(call, row)}

    def _is_sum(self, call: int, row: int) -> bool:
        columns = self.dump.columns
        is_of_argument = columns.part[row] == OUTPUT and self.dump.names[call].direction == "backward"
        return is_of_argument and columns.gradient[row] == _ACCUMULATED

    def _place(self, row: int) -> str:
        columns = self.dump.columns
        part, path = columns.part[row], columns.path_of(row)
        return ".".join(path if part == PARAMETERS_GRAD else (PARTS[part], *path))

    @cached_property
    def _parameters(self) -> dict[str, Recorded]:
        """Return the first record of each parameter, by its name: nothing has changed it before in this step."""
        columns, found = self.dump.columns, dict[str, Recorded]()
        for call in range(len(columns.names)):
            for row in columns.rows(call):
                name = ""
                if columns.kind[row] != TENSOR:
                    continue
                if columns.part[row] == PARAMETERS:
                    name = self.dump.parameter_name(row)
                elif columns.part[row] == INPUT and columns.source[row].startswith(_PARAMETER):
                    name = columns.source[row].removeprefix(_PARAMETER)
                if name and name not in found:
                    found[name] = Recorded(self.dump, call, row, GoldenValue(name))
        return found


class Golden:
    """The golden of a graft: the folder of its dump, and the plan if there is one. SettingsError if it has no steps."""

    def __init__(self, path: str) -> None:
        self.where = Path(path)
        self.plan: GraftPlan | None = None
        self._root = self.where
        try:
            if self.where.is_file():
                self._refuse_golden_file()
                self.plan = read_plan(self.where)
                self._root = Path(self.plan.golden)
            self._folders = self._steps_of(self._root)
        except (DumpError, OSError) as cause:
            raise SettingsError(f"graft.golden: {cause}") from cause

    def _refuse_golden_file(self) -> None:
        if is_golden(self.where):
            raise DumpError(
                f"{self.where}: is a golden file, which has samples of tensors only; give the folder of a dump of task "
                "tensor"
            )

    @property
    def steps(self) -> tuple[int, ...]:
        """Return the steps that have values."""
        return tuple(sorted(self._folders if self.plan is None else self._folders.keys() & self.plan.steps.keys()))

    def step(self, number: int, rank: int) -> GoldenStep:
        """Read a step of a rank. SettingsError if it cannot be read, or if the golden has no such rank."""
        try:
            folder = self._rank_folder(self._folders[number], rank)
            dump = read(folder)
        except (DumpError, OSError) as cause:
            raise SettingsError(f"graft.golden: {cause}") from cause
        return GoldenStep(dump, None if self.plan is None else self.plan.steps[number])

    @staticmethod
    def _steps_of(root: Path) -> Mapping[int, Path]:
        if not root.is_dir():
            raise DumpError(f"{root}: no such folder; give the folder of a dump of task tensor, with its steps")
        inner = [entry.name for entry in root.iterdir() if entry.is_dir()]
        found = {layout.step_number(name): root / name for name in numbered(inner, layout.step_number)}
        if not found:
            hint = f"; it contains {join_names(sorted(inner), NAMED)}" if inner else ""
            raise DumpError(
                f"{root}: contains no steps{hint}; give the dump_path of the golden run, whose folders are step0, ..."
            )
        return {number: folder for number, folder in found.items() if number is not None}

    @staticmethod
    def _rank_folder(step: Path, rank: int) -> Path:
        names = numbered([entry.name for entry in step.iterdir() if entry.is_dir()], layout.rank_number)
        for name in names:
            if layout.rank_number(name) == rank:
                return step / name
        known = join_names(names, NAMED) if names else "no ranks"
        raise DumpError(f"{step}: has no dump of rank {rank}, only {known}; collect the golden with as many ranks")
