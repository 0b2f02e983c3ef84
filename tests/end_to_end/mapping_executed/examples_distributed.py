"""Calls that exchange tensors between ranks. MindSpore is not asked here, PyTorch with a single rank: it takes the
translated arguments, and what one rank sends comes back to it."""

from dataclasses import replace

import numpy as np
from executed import ex, floats

X = floats(2, 3)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def both(name, *args, **kwargs):
    """Of `mint.distributed`, and of `ops.communication`, which has the same functions.

    Those of the older `comm_func` give results instead of writing them; PyTorch must be told where to.
    """
    return [
        replace(ex(f"{prefix}.{name}", *args, **kwargs), overload=0) for prefix in ("MintDistributed", "Distributed")
    ]


EXAMPLES = [
    *both("all_gather", [zeros(2, 3)], X),
    *both("all_gather_into_tensor", zeros(2, 3), X),
    *both("all_gather_object", [None], "text"),
    *both("all_reduce", X),
    *both("all_to_all", [zeros(2, 3)], [X]),
    *both("all_to_all_single", zeros(2, 3), X, [2], [2]),
    *both("barrier"),
    *both("broadcast", X, 0),
    *both("broadcast_object_list", ["text"], 0),
    *both("gather", X, [zeros(2, 3)], 0),
    *both("gather_object", "text", [None], 0),
    *both("reduce", X, 0),
    *both("reduce_scatter", zeros(2, 3), [X]),
    *both("reduce_scatter_tensor", zeros(2, 3), X),
    *both("scatter", zeros(2, 3), [X], 0),
    *both("scatter_object_list", [None], ["text"], 0),
]
