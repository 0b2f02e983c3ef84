"""Arguments of collectives that are buffers: tensors that the collective fills, so that the values before the call are
meaningless.

By the signatures of torch.distributed, mindspore.mint.distributed and mindspore.communication.comm_func, which a test
reads. Functions that return their result have no such argument: they read the tensor that is passed first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msprobe.base import names

PREFIXES = ("Distributed.", "MintDistributed.", "communication.comm_func.")

BATCH = "batch_isend_irecv"
"""Each operation of a batch is a separate send or receive."""


@dataclass(frozen=True, slots=True)
class FilledArgument:
    """The argument that functions fill: its position among the positional ones, and its names.

    `functions` are parts of the names of functions; `is_whole`: whole names. `beside_another`: it is filled if another
    tensor is passed, and read otherwise.
    """

    functions: tuple[str, ...]
    position: int
    keywords: tuple[str, ...]
    is_whole: bool = False
    beside_another: bool = False

    def is_of(self, function: str) -> bool:
        """Return whether a function has this argument."""
        return function in self.functions if self.is_whole else any(part in function for part in self.functions)


FILLED = (
    FilledArgument(("recv",), 0, ("tensor", "object_list")),
    FilledArgument(
        ("all_gather", "reduce_scatter", "all_to_all"),
        0,
        ("output", "output_tensor", "output_tensor_list", "output_tensor_lists", "tensor_list", "object_list"),
        beside_another=True,
    ),
    FilledArgument(("scatter", "scatter_object_list"), 0, ("tensor", "scatter_object_output_list"), is_whole=True),
    FilledArgument(("gather", "gather_object"), 1, ("gather_list", "object_gather_list"), is_whole=True),
)


def function_of(call: str) -> str:
    """Return the name of the function that a forward call of these packages executes; empty for any other call."""
    if not call.startswith(PREFIXES):
        return ""
    name = names.parse(call)
    return name.stem.rsplit(".", 1)[-1] if name.kind == "api" and name.direction == "forward" else ""


def has_buffers(function: str) -> bool:
    """Return whether a function may fill an argument."""
    return function == BATCH or any(argument.is_of(function) for argument in FILLED)


def is_buffer(function: str, path: Sequence[str], tensors: Iterable[Sequence[str]], operation: object = None) -> bool:
    """Return whether a function fills the argument at a path.

    `tensors` are the paths of all tensors that are passed. `operation` is that of an entry of a batch (`isend`,
    `irecv`); an entry with an unknown one counts as filled.
    """
    if not path:
        return False
    if function == BATCH:
        return not isinstance(operation, str) or "recv" in operation
    for argument in FILLED:
        if argument.is_of(function):
            if path[0] not in (str(argument.position), *argument.keywords):
                return False
            return not argument.beside_another or any(other[:1] != path[:1] for other in tensors)
    return False
