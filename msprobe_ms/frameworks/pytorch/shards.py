"""The local shards of distributed tensors (`DTensor`): FSDP2, tensor parallelism.

A distributed tensor is recorded by the elements that this rank holds, with the place of the shard in the whole tensor.
Nothing is communicated: the whole tensor is put together by the comparison. The classes are looked up in modules that
the training has imported; this module imports none of them.
"""

import json
import sys
from collections.abc import Callable
from functools import partial, wraps
from math import prod
from typing import Any
from weakref import finalize, ref

import torch

from msprobe.base.patches import Patches
from msprobe.cell_dump.wrappers import Current, Recorder

from .reading import is_distributed, local_part

_FSDP_PARAMETERS = (
    "torch.distributed.fsdp._fully_shard._fsdp_param",
    "torch.distributed._composable.fsdp._fsdp_param",
)
"""The module of FSDP2's own view of a parameter, from 2.6 on and before."""


FLAT = (
    "FullyShardedDataParallel keeps parameters in flat tensors: they and their gradients are recorded flat, and cannot "
    "be compared with those of another way of distributing; use fully_shard (FSDP2) for records of each parameter"
)


class Shards:
    """Describes shards as JSON text; every layout is described once."""

    def __init__(self) -> None:
        self._texts: dict[Any, str] = {}

    def text(self, tensor: torch.Tensor) -> str:
        """Return the value of a record's `shard`."""
        spec = tensor._spec  # type: ignore[attr-defined]  # DTensor's
        shape, local = tuple(tensor.shape), tuple(tensor._local_tensor.shape)  # type: ignore[attr-defined]  # as above
        key = spec.mesh, spec.placements, shape, local
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = json.dumps(_described(spec.mesh, spec.placements, shape, local))
        return text


def _described(mesh: Any, placements: Any, shape: tuple[int, ...], local: tuple[int, ...]) -> dict[str, Any]:
    coordinate = mesh.get_coordinate()
    found: dict[str, Any] = {"mesh": list(mesh.mesh.shape)}
    if mesh.mesh_dim_names:
        found["names"] = list(mesh.mesh_dim_names)
    found |= _ranks(mesh.mesh.tolist(), found["mesh"])
    found["at"] = None if coordinate is None else list(coordinate)
    found["placements"] = [_placement(each) for each in placements]
    found["shape"] = list(shape)
    if coordinate is not None:
        block = _block(found["mesh"], list(coordinate), placements, shape)
        if block is not None and block[1] == list(local):
            found["offset"] = block[0]
    return found


def _placement(placement: Any) -> str:
    kind = type(placement).__name__
    if kind == "Shard":
        return f"Shard({placement.dim})"
    if kind == "_StridedShard":
        return f"StridedShard({placement.dim},{placement.split_factor})"
    if kind == "Partial":
        return f"Partial({placement.reduce_op})"
    return "Replicate" if kind == "Replicate" else repr(placement)


def _ranks(ranks: Any, sizes: list[int]) -> dict[str, Any]:
    """The ranks of a mesh: the first one and the distance along each dimension, or a list where they are irregular."""
    flat: list[int] = _flat(ranks)
    strides: list[int] = []
    inner = 1
    for size in reversed(sizes):
        strides.insert(0, flat[inner] - flat[0] if size > 1 else 0)
        inner *= size
    places = [0]
    for size, stride in zip(sizes, strides, strict=True):
        places = [place + at * stride for place in places for at in range(size)]
    if [flat[0] + place for place in places] == flat:
        return {"first": flat[0], "strides": strides}
    return {"ranks": flat}


def _flat(ranks: Any) -> list[int]:
    return [rank for each in ranks for rank in _flat(each)] if isinstance(ranks, list) else [int(ranks)]


def _block(
    sizes: list[int], coordinate: list[int], placements: Any, shape: tuple[int, ...]
) -> tuple[list[int], list[int]] | None:
    """Return where a shard begins in the whole tensor, and its lengths; None where it is not one block.

    Chunks are those of `torch.chunk`: all of one length, the last ones shorter or empty. A strided shard is the part
    that FSDP takes of a tensor-parallel shard: the dimensions of the mesh that come later cut first.
    """
    begin, lengths = [0] * len(shape), list(shape)
    kinds = [type(placement).__name__ for placement in placements]
    for at in sorted(range(len(kinds)), key=lambda at: kinds[at] == "_StridedShard"):
        if kinds[at] not in ("Shard", "_StridedShard"):
            continue
        dim = placements[at].dim
        if kinds[at] == "_StridedShard":
            later = range(at + 1, len(kinds))
            parts = prod(sizes[n] for n in later if kinds[n] == "Shard" and placements[n].dim == dim)
            if placements[at].split_factor != parts or shape[dim] % (parts * sizes[at]):
                return None
        chunk = -(-lengths[dim] // sizes[at])
        start = min(coordinate[at] * chunk, lengths[dim])
        begin[dim] += start
        lengths[dim] = min(chunk, lengths[dim] - start)
    return begin, lengths


class _Handles:
    """Handles that are removed together."""

    def __init__(self, *handles: Any) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Remove all of them."""
        for handle in self._handles:
            handle.remove()


def hook_parameter(parameter: torch.Tensor, hook: Callable[..., None]) -> Any:
    """Hook the gradient of a parameter; return a handle.

    FSDP2 sets the gradient of a sharded parameter itself, without autograd, and then calls the hooks that are called
    after a gradient was accumulated. What such a parameter had before is then in the sum.
    """
    if not is_distributed(parameter):
        return parameter.register_hook(hook)
    by_autograd = False
    before_this = parameter.grad
    if before_this is not None and not local_part(before_this).any():
        before_this = None

    def before(gradient: Any) -> None:
        nonlocal by_autograd
        by_autograd = True
        hook(gradient)

    def after(parameter: Any) -> None:
        nonlocal by_autograd, before_this
        gradient = parameter.grad
        if not by_autograd and gradient is not None:
            hook(gradient, gradient is before_this)
        by_autograd, before_this = False, gradient

    return _Handles(parameter.register_hook(before), parameter.register_post_accumulate_grad_hook(after))


_GATHERED: dict[int, tuple[Any, Any]] = {}
"""Gathered parameters by their ids, with the sharded parameters that they take the place of; neither is kept alive."""


def own_part(parameter: torch.nn.Parameter) -> torch.nn.Parameter:
    """Return the sharded parameter of one that FSDP2 has gathered, and any other parameter itself."""
    gathered, sharded = _GATHERED.get(id(parameter), (None, None))
    if gathered is None or gathered() is not parameter:
        return parameter
    found: torch.nn.Parameter | None = sharded()
    return parameter if found is None else found


def _note_gathered(session: Recorder, sharded: Any, whole: Any) -> None:
    if sharded is None or whole is None:
        return
    session.also_named(sharded, whole)
    if id(whole) not in _GATHERED:
        _GATHERED[id(whole)] = ref(whole), ref(sharded)
        finalize(whole, _GATHERED.pop, id(whole), None).atexit = False


def plan_names(current: Current, guards: Patches) -> None:
    """Plan a patch that passes the names of the parameters that FSDP2 gathers to the session."""
    for name in _FSDP_PARAMETERS:
        owner = getattr(sys.modules.get(name), "FSDPParam", None)
        if owner is not None and hasattr(owner, "to_unsharded"):
            guards.add(owner, "to_unsharded", partial(_named, current))
            return


_PROPAGATION = ("torch.distributed.tensor._sharding_prop", "torch.distributed._tensor._sharding_prop")
"""The module by which operations on distributed tensors find the shapes of their results, from 2.5 on and before."""


def plan_shapes(current: Current, guards: Patches) -> None:
    """Plan a patch by which operations on fake tensors, which have shapes and no values, are not recorded."""
    name = "_propagate_tensor_meta_non_cached"
    for module in _PROPAGATION:
        owner = getattr(sys.modules.get(module), "ShardingPropagator", None)
        if owner is not None and hasattr(owner, name):
            guards.add(owner, name, partial(_not_recorded, current))
            return


def _not_recorded(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, in which no call is recorded."""

    @wraps(original)
    def propagate(*args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is None or session.busy:
            return original(*args, **kwargs)
        session.busy = True
        try:
            return original(*args, **kwargs)
        finally:
            session.busy = False

    return propagate


def _named(current: Current, original: Callable[..., Any]) -> Callable[..., Any]:
    """`original`, after which the gathered parameter has the name of the sharded one."""

    @wraps(original)
    def to_unsharded(parameter: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(parameter, *args, **kwargs)
        session = current()
        if session is not None:
            sharded, whole = (getattr(parameter, name, None) for name in ("sharded_param", "_unsharded_param"))
            session.guard(_note_gathered, session, sharded, whole)
        return result

    return to_unsharded
