"""A forward call between its begin and its end, and the entry that it becomes."""

from collections.abc import Callable, Sequence
from json.encoder import encode_basestring_ascii as quote
from typing import Any

from msprobe.base.nested import Leaf, Lost, Tree, is_tuple, key_names
from msprobe.base.scope import DataMode

from .backward import Backward
from .describer import Describer, Sources


class Forward:
    """A forward call between its begin and its end."""

    __slots__ = (
        *("arguments", "backward", "cell", "describer", "first_node", "floor", "kept", "lost", "mode", "name"),
        *("parent", "parts", "stack", "stem", "tail", "tensors", "wanted"),
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
        self.arguments: Sequence[Any] = ()
        """The inputs as trees, those given by keyword behind the others."""
        self.tensors: Sequence[Leaf] = ()
        """The tensors among them."""
        self.lost: list[tuple[str, Lost]] = []
        """What was left out of inputs and outputs, each with its part: `input.0.mask`."""
        self.wanted: Any = None
        self.floor = -1
        self.first_node = 0
        """The number of the first node of the graph that it may have made, where the framework has such."""
        self.backward: Backward | None = None

    @property
    def parent_name(self) -> str | None:
        """The name of the enclosing cell's call."""
        return self.parent.name if self.parent is not None else None

    def run_back(self) -> "Forward":
        """What stands for this call's backward as the place of calls that the backward itself makes."""
        name = self.backward.name if self.backward is not None else self.name
        return Forward(self.stem, name, None, self.cell, self.describer, self.mode, self.tail)

    def take_inputs(self, tree: Tree) -> None:
        """Hold the inputs until the call's end."""
        self.arguments, self.tensors = tree.values, tree.tensors

    def let_go(self) -> None:
        """Hold the inputs no longer: a recomputation may remember the call, but not what it was given."""
        self.arguments = self.tensors = ()
        self.wanted = None

    def describe_inputs(self, lost: Sequence[Lost], keywords: Sequence[str], sources: Sources) -> None:
        """Record the inputs as they are now, the last of them given by `keywords`, and a cell's own parameters.

        `lost` is what was left out of them when they were read.
        """
        if lost:
            self._note_inputs(lost, keywords)
        if not self.mode.forward:
            return
        describe, name, values = self.describer.value, self.name, self.arguments
        if self.mode.input:
            first = len(values) - len(keywords)
            listed = [describe(v, name, f"input.{i}", sources) for i, v in enumerate(values[:first])]
            named = [
                f"{quote(k)}:{describe(v, name, f'kwargs.{k}', sources)}"
                for k, v in zip(key_names(keywords, values[first:]), values[first:], strict=True)
            ]
            self.parts.append(f'"input_args":[{",".join(listed)}],"input_kwargs":{{{",".join(named)}}}')
        if self.cell is not None and (parameters := self.describer.parameters_of(self.cell)) is not None:
            own = [
                f"{quote(key)}:{self.describer.tensor(parameter, name, f'parameters.{key}')}"
                for key, parameter in parameters
            ]
            self.parts.append(f'"parameters":{{{",".join(own)}}}')

    def _note_inputs(self, lost: Sequence[Lost], keywords: Sequence[str]) -> None:
        """Keep in mind what was left out of the inputs."""
        first = len(self.arguments) - len(keywords)
        for each in lost:
            number, dot, rest = each.place.partition(".")
            i = int(number)
            part = f"input.{i}" if i < first else f"kwargs.{key_names(keywords, self.arguments[first:])[i - first]}"
            self.lost.append((f"{part}{dot}{rest}", each))

    def name_lost(self) -> None:
        """Have the dump name what was left out, now that the call stands in it."""
        for part, each in self.lost:
            self.describer.lost(self.name, part, each.cause, each.kind)
        self.lost.clear()

    def describe_outputs(self, results: Sequence[Any], lost: Sequence[Lost]) -> None:
        """Record the results as they are now; `lost` is what was left out of them."""
        self.lost.extend((f"output.{each.place}", each) for each in lost)
        describe, name = self.describer.value, self.name
        listed = [describe(v, name, f"output.{i}") for i, v in enumerate(results)]
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
    return tuple(tuple.__iter__(result)) if is_tuple(result) else (result,)
