"""A forward call between its begin and its end, and the entry that it becomes."""

from collections.abc import Callable
from json.encoder import encode_basestring_ascii as quote
from typing import Any

from msprobe.base.data_mode import DataMode

from .backward import Backward
from .describer import Describer, Sources
from .nested import is_listed


class Forward:
    """A forward call between its begin and its end."""

    __slots__ = (
        *("arguments", "backward", "cell", "describer", "floor", "kept", "mode", "name", "parent", "parts", "stack"),
        *("stem", "tail", "wanted"),
    )

    def __init__(
        self, stem: str, name: str, parent: "Forward | None", cell: Any, describer: Describer, mode: DataMode, tail: str
    ) -> None:
        self.stem, self.name, self.parent, self.cell = stem, name, parent, cell
        self.describer, self.mode = describer, mode
        self.tail = tail
        """Members that say where in the step the call stands; empty at the usual place."""
        self.kept = True
        """Whether anything of it is recorded, its place in the nesting apart."""
        self.stack: int | None = None
        self.parts: list[str] = []
        self.arguments: Any = ()
        self.wanted: Any = None
        self.floor = -1
        self.backward: Backward | None = None

    @property
    def parent_name(self) -> str | None:
        """The name of the enclosing cell's call."""
        return self.parent.name if self.parent is not None else None

    def run_back(self) -> "Forward":
        """What stands for this call's backward as the place of calls that the backward itself makes."""
        name = self.backward.name if self.backward is not None else self.name
        return Forward(self.stem, name, None, self.cell, self.describer, self.mode, self.tail)

    def describe_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any], sources: Sources) -> None:
        """Record the arguments as they are now, and a cell's own parameters."""
        describe, name = self.describer.value, self.name
        if self.mode.input:
            listed = [describe(v, name, f"input.{i}", 1, sources) for i, v in enumerate(args)]
            named = [f"{quote(k)}:{describe(v, name, f'kwargs.{k}', 1, sources)}" for k, v in kwargs.items()]
            self.parts.append(f'"input_args":[{",".join(listed)}],"input_kwargs":{{{",".join(named)}}}')
        if self.cell is not None and (parameters := self.describer.parameters_of(self.cell)) is not None:
            own = [
                f"{quote(key)}:{self.describer.tensor(parameter, name, f'parameters.{key}')}"
                for key, parameter in parameters
            ]
            self.parts.append(f'"parameters":{{{",".join(own)}}}')

    def describe_outputs(self, results: tuple[Any, ...]) -> None:
        """Record the results as they are now."""
        describe, name = self.describer.value, self.name
        listed = [describe(v, name, f"output.{i}", 1) for i, v in enumerate(results)]
        self.parts.append(f'"output":[{",".join(listed)}]')

    def entry(self, more: str = "") -> str | None:
        """The JSON text of what was recorded, with `more` members; None where nothing was."""
        return f"{{{','.join(self.parts)}{more}{self.tail}}}" if self.parts and self.kept else None


Begin = Callable[[str, int, str], str]
"""Makes a call's name of stem, number and direction."""


def outcome(args: tuple[Any, ...], result: Any) -> Any:
    """What a call did: its result, or the tensor that it changed in place when it gives nothing (`x[0] = 1`)."""
    return args[0] if result is None and args else result


def results_of(result: Any) -> tuple[Any, ...]:
    """A call's result as a tuple of results; one with names of its own (a named tuple) is a single one."""
    if type(result) is tuple:
        return result
    # torch.return_types, by which torch.max(x, dim=1) gives values and indices, is a tuple without `_fields`
    return tuple(result) if isinstance(result, tuple) and is_listed(result) else (result,)
