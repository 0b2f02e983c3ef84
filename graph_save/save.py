"""`save`, `save_grad` and `step`: single tensors, wherever they come up: in a graph, under `@jit`, in plain Python.

In a graph these functions are compiled; what they call is chosen by constants while the compiler reads them.
"""

import atexit
from collections.abc import Iterator
from typing import Any

from mindspore import Tensor, ops

from msprobe.base.log import once
from msprobe.base.nested import is_tensor, leaves_of, tree_of_one, type_name

from .operators import has_tensor_dump, in_graph, is_traced, rank, synchronize
from .planted_save import admit, check, plant, plant_gradient, refuse_data, refuse_gradient, refuse_in_graph
from .transport.tensordump import next_step
from .tree import tree


def save(save_dir: str, name: str, data: Any) -> None:
    """Save a tensor, or those in lists, tuples and dicts, to `{save_dir}/step{n}/rank{r}/{name}_{dtype}_{id}.npy`.

    A tensor inside a container has its positions and keys behind the name: `name.0.key`. None is passed over.
    bfloat16 is widened to float32. TypeError for anything else. See `how-to/collecting/saving.md`.
    """
    if in_graph():
        admit("save", save_dir, name)
        plant("save", save_dir, name, data)
    else:
        check("save", save_dir, name)
        _save(save_dir, name, data)


def save_grad(save_dir: str, name: str, data: Any) -> Any:
    """Save the gradient that will flow back to a tensor, as `{name}_grad`; returns the tensor, to be used instead.

    TypeError for anything but a tensor. See `how-to/collecting/saving.md`.
    """
    if in_graph():
        admit("save_grad", save_dir, name)
        return plant_gradient(save_dir, name, data)
    check("save_grad", save_dir, name)
    return _save_gradient(save_dir, name, data)


def step() -> None:
    """Begin the next step: what is saved from now on goes to `step{n+1}`. To be called outside of graphs."""
    if in_graph():
        refuse_in_graph("step")
    else:
        _step()


def flush() -> None:
    """Wait until everything that was saved so far is in its file. To be called outside of graphs."""
    if in_graph():
        refuse_in_graph("flush")
    else:
        _flush()


# ---- where Python runs ---------------------------------------------------------------------------------------------


def _save(save_dir: str, name: str, data: Any) -> None:
    tensors = list(_tensors(name, data))
    if _captured():
        return
    tree.expect()
    for inner, tensor in tensors:
        array = tensor.asnumpy()  # an error of the training that comes up here is the training's
        tree.save(save_dir, inner, array, str(tensor.dtype), tree.next_count(save_dir, inner), rank())


def _tensors(name: str, data: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors of the data; what of a container cannot be read is logged once, and left out."""
    tree = tree_of_one(data, name, fields=False)
    for lost in tree.lost:
        once(f"save: {lost.kind}", f"save: {lost.place[:200]}: {lost.cause}; it is not saved, the training continues")
    left_out = {lost.place for lost in tree.lost}
    for place, leaf in leaves_of(tree.values[0], name):
        if is_tensor(leaf) and isinstance(leaf, Tensor):  # the second would ask foreign classes
            yield place, leaf
        elif leaf is not None and place not in left_out:
            refuse_data(place, type_name(leaf))


def _save_gradient(save_dir: str, name: str, data: Any) -> Any:
    if not isinstance(data, Tensor):
        refuse_gradient(name)
    if _captured():
        return data
    tree.expect()
    name = f"{name}_grad"
    count = tree.next_count(save_dir, name)

    def arrived(gradient: Tensor) -> Tensor:
        tree.save(save_dir, name, gradient.asnumpy(), str(gradient.dtype), count, rank())
        return gradient

    return ops.InsertGradientOf(arrived)(data)


def _captured() -> bool:
    """Whether a graph is being captured by tracing, in which a save could not be; says it once."""
    if not is_traced():
        return False
    once(
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


atexit.register(lambda: _flush() if tree.expects() else None)
