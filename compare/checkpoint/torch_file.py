"""A state dict in a file of `torch.save`: plain, or under one of the names that training programs give it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.store.pt import Listed, PtTensor, Tree, load_tree

from .parameter import Checkpoint, Parameter

STATES = ("model", "state_dict", "model_state_dict", "module", "net", "network", "weights")
"""Where programs put the model's parameters beside the optimizer's state; the first that is there is taken."""

_OF_MODULE = ("_parameters", "_buffers", "_modules")

_WRAPPERS = ("module.", "_orig_mod.")
"""What DistributedDataParallel and torch.compile put before every name."""


def read_torch(path: Path) -> Checkpoint:
    """The model's parameters in a file of `torch.save`.

    DumpError as of `load_tree`, and where it holds several dictionaries of tensors and none has a known name.
    """
    return Checkpoint(str(path), "pytorch", _without_wrappers(parameters(state_of(load_tree(path), path))))


def state_of(tree: Tree, path: Path) -> Tree:
    """The dictionary of the model's parameters in a tree."""
    if any(isinstance(value, PtTensor) for value in tree.values()) or _is_module(tree):
        return tree
    inner = {key: value for key, value in tree.items() if _may_be_a_state(value) and _holds_tensors(value)}
    for key in STATES:
        if key in inner:
            return state_of(inner[key], path)
    if len(inner) > 1 and _is_one_model(tree, inner):
        return tree
    if len(inner) != 1:
        raise DumpError(
            f"{path}: does not say which of its entries ({', '.join(map(str, list(tree)[:8])) or 'none'}) are the "
            "model's parameters; save the state_dict() alone with torch.save"
        )
    return state_of(next(iter(inner.values())), path)


def parameters(state: Tree) -> dict[str, Parameter]:
    """The tensors of nested dictionaries, named by the way to them."""
    return {name: Parameter(name, one.dtype, one.shape, one.array) for name, one in _walk(state, "")}


def _is_module(tree: Tree) -> bool:
    """Whether this was an nn.Module: somebody saved the model itself, and not its state_dict()."""
    return all(isinstance(tree.get(key), Mapping) for key in _OF_MODULE)


def _walk(state: Tree, before: str) -> Iterator[tuple[str, PtTensor]]:
    if _is_module(state):
        state = {name: one for key in _OF_MODULE for name, one in state[key].items()}
    for key, value in state.items():
        if isinstance(value, PtTensor):
            yield before + key, value
        elif isinstance(value, Mapping):
            yield from _walk(value, f"{before}{key}.")


def _may_be_a_state(value: object) -> bool:
    """A list beside the model is of something else: random states, or one state for each optimizer."""
    return isinstance(value, Mapping) and not isinstance(value, Listed)


def _holds_tensors(tree: Tree) -> bool:
    return any(True for _ in _walk(tree, ""))


def _is_one_model(tree: Tree, inner: Tree) -> bool:
    """Whether dictionaries of tensors are the parts of one model: nothing else stands beside them."""
    return len(inner) == len(tree)


def _without_wrappers(found: dict[str, Parameter]) -> dict[str, Parameter]:
    for prefix in _WRAPPERS:
        if found and all(name.startswith(prefix) for name in found):
            found = {name.removeprefix(prefix): one for name, one in found.items()}
    return found
