"""`save`, `save_grad` and `step`: single tensors, wherever they come up: in a graph, under `@jit`, in plain Python.

In a graph these functions are compiled; what they call is chosen by constants while the compiler reads them.
"""

from typing import Any

from mindspore import Tensor, ops

from .arguments import check, refuse_data, refuse_gradient
from .compiled import in_graph
from .planted_save import admit, plant, plant_gradient, refuse_step
from .runtime import has_tensor_dump, rank, synchronize
from .tree import tree

_NEXT_STEP = "<tensordump-update-step>"
"""The name at which the framework's own operator begins its next step."""


def save(save_dir: str, name: str, data: Any) -> None:
    """Save a tensor, or the tensors in lists, tuples and dicts, to `{save_dir}/step{n}/rank{r}/{name}_{dtype}_{id}.npy`.

    A tensor inside a container has its positions and keys behind the name: `name.0.key`. None is passed over.
    bfloat16 is widened to float32. TypeError for anything else. See `docs/saving.md`.
    """
    if in_graph():
        admit("save", save_dir, name)
        plant(save_dir, name, data)
    else:
        check("save", save_dir, name)
        _save(save_dir, name, data)


def save_grad(save_dir: str, name: str, data: Any) -> Any:
    """Save the gradient that will flow back to a tensor, as `{name}_grad`; gives the tensor, to be used instead.

    TypeError for anything but a tensor. See `docs/saving.md`.
    """
    if in_graph():
        admit("save_grad", save_dir, name)
        return plant_gradient(save_dir, name, data)
    check("save_grad", save_dir, name)
    return _save_gradient(save_dir, name, data)


def step() -> None:
    """Begin the next step: what is saved from now on goes to `step{n+1}`. To be called outside of graphs."""
    if in_graph():
        refuse_step()
    else:
        _step()


def flush() -> None:
    """Wait until everything that was saved so far is in its file. To be called outside of graphs."""
    synchronize()
    tree.complete()


# ---- where Python runs ---------------------------------------------------------------------------------------------


def _save(save_dir: str, name: str, data: Any) -> None:
    if isinstance(data, Tensor):
        tree.save(save_dir, name, data.asnumpy(), str(data.dtype), tree.next_count(save_dir, name), rank())
    elif isinstance(data, (list, tuple)):
        for place, inner in enumerate(data):
            _save(save_dir, f"{name}.{place}", inner)
    elif isinstance(data, dict):
        for key, inner in data.items():
            _save(save_dir, f"{name}.{key}", inner)
    elif data is not None:
        refuse_data(name, type(data).__name__)


def _save_gradient(save_dir: str, name: str, data: Any) -> Any:
    if not isinstance(data, Tensor):
        refuse_gradient(name)
    name = f"{name}_grad"
    count = tree.next_count(save_dir, name)

    def arrived(gradient: Tensor) -> Tensor:
        tree.save(save_dir, name, gradient.asnumpy(), str(gradient.dtype), count, rank())
        return gradient

    return ops.InsertGradientOf(arrived)(data)


def _step() -> None:
    synchronize()
    if has_tensor_dump():
        ops.TensorDump()(_NEXT_STEP, Tensor(0.0))
        synchronize()
    tree.step()
