"""`save`, `save_grad` and `step`: save single tensors in a graph, under `@jit`, or in plain Python.

In a graph these functions are compiled; the operators are selected by constants at compile time.
"""

import atexit
from collections.abc import Iterator
from typing import Any

from mindspore import Tensor, ops

from msprobe.base.log import log_once
from msprobe.base.nested import is_tensor, leaves_of, tree_of_value, type_name

from .compiled_save import (
    insert_save,
    insert_save_gradient,
    refuse_data,
    refuse_gradient,
    refuse_in_graph,
    validate_arguments,
    validate_in_graph,
)
from .operators import has_tensor_dump, in_graph, is_traced, rank, synchronize
from .transport.tensordump import next_step
from .tree import tree


def save(save_dir: str, name: str, data: Any) -> None:
    """Save a tensor, or tensors in lists, tuples and dicts, to `{save_dir}/step{n}/rank{r}/{name}_{dtype}_{id}.npy`.

    The name of a tensor in a container is followed by its positions and keys: `name.0.key`. None is skipped. bfloat16
    is widened to float32. Raises TypeError for other values. See `how-to/collecting/saving.md`.
    """
    if in_graph():
        validate_in_graph("save", save_dir, name)
        insert_save("save", save_dir, name, data)
    else:
        validate_arguments("save", save_dir, name)
        _save(save_dir, name, data)


def save_grad(save_dir: str, name: str, data: Any) -> Any:
    """Save the gradient of a tensor as `{name}_grad`; return the tensor, which must be used in place of `data`.

    Raises TypeError if `data` is not a tensor. See `how-to/collecting/saving.md`.
    """
    if in_graph():
        validate_in_graph("save_grad", save_dir, name)
        return insert_save_gradient(save_dir, name, data)
    validate_arguments("save_grad", save_dir, name)
    return _save_gradient(save_dir, name, data)


def step() -> None:
    """Begin the next step: later saves are written to `step{n+1}`. Call it outside of graphs."""
    if in_graph():
        refuse_in_graph("step")
    else:
        _step()


def flush() -> None:
    """Wait until all saved tensors are written. Call it outside of graphs."""
    if in_graph():
        refuse_in_graph("flush")
    else:
        _flush()


# ---- in Python -----------------------------------------------------------------------------------------------------


def _save(save_dir: str, name: str, data: Any) -> None:
    tensors = list(_tensors(name, data))
    if _is_captured_by_tracing():
        return
    tree.mark_pending()
    for inner, tensor in tensors:
        array = tensor.asnumpy()  # An earlier error of the training may be raised here; it is not handled.
        tree.save(save_dir, inner, array, str(tensor.dtype), tree.next_count(save_dir, inner), rank())


def _tensors(name: str, data: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of the data with their names; unreadable parts of containers are logged and skipped."""
    tree = tree_of_value(data, name, fields=False)
    for unreadable in tree.lost:
        log_once(
            f"save: {unreadable.kind}",
            f"save: {unreadable.place[:200]}: {unreadable.cause}; it is not saved, the training continues",
        )
    skipped = {unreadable.place for unreadable in tree.lost}
    for place, leaf in leaves_of(tree.values[0], name):
        if is_tensor(leaf) and isinstance(leaf, Tensor):  # `isinstance` alone may run code of other classes
            yield place, leaf
        elif leaf is not None and place not in skipped:
            refuse_data(place, type_name(leaf))


def _save_gradient(save_dir: str, name: str, data: Any) -> Any:
    if not isinstance(data, Tensor):
        refuse_gradient(name)
    if _is_captured_by_tracing():
        return data
    tree.mark_pending()
    name = f"{name}_grad"
    count = tree.next_count(save_dir, name)

    def arrived(gradient: Tensor) -> Tensor:
        tree.save(save_dir, name, gradient.asnumpy(), str(gradient.dtype), count, rank())
        return gradient

    return ops.InsertGradientOf(arrived)(data)


def _is_captured_by_tracing() -> bool:
    """Return whether a graph is being captured by tracing, where saves have no effect; logged once."""
    if not is_traced():
        return False
    log_once(
        "traced",
        'save and save_grad have no effect in a graph captured by tracing; use capture_mode="ast" or "bytecode"',
    )
    return True


def _flush() -> None:
    try:
        synchronize()
    finally:
        tree.complete()


def _step() -> None:
    synchronize()
    if has_tensor_dump():
        next_step()
    tree.step()


atexit.register(lambda: _flush() if tree.may_have_pending() else None)
